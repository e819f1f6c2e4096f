"""Protocol 4.3, queue policies and priorities; 9.8 rows 129 to 134 as far as a queue decides them."""

import time

from inference_runtime.scheduling.request_queue import RequestQueue
from tests.inference_runtime.scheduling.stage import Clients, model_config

MS = 1_000_000


def queue_of(text: str) -> tuple[RequestQueue, Clients]:
    config = model_config(f"dynamic_batching {{ {text} }}")
    return RequestQueue(config.dynamic_batching), Clients(config)


def test_first_come_first_served():
    queue, clients = queue_of("")
    first, second, third = (clients.request() for _ in range(3))
    for request in (first, second, third):
        assert queue.push(request)
    assert queue.take(2) == [first, second]
    assert list(queue.waiting()) == [third]
    assert len(queue) == 1


def test_129_a_full_queue_says_so_and_has_room_again_when_one_left():
    queue, clients = queue_of("default_queue_policy { max_queue_size: 2 }")
    assert queue.push(clients.request())
    assert queue.push(clients.request())
    assert not queue.push(clients.request())
    queue.take(1)
    assert queue.push(clients.request())


def test_the_bound_is_per_level():
    queue, clients = queue_of(
        "priority_levels: 2 default_priority_level: 2 default_queue_policy { max_queue_size: 1 }"
    )
    assert queue.push(clients.request(priority=1))
    assert queue.push(clients.request(priority=2))
    assert not queue.push(clients.request(priority=2))


def test_levels_that_nobody_waits_in_do_not_pile_up():
    queue, clients = queue_of("priority_levels: 18446744073709551615 default_priority_level: 1")
    waits = clients.request(priority=2**40)
    assert queue.push(waits)
    for priority in range(1, 1001):
        request = clients.request(priority=priority)
        assert queue.push(request)
        assert queue.take(1) == [request]
    assert len(queue._levels) <= 100
    first = clients.request(priority=7)
    queue.push(first)
    assert list(queue.waiting()) == [first, waits]
    assert queue.take(2) == [first, waits]


def test_130_an_expired_request_is_given_back_exactly_when_its_time_is_over():
    queue, clients = queue_of("default_queue_policy { default_timeout_microseconds: 100000 }")
    request = clients.request(at_ns=MS)
    queue.push(request)
    assert queue.next_expiry_ns == 101 * MS
    assert queue.expire(101 * MS - 1) == []
    assert queue.expire(101 * MS) == [request]
    assert len(queue) == 0
    assert queue.next_expiry_ns == 0


def test_131_a_delayed_request_stands_behind_the_prompt_ones_of_its_level():
    queue, clients = queue_of(
        "default_queue_policy { default_timeout_microseconds: 100000 timeout_action: DELAY }"
    )
    late = clients.request(at_ns=0)
    queue.push(late)
    assert queue.expire(100 * MS) == []
    prompt = clients.request(at_ns=150 * MS)
    queue.push(prompt)
    assert list(queue.waiting()) == [prompt, late]
    assert queue.take(2) == [prompt, late]


def test_131_a_delayed_request_still_counts_for_the_bound():
    queue, clients = queue_of(
        "default_queue_policy { default_timeout_microseconds: 1000 timeout_action: DELAY max_queue_size: 1 }"
    )
    queue.push(clients.request(at_ns=0))
    queue.expire(MS)
    assert not queue.push(clients.request(at_ns=2 * MS))


def test_132_a_shorter_timeout_of_the_request_counts_and_a_longer_one_does_not():
    queue, clients = queue_of(
        "default_queue_policy { default_timeout_microseconds: 100000 allow_timeout_override: true }"
    )
    shorter, longer = clients.request(timeout_us=10_000), clients.request(timeout_us=500_000)
    queue.push(shorter)
    queue.push(longer)
    assert queue.expire(10 * MS) == [shorter]
    assert queue.expire(100 * MS) == [longer]


def test_132_without_permission_the_requests_timeout_is_ignored():
    queue, clients = queue_of("default_queue_policy { default_timeout_microseconds: 100000 }")
    queue.push(clients.request(timeout_us=10_000))
    assert queue.next_expiry_ns == 100 * MS


