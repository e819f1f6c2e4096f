import numpy as np
import pytest
from hypothesis import given, strategies as st

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument, RuntimeFault
from inference_runtime.protocol import byte_strings
from inference_runtime.protocol.grpc_codec import InferDecoder
from inference_runtime.spec.region_span import RegionPlan, RegionSpan


def message(id_="", version="", sizes=((1, 4),), outputs=(), model="m", **parameters):
    request = pb.ModelInferRequest(model_name=model, model_version=version, id=id_)
    for index, shape in enumerate(sizes):
        entry = request.inputs.add(name=f"I{index}", datatype="FP32")
        entry.shape.extend(shape)
        request.raw_input_contents.append(bytes([index + 1]) * (4 * int(np.prod(shape))))
    for name in outputs:
        request.outputs.add(name=name)
    for key, value in parameters.items():
        request.parameters[key].int64_param = value
    return request


def decode(decoder, request, hint=None):
    data = request if isinstance(request, bytes) else request.SerializeToString()
    framed = b"12345" + data + b"tail"
    plan, id_, tensors = decoder.decode(framed, 5, 5 + len(data), hint)
    return plan, id_, [bytes(tensor) for tensor in tensors]


def same(decoded, request):
    plan, id_, tensors = decoded
    assert id_ == request.id
    assert plan.head.model_name == request.model_name
    assert plan.head.version == request.model_version
    assert [(i.name, i.datatype, i.shape) for i in plan.head.inputs] == [
        (i.name, i.datatype, tuple(i.shape)) for i in request.inputs
    ]
    assert [output.name for output in plan.head.outputs] == [o.name for o in request.outputs]
    assert tensors == list(request.raw_input_contents)[: len(request.inputs)]


REQUESTS = st.builds(
    message,
    id_=st.text(max_size=5),
    version=st.sampled_from(["", "1", "22"]),
    sizes=st.lists(
        st.lists(st.integers(0, 40), min_size=1, max_size=3).map(tuple), min_size=0, max_size=4
    ),
    outputs=st.lists(st.sampled_from("XYZ"), max_size=2),
    model=st.sampled_from(["m", "n" * 200]),
)


@given(st.lists(REQUESTS, min_size=1, max_size=6))
def test_every_way_through_gives_what_the_message_says(requests):
    decoder = InferDecoder()
    for request in requests:
        first = decode(decoder, request)
        again = decode(decoder, request)
        hinted = decode(decoder, request, first[0])
        for decoded in (first, again, hinted):
            same(decoded, request)
        assert again[0].head is first[0].head is hinted[0].head


@given(REQUESTS, REQUESTS)
def test_a_hint_of_another_request_does_no_harm(one, other):
    decoder = InferDecoder()
    hint = decode(decoder, one)[0]
    same(decode(decoder, other, hint), other)
    same(decode(decoder, other, hint), other)


def test_ids_do_not_make_requests_different():
    decoder = InferDecoder()
    first = decode(decoder, message("a"))
    second = decode(decoder, message("b"))
    third = decode(decoder, message())
    assert first[0].head is second[0].head is third[0].head
    assert (first[1], second[1], third[1]) == ("a", "b", "")


@given(REQUESTS, st.data())
def test_mangled_messages_are_refused_or_mean_what_protobuf_reads(request, data):
    decoder = InferDecoder()
    good = request.SerializeToString()
    hint = decode(decoder, good)[0]
    mangled = bytearray(good or b"\0")
    for _ in range(data.draw(st.integers(1, 3))):
        mangled[data.draw(st.integers(0, len(mangled) - 1))] = data.draw(st.integers(0, 255))
    text = bytes(mangled[: data.draw(st.integers(0, len(mangled)))])
    try:
        decoded = decode(decoder, text, hint)
    except RuntimeFault:
        return
    same(decoded, pb.ModelInferRequest.FromString(text))


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_or_read(text):
    decoder = InferDecoder()
    try:
        decoded = decode(decoder, text)
    except RuntimeFault:
        return
    same(decoded, pb.ModelInferRequest.FromString(text))


def test_large_tensors_are_not_copied():
    decoder = InferDecoder()
    text = message(sizes=[(1, 4096), (1, 4096)]).SerializeToString()
    hint = decoder.decode(text, 0, len(text), None)[0]
    _, _, tensors = decoder.decode(text, 0, len(text), hint)
    assert all(isinstance(tensor, memoryview) and tensor.obj is text for tensor in tensors)


def test_surplus_tensors_are_ignored():
    decoder = InferDecoder()
    request = message()
    request.raw_input_contents.append(b"more")
    for _ in range(3):
        same(decode(decoder, request), request)


