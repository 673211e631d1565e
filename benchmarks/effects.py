"""Effects beside scikit-learn, woodelf, PyALE and a loop; summaries of many rows; drift; trees that distill models.

`python -m benchmarks.effects` writes benchmarks/results/effects-<machine>.json and tables of libraries.md there;
`--parts curves pairs` measures some parts again and keeps the others, `--quick` takes a hundredth of the rows, into
build/. Each part takes less than five minutes on two quiet cores. Rivals that are not installed are left out.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import glasswood
from benchmarks.data import ROOT
from benchmarks.machine import conditions, machine_name
from benchmarks.responses import seconds_of
from benchmarks.tables import between

RESULTS = Path(__file__).parent / "results"
N_ROWS, N_FEATURES, GRID = 100_000, 14, 50
BATCH = 1 << 16
SIZES = (2, 4, 8, 16, 32)


def rows_and_target(n_rows: int) -> tuple[Any, Any]:
    """Friedman's function of five of 14 features, with one more product."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n_rows, N_FEATURES)).astype(np.float32)
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + 5 * X[:, 5] * X[:, 6] + rng.normal(size=n_rows)


def model_of(X: Any, y: Any) -> Any:
    """LightGBM's trees of 31 leaves."""
    import lightgbm
    import pandas

    frame = pandas.DataFrame(X[:50_000], columns=[f"f{i}" for i in range(X.shape[1])])
    return lightgbm.LGBMRegressor(n_estimators=100, num_leaves=31, n_jobs=2, verbose=-1).fit(frame, y[:50_000])


def rows_and_models(n_rows: int) -> tuple[Any, Any, Any]:
    """Rows, the forest and the model behind it."""
    X, y = rows_and_target(max(n_rows, 50_000))
    model = model_of(X, y)
    return X[:n_rows], glasswood.load(model), model


def line(name: str, own: Callable[[], Any], rivals: dict[str, tuple[Callable[[], Any], float]]) -> dict[str, Any]:
    """Measure one call beside others, which run once; each with how many times its work ours is."""
    found: dict[str, Any] = {"case": name, "glasswood": seconds_of(own, 3)}
    for rival, (call, times) in rivals.items():
        try:
            found[rival] = seconds_of(call, 1) * times
        except ImportError as error:
            print(f"{rival}: {error}")
    return found


def scikit_learn(model: Any, X: Any, features: list[int]) -> Callable[[], Any]:
    """One curve after the other, each a prediction of all rows a point."""
    from sklearn.inspection import partial_dependence

    rows = X.astype(np.float64)
    return lambda: [partial_dependence(model, rows, [f], method="brute", grid_resolution=GRID) for f in features]


def woodelf(model: Any, X: Any, points: int) -> Callable[[], Any]:
    """Curves of all features and surfaces of all pairs at quantiles."""

    def call() -> Any:
        import pandas
        from woodelf.pdp import woodelf_pdp, woodelf_pdp_joint

        frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
        return woodelf_pdp(model, frame, k=points, verbose=False), woodelf_pdp_joint(
            model, frame, k=points, verbose=False
        )

    return call


def python_ale(model: Any, X: Any, bins: int) -> Callable[[], Any]:
    """PyALE's curve of each feature."""

    def call() -> Any:
        import pandas
        from PyALE import ale

        frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
        return [ale(frame, model, [name], grid_size=bins, include_CI=False, plot=False) for name in frame.columns]

    return call


def loop_of_h(model: Any, X: Any, points: Any) -> Callable[[], Any]:
    """H of one pair by its formula: each point predicted for all rows."""

    def dependence(features: list[int]) -> Any:
        means = []
        for point in points:
            rows = X.copy()
            rows[:, features] = X[point, features]
            means.append(model.predict(rows).mean())
        return np.array(means) - np.mean(means)

    def call() -> Any:
        both, one, other = dependence([0, 1]), dependence([0]), dependence([1])
        return np.sqrt(((both - one - other) ** 2).sum() / (both**2).sum())

    return call


