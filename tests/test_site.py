"""The site of all versions: what a build replaces, and which versions it lists."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "publish_site.py"


def test_versions_stay_beside_each_other(tmp_path):
    if not TOOL.exists():
        pytest.skip("the tools are not part of this installation")
    publish = runpy.run_path(str(TOOL))["publish"]
    built, pages, site = tmp_path / "built", tmp_path / "pages", "https://example.org/glasswood/"
    for folder in (built / "guide", pages / ".git", pages / "old"):
        folder.mkdir(parents=True)
    (pages / "old" / "page.html").touch()
    page = built / "guide" / "explain.html"
    for release in ("", "v0.9.0", "v0.10.0", ""):
        page.write_text(release or "main")
        publish(built, pages, site, release)
    assert (pages / "guide" / "explain.html").read_text() == "main"
    assert (pages / "v0.9.0" / "guide" / "explain.html").read_text() == "v0.9.0"
    assert not (pages / "old").exists()
    assert (pages / ".git").exists()
    listed = json.loads((pages / "versions.json").read_text())
    assert [line["version"] for line in listed] == ["main", "v0.10.0", "v0.9.0"]
    assert [line["url"] for line in listed] == [site, f"{site}v0.10.0/", f"{site}v0.9.0/"]
    with pytest.raises(ValueError, match="expected a name such as"):
        publish(built, pages, site, "../other")
