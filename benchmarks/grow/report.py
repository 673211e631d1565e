"""Tables of results/grow.md and pictures from a result file: `python -m benchmarks.grow.report RESULT PAGE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

Records = list[dict[str, Any]]
KNOWN = 1000
"""Seed of the known trees that rivals see."""
KNOWN_TREES = ("recovery", "random_trees", "hard_trees")
PUBLIC = ("public_sets", "public_smoothed", "public_boosting", "public_before", "public_rivals", "public_ebm")
CLASSES = ("public_classes", "classes_ebm")
IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
NAMES = {"ModelTreeRegressor": "glasswood, one tree", "ModelTreeEnsembleRegressor": "glasswood, five trees"}
LEFT, BESIDE, BELOW = {"xytext": (-5, 4), "ha": "right"}, {"xytext": (5, 4)}, {"xytext": (5, -10)}
LABELS: dict[str, dict[str, Any]] = {
    'glasswood, one tree, smoothing="auto"': BELOW,
    "glasswood, five trees": {"xytext": (-5, -12), "ha": "right"},
    "glasswood, three boosted sequences": LEFT,
    "LightGBM": LEFT,
}
"""Where labels of the picture stand so that none hides another."""

MIDDLES = {"geometric mean": lambda values: np.exp(np.mean(np.log(values))), "median": np.median}
START, END = "<!-- {} -->", "<!-- end of {} -->"


def known_trees(results: dict[str, Any]) -> str:
    """How often the true size and the true error are found."""
    lines = ["| case | fits | true leaves | within 1 | error <= 1.05 of the truth | median s | median CPU s | most s |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    records = [r for section in KNOWN_TREES for r in results.get(section, {}).get("records", [])]
    for case in dict.fromkeys(r["case"] for r in records):
        fits = [r for r in records if r["case"] == case]
        off = np.array([abs(r["leaves"] - r["truth"][1]) for r in fits])
        near = sum(r["rmse"] <= 1.05 * r["truth"][0] for r in fits)
        seconds, cpu = (np.array([r[name] for r in fits]) for name in ("seconds", "cpu_seconds"))
        lines.append(
            f"| {case} | {len(fits)} | {(off == 0).sum()} | {(off <= 1).sum()} | {near} | {np.median(seconds):.1f} | "
            f"{np.median(cpu):.1f} | {seconds.max():.1f} |"
        )
    return "\n".join(lines)


def accuracy(results: dict[str, Any]) -> str:
    """RMSE / leaves / processor seconds of all methods (of M5P, another process, wall time); means over seeds."""
    records = [
        r
        for section in ("known_rivals", "accuracy", "accuracy_rivals")
        for r in results.get(section, {}).get("records", [])
    ]
    records += [r for r in results.get("recovery", {}).get("records", []) if r["seed"] == KNOWN and "+ 0" in r["case"]]
    cases, methods = (list(dict.fromkeys(r[name] for r in records)) for name in ("case", "method"))
    methods.sort(key=lambda method: method != "glasswood")
    lines = ["| | " + " | ".join(cases) + " |", "|---" * (len(cases) + 1) + "|"]
    for method in methods:
        cells = [_cell([r for r in records if (r["case"], r["method"]) == (case, method)]) for case in cases]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(records: Records) -> str:
    good = [r for r in records if "rmse" in r]
    if not good:
        return "failed" if records else ""
    clock = "seconds" if good[0]["method"] == "M5P" else "cpu_seconds"
    error, leaves, seconds = (np.mean([r[name] for r in good]) for name in ("rmse", "leaves", clock))
    return f"{error:.4g} / {leaves:.3g} / {seconds:.2g}"


def leaves_of_elevation(results: dict[str, Any]) -> str:
    """Test error, leaves and processor seconds by method and size."""
    records = results.get("leaves_of_elevation", {}).get("records", [])
    sizes, methods = (list(dict.fromkeys(r[name] for r in records)) for name in ("asked", "method"))
    found = {(r["method"], r["asked"]): r for r in records if "rmse" in r}
    lines = ["| | " + " | ".join(f"{size} leaves" for size in sizes) + " |", "|---" * (len(sizes) + 1) + "|"]
    for method in methods:
        fits = [found.get((method, size)) for size in sizes]
        cells = ["-" if r is None else f"{r['rmse']:.1f} / {r['leaves']} / {r['seconds']:.0f}" for r in fits]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def public_sets(results: dict[str, Any]) -> str:
    """Test error of methods in units of that of glasswood's tree, and leaves; means, wins and losses over the sets."""
    records = [r for section in PUBLIC for r in results.get(section, {}).get("records", [])]
    return compared([{**r, "method": NAMES.get(r["method"], r["method"])} for r in records], "rmse")


def public_classes(results: dict[str, Any]) -> str:
    """The same of log-loss on sets of classes; the median over sets, since a log-loss may be next to 0."""
    records = [r for section in CLASSES for r in results.get(section, {}).get("records", [])]
    return compared(records, "log_loss", "median")


