"""`python -m inference_runtime`."""

import logging
import sys
from collections.abc import Sequence

import uvloop

from inference_runtime.cli import UsageError, parse, usage
from inference_runtime.server import Server, ServerFailed
from inference_runtime.settings import LogSettings, RuntimeSettings
from inference_runtime.telemetry.logs import configure_logs

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str]) -> int:
    if "--help" in arguments or "-h" in arguments:
        sys.stdout.write(usage() + "\n")
        return 0
    try:
        settings, warnings = parse(arguments)
    except UsageError as error:
        sys.stderr.write(f"{usage()}\n\n{error}\n")
        return 1
    configure_logs(
        levels=_levels(settings.logs), iso8601=settings.logs.iso8601, file=settings.logs.file
    )
    for warning in warnings:
        logger.warning(warning)
    try:
        uvloop.run(_serve(settings))
    except ServerFailed as failure:
        logger.error("%s", failure)
        return 1
    return 0


async def _serve(settings: RuntimeSettings) -> None:
    await Server(settings).run()


def _levels(logs: LogSettings) -> frozenset[int]:
    switches = {
        logging.DEBUG: logs.verbose > 0,
        logging.INFO: logs.info,
        logging.WARNING: logs.warning,
        logging.ERROR: logs.error,
    }
    return frozenset(level for level, on in switches.items() if on)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
