"""`python -m bench.shared_memory`: a picture by shared memory against the same over the wire."""

import argparse
import os
import sys
import tempfile
from datetime import date
from pathlib import Path

from bench import load, report
from bench.region import item_region
from bench.served import serve, verify, write_repository
from bench.subjects import picture_subject

_RESULTS = Path(__file__).parent / "RESULTS.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.shared_memory", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2, help="of each measurement")
    parser.add_argument("--connections", default="1,8")
    parser.add_argument("--protocols", default="grpc,http")
    parser.add_argument("--dry-run", action="store_true", help="print, do not write RESULTS.md")
    arguments = parser.parse_args()
    try:
        load.require_h2load()
    except load.NoLoader as problem:
        print(problem, file=sys.stderr)
        return 1
    rows = [
        report.RegionRow(protocol, connections)
        for protocol in arguments.protocols.split(",")
        for connections in map(int, arguments.connections.split(","))
    ]
    with tempfile.TemporaryDirectory() as folder:
        _measure(Path(folder), rows, arguments)
    path = Path(os.devnull) if arguments.dry_run else _RESULTS
    facts = {
        "Measured": str(date.today()),  # noqa: DTZ011 - the day on the wall, for people
        "cores": str(os.cpu_count()),
        "rounds": str(arguments.rounds),
        "seconds": str(arguments.seconds),
    }
    print(report.write_regions(path, rows, facts))
    return 1 if any(row.failed for row in rows) else 0


def _measure(folder: Path, rows: list[report.RegionRow], arguments: argparse.Namespace) -> None:
    subject = picture_subject(folder)
    write_repository(folder / "repository", [subject])
    with serve(folder / "repository", "--allow-client-shm=true") as served:
        verify(served, subject)
        with item_region(served, subject) as region:
            for round_number in range(1, arguments.rounds + 1):
                print(f"round {round_number} of {arguments.rounds}", file=sys.stderr, flush=True)
                for row in rows:
                    # One right after the other, so that the machine is the same for both.
                    shared, wire = (
                        load.measure(
                            served,
                            subject,
                            protocol=row.protocol,
                            connections=row.connections,
                            seconds=arguments.seconds,
                            region=where,
                        )
                        for where in (region, None)
                    )
                    row.by_region.append(shared.per_second)
                    row.by_wire.append(wire.per_second)
                    row.region_cpu_us.append(shared.cpu_us_per_request)
                    row.wire_cpu_us.append(wire.cpu_us_per_request)
                    row.failed += shared.failed + wire.failed


if __name__ == "__main__":
    sys.exit(main())
