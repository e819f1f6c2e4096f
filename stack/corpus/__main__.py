"""`python -m stack.corpus`: fetches and builds every model, and says where they are.

`python -m stack.corpus lay-out REPOSITORY [EXAMPLE …]` makes a model repository of examples instead.
"""

import argparse
import sys
from pathlib import Path

from stack.corpus import examples
from stack.corpus.models import Corpus
from stack.corpus.wheels import FetchFailed
from stack.settings import StackSettings


def main() -> int:
    arguments = _read_arguments()
    corpus = Corpus(StackSettings.read().home / "corpus")
    try:
        if arguments.command == "lay-out":
            for name in arguments.examples:
                print(f"{name}: {', '.join(examples.lay_out(name, corpus, arguments.repository))}")
        else:
            _fetch_all(corpus)
    except FetchFailed as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m stack.corpus", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    lay_out = commands.add_parser("lay-out", help="make a model repository of examples")
    lay_out.add_argument("repository", type=Path)
    lay_out.add_argument(
        "examples", nargs="*", default=list(examples.NAMES), metavar="|".join(examples.NAMES)
    )
    arguments = parser.parse_args()
    unknown = set(getattr(arguments, "examples", ())) - set(examples.NAMES)
    if unknown:
        parser.error(f"there is no example {', '.join(sorted(unknown))}")
    return arguments


def _fetch_all(corpus: Corpus) -> None:
    models = (
        corpus.efficientnet, corpus.minilm, corpus.lightgbm(), corpus.penguins, corpus.voice,
    )  # fmt: skip
    for model in models:
        print(f"{model.name}: {model.file}")
    for name, file in corpus.readers.items():
        print(f"{name}: {file}")
    print(f"smollm2: {corpus.smollm2}")


if __name__ == "__main__":
    sys.exit(main())
