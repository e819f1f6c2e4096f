"""The cache itself: what it finds, how much it keeps, what goes first; and what makes requests equal."""

from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from inference_runtime.routing.validation import plan_request
from inference_runtime.scheduling.request_digest import RequestDigests
from inference_runtime.scheduling.response_cache import (
    ENTRY_BYTES,
    OUTPUT_BYTES,
    ResponseCache,
    size_of,
)
from inference_runtime.spec.messages import InferResponse, RequestHead, ResponseHead
from tests.inference_runtime.scheduling.stage import Clients, model_config

HEAD = ResponseHead("m", "1", ())
ONE = ENTRY_BYTES + OUTPUT_BYTES + 100


def response(size=100, fill=b"x") -> InferResponse:
    return InferResponse(HEAD, [fill * size])


def test_what_was_inserted_is_found_and_is_the_caches_own():
    cache = ResponseCache(10 * ONE)
    load = cache.new_load()
    output = bytearray(b"answer")
    cache.insert((load, b"k"), InferResponse(HEAD, [memoryview(output)]))
    output[:] = b"######"
    found = cache.find((load, b"k"))
    assert found.data == (b"answer",)
    assert found.head is HEAD
    assert cache.find((load, b"other")) is None
    counters = cache.counters
    assert (counters.lookups, counters.hits, counters.misses) == (2, 1, 1)


def test_the_parameters_of_a_response_count():
    cache = ResponseCache(10 * ONE)
    head = ResponseHead("m", "1", (), {"text": "x" * 3000})
    assert not cache.fits(InferResponse(head, [b""]))
    small = ResponseHead("m", "1", (), {"number": 1})
    assert size_of(InferResponse(small, [])) > size_of(InferResponse(HEAD, []))


def test_the_first_of_two_equal_answers_is_kept():
    cache = ResponseCache(10 * ONE)
    load = cache.new_load()
    cache.insert((load, b"k"), response(fill=b"1"))
    cache.insert((load, b"k"), response(fill=b"2"))
    assert bytes(cache.find((load, b"k")).data[0][:1]) == b"1"
    assert cache.counters.entries == 1


def test_the_least_recently_used_goes_first():
    cache = ResponseCache(2 * ONE)
    load = cache.new_load()
    cache.insert((load, b"a"), response())
    cache.insert((load, b"b"), response())
    cache.find((load, b"a"))
    cache.insert((load, b"c"), response())
    assert [key for _, key in cache] == [b"a", b"c"]
    assert cache.counters.evictions == 1


def test_an_answer_that_is_larger_than_the_cache_does_not_fit():
    cache = ResponseCache(ONE)
    assert cache.fits(response(100))
    assert not cache.fits(response(101))


def test_entries_go_with_their_load():
    cache = ResponseCache(100 * ONE)
    old, new = cache.new_load(), cache.new_load()
    for number in range(25):
        cache.insert((old, bytes([number])), response())
    cache.insert((new, b"k"), response())
    assert cache.find((new, b"\0")) is None
    rounds = 1
    while cache.forget(old, 10):
        rounds += 1
    assert rounds == 3
    assert list(cache) == [(new, b"k")]
    cache.insert((old, b"late"), response())  # an answer that was under way
    assert list(cache) == [(new, b"k")]
    assert cache.counters.used_bytes == ONE


keys = st.tuples(st.integers(0, 2), st.integers(0, 6))
actions = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), keys, st.integers(0, 900)),
        st.tuples(st.just("find"), keys),
        st.tuples(st.just("forget"), st.integers(0, 2)),
    ),
    max_size=80,
)


