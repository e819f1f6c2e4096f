"""The copies of a version that take work, and which of them are free."""

from collections.abc import Sequence

from inference_runtime.instances.instance import Instance


class InstanceGroup:
    def __init__(self, instances: Sequence[Instance]) -> None:
        self._instances = tuple(instances)
        # The one that finished last goes first: its caches are warm.
        self._free = list(reversed(self._instances))

    @property
    def size(self) -> int:
        return len(self._instances)

    @property
    def busy(self) -> int:
        return len(self._instances) - len(self._free)

    @property
    def available(self) -> bool:
        return bool(self._free)

    def acquire(self) -> Instance:
        return self._free.pop()

    def release(self, instance: Instance) -> None:
        self._free.append(instance)

    async def stop(self) -> None:
        for instance in self._instances:
            await instance.stop()
