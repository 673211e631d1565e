"""Neighbours: quantiles beside quantile-forest, similar rows, coverage of intervals beside MAPIE and quantile-forest.

`python -m benchmarks.neighbors` writes benchmarks/results/neighbors-<machine>.json and tables of libraries.md there;
`--parts quantiles top` measures some parts again and keeps the others, each in less than five minutes on two quiet
cores; `--quick` takes few rows and repeats, and writes into build/. `--gpu FOLDER` measures a GPU alone, and writes
FOLDER/neighbors.json. Needs the extra bench.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import glasswood
from benchmarks.data import FOLDER, ROOT
from benchmarks.machine import conditions, machine_name
from benchmarks.tables import between

RESULTS = Path(__file__).parent / "results"
QUANTILES = [0.05, 0.5, 0.95]
N_ROWS, N_FEATURES, N_TREES, TOP = 100_000, 10, 100, 10
QUANTILE_ROWS = 5_000
"""Rows that quantile-forest predicts; each costs it the same."""

COVERAGE, TOLERATED, MOST_ROWS = 0.9, 0.015, 2_000
SETS = 4
TESTED, FEWEST, MOST = 8_000, 16, 120
"""Test rows over all splits of a data set, and the fewest and most splits."""


def made(n: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Rows, and targets whose noise differs from row to row."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES)).astype(np.float32)
    return X, X[:, 0] ** 2 + X[:, 1] + rng.normal(size=n) * (0.5 + np.abs(X[:, 2]))


def forest_settings() -> dict[str, Any]:
    return {"n_estimators": N_TREES, "min_samples_leaf": 5, "max_features": 0.5, "random_state": 0, "n_jobs": 2}


def seconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Any]:
    start = clock()
    result = call()
    return clock() - start, result


def quantile_case(n_rows: int, n_asked: int) -> dict[str, Any]:
    """Time what each adds to growing the same random forest, and its quantiles."""
    from quantile_forest import RandomForestQuantileRegressor
    from sklearn.ensemble import RandomForestRegressor

    (X, y), (rows, _) = made(n_rows, 0), made(n_rows, 1)
    grown, model = seconds(lambda: RandomForestRegressor(**forest_settings()).fit(X, y))
    built, neighbors = seconds(lambda: glasswood.Neighbors(model, X, y, n_jobs=2))
    asked, found = seconds(lambda: neighbors.quantile(rows, QUANTILES))
    fitted, theirs = seconds(
        lambda: RandomForestQuantileRegressor(max_samples_leaf=None, **forest_settings()).fit(X, y)
    )
    part, expected = seconds(lambda: theirs.predict(rows[:n_asked], QUANTILES, weighted_leaves=True))
    return {
        "rows": n_rows,
        "forest": grown,
        "glasswood fit": built,
        "glasswood predict": asked,
        "quantile-forest fit": max(fitted - grown, 0.0),
        "quantile-forest predict": part * n_rows / n_asked,
        "difference": float(np.abs(found[:n_asked] - expected).max()),
    }


def top_case(kind: str, n_rows: int) -> dict[str, Any]:
    """Time the most similar of as many training rows for as many rows, in a process of its own."""
    X, y = made(n_rows, 0)
    rows, _ = made(n_rows, 1)
    model = grown(kind, X, y)
    neighbors = glasswood.Neighbors(model, X, n_jobs=2)
    processors, (took, _) = seconds(lambda: seconds(lambda: neighbors.kneighbors(rows, TOP)), time.process_time)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": took,
        "processors": processors,
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
    """Share of targets inside with its standard error, and mean width in standard deviations of y; and seconds.

    Splits are drawn independently from the same rows, so the standard error is that of their mean. The coverage of
    split conformal over all splits is known: `exact`, up to ties.
    """
    from joblib import Parallel, delayed

    found = Parallel(2)(delayed(one_split)(X, y, seed) for seed in range(repeats))
    result = {}
    for name in METHODS:
        readings = np.array([of_split[name] for of_split in found])
        of_method = dict(zip(("coverage", "width", "seconds"), readings.mean(axis=0).tolist(), strict=True))
        result[name] = of_method | {"error": float(readings[:, 0].std(ddof=1) / repeats**0.5)}
    n = min(len(X), MOST_ROWS)
    n_held = (n - n // 4) // 3
    result["glasswood, split"]["exact"] = float(np.ceil(COVERAGE * (n_held + 1)) / (n_held + 1))
    return result


def one_split(X: Any, y: Any, seed: int) -> dict[str, tuple[float, float, float]]:
    """Coverage, width and seconds of each method on one split."""
    order = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
    test, training = np.split(order, [len(order) // 4])
    found = {}
    for name, make in METHODS.items():
        took, ends = seconds(partial(make, X, y, training, test, seed))
        inside = (ends[:, 0] <= y[test]) & (y[test] <= ends[:, 1])
        found[name] = (float(inside.mean()), float(np.diff(ends).mean() / y.std()), took)
    return found


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(60, min_samples_leaf=3, random_state=seed, n_jobs=1)


def _split(X: Any, y: Any, training: Any, test: Any, seed: int) -> Any:
    held, fitted = np.split(training, [len(training) // 3])
    model = _forest(seed).fit(X[fitted], y[fitted])
    neighbors = glasswood.Neighbors(model, X[fitted], y[fitted], n_jobs=1).conformalize(X[held], y[held])
    return neighbors.predict_interval(X[test], COVERAGE)


def _jackknife(X: Any, y: Any, training: Any, test: Any, seed: int) -> Any:
    model = _forest(seed).fit(X[training], y[training])
    return glasswood.Neighbors(model, X[training], y[training], n_jobs=1).predict_interval(X[test], COVERAGE)


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
    "glasswood, split": _split,
    "glasswood, jackknife+": _jackknife,
    "MAPIE, CV+": _mapie,
    "quantile-forest": _quantile_forest,
}


def measured_gpu(n_rows: int) -> list[dict[str, Any]]:
    """Time similar rows on a GPU; the first call compiles."""
    (X, y), (rows, _) = made(n_rows, 0), made(n_rows, 1)
    result = []
    for kind in KINDS:
        neighbors = glasswood.Neighbors(grown(kind, X, y), X)
        on_gpu, expected = [], neighbors.kneighbors(rows[:500], TOP)
        for _ in range(4):
            with glasswood.config_context(device="cuda"):
                on_gpu.append(seconds(lambda n=neighbors: n.kneighbors(rows, TOP)))
        same = all(np.array_equal(one[:500], other) for one, other in zip(on_gpu[-1][1], expected, strict=True))
        result.append({"forest": kind, "rows": n_rows, "seconds": min(t for t, _ in on_gpu[1:]), "same": same})
    return result


def table(header: list[str], lines: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *lines))


def update(page: Path, results: dict[str, Any]) -> None:
    """Write the tables of benchmarks/results/libraries.md."""
    text = page.read_text()
    if "quantiles" in results:
        text = between(
            text, "neighbors speed", f"{about(results, 'quantiles')}.\n\n{speed_table(results['quantiles'])}"
        )
    if "top" in results:
        text = between(text, "neighbors top", f"{about(results, 'top')}.\n\n{top_table(results['top'])}")
    if any(part in results for part in COVERAGE_PARTS):
        said = about(results, next(part for part in COVERAGE_PARTS if part in results))
        text = between(text, "neighbors coverage", f"{said}.\n\n{coverage_table(results)}")
    page.write_text(text)


def about(results: dict[str, Any], part: str) -> str:
    """Say when and where a part was measured."""
    measured = results[part]["conditions"]
    said = [measured["date"], f"commit {measured['commit']}", measured["cpu"], f"load average {measured['load']}"]
    return ", ".join(said)


def speed_table(part: dict[str, Any]) -> str:
    """Quantiles beside quantile-forest."""
    one = part["found"]
    factor = (one["quantile-forest fit"] + one["quantile-forest predict"]) / (
        one["glasswood fit"] + one["glasswood predict"]
    )
    lines = [
        [name, f"{one[f'{name} fit']:.2f} s", f"{one[f'{name} predict']:.2f} s"]
        for name in ("glasswood", "quantile-forest")
    ]
    said = f"Together {factor:.1f} times as fast; largest difference {one['difference']:.0e}."
    header = ["", f"index of {one['rows']:,} rows", "their quantiles"]
    return f"{table(header, lines)}\n\n{said}"


def top_table(part: dict[str, Any]) -> str:
    """Similar rows."""
    lines = [
        [
            kind,
            f"{found['leaves']:,}",
            f"{found['seconds']:.1f} s",
            f"{found['processors']:.1f} s",
            f"{found['MiB']:.0f} MiB",
        ]
        for kind, found in part["found"].items()
    ]
    return table(["100 trees", "leaves", "time", "of processors", "memory of the process"], lines)


def coverage_table(results: dict[str, Any]) -> str:
    """Coverage with its standard error and width of each set and method, and their means."""
    of_sets = {name: one for part in COVERAGE_PARTS if part in results for name, one in results[part]["found"].items()}
    rows = []
    for name, of_set in of_sets.items():
        cells = [f"{one['coverage']:.1%} ± {one['error']:.1%}, {one['width']:.2f}" for one in of_set.values()]
        rows.append([name, f"{of_set['glasswood, split']['exact']:.1%}", *cells])
    means = ["mean", ""]
    for method in METHODS:
        cover, width = (np.mean([of_set[method][key] for of_set in of_sets.values()]) for key in ("coverage", "width"))
        within = sum(abs(of_set[method]["coverage"] - COVERAGE) <= TOLERATED for of_set in of_sets.values())
        means.append(f"{cover:.1%}, {width:.2f}; {within} of {len(of_sets)} within {TOLERATED:.1%}")
    return table(["data", "exact, split", *METHODS], [*rows, means])


def measured_top(n_rows: int) -> dict[str, Any]:
    """Similar rows, in processes of their own."""
    quick = ["--quick"] * (n_rows < N_ROWS)
    result = {}
    for kind in KINDS:
        command = [sys.executable, "-m", "benchmarks.neighbors", "--top", kind, *quick]
        result[kind] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(kind, result[kind], flush=True)
    return result


def measured_coverage(part: int, n_rows: int) -> dict[str, Any]:
    """Coverage on some of the data sets."""
    result = {}
    for name, load in list(sets().items())[part * SETS : (part + 1) * SETS]:
        X, y = load()
        result[name] = coverage_case(X, y, 4 if n_rows < N_ROWS else splits(len(X)))
        shown = {m: (round(c["coverage"], 3), round(c["width"], 2)) for m, c in result[name].items()}
        print(name, X.shape, shown, flush=True)
    return result


COVERAGE_PARTS = tuple(f"coverage {n}" for n in range(1, 6))
PARTS: dict[str, Any] = {
    "quantiles": lambda n_rows: quantile_case(n_rows, min(n_rows // 10, QUANTILE_ROWS)),
    "top": measured_top,
    **{name: partial(measured_coverage, n) for n, name in enumerate(COVERAGE_PARTS)},
}


def main() -> None:
    """Measure, and write results and tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to measure; default all")
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
    path = (ROOT / "build" if options.quick else RESULTS) / f"neighbors-{machine_name()}.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for part in options.parts:
        results[part] = {"conditions": conditions(), "found": PARTS[part](n_rows)}
        print(json.dumps(results[part]["found"], indent=1), flush=True)
        path.write_text(json.dumps(results, indent=1) + "\n")
    if options.quick:
        print(coverage_table(results) if any(part in results for part in COVERAGE_PARTS) else "")
    else:
        update(ROOT / "benchmarks" / "results" / "libraries.md", results)


if __name__ == "__main__":
    main()
