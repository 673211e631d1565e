"""Neighbours: quantiles beside quantile-forest, similar rows, coverage of intervals beside MAPIE and quantile-forest.

`python -m benchmarks.neighbors` writes benchmarks/results/neighbors-<machine>.json and tables of docs/benchmarks.md;
`--quick` does so with few rows and repeats, into build/. `--gpu FOLDER` measures a GPU alone, and writes
FOLDER/neighbors.json. Needs the extra bench, beside it statsmodels and mlxtend, which ship data sets.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import silva
from benchmarks.data import FOLDER, ROOT
from benchmarks.machine import conditions, machine_name
from benchmarks.tables import between

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

RESULTS = Path(__file__).parent / "results"
QUANTILES = [0.05, 0.5, 0.95]
N_ROWS, N_FEATURES, N_TREES, TOP = 100_000, 10, 100, 10
QUANTILE_ROWS = 5_000
"""Rows that quantile-forest predicts; each costs it the same."""

COVERAGE, MOST_ROWS = 0.9, 2_000
TESTED, FEWEST, MOST = 8_000, 16, 120
"""Test rows over all splits of a data set, and the fewest and most splits."""


def made(n: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Rows, and targets whose noise differs from row to row."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES)).astype(np.float32)
    return X, X[:, 0] ** 2 + X[:, 1] + rng.normal(size=n) * (0.5 + np.abs(X[:, 2]))


def forest_settings() -> dict[str, Any]:
    return {"n_estimators": N_TREES, "min_samples_leaf": 5, "max_features": 0.5, "random_state": 0, "n_jobs": 2}


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def quantile_case(n_rows: int, n_asked: int) -> dict[str, Any]:
    """Time what each adds to growing the same random forest, and its quantiles."""
    from quantile_forest import RandomForestQuantileRegressor
    from sklearn.ensemble import RandomForestRegressor

    (X, y), (rows, _) = made(n_rows, 0), made(n_rows, 1)
    grown, model = seconds(lambda: RandomForestRegressor(**forest_settings()).fit(X, y))
    built, neighbors = seconds(lambda: silva.Neighbors(model, X, y, n_jobs=2))
    asked, found = seconds(lambda: neighbors.quantile(rows, QUANTILES))
    fitted, theirs = seconds(
        lambda: RandomForestQuantileRegressor(max_samples_leaf=None, **forest_settings()).fit(X, y)
    )
    part, expected = seconds(lambda: theirs.predict(rows[:n_asked], QUANTILES, weighted_leaves=True))
    return {
        "rows": n_rows,
        "forest": grown,
        "silva fit": built,
        "silva predict": asked,
        "quantile-forest fit": max(fitted - grown, 0.0),
        "quantile-forest predict": part * n_rows / n_asked,
        "difference": float(np.abs(found[:n_asked] - expected).max()),
    }


def top_case(kind: str, n_rows: int) -> dict[str, Any]:
    """Time the most similar of as many training rows for as many rows, in a process of its own."""
    X, y = made(n_rows, 0)
    rows, _ = made(n_rows, 1)
    model = grown(kind, X, y)
    neighbors = silva.Neighbors(model, X, n_jobs=2)
    took, _ = seconds(lambda: neighbors.kneighbors(rows, TOP))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": took,
        "MiB": peak / 1024,
        "leaves": neighbors.forest.n_leaves,
    }


def grown(kind: str, X: Any, y: Any) -> Any:
    if kind == "random forest":
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(**forest_settings()).fit(X, y)
    import xgboost

    depth = int(kind.rpartition(" ")[2])
    return xgboost.XGBRegressor(n_estimators=N_TREES, max_depth=depth, learning_rate=0.1, n_jobs=2).fit(X, y)


KINDS = ("random forest", "XGBoost, depth 6", "XGBoost, depth 10")


def sets() -> dict[str, Callable[[], tuple[Any, Any]]]:
    """Public data sets that need no network: rows and a number to predict."""
    import pandas

    def table(name: str, target: str) -> tuple[Any, Any]:
        return split(pandas.read_parquet(FOLDER / f"{name}.parquet"), target)

    def split(frame: Any, target: str) -> tuple[Any, Any]:
        frame = frame.dropna(axis=1, how="all").dropna().sample(frac=1, random_state=0)
        y = frame.pop(target).to_numpy(np.float64)
        coded = frame.apply(
            lambda column: column if column.dtype.kind in "iuf" else column.astype("category").cat.codes
        )
        return coded.to_numpy(np.float32), y

    def of_sklearn(name: str, target: str) -> tuple[Any, Any]:
        import sklearn.datasets

        return split(getattr(sklearn.datasets, f"load_{name}")(as_frame=True).frame, target)

    def of_statsmodels(name: str, target: str) -> tuple[Any, Any]:
        import statsmodels.datasets

        return split(getattr(statsmodels.datasets, name).load_pandas().data.copy(), target)

    def of_mlxtend(name: str) -> tuple[Any, Any]:
        import mlxtend.data

        X, y = getattr(mlxtend.data, name)()
        return split(pandas.DataFrame(X).assign(target=y), "target")

    def carbon_dioxide() -> tuple[Any, Any]:
        import statsmodels.datasets

        frame = statsmodels.datasets.co2.load_pandas().data
        return split(frame.assign(year=frame.index.year, day=frame.index.dayofyear), "co2")

    return {
        "California: value": lambda: table("california_housing", "MedHouseVal"),
        "Adult: age": lambda: table("adult", "age"),
        "Covertype: elevation": lambda: table("covtype", _first("covtype")),
        "Segmentation: first column": lambda: table("image_segmentation", _numeric("image_segmentation")),
        "Diabetes: progression": lambda: of_sklearn("diabetes", "target"),
        "Wine: alcohol": lambda: of_sklearn("wine", "alcohol"),
        "Breast cancer: worst area": lambda: of_sklearn("breast_cancer", "worst area"),
        "Mauna Loa: CO2": carbon_dioxide,
        "Digits: digit": lambda: of_sklearn("digits", "target"),
        "Boston: value": lambda: of_mlxtend("boston_housing_data"),
        "Auto: miles a gallon": lambda: of_mlxtend("autompg_data"),
        "Fair: affairs": lambda: of_statsmodels("fair", "affairs"),
        "RAND: visits": lambda: of_statsmodels("randhie", "mdvis"),
        "ANES 96: age": lambda: of_statsmodels("anes96", "age"),
        "Star 98: median income": lambda: of_statsmodels("star98", "PERMINTE"),
        "Engel: food": lambda: of_statsmodels("engel", "foodexp"),
        "Mode choice: cost": lambda: of_statsmodels("modechoice", "gc"),
        "Cancer: cases": lambda: of_statsmodels("cancer", "cancer"),
        "Grunfeld: investment": lambda: of_statsmodels("grunfeld", "invest"),
        "Macro: investment": lambda: of_statsmodels("macrodata", "realinv"),
    }


def _columns(name: str) -> list[tuple[str, str]]:
    import pyarrow.parquet

    return [(field.name, str(field.type)) for field in pyarrow.parquet.read_schema(FOLDER / f"{name}.parquet")]


def _first(name: str) -> str:
    return _columns(name)[0][0]


def _numeric(name: str) -> str:
    return next(column for column, kind in _columns(name) if kind in {"double", "float"})


def splits(n_rows: int) -> int:
    """Number of splits: more of small data sets."""
    return int(np.clip(TESTED // (min(n_rows, MOST_ROWS) // 4), FEWEST, MOST))


def coverage_case(X: Any, y: Any, repeats: int) -> dict[str, dict[str, float]]:
    """Share of targets inside, and mean width in standard deviations of y, over random splits; and seconds."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(repeats):
        order = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
        test, training = np.split(order, [len(order) // 4])
        for name, make in METHODS.items():
            took, ends = seconds(partial(make, X, y, training, test, seed))
            inside = (ends[:, 0] <= y[test]) & (y[test] <= ends[:, 1])
            found.setdefault(name, []).append((inside.mean(), np.diff(ends).mean() / y.std(), took))
    return {
        name: dict(zip(("coverage", "width", "seconds"), np.mean(of_name, axis=0).tolist(), strict=True))
        for name, of_name in found.items()
    }


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(60, min_samples_leaf=3, random_state=seed, n_jobs=1)


def _split(X: Any, y: Any, training: Any, test: Any, seed: int) -> Any:
    held, fitted = np.split(training, [len(training) // 3])
    model = _forest(seed).fit(X[fitted], y[fitted])
    neighbors = silva.Neighbors(model, X[fitted], y[fitted], n_jobs=1).conformalize(X[held], y[held])
    return neighbors.predict_interval(X[test], COVERAGE)


def _jackknife(X: Any, y: Any, training: Any, test: Any, seed: int) -> Any:
    model = _forest(seed).fit(X[training], y[training])
    return silva.Neighbors(model, X[training], y[training], n_jobs=1).predict_interval(X[test], COVERAGE)


def _mapie(X: Any, y: Any, training: Any, test: Any, seed: int) -> Any:
    from mapie.regression import CrossConformalRegressor

    made_by = CrossConformalRegressor(_forest(seed), confidence_level=COVERAGE, method="plus", cv=5)
    made_by.fit_conformalize(X[training], y[training])
    return made_by.predict_interval(X[test])[1][:, :, 0]


def _quantile_forest(X: Any, y: Any, training: Any, test: Any, seed: int) -> Any:
    from quantile_forest import RandomForestQuantileRegressor

    settings = _forest(seed).get_params()
    model = RandomForestQuantileRegressor(max_samples_leaf=None, **settings).fit(X[training], y[training])
    return model.predict(X[test], [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])


METHODS = {
    "silva, split": _split,
    "silva, jackknife+": _jackknife,
    "MAPIE, CV+": _mapie,
    "quantile-forest": _quantile_forest,
}


def measured_gpu(n_rows: int) -> list[dict[str, Any]]:
    """Time similar rows on a GPU; the first call compiles."""
    (X, y), (rows, _) = made(n_rows, 0), made(n_rows, 1)
    result = []
    for kind in KINDS:
        neighbors = silva.Neighbors(grown(kind, X, y), X)
        on_gpu, expected = [], neighbors.kneighbors(rows[:500], TOP)
        for _ in range(4):
            on_gpu.append(seconds(lambda n=neighbors: n.kneighbors(rows, TOP, device="cuda")))
        same = all(np.array_equal(one[:500], other) for one, other in zip(on_gpu[-1][1], expected, strict=True))
        result.append({"forest": kind, "rows": n_rows, "seconds": min(t for t, _ in on_gpu[1:]), "same": same})
    return result


def table(header: list[str], lines: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *lines))


def update(page: Path, results: dict[str, Any]) -> None:
    """Write the tables of docs/benchmarks.md."""
    about = results["conditions"]
    caption = ", ".join([about["date"], f"commit {about['commit']}", about["cpu"], f"load average {about['load']}"])
    one = results["quantiles"]
    factor = (one["quantile-forest fit"] + one["quantile-forest predict"]) / (one["silva fit"] + one["silva predict"])
    lines = [
        [name, f"{one[f'{name} fit']:.2f} s", f"{one[f'{name} predict']:.2f} s"]
        for name in ("silva", "quantile-forest")
    ]
    speed = table(["", f"index of {one['rows']:,} rows", "their quantiles"], lines)
    speed += f"\n\nTogether {factor:.1f} times as fast; largest difference {one['difference']:.0e}."
    top = [
        [
            kind,
            f"{found['leaves']:,}",
            f"{found['seconds']:.1f} s",
            f"{found['MiB']:.0f} MiB",
        ]
        for kind, found in results["top"].items()
    ]
    similar = table(["100 trees", "leaves", "time", "memory of the process"], top)
    sets_of = results["coverage"]
    rows = [
        [name, *(f"{of_set[method]['coverage']:.1%}, {of_set[method]['width']:.2f}" for method in METHODS)]
        for name, of_set in sets_of.items()
    ]
    means = ["mean"]
    for method in METHODS:
        cover, width = (np.mean([of_set[method][key] for of_set in sets_of.values()]) for key in ("coverage", "width"))
        means.append(f"{cover:.1%}, {width:.2f}")
    text = page.read_text()
    text = between(text, "neighbors speed", f"{caption}.\n\n{speed}")
    text = between(text, "neighbors top", similar)
    page.write_text(between(text, "neighbors coverage", table(["data", *METHODS], [*rows, means])))


def main() -> None:
    """Measure, and write results and tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rows and repeats, into build/")
    parser.add_argument("--gpu", type=Path, metavar="FOLDER", help="measure the GPU alone, write FOLDER/neighbors.json")
    parser.add_argument("--top", metavar="KIND", help=argparse.SUPPRESS)
    options = parser.parse_args()
    n_rows = N_ROWS // 20 if options.quick else N_ROWS
    if options.top:
        print(json.dumps(top_case(options.top, n_rows)))
        return
    if options.gpu:
        found = {"conditions": conditions(), "gpu": measured_gpu(n_rows)}
        (options.gpu / "neighbors.json").write_text(json.dumps(found, indent=1))
        print(json.dumps(found["gpu"], indent=1))
        return
    results: dict[str, Any] = {"conditions": conditions(), "top": {}, "coverage": {}}
    results["quantiles"] = quantile_case(n_rows, min(n_rows, QUANTILE_ROWS if not options.quick else 500))
    print(json.dumps(results["quantiles"], indent=1), flush=True)
    for kind in KINDS:
        command = [sys.executable, "-m", "benchmarks.neighbors", "--top", kind, *(["--quick"] * options.quick)]
        results["top"][kind] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(kind, results["top"][kind], flush=True)
    for name, load in sets().items():
        X, y = load()
        results["coverage"][name] = coverage_case(X, y, 4 if options.quick else splits(len(X)))
        shown = {m: (round(c["coverage"], 3), round(c["width"], 2)) for m, c in results["coverage"][name].items()}
        print(name, X.shape, shown, flush=True)
    folder = ROOT / "build" if options.quick else RESULTS
    (folder / f"neighbors-{machine_name()}.json").write_text(json.dumps(results, indent=1) + "\n")
    if not options.quick:
        update(ROOT / "docs" / "benchmarks.md", results)


if __name__ == "__main__":
    main()
