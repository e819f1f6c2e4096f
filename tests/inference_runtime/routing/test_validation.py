"""Requests against configs, in Triton's order and words."""

import contextlib

import pytest
from hypothesis import given, strategies as st

from inference_runtime.errors import InvalidArgument
from inference_runtime.routing.validation import check_data, plan_request
from inference_runtime.spec.config_text import config_from_text
from inference_runtime.spec.messages import InferRequest, RequestedOutput, RequestHead, TensorHead
from inference_runtime.spec.model_config import read
from inference_runtime.spec.tensors import join_bytes


def config(inputs, batch=8, outputs=(("OUTPUT0", "INT32", "16"), ("OUTPUT1", "INT32", "16"))):
    text = f'name: "simple" max_batch_size: {batch} '
    for name, kind, dims, *more in inputs:
        text += f'input {{ name: "{name}" data_type: TYPE_{kind} dims: [{dims}] {"".join(more)} }} '
    for name, kind, dims in outputs:
        text += f'output {{ name: "{name}" data_type: TYPE_{kind} dims: [{dims}] }} '
    return read(config_from_text(text))


SIMPLE = config([("INPUT0", "INT32", "16"), ("INPUT1", "INT32", "16")])
THREE = config([(f"INPUT{n}", "FP32", "-1") for n in range(3)])
OPTIONAL = config(
    [(f"INPUT{n}", "FP32", "-1") for n in range(3)] + [("INPUT3", "FP32", "-1", "optional: true")]
)
STRINGS = config([("S", "STRING", "16")])
FLAT = config([("INPUT0", "INT32", "16")], batch=0)


def head(*tensors, outputs=()):
    return RequestHead(
        "simple",
        "",
        tuple(TensorHead(*tensor) for tensor in tensors),
        tuple(RequestedOutput(name) for name in outputs),
    )


def both(shape, other=None, datatype="INT32"):
    return (("INPUT0", datatype, shape), ("INPUT1", "INT32", other or shape))


RID = "[request id: <id_unknown>] "


@pytest.mark.parametrize(
    ("model", "request_head", "message"),
    [
        (
            SIMPLE,
            head(*both((1, 16)), ("INPUT0", "INT32", (1, 16))),
            RID + "input 'INPUT0' already exists in request",
        ),
        (
            SIMPLE,
            head(*both((1, 16)), outputs=["DUMMY"]),
            "unexpected inference output 'DUMMY' for model 'simple'",
        ),
        (
            SIMPLE,
            head(*both((1, 16)), outputs=["OUTPUT0", "OUTPUT0"]),
            RID + "output 'OUTPUT0' already exists in request",
        ),
        (
            THREE,
            head(),
            RID
            + "expected 3 inputs but got 0 inputs for model 'simple'. Got input(s) [], but missing "
            "required input(s) ['INPUT0','INPUT1','INPUT2']. Please provide all required input(s).",
        ),
        (
            OPTIONAL,
            head(("INPUT0", "FP32", (1, 1))),
            RID
            + "expected number of inputs between 3 and 4 but got 1 inputs for model 'simple'. Got "
            "input(s) ['INPUT0'], but missing required input(s) ['INPUT1','INPUT2']. Please provide "
            "all required input(s).",
        ),
        (
            OPTIONAL,
            head(*((f"INPUT{n}", "FP32", (1, 1)) for n in (3, 0, 1))),
            RID
            + "expected number of inputs between 3 and 4 but got 3 inputs for model 'simple'. Got "
            "input(s) ['INPUT0','INPUT1','INPUT3'], but missing required input(s) ['INPUT2']. Please "
            "provide all required input(s).",
        ),
        (
            SIMPLE,
            head(("INPUT0", "INT32", (1, 16)), ("X", "INT32", (1, 16))),
            "unexpected inference input 'X' for model 'simple'",
        ),
        (
            SIMPLE,
            head(("INPUT0", "INT32", ()), ("INPUT1", "INT32", (1, 16))),
            RID + "input 'INPUT0' has no shape but model requires batch dimension for 'simple'",
        ),
        (
            SIMPLE,
            head(*both((1, 16), (2, 16))),
            RID + "input 'INPUT1' batch size does not match other inputs for 'simple'",
        ),
        (
            SIMPLE,
            head(*both((9, 16))),
            RID + "inference request batch-size must be <= 8 for 'simple'",
        ),
        (
            SIMPLE,
            head(*both((2**40, 16))),
            RID + "inference request batch-size must be <= 8 for 'simple'",
        ),
        (
            SIMPLE,
            head(*both((0, 16))),
            RID + "inference request batch-size must be >= 1 for 'simple'",
        ),
        (
            SIMPLE,
            head(*both((1, 16), datatype="FP32")),
            RID
            + "inference input 'INPUT0' data-type is 'FP32', but model 'simple' expects 'INT32'",
        ),
        (
            SIMPLE,
            head(*both((1, -1))),
            RID
            + "All input dimensions should be specified for input 'INPUT0' for model 'simple', got "
            "[1,-1]",
        ),
        (
            FLAT,
            head(("INPUT0", "INT32", (1, 16))),
            RID
            + "unexpected shape for input 'INPUT0' for model 'simple'. Expected [16], got [1,16].",
        ),
    ],
)
def test_what_is_wrong_with_a_head_is_said(model, request_head, message):
    with pytest.raises(InvalidArgument) as caught:
        plan_request(request_head, model, "")
    assert caught.value.text == message


