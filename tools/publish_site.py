"""Put a built site beside those of other versions: releases in folders, the main branch at the top; and list them."""

import json
import re
import shutil
import sys
from pathlib import Path

RELEASE = re.compile(r"v\d+(\.\d+)*")


def publish(built: Path, pages: Path, site: str, release: str = "") -> None:
    """Replace the pages of a release, or of the main branch, and write versions.json, the newest release first.

    Raises
    ------
    ValueError
        If `release` is no name of one.
    """
    if release and not RELEASE.fullmatch(release):
        raise ValueError(f"the release is {release!r}, expected a name such as v0.1.0")
    if release:
        shutil.rmtree(pages / release, ignore_errors=True)
    else:
        for old in pages.iterdir():
            if old.name != ".git" and not RELEASE.fullmatch(old.name):
                shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.copytree(built, pages / release, dirs_exist_ok=True)
    (pages / ".nojekyll").touch()
    found = [path.name for path in pages.iterdir() if RELEASE.fullmatch(path.name)]
    found.sort(key=lambda name: [int(part) for part in name[1:].split(".")], reverse=True)
    lines = [{"name": "main branch", "version": "main", "url": site}]
    lines += [{"name": name[1:], "version": name, "url": f"{site}{name}/"} for name in found]
    (pages / "versions.json").write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
