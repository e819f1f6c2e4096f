"""Section 7.1 of backends-and-tools.md: the Python backend, checks 38 to 46: calls, metrics, cancellation."""

import json
import queue
import time

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from tests.conformance.python_models import ONE_TO_ONE, write_python_model
from tests.conformance.python_world import PythonWorld, eventually
from tests.conformance.runtime_process import runtime

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

CALL = """
call = pb_utils.InferenceRequest(
    model_name={model!r},
    inputs=[pb_utils.Tensor("IN", np.array([{values}], np.int32)){more}],
    requested_output_names=["OUT"],
)
"""
DELAYS = ', pb_utils.Tensor("DELAY", np.array([5, 5, 5], np.uint32))'
SLEEPER = """
def execute(self, requests):
    time.sleep({seconds})
    return [
        pb_utils.InferenceResponse([pb_utils.Tensor("OUT", request.inputs()[0].as_numpy())])
        for request in requests
    ]
"""


@pytest.fixture(scope="module")
def world(world):
    write_python_model(world.repository, "repeat")
    assert world.load("repeat") == (200, None)
    return world


def test_backend_038_a_call_of_an_unknown_model_is_a_response_with_an_error(world):
    code = CALL.format(model="nobody", values="1", more="") + (
        "response = call.exec()\nresult = [response.has_error(), response.error().message()]"
    )
    assert world.run(code) == [
        True,
        "Failed for execute the inference request. Model 'nobody' is not ready.",
    ]


def test_backend_039_a_decoupled_model_wants_to_be_called_as_one(world):
    start = CALL.format(model="repeat", values="4, 5, 6", more=DELAYS)
    text = world.run(start + "result = call.exec().error().message()")
    assert text.startswith(
        "Model repeat is using the decoupled. The current BLS request call doesn't support models using "
        "the decoupled transaction policy."
    )
    assert "decoupled=True" in text
    code = start + (
        "responses = call.exec(decoupled=True)\n"
        "values = lambda: [int(pb_utils.get_output_tensor_by_name(each, 'OUT').as_numpy()[0])"
        " for each in responses]\n"
        "result = [values(), values()]"
    )
    assert world.run(code) == [[4, 5, 6], [4, 5, 6]]


def test_backend_040_calls_of_a_coroutine_run_side_by_side(world):
    world.serve(
        "sleeper", SLEEPER.format(seconds=0.2), f"{ONE_TO_ONE} instance_group {{ count: 8 }}"
    )
    world.serve(
        "gatherer",
        f"""
        async def execute(self, requests):
            import asyncio
            started = time.monotonic()
            calls = []
            for value in range(8):
                {CALL.format(model="sleeper", values="value", more="").strip().replace(chr(10), chr(10) + " " * 16)}
                calls.append(call.async_exec())
            responses = await asyncio.gather(*calls)
            assert not any(each.has_error() for each in responses)
            total = sum(int(each.output_tensors()[0].as_numpy()[0]) for each in responses)
            milliseconds = int((time.monotonic() - started) * 1000)
            value = pb_utils.Tensor("OUT", np.array([milliseconds if total == 28 else -1], np.int32))
            return [pb_utils.InferenceResponse([value])]
        """,
    )
    world.out("gatherer")  # heads and threads are made
    taken = [world.out("gatherer") for _ in range(3)]
    assert 0 < min(taken) < 1000  # one after the other it would be 1600


def test_a_model_that_calls_itself_with_its_only_instance_is_told_so(world):
    world.serve(
        "narcissus",
        f"""
        def execute(self, requests):
            {CALL.format(model="narcissus", values="1", more="").strip().replace(chr(10), chr(10) + " " * 12)}
            response = call.exec()
            error = pb_utils.TritonError(response.error().message(), response.error().code())
            return [pb_utils.InferenceResponse(error=error)]
        """,
    )
    status, answer = world.infer("narcissus")
    assert status == 503
    assert "the call can not be answered" in answer["error"]


def test_errors_and_parameters_of_a_called_model_come_back(world):
    world.serve(
        "moody",
        """
        def execute(self, requests):
            value = requests[0].inputs()[0].as_numpy()
            if value[0] == 0:
                error = pb_utils.TritonError("not zero", pb_utils.TritonError.INVALID_ARG)
                return [pb_utils.InferenceResponse(error=error)]
            return [
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("OUT", value)], parameters={"mood": "good", "level": 3}
                )
            ]
        """,
    )
    code = CALL.format(model="moody", values="0", more="") + (
        "error = call.exec().error()\nresult = [error.message(), error.code() == error.INVALID_ARG]"
    )
    assert world.run(code) == ["not zero", True]
    code = CALL.format(model="moody", values="1", more="") + "result = call.exec().parameters()"
    assert world.run(code) == '{"mood": "good", "level": 3}'
    status, answer = world.infer("moody", 1)
    assert (status, answer["parameters"]) == (200, {"mood": "good", "level": 3})
    code = CALL.format(model="moody", values="1, 2", more="") + (
        "result = call.exec().error().message()"
    )
    assert world.run(code).startswith("Model moody - Error when running inference: ")


