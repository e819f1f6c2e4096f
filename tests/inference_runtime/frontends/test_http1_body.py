import itertools

import pytest
from hypothesis import given, strategies as st

from inference_runtime.frontends.http1_body import BodyTooLarge, ChunkedBody, SizedBody
from inference_runtime.frontends.http1_head import HeadFault
from inference_runtime.frontends.memory_budget import MemoryBudget


def chunked(*chunks, trailers=b""):
    parts = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks]
    return b"".join(parts) + b"0\r\n" + trailers + b"\r\n"


def feed(body, data, cuts=()):
    """What is left behind the body, having handed it over in pieces."""
    edges = [0, *sorted(cuts), len(data)]
    for first, last in itertools.pairwise(edges):
        position = body.feed(data[:last], first)
        if position >= 0:
            return data[position:]
    raise AssertionError("the body did not end")


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=6), st.data())
def test_chunks_come_together_however_they_are_cut(chunks, data):
    budget = MemoryBudget(10_000)
    body = ChunkedBody(10_000, budget)
    text = chunked(*chunks, trailers=b"X: y\r\n") + b"rest"
    cuts = data.draw(st.lists(st.integers(0, len(text) - 4), max_size=8))
    assert feed(body, text, cuts) == b"rest"
    assert body.content() == b"".join(chunks)
    assert budget.used_bytes == 0


@pytest.mark.parametrize("cut", range(1, len(chunked(b"abc", b"de"))))
def test_a_body_may_be_cut_at_every_byte(cut):
    body = ChunkedBody(100, MemoryBudget(100))
    assert feed(body, chunked(b"abc", b"de"), [cut]) == b""
    assert body.content() == b"abcde"


def test_chunk_extensions_mean_nothing():
    body = ChunkedBody(100, MemoryBudget(100))
    assert feed(body, b'3;a=b ; c="d"\r\nabc\r\n0;x\r\n\r\n') == b""
    assert body.content() == b"abc"


@pytest.mark.parametrize(
    "text",
    [
        b"x\r\n",
        b"-1\r\n",
        b"+3\r\nabc\r\n",
        b"0x3\r\nabc\r\n",
        b" 3\r\nabc\r\n",
        b"3 \r\nabc\r\n",
        b"\r\n",
        b"3\nabc\r\n",
        b"3\r\nabcd\r\n",
        b"3\r\nabc\n",
        b"3\r\nabcX\r\n",
        b"fffffffffffffffff\r\n",
        b"3;a\rb\r\nabc\r\n",
        b"0\r\nno colon\r\n\r\n",
        b"0\r\na: b\n\r\n",
        b"1" * 2000,
        b"0\r\n" + b"a: b\r\n" * 3000,
    ],
    ids=str,
)
def test_malformed_chunks_are_refused(text):
    body = ChunkedBody(1000, MemoryBudget(10_000))
    with pytest.raises(HeadFault):
        body.feed(text, 0)


def test_too_large_is_known_from_the_announced_size():
    body = ChunkedBody(10, MemoryBudget(100))
    with pytest.raises(BodyTooLarge):
        body.feed(b"8\r\n12345678\r\n3\r\n", 0)


def test_65536_chunks_are_fine_and_one_more_is_not():
    body = ChunkedBody(1 << 20, MemoryBudget(1 << 20))
    assert feed(body, chunked(*[b"x"] * 65536)) == b""
    body = ChunkedBody(1 << 20, MemoryBudget(1 << 20))
    with pytest.raises(
        HeadFault, match=r"exceeds maximum of 65536 non-empty chunks. Send fewer or larger"
    ):
        feed(body, chunked(*[b"x"] * 65537))


@given(st.binary(max_size=60), st.data())
def test_any_bytes_end_in_a_body_a_refusal_or_a_wait(text, data):
    budget = MemoryBudget(1000)
    body = ChunkedBody(1000, budget)
    cut = data.draw(st.integers(0, len(text)))
    try:
        if body.feed(text[:cut], 0) < 0:
            body.feed(text[cut:], 0)
    except (HeadFault, BodyTooLarge):
        pass
    body.release()
    assert budget.used_bytes == 0


@given(st.binary(min_size=1, max_size=100), st.data())
def test_a_sized_body_takes_its_bytes_and_no_more(content, data):
    budget = MemoryBudget(1000)
    body = SizedBody(len(content), budget)
    cuts = data.draw(st.lists(st.integers(0, len(content)), max_size=5))
    assert feed(body, content + b"rest", cuts) == b"rest"
    assert budget.used_bytes == len(content)
    assert body.content() == content
    assert budget.used_bytes == 0


def test_bytes_that_dribble_are_put_together():
    budget = MemoryBudget(5000)
    body = SizedBody(5000, budget)
    for _ in range(4999):
        assert body.feed(b"x", 0) == -1
    assert body.feed(b"x", 0) == 1
    assert body.content() == b"x" * 5000


def test_a_body_over_the_budget_is_refused_and_gives_back_what_it_took():
    budget = MemoryBudget(10)
    body = SizedBody(20, budget)
    body.feed(b"12345678", 0)
    with pytest.raises(HeadFault) as caught:
        body.feed(b"12345678", 0)
    assert caught.value.status == 503
    body.release()
    assert budget.used_bytes == 0
