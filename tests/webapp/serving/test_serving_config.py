"""Editing the serving config: previewed, saved, loaded everywhere or nowhere."""

import pytest

from tests.webapp.serving.steps import deploy, two_versions
from webapp.audit.models import AuditEvent
from webapp.core.errors import Conflict, InvalidInput, PermissionRefused, PreconditionFailed
from webapp.serving.choices import DeploymentState
from webapp.serving.models import LoadedConfig, ServingConfig
from webapp.serving.selectors import config_in_force, values_asked, values_in_force
from webapp.serving.services import serving_config_preview, serving_config_set


def save(yard, **values):
    job = serving_config_set(model=yard.model, values=values, actor=yard.world.olga)
    yard.work()
    job.refresh_from_db()
    return job


def test_a_preview_shows_the_config_and_changes_nothing(yard):
    deploy(yard, yard.publish(1))
    preview = serving_config_preview(model=yard.model, values={"max_batch_size": 16})
    assert "max_batch_size: 16" in preview.text
    assert "max_batch_size: 4" in preview.before  # what the runtime chose
    unedited = serving_config_preview(
        model=yard.model, values=values_asked(model=yard.model).to_json()
    )
    assert unedited.text == unedited.before
    assert not ServingConfig.objects.exists()


@pytest.mark.parametrize(
    "text",
    ["max_batch_size: 8", "max_batch_size: 0", "instance_group { count: 2 }",
     "dynamic_batching { max_queue_delay_microseconds: 50 }"],
)  # fmt: skip
def test_an_unedited_form_changes_nothing_of_an_uploaded_config(yard, text):
    deploy(yard, yard.publish(1, config_text=text))
    asked = values_asked(model=yard.model).to_json()
    preview = serving_config_preview(model=yard.model, values=asked)
    assert preview.text == preview.before
    edited = serving_config_preview(model=yard.model, values=asked | {"instance_count": 3})
    assert edited.text != edited.before


def test_saving_reloads_without_dropping_a_version(yard):
    two_versions(yard)
    yard.fake.load_calls.clear()
    job = save(yard, max_batch_size=16, max_queue_delay_microseconds=200)
    assert job.state == "SUCCEEDED", job.error
    assert yard.fake.load_calls == [("echo", (1, 2))]
    assert "max_batch_size: 16" in config_in_force(model=yard.model)
    assert values_in_force(model=yard.model).max_queue_delay_microseconds == 200
    assert yard.fake.model_config("echo").max_batch_size == 16
    assert yard.table() == {1: 1.0}


def test_saving_before_the_first_deploy_counts_for_it(yard):
    version = yard.publish(1)
    job = save(yard, max_batch_size=8)
    assert job.state == "SUCCEEDED", job.error
    assert "next deploy" in job.result["note"]
    deploy(yard, version)
    assert yard.fake.model_config("echo").max_batch_size == 8


def test_later_deploys_keep_the_edits(yard):
    deploy(yard, yard.publish(1))
    save(yard, max_batch_size=8)
    deploy(yard, yard.publish(2))
    assert yard.fake.model_config("echo").max_batch_size == 8


def test_a_refused_config_leaves_the_old_one_in_force_and_says_so(yard):
    two_versions(yard)
    save(yard, max_batch_size=8)
    before = config_in_force(model=yard.model)
    yard.fake.refuse_load["echo"] = "not enough memory for 64 instances"
    job = save(yard, instance_count=64)
    assert job.state == "FAILED"
    assert job.error["reason"] == "CONFIG_REFUSED"
    assert "not enough memory" in job.error["detail"]
    row = ServingConfig.objects.get()
    assert "not enough memory" in row.error
    assert (row.revision, row.applied_revision) == (2, 1)
    assert values_asked(model=yard.model).instance_count == 64
    assert values_in_force(model=yard.model).max_batch_size == 8
    assert config_in_force(model=yard.model) == before
    assert (yard.repository / "echo" / "config.pbtxt").read_text() == before
    yard.fake.refuse_load.clear()
    assert yard.probe() == []
    assert yard.ready() == [1, 2]
    assert yard.fake.model_config("echo").max_batch_size == 8
    assert {yard.deployment(one).state for one in yard.model.versions.all()} == {
        DeploymentState.AVAILABLE
    }