def test_large_tensors_go_through_calls_unchanged(world):
    write_python_model(
        world.repository,
        "ident",
        config="""
            input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
            output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
        """,
    )
    assert world.load("ident")[0] == 200
    assert world.run(
        """
        array = np.arange(2_000_000, dtype=np.float32)[::2]
        call = pb_utils.InferenceRequest(
            model_name="ident", inputs=[pb_utils.Tensor("IN", array)], requested_output_names=["OUT"]
        )
        back = [call.exec().output_tensors()[0].as_numpy() for _ in range(5)]
        result = all(bool((each == array).all()) for each in back)
        """
    )


def test_backend_041_models_are_not_loaded_outside_explicit_mode(tmp_path):
    repository = tmp_path / "repository"
    write_python_model(repository, "script")
    with runtime(repository, tmp_path / "log", mode="none") as server:
        world = PythonWorld(server, repository)
        text = world.error_of('pb_utils.load_model("script")')
    assert text.startswith("TritonModelException: Failed to load model: ")


def test_models_load_ask_for_and_unload_models(world):
    world.write("managed", SLEEPER.format(seconds=0))
    assert world.run(
        """
        before = pb_utils.is_model_ready("managed")
        pb_utils.load_model("managed")
        result = [before, pb_utils.is_model_ready("managed"), pb_utils.is_model_ready("managed", "1")]
        """
    ) == [False, True, True]
    world.run('pb_utils.unload_model("managed"); result = 1')
    eventually(lambda: world.ready("managed") == 400)
    assert world.error_of('pb_utils.load_model("not there")').startswith(
        "TritonModelException: Failed to load model: "
    )
    text = world.error_of('pb_utils.is_model_ready("script", "first")')
    assert text.startswith(
        "TritonModelException: Failed to check model readiness: failed to get model"
    )
    assert "version should be an integral value > 0" in text


def test_a_model_brings_the_files_and_the_config_of_another(world):
    source = (
        "import numpy as np\n"
        "import triton_python_backend_utils as pb_utils\n"
        "class TritonPythonModel:\n"
        "    def execute(self, requests):\n"
        "        value = pb_utils.Tensor('OUT', np.array([77], np.int32))\n"
        "        return [pb_utils.InferenceResponse([value]) for _ in requests]\n"
    )
    config = {
        "backend": "python",
        "input": [{"name": "IN", "data_type": "TYPE_INT32", "dims": [1]}],
        "output": [{"name": "OUT", "data_type": "TYPE_INT32", "dims": [1]}],
    }
    world.run(
        f"""
        pb_utils.load_model(
            "brought", config={json.dumps(config)!r}, files={{"file:1/model.py": {source.encode()!r}}}
        )
        result = 1
        """
    )
    assert world.out("brought") == 77
    assert world.error_of(
        'pb_utils.load_model("brought", files={"file:1/model.py": b"x"})'
    ).startswith("TritonModelException: Failed to load model: ")
    world.unload("brought")


def test_a_config_of_the_load_request_counts(world):
    world.write("overridden", SLEEPER.format(seconds=0))
    config = {
        "backend": "python",
        "max_batch_size": 4,
        "input": [{"name": "IN", "data_type": "TYPE_INT32", "dims": [1]}],
        "output": [{"name": "OUT", "data_type": "TYPE_INT32", "dims": [1]}],
    }
    status, answer = world.server.call(
        "POST",
        "/v2/repository/models/overridden/load",
        {"parameters": {"config": json.dumps(config)}},
    )
    assert status == 200, answer
    assert world.out("overridden", [5]) == 5


COUNTING = """
def initialize(self, args):
    self.family = pb_utils.MetricFamily(
        name="requests_seen", description="Requests seen", kind=pb_utils.MetricFamily.COUNTER
    )
    self.metric = self.family.Metric(labels={"model": "counting"})

def execute(self, requests):
    time.sleep(0.05)
    self.metric.increment(len(requests))
    value = pb_utils.Tensor("OUT", np.array([os.getpid()], np.int32))
    return [pb_utils.InferenceResponse([value]) for _ in requests]
"""


def test_backend_042_instances_share_a_counter(world):
    world.serve("counting", COUNTING, f"{ONE_TO_ONE} instance_group {{ count: 2 }}")
    answers = world.together("counting", [1] * 8)
    pids = {answer["outputs"][0]["data"][0] for _, answer in answers}
    assert len(pids) == 2
    text = world.metrics()
    assert 'requests_seen{model="counting"} 8' in text
    assert "# TYPE requests_seen counter" in text
    code = """
        fam = pb_utils.MetricFamily(name="down", description="d", kind=pb_utils.MetricFamily.COUNTER)
        metric = fam.Metric()
        metric.increment(2)
        before = metric.value()
        try:
            metric.increment(-1)
            result = "lower"
        except pb_utils.TritonModelException as error:
            result = [before, str(error)]
    """
    value, text = world.run(code)
    assert value == 2
    assert text.startswith("Failed to increment metric value: ")
    world.unload("counting")
    eventually(lambda: "requests_seen" not in world.metrics())


