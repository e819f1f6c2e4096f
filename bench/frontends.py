"""`python -m bench.frontends`: `--frontends 2` against one process, same load, in alternating rounds.

Also what a request costs either side. The executor's part is what limits a machine with many cores.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench import load
from bench.served import Served, serve, verify, write_repository
from bench.subjects import Subject, generated_subjects

_MODELS = ("tiny", "mlp")
_PROTOCOLS = ("grpc", "http")


@dataclass
class Row:
    """Round by round: requests a second, and processor time of each side in µs a request."""

    model: str
    protocol: str
    one: list[float] = field(default_factory=list)
    several: list[float] = field(default_factory=list)
    one_us: list[float] = field(default_factory=list)
    executor_us: list[float] = field(default_factory=list)
    front_ends_us: list[float] = field(default_factory=list)
    failed: int = 0

    def line(self) -> str:
        faster = [several / one for several, one in zip(self.several, self.one, strict=True)]
        costs = (self.one_us, self.executor_us, self.front_ends_us)
        dearer = [(executor + front) / one for one, executor, front in zip(*costs, strict=True)]
        cells = [self.model, self.protocol, _spread(faster)]
        cells += [f"{statistics.median(each):.0f}" for each in costs]
        return f"| {' | '.join([*cells, _spread(dearer), str(self.failed)])} |"


def _spread(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f} [{min(ratios):.2f}..{max(ratios):.2f}]"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.frontends", description=__doc__)
    parser.add_argument("--frontends", type=int, default=2)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2, help="of each measurement")
    arguments = parser.parse_args()
    try:
        load.require_h2load()
    except load.NoLoader as problem:
        print(problem, file=sys.stderr)
        return 1
    rows = [Row(model, protocol) for model in _MODELS for protocol in _PROTOCOLS]
    with tempfile.TemporaryDirectory() as folder:
        _measure(Path(folder), rows, arguments)
    print(f"{arguments.connections} connections, {os.cpu_count()} cores.\n")
    print(
        f"| model | protocol | --frontends {arguments.frontends} ÷ one process, requests/s | CPU µs/request: ",
        end="",
    )
    print("one process | executor | front ends | together ÷ one process | failed |")
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(row.line() for row in rows))
    return 1 if any(row.failed for row in rows) else 0


def _measure(folder: Path, rows: Sequence[Row], arguments: argparse.Namespace) -> None:
    subjects = generated_subjects(folder)
    small = {name: subjects[name] for name in _MODELS}
    repository = folder / "repository"
    write_repository(repository, list(small.values()))
    options = f"--frontends={arguments.frontends}"
    with serve(repository) as one, serve(repository, options) as several:
        for server in (one, several):  # what a start leaves to be done is done by the first load
            load.measure(
                server, small[_MODELS[0]], protocol=_PROTOCOLS[0],
                connections=arguments.connections, seconds=1,
            )  # fmt: skip
        for number in range(arguments.rounds):
            print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
            for row in rows:
                subject = small[row.model]
                # One right after the other, so that the machine is the same for both.
                for server in (one, several) if number % 2 else (several, one):
                    verify(server, subject)
                    _load(row, subject, server, arguments, alone=server is one)


def _load(
    row: Row, subject: Subject, server: Served, arguments: argparse.Namespace, *, alone: bool
) -> None:
    children = _children(server.pid)
    before = _cpu_seconds(server.pid), sum(map(_cpu_seconds, children))
    counted = server.counters(subject.name)[0]
    rate = load.measure(
        server, subject, protocol=row.protocol, connections=arguments.connections,
        seconds=arguments.seconds,
    )  # fmt: skip
    answered = max(server.counters(subject.name)[0] - counted, 1)
    executor_us = 1e6 * (_cpu_seconds(server.pid) - before[0]) / answered
    row.failed += rate.failed
    if alone:
        row.one.append(rate.per_second)
        row.one_us.append(executor_us)
        return
    row.several.append(rate.per_second)
    row.executor_us.append(executor_us)
    row.front_ends_us.append(1e6 * (sum(map(_cpu_seconds, children)) - before[1]) / answered)


def _children(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children()]


def _cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    sys.exit(main())
