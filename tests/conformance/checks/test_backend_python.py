"""Section 7.1 of backends-and-tools.md: the Python backend, checks 1 to 23: files, config, execute."""

import json

import pytest

from tests.conformance.python_models import ONE_TO_ONE, write_python_model
from tests.conformance.python_world import eventually, tensor

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

BATCH_OF_3 = f"""
    {ONE_TO_ONE}
    max_batch_size: 3
    dynamic_batching {{ preferred_batch_size: [3] max_queue_delay_microseconds: 3000000 }}
"""
ECHO = """
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", request.inputs()[0].as_numpy())])
            for request in requests
        ]
"""
COMPLETES = """
    @staticmethod
    def auto_complete_config(config):
        {statement}
        return config

    def execute(self, requests):
        return []
"""


def batch(world, name):
    """What three requests of one batch are answered."""
    return world.together(name, [[1], [2], [3]])


def serve_add_sub(world):
    if world.ready("add_sub") != 200:
        write_python_model(world.repository, "add_sub")
        assert world.load("add_sub")[0] == 200


# Files


def test_backend_001_a_missing_model_file_is_named(world):
    directory = world.write("no_file", ECHO)
    (directory / "1" / "model.py").rename(directory / "1" / "another.py")
    path = directory / "1" / "model.py"
    assert f"Python model file not found in '{path}'" in world.refusal("no_file")


def test_backend_002_the_config_names_the_file(world):
    directory = world.write("other", ECHO, f'{ONE_TO_ONE} default_model_filename: "other.py"')
    (directory / "1" / "model.py").rename(directory / "1" / "other.py")
    assert world.load("other")[0] == 200
    assert world.out("other", 7) == 7


def test_backend_002_a_name_of_another_kind_is_refused(world):
    world.write("text", ECHO, f'{ONE_TO_ONE} default_model_filename: "other.txt"')
    refusal = world.refusal("text")
    assert "Model name must end with '.py'. Model name is \"other.txt\"." in refusal


def test_backend_003_helpers_are_found_beside_the_file_and_in_the_models_directory(world):
    directory = world.write(
        "helped",
        """
        def execute(self, requests):
            import near_helper, far_helper
            value = np.array([near_helper.VALUE + far_helper.VALUE], np.int32)
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value)])]
        """,
    )
    (directory / "1" / "near_helper.py").write_text("VALUE = 1\n")
    (directory / "far_helper.py").write_text("VALUE = 2\n")
    assert world.load("helped")[0] == 200
    assert world.out("helped") == 3


def test_backend_004_initialize_gets_seven_texts(world):
    arguments = world.run("result = model.args")
    assert set(arguments) == {
        "model_config", "model_instance_kind", "model_instance_device_id", "model_instance_name",
        "model_repository", "model_version", "model_name",
    }  # fmt: skip
    assert all(isinstance(value, str) for value in arguments.values())
    assert arguments["model_instance_kind"] == "CPU"
    assert arguments["model_instance_device_id"] == "0"
    assert arguments["model_version"] == "1"


def test_backend_005_the_repository_is_the_models_own_directory(world):
    assert world.run('result = model.args["model_repository"]') == str(world.repository / "script")


def test_backend_006_the_config_is_that_of_the_config_endpoint(world):
    serve_add_sub(world)
    of_script = world.run('result = json.loads(model.args["model_config"])')
    assert of_script == world.server.call("GET", "/v2/models/script/config")[1]


def test_backend_007_the_config_is_completed_in_a_process_that_is_gone_before_the_first_instance(
    world,
):
    world.serve(
        "apart",
        """
        @staticmethod
        def auto_complete_config(config):
            config.add_input({"name": "IN", "data_type": "TYPE_INT32", "dims": [1]})
            config.add_output({"name": "OUT", "data_type": "TYPE_INT32", "dims": [1]})
            open("/tmp/completed-%d" % os.getppid(), "w").write(str(os.getpid()))
            return config

        def initialize(self, args):
            path = "/tmp/completed-%d" % os.getppid()
            self.other = int(open(path).read())
            os.unlink(path)
            self.was_there = os.path.exists("/proc/%d" % self.other)

        def execute(self, requests):
            good = self.other != os.getpid() and not self.was_there
            return [
                pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([good], np.int32))])
            ]
        """,
        config="",
    )
    assert world.out("apart") == 1


# auto_complete_config


def completed(world, name, statement, config=ONE_TO_ONE):
    """The config after a statement in `auto_complete_config`, or why the model does not load."""
    world.write(name, COMPLETES.format(statement=statement), config)
    status, answer = world.load(name)
    if status != 200:
        return answer["error"]
    return world.server.call("GET", f"/v2/models/{name}/config")[1]


