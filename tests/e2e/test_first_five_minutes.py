"""What a newcomer does in the browser: upload, deploy, ask, upload a better one, roll out, promote."""

import re
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from playwright.sync_api import expect

from tests.e2e.browser import Browser, browser
from tests.e2e.conftest import Stack, eventually
from tests.e2e.steps import lookup_model
from tests.e2e.traffic import Traffic

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(400)]
MODEL = "newcomer"


def upload(chromium: Browser, file: Path) -> None:
    page = chromium.open("/upload/")
    page.locator("#file").set_input_files(file)
    page.get_by_label("Model", exact=True).fill(MODEL)
    page.get_by_role("button", name="Upload and check").click()
    outcome = page.locator("#outcome")
    expect(outcome).to_be_visible()
    expect(outcome.get_by_role("link", name="version").first).to_be_visible(timeout=60_000)


def ask(module, address: str) -> tuple[float, str]:
    client = module.InferenceServerClient(address)
    entry = module.InferInput("INDEX", [1, 1], "INT64")
    entry.set_data_from_numpy(np.array([[7]], np.int64))
    result = client.infer(MODEL, [entry])
    response = result.get_response()
    version = response["model_version"] if isinstance(response, dict) else response.model_version
    client.close()
    return float(result.as_numpy("OUTPUT0")[0, 0]), version


def test_from_an_empty_stack_to_a_promoted_version(stack: Stack, tmp_path: Path) -> None:
    first = lookup_model(tmp_path, rows=20, scale=1, name="first")
    better = lookup_model(tmp_path, rows=20, scale=100, name="better")
    with browser(stack) as chromium:
        chromium.open("/")
        expect(chromium.page).to_have_url(re.compile("/login"))
        chromium.sign_in()
        expect(chromium.page.get_by_text("No model yet")).to_be_visible()
        chromium.picture("overview-empty")

        upload(chromium, first)
        chromium.picture("upload-done")
        page = chromium.open(f"/models/{MODEL}/versions/1/")
        page.get_by_role("button", name="Deploy version 1").click()
        expect(page.get_by_role("heading", name="Try it")).to_be_visible(timeout=60_000)
        assert ask(triton_http, stack.http) == (7.0, "1")
        assert ask(triton_grpc, stack.grpc) == (7.0, "1")

        page.get_by_label("Inputs, as in a v2 request").fill(
            '[{"name": "INDEX", "datatype": "INT64", "shape": [1, 1], "data": [9]}]'
        )
        page.get_by_role("button", name="Ask version 1").click()
        expect(page.locator("#trial").get_by_text("answered in")).to_be_visible()
        expect(page.locator("#trial")).to_contain_text("9")
        chromium.picture("version")

        upload(chromium, better)
        with Traffic(stack.grpc, MODEL) as traffic:
            page = chromium.open(f"/models/{MODEL}/rollouts/new/?version=2")
            chromium.picture("rollout-start")
            page.locator("form#rollout-form button[type=submit]").first.click()
            page.wait_for_url("**/rollouts/ro_*/")
            eventually(lambda: traffic.versions()[2] > 5, within=60, what="the canary gets traffic")
            expect(page.locator("svg.track-wide")).to_be_visible()
            page.wait_for_timeout(3000)
            chromium.picture("rollout")
            page.get_by_role("button", name="Promote version 2").click()
            eventually(
                lambda: ask(triton_grpc, stack.grpc) == (700.0, "2"), within=20, what="promoted"
            )
            page = chromium.open(f"/models/{MODEL}/")
            expect(page.get_by_text("Version 2 has the traffic").or_(
                page.get_by_text("under way"))).to_be_visible()  # fmt: skip
            chromium.picture("model")
        assert traffic.failed == []
