"""The backend that echoes."""

import time
from pathlib import Path

import numpy as np
import pytest

from inference_runtime.backends.registry import BACKENDS, backend_named
from inference_runtime.errors import InvalidArgument
from tests.inference_runtime.backends.loading import prepare, start

CONFIG = """
backend: "identity" max_batch_size: 4
input [ { name: "A" data_type: TYPE_FP32 dims: [2] }, { name: "B" data_type: TYPE_STRING dims: [1] } ]
output [ { name: "X" data_type: TYPE_FP32 dims: [2] }, { name: "Y" data_type: TYPE_STRING dims: [1] } ]
"""


def test_outputs_are_the_inputs_at_their_position(tmp_path):
    backend = start(prepare(tmp_path, config=CONFIG))
    a, b = np.ones((1, 2), np.float32), np.array([[b"x"]], object)
    y, x = backend.execute([a, b], ["Y", "X"])
    assert y is b
    assert x is a
    backend.unload()


def test_an_output_without_a_like_input_is_refused(tmp_path):
    config = CONFIG.replace('"B" data_type: TYPE_STRING', '"B" data_type: TYPE_INT8')
    with pytest.raises(InvalidArgument, match="output 'Y' of identity model 'm' has no input"):
        start(prepare(tmp_path, config=config))


def test_it_can_take_its_time(tmp_path):
    delay = 'parameters { key: "execute_delay_ms" value { string_value: "30" } }'
    backend = start(prepare(tmp_path, config=CONFIG + delay))
    began = time.monotonic()
    backend.execute([np.ones((1, 2), np.float32), None], ["X"])
    assert time.monotonic() - began >= 0.03


def test_every_backend_of_the_table_can_be_had_and_is_documented():
    documented = (Path(__file__).parents[3] / "docs/backends.md").read_text()
    for name in BACKENDS:
        assert backend_named(name).gpu_support() in (True, False)
        assert f"| `{name}` |" in documented


def test_other_backends_are_named():
    with pytest.raises(InvalidArgument, match="unable to find backend library for backend 'nope'"):
        backend_named("nope")