def measure_curves(n_rows: int) -> list[dict[str, Any]]:
    """Curves beside scikit-learn's."""
    X, forest, model = rows_and_models(n_rows)
    return [
        line(
            f"one curve, {n_rows:,} rows",
            lambda: glasswood.effects(forest, X, features=[0]),
            {"sklearn": (scikit_learn(model, X, [0]), 1)},
        ),
        line(
            f"14 curves, {n_rows:,} rows (scikit-learn: 2 of them, times 7)",
            lambda: glasswood.effects(forest, X, pairs=()),
            {"sklearn": (scikit_learn(model, X, [1, 2]), 7)},
        ),
        line(f"14 curves and 91 pairs, {n_rows:,} rows", lambda: glasswood.effects(forest, X), {}),
    ]


def measure_pairs(n_rows: int) -> list[dict[str, Any]]:
    """All curves and pairs of four times as many rows beside woodelf's."""
    X, forest, model = rows_and_models(4 * n_rows)
    name = f"14 curves and 91 pairs, {4 * n_rows:,} rows"
    return [line(name, lambda: glasswood.effects(forest, X), {"woodelf": (woodelf(model, X, GRID), 1)})]


def measure_local(n_rows: int) -> list[dict[str, Any]]:
    """ALE beside PyALE's, and H beside its formula."""
    X, forest, model = rows_and_models(n_rows)
    effects, few = glasswood.effects(forest, X), X[:2000]
    on_few, points = glasswood.effects(forest, few), np.linspace(0, len(few) - 1, 100).astype(int)
    return [
        line(
            f"ALE of 14 features, {n_rows:,} rows",
            lambda: [effects.ale(feature) for feature in range(N_FEATURES)],
            {"PyALE": (python_ale(model, X, 40), 1)},
        ),
        line(f"ALE of a pair, {n_rows:,} rows", lambda: effects.ale(0, 1, bins=20), {}),
        line(f"H of 91 pairs and 14 features, 500 of {n_rows:,} rows", effects.interactions, {}),
        line(
            f"H of a pair, 100 of {len(few):,} rows (glasswood: of all)",
            lambda: on_few.interactions(100),
            {"loop": (loop_of_h(model, few, points), 1)},
        ),
    ]


def batches(n_rows: int, resident: list[int] | None = None) -> Iterator[Any]:
    """Rows like California's, made batch by batch; notes the process's memory in MiB after each."""
    rng, rows = np.random.default_rng(0), glasswood.datasets.california()[0].to_numpy(np.float32)
    for first in range(0, n_rows, BATCH):
        batch = rows[rng.integers(len(rows), size=min(BATCH, n_rows - first))]
        yield batch * (1 + 0.01 * rng.standard_normal(batch.shape, np.float32))
        if resident is not None:
            resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20)


