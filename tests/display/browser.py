"""A headless Chromium for tests of pages, or the reason why there is none."""

from __future__ import annotations

import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    """Yield a browser of the system, driven by playwright; skip where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the path (apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


def settle(page) -> None:
    """Wait until the charts are drawn: their observers run in the frame after a change, before the next one begins."""
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
    )


class Page:
    """An open page; whatever it complains about or tries to load fails the test at `close`."""

    def __init__(self, browser, path, width=1280, height=900, **settings) -> None:
        self._context = browser.new_context(viewport={"width": width, "height": height}, offline=True, **settings)
        self.page, self.complaints = self._context.new_page(), []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self._note(request.url, path))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]", timeout=60_000)
        settle(self.page)

    def _note(self, url, path) -> None:
        if url != path.as_uri():
            self.complaints.append(f"loads {url}")

    def close(self) -> None:
        """End the page."""
        self._context.close()
        assert not self.complaints
