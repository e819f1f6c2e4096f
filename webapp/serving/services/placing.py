"""Makes one model on one runtime what is wanted of it: the hands of the reconciler.

Runs under a lease per runtime and model, so that a deploy, an edit of the config and the periodic
reconcile never load the same model at once.
"""

import logging
import re
import time
from dataclasses import dataclass

from django.utils import timezone

from webapp.catalog.models import InferenceModel
from webapp.runtime_client import types as wire
from webapp.runtime_client.connection import RuntimeConnection
from webapp.runtime_client.errors import RuntimeProblem, RuntimeRefused, RuntimeUnreachable
from webapp.serving.choices import DeploymentState
from webapp.serving.config_composer import ComposedConfig
from webapp.serving.config_values import ConfigProblem, ServingValues
from webapp.serving.leases import Lease
from webapp.serving.models import Deployment, Runtime, TrafficApplied
from webapp.serving.observation import Observation, observe
from webapp.serving.pictures import picture_of
from webapp.serving.progress import Progress
from webapp.serving.reconciler import (
    IN_USE,
    Action,
    DropTable,
    Load,
    PushTable,
    Unload,
    next_actions,
)
from webapp.serving.selectors import (
    ModelFacts,
    client_for,
    config_for,
    runtime_facts,
    traffic_table,
)
from webapp.serving.services.loaded_configs import (
    loaded_config_forget,
    loaded_config_keep,
    loaded_config_refused,
    loaded_config_replaced,
)
from webapp.serving.services.marking import (
    deployment_failed,
    deployment_mark,
    deployments_mark,
    runtime_mark,
    tables_mark,
    unload_refused,
)
from webapp.serving.services.traffic_push import traffic_push

logger = logging.getLogger(__name__)

_MOST_ROUNDS = 8
_UNLOAD_SECONDS = 60.0
_LOOK_AGAIN_SECONDS = 0.1
# "load failed for model 'm': version 3 is at UNAVAILABLE state: Invalid argument: why;"
_FAULTY = re.compile(
    r"version (\d+) is at UNAVAILABLE state: (.*?);(?=\s*(?:version \d+ is at|\Z))", re.S
)


def lease_name(*, runtime: Runtime, model: InferenceModel) -> str:
    return f"{lease_prefix(runtime=runtime)}{model.pk}"


def lease_prefix(*, runtime: Runtime) -> str:
    return f"{runtime.pk}/"


def observation_keep(
    *,
    runtime: Runtime,
    observation: Observation,
    only: InferenceModel | None = None,
    skip: frozenset[int] = frozenset(),
) -> None:
    """Writes down what a runtime said: of one model, or of all but those being changed."""
    runtime_mark(runtime=runtime, observation=observation)
    if observation.answered:
        tables_mark(runtime=runtime, observation=observation)
        deployments_mark(runtime=runtime, observation=observation, only=only, skip=skip)


