"""`python -m stack run` and `python -m stack demo`."""

import argparse
import asyncio
import sys

from stack.console import terminal_console
from stack.settings import StackSettings
from stack.supervisor import CannotStart, Supervisor
from webapp.env import EnvironmentProblem


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m stack", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="start everything on this machine; Ctrl-C stops it")
    demo = commands.add_parser("demo", help="upload three real models to a running stack")
    demo.add_argument("--url", help="address of the web process; default: this machine's")
    demo.add_argument("--token", help="API token; default: one issued for the local admin")
    arguments = parser.parse_args()
    try:
        settings = StackSettings.read()
        if arguments.command == "run":
            asyncio.run(Supervisor(settings, terminal_console()).run())
            return 0
        from stack.demo import run_demo

        return run_demo(settings, url=arguments.url, token=arguments.token)
    except (CannotStart, EnvironmentProblem) as problem:
        print(f"\n{problem}\n", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
