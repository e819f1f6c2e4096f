"""Rows 6 to 9 of the design's goals, and what every variant of a request costs, in alternating rounds."""

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from bench import load
from bench.bare import BareLoops, bare_loops
from bench.peers import KSERVE, MLSERVER, NoPeer, Peer, serve_peer
from bench.processes import ServerProcess
from bench.series import Series
from bench.served import serve, serve_probe, verify, write_repository
from bench.subjects import Subject, generated_subjects

OURS, PROBE = "runtime", "probe"
TRACED, SPLIT = "runtime, tracing 1 in 1000", "runtime, 2 front-end processes"
BARE_BATCHED, BARE_SINGLE = "ONNX Runtime, best batch", "ONNX Runtime, batch 1"


@dataclass(frozen=True)
class Case:
    """One kind of load. `servers` get it one after the other, in turns. `longer`: times the usual seconds, where
    a second is a handful of batches."""

    protocol: str
    model: str
    connections: int
    servers: tuple[str, ...]
    longer: int = 1

    @property
    def name(self) -> str:
        return f"{self.protocol} {self.model} ×{self.connections}"


CASES = (
    Case("grpc", "tiny", 32, (OURS, PROBE, TRACED, SPLIT)),
    Case("http", "tiny", 32, (OURS, PROBE, SPLIT)),
    Case("grpc", "mlp", 64, (OURS, PROBE, SPLIT)),
    Case("http", "mlp", 64, (OURS, PROBE)),
    Case("grpc", "mlp", 32, (OURS, KSERVE.name, MLSERVER.name)),
    Case("grpc", "cnn", 8, (OURS,), longer=5),
    Case("json", "tiny", 32, (OURS,)),
    Case("grpc", "tiny", 1, (OURS, PROBE)),
    Case("http", "tiny", 1, (OURS, PROBE)),
)


# Batches to try, by load and by what the loop is called.
_BARE: dict[str, dict[str, tuple[int, ...]]] = {
    "http mlp ×64": {BARE_SINGLE: (1,)},
    "grpc cnn ×8": {BARE_BATCHED: (1, 8)},
}


@dataclass(frozen=True)
class Goal:
    """Ours ÷ the best of `against`, both from the load `case`."""

    row: str
    case: str
    against: tuple[str, ...]
    must: float
    aim: float


GOALS = (
    Goal("6", "grpc cnn ×8", (BARE_BATCHED,), 0.90, 0.97),
    Goal("7", "http mlp ×64", (BARE_SINGLE,), 0.45, 0.8),
    Goal("8", "grpc mlp ×32", (KSERVE.name, MLSERVER.name), 10, 25),
    Goal("9", "grpc tiny ×32", (PROBE,), 0.5, 0.75),
    Goal("9", "http tiny ×32", (PROBE,), 0.5, 0.75),
    Goal("9", "grpc mlp ×64", (PROBE,), 0.5, 0.75),
)


@dataclass
class Measured:
    """By case and server; bare loops stand beside the servers, without latency or CPU."""

    series: dict[tuple[str, str], Series] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def of(self, case: str, server: str) -> Series:
        return self.series.setdefault((case, server), Series())

    def ratios(self, goal: Goal) -> list[float]:
        """Round by round; empty when there was nothing to compare with. A peer that stopped starting has
        its first rounds only."""
        ours = self.of(goal.case, OURS).per_second
        found = [self.series.get((goal.case, name), Series()).per_second for name in goal.against]
        best = [max(values) for values in zip(*(one for one in found if one), strict=False)]
        return [a / b for a, b in zip(ours, best, strict=False)]

    @property
    def failed(self) -> int:
        return sum(series.failed for series in self.series.values())


def measure(home: Path, *, rounds: int, seconds: int, peers: bool) -> Measured:
    measured = Measured()
    pythons = _installed(home, measured) if peers else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subjects = generated_subjects(folder)
        write_repository(folder / "repository", list(subjects.values()))
        work = _Round(folder, subjects, measured, seconds)
        for number in range(rounds):
            print(f"goals: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            work.ours_and_probe(swapped=bool(number % 2))
            for peer, python in list(pythons.items()):
                try:
                    work.peer(peer, python)
                except NoPeer as problem:
                    measured.skipped.append(str(problem))
                    del pythons[peer]
    return measured


def _installed(home: Path, measured: Measured) -> dict[Peer, Path]:
    found = {}
    for peer in (KSERVE, MLSERVER):
        try:
            found[peer] = peer.install(home)
        except NoPeer as problem:
            measured.skipped.append(str(problem))
    return found


@dataclass(frozen=True)
class _Round:
    folder: Path
    subjects: dict[str, Subject]
    measured: Measured
    seconds: int

    def bare_loop(self, loops: BareLoops, case: Case) -> dict[str, float]:
        """By what the loop is called; half of it before the load that is compared with it and half after, so
        that the machine is the same for both."""
        subject = self.subjects[case.model]
        seconds = self.seconds * case.longer / 2
        return {
            server: max(
                loops.items_per_second(subject, batch=batch, seconds=seconds) for batch in batches
            )
            for server, batches in _BARE.get(case.name, {}).items()
        }

    def ours_and_probe(self, *, swapped: bool) -> None:
        small = [self.subjects[name] for name in ("tiny", "mlp")]
        trace = self.folder / "trace.json"
        traced = ("--trace-config=level=TIMESTAMPS", "--trace-config=rate=1000",
                  f"--trace-config=triton,file={trace}")  # fmt: skip
        repository = self.folder / "repository"
        compared = [
            (self.subjects[case.model], batch)
            for case in CASES
            for batches in _BARE.get(case.name, {}).values()
            for batch in batches
        ]
        with (
            bare_loops(*compared) as loops,
            serve(repository) as ours,
            serve(repository, *traced) as with_traces,
            serve(repository, "--frontends=2") as split,
            serve_probe([subject.file for subject in small]) as probe,
        ):
            servers: dict[str, ServerProcess] = {
                OURS: ours, PROBE: probe, TRACED: with_traces, SPLIT: split,
            }  # fmt: skip
            for case in CASES:
                before = self.bare_loop(loops, case)
                names = [name for name in case.servers if name in servers]
                for name in reversed(names) if swapped else names:
                    self._load(case, name, servers[name])
                for name, rate in self.bare_loop(loops, case).items():
                    self.measured.of(case.name, name).per_second.append((before[name] + rate) / 2)

    def peer(self, peer: Peer, python: Path) -> None:
        cases = [case for case in CASES if peer.name in case.servers]
        subjects = [self.subjects[name] for name in sorted({case.model for case in cases})]
        with serve_peer(peer, python, self.folder, subjects) as server:
            for case in cases:
                self._load(case, peer.name, server)

    def _load(self, case: Case, name: str, server: ServerProcess) -> None:
        subject = self.subjects[case.model]
        verify(server, subject)
        if case.protocol != "grpc":
            load.verify_load(server, subject, case.protocol)
        rate = load.measure(
            server, subject, protocol=case.protocol, connections=case.connections,
            seconds=self.seconds * case.longer,
        )  # fmt: skip
        self.measured.of(case.name, name).add(rate)
