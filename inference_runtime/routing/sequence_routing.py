"""Where a sequence is that a request goes on with, when the route of the request leads elsewhere.

A sequence stays on the load where it began: through a reload, an unload, a new latest version and a
change of the traffic table. Asked only for requests that would be refused otherwise.
"""

from collections.abc import Callable

from inference_runtime.errors import RuntimeFault
from inference_runtime.lifecycle.loaded_version import LoadedVersion
from inference_runtime.lifecycle.registry import ModelRegistry
from inference_runtime.routing.traffic_store import TrafficStore
from inference_runtime.scheduling.inflight import refuse
from inference_runtime.scheduling.sequence_scheduler import SequenceScheduler
from inference_runtime.spec.messages import InferRequest, RequestHead
from inference_runtime.spec.model_identity import bare_name


class SequenceRouting:
    def __init__(
        self,
        registry: ModelRegistry,
        traffic: TrafficStore,
        prepare: Callable[[LoadedVersion, InferRequest], None],
    ) -> None:
        self._registry = registry
        self._traffic = traffic
        self._prepare = prepare  # checks the request against a version; raises a RuntimeFault

    def watch(self, loaded: LoadedVersion) -> None:
        """What its scheduler does not know is looked for elsewhere."""
        if isinstance(loaded.scheduler, SequenceScheduler):
            loaded.scheduler.elsewhere = self.take

    def take(self, request: InferRequest) -> bool:
        """Whether some load had the sequence: the request is settled there, well or badly."""
        head = request.head
        if not head.sequence_id or head.sequence_start:
            return False
        arms = self._arms(head)
        for loaded in self._registry.at_work():
            version = (bare_name(loaded.name), loaded.number)
            arm = arms.get(version, request.arm)
            known = version in arms or _named(loaded, head)
            scheduler = loaded.scheduler
            if (
                known
                and isinstance(scheduler, SequenceScheduler)
                and scheduler.holds(head.sequence_id)
            ):
                request.arm = arm
                try:
                    self._prepare(loaded, request)
                except RuntimeFault as fault:
                    refuse(request, fault, loaded.stats)
                else:
                    scheduler.submit(request)
                return True
        return False

    def _arms(self, head: RequestHead) -> dict[tuple[str, int], str]:
        table = self._traffic.find(head.model_name) if not head.version else None
        return {(arm.model, arm.version): arm.role for arm in table.arms} if table else {}


def _named(loaded: LoadedVersion, head: RequestHead) -> bool:
    names = (loaded.name, bare_name(loaded.name))
    return head.model_name in names and head.version in ("", loaded.number_text)