TYPED = {
    "BOOL": ("bool_contents", [True, False], np.bool_),
    "INT8": ("int_contents", [-128, 127], np.int8),
    "INT16": ("int_contents", [-(2**15), 5], np.int16),
    "INT32": ("int_contents", [-(2**31), 5], np.int32),
    "INT64": ("int64_contents", [-(2**63), 5], np.int64),
    "UINT8": ("uint_contents", [0, 255], np.uint8),
    "UINT16": ("uint_contents", [0, 65535], np.uint16),
    "UINT32": ("uint_contents", [0, 2**32 - 1], np.uint32),
    "UINT64": ("uint64_contents", [0, 2**64 - 1], np.uint64),
    "FP32": ("fp32_contents", [0.5, -1.0], np.float32),
    "FP64": ("fp64_contents", [0.1, -1.0], np.float64),
}


def typed(datatype, field, values, raw=()):
    request = pb.ModelInferRequest(model_name="m", raw_input_contents=raw)
    entry = request.inputs.add(name="I", datatype=datatype)
    entry.shape.extend([1, len(values)])
    getattr(entry.contents, field).extend(values)
    return request


@pytest.mark.parametrize("datatype", TYPED)
def test_typed_contents_become_tensor_bytes(datatype):
    field, values, kind = TYPED[datatype]
    _, _, tensors = decode(InferDecoder(), typed(datatype, field, values))
    assert tensors == [np.array(values, kind).tobytes()]


def test_typed_strings_get_their_lengths():
    _, _, tensors = decode(InferDecoder(), typed("BYTES", "bytes_contents", [b"ab", b""]))
    assert byte_strings.unpack(tensors[0]) == [b"ab", b""]


REFUSED = {
    "other type": (
        typed("FP32", "int_contents", [1]),
        "unexpected explicit tensor data for input tensor 'I' for model 'm' of type 'INT32', "
        "expected datatype 'FP32'",
    ),
    "half precision": (typed("FP16", "fp32_contents", [1.0]), "unexpected explicit tensor data"),
    "too large": (typed("INT8", "int_contents", [128]), "out of range for datatype 'INT8'"),
    "both": (
        typed("FP32", "fp32_contents", [1.0], [b"1234"]),
        "contents field must not be specified when using raw_input_contents for 'I' for model 'm'",
    ),
    "reserved": (
        message(triton_x=1),
        "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following "
        "keys starting with 'triton_' are allowed: triton_enable_empty_final_response",
    ),
    "flag": (
        message(sequence_start=1),
        "invalid value type for 'sequence_start' parameter, expected bool_param.",
    ),
    "priority": (message(priority=-1), "invalid value for 'priority', expected value >= 0."),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_requests_are_told_in_tritons_words(case):
    request, text = REFUSED[case]
    with pytest.raises(InvalidArgument) as caught:
        decode(InferDecoder(), request)
    assert text in caught.value.text


def test_two_typed_fields_are_one_too_many():
    request = typed("FP32", "fp32_contents", [1.0])
    request.inputs[0].contents.fp64_contents.append(1.0)
    with pytest.raises(InvalidArgument, match=r", binary data was already supplied.$"):
        decode(InferDecoder(), request)


def test_missing_data_is_told():
    request = message(sizes=[(1, 2), (1, 2)])
    del request.raw_input_contents[1]
    decoder = InferDecoder()
    for _ in range(2):
        with pytest.raises(
            InvalidArgument, match="unable to find data for input tensor 'I1' for model"
        ):
            decode(decoder, request)


def test_missing_data_is_told_of_a_known_head_too():
    decoder = InferDecoder()
    request = message(sizes=[(1, 2), (1, 2)])
    hint = decode(decoder, request)[0]
    del request.raw_input_contents[1]
    with pytest.raises(InvalidArgument, match="unable to find data for input tensor 'I1'"):
        decode(decoder, request, hint)


def test_an_unknown_datatype_is_refused():
    request = message()
    request.inputs[0].datatype = "FP33"
    with pytest.raises(InvalidArgument, match="invalid datatype for input I0"):
        decode(InferDecoder(), request)


def share(entry, region="r", **sizes):
    entry.parameters["shared_memory_region"].string_param = region
    for key, value in sizes.items():
        entry.parameters[f"shared_memory_{key}"].int64_param = value


def test_inputs_in_shared_memory_take_no_part_in_the_order_of_raw_tensors():
    request = message(sizes=((1, 2), (1, 4)))
    del request.raw_input_contents[0]
    first = request.raw_input_contents[0]
    share(request.inputs[0], byte_size=8, offset=16)
    share(request.outputs.add(name="O"), "s", byte_size=4)
    decoder = InferDecoder()
    for _ in range(2):  # read, and remembered
        plan, _, data = decode(decoder, request)
        assert [bytes(part) for part in data] == [b"", first]
        assert plan.regions == RegionPlan({0: RegionSpan("r", 16, 8)}, {"O": RegionSpan("s", 0, 4)})
        assert plan.kept


def test_a_request_that_is_all_in_shared_memory_is_remembered():
    request = message(sizes=((1, 2), (1, 2)))
    del request.raw_input_contents[:]
    for entry in request.inputs:
        share(entry, byte_size=8)
    request.id = "first"
    decoder = InferDecoder()
    plan, _, data = decode(decoder, request)
    request.id = "second"
    again, id_, _ = decode(decoder, request, plan)
    assert again is plan
    assert id_ == "second"
    assert list(data) == [b"", b""]


def test_negative_spans_are_read_as_unsigned():
    request = message()
    share(request.inputs[0], byte_size=-1, offset=-1)
    plan = decode(InferDecoder(), request)[0]
    assert plan.regions.inputs[0] == RegionSpan("r", 2**64 - 1, 2**64 - 1)


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda tensor: share(tensor), "'shared_memory_byte_size' must be specified along with"),
        (
            lambda tensor: tensor.parameters["shared_memory_offset"].CopyFrom(
                pb.InferParameter(int64_param=1)
            ),
            "'shared_memory_offset' can not be specified without 'shared_memory_region'",
        ),
        (
            lambda tensor: (
                tensor.parameters["shared_memory_region"].CopyFrom(pb.InferParameter(int64_param=1))
                or tensor.parameters["shared_memory_byte_size"].CopyFrom(
                    pb.InferParameter(int64_param=1)
                )
            ),
            "invalid value type for 'shared_memory_region' parameter for tensor 'I0', expected "
            "string_param.",
        ),
        (
            lambda tensor: (
                share(tensor, byte_size=1)
                or tensor.parameters["shared_memory_offset"].CopyFrom(
                    pb.InferParameter(string_param="1")
                )
            ),
            "invalid value type for 'shared_memory_offset' parameter for tensor 'I0', expected "
            "int64_param.",
        ),
        (
            lambda tensor: share(tensor, byte_size=1) or tensor.contents.fp32_contents.append(1),
            "unexpected 'content' provided when using shared memory for input tensor 'I0'",
        ),
    ],
    ids=["no size", "no region", "region", "offset", "contents"],
)
def test_a_span_that_can_not_be_meant_is_refused(spoil, text):
    request = message()
    spoil(request.inputs[0])
    with pytest.raises(InvalidArgument, match=text):
        decode(InferDecoder(), request)