def test_a_wrong_shape_of_a_batching_model_comes_with_a_note_and_the_id():
    with pytest.raises(InvalidArgument) as caught:
        plan_request(head(*both((1, 8))), SIMPLE, "42")
    assert caught.value.text.startswith(
        "[request id: 42] unexpected shape for input 'INPUT0' for model 'simple'. Expected [-1,16], got "
        "[1,8]. NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension "
        "to be prepended to each input shape."
    )


def test_a_shape_that_overflows_is_refused():
    model = config([("INPUT0", "FP32", "-1, -1")], batch=0)
    with pytest.raises(InvalidArgument, match="causes total element count to exceed maximum size"):
        plan_request(head(("INPUT0", "FP32", (2**33, 2**33))), model, "")


def test_a_plan_knows_how_data_and_model_meet():
    plan = plan_request(
        head(("INPUT1", "INT32", (2, 16)), ("INPUT0", "INT32", (2, 16)), outputs=["OUTPUT1"]),
        SIMPLE,
        "",
    )
    assert plan.batch_size == 2
    assert plan.sources == (1, 0)
    assert not plan.in_order
    assert plan.byte_sizes == (128, 128)
    assert plan.outputs == (1,)
    assert plan.output_names == ("OUTPUT1",)
    assert not plan.all_outputs
    assert plan.merge_key is None


def test_outputs_come_in_the_models_order_whatever_the_requests():
    plan = plan_request(head(*both((1, 16)), outputs=["OUTPUT1", "OUTPUT0"]), SIMPLE, "")
    assert plan.output_names == ("OUTPUT0", "OUTPUT1")
    assert plan.all_outputs


def test_requests_with_other_free_dimensions_or_other_inputs_do_not_share_a_batch():
    def key(shapes, model=OPTIONAL):
        return plan_request(
            head(*((f"INPUT{n}", "FP32", shape) for n, shape in enumerate(shapes))), model, ""
        ).merge_key

    three = [(1, 5), (1, 6), (1, 7)]
    assert key(three) == key([(4, 5), (4, 6), (4, 7)])
    assert key(three) != key([(1, 5), (1, 6), (1, 8)])
    assert key(three) != key([*three, (1, 1)])


def test_an_optional_input_may_be_left_out():
    plan = plan_request(head(*((f"INPUT{n}", "FP32", (1, 2)) for n in range(3))), OPTIONAL, "")
    assert plan.sources == (0, 1, 2, -1)
    assert plan.shapes[3] == ()


def test_a_model_without_required_inputs_takes_an_empty_request():
    model = config([("INPUT0", "FP32", "1", "optional: true")])
    assert plan_request(head(), model, "").batch_size == 1


def check(model, request_head, data, utf8=False):
    request = InferRequest(request_head, data, lambda *_: None, None, 0)
    check_data(request, plan_request(request_head, model, ""), utf8=utf8)


def test_byte_sizes_are_those_of_the_shape():
    with pytest.raises(InvalidArgument) as caught:
        check(SIMPLE, head(*both((1, 16))), [bytes(64), bytes(80)])
    assert caught.value.text == (
        RID + "input byte size mismatch for input 'INPUT1' for model 'simple'. Expected 64, got 80"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            join_bytes([b"x"] * 17),
            "unexpected number of string elements 17 for inference input 'S' for model 'simple', "
            "expecting 16",
        ),
        (
            join_bytes([b"x"] * 14),
            "expected 16 string elements for inference input 'S' for model 'simple', got 14",
        ),
        (
            join_bytes([b"x"] * 15) + b"\x01\x00",
            "incomplete string length indicator for inference input 'S' for model 'simple', "
            "expecting 4 bytes but only 2 bytes available.",
        ),
        (
            join_bytes([b"x"] * 15) + b"\x05\x00\x00\x00x",
            "incomplete string data for inference input 'S' for model 'simple', expecting string of "
            "length 5 but only 1 bytes available.",
        ),
    ],
)
def test_strings_are_counted_and_framed(data, message):
    with pytest.raises(InvalidArgument) as caught:
        check(STRINGS, head(("S", "BYTES", (1, 16))), [data])
    assert caught.value.text.startswith(RID + message)


def test_text_is_asked_for_only_where_the_backend_needs_it():
    data = [join_bytes([b"\xff"] * 16)]
    check(STRINGS, head(("S", "BYTES", (1, 16))), data)
    with pytest.raises(InvalidArgument, match="must hold UTF-8 text"):
        check(STRINGS, head(("S", "BYTES", (1, 16))), data, utf8=True)


@given(st.binary(max_size=200))
def test_no_bytes_lead_to_anything_but_a_fault_or_a_pass(data):
    with contextlib.suppress(InvalidArgument):
        check(STRINGS, head(("S", "BYTES", (1, 16))), [data], utf8=True)
