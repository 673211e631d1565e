"""Results of the pool: files of fits, and tables of what methods are beside the first one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pool.methods import METHODS, OURS, REGRESSIONS, version
from benchmarks.pool.sets import has_classes, is_tuning
from benchmarks.tables import between

RECORD = Path(__file__).parents[1] / "results" / "pool.json"
"""The tables of the page, as rows."""

FITS = RECORD.with_name("pool-fits.json")
"""Fits of methods that do not change with glasswood."""

FEW = 300
"""Training rows below which a set is small."""

NAMES = ("case", "kind", "method", "most_rows")
"""What all fits of a set and method have in common."""

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
    """Results of all files of a folder, of one more, and of the record."""
    files = {*folder.glob("*.json"), *([store] if store and store.exists() else [])}
    found = recorded() + [one for file in sorted(files) for one in json.loads(file.read_text())]
    return list({key(one): one for one in found}.values())


def recorded() -> list[dict[str, Any]]:
    """Fits of the record: errors depend on a method's version and the split, not on the machine."""
    record = json.loads(FITS.read_text()) if FITS.exists() else {"rows": 0, "methods": {}}
    return [
        {
            **dict(zip(NAMES, (case, kind, method, record["rows"]), strict=True)),
            **dict(zip(columns, values, strict=True)),
        }
        for method, about in record["methods"].items()
        for case, columns in about["sets"].items()
        for kind in ("classes" if has_classes(case) else "regression",)
        for values in zip(*columns.values(), strict=True)
    ]


def is_lasting(method: str) -> bool:
    """Whether fits stay what they are as glasswood changes: those of others, and of glasswood "at" a commit."""
    return (method in METHODS and method not in OURS) or " at " in method


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


def lines(kind: str, rows: list[dict[str, Any]]) -> list[str]:
    """Summaries of a half as a table."""
    columns = REGRESSION if kind == "regression" else CLASSES
    heads = ("sets", "method", *columns, "s")
    found = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for one in rows:
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
        print(f"\n{part.half}, {part.kind}\n" + "\n".join(lines(part.kind, summaries(part))))
        for name in next(iter(part.methods.values())) if every else ():
            ones = {method: table[name] for method, table in part.methods.items() if name in table}
            cells = [f"{m} {one['ratio']:.3f} ({one['leaves']:.1f}, {one['terms']:.1f})" for m, one in ones.items()]
            print(f"{name[:16]:16} {int(next(iter(ones.values()))['rows']):6} {'; '.join(cells)}")


def record(
    parts: list[Part], found: list[dict[str, Any]], conditions: dict[str, Any], kept: list[str], name: str = "pool"
) -> None:
    """Write rows, lasting fits and the page's tables; rows of methods in `kept` stay as an earlier record has them.

    `name` is that of the file and of the place in the page.
    """
    file = RECORD.with_stem(name)
    before = json.loads(file.read_text()) if kept else {"conditions": {}, "parts": []}
    stays = [{"commit": before["conditions"]["commit"], **row} for row in before["parts"] if row["method"] in kept]
    rows, texts = list[dict[str, Any]](), list[str]()
    for part in parts:
        own = summaries(part) + [row for row in stays if (row["half"], row["kind"]) == (part.half, part.kind)]
        own.sort(key=lambda row: row["sets"] != "all")
        rows += own
        texts.append(f"{part.half.capitalize()} half, {part.kind}:\n\n" + "\n".join(lines(part.kind, own)))
    file.write_text(json.dumps({"conditions": conditions, "parts": rows}, indent=1) + "\n")
    write_fits(found, conditions["rows"])
    page = RECORD.parent / "grow.md"
    page.write_text(between(page.read_text(), name, "\n\n".join(texts)))


def _version(method: str, before: dict[str, Any]) -> str:
    """Version of a method here; of one whose package is elsewhere, as an earlier record has it."""
    try:
        return version(method)
    except metadata.PackageNotFoundError:
        return str(before[method]["version"])


def write_fits(found: list[dict[str, Any]], most_rows: int) -> None:
    """Write lasting fits by method and set, each measure as a list; versions of what is not installed stay."""
    before: dict[str, Any] = json.loads(FITS.read_text())["methods"] if FITS.exists() else {}
    about: dict[str, Any] = {}
    for one in sorted(found, key=lambda one: (one["method"], one["case"], one["split"])):
        if "error" in one and one["most_rows"] == most_rows and is_lasting(one["method"]):
            method = about.setdefault(one["method"], {"version": _version(one["method"], before), "sets": {}})
            columns = method["sets"].setdefault(one["case"], {name: [] for name in one if name not in NAMES})
            for name, values in columns.items():
                values.append(float(f"{one[name]:.6g}") if isinstance(one[name], float) else one[name])
    lines = [
        f'{json.dumps(method)}: {{"version": {json.dumps(of["version"])}, "sets": {{\n'
        + ",\n".join(f"{json.dumps(case)}: {json.dumps(columns)}" for case, columns in of["sets"].items())
        + "\n}}"
        for method, of in about.items()
    ]
    FITS.write_text(f'{{"rows": {most_rows}, "methods": {{\n' + ",\n".join(lines) + "\n}}\n")
