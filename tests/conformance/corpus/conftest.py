"""One runtime for the examples; each file of tests has its example loaded while it runs."""

import pytest

from stack.corpus.models import Corpus
from stack.settings import StackSettings
from tests.conformance.corpus.example_server import ExampleServer
from tests.conformance.runtime_process import runtime


@pytest.fixture(scope="session")
def corpus():
    return Corpus(StackSettings.read().home / "corpus")


@pytest.fixture(scope="package")
def examples(corpus, tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    log = tmp_path_factory.mktemp("log") / "runtime.log"
    with runtime(path, log) as running:
        yield ExampleServer(running, path, corpus)


@pytest.fixture(scope="module")
def world(examples, request):
    """`test_voice.py` is served the example `voice`."""
    with examples.serving(request.path.stem.removeprefix("test_")) as serving:
        yield serving


@pytest.fixture(scope="module")
def server(world):
    return world.server
