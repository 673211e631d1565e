"""Draw docs/images/benchmarks.svg, the README's chart, from benchmarks/results: `python -m benchmarks.chart`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import NamedTuple

import matplotlib

RESULTS = Path(__file__).parent / "results"
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "benchmarks.svg"
CPU = "amd-epyc-2-cores.json"
CALIFORNIA = "california_housing, 100 × depth 8"
GROWN = ("california", "fried")
RULES = ("Cubist", "PILOT")


class Bar(NamedTuple):
    """A rival in a job: how many times glasswood's time, or error, and by what."""

    job: str
    rival: str
    factor: float
    machine: str


def read(name: str) -> dict:
    """A file of results."""
    return json.loads((RESULTS / name).read_text())


def of_cpu(name: str, group: str, case: str, rival: str, job: str) -> Bar:
    """A rival's median over glasswood's, of one case of `make bench`."""
    results = read(name)[group]
    medians, conditions = results["cases"][case]["medians"], results["conditions"]
    cores = f"{conditions['cpu'].split(' Processor')[0]}, {conditions['cores']} cores, {conditions['date'][:10]}"
    return Bar(job, rival, medians[rival] / medians["glasswood"], cores.replace("(R)", ""))


def of_gpu() -> list[Bar]:
    """An H200: values beside XGBoost there and the paper's V100, predictions beside nvForest."""
    results = read("cuda_h200.json")
    model = results["models"]["cal_housing-med"]
    seconds, gpu = model["values"]["seconds"], results["machines"]["tables_med"]["gpu"]
    paper = model["paper"]["values_s"] / seconds["glasswood"]
    batches = read("evaluate_h200.json")["results"]
    nvforest = statistics.median(batch["nvforest"] / batch["glasswood"] for batch in batches)
    return [
        Bar("SHAP values, 10,000 rows", "XGBoost", seconds["XGBoost"] / seconds["glasswood"], gpu),
        Bar("SHAP values, 10,000 rows", "GPUTreeShap, paper (V100)", paper, gpu),
        Bar("predictions, 100 and 1,000 trees, median", "nvForest", nvforest, gpu),
    ]


def times() -> list[Bar]:
    """Bars of the left panel."""
    values, pairs = f"{CALIFORNIA}, values, 20000 rows, 2 threads", f"{CALIFORNIA}, interactions, 1000 rows, 2 threads"
    against = f"{CALIFORNIA}, {{}} background rows, background values, {{}} rows, 1 threads"
    trees = "xgboost: synthetic, 1000 × depth 8, margin, 100000 rows, 2 threads"
    people = "{}: adult with categories, 100 × depth {}, {}, {} rows, 2 threads"
    return [
        of_cpu(CPU, "values", values, "XGBoost", "SHAP values, 20,000 rows"),
        of_cpu(CPU, "interactions", pairs, "XGBoost", "interactions, 1,000 rows"),
        of_cpu(CPU, "background", against.format(100, 200), "shap", "100 background rows, 200 rows"),
        of_cpu(CPU, "background", against.format("10,000", 10000), "woodelf", "10,000 background rows, 10,000 rows"),
        of_cpu(CPU, "prediction", trees, "XGBoost", "predictions, 1,000 trees"),
        *(
            of_cpu(
                CPU, "categories", people.format(rival.lower(), depth, task, n_rows), rival, f"{job} with categories"
            )
            for task, n_rows, job, rivals in (
                ("margin", 20_000, "predictions, frame", {"LightGBM": 8, "XGBoost": 8, "CatBoost": 6}),
                ("values", 2000, "SHAP values, frame", {"LightGBM": 8, "XGBoost": 8}),
            )
            for rival, depth in rivals.items()
        ),
        *of_gpu(),
    ]


def errors() -> list[Bar]:
    """Bars of the right panel: errors of grown trees on held-out rows, where one equation is not enough."""
    results, bars = read("grow.json"), []
    own = {record["case"]: record for record in results["accuracy"]["records"] if record["method"] == "glasswood"}
    for case in GROWN:
        for record in results["accuracy_rivals"]["records"]:
            if record["case"] == case and record["method"] in RULES:
                factor = record["rmse"] / own[case]["rmse"]
                sizes = f"{record['leaves']:,} leaves; glasswood {own[case]['leaves']}"
                bars.append(Bar(case, record["method"], factor, sizes))
    return bars


def label_of(bar: Bar) -> str:
    """What stands behind a bar."""
    digits = 0 if bar.factor >= 10 else 2 if bar.job in GROWN else 1
    return f"{bar.factor:.{digits}f}×   {bar.machine}"


def draw(axes: matplotlib.axes.Axes, bars: list[Bar], title: str, log: bool) -> None:
    """Draw bars below each other, with their factors."""
    labels = [f"{bar.rival}\n{bar.job}" if bar.job else bar.rival for bar in bars]
    places = range(len(bars))
    start = 1.0 if log else 0.0
    axes.barh(places, [bar.factor - start for bar in bars], left=start, color="#1f5fbf", height=0.55)
    axes.set_yticks(places, labels, fontsize=8)
    axes.invert_yaxis()
    for place, bar in zip(places, bars, strict=True):
        axes.text(bar.factor * (1.08 if log else 1.01), place, label_of(bar), va="center", fontsize=7)
    if log:
        axes.set_xscale("log")
        axes.set_xlim(1, 40_000)
        axes.set_xticks([1, 10, 100, 1000], ["glasswood", "10×", "100×", "1000×"], fontsize=8)
    else:
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set_xlim(0, max(bar.factor for bar in bars) * 1.6)
        axes.set_xticks([0, 1], ["0", "glasswood"], fontsize=8)
    axes.set_title(title, fontsize=9.5, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Write the picture."""
    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "glasswood"
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 5.6), width_ratios=(1.5, 1), layout="constrained")
    draw(left, times(), "Time: how many times as long others take", log=True)
    draw(right, errors(), "Error on held-out rows of grown trees, times glasswood's", log=False)
    figure.savefig(PICTURE, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
