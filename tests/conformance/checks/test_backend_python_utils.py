"""Section 7.1 of backends-and-tools.md: the Python backend, checks 24 to 37: what `pb_utils` gives a model."""

import queue
from functools import partial

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from tests.conformance.python_models import ONE_TO_ONE

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

DECOUPLED = f"{ONE_TO_ONE} model_transaction_policy {{ decoupled: True }}"
ARRAY = "np.zeros((2, 3), np.float32)"


def test_backend_024_types_by_name(world):
    assert world.error_of('pb_utils.triton_string_to_numpy("TYPE_BF16")').startswith("KeyError")
    assert world.run('result = pb_utils.triton_string_to_numpy("TYPE_STRING") is np.object_')
    assert world.run(
        "result = [pb_utils.triton_to_numpy_type(11) is np.float32, pb_utils.triton_to_numpy_type(14),"
        " pb_utils.numpy_to_triton_type(np.bytes_), pb_utils.numpy_to_triton_type(np.complex64)]"
    ) == [True, None, 13, None]


def test_backend_025_strings_are_serialised(world):
    assert world.run(
        """
        serialize = pb_utils.serialize_byte_tensor
        result = [
            serialize(np.array([], dtype=object)) == (),
            serialize(np.array(["a"], dtype=object)).decode("latin-1"),
            serialize(np.zeros(2, np.float32)),
        ]
        """
    ) == [True, "\x01\x00\x00\x00a", None]


def test_backend_026_and_deserialised(world):
    assert world.run(
        """
        data = pb_utils.serialize_byte_tensor(np.array([b"a", b"", b"longer"], dtype=object))
        back = pb_utils.deserialize_bytes_tensor(data)
        result = [each.decode() for each in back], back.dtype == np.object_
        """
    ) == [["a", "", "longer"], True]


def test_backend_027_tensors_have_a_name_and_a_known_type(world):
    assert world.error_of(f'pb_utils.Tensor("", {ARRAY})') == (
        "TritonModelException: Tensor name cannot be an empty string."
    )
    assert world.error_of('pb_utils.Tensor("x", np.zeros(2, np.complex64))') == (
        "TritonModelException: NumPy dtype is not supported."
    )


def test_backend_028_strided_arrays_are_copied(world):
    assert world.run(
        """
        array = np.arange(6, dtype=np.int32).reshape(2, 3)
        given = pb_utils.Tensor("x", array.T).as_numpy()
        result = [bool((given == array.T).all()), bool(given.flags.c_contiguous)]
        """
    ) == [True, True]


def test_backend_029_strings_arrive_as_bytes_in_their_shape(world):
    assert world.run(
        """
        array = request.inputs()[0].as_numpy()
        result = [array.dtype == np.object_, isinstance(array.ravel()[0], bytes), list(array.shape)]
        """
    ) == [True, True, [1]]


def test_backend_030_dlpack_takes_each_capsule_once_and_no_strings(world):
    assert world.error_of("request.inputs()[0].to_dlpack()") == (
        "TritonModelException: DLPack does not have support for string tensors."
    )
    code = f"""
        capsule = pb_utils.Tensor("x", {ARRAY}).to_dlpack()
        first = pb_utils.Tensor.from_dlpack("y", capsule)
        try:
            pb_utils.Tensor.from_dlpack("z", capsule)
            second = "taken"
        except pb_utils.TritonModelException:
            second = "refused"
        result = [first.shape(), second, "used_dlpack" in repr(capsule)]
    """
    assert world.run(code) == [[2, 3], "refused", True]


def test_dlpack_takes_zero_sized_tensors_and_refuses_strided_ones(world):
    assert world.run(
        'result = pb_utils.Tensor.from_dlpack("x", np.zeros((0, 2), np.float32)).shape()'
    ) == [0, 2]
    strided = 'pb_utils.Tensor.from_dlpack("x", np.zeros((4, 6), np.float32)[:, ::2])'
    assert "DLPack tensor is not contiguous." in world.error_of(strided)


def test_backend_031_request_parameters_are_json(world):
    parameters = {"a": 1, "b": True, "c": "x"}
    code = "result = json.loads(request.parameters()), type(request.parameters()).__name__"
    assert world.run(code, parameters=parameters) == [parameters, "str"]
    assert world.run("result = request.parameters()") == "{}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("correlation_id=1.5", "Correlation ID must be integer or string"),
        (
            'parameters={"a": [1]}',
            "Expect parameters values to have type bool/int/str, found type <class 'list'>",
        ),
        ("parameters={1: 1}", "Expect parameters keys to have type str, found type <class 'int'>"),
        (
            "inputs=[None]",
            "Input tensor for request with id '' and model name 'm' should not be empty.",
        ),
        (
            'requested_output_names=[""]',
            "Requested output name for request with id '' and model name 'm' should not be empty.",
        ),
    ],
)
def test_backend_032_requests_of_a_model_are_checked(world, arguments, message):
    usual = {"inputs": "inputs=[]", "requested_output_names": 'requested_output_names=["y"]'}
    given = [text for name, text in usual.items() if not arguments.startswith(f"{name}=")]
    expression = f'pb_utils.InferenceRequest(model_name="m", {", ".join(given)}, {arguments})'
    assert world.error_of(expression) == f"TritonModelException: {message}"


