"""Name and version → the version that answers → its scheduler; the traffic table decides when no version is named.

Routes are made anew when what serves or a table changes, so that a request costs two dictionary
look-ups and, the first time its head is seen, the validation.
"""

import logging
from dataclasses import dataclass

from inference_runtime.errors import (
    FailureReason,
    Internal,
    RuntimeFault,
    SingleAnswerOnly,
    Unavailable,
)
from inference_runtime.lifecycle.loaded_version import LoadedVersion
from inference_runtime.lifecycle.registry import ModelRegistry
from inference_runtime.routing.sequence_routing import SequenceRouting
from inference_runtime.routing.traffic_split import TrafficSplit, split
from inference_runtime.routing.traffic_store import TrafficStore
from inference_runtime.routing.validation import check_data, plan_request, request_label
from inference_runtime.scheduling.inflight import refuse
from inference_runtime.spec.messages import InferRequest, RequestHead
from inference_runtime.spec.model_identity import bare_name
from inference_runtime.spec.request_plan import RequestPlan

logger = logging.getLogger(__name__)

NO_ARM = ""  # the client named a version
DEFAULT_ARM = "default"  # no table is set
_STARTING = "Server is starting, its models are not loaded yet"
_MAX_PLANS = 2048
_MAX_FREE_TEXT = 4096  # characters of a remembered head that the client chose freely


@dataclass(slots=True)
class Route:
    """Where the requests for one model name can go."""

    versions: dict[str, LoadedVersion]
    default: LoadedVersion | None  # the highest ready version, when there is no table
    split: TrafficSplit | None
    fallbacks: int = 0  # requests that another arm answered, because theirs was not ready


