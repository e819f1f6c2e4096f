"""The instances of a model with sequences: each forms batches of the sequences in its slots and runs them."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from inference_runtime.instances.batch import Execution
from inference_runtime.instances.execution_placement import ExecutionPlacement
from inference_runtime.instances.instance import Instance
from inference_runtime.instances.instance_group import InstanceGroup
from inference_runtime.instances.sequence_batch import SequenceBatch
from inference_runtime.scheduling.dynamic_batcher import WaitUntil
from inference_runtime.scheduling.sequence_batcher import Rows, SequenceBatcher
from inference_runtime.scheduling.sequence_requests import filler_of
from inference_runtime.scheduling.sequence_table import LiveSequence
from inference_runtime.spec.messages import InferRequest

_LOOK_AGAIN = -1


@dataclass(slots=True)
class Lane:
    """One instance, because a sequence can not go to whichever is free."""

    group: InstanceGroup  # of one
    batcher: SequenceBatcher
    # Number of the process in which the model keeps what it knows of sequences; None: it keeps nothing.
    process: Callable[[], int] | None = None
    seen: int = 0  # that number at the last look


@dataclass(frozen=True, slots=True)
class LaneEvents:
    """What the scheduler wants to hear."""

    started: Callable[[SequenceBatch, Sequence[LiveSequence]], None]
    executed: Callable[[Instance, Execution], None]  # the instance is free again
    turn: Callable[[], None]  # there may be more to do: in the next turn of the loop
    now: Callable[[], None]  # the same, at once


class SequenceLanes:
    def __init__(
        self, lanes: Sequence[Lane], placement: ExecutionPlacement, events: LaneEvents
    ) -> None:
        self._lanes = lanes
        self._placement = placement
        self._events = events
        self._forgetful = [n for n, lane in enumerate(lanes) if lane.process is not None]
        for lane in lanes:
            lane.group.attach(partial(bool, lane.batcher), events.now)

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def busy(self) -> int:
        return sum(lane.group.busy for lane in self._lanes)

    def ready(self, sequence: LiveSequence, now_ns: int) -> None:
        self._lanes[sequence.lane].batcher.ready(sequence, now_ns)

    def withdraw(self, sequence: LiveSequence) -> None:
        self._lanes[sequence.lane].batcher.withdraw(sequence)

    def forgotten(self, sequences: Iterable[LiveSequence]) -> list[LiveSequence]:
        """Those whose model can not know them any more: they began in a process that is gone."""
        found: list[LiveSequence] = []
        for number in self._forgetful:
            lane = self._lanes[number]
            assert lane.process is not None
            process = lane.process()
            if process == lane.seen:
                continue
            lane.seen = process
            for sequence in sequences:
                if sequence.lane != number or sequence.state.home.process == process:
                    continue
                if sequence.busy:
                    lane.seen = _LOOK_AGAIN  # its step will tell where it began, or fail
                elif sequence.begun:
                    found.append(sequence)
        return found

    def hurry(self) -> None:
        for lane in self._lanes:
            lane.batcher.hurry()

    async def stop(self) -> None:
        await asyncio.gather(*(lane.group.stop() for lane in self._lanes))

    def serve(self, now_ns: int) -> int:
        """Starts what can be started. When to look again at the latest; 0: when something happens."""
        moments = [moment_ns for lane in self._lanes if (moment_ns := self._serve(lane, now_ns))]
        return min(moments, default=0)

    def _serve(self, lane: Lane, now_ns: int) -> int:
        instance = lane.group.acquire() if lane.batcher else None
        if instance is None:
            return 0
        rows = lane.batcher.next_rows(now_ns)
        if rows is None or isinstance(rows, WaitUntil):
            lane.group.give_back(instance)
            return rows.at_ns if rows is not None else 0
        batch = _batch(rows)
        self._events.started(batch, [sequence for sequence in rows if sequence is not None])
        if self._placement.inline(batch.rows):
            self._executed(lane, instance, instance.run(batch), inline=True)
            self._events.turn()
        else:
            instance.run_in_thread(batch, partial(self._finished, lane))
        return 0

    def _finished(self, lane: Lane, instance: Instance, execution: Execution) -> None:
        self._executed(lane, instance, execution, inline=False)
        self._events.now()

    def _executed(
        self, lane: Lane, instance: Instance, execution: Execution, *, inline: bool
    ) -> None:
        lane.group.release(instance)
        if inline or not execution.faulty:  # one that failed early makes no model quick
            rows, took_ns = execution.batch.rows, execution.times.compute_ns
            self._placement.measured(rows, took_ns, inline=inline)
        # Answers first: those of a sequence leave in its order, even if the next step takes no time.
        self._events.executed(instance, execution)


def _batch(rows: Rows) -> SequenceBatch:
    """The first requests of the sequences, taken out of their queues."""
    requests: list[InferRequest | None] = [
        sequence.queue.popleft() if sequence is not None else None for sequence in rows
    ]
    places = tuple(n for n, request in enumerate(requests) if request is not None)
    states = [sequence.state for sequence in rows if sequence is not None]
    given = [request for request in requests if request is not None]
    if len(given) == len(rows):
        return SequenceBatch(given, places, states)
    filler = filler_of(given[0])
    return SequenceBatch([request or filler for request in requests], places, states)