@pytest.mark.parametrize("correlation", [7, "seven"])
def test_backend_033_correlation_ids_keep_their_type(world, correlation):
    parameters = {"sequence_id": correlation, "sequence_start": True, "sequence_end": True}
    code = "result = [request.correlation_id(), request.flags()]"
    assert world.run(code, parameters=parameters) == [correlation, 3]


SENDERS = {
    "sender.send(answer, flags=4)": "Unable to send response. Unsupported flag provided.",
    "sender.send()": (
        "Inference Response object must be provided when the response flags is set to zero."
    ),
    "sender.send(flags=1)": (
        "Unable to send response. Non-decoupled model cannot send complete final before sending a response."
    ),
    "sender.send(answer); sender.send(answer)": (
        "Unable to send response. Non-decoupled model cannot send more than one response."
    ),
    "sender.send(answer, flags=1); sender.send(answer)": (
        "Unable to send response. Response sender has been closed."
    ),
    'pb_utils.InferenceRequest(model_name="m", inputs=[], requested_output_names=["y"])'
    ".get_response_sender().send(answer)": (
        "Unable to send response. Response sender has no reference to the decoupled state of the model."
    ),
}


def _is_logged(world, text):
    return text in world.server.log


def test_backend_034_senders_refuse_what_can_not_be_sent(world):
    world.serve(
        "senders",
        f"""
        cases = {list(SENDERS)!r}

        def execute(self, requests):
            (request,) = requests
            answer = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([1], np.int32))])
            sender = request.get_response_sender()
            case = self.cases[int(request.inputs()[0].as_numpy()[0])]
            try:
                exec(case, {{"sender": sender, "answer": answer, "pb_utils": pb_utils}})
            except pb_utils.TritonModelException as error:
                pb_utils.Logger.log_info("refused: " + str(error))
            try:
                sender.send(answer, flags=1)
            except pb_utils.TritonModelException:
                pass
            return [None]
        """,
    )
    for number, message in enumerate(SENDERS.values()):
        assert world.out("senders", number) == 1
        # Log lines and answers come by different ways.
        world.server.wait_for(partial(_is_logged, world, f"refused: {message}"), message)


def test_backend_034_after_a_failed_batch_a_sender_is_closed(world):
    world.serve(
        "closed_by_failure",
        """
        def execute(self, requests):
            if self.answer is None:
                self.answer = requests[0].get_response_sender()
                raise ValueError("first")
            try:
                self.answer.send(flags=1)
                text = "sent"
            except pb_utils.TritonModelException as error:
                text = str(error)
            closed = text == "Unable to send response. Response sender has been closed."
            value = pb_utils.Tensor("OUT", np.array([closed], np.int32))
            return [pb_utils.InferenceResponse([value])]
        """,
    )
    status, answer = world.infer("closed_by_failure")
    assert status == 500
    assert "ValueError: first" in answer["error"]
    assert world.out("closed_by_failure") == 1


def streamed(world, model, count, **more):
    """(result, error) of the answers to one request of a stream."""
    answers = queue.Queue()
    tensor = grpcclient.InferInput("IN", [1], "INT32")
    tensor.set_data_from_numpy(np.array([1], np.int32))
    with world.server.grpc_client() as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer(model, [tensor], **more)
        found = [answers.get(timeout=20) for _ in range(count)]
        client.stop_stream()
    assert answers.empty()
    return found


def test_backend_035_what_a_thread_sends_after_execute_reaches_the_client(world):
    world.serve(
        "threaded",
        """
        def execute(self, requests):
            import threading
            for request in requests:
                sender = request.get_response_sender()
                threading.Thread(target=self.answer_later, args=(sender,)).start()

        def answer_later(self, sender):
            for value in range(3):
                time.sleep(0.05)
                output = pb_utils.Tensor("OUT", np.array([value], np.int32))
                sender.send(pb_utils.InferenceResponse([output]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        """,
        DECOUPLED,
    )
    found = streamed(world, "threaded", 3)
    assert [int(result.as_numpy("OUT")[0]) for result, _ in found] == [0, 1, 2]


def test_backend_036_a_final_flag_alone_is_an_empty_response(world):
    world.serve(
        "says_nothing",
        """
        def execute(self, requests):
            for request in requests:
                request.get_response_sender().send(flags=1)
        """,
        DECOUPLED,
    )
    ((result, error),) = streamed(world, "says_nothing", 1, enable_empty_final_response=True)
    assert error is None
    response = result.get_response()
    assert response.parameters["triton_final_response"].bool_param
    assert not response.outputs


def test_a_decoupled_request_that_is_dropped_ends_with_an_error(world):
    world.serve("drops", "def execute(self, requests):\n    return None", DECOUPLED)
    ((_, error),) = streamed(world, "drops", 1)
    assert "dropped the request without its final response" in error.message()


def test_backend_037_no_model_is_called_from_initialize(world):
    world.write(
        "calls_early",
        """
        def initialize(self, args):
            pb_utils.InferenceRequest(
                model_name="script", inputs=[], requested_output_names=["RESULT"]
            ).exec()

        def execute(self, requests):
            return []
        """,
    )
    assert "BLS is only supported during the 'execute' function." in world.refusal("calls_early")
