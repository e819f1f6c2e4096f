"""`python -m tests.fuzz [target] --seconds 600`: exit status 0 when nothing was found; see the package."""

import argparse
import subprocess
import sys

from stack.settings import ROOT

CORPUS = ROOT / "var" / "fuzz"


def main() -> int:
    # Fuzzed modules are imported under the fuzzer's instrumentation, so not before it.
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", nargs="?", default="")
    parser.add_argument("--seconds", type=int, default=600)
    asked = parser.parse_args()
    if asked.target:
        return fuzz(asked.target, asked.seconds)
    names = _names()
    command = [sys.executable, "-m", "tests.fuzz"]
    found = [
        name
        for name in names
        if subprocess.run([*command, name, f"--seconds={asked.seconds // len(names)}"]).returncode
    ]
    print(f"{len(names)} targets; with findings: {', '.join(found) or 'none'}")
    return 1 if found else 0


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
        "-timeout=10",
        f"-artifact_prefix={directory}-finding-",
        str(directory),
    ]
    atheris.Setup([sys.argv[0], *options], target.run)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
