"""The register of regions: names, bounds, use counts, and what a request does with them."""

import asyncio
import os
import threading

import pytest
from hypothesis import given, strategies as st

from inference_runtime.errors import (
    AlreadyExists,
    Cancelled,
    Internal,
    InvalidArgument,
    NotFound,
    RuntimeFault,
    Unavailable,
    Unsupported,
)
from inference_runtime.shared_memory.memory import Memory
from inference_runtime.shared_memory.region_use import RegionUse
from inference_runtime.shared_memory.regions import (
    DISABLED,
    LOCAL_ONLY,
    Region,
    RegionKind,
    RegionOptions,
    Regions,
)
from inference_runtime.spec.messages import (
    InferRequest,
    InferResponse,
    RequestHead,
    ResponseHead,
    TensorHead,
)
from inference_runtime.spec.region_span import RegionPlan, RegionSpan
from tests.inference_runtime.shared_memory.objects import open_files, shm_object

PAGE = os.sysconf("SC_PAGE_SIZE")
OPEN = RegionOptions(enabled=True)
HEAD = ResponseHead("m", "1", (TensorHead("O", "UINT8", (4,)), TensorHead("P", "UINT8", (2,))))
ANSWER = InferResponse(HEAD, [b"abcd", b"ef"])


def regions_of(path, *names, options=OPEN):
    regions = Regions(options)
    for name in names or ("r",):
        regions.register_system(name, path.name, 0, PAGE)
    return regions


def names(regions, kind=RegionKind.SYSTEM):
    return [region.name for region in regions.status(kind, "", local=True)]


class Asked:
    """A request on its way: what the core was given, and what the client was told."""

    def __init__(self, regions, plan, data=(), **more):
        self.given: list[InferRequest] = []
        self.told: list[object] = []
        self.use = RegionUse(
            regions, plan, lambda _, answer: self.told.append(answer), local=True, **more
        )
        self.request = InferRequest(RequestHead("m", "", ()), data, self.use.done, None, 0)

    def start(self):
        self.use.start(self.request, self.given.append)
        return self


def test_one_name_one_region():
    with shm_object(bytes(PAGE)) as path:
        regions = regions_of(path)
        with pytest.raises(AlreadyExists, match="shared memory region 'r' already in manager"):
            regions.register_system("r", path.name, 0, PAGE)
        with pytest.raises(InvalidArgument, match="'region name' is necessary"):
            regions.register_system("", path.name, 0, PAGE)
        with pytest.raises(InvalidArgument, match="may have 1024 characters"):
            regions.register_system("n" * 2000, path.name, 0, PAGE)
        assert names(regions) == ["r"]
        regions.close()


def test_there_are_as_many_regions_as_there_may_be():
    before = open_files()
    with shm_object(bytes(PAGE)) as path:
        options = RegionOptions(enabled=True, max_regions=100)
        regions = regions_of(path, *map(str, range(100)), options=options)
        assert open_files() == before + 100
        with pytest.raises(Unavailable, match="holds 100 regions, as many as it may"):
            regions.register_system("one more", path.name, 0, PAGE)
        regions.unregister(RegionKind.SYSTEM, "7")
        regions.register_system("one more", path.name, 0, PAGE)
        regions.unregister(RegionKind.SYSTEM, "")
        assert names(regions) == []
    assert open_files() == before


def test_who_may_have_shared_memory():
    with pytest.raises(Unsupported) as caught:
        Regions().check_client(local=True)
    assert caught.value.text == DISABLED
    Regions(OPEN).check_client(local=True)
    with pytest.raises(Unsupported) as caught:
        Regions(OPEN).check_client(local=False)
    assert caught.value.text == LOCAL_ONLY
    Regions(RegionOptions(enabled=True, remote=True)).check_client(local=False)


def test_clients_outside_of_loopback_neither_see_nor_use_regions():
    with shm_object(bytes(PAGE)) as path:
        regions = regions_of(path)
        assert regions.status(RegionKind.SYSTEM, "", local=False) == []
        with pytest.raises(NotFound, match="Unable to find system shared memory region: 'r'"):
            regions.status(RegionKind.SYSTEM, "r", local=False)
        plan = RegionPlan({0: RegionSpan("r", 0, 8)})
        with pytest.raises(Unsupported) as caught:
            RegionUse(regions, plan, lambda *_: None, local=False)
        assert caught.value.text == LOCAL_ONLY
        regions.close()