def test_backend_008_something_else_than_the_config_is_refused(world):
    text = completed(world, "none", "return None")
    assert (
        "auto_complete_config function in model 'none' must return a valid pb.ModelConfig object."
    ) in text


def test_backend_009_a_batch_size_that_the_file_has_is_not_lowered(world):
    text = completed(
        world, "lower", "config.set_max_batch_size(4)", f"{ONE_TO_ONE} max_batch_size: 8"
    )
    assert (
        "ValueError: configuration specified max_batch_size 8, but in auto-complete-config function for "
        "model 'lower' specified max_batch_size 4"
    ) in text
    config = completed(
        world, "raise", "config.set_max_batch_size(4)", f"{ONE_TO_ONE} max_batch_size: 2"
    )
    assert config["max_batch_size"] == 4


def test_backend_010_a_batcher_is_added_unless_there_is_another_scheduler(world):
    text = completed(
        world, "sequences", "config.set_dynamic_batching()", f"{ONE_TO_ONE} sequence_batching {{ }}"
    )
    assert (
        "Configuration specified scheduling_choice as 'sequence_batching', but auto-complete-config "
        "function for model 'sequences' tries to set scheduling_choice as 'dynamic_batching'"
    ) in text
    config = completed(
        world, "batcher", "config.set_dynamic_batching()", f"{ONE_TO_ONE} max_batch_size: 2"
    )
    assert config["dynamic_batching"]["preferred_batch_size"] == [2]


@pytest.mark.parametrize(
    ("name", "entry", "message"),
    [
        (
            "unknown_key",
            {"name": "IN", "data_type": "TYPE_INT32", "dims": [1], "other": 1},
            "input 'IN' in auto-complete-config function for model 'unknown_key' contains property other "
            "than 'name', 'data_type', 'dims' and 'optional'.",
        ),
        (
            "no_dims",
            {"name": "IN", "data_type": "TYPE_INT32"},
            "input 'IN' in auto-complete-config function for model 'no_dims' is missing 'dims' property.",
        ),
        (
            "no_name",
            {"data_type": "TYPE_INT32", "dims": [1]},
            "input in auto-complete-config function for model 'no_name' is missing 'name' property.",
        ),
        (
            "no_type",
            {"name": "IN", "dims": [1]},
            "input 'IN' in auto-complete-config function for model 'no_type' is missing 'data_type' property.",
        ),
        (
            "other_type",
            {"name": "IN", "data_type": "TYPE_FP32", "dims": [1]},
            "unable to load model 'other_type', configuration expects datatype TYPE_INT32 for input 'IN', "
            "model provides TYPE_FP32",
        ),
        (
            "other_dims",
            {"name": "IN", "data_type": "TYPE_INT32", "dims": [4]},
            "model 'other_dims', tensor 'IN': the model expects dims [4] but the model configuration "
            "specifies dims [1]",
        ),
    ],
)
def test_backend_011_inputs_that_do_not_fit_are_refused(world, name, entry, message):
    assert message in completed(world, name, f"config.add_input({entry!r})")


def test_backend_012_open_places_of_an_input_are_filled(world):
    config = completed(
        world,
        "filled",
        'config.add_input({"name": "IN", "data_type": "TYPE_INT32", "dims": [3]})',
        'input { name: "IN" } output { name: "OUT" data_type: TYPE_INT32 dims: [1] }',
    )
    (entry,) = config["input"]
    assert (entry["data_type"], entry["dims"]) == ("TYPE_INT32", [3])


def test_backend_013_a_policy_that_the_file_has_is_not_changed(world):
    text = completed(
        world,
        "policy",
        'config.set_model_transaction_policy({"decoupled": True})',
        f"{ONE_TO_ONE} model_transaction_policy {{ decoupled: false }}",
    )
    assert (
        "trying to change decoupled property in auto-complete-config for model 'policy', which is already "
        "set to 'False'."
    ) in text
    text = completed(world, "words", 'config.set_model_transaction_policy({"coupled": True})')
    assert (
        "model transaction property in auto-complete-config function for model 'words' contains property "
        "other than 'decoupled'."
    ) in text


# execute


def test_backend_014_a_model_without_execute_is_found_out_by_the_first_request(world):
    world.serve("idle", "pass")
    status, answer = world.infer("idle")
    path = world.repository / "idle" / "1" / "model.py"
    assert status == 500
    assert f"Python model {path} does not implement `execute` method." in answer["error"]