class Router:
    def __init__(self, registry: ModelRegistry, traffic: TrafficStore) -> None:
        self._registry = registry
        self._traffic = traffic
        self._routes: dict[str, Route] = {}
        self.started = False  # until then an unknown model may still come
        # Requests refused before there was a version to count them at, by outcome.
        self.unrouted = {"client_fault": 0, "rejected": 0}
        self._sequences = SequenceRouting(registry, traffic, _prepare)
        # By model, where its traffic table is sticky: the header whose value keeps a client on its arm.
        self.unit_headers: dict[str, str] = {}

    def rebuild(self) -> None:
        """All routes, from what serves and from the tables; cheap, and only when either changes."""
        names = {table.model for table in self._traffic.tables()}
        for identity in self._registry.names():
            names.update((identity, bare_name(identity)))
        self._routes = {name: self._route(name) for name in names}
        # In place, since hot paths keep its `get`.
        self.unit_headers.clear()
        for name, route in self._routes.items():
            if route.split is not None and route.split.unit_header:
                self.unit_headers[name] = route.split.unit_header

    def _route(self, name: str) -> Route:
        serving = self._registry.serving(name)
        table = self._traffic.find(name)
        before = self._routes.get(name)
        for loaded in serving.values():
            self._sequences.watch(loaded)
        return Route(
            versions={loaded.number_text: loaded for loaded in serving.values()},
            default=serving[max(serving)] if serving and table is None else None,
            split=split(table, self._ready) if table is not None else None,
            fallbacks=before.fallbacks if before is not None else 0,
        )

    def _ready(self, model: str, version: int) -> LoadedVersion | None:
        return self._registry.serving(model).get(version)

    def refuse(self, request: InferRequest) -> None:
        """What stands in the place of `infer` for clients while the server stops.

        Routes stay: ensembles and models that were asked before may have to ask others yet.
        """
        fault = Unavailable(
            f"{request_label(request.id)}Server is stopping, scheduler for model has stopped "
            "accepting new inference requests"
        )
        self._refuse(request, fault, None)

    def fallbacks(self, name: str) -> int:
        route = self._routes.get(name)
        return route.fallbacks if route is not None else 0

    def infer(self, request: InferRequest) -> None:
        """Never raises; `request.done` is called once, perhaps before this returns."""
        head = request.head
        version: LoadedVersion | None = None
        try:
            route = self._routes.get(head.model_name)
            if route is None:
                version = self._unrouted(request)
            elif head.version:
                version = route.versions.get(head.version)
                if version is None:
                    version = self._registry.find(head.model_name, head.version)
            elif route.split is not None:
                version = self._pick(request, route, route.split)
            else:
                version = route.default
                if version is None:
                    version = self._without_default(request)
                request.arm = DEFAULT_ARM
            request.version = version
            plan = version.plans.get(head)
            if plan is None:
                plan = _new_plan(version, request)
            request.plan = plan
            # Sizes of strings are -1 in a plan, so that they always get the closer look.
            if (request.sizes or tuple(map(len, request.data))) != plan.byte_sizes:
                check_data(request, plan, utf8=version.utf8_strings)
        except RuntimeFault as fault:
            self._refuse(request, fault, version)
            return
        except Exception:
            logger.exception("a request for '%s' could not be checked", head.model_name)
            self._refuse(request, Internal("the request could not be checked"), version)
            return
        version.scheduler.submit(request)

    def cancel(self, request: InferRequest) -> None:
        request.cancelled = True
        if request.version is not None and request.plan is not None:
            request.version.scheduler.cancel(request)

    def _pick(self, request: InferRequest, route: Route, table: TrafficSplit) -> LoadedVersion:
        unit = request.traffic_unit
        if not unit and request.head.sequence_id:
            unit = f"sequence {request.head.sequence_id}"  # all of a sequence to one arm
        target = table.target(unit)
        request.arm = target.arm
        request.generation = table.generation
        if target.fallback:
            route.fallbacks += 1
        return target.version

    def _without_default(self, request: InferRequest) -> LoadedVersion:
        name = request.head.model_name
        if self._traffic.find(name) is not None:
            raise Unavailable(f"no version in the traffic table of model '{name}' is ready")
        if not self.started:
            raise Unavailable(_STARTING)
        return self._registry.find(name, "")

    def _unrouted(self, request: InferRequest) -> LoadedVersion:
        if not self.started:
            raise Unavailable(_STARTING)
        return self._registry.find(request.head.model_name, request.head.version)

    def count_unrouted(self, fault: RuntimeFault) -> None:
        """A request is refused that no version has seen."""
        self.count_refused(fault.reason)

    def count_refused(self, reason: FailureReason, count: int = 1) -> None:
        client = reason is FailureReason.CLIENT
        self.unrouted["client_fault" if client else "rejected"] += count

    def _refuse(
        self, request: InferRequest, fault: RuntimeFault, version: LoadedVersion | None
    ) -> None:
        if version is None:
            if self._sequences.take(request):
                return
            self.count_unrouted(fault)
        refuse(request, fault, version.stats if version is not None else None)


def _prepare(version: LoadedVersion, request: InferRequest) -> None:
    """What `infer` does, off the hot path; raises a RuntimeFault."""
    request.version = version
    request.plan = version.plans.get(request.head) or _new_plan(version, request)
    check_data(request, request.plan, utf8=version.utf8_strings)


def _new_plan(version: LoadedVersion, request: InferRequest) -> RequestPlan:
    head = request.head
    decoupled = version.config.decoupled
    if decoupled and request.partial is None:
        raise SingleAnswerOnly()  # whatever else may be wrong with the request
    plan = plan_request(head, version.config, request.id)
    # Of a decoupled model the same head may come from a caller of the other kind: nothing is remembered.
    if not decoupled and _worth_keeping(head):
        if len(version.plans) >= _MAX_PLANS:
            version.plans.clear()
        version.plans[head] = plan
    return plan


def _worth_keeping(head: RequestHead) -> bool:
    """A plan keeps its head alive; what is valid in one is small, except for the client's own parameters."""
    if not head.parameters and not head.sequence_id:
        return True
    free = sum(len(key) + len(str(value)) for key, value in head.parameters.items())
    return free + len(str(head.sequence_id)) <= _MAX_FREE_TEXT