def test_kinds_are_not_mixed_up():
    with shm_object(bytes(PAGE)) as path:
        regions = regions_of(path)
        text = "registered as system shared memory, not CUDA shared memory"
        with pytest.raises(InvalidArgument, match=text):
            regions.status(RegionKind.CUDA, "r", local=True)
        with pytest.raises(InvalidArgument, match=text):
            regions.unregister(RegionKind.CUDA, "r")
        regions.unregister(RegionKind.CUDA, "")
        assert names(regions) == ["r"]
        regions.close()


@pytest.mark.parametrize(
    ("offset", "size", "text"),
    [
        (PAGE, 1, "Invalid offset for shared memory region: 'r'"),
        (2**64 - 1, 1, "Invalid offset for shared memory region: 'r'"),
        (32, 2**64 - 32, "Integer overflow detected: byte_size "),
        (1, PAGE, "Invalid offset + byte size for shared memory region: 'r'"),
    ],
)
def test_spans_lie_inside_their_region(offset, size, text):
    with shm_object(bytes(PAGE)) as path:
        regions = regions_of(path)
        for plan in (
            RegionPlan({0: RegionSpan("r", offset, size)}),
            RegionPlan({}, {"O": RegionSpan("r", offset, size)}),
        ):
            with pytest.raises(InvalidArgument) as caught:
                RegionUse(regions, plan, lambda *_: None, local=True)
            assert text in caught.value.text
        regions.unregister(RegionKind.SYSTEM, "r")
        assert names(regions) == []  # nobody holds it


def test_a_region_stays_until_its_last_user_is_settled():
    before = open_files()
    with shm_object(bytes(PAGE)) as path:
        regions = regions_of(path)
        plan = RegionPlan({0: RegionSpan("r", 0, 4)}, {"O": RegionSpan("r", 8, 4)})
        first = Asked(regions, plan, [b""]).start()
        regions.unregister(RegionKind.SYSTEM, "r")
        regions.unregister(RegionKind.SYSTEM, "r")
        assert names(regions) == ["r"]
        second = Asked(regions, plan, [b""]).start()
        first.use.done(first.request, ANSWER)
        assert names(regions) == ["r"]
        second.use.done(second.request, Internal("the model failed"))
        assert names(regions) == []
        assert path.read_bytes()[8:12] == b"abcd"
        assert isinstance(second.told[0], Internal)
    assert open_files() == before


