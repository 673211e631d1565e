"""Write docs/guide/versions.md and its badge: the files of versions that tests read, what their writers say of rows.

PYTHONPATH=. python tests/readers/data/make_page.py

Everything in its tables is counted here, in the files of this folder; tests/readers/test_versions.py compares the page.
"""

from __future__ import annotations

import collections
import contextlib
import json
import re
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tests.readers.spark_models import unpack

import glasswood

DATA = Path(__file__).parent
DOCS = DATA.parents[2] / "docs"
PAGE, BADGE = DOCS / "guide" / "versions.md", DOCS / "images" / "versions.svg"
LIBRARIES = {
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "sklearn": "scikit-learn",
    "h2o": "H2O",
    "spark": "Spark",
    "glasswood": "glasswood",
}
FORMATS = {
    "xgboost.model": "binary",
    "lightgbm.txt": "text",
    "lightgbm.json": "`dump_model`",
    ".json": "JSON",
    ".ubj": "UBJSON",
    ".cbm": "`.cbm`",
    ".pickle": "pickle",
    ".zip": "MOJO",
    ".spark": "folder",
    ".glasswood": "`.glasswood`",
}
TOLD = {
    "predictions": {"predictions", "labels", "numbers", "told", "probabilities"},
    "margins": {"margins", "margin"},
    "leaves": {"leaves", "leaf"},
    "contributions": {"contributions", "values"},
}
"""Columns of the page, and what they are called in the files."""

INTRODUCTION = """# Files by version

Each version has written these small files itself. Beside each file stands what that version predicts for rows on and beside thresholds and for missing values. The tests read the files without the library and compare every number. A cell counts the files for which the writer gives predictions, margins, leaves or contributions (SHAP values); a dash means that none does. The last column counts models with splits by category. Pickles of scikit-learn are the exception: the tests need scikit-learn to read them, and compare them with the versions that unpickle them.

A script makes this page from the files (`tests/readers/data/make_page.py`), and a test fails where it differs from them. [More forests](models.md#files-by-version) says what is particular about old files.
"""  # noqa: E501


class File(NamedTuple):
    """A file of a version, the names of what its writer says, and whether it has categories."""

    library: str
    version: str
    kind: str
    told: frozenset[str]
    is_categorical: bool


def files() -> list[File]:
    """All files beside which their writer's answers are stored."""
    beside = [*DATA.glob("*.npz"), *(DATA / "versions").glob("*.npz"), *(DATA / "versions").glob("*.told.json")]
    found = [_file(path) for path in sorted(beside)]
    for name in json.loads((DATA / "old" / "predictions.json").read_text()):
        library, version, _ = name.split("_", 2)
        with warnings.catch_warnings(), contextlib.suppress(NotImplementedError):  # those that are refused
            warnings.simplefilter("ignore")
            glasswood.load(DATA / "old" / name)
            found.append(File(library, version, Path(name).suffix, frozenset({"predictions"}), False))
    return found


def _file(beside: Path) -> File:
    told = np.load(beside, allow_pickle=True).files if beside.suffix == ".npz" else json.loads(beside.read_text())
    path = beside.with_name(re.sub(r"\.npz$|\.told\.json$", "", beside.name))
    path = path if path.exists() else path.with_name(f"{path.name}.glasswood")
    library, version, _ = path.name.split("-", 2)
    if path.suffix == ".pickle":  # which only some versions unpickle
        return File(library, version, path.suffix, frozenset(told), False)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = glasswood.load(unpack(path.read_bytes(), folder) if path.suffix == ".spark" else path)
    forest = model.forest if hasattr(model, "forest") else model
    has_tables = any(table is not None for table in forest.ensemble.categories or ())
    return File(library, version, path.suffix, frozenset(told), has_tables or forest.ensemble.is_categorical)


def page() -> str:
    """Text of the page."""
    found, parts = files(), [INTRODUCTION]
    for library, name in LIBRARIES.items():
        groups: dict[tuple[tuple[int, ...], str, str], list[File]] = collections.defaultdict(list)
        for one in found:
            if one.library == library:
                order = tuple(int(part) for part in one.version.split("."))
                kind = FORMATS.get(library + one.kind) or FORMATS[one.kind]
                groups[order, one.version, kind].append(one)
        parts += [f"## {name}", "| " + " | ".join(["version", "file", "models", *TOLD, "categories"]) + " |"]
        parts[-1] += "\n|---|---|" + "--:|" * (len(TOLD) + 2)
        parts[-1] += "".join(
            f"\n| {version} | {kind} | {' | '.join(_cells(groups[order, version, kind]))} |"
            for order, version, kind in sorted(groups)
        )
    return "\n\n".join([parts[0].rstrip("\n"), *parts[1:]]) + "\n"


def badge() -> str:
    """Picture of the README: how many files of how many versions there are."""
    found = files()
    n_versions, n_libraries = len({one[:2] for one in found}), len({one.library for one in found} - {"glasswood"})
    texts = ("models read", f"{len(found)} files, {n_versions} versions of {n_libraries} libraries")
    widths = [7 * len(text) + 12 for text in texts]
    whole, label = sum(widths), ": ".join(texts)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img" aria-label="{label}">
<clipPath id="r"><rect width="{whole}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)">
<rect width="{widths[0]}" height="20" fill="#4a4f57"/>
<rect x="{widths[0]}" width="{widths[1]}" height="20" fill="#1f6f4a"/>
</g>
<g fill="#fff" text-anchor="middle" font-family="Verdana, DejaVu Sans, sans-serif" font-size="11">
<text x="{widths[0] / 2:g}" y="14">{texts[0]}</text>
<text x="{widths[0] + widths[1] / 2:g}" y="14">{texts[1]}</text>
</g>
</svg>
"""


def _cells(of_version: list[File]) -> list[str]:
    counts = [sum(bool(one.told & names) for one in of_version) for names in TOLD.values()]
    counts.append(sum(one.is_categorical for one in of_version))
    return [str(len(of_version)), *(str(count) if count else "-" for count in counts)]


if __name__ == "__main__":
    PAGE.write_text(page())
    BADGE.write_text(badge())
