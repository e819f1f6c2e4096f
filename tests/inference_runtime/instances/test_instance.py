"""An instance and its thread; the group that lends instances out."""

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

from inference_runtime.errors import Internal
from inference_runtime.instances.batch import Batch, Execution
from inference_runtime.instances.instance import Instance
from inference_runtime.instances.instance_group import InstanceGroup
from inference_runtime.instances.runner import BatchRunner
from tests.inference_runtime.scheduling.stage import (
    Clients,
    GatedBackend,
    fresh_stats,
    loaded,
    model_config,
)


class Bench:
    def __init__(self, backend: Any) -> None:
        self.config = model_config()
        self.clients = Clients(self.config)
        self.finished: list[Execution] = []
        self.told = asyncio.Event()
        self.threads: list[int] = []
        (entry,) = loaded(self.config, backend)
        self.stats = fresh_stats(self.config)
        self.instance = Instance(
            entry,
            runner=BatchRunner(self.config, model_name="batcher", version=1),
            device=self.stats.device(),
            work=self.stats.instance(entry.spec),
            loop=asyncio.get_running_loop(),
        )

    def batch(self) -> Batch:
        return Batch([self.clients.request(value=5.0)], 1)

    def hear(self, instance: Instance, execution: Execution) -> None:
        self.threads.append(threading.get_ident())
        self.finished.append(execution)
        self.told.set()


async def test_tells_the_event_loop_when_a_batch_is_done():
    backend = GatedBackend()
    bench = Bench(backend)
    batch = bench.batch()
    bench.instance.run_in_thread(batch, bench.hear)
    await asyncio.wait_for(bench.told.wait(), 10)
    assert bench.finished[0].batch is batch
    assert bench.threads == [threading.get_ident()]
    assert backend.threads != {threading.get_ident()}
    await bench.instance.stop()


async def test_makes_no_thread_for_batches_that_run_inline():
    bench = Bench(GatedBackend())
    before = threading.active_count()
    execution = bench.instance.run(bench.batch())
    assert not execution.faulty
    assert threading.active_count() == before
    await bench.instance.stop()


async def test_a_system_without_threads_fails_the_batch_and_not_the_instance(monkeypatch):
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    bench = Bench(GatedBackend())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        bench.instance.run_in_thread(bench.batch(), bench.hear)
    await asyncio.wait_for(bench.told.wait(), 10)
    (fault,) = bench.finished[0].answers
    assert isinstance(fault, Internal)
    assert "can't start new thread" in fault.text
    bench.told.clear()
    bench.instance.run_in_thread(bench.batch(), bench.hear)
    await asyncio.wait_for(bench.told.wait(), 10)
    assert not bench.finished[1].faulty
    await bench.instance.stop()


async def test_stopping_finishes_the_batch_in_hand_and_ends_the_thread():
    backend = GatedBackend(open_=False)
    bench = Bench(backend)
    bench.instance.run_in_thread(bench.batch(), bench.hear)
    stopping = asyncio.create_task(bench.instance.stop())
    await asyncio.sleep(0.01)
    assert not stopping.done()
    backend.gate.set()
    await asyncio.wait_for(stopping, 10)
    assert len(bench.finished) == 1
    await bench.instance.stop()


async def test_an_idle_thread_keeps_no_batch_alive():
    class Tensor:
        pass

    bench = Bench(GatedBackend())
    batch = bench.batch()
    tensor = Tensor()
    batch.requests[0].context = tensor
    alive = weakref.ref(tensor)
    bench.instance.run_in_thread(batch, bench.hear)
    await asyncio.wait_for(bench.told.wait(), 10)
    bench.finished.clear()
    del batch, tensor
    for _ in range(100):
        gc.collect()
        if alive() is None:
            break
        await asyncio.sleep(0.01)
    assert alive() is None
    await bench.instance.stop()


async def test_a_group_lends_the_instance_that_finished_last():
    bench = Bench(GatedBackend())
    other = Bench(GatedBackend())
    group = InstanceGroup([bench.instance, other.instance])
    assert (group.size, group.busy) == (2, 0)
    first, second = group.acquire(), group.acquire()
    assert first is not None
    assert second is not None
    assert (group.busy, group.acquire()) == (2, None)
    group.release(second)
    group.release(first)
    assert group.acquire() is first
    await group.stop()


@pytest.mark.parametrize("in_thread", [False, True])
async def test_the_time_of_executions_is_the_instances_own_even_when_they_fail(in_thread):
    backend = GatedBackend()
    bench = Bench(backend)
    total = 0
    for failure in (None, Internal("the model failed")):
        backend.failure = failure
        if in_thread:
            bench.told.clear()
            bench.instance.run_in_thread(bench.batch(), bench.hear)
            await bench.told.wait()
            execution = bench.finished[-1]
        else:
            execution = bench.instance.run(bench.batch())
        total += execution.times.compute_ns
        assert bench.stats.instances["batcher_0"].busy_ns == total > 0
    await bench.instance.stop()
