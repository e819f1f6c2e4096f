"""`python -m inference_runtime`."""

import logging
import sys
from collections.abc import Sequence

import uvloop

from inference_runtime.cli import UsageError, parse, usage
from inference_runtime.lifecycle.free_memory import set_up_memory
from inference_runtime.server import Server, ServerFailed
from inference_runtime.settings import RuntimeSettings, malloc_variables
from inference_runtime.telemetry.logs import RuntimeLog

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
    log = RuntimeLog(settings.logs)
    try:
        log.install()
    except OSError as error:
        sys.stderr.write(f"Failed to open log file: {error}\n")
        return 1
    for warning in warnings:
        logger.warning(warning)
    set_up_memory(already_set=malloc_variables())
    try:
        uvloop.run(_serve(settings, log))
    except ServerFailed as failure:
        logger.error("%s", failure)
        return 1
    return 0


async def _serve(settings: RuntimeSettings, log: RuntimeLog) -> None:
    await Server(settings, log).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