class Twin:
    """The cache, and beside it the simplest one that does the same."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.cache = ResponseCache(size)
        self.loads = [self.cache.new_load() for _ in range(3)]
        self.model: OrderedDict[tuple[int, int], InferResponse] = OrderedDict()
        self.ended: set[int] = set()

    def insert(self, key, length) -> None:
        load, number = key
        answer = response(length)
        assert self.cache.fits(answer) == (size_of(answer) <= self.size)
        if not self.cache.fits(answer):
            return
        self.cache.insert((self.loads[load], bytes([number])), answer)
        if (load, number) not in self.model and load not in self.ended:
            while self.used() + size_of(answer) > self.size:
                self.model.popitem(last=False)
            self.model[load, number] = answer

    def find(self, key) -> None:
        found = self.cache.find((self.loads[key[0]], bytes([key[1]])))
        assert (found is None) == (key not in self.model)
        if found is not None:
            assert list(found.data) == [bytes(part) for part in self.model[key].data]
            self.model.move_to_end(key)

    def forget(self, load) -> None:
        self.ended.add(load)
        while self.cache.forget(self.loads[load], 3):
            pass
        for key in [key for key in self.model if key[0] == load]:
            del self.model[key]

    def used(self) -> int:
        return sum(map(size_of, self.model.values()))


@settings(max_examples=100, deadline=None)
@given(actions_=actions, size=st.integers(1, 5000))
def test_it_does_what_the_simplest_cache_would_do(actions_, size):
    twin = Twin(size)
    counters = twin.cache.counters
    word: Any
    for word, *arguments in actions_:
        getattr(twin, word)(*arguments)
        assert list(twin.cache) == [(twin.loads[load], bytes([n])) for load, n in twin.model]
        assert counters.used_bytes == twin.used() <= size
        assert counters.entries == len(twin.model)
    assert counters.lookups == counters.hits + counters.misses


class Digests:
    def __init__(self, text="") -> None:
        self.clients = Clients(model_config(text))
        self._digests = RequestDigests()

    def of(self, rows=1, **more) -> bytes:
        request = self.clients.request(rows, **more)
        return self._digests.of(request.plan, request.data)


def test_equal_requests_have_equal_digests_whatever_their_head_object():
    assert Digests().of(value=3.0) == Digests().of(value=3.0)
    digests = Digests()
    assert digests.of(value=3.0) == digests.of(value=3.0, priority=2, timeout_us=7, id_="me")


@pytest.mark.parametrize(
    "other", [{"value": 4.0}, {"length": 2, "rows": 2}, {"outputs": ("OUTPUT0",)}, {"length": 5}]
)
def test_whatever_changes_the_answer_changes_the_digest(other):
    digests = Digests()
    assert digests.of(value=0.0, outputs=()) != digests.of(**{"rows": 1, "value": 0.0, **other})


def test_the_order_of_inputs_in_the_request_does_not_matter():
    config = model_config()
    clients = Clients(config)
    request = clients.request(1, value=1.0)
    turned = clients.request(1, value=1.0)
    head = turned.head
    plan = plan_request(RequestHead("batcher", "", tuple(reversed(head.inputs))), config, "")
    digests = RequestDigests()
    assert digests.of(request.plan, request.data) == digests.of(plan, list(reversed(turned.data)))


def test_an_input_that_is_left_out_is_not_an_empty_one():
    text = """
    name: "batcher" backend: "identity" max_batch_size: 8
    input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 optional: true }
    input { name: "INPUT1" data_type: TYPE_FP32 dims: -1 optional: true }
    output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
    output { name: "OUTPUT1" data_type: TYPE_FP32 dims: -1 }
    """
    clients = Clients(model_config(base=text))
    digests = RequestDigests()
    first, second = clients.only_input(0), clients.only_input(1)
    assert digests.of(first.plan, first.data) != digests.of(second.plan, second.data)


def test_strings_that_run_together_are_told_apart():
    text = """
    name: "batcher" backend: "identity" max_batch_size: 0
    input { name: "INPUT0" data_type: TYPE_STRING dims: 1 }
    input { name: "INPUT1" data_type: TYPE_STRING dims: 1 }
    output { name: "OUTPUT0" data_type: TYPE_STRING dims: 1 }
    """
    plan = Clients(model_config(base=text)).request(1, length=1).plan
    digests = RequestDigests()
    assert digests.of(plan, [b"ab", b"c"]) != digests.of(plan, [b"a", b"bc"])