def parameter(key, value):
    request = message()
    request.parameters[key].CopyFrom(pb.InferParameter(**value))
    return request


@pytest.mark.parametrize(
    ("key", "given", "attribute", "value"),
    [
        ("sequence_id", {"int64_param": -1}, "sequence_id", 2**64 - 1),
        ("sequence_id", {"string_param": "s"}, "sequence_id", "s"),
        ("sequence_end", {"bool_param": True}, "sequence_end", True),
        ("priority", {"uint64_param": 3}, "priority", 3),
        ("priority", {"int64_param": 4}, "priority", 4),
        ("timeout", {"int64_param": 5}, "timeout_us", 5),
        ("x", {"double_param": 0.5}, "parameters", {"x": 0.5}),
        ("x", {"bool_param": True}, "parameters", {"x": True}),
        ("triton_enable_empty_final_response", {"bool_param": True}, "parameters", {}),
    ],
)
def test_parameters_are_read(key, given, attribute, value):
    head = decode(InferDecoder(), parameter(key, given))[0].head
    assert getattr(head, attribute) == value


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("sequence_id", {"bool_param": True}),
        ("priority", {"string_param": "1"}),
        ("timeout", {"string_param": "1"}),
        ("timeout", {"int64_param": -1}),
        ("x", {"uint64_param": 1}),
        ("x", {}),
    ],
)
def test_parameters_of_a_wrong_type_are_refused(key, given):
    with pytest.raises(InvalidArgument, match="invalid value"):
        decode(InferDecoder(), parameter(key, given))


def output(**parameters):
    request = message()
    entry = request.outputs.add(name="O")
    for key, value in parameters.items():
        entry.parameters[key].CopyFrom(value)
    return request


def test_output_parameters_are_read():
    asked = output(classification=pb.InferParameter(int64_param=3), other=pb.InferParameter())
    assert decode(InferDecoder(), asked)[0].head.outputs[0].class_count == 3


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"classification": {"int64_param": 0}}, "expected >= 0"),
        ({"classification": {"string_param": "1"}}, "expected int64_param"),
        (
            {"classification": {"int64_param": 1}, "shared_memory_region": {"string_param": "r"}},
            "output can't set both 'shared_memory_region' and 'classification'",
        ),
    ],
)
def test_wrong_output_parameters_are_refused(parameters, text):
    asked = output(**{key: pb.InferParameter(**value) for key, value in parameters.items()})
    with pytest.raises(InvalidArgument, match=text):
        decode(InferDecoder(), asked)


@pytest.mark.parametrize("shape", [[2**40, 3], [2**62], [2**31], [-(2**40), -3]])
def test_a_shape_that_no_message_can_hold_is_read_and_left_to_validation(shape):
    request = message(sizes=((1, 4), (1, 2)))
    del request.inputs[1].shape[:]
    request.inputs[1].shape.extend(shape)
    decoder = InferDecoder()
    for _ in range(2):
        same(decode(decoder, request), request)