def test_backend_043_buckets_are_for_histograms(world):
    start = 'pb_utils.MetricFamily(name="h", description="d", kind=pb_utils.MetricFamily.{})'
    histogram = start.format("HISTOGRAM")
    assert "Missing required buckets" in world.error_of(f"{histogram}.Metric()")
    assert "Unexpected buckets found" in world.error_of(
        f"{start.format('COUNTER')}.Metric(buckets=[1.0])"
    )
    assert "Labels must be a dictionary" in world.error_of(f"{histogram}.Metric(labels=[1])")
    assert "Buckets must be a list" in world.error_of(f"{histogram}.Metric(buckets=1)")
    code = f"""
        model.kept = {histogram}
        model.metric = model.kept.Metric(buckets=[1.0, 2.5])
        for value in (0.5, 2.0, 7.0):
            model.metric.observe(value)
        result = 1
    """
    world.run(code)
    text = world.metrics()
    for line in (
        'h_bucket{le="1"} 1',
        'h_bucket{le="2.5"} 2',
        'h_bucket{le="+Inf"} 3',
        "h_sum 9.5",
    ):
        assert line in text
    assert world.error_of("model.metric.increment(1)").startswith(
        "TritonModelException: Failed to increment metric value: "
    )
    world.run("del model.metric, model.kept\nresult = 1")
    eventually(lambda: "h_bucket" not in world.metrics())


def test_a_metric_without_its_family_can_not_be_used(world):
    code = """
        fam = pb_utils.MetricFamily(name="orphan", description="d", kind=pb_utils.MetricFamily.GAUGE)
        metric = fam.Metric()
        del fam
        try:
            metric.set(1)
            result = "set"
        except pb_utils.TritonModelException as error:
            result = str(error)
    """
    assert world.run(code).startswith(
        "Invalid metric operation as the corresponding 'MetricFamily' has been deleted."
    )
    assert "Error when creating" in world.error_of(
        'pb_utils.MetricFamily(name="no good", description="", kind=pb_utils.MetricFamily.GAUGE)'
    )
    assert "Error when creating" in world.error_of(
        'pb_utils.MetricFamily(name="nv_inference_count", description="", kind=pb_utils.MetricFamily.GAUGE)'
    )


def test_backend_044_a_cancelled_request_says_so_within_a_second(world):
    world.serve(
        "patient",
        """
        def execute(self, requests):
            for _ in range(500):
                if requests[0].is_cancelled():
                    pb_utils.Logger.log_info("cancelled at %.3f" % time.time())
                    error = pb_utils.TritonError("cancelled", pb_utils.TritonError.CANCELLED)
                    return [pb_utils.InferenceResponse(error=error)]
                time.sleep(0.01)
            return [pb_utils.InferenceResponse([requests[0].inputs()[0]])]
        """,
    )
    tensor = grpcclient.InferInput("IN", [1], "INT32")
    tensor.set_data_from_numpy(np.array([1], np.int32))
    answers = queue.Queue()
    with world.server.grpc_client() as client:
        call = client.async_infer(
            "patient", [tensor], callback=lambda result, error: answers.put(error)
        )
        time.sleep(0.3)
        cancelled_at = time.time()
        call.cancel()
        assert answers.get(timeout=10) is not None
    eventually(lambda: "cancelled at" in world.server.log, 5)
    noticed_at = float(world.server.log.split("cancelled at ")[1].split('"')[0])
    assert noticed_at - cancelled_at < 1


RESCHEDULES = """
rounds = 0

def execute(self, requests):
    (request,) = requests
    self.rounds += 1
    if self.rounds % 3:
        request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        return [None]
    return [
        pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([self.rounds], np.int32))])
    ]
"""


def test_backend_045_a_rescheduled_request_comes_back(world):
    world.serve(
        "again", RESCHEDULES, f"{ONE_TO_ONE} sequence_batching {{ iterative_sequence: true }}"
    )
    assert world.out("again") == 3
    assert world.out("again") == 6


def test_backend_045_without_iterative_sequences_it_is_released(world):
    world.serve("not_again", RESCHEDULES)
    status, answer = world.infer("not_again")
    assert status == 400
    assert "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE" in answer["error"]


def test_backend_046_the_place_of_inputs_is_yes_or_no(world):
    parameters = (
        'parameters {{ key: "FORCE_CPU_ONLY_INPUT_TENSORS" value {{ string_value: "{}" }} }}'
    )
    world.write("maybe", SLEEPER.format(seconds=0), f"{ONE_TO_ONE} {parameters.format('maybe')}")
    assert "Unsupported: Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: maybe'" in world.refusal(
        "maybe"
    )
    world.serve("no", SLEEPER.format(seconds=0), f"{ONE_TO_ONE} {parameters.format('no')}")
    assert world.out("no", 3) == 3
