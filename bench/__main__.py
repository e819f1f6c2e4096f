"""`python -m bench`: the goals, and real models beside bare ONNX Runtime, in alternating rounds; into RESULTS.md."""

import argparse
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from bench import command, goals, load, report
from bench.bare import BareLoops, bare_loops
from bench.served import Served, serve, verify, write_repository
from bench.subjects import Subject, corpus_subjects
from stack.corpus.models import Corpus
from stack.settings import StackSettings

_LOAD_BEFORE = os.getloadavg()[0]


def main() -> int:
    parser = command.command("bench", __doc__, seconds=1)
    parser.add_argument("--parts", default="goals,models", help="what to measure")
    parser.add_argument("--no-peers", action="store_true", help="install no other servers")
    parser.add_argument("--connections", default="1,8,32")
    parser.add_argument("--protocols", default="grpc,http")
    parser.add_argument("--models", default="lightgbm,minilm,efficientnet")
    command.with_results(parser)
    arguments = command.parse(parser)
    path = command.results(arguments)
    facts = command.facts(arguments, _machine())
    home = StackSettings.read().home
    parts = arguments.parts.split(",")
    failed = 0
    if "goals" in parts:
        measured = goals.measure(
            home, rounds=arguments.rounds, seconds=arguments.seconds, peers=not arguments.no_peers
        )
        print(report.write_goals(path, measured, facts))
        failed += measured.failed
    if "models" in parts:
        wanted = arguments.models.split(",")
        subjects = [s for s in corpus_subjects(Corpus(home / "corpus")) if s.name in wanted]
        rows = _measure(subjects, arguments)
        print(report.write(path, rows, facts))
        failed += sum(row.served.failed for row in rows)
    return 1 if failed else 0


def _measure(subjects: list[Subject], arguments: argparse.Namespace) -> list[report.Row]:
    rows = [
        report.Row(subject.name, protocol, connections)
        for subject in subjects
        for protocol in arguments.protocols.split(",")
        for connections in map(int, arguments.connections.split(","))
    ]
    by_name = {subject.name: subject for subject in subjects}
    with tempfile.TemporaryDirectory() as folder:
        write_repository(Path(folder), subjects)
        for round_number in range(1, arguments.rounds + 1):
            print(f"round {round_number} of {arguments.rounds}", file=sys.stderr, flush=True)
            sizes = [(subject, batch) for subject in subjects for batch in (1, subject.batch)]
            with serve(Path(folder)) as served, bare_loops(*sizes) as loops:
                for subject in subjects:
                    verify(served, subject)
                for row in rows:
                    _measure_row(row, served, loops, by_name[row.subject], arguments.seconds)
    return rows


def _measure_row(
    row: report.Row, served: Served, loops: BareLoops, subject: Subject, seconds: int
) -> None:
    """The loop before and after, as long together as the load."""
    limits = [_bare(loops, subject, seconds / 4)]
    rate = load.measure(
        served, subject, protocol=row.protocol, connections=row.connections, seconds=seconds
    )
    limits.append(_bare(loops, subject, seconds / 4))
    row.served.add(rate)
    row.bare_single.append(sum(single for single, _ in limits) / 2)
    row.bare_batched.append(sum(batched for _, batched in limits) / 2)


def _bare(loops: BareLoops, subject: Subject, seconds: float) -> tuple[float, float]:
    single = loops.items_per_second(subject, batch=1, seconds=seconds)
    batched = loops.items_per_second(subject, batch=subject.batch, seconds=seconds)
    return single, max(single, batched)


def _machine() -> dict[str, str]:
    return {
        "onnxruntime": version("onnxruntime"),
        "load of the machine before": f"{_LOAD_BEFORE:.1f}",
    }


if __name__ == "__main__":
    sys.exit(main())
