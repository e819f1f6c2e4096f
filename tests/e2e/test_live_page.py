"""The live page against real processes: charts that move, marks, pause, zoom, and honest staleness."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.e2e.browser import Browser, browser
from tests.e2e.conftest import Stack, eventually
from tests.e2e.steps import deploy, lookup_model, publish
from tests.e2e.traffic import Traffic

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

MODEL = "live-lookup"
POINTS = """name => {
  const plot = document.querySelector(`[data-board-figure=${name}] .board-plot`);
  if (!plot || !plot.data) return null;
  const lines = plot.data.filter(trace => trace.meta && trace.meta.key);
  const drawn = lines.map(line => line.y.map((y, i) => [line.x[i], line.customdata[i]])
    .filter(([, value]) => value !== null));
  return {
    names: lines.map(line => line.name),
    colors: lines.map(line => line.line.color),
    newest: Math.max(...drawn.flat().map(([x]) => x)),
    highest: Math.max(...drawn.flat().map(([, value]) => value)),
    shown: plot.layout.xaxis.range,
    marks: plot.data.flatMap(trace => trace.yaxis === "y2" ? trace.text : []),
  };
}"""


@pytest.fixture(scope="module")
def served(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    api = stack.api()
    folder = tmp_path_factory.mktemp("models")
    deploy(api, MODEL, publish(api, MODEL, lookup_model(folder, rows=20, scale=1)))
    return stack


@pytest.fixture
def seen(served: Stack) -> Iterator[Browser]:
    with browser(served) as open_browser:
        open_browser.sign_in()
        yield open_browser


def points(page: Page, name: str) -> dict[str, Any] | None:
    return page.evaluate(POINTS, name)


def drawn(page: Page, name: str, above: float = 0) -> dict[str, Any]:
    """The lines of a chart once one has a point higher than `above`; what had no traffic has none."""

    def found() -> dict[str, Any] | None:
        figure = points(page, name)
        return (
            figure
            if figure and figure["highest"] is not None and figure["highest"] > above
            else None
        )

    return eventually(found, within=30, what=f"{name} is drawn")


def look_at(page: Page, name: str) -> None:
    """Only what is on the screen is drawn."""
    page.locator(f"[data-board-figure={name}]").scroll_into_view_if_needed()


def test_charts_follow_the_traffic(served: Stack, seen: Browser) -> None:
    page = seen.open(f"/live/?range=5m&model={MODEL}")
    with Traffic(served.grpc, MODEL, rate=100):
        first = drawn(page, "requests_per_second", above=50)
        assert first["names"] == ["v1 stable"]
        eventually(
            lambda: points(page, "requests_per_second")["newest"] >= first["newest"] + 3000,
            within=15,
            what="points are appended",
        )
        assert drawn(page, "latency")["names"] == ["p50", "p95", "p99"]
        for name in ("time", "batch_size", "cpu_percent", "memory_bytes"):
            look_at(page, name)
            drawn(page, name)
        golden = page.locator("[data-golden=requests_per_second]")
        eventually(
            lambda: golden.inner_text().endswith("/s") and float(golden.inner_text()[:-2]) > 50,
            within=20,
            what="the number on top follows",
        )
        seen.picture("live-1440-light")
    look_at(page, "gpu")
    if page.locator("[data-board-figure=gpu]").count():
        assert "No GPU here" in page.locator("[data-board-figure=gpu]").inner_text()


def test_loading_a_version_is_marked(served: Stack, seen: Browser, tmp_path: Path) -> None:
    api = served.api()
    page = seen.open(f"/live/?range=5m&model={MODEL}")
    with Traffic(served.grpc, MODEL, rate=50):
        drawn(page, "requests_per_second", above=10)
        version = publish(api, MODEL, lookup_model(tmp_path, rows=20, scale=2))
        deploy(api, MODEL, version)
        text = f"load: {MODEL} v{version} loaded on "
        eventually(
            lambda: any(
                mark.startswith(text) for mark in points(page, "requests_per_second")["marks"]
            ),
            within=20,
            what="the mark shows without a reload",
        )


def test_pause_and_zoom_are_kept_in_the_address(served: Stack, seen: Browser) -> None:
    page = seen.open("/live/?range=5m")
    with Traffic(served.grpc, MODEL, rate=50):
        drawn(page, "requests_per_second", above=10)
        page.get_by_role("button", name="Pause").click()
        assert "paused=1" in page.url
        still = points(page, "requests_per_second")["newest"]
        page.wait_for_function(
            "() => document.querySelector('[data-board-age]').textContent.includes('paused')"
        )
        page.get_by_role("button", name="Resume").click()
        eventually(
            lambda: points(page, "requests_per_second")["newest"] > still,
            within=15,
            what="it goes on where the data is now",
        )
        box = page.locator("[data-board-figure=latency] .board-plot").bounding_box()
        assert box
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 60, steps=5)
        page.mouse.up()
        eventually(lambda: "from=" in page.url, within=5, what="the zoom is in the address")
        page.mouse.move(1, 1)
        zoomed = points(page, "requests_per_second")["shown"]
        newest = points(page, "requests_per_second")["newest"]
        eventually(
            lambda: points(page, "requests_per_second")["newest"] > newest,
            within=15,
            what="points are appended behind the zoom",
        )
        assert points(page, "requests_per_second")["shown"] == zoomed
        page.get_by_role("button", name="Show the whole range").click()
        assert "from=" not in page.url


def test_switching_the_theme_recolours_the_charts(served: Stack, seen: Browser) -> None:
    page = seen.open(f"/live/?range=5m&model={MODEL}")
    with Traffic(served.grpc, MODEL, rate=50):  # without answers there is no latency to draw
        before = drawn(page, "latency", above=-1)["colors"]
    page.get_by_role("button", name="Switch between dark and light").click()
    eventually(lambda: points(page, "latency")["colors"] != before, within=5, what="new colours")
    seen.picture("live-1440-dark")


def test_a_killed_sampler_shows_as_old_data_and_then_a_gap(served: Stack, seen: Browser) -> None:
    page = seen.open("/live/?range=5m")
    look_at(page, "cpu_percent")
    before = drawn(page, "cpu_percent")["newest"]
    served.kill("sampler")
    eventually(
        lambda: points(page, "cpu_percent")["newest"] > before + 4000,
        within=40,
        what="the supervisor starts it again and the page goes on",
    )


def test_the_page_outlives_redis(served: Stack, seen: Browser) -> None:
    page = seen.open("/live/?range=5m")
    look_at(page, "cpu_percent")
    before = drawn(page, "cpu_percent")["newest"]
    served.kill("redis")
    eventually(
        lambda: points(page, "cpu_percent")["newest"] > before + 4000,
        within=60,
        what="charts go on, by fetching or by the socket",
    )


def test_fits_a_telephone(served: Stack) -> None:
    with browser(served, width=360, height=740, dark=True) as small:
        small.sign_in()
        page = small.open("/live/")
        with Traffic(served.grpc, MODEL, rate=50):
            drawn(page, "requests_per_second", above=-1)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 360
        small.picture("live-360-dark")
