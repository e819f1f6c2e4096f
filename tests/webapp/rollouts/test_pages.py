"""Rollout pages: what they say, what they offer to whom, and that one click is enough."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.urls import reverse

from tests.webapp.rollouts.yard import Behaviour, Yard
from webapp.core.track_diagram import large_svg
from webapp.rollouts.choices import RolloutState
from webapp.rollouts.models import Rollout

SLOW = [
    {"weight": 0.25, "hold_seconds": 500, "min_requests": 10_000},
    {"weight": 0.5, "hold_seconds": 500, "min_requests": 10_000},
]


class Text(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.feed(html)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def text_of(response) -> str:
    assert response.status_code == 200, response.content[:500]
    return re.sub(r"\s+", " ", " ".join(Text(response.content.decode()).words))


def detail(rollout: Rollout) -> str:
    return reverse("rollouts:detail", args=[rollout.id])


def click(yard: Yard, rollout: Rollout, verb: str, role: str = "operator", **data):
    url = reverse(f"rollouts:{verb}", args=[rollout.id])
    return yard.world.client(role).post(
        url, {"row_version": rollout.row_version, **data}, follow=True
    )


def test_the_page_says_where_it_stands_and_what_each_button_does(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    yard.pass_seconds(12)
    text = text_of(yard.world.client().get(detail(rollout)))
    assert "Step 1 of 3: 25% of requests go to version 2. Next 50%." in text
    assert re.search(r"Promote version 2 \(takes all traffic, about \d+(\.\d)?/s\)", text)
    assert re.search(r"Go to 50%, about \d+(\.\d)?/s", text)
    assert "Pause (keeps 25% on version 2)" in text
    assert "Abort (all traffic to version 1)" in text
    assert re.search(r"[\d,]+ of 10,000, about \d+ (s|min)", text)
    assert "Server errors and timeouts" in text
    assert "v1 stable" in text


def test_abort_is_one_click_also_from_a_page_that_is_behind(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    response = click(yard, rollout, "abort", row_version="1")
    assert "Aborted: all traffic is on version 1." in text_of(response)
    assert yard.applied() == {1: 1.0}


@pytest.mark.parametrize(
    ("verb", "state", "share"),
    [
        ("pause", RolloutState.PAUSED, 0.25),
        ("advance", RolloutState.PROGRESSING, 0.5),
        ("promote", RolloutState.PROMOTING, 1.0),
    ],
)
def test_every_button_does_what_it_says(yard: Yard, canary, verb, state, share) -> None:
    rollout = yard.begun(canary, SLOW)
    assert click(yard, rollout, verb).status_code == 200
    assert yard.now(rollout).state == state
    assert yard.applied()[2] == share


def test_a_click_on_a_page_that_is_behind_changes_nothing_and_says_so(yard: Yard, canary) -> None:
    seen = yard.begun(canary, SLOW)
    click(yard, seen, "advance")
    assert "had moved on before your click" in text_of(click(yard, seen, "advance"))
    assert yard.now(seen).step == 1


def test_a_viewer_sees_everything_and_can_press_nothing(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    response = yard.world.client("viewer").get(detail(rollout))
    assert "Only the role operator or above may move traffic" in text_of(response)
    assert "<form" not in response.content.decode().split('id="main"')[1].split("rollout-moves")[0]
    for verb in ("pause", "advance", "promote", "abort"):
        assert click(yard, rollout, verb, "viewer").status_code == 403
    assert yard.now(rollout).state == RolloutState.PROGRESSING


def test_strangers_are_sent_to_the_login_page(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    client = yard.world.client(None)
    for url in (detail(rollout), "/rollouts/", "/models/resnet50/rollouts/new/"):
        assert "/login" in client.get(url)["Location"]
    client.post(reverse("rollouts:abort", args=[rollout.id]))
    assert yard.now(rollout).state == RolloutState.PROGRESSING


def test_actions_need_post(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    url = reverse("rollouts:abort", args=[rollout.id])
    assert yard.world.client().get(url).status_code == 405


def test_the_fragment_holds_the_parts_the_script_merges(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    html = yard.world.client().get(f"{detail(rollout)}?fragment").content.decode()
    assert "<html" not in html
    for part in ("rollout-state", "rollout-abort", "rollout-body", "rollout-history"):
        assert html.count(f'id="{part}"') == 1


def test_a_rolled_back_rollout_shows_why(yard: Yard, canary) -> None:
    yard.behaviours[2] = Behaviour(error_rate=0.3)
    rollout = yard.until_state(yard.begun(canary, SLOW), RolloutState.ROLLED_BACK)
    text = text_of(yard.world.client().get(detail(rollout)))
    assert "Rolled back by itself: all traffic is on version 1." in text
    assert "of canary requests" in text
    assert "Abort" not in text


@pytest.mark.parametrize(
    "state", [RolloutState.INITIALIZING, RolloutState.BAKING, RolloutState.SUCCEEDED]
)
def test_every_stage_has_a_page(yard: Yard, canary, state) -> None:
    rollout = yard.start(canary)
    if state != RolloutState.INITIALIZING:
        rollout = yard.until_state(rollout, state)
    assert "version 2" in text_of(yard.world.client().get(detail(rollout)))
    assert yard.world.client().get(f"/models/resnet50/rollouts/{rollout.id}/").status_code == 200


def test_the_list_shows_active_ones_first_and_an_example_while_there_is_none(
    yard: Yard, canary
) -> None:
    client = yard.world.client()
    assert "/api/v1/models/resnet50/rollouts" in text_of(client.get("/rollouts/"))
    rollout = yard.begun(canary, SLOW)
    text = text_of(client.get("/rollouts/"))
    assert "1 under way." in text
    assert "resnet50 v1 → v2" in text
    click(yard, rollout, "abort")
    assert "No traffic is being moved." in text_of(client.get("/rollouts/?model=resnet50"))


def test_pages_carry_no_inline_script_or_handler(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    for url in (detail(rollout), "/rollouts/", "/models/resnet50/rollouts/new/"):
        html = yard.world.client().get(url).content.decode()
        assert not re.search(r"<script(?![^>]*\b(src|type=\"application/json\"))", html)
        assert not re.search(r"\son[a-z]+=", html)


class TestStartForm:
    URL = "/models/resnet50/rollouts/new/"

    def form(self, **changes) -> dict[str, Any]:
        values = {
            "version": "2", "weight": ["10", "50", ""], "hold": ["1", "2", ""],
            "min_requests": ["20", "", ""], "bake": "3", "pause": ["1"],
            "guardrail": ["errors", "latency"], "slo_ms": "40",
        }  # fmt: skip
        return values | changes

    def test_starts_what_was_typed_in_percent_and_minutes(self, yard: Yard, canary) -> None:
        response = yard.world.client().post(self.URL, self.form(), follow=True)
        assert "Rollout of version 2 started." in text_of(response)
        rollout = Rollout.objects.get()
        assert rollout.steps == [
            {"weight": 0.1, "hold_seconds": 60.0, "min_requests": 20, "pause": False},
            {"weight": 0.5, "hold_seconds": 120.0, "min_requests": 0, "pause": True},
            {"weight": 1.0, "hold_seconds": 180.0, "min_requests": 0, "pause": False},
        ]
        assert [g.value for g in rollout.plan.guardrails.enabled()] == ["errors", "latency"]
        assert rollout.plan.guardrails.slo_ms == 40

    def test_what_cannot_be_meant_comes_back_as_it_was_typed(self, yard: Yard, canary) -> None:
        response = yard.world.client().post(self.URL, self.form(weight=["50", "soon", ""]))
        assert response.status_code == 422
        html = response.content.decode()
        assert "Step 2, share" in html
        assert 'value="soon"' in html
        assert not Rollout.objects.exists()

    def test_the_preview_says_what_would_happen_and_how_long(self, yard: Yard, canary) -> None:
        yard.pass_seconds(10, ticking=False)
        response = yard.world.client().get(f"{self.URL}plan", self.form())
        text = text_of(response)
        assert "10% of requests for at least 1 min and 20 canary requests" in text
        assert re.search(r"About 6 min 0 s|About 6 min", text)
        assert "Start the rollout (10% of requests to version 2)" in text

    def test_without_traffic_the_preview_does_not_pretend_to_know(self, yard: Yard, canary) -> None:
        text = text_of(yard.world.client().get(self.URL))
        assert "needs traffic" in text
        assert "cannot be said" in text

    @pytest.mark.parametrize("preset", ["careful", "quick", "attended", "nonsense"])
    def test_presets_are_plans_that_can_start(self, yard: Yard, canary, preset) -> None:
        text = text_of(yard.world.client().get(f"{self.URL}?version=2&preset={preset}"))
        assert "Start the rollout (" in text

    def test_a_changed_contract_is_told_before_anything_starts(self, yard: Yard) -> None:
        yard.version(2, inputs=[{"name": "X", "datatype": "FP32", "shape": [-1]}])
        text = text_of(yard.world.client().get(self.URL))
        assert "Clients of version 1 would notice version 2" in text

    def test_with_one_version_only_it_teaches(self, yard: Yard) -> None:
        assert "There is no other version to try" in text_of(yard.world.client().get(self.URL))

    def test_a_viewer_may_look_and_not_start(self, yard: Yard, canary) -> None:
        client = yard.world.client("viewer")
        assert "Only the role operator" in text_of(client.get(self.URL))
        assert client.post(self.URL, self.form()).status_code == 403


def test_the_diagram_shows_what_the_rollout_does(yard: Yard, canary) -> None:
    from webapp.rollouts.diagram import rollout_diagram

    rollout = yard.begun(canary, SLOW)
    diagram = rollout_diagram(rollout=rollout, shares={1: 0.7, 2: 0.3}, rate=240)
    assert [(arm.role, arm.configured, arm.observed) for arm in diagram.arms] == [
        ("stable", 0.75, 0.7), ("canary", 0.25, 0.3),
    ]  # fmt: skip
    assert diagram.next_share == 0.5
    assert "240/s" in large_svg(diagram)
    baking = yard.until_state(yard.start(canary, supersede=True), RolloutState.BAKING)
    arms = rollout_diagram(rollout=baking).arms
    assert [(arm.label, arm.role) for arm in arms] == [("v2", "stable"), ("v1", "idle")]


QUICK = [{"weight": 0.5, "hold_seconds": 2, "min_requests": 20}]


def test_after_the_promotion_diagram_and_comparison_call_the_same_version_stable(
    yard: Yard, canary
) -> None:
    rollout = yard.until_state(yard.begun(canary, QUICK), RolloutState.BAKING)
    page = yard.world.client().get(detail(rollout)).content.decode()
    text = re.sub(r"\s+", " ", " ".join(Text(page).words))
    assert "v2 stable" in text
    assert "v1 before" in text
    assert "v1 stable" not in text
    assert "v2 canary" not in text
    assert re.search(r'aria-label="[^"]*v2[^"]*stable', page) or "v2: stable" in page


def test_steps_that_a_promotion_went_past_are_not_shown_as_passed(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    click(yard, rollout, "promote")
    page = yard.world.client().get(detail(rollout)).content.decode()
    rungs = re.findall(r'<li class="rung rung-(\w+)"', page)
    assert rungs == ["done", "skipped", "here"]
