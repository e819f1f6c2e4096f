"""Slots: never more than there are, nobody starved, all of them back in the end; and what is refused."""

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

from inference_runtime.errors import InvalidArgument, NotFound
from inference_runtime.scheduling.rate_limiter import RateLimiter
from inference_runtime.scheduling.resource_pools import GLOBAL, Claimant, Pool
from inference_runtime.spec.model_config import InstanceKind, InstanceSpec, ResourceNeed

R = Pool("R", GLOBAL)
S = Pool("S", "cpu")


def claimant(model="m", needs=None, priority=1) -> Claimant:
    return Claimant(model, 1, f"{model}_0", {R: 1} if needs is None else needs, priority)


@dataclass
class Yard:
    """A limiter and who holds slots."""

    listed: dict[tuple[str, str], int] = field(default_factory=dict)
    executing: list[Claimant] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.limiter = RateLimiter(self.listed)

    def join(self, *claimants: Claimant) -> None:
        self.limiter.join(claimants, self._granted)

    def _granted(self, claimant: Claimant) -> None:
        for use in self.limiter.use():
            assert use.pool not in claimant.needs or use.in_use <= use.capacity
        self.executing.append(claimant)
        self.order.append(claimant.model)

    def finish(self, claimant: Claimant, again=False) -> None:
        self.executing.remove(claimant)
        self.limiter.release(claimant, successor=claimant if again else None)

    def pool(self, pool: Pool):
        return next(use for use in self.limiter.use() if use.pool == pool)


def test_without_a_list_there_is_as_much_as_one_instance_needs_at_most():
    yard = Yard()
    small, large = claimant("small"), claimant("large", {R: 3})
    yard.join(small)
    assert yard.pool(R).capacity == 1
    yard.join(large)
    assert yard.pool(R).capacity == 3
    yard.limiter.leave([large])
    assert yard.pool(R).capacity == 1
    yard.limiter.leave([small])
    assert yard.limiter.use() == []


def test_priority_2_gets_half_the_turns_of_priority_1():
    yard = Yard()
    first, second = claimant("first"), claimant("second", priority=2)
    yard.join(first, second)
    yard.limiter.stage(first)
    yard.limiter.stage(second)
    for _ in range(90):
        yard.finish(yard.executing[0], again=True)
    counts = Counter(yard.order)
    assert counts["first"] == pytest.approx(2 * counts["second"], abs=2)


def test_priorities_hold_in_a_pool_whose_neighbours_are_much_faster():
    yard = Yard()
    fast = claimant("fast", {S: 1})
    first, second = claimant("first"), claimant("second", priority=2)
    yard.join(fast, first, second)
    for each in (fast, first, second):
        yard.limiter.stage(each)
    for _ in range(60):
        for _ in range(50):
            yard.finish(fast, again=True)
        yard.finish(next(each for each in yard.executing if each is not fast), again=True)
    counts = Counter(yard.order)
    assert counts["first"] == pytest.approx(2 * counts["second"], abs=2)


def test_a_newcomer_has_no_claim_to_turns_of_the_past():
    yard = Yard()
    old, new = claimant("old"), claimant("new")
    yard.join(old)
    yard.limiter.stage(old)
    for _ in range(500):
        yard.finish(old, again=True)
    yard.join(new)
    yard.limiter.stage(new)
    for _ in range(20):
        yard.finish(yard.executing[0], again=True)
    assert Counter(yard.order[-20:])["old"] == pytest.approx(10, abs=1)


def test_nobody_overtakes_one_that_waits_for_the_same_slots():
    yard = Yard({("R", ""): 2})
    small, other, large = claimant("small"), claimant("other"), claimant("large", {R: 2})
    yard.join(small, other, large)
    yard.limiter.stage(small)
    yard.limiter.stage(large)
    yard.limiter.stage(other)  # would fit beside `small`
    assert yard.order == ["small"]
    yard.finish(small)
    assert yard.order == ["small", "large"]
    yard.finish(large)
    assert yard.order == ["small", "large", "other"]


def test_one_that_waits_holds_back_only_those_that_need_the_same():
    yard = Yard()
    holder, waiting, elsewhere = claimant("holder"), claimant("waiting"), claimant("else", {S: 1})
    yard.join(holder, waiting, elsewhere)
    for each in (holder, waiting, elsewhere):
        yard.limiter.stage(each)
    assert yard.order == ["holder", "else"]
    assert yard.pool(R).waiting == 1
    assert yard.pool(R).holders == (holder,)


