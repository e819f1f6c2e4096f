"""One runtime for a file of tests, with a repository of small models; and clients of every kind."""

import pytest

from inference_runtime.spec.datatypes import config_name
from tests.conformance.clients import KINDS, Client
from tests.conformance.python_models import write_python_model
from tests.conformance.python_world import PythonWorld
from tests.conformance.runtime_process import runtime
from tests.onnx_models import (
    ONNX_TYPES,
    add_sub,
    failing,
    identity,
    mlp,
    write_model,
    write_versions,
)

LABELS = "\n".join(f"label{number}" for number in range(10))


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_model(path, "simple", add_sub(), config="max_batch_size: 8")
    write_model(path, "failing", failing())
    mlp_directory = write_model(
        path,
        "mlp",
        mlp(),
        config='output { name: "y" data_type: TYPE_FP32 dims: [10] label_filename: "labels.txt" }',
    )
    (mlp_directory / "labels.txt").write_text(LABELS)
    write_versions(path, 1, 2, 3)
    for datatype in ONNX_TYPES:
        write_model(path, f"identity_{datatype}", identity(datatype))
        write_model(path, f"scalar_{datatype}", identity(datatype, (), batching=False))
        # Listed inputs and outputs keep a model from batching although its first dimension is free.
        ports = " ".join(
            f'{kind} {{ name: "{name}" data_type: {config_name(datatype)} dims: [-1, -1] }}'
            for kind, name in (("input", "INPUT0"), ("output", "OUTPUT0"))
        )
        whole = identity(datatype, ("a", "b"), batching=False)
        write_model(path, f"whole_{datatype}", whole, config=ports)
    return path


@pytest.fixture(scope="module")
def options():
    """What a file's server is started with besides its repository; a file may have its own."""
    return ("--load-model=*",)


@pytest.fixture(scope="module")
def server(repository, options, tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "runtime.log"
    with runtime(repository, log, *options) as running:
        yield running


@pytest.fixture(scope="module")
def world(options, tmp_path_factory):
    """A server with the Python model `script`; tests write other models beside it."""
    repository = tmp_path_factory.mktemp("repository")
    write_python_model(repository, "script")
    log = tmp_path_factory.mktemp("log") / "runtime.log"
    with runtime(repository, log, *options) as server:
        yield PythonWorld(server, repository)
        assert server.terminate() == 0


@pytest.fixture(params=KINDS)
def client_kind(request):
    """A test that takes `client` is asked of every stock client; a file may name fewer."""
    return request.param


@pytest.fixture
def client(client_kind, server):
    made = Client(server, client_kind)
    yield made
    made.close()
