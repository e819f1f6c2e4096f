"""Chromium from Debian, driven by Playwright: signed in, and strict about the console."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, Page, sync_playwright

from tests.e2e.conftest import PASSWORD, Stack

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@dataclass
class Browser:
    stack: Stack
    page: Page
    problems: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(self.stack.web + path)
        return self.page

    def sign_in(self, user: str = "admin", password: str = PASSWORD) -> None:
        self.open("/login/")
        self.page.get_by_label("User name").fill(user)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(lambda url: "/login/" not in url)

    def picture(self, name: str) -> None:
        """Kept when SWITCHYARD_SCREENSHOTS names a folder, for people to look at."""
        if folder := os.environ.get("SWITCHYARD_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=f"{folder}/{name}.png", full_page=True)


@contextmanager
def browser(
    stack: Stack, *, width: int = 1440, height: int = 900, dark: bool = False
) -> Iterator[Browser]:
    """Fails at the end if the page logged an error: a CSP violation, an exception, a missing file."""
    binary = shutil.which("chromium")
    if binary is None:
        pytest.skip("Chromium is not installed (Debian package chromium)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=binary, args=FLAGS)
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
        )
        seen = Browser(stack, context.new_page())
        seen.page.set_default_timeout(20_000)

        def note(message: ConsoleMessage) -> None:
            if message.type == "error":
                seen.problems.append(message.text)

        seen.page.on("console", note)
        seen.page.on("pageerror", lambda error: seen.problems.append(str(error)))
        try:
            yield seen
        finally:
            context.close()
            chromium.close()
    assert seen.problems == []