def test_a_turn_that_was_not_used_costs_nothing():
    yard = Yard()
    first, second = claimant("first"), claimant("second")
    yard.join(first, second)
    yard.limiter.stage(first)
    yard.executing.remove(first)
    yard.limiter.release(first, executed=False)
    yard.limiter.stage(first)
    yard.limiter.stage(second)
    yard.finish(first, again=True)
    assert yard.order == ["first", "first", "second"]


def test_slots_of_one_that_leaves_are_free():
    yard = Yard()
    first, second, third = claimant("first"), claimant("second"), claimant("third")
    yard.join(first, second)
    yard.join(third)
    for each in (first, second, third):
        yard.limiter.stage(each)
    yard.limiter.leave([first, second])
    assert yard.order == ["first", "third"]
    assert yard.pool(R).in_use == 1


def test_a_listed_count_below_the_need_is_refused_and_leaves_nothing_behind():
    yard = Yard({("R", ""): 1})
    yard.join(claimant("small"))
    with pytest.raises(InvalidArgument) as caught:
        yard.join(claimant("large", {R: 4}))
    assert caught.value.text == (
        'Resource count for "R" is limited to 1 which will prevent scheduling of one or more model '
        "instances, the minimum required count is 4"
    )
    assert yard.pool(R).capacity == 1
    yard.join(claimant("another"))


def test_what_the_list_leaves_out_is_not_there():
    yard = Yard({("R", ""): 1})
    with pytest.raises(InvalidArgument, match='"S" is limited to 0'):
        yard.join(claimant(needs={S: 1}))


@pytest.mark.parametrize(
    ("listed", "device", "capacity"),
    [
        ({("S", ""): 3}, "gpu:1", 3),
        ({("S", ""): 3, ("S", "gpu:1"): 2}, "gpu:1", 2),
        ({("S", ""): 3, ("S", "gpu:1"): 2}, "gpu:0", 3),
        ({("S", "gpu:0"): 2}, "cpu", 2),
        ({("S", "gpu:0"): 2, ("S", "cpu"): 5}, "cpu", 5),
        ({("S", "gpu:1"): 2}, GLOBAL, 2),
    ],
)
def test_listed_counts_are_found_by_device(listed, device, capacity):
    yard = Yard(listed)
    pool = Pool("S", device)
    yard.join(claimant(needs={pool: 1}))
    assert yard.pool(pool).capacity == capacity


def test_a_name_is_global_or_of_a_device():
    yard = Yard()
    yard.join(claimant("first"))
    with pytest.raises(InvalidArgument) as caught:
        yard.join(claimant("second", {Pool("R", "cpu"): 1}))
    assert caught.value.text == (
        'Resource "R" is present as both global and device-specific resource in the model configuration.'
    )


def test_a_config_becomes_needs_of_its_device_and_of_the_server():
    spec = InstanceSpec(
        "m_0",
        InstanceKind.GPU,
        "gpu:1",
        resources=(
            ResourceNeed("R", 2, whole_server=True),
            ResourceNeed("S", 1),
            ResourceNeed("S", 3),
            ResourceNeed("nothing", 0),
        ),
    )
    made = Claimant.of("m", 1, spec)
    assert made.needs == {Pool("R", GLOBAL): 2, Pool("S", "gpu:1"): 3}
    assert made.weight == 1


def test_more_capacity_lets_waiting_ones_go_at_once():
    yard = Yard()
    first, second = claimant("first"), claimant("second")
    yard.join(first, second)
    yard.limiter.stage(first)
    yard.limiter.stage(second)
    yard.limiter.change({R: 2})
    assert yard.order == ["first", "second"]


def test_less_capacity_lets_holders_finish():
    yard = Yard({("R", ""): 2})
    first, second = claimant("first"), claimant("second")
    yard.join(first, second)
    yard.limiter.stage(first)
    yard.limiter.stage(second)
    yard.limiter.change({R: 1})
    assert (yard.pool(R).in_use, yard.pool(R).capacity) == (2, 1)
    yard.finish(first, again=True)
    assert yard.executing == [second]
    yard.finish(second)
    assert yard.executing == [first]


def test_a_capacity_below_a_need_is_refused_with_the_models():
    yard = Yard()
    yard.join(claimant("small"))
    yard.join(claimant("large", {R: 3, S: 2}))
    with pytest.raises(InvalidArgument) as caught:
        yard.limiter.change({S: 4, R: 2})
    assert caught.value.text == (
        'Resource count for "R" is limited to 2 which will prevent scheduling of one or more model '
        "instances, the minimum required count is 3: needed by 'large' version 1"
    )
    assert yard.pool(S).capacity == 2


