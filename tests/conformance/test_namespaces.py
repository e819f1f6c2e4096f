"""`--model-namespacing` through the stock clients."""

import urllib.request

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.conformance.clients import Client
from tests.conformance.runtime_process import runtime
from tests.inference_runtime.routing.ensembles import step, write_ensemble
from tests.onnx_models import add_constant, write_model

pytestmark = [pytest.mark.conformance, pytest.mark.slow]
ROWS = np.zeros((1, 4), np.float32)


def test_models_of_one_name_in_two_repositories(tmp_path):
    call = step("part", {"INPUT0": "IN"}, {"OUTPUT0": "OUT"})
    for number, root in enumerate(("one", "two"), 1):
        write_model(tmp_path / root, "part", add_constant(number))
        write_ensemble(tmp_path / root, f"whole{number}", call)
    options = (f"--model-repository={tmp_path / 'two'}", "--model-namespacing=true")
    with runtime(tmp_path / "one", tmp_path / "log", *options, mode="none") as server:
        for kind, status in (("http", "400"), ("grpc", "StatusCode.INVALID_ARGUMENT")):
            client = Client(server, kind)
            for number in (1, 2):
                result = client.ask(f"whole{number}", {"IN": ROWS})
                assert float(result.as_numpy("OUT")[0, 0]) == number
            for ask in (
                lambda client=client: client.ask("part", {"INPUT0": ROWS}),
                lambda client=client: client.get_model_metadata("part"),
            ):
                with pytest.raises(InferenceServerException) as caught:
                    ask()
                assert caught.value.status() == status
                assert "There are 2 identifiers of model 'part' in global map" in str(caught.value)
                assert "ambiguity" in str(caught.value)
            index = client.names(client.get_model_repository_index())
            entries = index if client.over_http else index["models"]
            assert [entry["name"] for entry in entries] == ["part", "part", "whole1", "whole2"]
            client.close()
        with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=10) as answer:
            metrics = answer.read().decode()
        for root in ("one", "two"):
            labels = f'model="part",namespace="{tmp_path / root}",version="1"'
            assert f"nv_inference_request_success{{{labels}}} 2" in metrics
