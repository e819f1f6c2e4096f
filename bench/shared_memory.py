"""`python -m bench.shared_memory`: a picture by shared memory against the same over the wire."""

import argparse
import sys
import tempfile
from pathlib import Path

from bench import command, load, report
from bench.region import item_region
from bench.served import serve, verify, write_repository
from bench.subjects import picture_subject


def main() -> int:
    parser = command.command("bench.shared_memory", __doc__)
    parser.add_argument("--connections", default="1,8")
    parser.add_argument("--protocols", default="grpc,http")
    command.with_results(parser)
    arguments = command.parse(parser)
    rows = [
        report.RegionRow(protocol, connections)
        for protocol in arguments.protocols.split(",")
        for connections in map(int, arguments.connections.split(","))
    ]
    with tempfile.TemporaryDirectory() as folder:
        _measure(Path(folder), rows, arguments)
    print(report.write_regions(command.results(arguments), rows, command.facts(arguments)))
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
                    row.by_region.add(shared)
                    row.by_wire.add(wire)


if __name__ == "__main__":
    sys.exit(main())
