"""What must hold before a rollout starts, and what the refusal says."""

import pytest

from tests.webapp.rollouts.yard import Yard
from webapp.catalog.choices import VersionState
from webapp.core.errors import Conflict, PermissionRefused
from webapp.rollouts.models import Rollout
from webapp.rollouts.plan import Plan
from webapp.rollouts.services import rollout_start
from webapp.serving.models import Deployment, Runtime


def refusal_of(yard: Yard, version, **options) -> Conflict:
    with pytest.raises(Conflict) as refusal:
        yard.start(version, **options)
    assert not Rollout.objects.exists()
    assert refusal.value.help_text
    return refusal.value


def test_a_model_without_a_version_in_service(yard: Yard, canary) -> None:
    yard.model.traffic.delete()
    assert refusal_of(yard, canary).reason == "NO_STABLE"


def test_the_stable_version_itself(yard: Yard, stable) -> None:
    assert refusal_of(yard, stable).reason == "SAME_VERSION"


@pytest.mark.parametrize(
    "state", [VersionState.VALIDATING, VersionState.REJECTED, VersionState.ARCHIVED]
)
def test_a_version_that_is_not_ready(yard: Yard, state) -> None:
    assert refusal_of(yard, yard.version(2, state=state)).reason == "VERSION_NOT_READY"


def test_a_stable_version_that_is_down(yard: Yard, canary) -> None:
    Deployment.objects.filter(version__number=1).update(state="FAILED", reason="gone")
    refusal = refusal_of(yard, canary)
    assert refusal.reason == "STABLE_UNAVAILABLE"
    assert "gone" in refusal.detail


def test_a_runtime_that_cannot_split(yard: Yard, canary) -> None:
    Runtime.objects.update(extensions=[])
    assert refusal_of(yard, canary).reason == "RUNTIME_LACKS_TRAFFIC"


class TestContract:
    def other(self, yard: Yard, **signature):
        return yard.version(2, **signature)

    def test_a_changed_input_needs_a_word(self, yard: Yard) -> None:
        inputs = [{"name": "INDEX", "datatype": "INT32", "shape": [-1, 1]}]
        canary = self.other(yard, inputs=inputs)
        refusal = refusal_of(yard, canary)
        assert refusal.reason == "CONTRACT_CHANGED"
        assert "INDEX" in refusal.detail
        assert yard.start(canary, allow_contract_change=True).canary == canary

    def test_one_more_output_hurts_nobody(self, yard: Yard, stable) -> None:
        more = [*stable.outputs, {"name": "SCORE", "datatype": "FP32", "shape": [-1]}]
        assert yard.start(self.other(yard, outputs=more)).canary.number == 2

    def test_a_missing_output_does(self, yard: Yard) -> None:
        assert refusal_of(yard, self.other(yard, outputs=[])).reason == "CONTRACT_CHANGED"


def test_a_viewer(yard: Yard, canary) -> None:
    with pytest.raises(PermissionRefused):
        rollout_start(model=yard.model, canary=canary, plan=Plan(), actor=yard.world.vic)


def test_a_version_on_trial_cannot_be_undeployed(yard: Yard, stable, canary) -> None:
    from webapp.serving.services import deployment_remove

    yard.begun(canary, [{"weight": 0.1, "hold_seconds": 500}])
    for version in (stable, canary):
        with pytest.raises(Conflict):
            deployment_remove(version=version, runtime=yard.runtime, actor=yard.olga)


def test_after_the_end_the_old_version_can_be_undeployed(yard: Yard, stable, canary) -> None:
    from webapp.serving.services import deployment_remove

    yard.until_state(yard.start(canary), "SUCCEEDED")
    assert deployment_remove(version=stable, runtime=yard.runtime, actor=yard.olga).id