def test_132_with_a_default_of_0_an_override_never_takes_effect():
    queue, clients = queue_of("default_queue_policy { allow_timeout_override: true }")
    queue.push(clients.request(timeout_us=10_000))
    assert queue.next_expiry_ns == 0


def test_134_priority_0_means_the_default_level_and_large_values_work():
    queue, clients = queue_of(
        "priority_levels: 18446744073709551615 default_priority_level: 4294967297"
    )
    unasked = clients.request(priority=0)
    high, low = clients.request(priority=4294967296), clients.request(priority=2**64 - 1)
    for request in (low, unasked, high):
        queue.push(request)
    assert list(queue.waiting()) == [high, unasked, low]


def test_134_a_priority_above_the_levels_means_the_default_level():
    queue, clients = queue_of("priority_levels: 2 default_priority_level: 1")
    second = clients.request(priority=2)
    unknown = clients.request(priority=3)
    queue.push(second)
    queue.push(unknown)
    assert list(queue.waiting()) == [unknown, second]


def test_without_levels_priorities_are_ignored():
    queue, clients = queue_of("")
    first, second = clients.request(priority=9), clients.request(priority=1)
    queue.push(first)
    queue.push(second)
    assert list(queue.waiting()) == [first, second]


def test_each_level_has_its_own_policy():
    queue, clients = queue_of(
        "priority_levels: 2 default_priority_level: 2 "
        "priority_queue_policy { key: 1 value { default_timeout_microseconds: 1000 } }"
    )
    hurried, patient = clients.request(priority=1), clients.request(priority=2)
    queue.push(hurried)
    queue.push(patient)
    assert queue.expire(MS) == [hurried]
    assert queue.next_expiry_ns == 0


def test_a_clients_own_deadline_ends_its_wait_even_under_delay():
    queue, clients = queue_of(
        "default_queue_policy { default_timeout_microseconds: 1000 timeout_action: DELAY }"
    )
    request = clients.request()
    request.deadline_ns = 5 * MS
    queue.push(request)
    assert queue.expire(MS) == []
    assert queue.next_expiry_ns == 5 * MS
    assert queue.expire(5 * MS) == [request]


def test_the_order_changes_for_all_but_arrivals_at_its_end():
    queue, clients = queue_of("priority_levels: 2 default_priority_level: 2")
    queue.push(clients.request(priority=2))
    revision = queue.revision
    queue.push(clients.request(priority=2))
    assert queue.revision == revision
    queue.push(clients.request(priority=1))
    assert queue.revision != revision


def test_removes_what_is_asked_for():
    queue, clients = queue_of("default_queue_policy { max_queue_size: 2 }")
    stays, leaves = clients.request(), clients.request()
    queue.push(leaves)
    queue.push(stays)
    assert not queue.push(clients.request())
    queue.remove(leaves)
    assert len(queue) == 1
    second = clients.request()
    assert queue.push(second)
    queue.remove(second)
    assert list(queue.waiting()) == [stays]
    assert queue.take(1) == [stays]


def test_a_request_that_has_left_does_not_expire():
    queue, clients = queue_of("default_queue_policy { default_timeout_microseconds: 1000 }")
    stays, leaves = clients.request(), clients.request()
    queue.push(leaves)
    queue.push(stays)
    queue.remove(leaves)
    assert queue.expire(MS) == [stays]
    assert len(queue) == 0


def test_when_many_leave_none_is_looked_for_among_all_the_others():
    def seconds(count: int) -> float:
        queue, clients = queue_of("")
        requests = [clients.request() for _ in range(count)]
        for request in requests:
            queue.push(request)
        began = time.perf_counter()
        for request in reversed(requests):
            queue.remove(request)
        took = time.perf_counter() - began
        assert len(queue) == 0
        assert not queue._only.prompt
        return took

    # Twenty times as many took four hundred times as long.
    assert min(seconds(10_000) for _ in range(3)) < 100 * min(seconds(500) for _ in range(3))
