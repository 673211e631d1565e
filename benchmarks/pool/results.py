"""Results of the pool: files of fits, and tables of what methods are beside the first one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.pool.methods import REGRESSIONS
from benchmarks.pool.sets import has_classes, is_tuning
from benchmarks.tables import between

if TYPE_CHECKING:
    from collections.abc import Iterable

FEW = 300
"""Training rows below which a set is small."""

MEANS = ("error", "leaves", "terms", "most", "held", "auc", "calibration", "seconds")
"""What is averaged over splits."""

RIGHT = (0.88, 0.92)
"""Shares of rows that intervals of 90 % are to hold."""

COLUMNS = {
    "splits": "{splits:.1f}",
    "mean": "{mean:.3f}",
    "median": "{median:.3f}",
    "worst": "{worst:.2f}",
    "lower": "{lower}",
    "higher": "{higher}",
    "leaves": "{leaves:.1f}",
    "terms": "{terms:.1f}",
}
REGRESSION = {**COLUMNS, "intervals hold": "{held:.1f} %", "88 to 92 % on": "{n_right} of {n_sets}"}
CLASSES = {**COLUMNS, "AUC": "{auc:.4f}", "calibration error": "{calibration:.4f}"}


@dataclass(frozen=True)
class Part:
    """Sets of one half and kind: by method and set, means over the splits and the ratio to the first method's error."""

    half: str
    kind: str
    methods: dict[str, dict[str, dict[str, float]]]


def read(folder: Path, store: Path | None = None) -> list[dict[str, Any]]:
    """Results of all files of a folder, and of one more."""
    files = {*folder.glob("*.json"), *([store] if store and store.exists() else [])}
    found = [one for file in sorted(files) for one in json.loads(file.read_text())]
    return list({key(one): one for one in found}.values())


def key(one: dict[str, Any]) -> tuple[Any, ...]:
    """What tells a fit from others."""
    return one["case"], one["split"], one["method"], one["most_rows"]


def parts(found: list[dict[str, Any]], names: Iterable[str], methods: list[str], n_splits: int) -> list[Part]:
    """Means over the splits that a method has in common with the first one."""
    found = [one for one in found if one["kind"] == "regression" or one["method"] not in REGRESSIONS]
    for one in found:
        if "failure" in one and one["method"] in methods:
            print(f"failed: {one['case']}, split {one['split']}, {one['method']}: {one['failure']}")
    by_key = {(one["case"], one["split"], one["method"]): one for one in found if "error" in one}
    result = []
    for half in ("tuning", "reporting"):
        for kind in ("regression", "classes"):
            cases = sorted(
                n for n in names if is_tuning(n) == (half == "tuning") and has_classes(n) == (kind[0] == "c")
            )
            table = {method: _of_method(by_key, cases, methods[0], method, n_splits) for method in methods}
            if table[methods[0]]:
                result.append(Part(half, kind, {method: of_sets for method, of_sets in table.items() if of_sets}))
    return result


def _of_method(
    by_key: dict[Any, dict[str, Any]], cases: list[str], first: str, method: str, n_splits: int
) -> dict[str, dict[str, float]]:
    table = {}
    for name in cases:
        splits = [s for s in range(n_splits) if (name, s, first) in by_key and (name, s, method) in by_key]
        if splits:
            ones = [by_key[name, s, method] for s in splits]
            means = {measure: float(np.mean([one.get(measure, np.nan) for one in ones])) for measure in MEANS}
            base = np.mean([by_key[name, s, first]["error"] for s in splits])
            ratio = means["error"] / float(base)
            table[name] = {**means, "splits": len(splits), "rows": ones[0]["rows"], "ratio": ratio}
    return table


def summaries(part: Part) -> list[dict[str, Any]]:
    """Of each method, over all sets and over those that are not small."""
    result = []
    for label, least in (("all", 0), (f"{FEW} rows and more", FEW)):
        for method, table in part.methods.items():
            of_sets = [means for means in table.values() if means["rows"] >= least]
            if of_sets:
                result.append(
                    {"half": part.half, "kind": part.kind, "sets": label, "method": method, **_summary(of_sets)}
                )
    return result


def _summary(of_sets: list[dict[str, float]]) -> dict[str, Any]:
    """Geometric mean and median of the ratios, medians of what there is to read."""
    columns = {name: np.array([means[name] for means in of_sets]) for name in of_sets[0]}
    ratios, held = columns["ratio"], columns["held"]
    medians = {
        name: float(np.median(columns[name])) for name in MEANS if name != "error" and np.isfinite(columns[name]).all()
    }
    if "held" in medians:
        medians["held"] *= 100
    return {
        "n_sets": len(ratios),
        "splits": float(columns["splits"].mean()),
        "mean": float(np.exp(np.log(ratios).mean())),
        "median": float(np.median(ratios)),
        "worst": float(ratios.max()),
        "lower": int((ratios < 0.999).sum()),
        "higher": int((ratios > 1.001).sum()),
        "n_right": int(((held >= RIGHT[0]) & (held <= RIGHT[1])).sum()),
        **medians,
    }


def lines(part: Part) -> list[str]:
    """A part as a table."""
    columns = REGRESSION if part.kind == "regression" else CLASSES
    heads = ("sets", "method", *columns, "s")
    found = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for one in summaries(part):
        sets = f"{one['n_sets']}" + f" of {one['sets']}" * (one["sets"] != "all")
        cells = [_cell(text, one) for text in (*columns.values(), "{seconds:.1f}")]
        found.append(f"| {sets} | {one['method']} | {' | '.join(cells)} |")
    return found


def _cell(text: str, one: dict[str, Any]) -> str:
    """A number, empty where a method has none."""
    if "n_right" in text and "held" not in one:
        return ""
    try:
        return text.format(**one)
    except KeyError:
        return ""


def show(found: list[Part], every: bool) -> None:
    """Print the tables, and every set on request."""
    for part in found:
        print(f"\n{part.half}, {part.kind}\n" + "\n".join(lines(part)))
        for name in next(iter(part.methods.values())) if every else ():
            ones = {method: table[name] for method, table in part.methods.items() if name in table}
            cells = [f"{m} {one['ratio']:.3f} ({one['leaves']:.1f}, {one['terms']:.1f})" for m, one in ones.items()]
            print(f"{name[:16]:16} {int(next(iter(ones.values()))['rows']):6} {'; '.join(cells)}")


def record(found: list[Part], conditions: dict[str, Any]) -> None:
    """Write benchmarks/results/pool.json, and the tables to the page."""
    path = Path(__file__).parents[1] / "results" / "pool.json"
    of_parts = [one for part in found for one in summaries(part)]
    path.write_text(json.dumps({"conditions": conditions, "parts": of_parts}, indent=1) + "\n")
    text = "\n\n".join(f"{part.half.capitalize()} half, {part.kind}:\n\n" + "\n".join(lines(part)) for part in found)
    page = path.parents[2] / "docs" / "benchmarks" / "grow.md"
    page.write_text(between(page.read_text(), "pool", text))