def test_a_runtime_that_refuses_takes_the_others_back(yard):
    first = yard.publish(1)
    deploy(yard, first)
    runtime, fake = yard.attach("zeta")
    deploy(yard, first, runtime=runtime)
    fake.refuse_load["echo"] = "no"
    job = save(yard, max_batch_size=16)
    assert "zeta refused" in job.error["detail"]
    assert yard.fake.model_config("echo").max_batch_size == 0
    assert len({row.text for row in LoadedConfig.objects.all()}) == 1
    fake.refuse_load.clear()
    assert yard.probe() == []


def test_a_runtime_that_was_away_gets_the_config_when_it_is_back(yard):
    first = yard.publish(1)
    deploy(yard, first)
    runtime, fake = yard.attach()
    deploy(yard, first, runtime=runtime)
    fake.down = True
    yard.probe()
    job = save(yard, max_batch_size=16)
    assert job.state == "SUCCEEDED", job.error
    assert job.result["when_they_answer"] == ["edge-1"]
    fake.down = False
    yard.probe()
    assert fake.model_config("echo").max_batch_size == 16


def test_a_runtime_that_is_back_and_refuses_is_not_asked_for_ever(yard, clock):
    first = yard.publish(1)
    deploy(yard, first)
    runtime, fake = yard.attach()
    deploy(yard, first, runtime=runtime)
    fake.down = True
    yard.probe()
    save(yard, max_batch_size=16)
    fake.down = False
    fake.refuse_load["echo"] = "no"
    assert len(yard.probe()) == 1
    assert yard.probe() == []
    row = LoadedConfig.objects.get(runtime=runtime)
    assert "no" in row.error
    fake.refuse_load.clear()
    clock.advance(11)
    assert len(yard.probe()) == 1
    assert fake.model_config("echo").max_batch_size == 16
    row.refresh_from_db()
    assert row.error == ""


def test_problems_name_the_fields(yard):
    deploy(yard, yard.publish(1))
    with pytest.raises(InvalidInput) as refusal:
        save(yard, max_batch_size=4, preferred_batch_sizes=[8], instance_count=0)
    assert {one["pointer"] for one in refusal.value.errors} == {"/instance_count"}
    with pytest.raises(InvalidInput) as refusal:
        save(yard, max_batch_size=4, preferred_batch_sizes=[8])
    assert {one["pointer"] for one in refusal.value.errors} == {"/preferred_batch_sizes"}


def test_two_operators_at_once(yard):
    deploy(yard, yard.publish(1))
    save(yard, max_batch_size=8)
    with pytest.raises(PreconditionFailed):
        serving_config_set(
            model=yard.model,
            values={"max_batch_size": 4},
            actor=yard.world.ada,
            expected_revision=0,
        )
    serving_config_set(model=yard.model, values={"max_batch_size": 4}, actor=yard.world.ada)
    with pytest.raises(Conflict, match="just being applied"):
        serving_config_set(model=yard.model, values={"max_batch_size": 2}, actor=yard.world.olga)


def test_a_model_without_versions_has_nothing_to_configure(yard):
    with pytest.raises(Conflict, match="no version"):
        save(yard, max_batch_size=4)


def test_a_viewer_may_not_save(yard):
    yard.publish(1)
    with pytest.raises(PermissionRefused):
        serving_config_set(model=yard.model, values={}, actor=yard.world.vic)


def test_saving_is_audited_with_before_and_after(yard):
    deploy(yard, yard.publish(1, config_text="max_batch_size: 8"))
    save(yard, max_batch_size=16)
    event = AuditEvent.objects.get(action="serving_config.set")
    assert event.before["max_batch_size"] == 8
    assert event.after["max_batch_size"] == 16


def test_a_job_that_died_says_that_the_old_config_is_in_force(yard):
    from webapp.jobs.services import job_cancel

    deploy(yard, yard.publish(1))
    job = serving_config_set(model=yard.model, values={"max_batch_size": 16}, actor=yard.world.olga)
    job_cancel(job=job, actor=yard.world.olga)
    assert "Cancelled" in ServingConfig.objects.get().error
    assert yard.probe() == []
    assert yard.fake.model_config("echo").max_batch_size == 0
