"""`python -m bench`: the goals, and real models beside bare ONNX Runtime, in alternating rounds; into RESULTS.md."""

import argparse
import os
import sys
import tempfile
from datetime import date
from importlib.metadata import version
from pathlib import Path

from bench import bare, goals, load, report
from bench.served import Served, serve, verify, write_repository
from bench.subjects import Subject, corpus_subjects
from stack.corpus.models import Corpus
from stack.settings import StackSettings

_RESULTS = Path(__file__).parent / "RESULTS.md"
_LOAD_BEFORE = os.getloadavg()[0]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--parts", default="goals,models", help="what to measure")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=1, help="of each measurement")
    parser.add_argument("--no-peers", action="store_true", help="install no other servers")
    parser.add_argument("--connections", default="1,8,32")
    parser.add_argument("--protocols", default="grpc,http")
    parser.add_argument("--models", default="lightgbm,minilm,efficientnet")
    parser.add_argument("--dry-run", action="store_true", help="print, do not write RESULTS.md")
    arguments = parser.parse_args()
    try:
        load.require_h2load()
    except load.NoLoader as problem:
        print(problem, file=sys.stderr)
        return 1
    path = Path(os.devnull) if arguments.dry_run else _RESULTS
    home = StackSettings.read().home
    parts = arguments.parts.split(",")
    failed = 0
    if "goals" in parts:
        measured = goals.measure(
            home, rounds=arguments.rounds, seconds=arguments.seconds, peers=not arguments.no_peers
        )
        print(report.write_goals(path, measured, _facts(arguments)))
        failed += measured.failed
    if "models" in parts:
        wanted = arguments.models.split(",")
        subjects = [s for s in corpus_subjects(Corpus(home / "corpus")) if s.name in wanted]
        rows = _measure(subjects, arguments)
        print(report.write(path, rows, _facts(arguments)))
        failed += sum(row.failed for row in rows)
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
            # The server is up only while it is measured: an idle one still takes cache and turns.
            limits = {s.name: _bare(s, arguments.seconds) for s in subjects}
            with serve(Path(folder)) as served:
                for subject in subjects:
                    verify(served, subject)
                for row in rows:
                    _measure_row(row, served, by_name[row.subject], limits, arguments.seconds)
    return rows


def _bare(subject: Subject, seconds: float) -> tuple[float, float]:
    single = bare.items_per_second(subject.file, subject.item, batch=1, seconds=seconds)
    batched = bare.items_per_second(
        subject.file, subject.item, batch=subject.batch, seconds=seconds
    )
    return single, max(single, batched)


def _measure_row(
    row: report.Row,
    served: Served,
    subject: Subject,
    limits: dict[str, tuple[float, float]],
    seconds: int,
) -> None:
    rate = load.measure(
        served, subject, protocol=row.protocol, connections=row.connections, seconds=seconds
    )
    single, batched = limits[subject.name]
    row.served.append(rate.per_second)
    row.bare_single.append(single)
    row.bare_batched.append(batched)
    row.mean_ms.append(rate.mean_ms)
    row.cpu_us.append(rate.cpu_us_per_request)
    row.failed += rate.failed


def _facts(arguments: argparse.Namespace) -> dict[str, str]:
    return {
        "Measured": str(date.today()),  # noqa: DTZ011 - the day on the wall, for people
        "cores": str(os.cpu_count()),
        "onnxruntime": version("onnxruntime"),
        "rounds": str(arguments.rounds),
        "seconds": str(arguments.seconds),
        "load of the machine before": f"{_LOAD_BEFORE:.1f}",
    }


if __name__ == "__main__":
    sys.exit(main())
