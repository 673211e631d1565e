"""Draw the pictures of docs/images of reports and of a tree: needs the extra `test` and a Chromium of the system."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pandas
from playwright.sync_api import sync_playwright

import silva

IMAGES = Path(__file__).parent.parent / "docs" / "images"
DATA = Path(silva.__file__).parent / "data"
SHOTS = (("forest", 1280, 1330), ("tree", 1280, 1700), ("tree", 390, 844))
"""Report, width and height of each picture."""


def main() -> None:
    """Write the reports of California housing into a temporary folder, and pictures of them."""
    X = pandas.read_parquet(DATA / "california_housing.parquet")
    y = X.pop("MedHouseVal")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        forest, tree = Path(folder, "forest.html"), Path(folder, "tree.html")
        silva.report(DATA / "california_housing.json", X, y, forest, title="California housing: XGBoost")
        grown = silva.ModelTreeRegressor(max_leaves=5, time_limit=5).fit(X, y)
        silva.report(grown, X, y, tree, title="California housing: a tree of five equations")
        silva.plot_tree(grown, X, y).figure.savefig(IMAGES / "tree.png", dpi=110, bbox_inches="tight")
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, width, height in SHOTS:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(Path(folder, f"{name}.html").as_uri())
            page.wait_for_selector("html[data-ready]")
            page.wait_for_timeout(500)
            page.screenshot(path=IMAGES / f"report-{name}-{width}.png")
        browser.close()


if __name__ == "__main__":
    main()