def measure_summary(n_rows: int) -> dict[str, Any]:
    """Summarise 200 times as many rows in one process, and compare a part of it with explaining alone."""
    explainer = glasswood.Explainer(glasswood.datasets.DATA / "california_housing.json")
    some, ratios = list(batches(10 * n_rows)), []
    explainer.summary(some[0])
    for _ in range(5):
        alone = clocks(lambda: [explainer.shap_values(batch) for batch in some])
        ratios.append(clocks(lambda: explainer.summary(some)) / alone)
    resident: list[int] = []
    started = time.perf_counter()
    summary = explainer.summary(batches(200 * n_rows, resident))
    return {
        "rows": summary.n_rows,
        "seconds": time.perf_counter() - started,
        "ratio": np.median(ratios, axis=0).tolist(),
        "ratios": np.array(ratios).tolist(),
        "MiB": [resident[len(resident) // 10], resident[-1]],
        "workers": on_workers(explainer, some),
    }


def clocks(call: Callable[[], Any]) -> Any:
    """Seconds of the processors, and by the clock."""
    before = np.array([time.process_time(), time.perf_counter()])
    call()
    return np.array([time.process_time(), time.perf_counter()]) - before


def on_workers(explainer: Any, some: list[Any]) -> dict[str, Any]:
    """Summarise by two workers of Dask, and compare with one process."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1") as cluster,
        Client(cluster) as client,
    ):
        found = sum(client.gather(client.map(explainer.summary, some)))
    alone = explainer.summary(some)
    same = np.array_equal(found.sketch, alone.sketch) and np.array_equal(found.leads, alone.leads)
    scale = alone.mean_abs
    return {
        "rows": found.n_rows,
        "same counts": same,
        "difference": float((abs(found.mean - alone.mean) / scale).max()),
    }


def measure_drift(n_rows: int) -> dict[str, Any]:
    """Move one feature of half of California's rows by a part of its deviation, each of eight in turn."""
    X, _ = glasswood.datasets.california()
    X = X[: len(X) * n_rows // N_ROWS]
    forest, rng = glasswood.load(glasswood.datasets.DATA / "california_housing.json"), np.random.default_rng(0)
    named, took = [], []
    for trial in range(20):
        a, b = np.array_split(rng.permutation(len(X)), 2)
        before, after, name = X.iloc[a], X.iloc[b].copy(), X.columns[trial % 8]
        after[name] += (0.3, -0.3, 0.5)[trial // 8] * X[name].std()
        started = time.process_time()
        found = glasswood.compare(before, after, model=forest)
        took.append(time.process_time() - started)
        named.append([name == found.strongest()[0], name == found.names[np.argmax(found.shift)]])
    by_values, by_rows = np.sum(named, axis=0).tolist()
    return {"rows": len(X), "trials": 20, "by values": by_values, "by rows": by_rows, "seconds": float(np.median(took))}


def data_of(name: str, n_rows: int) -> tuple[Any, Any]:
    """Rows and targets: frames, or Friedman's first function."""
    if name == "fried":
        from sklearn.datasets import make_friedman1

        return make_friedman1(20_000 * n_rows // N_ROWS, noise=1.0, random_state=0)
    X, y = getattr(glasswood.datasets, name)()
    texts = [column for column in X if X[column].dtype.kind not in "iuf"]
    rows = np.random.default_rng(0).permutation(len(X))[: len(X) * n_rows // N_ROWS]
    X = X.astype(dict.fromkeys(texts, "category")).iloc[rows].reset_index(drop=True)
    return X, (y == ">50K" if texts else y).to_numpy()[rows]


def teachers(is_class: bool) -> dict[str, Any]:
    """LightGBM and a neural network, not fitted."""
    import lightgbm
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    scale: Any = StandardScaler()
    if is_class:
        codes = OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")
        scale = make_column_transformer(codes, remainder=StandardScaler(), sparse_threshold=0)
    settings = {"hidden_layer_sizes": (64, 64), "early_stopping": True, "max_iter": 50, "random_state": 0}
    trees = {"n_estimators": 300, "n_jobs": 2, "verbose": -1}
    return {
        "LightGBM": (lightgbm.LGBMClassifier if is_class else lightgbm.LGBMRegressor)(**trees),
        "neural network": make_pipeline(scale, (MLPClassifier if is_class else MLPRegressor)(**settings)),
    }


def measure_distill(name: str, n_rows: int) -> dict[str, Any]:
    """Fidelity by size."""
    X, y = data_of(name, n_rows)
    result = {}
    for teacher, model in teachers(y.dtype.kind == "b").items():
        started = time.perf_counter()
        found = glasswood.distill(model.fit(X, y), X, sizes=SIZES, time_limit=100)
        curve = {key: values.tolist() for key, values in found.curve.items()}
        worst = {"rule": found.worst.rule, "share": found.worst.share, "error": found.worst.error, "of": found.error}
        result[teacher] = {"rows": len(y), "curve": curve, "worst": worst, "seconds": time.perf_counter() - started}
        print(f"{name}, {teacher}\n{found}", flush=True)
    return result


PARTS: dict[str, Any] = {
    "curves": measure_curves,
    "pairs": measure_pairs,
    "local": measure_local,
    "summary": measure_summary,
    "drift": measure_drift,
    **{f"distill {name}": partial(measure_distill, name) for name in ("california", "adult", "fried")},
}


def effects_table(results: dict[str, Any]) -> str:
    """Lines of Markdown: glasswood's effects, what others take, and the summary of many rows."""
    rivals = ["sklearn", "woodelf", "PyALE", "loop"]
    text = ["| case | glasswood | scikit-learn | woodelf | PyALE | loop |", "| --- | --- | --- | --- | --- | --- |"]
    for one in [one for part in ("curves", "pairs", "local") if part in results for one in results[part]["found"]]:
        cells = [f"{one[r]:.3g} s ({one[r] / one['glasswood']:.0f}×)" if r in one else "" for r in rivals]
        text.append(f"| {one['case']} | {one['glasswood']:.3g} s | {' | '.join(cells)} |")
    if "summary" in results:
        one = results["summary"]["found"]
        speed = f"{one['rows']:,} generated rows: {one['rows'] / one['seconds']:,.0f} rows a second"
        memory = f"{one['MiB'][0]} MiB after a tenth of the rows, {one['MiB'][1]} MiB at the end"
        processors, clock = one["ratio"]
        ratio = f"{processors:.3f} times the processors' seconds of `shap_values` alone, {clock:.3f} times the clock's"
        text.append(f"\n`Explainer.summary` of {speed}, {ratio}; {memory}.")
        two = one["workers"]
        counts = "the same counts" if two["same counts"] else "OTHER COUNTS"
        text.append(
            f"\nTwo workers of Dask give {counts} for {two['rows']:,} rows as one process, and means that differ by "
            f"{two['difference']:.0e} of the mean magnitude."
        )
    if "drift" in results:
        one = results["drift"]["found"]
        text.append(
            f"\n`glasswood.compare` of two halves of California's {one['rows']:,} rows, one feature moved by 0.3 or "
            f"0.5 of its deviation: it has the largest change of the mean prediction in {one['by values']} of "
            f"{one['trials']} trials, and the largest distance of its distributions in {one['by rows']}; "
            f"{one['seconds']:.1f} s each."
        )
    return "\n".join(text)


def distill_table(results: dict[str, Any]) -> str:
    """Lines of Markdown: fidelity by size."""
    header = ["model", *(f"{size} leaves" for size in SIZES), "time"]
    text = [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header))]
    for name in [part for part in results if part.startswith("distill")]:
        for teacher, one in results[name]["found"].items():
            curve = one["curve"]
            pairs = zip(curve["fidelity"], curve["drawn_fidelity"], strict=True)
            cells = [f"{held:.3f}, {drawn:.3f}" for held, drawn in pairs]
            label = f"{name.removeprefix('distill ')}, {teacher}, {one['rows']:,} rows"
            cells.append(f"{one['seconds']:.0f} s")
            text.append(f"| {' | '.join([label, *cells])} |")
    return "\n".join(text)


def about(results: dict[str, Any], parts: str) -> str:
    """Say when and where the latest of these parts was measured."""
    measured = [part["conditions"] for name, part in results.items() if name.startswith(tuple(parts.split()))]
    latest = max(measured, key=lambda one: str(one["date"]))
    said = ", ".join(str(latest[key]) for key in ("date", "commit", "cpu"))
    return f"{said}, load average {latest['load']}"


def main() -> None:
    """Measure, keep the readings and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to measure; default all")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows, into build/")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "X does not have valid feature names")
    path = (ROOT / "build" if options.quick else RESULTS) / f"effects-{machine_name()}.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for part in options.parts:
        found = PARTS[part](N_ROWS // 100 if options.quick else N_ROWS)
        results[part] = {"conditions": conditions(), "found": found}
        path.write_text(json.dumps(results, indent=1) + "\n")
    effects, trees = "curves pairs local summary drift", "distill"
    for name, parts, table in (("all effects", effects, effects_table), ("distill", trees, distill_table)):
        if not any(part.startswith(tuple(parts.split())) for part in results):
            continue
        print(f"{about(results, parts)}\n\n{table(results)}")
        if not options.quick:
            page = ROOT / "benchmarks" / "results" / "libraries.md"
            said = "seconds of processors" if parts == effects else "seconds by the clock"
            page.write_text(between(page.read_text(), name, f"{about(results, parts)}: {said}.\n\n{table(results)}"))


if __name__ == "__main__":
    main()