def fails_together(world, name, statement, message):
    """Three requests of one batch have the same error."""
    world.serve(
        name,
        f"""
        def execute(self, requests):
            answers = [
                pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each.inputs()[0].as_numpy())])
                for each in requests
            ]
            {statement}
        """,
        BATCH_OF_3,
    )
    start = f"Failed to process the request(s) for model '{name}_0', message: {message}"
    for status, answer in batch(world, name):
        assert status == 500
        assert answer["error"].startswith(start), answer


def test_backend_015_an_exception_is_the_answer_to_the_whole_batch(world):
    fails_together(world, "raises", 'raise ValueError("boom")', "ValueError: boom")


def test_backend_016_too_few_responses_fail_the_whole_batch(world):
    fails_together(
        world,
        "too_few",
        "return answers[:2]",
        "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
        "InferenceRequest(s) size is:3, and InferenceResponse(s) size is:2",
    )


def test_backend_017_something_else_than_a_list_fails_the_whole_batch(world):
    fails_together(
        world,
        "gives_a_tuple",
        "return tuple(answers)",
        "Expected a list in the execute return, found type '<class 'tuple'>'.",
    )


def test_backend_018_something_else_than_a_response_fails_the_whole_batch(world):
    fails_together(
        world,
        "gives_text",
        'return [*answers[:2], "text"]',
        "Expected an 'InferenceResponse' object in the execute function return list, found type "
        "'<class 'str'>'.",
    )


def test_backend_019_an_error_of_one_response_is_that_requests_alone(world):
    world.serve(
        "one_bad",
        """
        def execute(self, requests):
            answers = []
            for request in requests:
                array = request.inputs()[0].as_numpy()
                if array[0, 0] == 2:
                    error = pb_utils.TritonError("bad", pb_utils.TritonError.INVALID_ARG)
                    answers.append(pb_utils.InferenceResponse(error=error))
                else:
                    answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]))
            return answers
        """,
        BATCH_OF_3,
    )
    first, second, third = batch(world, "one_bad")
    assert second == (400, {"error": "bad"})
    assert [answer["outputs"][0]["data"] for _, answer in (first, third)] == [[1], [3]]


def test_backend_020_outputs_that_were_not_asked_for_are_left_out(world):
    serve_add_sub(world)
    values = [[1.0, 2.0, 3.0, 4.0]]
    body = {
        "inputs": [tensor(name, values, "FP32") for name in ("INPUT0", "INPUT1")],
        "outputs": [{"name": "OUTPUT1"}],
    }
    status, answer = world.server.call("POST", "/v2/models/add_sub/infer", body)
    assert (status, [each["name"] for each in answer["outputs"]]) == (200, ["OUTPUT1"])


def test_backend_021_a_decoupled_model_returns_nothing(world):
    world.serve(
        "coupled_by_mistake",
        """
        def execute(self, requests):
            return []
        """,
        f"{ONE_TO_ONE} model_transaction_policy {{ decoupled: True }}",
    )
    name = "coupled_by_mistake"
    status, answer = world.server.call("POST", f"/v2/models/{name}/generate", {"IN": 1})
    assert status == 500
    assert (
        f"Python model '{name}_0' is using the decoupled mode and the execute function must return None."
        in answer["error"]
    )


def test_backend_022_execute_may_be_a_coroutine(world):
    world.serve(
        "coroutine",
        """
        async def execute(self, requests):
            import asyncio
            await asyncio.sleep(0.01)
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([5], np.int32))])]
        """,
    )
    assert world.out("coroutine") == 5


def test_backend_023_coroutines_of_a_decoupled_model_overlap(world):
    world.serve(
        "overlapping",
        """
        running = highest = 0

        async def execute(self, requests):
            import asyncio
            sender = requests[0].get_response_sender()
            self.running += 1
            self.highest = max(self.highest, self.running)
            await asyncio.sleep(1.0)
            self.running -= 1
            value = pb_utils.Tensor("OUT", np.array([self.highest], np.int32))
            sender.send(
                pb_utils.InferenceResponse([value]),
                flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL,
            )
        """,
        f"{ONE_TO_ONE} model_transaction_policy {{ decoupled: True }}",
    )

    def generate(_):
        return world.server.call("POST", "/v2/models/overlapping/generate", {"IN": 1})

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(generate, range(2)))
    assert [(status, answer["OUT"]) for status, answer in answers] == [(200, 2), (200, 2)]


def test_what_a_model_sends_is_in_the_log_and_nothing_is_left_running(world):
    world.run('pb_utils.Logger.log_warn("a line of its own"); result = 1')
    eventually(lambda: "a line of its own" in world.server.log)
    (line,) = [each for each in world.server.log.splitlines() if "a line of its own" in each]
    assert line.startswith("W")
    assert json.loads(line.split("] ", 1)[1]) == "a line of its own"