def test_a_capacity_that_was_set_can_be_taken_back_and_outlives_the_models():
    yard = Yard()
    member = claimant()
    yard.join(member)
    yard.limiter.change({R: 5})
    yard.limiter.leave([member])
    assert yard.pool(R).capacity == 5
    yard.limiter.change({R: None})
    assert yard.limiter.use() == []


def test_only_a_resource_that_is_known_has_a_capacity_to_set():
    yard = Yard()
    with pytest.raises(NotFound, match='there is no resource "R" on device "global"'):
        yard.limiter.change({R: 1})


POOLS = (R, S, Pool("T", "gpu:0"))
needs_of = st.dictionaries(st.sampled_from(POOLS), st.integers(1, 3), max_size=3)
members = st.lists(st.tuples(needs_of, st.integers(1, 3)), min_size=1, max_size=5)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("stage"), st.integers(0, 4)),
        st.tuples(st.just("stage"), st.integers(0, 4)),
        st.tuples(st.just("finish"), st.integers(0, 4)),
        st.tuples(st.just("again"), st.integers(0, 4)),
        st.tuples(st.just("unused"), st.integers(0, 4)),
        st.tuples(st.just("leave"), st.integers(0, 4)),
        st.tuples(st.just("change"), st.integers(0, 2), st.integers(0, 6)),
    ),
    max_size=80,
)


class Story:
    def __init__(self, members_) -> None:
        self.yard = Yard()
        self.members = [
            claimant(f"m{number}", needs, priority)
            for number, (needs, priority) in enumerate(members_)
        ]
        for member in self.members:
            self.yard.join(member)
        self.gone: set[Claimant] = set()
        self.staged: set[Claimant] = set()

    def tell(self, steps_) -> None:
        for step in steps_:
            self._step(step)
            self.staged -= set(self.yard.executing)
            self.check()

    def _step(self, step) -> None:
        yard = self.yard
        match step:
            case ("stage", number) if (member := self._idle(number)) is not None:
                self.staged.add(member)
                yard.limiter.stage(member)
            case ("finish" | "again" as word, number) if yard.executing:
                member = yard.executing[number % len(yard.executing)]
                if word == "again":
                    self.staged.add(member)
                yard.finish(member, again=word == "again")
            case ("unused", number) if yard.executing:
                member = yard.executing.pop(number % len(yard.executing))
                yard.limiter.release(member, executed=False)
            case ("leave", number) if (member := self._present(number)) is not None:
                self.gone.add(member)
                self.staged.discard(member)
                if member in yard.executing:
                    yard.executing.remove(member)
                yard.limiter.leave([member])
            case ("change", number, capacity):
                before = yard.limiter.use()
                try:
                    yard.limiter.change({POOLS[number]: capacity})
                except (InvalidArgument, NotFound):
                    assert yard.limiter.use() == before

    def _present(self, number):
        member = self.members[number % len(self.members)]
        return None if member in self.gone else member

    def _idle(self, number):
        member = self._present(number)
        return None if member in self.staged or member in self.yard.executing else member

    def check(self) -> None:
        executing = self.yard.executing
        assert not self.staged & set(executing)
        for use in self.yard.limiter.use():
            held = [member for member in executing if use.pool in member.needs]
            assert list(use.holders) == held
            assert use.in_use == sum(member.needs[use.pool] for member in held)
            assert use.waiting == sum(1 for member in self.staged if use.pool in member.needs)


@settings(max_examples=100, deadline=None)
@given(members_=members, steps_=steps)
def test_capacity_is_kept_and_all_slots_come_back(members_, steps_):
    story = Story(members_)
    story.tell(steps_)
    yard = story.yard
    for _ in range(1000):
        if not yard.executing:
            break
        yard.finish(yard.executing[0])
        story.staged -= set(yard.executing)
    assert yard.executing == []
    assert story.staged == set()
    assert all(use.in_use == use.waiting == 0 for use in yard.limiter.use())
    yard.limiter.leave([member for member in story.members if member not in story.gone])
    assert all(use.holders == () for use in yard.limiter.use())


@settings(max_examples=100, deadline=None)
@given(members_=members, turns=st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_nobody_is_passed_by_more_often_than_the_priorities_say(members_, turns):
    story = Story(members_)
    yard = story.yard
    for member in story.members:
        yard.limiter.stage(member)
    passed = Counter()
    for number in turns:
        if not yard.executing:
            break
        before = len(yard.order)
        yard.finish(yard.executing[number % len(yard.executing)], again=True)
        waiting = {m.model for m in story.members} - {m.model for m in yard.executing}
        for model in yard.order[before:]:
            passed[model] = 0
            passed.update(waiting)
    heaviest = max(member.weight for member in story.members)
    assert all(count <= len(members_) * (heaviest + 1) for count in passed.values())
