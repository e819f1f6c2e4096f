"""Real inferences over raw frames: a request that came whole is answered as one that came in pieces."""

import numpy as np
import pytest
from hyperframe.frame import DataFrame, HeadersFrame

from inference_runtime import pb
from tests.hostile.wire.raw_h2 import RawH2, grpc_frame


def added(first: bytes, second: bytes, id_: str = "", model: str = "simple") -> bytes:
    request = pb.ModelInferRequest(model_name=model, id=id_)
    for name in ("INPUT0", "INPUT1"):
        request.inputs.add(name=name, datatype="INT32").shape.extend([1, 16])
    request.raw_input_contents.extend([first, second])
    return grpc_frame(request.SerializeToString())


def row(value: int) -> bytes:
    return np.full(16, value, np.int32).tobytes()


def ask(client: RawH2, message: bytes, extra=(), *, whole: bool):
    """Status, text and answer."""
    number = client.next_stream
    client.next_stream += 2
    block = client.encoder.encode(client.headers(extra=extra))
    opening = HeadersFrame(number, data=block, flags=["END_HEADERS"]).serialize()
    closing = DataFrame(number, data=message, flags=["END_STREAM"]).serialize()
    if whole:
        client.send(opening + closing)
    else:
        client.send(opening + closing[:20])
        client.send(closing[20:])
    status = client.status(number)
    fields = dict(client.fields(number)) if not status or not status.startswith("reset") else {}
    return status, fields.get("grpc-message"), client.body(number)


VARIANTS = {
    "usual": (added(row(3), row(4)), ()),
    "other sizes, same total": (added(row(3)[:-4], row(4) + row(4)[:4]), ()),
    "an id": (added(row(3), row(4), id_="x"), ()),
    "no such model": (added(row(3), row(4), model="absent"), ()),
    "same length, no such model": (added(row(3), row(4), model="simplx"), ()),
    "a deadline": (added(row(3), row(4)), [("grpc-timeout", "10S")]),
    "a deadline that is over": (added(row(3), row(4)), [("grpc-timeout", "0n")]),
    "another header": (added(row(3), row(4)), [("x-user", "ann")]),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_inference_means_the_same_whole_and_in_pieces(served, variant):
    message, extra = VARIANTS[variant]
    with served.connect_grpc() as one, served.connect_grpc() as other:
        warm, cold = RawH2(one), RawH2(other)
        for value in range(4):
            status, _, body = ask(warm, added(row(value), row(1)), whole=True)
            assert status == "0"
            assert row(value + 1) in body
        found = [ask(warm, message, extra, whole=True) for _ in range(3)]
        wanted = [ask(cold, message, extra, whole=False) for _ in range(3)]
        assert found == wanted
        assert ask(warm, added(row(8), row(9)), whole=True)[0] == "0"
