"""`python -m tests.fuzz [target] --seconds 600`: exit status 0 when nothing was found; see the package."""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable

from stack.settings import ROOT

CORPUS = ROOT / "var" / "fuzz"
# What an input may cost is CPU time: a machine that pauses is no finding. The fuzzer's own limit, of
# wall time, is for what never ends.
SLOW_SECONDS = 5.0
ENDLESS_SECONDS = 7200


def main() -> int:
    # Fuzzed modules are imported under the fuzzer's instrumentation, so not before it.
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", nargs="?", default="")
    parser.add_argument("--seconds", type=int, default=600)
    asked = parser.parse_args()
    if asked.target:
        return fuzz(asked.target, asked.seconds)
    names = _names()
    found = [name for name in names if not _nothing_found(name, asked.seconds // len(names))]
    print(f"{len(names)} targets; with findings: {', '.join(found) or 'none'}")
    return 1 if found else 0


def _nothing_found(name: str, seconds: int) -> bool:
    """In a process of its own, which a finding ends."""
    began, used = time.monotonic(), _used_by_children()
    result = subprocess.run([sys.executable, "-m", "tests.fuzz", name, f"--seconds={seconds}"])
    print(
        f"{name}: {'nothing found' if result.returncode == 0 else 'A FINDING'} in "
        f"{time.monotonic() - began:.0f} s, {_used_by_children() - used:.0f} s of them at work",
        flush=True,
    )
    return result.returncode == 0


def _used_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _names() -> list[str]:
    from tests.fuzz.targets import TARGETS

    return list(TARGETS)


def fuzz(name: str, seconds: int) -> int:
    import atheris

    with atheris.instrument_imports(include=["inference_runtime"]):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    directory = CORPUS / name
    directory.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (directory / f"seed{number}").write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        "-max_len=8192",
        f"-timeout={ENDLESS_SECONDS}",
        "-print_final_stats=1",
        f"-artifact_prefix={directory}-finding-",
        str(directory),
    ]
    atheris.Setup([sys.argv[0], *options], in_time(target.run))
    atheris.Fuzz()
    return 0


def in_time(run: Callable[[bytes], None]) -> Callable[[bytes], None]:
    def timed(data: bytes) -> None:
        began = time.process_time()
        run(data)
        used = time.process_time() - began
        assert used < SLOW_SECONDS, f"{len(data)} bytes took {used:.1f} s"

    return timed


if __name__ == "__main__":
    sys.exit(main())
