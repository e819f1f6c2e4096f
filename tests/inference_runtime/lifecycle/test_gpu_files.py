"""`cc_model_filenames`: which file an instance loads may depend on what its GPU can do. GPUs are pretended."""

from inference_runtime.lifecycle.version_config import BackendSettings
from tests.inference_runtime.core_world import core_world

CONFIG = """
backend: "python"
input { name: "IN" data_type: TYPE_INT32 dims: [1] }
output { name: "OUT" data_type: TYPE_INT32 dims: [1] }
cc_model_filenames { key: "9.0" value: "hopper.py" }
instance_group { kind: KIND_GPU count: 1 }
instance_group { kind: KIND_CPU count: 1 }
"""
MODEL = """
import os

class TritonPythonModel:
    def initialize(self, args):
        with open(f"{args['model_repository']}/{args['model_instance_name']}", "w") as file:
            file.write(os.path.basename(__file__))

    def execute(self, requests): ...
"""


async def test_an_instance_loads_the_file_for_its_gpu(tmp_path):
    directory = tmp_path / "m"
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text(CONFIG)
    for name in ("model.py", "hopper.py"):
        (directory / "1" / name).write_text(MODEL)
    settings = BackendSettings(usable_gpus=(0, 1), compute_capabilities={0: 9.0, 1: 8.6})
    async with core_world(tmp_path, settings=settings) as world:
        await world.load("m")
        config = world.registry.find("m", "").config
    found = {path.name: path.read_text() for path in directory.glob("m_*")}
    assert found == {"m_0_0": "hopper.py", "m_0_1": "model.py", "m_1_0": "model.py"}
    assert config.default_model_filename == "model.py"  # what the config API reports
