"""Section 9.12 of the compliance checklist: the asynchronous clients are served like the others."""

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.onnx_models import add_sub, write_model

pytestmark = pytest.mark.conformance
DATA = np.arange(16, dtype=np.int32).reshape(1, 16)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_model(path, "simple", add_sub(), config="max_batch_size: 8")
    return path


def test_check_200_the_basic_calls_of_every_client(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("simple")
    assert client.names(client.get_server_metadata())["name"] == "triton"
    assert client.names(client.get_model_metadata("simple"))["name"] == "simple"
    assert client.get_model_config("simple")
    assert client.get_inference_statistics("simple")
    assert client.get_model_repository_index()
    assert client.get_trace_settings()
    assert client.get_log_settings()
    client.unload_model("simple")
    assert not client.is_model_ready("simple")
    client.load_model("simple")
    assert client.is_model_ready("simple")
    result = client.ask(
        "simple", {"INPUT0": DATA, "INPUT1": DATA}, outputs=("OUTPUT1", "OUTPUT0"), request_id="9"
    )
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), DATA * 2)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), DATA * 0)
    with pytest.raises(InferenceServerException, match="'nobody' is not found"):
        client.ask("nobody", {"INPUT0": DATA})
