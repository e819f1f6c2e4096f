"""The instances of a version that execute only with the slots they need, under the server's rate limiter."""

import asyncio
from collections.abc import Callable, Sequence

from inference_runtime.instances.instance import Instance
from inference_runtime.instances.instance_group import InstanceGroup
from inference_runtime.scheduling.rate_limiter import RateLimiter
from inference_runtime.scheduling.resource_pools import Claimant


class LimitedInstanceGroup(InstanceGroup):
    """Stages one free instance at a time. Slots that it gets are offered in the next turn of the event
    loop, so that one model's end never runs another model's beginning inside it."""

    def __init__(
        self,
        instances: Sequence[Instance],
        claimants: Sequence[Claimant],
        limiter: RateLimiter,
    ) -> None:
        super().__init__(instances)
        self._claimants = dict(zip(instances, claimants, strict=True))
        self._owners = {claimant: instance for instance, claimant in self._claimants.items()}
        self._limiter = limiter
        self._loop = asyncio.get_running_loop()
        self._staged = False
        self._granted: Instance | None = None  # has its slots, and has not been acquired
        self._grants = 0
        self._wanted: Callable[[], bool] = lambda: False
        self._available: Callable[[], None] = lambda: None

    def join(self) -> None:
        """Raises InvalidArgument when an instance needs more than there is."""
        self._limiter.join(tuple(self._owners), self._on_granted)

    def attach(self, wanted: Callable[[], bool], available: Callable[[], None]) -> None:
        self._wanted = wanted
        self._available = available

    def acquire(self) -> Instance | None:
        if self._granted is None:
            successor = self._next()
            if successor is not None:
                self._limiter.stage(successor)
        instance, self._granted = self._granted, None
        if instance is not None:
            self._free.remove(instance)
        return instance

    def release(self, instance: Instance) -> None:
        self._free.append(instance)
        successor = self._next() if self._wanted() else None
        self._limiter.release(self._claimants[instance], successor=successor)

    def give_back(self, instance: Instance) -> None:
        self._free.append(instance)
        self._limiter.release(self._claimants[instance], executed=False)

    async def stop(self) -> None:
        await super().stop()
        self.leave()

    def leave(self) -> None:
        self._granted = None
        self._limiter.leave(tuple(self._owners))

    def _next(self) -> Claimant | None:
        """The instance to stage now, if any."""
        if self._staged or self._granted is not None:
            return None
        candidates = self.candidates()
        if not candidates:
            return None
        self._staged = True
        return self._limiter.first([self._claimants[instance] for instance in candidates])

    def _on_granted(self, claimant: Claimant) -> None:
        self._staged = False
        self._granted = self._owners[claimant]
        self._grants += 1
        self._loop.call_soon(self._offer)

    def _offer(self) -> None:
        offered = self._grants
        if self._granted is not None:
            self._available()
        # An execution that began and ended in there may have brought a new grant, with its own offer.
        if self._granted is not None and self._grants == offered:
            unused, self._granted = self._granted, None
            # Its requests have gone meanwhile: cancelled, or too late.
            self._limiter.release(self._claimants[unused], executed=False)
