"""The list of jobs names what each is for, in people's words, with the page to look at."""

import pytest

from tests.world import World
from webapp.core.targets import name_of, page_of
from webapp.jobs.choices import JobKind
from webapp.jobs.services import job_request


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("target", "parameters", "shown"),
    [
        ("/api/v1/models/resnet50/versions/3", {}, '<a href="/models/resnet50/versions/3/" '),
        ("/api/v1/models/resnet50/versions/3", {}, ">resnet50 v3</a>"),
        ("/api/v1/runtimes/edge-1", {}, ">runtime edge-1</a>"),
        ("/api/v1/models/bert/serving-config", {}, ">serving config of bert</a>"),
        ("/api/v1/benchmarks/bm_1", {"model": "bert", "version": 2}, ">bert v2</a>"),
        ("/api/v1/benchmarks/bm_1", {"model": "bert", "version": 2}, 'href="/benchmarks/bm_1/"'),
    ],
)
def test_the_list_says_what_a_job_is_for(
    world: World, target: str, parameters: dict[str, object], shown: str
) -> None:
    job = job_request(
        kind=JobKind.INSPECT_VERSION, subject_id="1", target=target, actor=world.olga,
        parameters=parameters,
    )  # fmt: skip
    client = world.client()
    for path in ("/jobs/", f"/jobs/{job.id}/"):
        assert shown in client.get(path).content.decode()
    assert "<code>/api" not in client.get("/jobs/").content.decode()


@pytest.mark.parametrize(
    ("target", "name", "page"),
    [
        ("models/m", "m", "/models/m/"),
        ("models/m/traffic", "traffic of m", "/models/m/"),
        ("models/m/stages/production", "production of m", "/models/m/"),
        ("models/m/aliases/champion", "alias champion of m", "/models/m/"),
        ("models/m/rollouts/ro_1", "rollout of m", "/models/m/rollouts/ro_1/"),
        ("operations/op_1", "job op_1", "/jobs/op_1/"),
        ("people/olga", "olga", "/people/"),
        ("uploads/up_1", "upload up_1", ""),
        ("strange/thing", "strange/thing", ""),
    ],
)
def test_a_path_has_a_name_and_the_nearest_page(target: str, name: str, page: str) -> None:
    assert (name_of(target), page_of(target)) == (name, page)