def compared(records: Records, loss: str, middle: str = "geometric mean") -> str:
    """A row a set, a column a method: loss in units of the first method's, and leaves."""
    names, methods = (list(dict.fromkeys(r[name] for r in records)) for name in ("case", "method"))
    found = {(r["case"], r["method"]): r for r in records if loss in r}
    ratios = {
        method: {
            name: found[name, method][loss] / found[name, methods[0]][loss] for name in names if (name, method) in found
        }
        for method in methods
    }
    lines = ["| | " + " | ".join(methods) + " |", "|---" * (len(methods) + 1) + "|"]
    for name in names:
        cells = [
            f"{ratios[method][name]:.3f} / {found[name, method]['leaves']}" if name in ratios[method] else "-"
            for method in methods
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    rows = {
        middle: lambda m: f"{MIDDLES[middle](list(ratios[m].values())):.3f}",
        "sets better / worse": lambda m: (
            f"{sum(r < 1 for r in ratios[m].values())} / {sum(r > 1 for r in ratios[m].values())}"
        ),
        "leaves, median": lambda m: f"{np.median([found[n, m]['leaves'] for n in ratios[m]]):.0f}",
        "processor seconds, median": lambda m: f"{np.median([found[n, m]['seconds'] for n in ratios[m]]):.2g}",
    }
    for label, cell in rows.items():
        cells = [cell(method) if len(ratios[method]) == len(names) else "-" for method in methods]
        lines.append(f"| **{label}** | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def public_picture(results: dict[str, Any], path: Path) -> None:
    """Mean test error of every method over how many leaves, rules or terms it needs."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    records = [r for section in PUBLIC for r in results.get(section, {}).get("records", [])]
    own = {r["case"]: r["rmse"] for r in records if r["method"] == "ModelTreeRegressor"}
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for method in dict.fromkeys(r["method"] for r in records):
        fits = [r for r in records if r["method"] == method and "rmse" in r]
        if len(fits) < len(own):
            continue
        error = np.exp(np.mean([np.log(r["rmse"] / own[r["case"]]) for r in fits]))
        size = np.exp(np.mean([np.log(r["leaves"]) for r in fits]))
        name = NAMES.get(method, method)
        ax.plot(size, error, "o" if name.startswith("glasswood") else "s")
        ax.annotate(name, (size, error), textcoords="offset points", fontsize=8, **LABELS.get(name, BESIDE))
    ax.axhline(1, color="grey", linewidth=0.5)
    ax.set(xscale="log", xlabel="leaves, rules or terms (geometric mean)", ylabel="test error, glasswood's tree = 1")
    figure.savefig(path, dpi=110)


def speed(results: dict[str, Any]) -> str:
    """Seconds of generations."""
    lines = ["| training rows | what | s | CPU s |", "|---|---|---|---|"]
    for r in [r for section in ("speed", "speed_100k") for r in results.get(section, {}).get("records", [])]:
        lines.append(f"| {r['n_rows']:,} | {r['what']} | {r['seconds']:.1f} | {r['cpu_seconds']:.1f} |")
    return "\n".join(lines)


def picture(results: dict[str, Any], path: Path) -> None:
    """Error over leaves, glasswood's curve and the rivals' points."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    curve = results.get("curve", {}).get("records", [])
    cases = list(dict.fromkeys(r["case"] for r in curve))
    if not cases:
        return
    figure, axes = plt.subplots(1, len(cases), figsize=(4.2 * len(cases), 3.6), layout="constrained", squeeze=False)
    for ax, case in zip(axes[0], cases, strict=True):
        own = [r for r in curve if r["case"] == case]
        ax.plot([r["leaves"] for r in own], [r["rmse"] for r in own], "o-", label="glasswood")
        for r in results.get("accuracy_rivals", {}).get("records", []):
            if r["case"] == case and r["method"] != "glasswood" and "rmse" in r:
                ax.plot(r["leaves"], r["rmse"], "s", label=r["method"])
        ax.set(title=case, xlabel="leaves or rules", xscale="log", yscale="log")
        ax.legend(fontsize=7)
    axes[0][0].set_ylabel("test error (RMSE)")
    figure.savefig(path, dpi=110)


def put_tables(page: Path, tables: dict[str, str]) -> None:
    """Replace what stands between the marks of each table."""
    text = page.read_text()
    for name, table in tables.items():
        start, end = START.format(name), END.format(name)
        before, found, rest = text.partition(start)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"{page} has no marks {start} and {end}; add them where the table belongs")
        text = f"{before}{start}\n{table}\n{end}{after}"
    page.write_text(text)


def main() -> None:
    """Put the tables between their marks and draw the picture."""
    results = json.loads(Path(sys.argv[1]).read_text())
    page = Path(sys.argv[2])
    tables = (known_trees, accuracy, speed, leaves_of_elevation, public_sets, public_classes)
    put_tables(page, {table.__name__: table(results) for table in tables})
    picture(results, IMAGES / "grow-curve.png")
    public_picture(results, IMAGES / "grow-public.png")


if __name__ == "__main__":
    main()