@dataclass
class Placer:
    """One run of work on a model of a runtime, under the lease of the two."""

    runtime: Runtime
    model: InferenceModel
    lease: Lease
    progress: Progress

    def settle(self) -> Observation:
        """Acts until observed matches desired or nothing more can be done now.

        Raises RuntimeUnreachable when the runtime goes away meanwhile.
        """
        observation = self._look()
        for _ in range(_MOST_ROUNDS):
            picture = picture_of(facts=self._facts(), observation=observation, now=timezone.now())
            actions = next_actions(picture)
            if not actions:
                break
            failed = next((action for action in actions if not self._act(action)), None)
            observation = self._look()
            if isinstance(failed, PushTable):
                break  # the next probe tries again
        return observation

    def reload(self, values: ServingValues | None) -> None:
        """Loads what is ready now with other settings. Raises RuntimeProblem or ConfigProblem, and
        then the runtime goes on as before."""
        observation = self._look()
        ready = tuple(
            sorted(
                version
                for version, state in observation.states(self.model.name).items()
                if state == wire.READY
            )
        )
        composed = config_for(model=self.model, versions=ready, values=values)
        self.progress.step(f"reloading on {self.runtime.name}", 0.3)
        self.lease.check()
        self._client.load(self.model.name, composed.json)
        self._keep(composed, ready)

    def _facts(self) -> ModelFacts:
        (facts,) = runtime_facts(runtime=self.runtime, model=self.model)
        return facts

    @property
    def _client(self) -> RuntimeConnection:
        return client_for(runtime=self.runtime)

    def _look(self) -> Observation:
        observation = observe(self._client)
        observation_keep(runtime=self.runtime, observation=observation, only=self.model)
        if not observation.answered:
            raise RuntimeUnreachable(observation.reason)
        return observation

    def _act(self, action: Action) -> bool:
        """False: it did not work out, and the actions after it make no sense."""
        self.lease.check()
        match action:
            case Load(versions):
                return self._load(versions)
            case Unload():
                self._unload()
            case PushTable(stable_only=True):
                return self._push_interim()
            case PushTable():
                outcomes = traffic_push(model=self.model, runtimes=[self.runtime])
                return not any(outcome.error for outcome in outcomes)
            case DropTable():
                self._drop_table()
        return True

    def _load(self, versions: tuple[int, ...]) -> bool:
        rows = self._rows(versions)
        missing = [row for row in rows if row.state != DeploymentState.AVAILABLE]
        try:
            composed = self._facts().config(versions)
        except ConfigProblem as problem:
            self._failed(missing, f"The config cannot be used: {problem}", "")
            return False
        self.progress.step(f"loading on {self.runtime.name}", 0.3)
        for row in missing:
            deployment_mark(deployment=row, state=DeploymentState.LOADING)
        self.lease.check()
        try:
            self._client.load(self.model.name, composed.json)
        except RuntimeRefused as refusal:
            self._failed(missing, refusal.text, composed.text)
            return False
        except RuntimeProblem:
            for row in missing:
                row.refresh_from_db()
                deployment_mark(
                    deployment=row,
                    state=DeploymentState.PENDING,
                    reason="the runtime stopped answering while it was loading",
                )
            raise
        if not missing:
            loaded_config_replaced(runtime=self.runtime, model=self.model, text=composed.text)
        self._keep(composed, versions)
        return self._arrived(rows)

    def _keep(self, composed: ComposedConfig, versions: tuple[int, ...]) -> None:
        loaded_config_keep(
            runtime=self.runtime, model=self.model, text=composed.text, versions=versions
        )

    def _rows(self, versions: tuple[int, ...]) -> list[Deployment]:
        return list(
            Deployment.objects.filter(
                runtime=self.runtime,
                version__model=self.model,
                version__number__in=versions,
                wanted=True,
            ).select_related("runtime", "version__model")
        )

    def _arrived(self, rows: list[Deployment]) -> bool:
        """The runtime leaves out, without a word, versions whose directory it does not find."""
        observation = self._look()
        found = observation.states(self.model.name)
        gone = [row for row in rows if row.version.number not in found]
        for row in gone:
            row.refresh_from_db()
            deployment_failed(
                deployment=row,
                reason=f"the runtime does not find {self.model.name}/{row.version.number} "
                "in its model repository",
            )
        return not gone

    def _failed(self, missing: list[Deployment], text: str, config_text: str) -> None:
        """Blames the versions the runtime names; when it names none that is new, all new ones."""
        text = text.strip()
        if not missing:
            loaded_config_refused(
                runtime=self.runtime, model=self.model, text=config_text, error=text
            )
            return
        named = {int(number): why.strip() for number, why in _FAULTY.findall(text)}
        guilty = [row for row in missing if row.version.number in named]
        for row in missing:
            row.refresh_from_db()
            if guilty and row not in guilty:
                deployment_mark(
                    deployment=row, state=DeploymentState.PENDING, reason="waits for its turn"
                )
                continue
            deployment_failed(deployment=row, reason=named.get(row.version.number, text))

    def _unload(self) -> None:
        self.progress.step(f"unloading from {self.runtime.name}", 0.3)
        try:
            self._client.unload(self.model.name)
        except RuntimeRefused as refusal:
            self._unload_refused(refusal.text)
            return
        deadline = time.monotonic() + _UNLOAD_SECONDS
        while time.monotonic() < deadline:
            observation = self._look()
            states = observation.states(self.model.name).values()
            if not any(state in IN_USE for state in states):
                break
            self.progress.step("finishing requests in flight", 0.6)
            time.sleep(_LOOK_AGAIN_SECONDS)
        loaded_config_forget(runtime=self.runtime, model=self.model)

    def _unload_refused(self, text: str) -> None:
        for row in Deployment.objects.filter(
            runtime=self.runtime, version__model=self.model, wanted=False
        ).exclude(state=DeploymentState.UNLOADED):
            unload_refused(deployment=row, reason=text)

    def _push_interim(self) -> bool:
        """All requests to stable for as long as the canary loads: below the real generation, so the
        real table replaces it."""
        table = traffic_table(model=self.model)
        if table is None:
            return False
        stable = next(arm["version"] for arm in table.arms if arm["role"] == "stable")
        try:
            self._client.traffic_put(
                wire.TrafficTable(
                    model=self.model.name,
                    generation=table.generation - 1,
                    salt=table.salt,
                    arms=(wire.TrafficArm(stable, "stable", 1.0, self.model.name),),
                    unit_header=table.unit_header,
                )
            )
        except RuntimeRefused as refusal:
            logger.warning("interim table of %s: %s", self.model.name, refusal.text)
        return True

    def _drop_table(self) -> None:
        table = traffic_table(model=self.model)
        theirs = self._client.traffic_get(self.model.name)
        if theirs is None:
            return
        generation = max(theirs.generation, table.generation if table is not None else 0)
        self._client.traffic_delete(self.model.name, generation=generation)
        TrafficApplied.objects.filter(runtime=self.runtime, model=self.model).update(
            generation=0, arms=[], error=""
        )
