"""Every page at both widths and in both themes, on a stack that serves something."""

import pytest
from playwright.sync_api import expect

from tests.e2e.browser import browser
from tests.e2e.conftest import Stack, eventually
from tests.e2e.steps import deploy, lookup_model, publish
from tests.e2e.traffic import Traffic

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]
MODEL = "shown"


@pytest.fixture(scope="module")
def served(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    api, folder = stack.api(), tmp_path_factory.mktemp("models")
    for version, scale in ((1, 1), (2, 100)):
        file = lookup_model(folder, rows=20, scale=scale, name=f"v{version}")
        deploy(api, MODEL, publish(api, MODEL, file))
    return stack


def test_the_live_page_draws_what_happens(served: Stack) -> None:
    with browser(served) as chromium:
        chromium.sign_in()
        with Traffic(served.grpc, MODEL):
            page = chromium.open("/live/")
            plot = page.locator(".js-plotly-plot").first
            expect(plot).to_be_visible(timeout=30_000)
            count = (
                "() => Math.max(0, ...[...document.querySelectorAll('.js-plotly-plot')].flatMap("
            )
            count += "p => (p.data || []).map(t => t.y.filter(v => v > 100).length)))"
            before = page.evaluate(count)
            # The page's own policy forbids eval, so the question is asked from here.
            eventually(
                lambda: page.evaluate(count) > before + 3, within=30, what="points are appended"
            )
            chromium.picture("live")
            page.evaluate("window.scrollTo(0, document.body.scrollHeight)")  # drawn when looked at
            expect(page.get_by_text("no GPU", exact=False).first).to_be_visible()


def test_a_value_typed_into_an_inputs_box_is_what_is_asked(served: Stack) -> None:
    with browser(served) as chromium:
        chromium.sign_in()
        page = chromium.open(f"/models/{MODEL}/versions/2/")
        page.get_by_label("INDEX").fill("7")
        page.get_by_role("button", name="Ask version 2").click()
        expect(page.locator("#trial")).to_contain_text("700")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 360])
def test_pages_fit_their_window_and_log_no_error(served: Stack, width: int, dark: bool) -> None:
    paths = ["/", "/models/", f"/models/{MODEL}/", f"/models/{MODEL}/versions/2/", "/upload/",
             "/rollouts/", "/live/", "/runtimes/", "/benchmarks/", "/jobs/", "/audit/", "/people/",
             "/account/", f"/models/{MODEL}/serving/", "/api/docs/"]  # fmt: skip
    with browser(served, width=width, dark=dark) as chromium:
        chromium.sign_in()
        for path in paths:
            page = chromium.open(path)
            page.wait_for_load_state("networkidle") if path != "/live/" else page.wait_for_timeout(
                2000
            )
            page.evaluate(
                "document.querySelectorAll('details').forEach(one => { one.open = true })"
            )
            wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{path} is {wide} px wider than the window"
            name = path.strip("/").replace("/", "_") or "home"
            chromium.picture(f"{name}-{width}{'-dark' if dark else ''}")
