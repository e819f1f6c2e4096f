"""Uploading in a browser: paused, lost with the page, resumed; rejected with the reason; by keyboard."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from stack.demo.api import Api
from tests.e2e.browser import Browser, browser
from tests.e2e.conftest import Stack, eventually
from tests.e2e.steps import lookup_model

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(400)]
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with 70 MiB beside it: nine parts."""
    folder = tmp_path_factory.mktemp("archive")
    path = folder / "large.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.write(lookup_model(folder, rows=20, scale=1), "model.onnx")
        packed.writestr("table.bin", np.random.default_rng(1).bytes(70 * MIB))
    return path


def arriving(api: Api) -> list[dict[str, Any]]:
    """Open uploads of which a part has arrived."""
    listed = api.call("GET", "/uploads?state=UPLOADING")["items"]
    return [row for row in listed if row["received_bytes"]]


def throttle(page: Page, bytes_per_second: int) -> None:
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send(
        "Network.emulateNetworkConditions",
        {
            "offline": False,
            "latency": 0,
            "downloadThroughput": -1,
            "uploadThroughput": bytes_per_second,
        },
    )


def choose(chromium: Browser, file: Path, model: str) -> Page:
    page = chromium.open("/upload/")
    page.locator("#file").set_input_files(file)
    page.get_by_label("Model", exact=True).fill(model)
    return page


def test_an_upload_survives_a_pause_and_a_reload(stack: Stack, archive: Path) -> None:
    api = stack.api()
    with browser(stack) as chromium:
        chromium.sign_in()
        page = choose(chromium, archive, "large")
        throttle(page, 8 * MIB)
        page.get_by_role("button", name="Upload and check").click()
        (upload,) = eventually(
            lambda: arriving(api),
            within=60,
            what="a part has arrived",
        )
        expect(page.locator("[data-transfer-rate]")).to_contain_text("left")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("[data-transfer-state]")).to_contain_text("Paused")
        chromium.picture("upload-paused")

        page.reload()
        row = page.locator(f"[data-upload-row={upload['id']}]")
        expect(row).to_contain_text("large.zip")
        kept = api.call("GET", f"/uploads/{upload['id']}")["received_bytes"]
        assert 0 < kept < upload["size_bytes"]
        throttle(page, -1)
        row.locator("input[type=file]").set_input_files(archive)
        expect(page.locator("[data-transfer-state]")).to_contain_text("Going on where it stopped")
        expect(page.locator("[data-outcome=ready]")).to_be_visible(timeout=120_000)
        chromium.picture("upload-ready")
    version = api.call("GET", "/models/large/versions/1")
    assert version["state"] == "READY"
    assert {file["name"] for file in version["files"]} == {"model.onnx", "table.bin"}


def test_another_file_does_not_continue_an_upload(
    stack: Stack, archive: Path, tmp_path: Path
) -> None:
    api = stack.api()
    with browser(stack) as chromium:
        chromium.sign_in()
        page = choose(chromium, archive, "mixed")
        throttle(page, 8 * MIB)
        page.get_by_role("button", name="Upload and check").click()
        eventually(lambda: arriving(api), within=60, what="a part has arrived")
        page.reload()
        other = tmp_path / "large.zip"
        other.write_bytes(bytes(archive.stat().st_size))
        page.locator("[data-continue-file]").set_input_files(other)
        expect(page.locator("#toasts")).to_contain_text("is not the file this upload was started")
        page.get_by_role("button", name="Discard").click()
        page.get_by_role("dialog").get_by_role("button", name="Discard").click()
        expect(page.get_by_text("Discarded the unfinished upload")).to_be_visible()
    assert api.call("GET", "/uploads?state=UPLOADING")["items"] == []


def test_a_rejection_says_why_and_what_to_do(stack: Stack, tmp_path: Path) -> None:
    whole = lookup_model(tmp_path, rows=20, scale=1)
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(whole.read_bytes()[:-40])
    with browser(stack, width=360, height=740) as chromium:
        chromium.sign_in()
        page = choose(chromium, cut, "cut")
        page.get_by_label("Model", exact=True).press("Enter")
        expect(page.locator("[data-outcome=rejected]")).to_be_visible(timeout=60_000)
        expect(page.locator("#outcome")).to_contain_text("not a whole ONNX model")
        expect(page.locator("#outcome")).to_contain_text("export or copy it again")
        chromium.picture("upload-rejected-360")
        page.get_by_role("link", name="Upload a corrected file").click()
        expect(page.get_by_label("Model", exact=True)).to_have_value("cut")


def test_what_is_hopeless_is_refused_before_it_is_sent(stack: Stack, tmp_path: Path) -> None:
    pickled = tmp_path / "model.pkl"
    pickled.write_bytes(b"\x80\x04N.")
    with browser(stack) as chromium:
        chromium.sign_in()
        page = choose(chromium, pickled, "pickled")
        page.get_by_role("button", name="Upload and check").click()
        expect(page.locator("#file-problem")).to_contain_text("torch.onnx.export")
        expect(page.locator("#transfer")).to_be_hidden()
