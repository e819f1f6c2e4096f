"""A model in service on a fake runtime, a clock that moves when told, and traffic second by second."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from django.utils import timezone

from inference_runtime.spec.latency import bucket_of
from tests.fakes.clock import Clock
from tests.world import World
from webapp.accounts.models import User
from webapp.catalog.choices import VersionState
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.jobs.choices import JobState
from webapp.jobs.models import Job
from webapp.jobs.services import job_claim, job_succeed
from webapp.rollouts.models import Rollout
from webapp.rollouts.plan import plan_read
from webapp.rollouts.services import StartOptions, rollout_start, rollouts_tick
from webapp.runtime_client.fake import FakeRuntime
from webapp.serving.models import Runtime, TrafficTable
from webapp.serving.services import deployment_request, deployment_run
from webapp.telemetry.models import RuntimeSample, ServingSample

SIGNATURE = {
    "inputs": [{"name": "INDEX", "datatype": "INT64", "shape": [-1, 1]}],
    "outputs": [{"name": "OUTPUT0", "datatype": "FP32", "shape": [-1, 1]}],
}
QUICK = [
    {"weight": 0.1, "hold_seconds": 5, "min_requests": 50},
    {"weight": 0.5, "hold_seconds": 5, "min_requests": 100},
    {"weight": 1.0, "hold_seconds": 5, "min_requests": 0},
]


@dataclass
class Behaviour:
    """How a version answers, by its number in `Yard.behaviours`."""

    error_rate: float = 0.0
    median_ms: float = 5.0
    client_fault_rate: float = 0.0


@dataclass
class Yard:
    world: World
    clock: Clock
    fake: FakeRuntime
    runtime: Runtime
    model: InferenceModel
    repository: Path
    rate: float = 100.0
    behaviours: dict[int, Behaviour] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    @property
    def olga(self) -> User:
        return self.world.olga

    # -- versions ---------------------------------------------------------------------------

    def version(self, number: int, **changes: Any) -> ModelVersion:
        folder = self.repository / self.model.name / str(number)
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(b"fine")
        values: dict[str, Any] = {
            "state": VersionState.READY,
            "backend": "onnxruntime",
            **SIGNATURE,
            **changes,
        }
        return ModelVersion.objects.create(model=self.model, number=number, **values)

    def deploy(self, version: ModelVersion) -> None:
        deployment_request(version=version, runtime=self.runtime, actor=self.olga)
        self.work()

    def work(self) -> None:
        """What a worker would do with the jobs that wait."""
        for job in Job.objects.filter(state=JobState.PENDING, kind="deploy_version"):
            claim = job_claim(job_id=job.id, worker="test")
            assert claim is not None
            job_succeed(claim=claim, result=deployment_run(claim=claim))

    # -- rollouts ---------------------------------------------------------------------------

    def start(
        self,
        canary: ModelVersion,
        steps: list[dict[str, Any]] | None = None,
        guardrails: dict[str, Any] | None = None,
        **options: bool,
    ) -> Rollout:
        return rollout_start(
            model=self.model,
            canary=canary,
            plan=plan_read(QUICK if steps is None else steps, guardrails),
            actor=self.olga,
            options=StartOptions(**options),
        )

    def begun(
        self, canary: ModelVersion, steps: list[dict[str, Any]] | None = None, **more
    ) -> Rollout:
        """A rollout whose first share is applied."""
        rollout = self.start(canary, steps, **more)
        self.pass_seconds(2)
        return self.now(rollout)

    def now(self, rollout: Rollout) -> Rollout:
        return Rollout.objects.get(id=rollout.id)

    def table(self) -> dict[int, float]:
        """Version → configured weight."""
        arms = TrafficTable.objects.get(model=self.model).arms
        return {arm["version"]: arm["weight"] for arm in arms}

    def applied(self) -> dict[int, float]:
        """Version → weight the runtime itself works with."""
        table = self.fake.traffic_get(self.model.name)
        assert table is not None
        return {arm.version: arm.weight for arm in table.arms}

    def generation(self) -> int:
        """Of the table the runtime works with."""
        table = self.fake.traffic_get(self.model.name)
        assert table is not None
        return table.generation

    # -- time -------------------------------------------------------------------------------

    def pass_seconds(self, seconds: int, *, ticking: bool = True) -> None:
        for _ in range(seconds):
            self.clock.advance(1)
            self.measure()
            if ticking:
                rollouts_tick()

    def pass_blind(self, seconds: int) -> None:
        """Nothing is measured; the ticks come in strides, which is all the same to them."""
        for _ in range(seconds // 4):
            self.clock.advance(4)
            rollouts_tick()

    def run_until(
        self, rollout: Rollout, reached: Callable[[Rollout], bool], *, within: int = 300
    ) -> Rollout:
        for _ in range(within):
            self.pass_seconds(1)
            found = self.now(rollout)
            if reached(found):
                return found
        found = self.now(rollout)
        raise AssertionError(f"not reached in {within} s: {found.state} {found.reason!r}")

    def until_state(self, rollout: Rollout, *states: str, within: int = 300) -> Rollout:
        return self.run_until(rollout, lambda found: found.state in states, within=within)

    def measure(self) -> None:
        """One second as the sampler would write it: requests split as the runtime splits them."""
        at = timezone.now()
        RuntimeSample.objects.create(at=at, seconds=1, runtime=self.runtime, span_ms=1000)
        table = self.fake.traffic_get(self.model.name)
        if table is None or not self.rate:
            return
        arms = table.arms
        counts = self.rng.multinomial(int(self.rng.poisson(self.rate)), [a.weight for a in arms])
        ServingSample.objects.bulk_create(
            self._sample(at, arm.version, arm.role, table.generation, int(count))
            for arm, count in zip(arms, counts, strict=True)
            if count
        )

    def add_sample(self, version: int, arm: str, **counts: int) -> None:
        """Besides what flows by itself."""
        ServingSample.objects.create(
            at=timezone.now(), seconds=1, runtime=self.runtime, model_name=self.model.name,
            version=version, arm=arm, generation=self.generation(), **counts,
        )  # fmt: skip

    def _sample(self, at, version, arm, generation, requests) -> ServingSample:
        how = self.behaviours.get(version, Behaviour())
        failures = int(self.rng.binomial(requests, how.error_rate))
        faults = int(self.rng.binomial(requests - failures, how.client_fault_rate))
        answered = requests - failures - faults
        latency: dict[str, int] = {}
        for value in self.rng.lognormal(np.log(how.median_ms * 1e6), 0.3, answered):
            bucket = str(bucket_of(int(value)))
            latency[bucket] = latency.get(bucket, 0) + 1
        return ServingSample(
            at=at,
            seconds=1,
            runtime=self.runtime,
            model_name=self.model.name,
            version=version,
            arm=arm,
            generation=generation,
            requests=requests,
            failures=failures,
            client_faults=faults,
            inferences=answered,
            executions=answered,
            queue_ns=answered * 100_000,
            compute_ns=int(answered * how.median_ms * 1e6),
            latency=latency,
        )
