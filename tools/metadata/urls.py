"""Addresses of the project for its metadata: from GLASSWOOD_REPOSITORY, since sources do not know where they lie."""

from __future__ import annotations

import os


def dynamic_metadata(field: str, settings: dict[str, object]) -> dict[str, str]:  # noqa: ARG001
    """Name the repository's pages; none without the variable."""
    repository = os.environ.get("GLASSWOOD_REPOSITORY", "").rstrip("/")
    if not repository:
        return {}
    pages = {"Source": "", "Issues": "/issues", "Changelog": "/blob/main/CHANGELOG.md", "Security": "/security"}
    return {name: repository + page for name, page in pages.items()}
