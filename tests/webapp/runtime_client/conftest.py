"""The two runtimes of the contract suite, over one repository directory of each test's own."""

from importlib.util import find_spec

import pytest

from tests.webapp.runtime_client.runtime_process import RuntimeProcess
from webapp.runtime_client.fake import FakeRuntime


@pytest.fixture
def repository(tmp_path):
    directory = tmp_path / "repository"
    directory.mkdir()
    return directory


@pytest.fixture
def runtime_process(repository, tmp_path):
    if find_spec("inference_runtime.__main__") is None:
        pytest.skip("the runtime cannot be started yet")
    process = RuntimeProcess(repository, tmp_path / "state")
    process.start()
    yield process
    process.stop()


@pytest.fixture(params=["fake", "real"])
def runtime(request, repository):
    if request.param == "fake":
        yield FakeRuntime(repository)
        return
    client = request.getfixturevalue("runtime_process").client()
    yield client
    client.close()
