"""Draw the pictures of docs/images of reports and of a tree: needs the extra `test` and a Chromium of the system."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import shap
from PIL import Image
from playwright.sync_api import sync_playwright

import glasswood

IMAGES = Path(__file__).parent.parent / "docs" / "images"
SHOTS = (("summary", "tree", None, 900), ("tree", "tree", "tree", 900))
"""Name of each picture, its report, the section that it begins with, and its height."""


def main() -> None:
    """Write the reports of California housing into a temporary folder, and pictures of them."""
    draw_one_row()
    X, y = glasswood.datasets.california()
    is_test = X.index % 4 == 0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        tree = Path(folder, "tree.html")
        grown = glasswood.ModelTreeRegressor(max_leaves=5, time_limit=60).fit(X[~is_test], y[~is_test])
        glasswood.report(grown, X[~is_test], y[~is_test], tree, test=(X[is_test], y[is_test]))
        glasswood.plot_tree(grown, X, y).figure.savefig(IMAGES / "tree.png", dpi=110, bbox_inches="tight")
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, report, section, height in SHOTS:
            page = browser.new_page(viewport={"width": 1280, "height": height}, reduced_motion="reduce")
            page.goto(Path(folder, f"{report}.html").as_uri())
            page.wait_for_selector("html[data-ready]")
            page.wait_for_timeout(500)
            if section:
                page.evaluate("id => document.getElementById(id).scrollIntoView({ behavior: 'instant' })", section)
            page.wait_for_timeout(500)
            page.screenshot(path=IMAGES / f"report-{name}-1280.png")
        browser.close()
    for path in (*IMAGES.glob("report-*.png"), IMAGES / "tree.png", IMAGES / "one-row.png"):
        Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)


def draw_one_row() -> None:
    """Draw the picture of the start page: the SHAP values of one row, by shap's own plot, on white for dark pages."""
    X, _ = glasswood.datasets.california()
    explainer = glasswood.Explainer(glasswood.datasets.DATA / "california_housing.json")
    axes = shap.plots.waterfall(explainer(X[:1])[0], max_display=5, show=False)
    axes.figure.savefig(IMAGES / "one-row.png", dpi=150, bbox_inches="tight", facecolor="white")


if __name__ == "__main__":
    main()
