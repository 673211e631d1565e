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


idle = []
"""Pages that nobody looks at: opening another file in one takes half of the time of a page of its own."""


class Page:
    """A file in a page, alone; whatever it complains about or tries to load fails the test at `close`."""

    def __init__(self, browser, path, width=1280, height=900, color_scheme="light") -> None:
        self.complaints = []
        self._listeners = {
            "console": lambda message: self.complaints.append(message.text),
            "pageerror": lambda error: self.complaints.append(str(error)),
            "request": lambda request: self._note(request.url, path),
            "dialog": lambda dialog: self.complaints.append(f"dialog {dialog.message}"),
        }
        self.page = idle.pop() if idle else browser.new_context(offline=True).new_page()
        for event, listener in self._listeners.items():
            self.page.on(event, listener)
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(media="screen", color_scheme=color_scheme)
        self.page.mouse.move(0, 0)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]", timeout=60_000)
        settle(self.page)

    def _note(self, url, path) -> None:
        if url != path.as_uri():
            self.complaints.append(f"loads {url}")

    def close(self) -> None:
        """Leave the page to others; after a failure it is not left."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        assert not self.complaints
        idle.append(self.page)
