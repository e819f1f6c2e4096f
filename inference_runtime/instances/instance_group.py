"""The copies of a version that take work, and which of them are free."""

from collections.abc import Callable, Sequence

from inference_runtime.instances.instance import Instance


class InstanceGroup:
    def __init__(self, instances: Sequence[Instance]) -> None:
        self._instances = tuple(instances)
        # The one that finished last goes first: its caches are warm.
        self._free = list(reversed(self._instances))
        self._mortal = any(instance.can_die for instance in instances)

    @property
    def size(self) -> int:
        return len(self._instances)

    @property
    def busy(self) -> int:
        return len(self._instances) - len(self._free)

    def attach(self, wanted: Callable[[], bool], available: Callable[[], None]) -> None:
        """A group that refuses an instance although one is free asks whether it is still `wanted`, and
        calls `available` when there may be one. Here it is enough to ask again after a `release`."""

    def acquire(self) -> Instance | None:
        """An instance that may execute now; None: there is none for the time being."""
        if not self._mortal:
            return self._free.pop() if self._free else None
        candidates = self.candidates()
        if not candidates:
            return None
        instance = candidates[-1]
        self._free.remove(instance)
        return instance

    @property
    def recovering(self) -> bool:
        """A dead instance is free, which nobody tells when it is well again: ask now and then."""
        return self._mortal and any(not instance.alive for instance in self._free)

    def candidates(self) -> list[Instance]:
        """Free instances that may be given work. Dead ones, which fail at once, only when no other lives."""
        if not self._mortal:
            return self._free
        alive = [instance for instance in self._free if instance.alive]
        if alive or any(instance.alive for instance in self._instances):
            return alive
        return self._free

    def release(self, instance: Instance) -> None:
        """Its execution has ended, well or badly: the one place where whatever it held becomes free."""
        self._free.append(instance)

    def give_back(self, instance: Instance) -> None:
        """It was acquired and there was nothing to execute after all."""
        self._free.append(instance)

    def leave(self) -> None:
        """Nothing will be executed: whoever grants executions need not think of these any more."""

    async def stop(self) -> None:
        for instance in self._instances:
            await instance.stop()
