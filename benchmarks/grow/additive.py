"""Glass boxes beside EBM, LightGBM and one tree, on the splits of `public` and `classes` that these were fitted to.

`python -m benchmarks.grow.additive RESULT` fits what RESULT lacks, and prints the table; EBM, LightGBM and trees come
from grow.json. Its `tree` is fitted with curves and judged with them and without. Settings were chosen on the tuning
half of the pool, of which some sets are here too: the table has a line without these.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.grow import cases, classes, public
from benchmarks.pool.sets import is_tuning

GROW = Path(__file__).parents[1] / "results" / "grow.json"

SECTIONS = {
    "EBM": ("public_ebm", "classes_ebm", "EBM"),
    "LightGBM": ("public_rivals", "public_classes", "LightGBM"),
}
"""Of grow.json: regression, classes, and the name of the method there."""

GLASS_BOX, BENT, TREE = "glass box", "tree and curves", "tree"

METHODS: dict[str, Callable[[public.Split, bool], list[dict[str, Any]]]] = {}


def glass_box(split: public.Split, has_classes: bool) -> list[dict[str, Any]]:
    """One fit; `terms` are curves and surfaces, `leaves` their steps."""
    import glasswood

    kind = glasswood.AdditiveClassifier if has_classes else glasswood.AdditiveRegressor
    began = time.process_time()
    model = kind(n_jobs=1).fit(split.X, split.y)
    seconds = time.process_time() - began
    steps = model.parts_["steps"]
    read = {"leaves": int(steps.sum()), "terms": int((steps > 0).sum()), "seconds": seconds}
    return [{"method": GLASS_BOX, **_error(split, _predicted(model, split)), **read}]


def bent_tree(split: public.Split, has_classes: bool) -> list[dict[str, Any]]:
    """One tree with curves where left-out rows gain, and the same tree without."""
    import glasswood

    kind = glasswood.ModelTreeClassifier if has_classes else glasswood.ModelTreeRegressor
    records = []
    for method, own in ((TREE, {}), (BENT, {"curves": "auto", "pairs": "auto"})):
        began = time.process_time()
        model = kind(n_jobs=1, time_limit=None, verbose=False, **own).fit(split.X, split.y)
        seconds = time.process_time() - began
        read = {"leaves": int(model.n_leaves_), "terms": int(model.forest_.ensemble.n_curves), "seconds": seconds}
        records.append({"method": method, **_error(split, _predicted(model, split)), **read})
    return records


METHODS |= {GLASS_BOX: glass_box, BENT: bent_tree}


def _predicted(model: Any, split: public.Split) -> Any:
    return (
        (model.predict_proba(split.X_test), model.classes_)
        if hasattr(model, "classes_")
        else model.predict(split.X_test)
    )


def _error(split: public.Split, predicted: Any) -> dict[str, float]:
    if isinstance(predicted, tuple):
        from sklearn.metrics import log_loss

        return {"error": float(log_loss(split.y_test, predicted[0], labels=list(predicted[1])))}
    return {"error": float(cases.rmse(split.y_test, predicted))}


def others() -> list[dict[str, Any]]:
    """Fits of grow.json."""
    stored, found = json.loads(GROW.read_text()), []
    for method, (numbers, labels, name) in SECTIONS.items():
        for section in (numbers, labels):
            for one in stored[section]["records"]:
                if one["method"] == name and ("rmse" in one or "log_loss" in one):
                    error = one.get("rmse", one.get("log_loss"))
                    about = {"case": one["case"], "classes": section == labels, "method": method, "error": error}
                    found.append({**about, "seconds": one["seconds"], "terms": one["leaves"]})
    return found


def run(result: Path, methods: list[str]) -> None:
    """Fit all sets, and write after each."""
    found = json.loads(result.read_text()) if result.exists() else _circumstances()
    for method in methods:
        for has_classes, names in ((False, public.REPORTED), (True, classes.SETS)):
            for name in names:
                if any((one["case"], one["method"]) == (name, method) for one in found["records"]):
                    continue
                split = (classes if has_classes else public).read(name)
                about = {"case": name, "classes": has_classes}
                found["records"] += [{**about, **one} for one in METHODS[method](split, has_classes)]
                result.write_text(json.dumps(found, indent=1))


def table(result: Path) -> list[str]:
    """Errors and times relative to EBM's and LightGBM's: geometric mean, median and worst."""
    own = json.loads(result.read_text())["records"]
    lines = [
        "| sets | method | beside | sets | mean | median | worst | time | terms |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for has_classes in (False, True):
        for half in (False, True):
            kind = f"{'classes' if has_classes else 'regression'}{', not tuned on' if half else ''}"
            for method in (GLASS_BOX, BENT):
                for rival in ("EBM", "LightGBM", TREE):
                    lines += _line(own, others(), kind, method, rival, has_classes, half)
    return lines


def _line(
    own: list[dict[str, Any]],
    stored: list[dict[str, Any]],
    kind: str,
    method: str,
    rival: str,
    has_classes: bool,
    half: bool,
) -> list[str]:
    theirs = {
        one["case"]: one
        for one in (own if rival == TREE else stored)
        if one["method"] == rival and one["classes"] == has_classes
    }
    pairs = [
        (one, theirs[one["case"]])
        for one in own
        if one["method"] == method and one["classes"] == has_classes and one["case"] in theirs
        and not (half and is_tuning(one["case"])) and theirs[one["case"]]["error"] > 1e-3
    ]  # fmt: skip
    if not pairs:
        return []
    ratio = np.array([one["error"] / other["error"] for one, other in pairs])
    time_ratio = np.median([one["seconds"] / other["seconds"] for one, other in pairs])
    terms = np.median([one["terms"] for one, _ in pairs])
    errors = f"{np.exp(np.log(ratio).mean()):.3f} | {np.median(ratio):.3f} | {ratio.max():.3f}"
    return [f"| {kind} | {method} | {rival} | {len(pairs)} | {errors} | {time_ratio:.3f} | {terms:.0f} |"]


def _circumstances() -> dict[str, Any]:
    return {
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} CPUs",
        "python": platform.python_version(),
        "records": [],
    }


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:] or list(METHODS))
    print("\n".join(table(Path(sys.argv[1]))))