def test_data_is_in_place_before_the_core_has_it_and_outputs_before_the_client_knows():
    with shm_object(bytes(range(256)) * (PAGE // 256)) as path:
        regions = regions_of(path)
        plan = RegionPlan({1: RegionSpan("r", 3, 2)}, {"P": RegionSpan("r", 100, 50)})
        asked = Asked(regions, plan, [b"plain", b""]).start()
        assert asked.given == [asked.request]
        assert asked.request.data == [b"plain", b"\x03\x04"]
        asked.use.done(asked.request, ANSWER)
        (answer,) = asked.told
        assert isinstance(answer, InferResponse)
        assert answer.head is HEAD
        assert list(answer.data) == [b"abcd", b""]
        assert path.read_bytes()[99:103] == b"\x63ef\x66"
        regions.close()


def test_what_a_client_writes_after_it_asked_does_not_change_what_it_asked():
    with shm_object(bytes(PAGE)) as path:
        regions = regions_of(path)
        asked = Asked(regions, RegionPlan({0: RegionSpan("r", 0, 4)}), [b""]).start()
        path.write_bytes(b"\xff" * PAGE)
        assert asked.request.data == [bytes(4)]
        asked.use.done(asked.request, ANSWER)
        regions.close()


def test_nothing_is_written_where_not_all_would_fit():
    with shm_object(bytes(PAGE)) as path:
        regions = regions_of(path)
        plan = RegionPlan({}, {"O": RegionSpan("r", 0, 4), "P": RegionSpan("r", 8, 1)})
        asked = Asked(regions, plan).start()
        asked.use.done(asked.request, ANSWER)
        (fault,) = asked.told
        assert isinstance(fault, InvalidArgument)
        assert fault.text == (
            "shared memory size specified with the request for output 'P' (1 bytes) should be at "
            "least 2 bytes to hold the results"
        )
        assert path.read_bytes() == bytes(PAGE)
        regions.close()


def test_memory_taken_away_is_a_fault_of_its_request_only():
    with shm_object(bytes(PAGE)) as path:
        regions = regions_of(path)
        late = Asked(regions, RegionPlan({}, {"O": RegionSpan("r", 0, 4)})).start()
        os.truncate(path, 0)
        early = Asked(regions, RegionPlan({0: RegionSpan("r", 0, 4)}), [b""]).start()
        assert early.given == []
        late.use.done(late.request, ANSWER)
        for asked in (early, late):
            (fault,) = asked.told
            assert isinstance(fault, InvalidArgument)
            assert "has become smaller" in fault.text
        regions.unregister(RegionKind.SYSTEM, "")
        assert names(regions) == []


def test_bytes_held_by_requests_in_flight_are_bounded():
    with shm_object(bytes(PAGE)) as path:
        regions = regions_of(path, options=RegionOptions(enabled=True, max_copied_bytes=100))
        plan = RegionPlan({0: RegionSpan("r", 0, 60)})
        first = Asked(regions, plan, [b""]).start()
        with pytest.raises(Unavailable, match="as many bytes of shared memory inputs as they may"):
            Asked(regions, plan, [b""])
        first.use.done(first.request, ANSWER)
        second = Asked(regions, plan, [b""])
        assert regions.copied_bytes == 60
        second.use.done(second.request, ANSWER)
        assert regions.copied_bytes == 0
        regions.close()


class HeldMemory:
    """Reads and writes when the test says so, and says on which thread."""

    def __init__(self):
        self.free = threading.Event()
        self.threads: list[int] = []
        self.written: list[bytes] = []
        self.closed = False
        self.broken = False

    def read(self, offset, size):
        self._pass()
        return bytes(size)

    def write(self, offset, data):
        self._pass()
        self.written.append(bytes(data))

    def close(self):
        self.closed = True

    def _pass(self):
        self.threads.append(threading.get_ident())
        assert self.free.wait(20)
        if self.broken:
            raise ValueError("no memory like this")


BIG = 2 << 20


def held_regions():
    memory = HeldMemory()
    regions = Regions(OPEN)
    port: Memory = memory
    regions._by_name["r"] = Region("r", RegionKind.SYSTEM, port, BIG)
    return regions, memory


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


async def test_large_tensors_are_copied_off_the_event_loop():
    regions, memory = held_regions()
    span = RegionSpan("r", 0, BIG)
    asked = Asked(regions, RegionPlan({0: span}, {"O": span}), [b""]).start()
    assert asked.given == []
    memory.free.set()
    await until(lambda: asked.given)
    assert asked.request.data == [bytes(BIG)]
    answer = InferResponse(ResponseHead("m", "1", HEAD.outputs[:1]), [b"x" * BIG])
    asked.use.done(asked.request, answer)
    assert asked.told == []
    await until(lambda: asked.told)
    assert memory.written == [b"x" * BIG]
    assert threading.get_ident() not in memory.threads


async def test_in_turn_means_at_once():
    regions, memory = held_regions()
    memory.free.set()
    plan = RegionPlan({0: RegionSpan("r", 0, BIG)})
    asked = Asked(regions, plan, [b""], in_turn=True).start()
    assert asked.given == [asked.request]
    assert memory.threads == [threading.get_ident()]
    asked.use.done(asked.request, ANSWER)


async def test_a_client_that_left_while_its_data_was_read_costs_no_execution():
    regions, memory = held_regions()
    asked = Asked(regions, RegionPlan({0: RegionSpan("r", 0, BIG)}), [b""]).start()
    regions.unregister(RegionKind.SYSTEM, "r")
    asked.request.cancelled = True
    memory.free.set()
    await until(lambda: asked.told)
    assert asked.given == []
    assert isinstance(asked.told[0], Cancelled)
    assert memory.closed


async def test_what_is_large_is_copied_also_when_there_are_no_threads(monkeypatch):
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    regions, memory = held_regions()
    memory.free.set()
    asked = Asked(regions, RegionPlan({0: RegionSpan("r", 0, BIG)}), [b""])
    monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", refuse)
    asked.start()
    assert asked.given == [asked.request]
    asked.use.done(asked.request, ANSWER)
    regions.unregister(RegionKind.SYSTEM, "r")
    assert memory.closed


async def test_nothing_is_written_for_a_client_that_has_left():
    regions, memory = held_regions()
    asked = Asked(regions, RegionPlan({}, {"O": RegionSpan("r", 0, 8)})).start()
    asked.request.cancelled = True
    asked.use.done(asked.request, ANSWER)
    assert memory.written == []
    assert len(asked.told) == 1


async def test_an_unforeseen_error_is_an_internal_fault_and_is_let_go(caplog):
    regions, memory = held_regions()
    memory.broken = True
    memory.free.set()
    asked = Asked(regions, RegionPlan({0: RegionSpan("r", 0, 8)}), [b""]).start()
    assert isinstance(asked.told[0], Internal)
    assert regions.find("r").users == 0
    assert "shared memory could not be copied" in caplog.text


def test_each_of_several_answers_goes_to_the_region():
    regions, memory = held_regions()
    memory.free.set()
    asked = Asked(regions, RegionPlan({}, {"O": RegionSpan("r", 0, 4)}), in_turn=True)
    seen: list[object] = []
    partial = asked.use.partial(lambda _, answer: seen.append(answer))
    partial(asked.request, ANSWER)
    partial(asked.request, RuntimeFault("the model said so"))
    assert memory.written == [b"abcd"]
    assert isinstance(seen[0], InferResponse)
    assert list(seen[0].data) == [b"", b"ef"]
    assert isinstance(seen[1], RuntimeFault)
    assert regions.find("r").users == 1
    asked.use.done(asked.request, ANSWER)
    assert regions.find("r").users == 0


NAMES = st.sampled_from("abc")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["register", "unregister"]), NAMES),
        st.tuples(st.just("start"), st.tuples(NAMES, NAMES)),
        st.tuples(st.just("done"), st.integers(0, 5)),
        st.tuples(st.just("unregister all"), st.none()),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_happens_a_region_is_open_while_it_is_listed_and_only_then(steps):
    """Against a model: who is registered, who is used, and by how many."""
    regions = Regions(OPEN)
    memories: dict[str, HeldMemory] = {}
    leaving: set[str] = set()
    under_way: list[tuple[Asked, set[str]]] = []

    def used(name):
        return any(name in held for _, held in under_way)

    def drop_unused():
        for name in [name for name in leaving if not used(name)]:
            leaving.discard(name)
            assert memories.pop(name).closed

    for step, what in steps:
        if step == "register" and what not in memories:
            memory = memories[what] = HeldMemory()
            memory.free.set()
            port: Memory = memory
            regions._by_name[what] = Region(what, RegionKind.SYSTEM, port, PAGE)
        elif step.startswith("unregister"):
            regions.unregister(RegionKind.SYSTEM, what or "")
            leaving |= set(memories) & ({what} if what else set(memories))
        elif step == "start" and set(what) <= set(memories):
            source, target = (RegionSpan(name, 0, 8) for name in what)
            asked = Asked(regions, RegionPlan({0: source}, {"O": target}), [b""]).start()
            under_way.append((asked, set(what)))
        elif step == "done" and what < len(under_way):
            asked, _ = under_way.pop(what)
            asked.use.done(asked.request, ANSWER)
            assert len(asked.told) == 1
        drop_unused()
        assert set(names(regions)) == set(memories)
        assert not any(memory.closed for memory in memories.values())
        assert regions.copied_bytes == 8 * len(under_way)
