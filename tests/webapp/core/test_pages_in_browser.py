"""The frame of every page in Chromium: theme, rail, keys, manners of forms, live data."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.fakes.redis_server import RedisServer
from tests.webapp.core.browser_site import CHROMIUM_ARGUMENTS, Site, chromium, in_thread
from tests.world import PASSWORD, World, claim_of
from webapp.jobs.choices import JobKind
from webapp.jobs.models import Job
from webapp.jobs.services import job_heartbeat, job_request, job_succeed

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.redis,
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine"),
]

HASHER = "django.contrib.auth.hashers.PBKDF2PasswordHasher"


@pytest.fixture
def site(transactional_db: None, live_redis: RedisServer, tmp_path: Path) -> Iterator[Site]:
    with override_settings(PASSWORD_HASHERS=[HASHER]):  # the one the real server has
        World.build()
    layers = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [live_redis.url]},
        }
    }
    site = Site(home=tmp_path, redis_url=live_redis.url)
    try:
        with override_settings(CHANNEL_LAYERS=layers):
            site.start()
            yield site
    finally:
        site.stop()


@pytest.fixture
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def signed_in(site: Site, browser: Browser) -> Iterator[Callable[..., Page]]:
    """`signed_in("ada", width=360)` → a page that is signed in; complaints of the browser fail the test."""
    complaints: list[str] = []

    def open_page(username: str, *, width: int = 1440, scheme: Any = "light") -> Page:
        context = browser.new_context(
            base_url=site.address,
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            permissions=["clipboard-read", "clipboard-write"],
        )
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
        page.on(
            "console",
            lambda message: complaints.append(message.text) if "Policy" in message.text else None,
        )
        page.goto("/login/?next=/account/")
        page.fill("#id_username", username)
        page.fill("#id_password", PASSWORD)
        page.click("button[type=submit]")
        expect(page).to_have_url(f"{site.address}/account/")
        return page

    yield open_page
    assert complaints == []


def new_job() -> Job:
    return job_request(kind=JobKind.INSPECT_VERSION, subject_id="1", target="models/m", actor=None)


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_dark_follows_the_system_and_can_be_chosen(signed_in):
    light, dark = signed_in("vic"), signed_in("vic", scheme="dark")
    assert background(light) != background(dark)
    light.click("[data-theme-toggle]")
    assert background(light) == background(dark)
    light.reload()
    assert light.locator("html").get_attribute("data-theme") == "dark", "from the server, no flash"
    assert background(light) == background(dark)


def test_the_rail_folds_and_stays_folded(signed_in):
    page = signed_in("vic")
    rail = page.locator(".rail")
    wide = rail.bounding_box()["width"]
    page.click("[data-rail-toggle]")
    narrow = rail.bounding_box()["width"]
    assert narrow < wide / 2
    page.reload()
    assert rail.bounding_box()["width"] == narrow


def test_the_keyboard_reaches_everything(signed_in, site: Site):
    page = signed_in("vic")
    page.keyboard.press("Tab")
    expect(page.locator(".skip-link")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.locator("#global-search")).to_be_focused()
    page.keyboard.type("g j")
    page.keyboard.press("Escape")
    assert page.url.startswith(f"{site.address}/account/"), (
        "letters typed into a field are not shortcuts"
    )
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page).to_have_url(f"{site.address}/jobs/")


def test_at_360_px_the_groups_are_at_the_bottom_and_nothing_is_cut(signed_in):
    page = signed_in("ada", width=360)
    for path in ("/account/", "/people/", "/jobs/", "/api/docs/", "/nowhere/"):
        page.goto(path)
        wider = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wider == 0, path
    page.goto("/people/")
    bar = page.locator(".rail").bounding_box()
    assert bar["y"] + bar["height"] == 800
    page.click(".section-tabs >> text=Jobs")
    expect(page.locator("h1")).to_have_text("Jobs")


def test_a_dangerous_button_asks_with_its_effect_first(signed_in):
    page = signed_in("vic")
    page.fill("#id_name", "laptop")
    page.click("text=Issue a token")
    token = page.locator("#issued-token").inner_text().strip()
    page.locator(".code", has=page.locator("#issued-token")).get_by_role("button").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == token
    page.click("text=Revoke")
    dialog = page.locator("dialog[open]")
    expect(dialog).to_contain_text("Calls that use “laptop” will fail at once.")
    page.keyboard.press("Escape")
    expect(page.get_by_text("in force", exact=True)).to_be_visible()
    page.click("text=Revoke")
    dialog.get_by_role("button", name="Revoke this token").click()
    expect(page.locator(".toast")).to_contain_text("Token “laptop” is revoked.")


def test_a_job_is_followed_live_to_its_end(signed_in):
    job = in_thread(new_job)
    page = signed_in("olga")
    page.goto(f"/jobs/{job.id}/")
    expect(page.locator("[data-live-state]")).to_have_attribute("data-state", "open")
    claim = in_thread(claim_of, job=job)
    in_thread(job_heartbeat, claim=claim, progress=0.42, phase="reading the graph")
    expect(page.locator("[data-live-field=phase]")).to_have_text("reading the graph")
    expect(page.locator("[data-live-field=progress]")).to_have_text("42%")
    expect(page.locator("#job .badge").first).to_have_text("running")
    in_thread(job_succeed, claim=claim, result={"version": 3})
    expect(page.locator("#job .badge").first).to_have_text("succeeded")
    expect(page.locator("#job")).to_contain_text('"version": 3')


def test_the_page_comes_back_after_the_server_was_away(signed_in, site: Site):
    job = in_thread(new_job)
    page = signed_in("olga")
    page.goto(f"/jobs/{job.id}/")
    lamp = page.locator("[data-live-state]")
    expect(lamp).to_have_attribute("data-state", "open")
    site.stop()
    expect(lamp).to_have_attribute("data-state", "closed")
    claim = in_thread(claim_of, job=job)
    in_thread(job_succeed, claim=claim)
    site.start()
    expect(lamp).to_have_attribute("data-state", "open", timeout=30_000)
    expect(page.locator("#job .badge").first).to_have_text("succeeded", timeout=15_000)


def test_pages_work_without_script(site: Site, browser: Browser):
    page = browser.new_context(base_url=site.address, java_script_enabled=False).new_page()
    page.goto("/login/?next=/account/")
    page.fill("#id_username", "vic")
    page.fill("#id_password", PASSWORD)
    page.click("button[type=submit]")
    page.fill("#id_name", "laptop")
    page.click("text=Issue a token")
    expect(page.locator("#issued-token")).to_contain_text("sy_")


@pytest.mark.parametrize("width", [360, 1440])
def test_a_call_of_the_api_opens_with_its_fields_and_nothing_is_cut(signed_in, width: int):
    page = signed_in("ada", width=width)
    page.goto("/api/docs/")
    call = page.locator("details.call", has_text="Start a rollout")
    call.locator("summary").click()
    expect(call.get_by_text("allow_contract_change")).to_be_visible()
    expect(call.locator("pre")).to_contain_text('"guardrails"')
    wider = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert wider == 0
