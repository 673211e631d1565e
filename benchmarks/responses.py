"""Exact values of probabilities: their time beside sums over all coalitions and shap, how far rescaling is off, and
estimates of many features beside shap's.

`python -m benchmarks.responses` writes benchmarks/results/responses-<machine>.json and tables of libraries.md there;
`--parts estimates rules` measures some parts again and keeps the others. `python -m benchmarks.responses --gpu FOLDER`
measures the GPU and writes FOLDER/responses.json. Seconds are those of processors, over both threads, but for the GPU:
other work on the machine changes them less than the clock's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import glasswood
from benchmarks.data import ROOT, read
from benchmarks.machine import conditions, machine_name
from benchmarks.tables import between
from glasswood.explain.responses import permutations
from glasswood.plans import plan_of

RESULTS = Path(__file__).parent / "results"
N_TREES, DEPTH, RUNS = 100, 8, 3
BRUTE_ROWS, SHAP_ROWS = 2, 3
GPU_CASES = (("california_housing", 10_000, 100), ("adult", 10_000, 100), ("california_housing", 100_000, 1_000))


def classifier(name: str, depth: int = DEPTH) -> tuple[Any, Any]:
    """XGBoost's classifier of a data set, and its rows; of numbers, whether they are above the median."""
    import xgboost

    rows, target = rows_and_classes(name)
    settings = {"n_estimators": N_TREES, "max_depth": depth, "learning_rate": 0.1, "n_jobs": 2}
    n_classes = len(np.unique(target))
    if n_classes > 2:
        settings["n_estimators"] = N_TREES // 4
    return xgboost.XGBClassifier(**settings).fit(rows[:20_000], target[:20_000]), rows


def rows_and_classes(name: str) -> tuple[Any, Any]:
    """Rows and classes; "name/class" is a class against all others."""
    name, _, one = name.partition("/")
    if name == "wine":
        from sklearn.datasets import load_wine

        found, order = load_wine(), np.random.default_rng(0).permutation(178)
        rows, target = found.data[order].astype(np.float32), found.target[order]
    else:
        rows, target = read(name).rows, read(name).target
    if target.dtype.kind == "f":
        target = target > np.median(target)
    return rows, (target == int(one) if one else target).astype(int)


def seconds_of(call: Callable[[], Any], runs: int = RUNS, clock: Callable[[], float] = time.process_time) -> float:
    """Median of some runs."""
    found = []
    for _ in range(runs):
        start = clock()
        call()
        found.append(clock() - start)
    return float(np.median(found))


def brute_force(model: Any, rows: Any, background: Any) -> Any:
    """Values (n, F, k) by sums over all coalitions, by the predictor of glasswood that is the fastest."""
    forest, n = glasswood.load(model), rows.shape[1]
    member = np.arange(2**n)[:, None] >> np.arange(n) & 1 == 1
    size = member.sum(axis=1)
    result = []
    for row in rows:
        hybrids = np.where(member[:, None], row, background).reshape(-1, n)
        p = np.asarray(forest.predict(hybrids, output="probability"), np.float64)
        v = p.reshape(len(member), len(background), -1).mean(axis=1)
        weight = np.array([1 / (n * math.comb(n - 1, s)) for s in range(n)])
        phi = [
            (weight[size[~member[:, j]], None] * (v[np.flatnonzero(~member[:, j]) | 1 << j] - v[~member[:, j]])).sum(0)
            for j in range(n)
        ]
        result.append(phi)
    return np.array(result)


def last_class(values: Any) -> Any:
    """Values of the last class, of shap's and glasswood's shapes."""
    values = np.asarray(values)
    return values[..., -1] if values.ndim == 3 else values


def difference(found: Any, exact: Any) -> float:
    """Relative to the magnitude of the exact values."""
    return float(np.abs(found - exact).sum() / np.abs(exact).sum())


def time_case(name: str, n_rows: int, n_background: int) -> dict[str, Any]:
    """Measure glasswood and what computes or approximates the same."""
    import shap

    model, X = classifier(name)
    rows, background = X[:n_rows], X[-n_background:]
    settings = {"output": "probability", "n_jobs": 2}
    explainer = glasswood.Explainer(model, background, **settings)
    exact = last_class(explainer.prepare().shap_values(rows))
    found = {
        "rows": n_rows,
        "background": n_background,
        "outputs": explainer.n_outputs,
        "exact": seconds_of(lambda: explainer.shap_values(rows)),
        "one row": seconds_of(lambda: explainer.shap_values(rows[:1]), 9),
    }
    if explainer.n_outputs == 1:
        rescaled = glasswood.Explainer(model, background, rule="rescale", **settings).prepare()
        found["rescale"] = seconds_of(lambda: rescaled.shap_values(rows))
        found["rescale error"] = difference(rescaled.shap_values(rows), exact)
    if rows.shape[1] <= 14:
        start = time.process_time()
        brute = last_class(brute_force(model, rows[:BRUTE_ROWS], background))
        found["all coalitions, a row"] = (time.process_time() - start) / BRUTE_ROWS
        found["all coalitions error"] = difference(exact[:BRUTE_ROWS], brute)
    predict = lambda Z: model.predict_proba(Z)[:, -1]  # noqa: E731
    rivals = {"permutation": shap.PermutationExplainer}
    if rows.shape[1] <= 14:
        rivals["exact by shap"] = shap.ExactExplainer
    for rival, make in rivals.items():
        theirs = make(predict, shap.maskers.Independent(background, max_samples=n_background))
        start = time.process_time()
        values = (
            theirs(rows[:SHAP_ROWS], silent=True).values if rival == "permutation" else theirs(rows[:SHAP_ROWS]).values
        )
        found[f"{rival}, a row"] = (time.process_time() - start) / SHAP_ROWS
        found[f"{rival} error"] = difference(values, exact[:SHAP_ROWS])
    return found


PARTS = ("rules", "estimates", "times")
TIME_CASES = {
    "California": ("california_housing", 1000, 100),
    "Adult": ("adult", 1000, 100),
    "Covertype": ("covtype", 50, 50),
}
DATA_SETS = {
    "california_housing": "California, above the median",
    "adult": "Adult",
    "covtype/0": "Covertype, class 1 against others",
    "covtype/1": "Covertype, class 2 against others",
    "image_segmentation/2": "Image segmentation, class 3 against others",
    "wine/1": "Wine, class 2 against others",
}


def rule_case(name: str, n_rows: int = 200, n_background: int = 50) -> dict[str, Any]:
    """Compare the rescale rule, glasswood's and shap's own, with the exact values."""
    import shap

    model, X = classifier(name, 6)
    rows, background = X[:n_rows], X[-n_background:]
    settings = {"output": "probability", "dtype": "float64"}
    exact = glasswood.Explainer(model, background, **settings).shap_values(rows)
    rescaled = glasswood.Explainer(model, background, rule="rescale", **settings).shap_values(rows)
    theirs = shap.TreeExplainer(model, background, model_output="probability").shap_values(rows)
    return {"glasswood": distances(rescaled, exact), "shap": distances(last_class(theirs), exact)}


def distances(found: Any, exact: Any) -> dict[str, float]:
    """Relative error of values, rows with another strongest feature, swapped ranks and flipped signs of large ones."""
    large = np.abs(exact) > 0.01
    ranks = [np.argsort(np.argsort(-np.abs(values), axis=1), axis=1) for values in (exact, found)]
    pairs = list(itertools.combinations(range(exact.shape[1]), 2))
    swapped = [np.sign(ranks[0][:, i] - ranks[0][:, j]) != np.sign(ranks[1][:, i] - ranks[1][:, j]) for i, j in pairs]
    both_large = [large[:, i] & large[:, j] for i, j in pairs]
    return {
        "error": difference(found, exact),
        "first": float((ranks[0].argmin(1) != ranks[1].argmin(1)).mean()),
        "swapped": float(np.array(swapped)[np.array(both_large)].mean()),
        "signs": float((np.sign(exact) != np.sign(found))[large].mean()),
    }


N_PIXELS, SHIRT = 100, 6


def estimate_case(n_rows: int, n_background: int = 100) -> dict[str, Any]:
    """Estimate the probability of a shirt by 100 pixels of Fashion-MNIST, beside shap's sampling."""
    import shap
    import xgboost

    X, y = read("fashion_mnist").rows, read("fashion_mnist").target == SHIRT
    X = np.ascontiguousarray(X[:, np.sort(np.argsort(-X[:20_000].var(axis=0), kind="stable")[:N_PIXELS])])
    model = xgboost.XGBClassifier(n_estimators=N_TREES, max_depth=6, learning_rate=0.1, n_jobs=2)
    forest = glasswood.load(model.fit(X[:20_000], y[:20_000]))
    likely = np.argsort(-forest.predict(X[20_000:30_000], output="probability")[:, 1], kind="stable")
    rows, background = X[20_000:][likely[:: 5_000 // n_rows][:n_rows]], X[-n_background:]
    truth, of_truth = estimated(forest, rows, background, 5e-4, seed=1)
    found = {"rows": n_rows, "background": n_background, "features": len(used_features(forest)), "methods": {}}
    for tolerance in (0.01, 0.003, 0.001):
        start = time.process_time()
        values, errors = estimated(forest, rows, background, tolerance)
        seconds = (time.process_time() - start) / n_rows
        some = errors > 0
        distance = (np.abs(values - truth) / np.sqrt(errors**2 + of_truth**2))[some]
        found["methods"][f"glasswood, tolerance {tolerance:g}"] = {
            "seconds": seconds,
            "error": difference(values, truth),
            "within 1": float((distance < 1).mean()),
            "within 2": float((distance < 2).mean()),
            "standard error": float(errors[some].mean()),
        }
    predict = lambda Z: forest.predict(Z, output="probability", n_jobs=2)[:, 1]  # noqa: E731
    masker = shap.maskers.Independent(background, max_samples=n_background)
    shap.PermutationExplainer(predict, masker, seed=0)(rows[:1], max_evals="auto", silent=True)  # compiles itself
    for n in (1, 10):
        calls = n * (2 * X.shape[1] + 1)
        run = lambda calls=calls: shap.PermutationExplainer(predict, masker, seed=0)(  # noqa: E731
            rows, max_evals=calls, silent=True
        )
        found["methods"][f"shap, {n} permutation{'s' * (n > 1)}"] = timed_error(run, truth)
    for n in (10_000, 100_000):
        run = lambda n=n: shap.SamplingExplainer(predict, background).shap_values(  # noqa: E731
            rows, nsamples=n, silent=True
        )
        np.random.seed(0)  # noqa: NPY002
        found["methods"][f"shap, {n:,} samples"] = timed_error(run, truth)
    return found


def used_features(forest: Any) -> Any:
    """Features that any split tests."""
    feature = forest.ensemble.feature
    return np.unique(feature[feature >= 0])


def estimated(forest: Any, rows: Any, background: Any, tolerance: float, seed: int | None = None) -> Any:
    """Values and standard errors to a tolerance; another seed for what others are compared with."""
    explainer = glasswood.Explainer(forest, background, output="probability", dtype="float64", n_jobs=2)
    plan_of(explainer).tolerance = tolerance
    before = permutations.SEED
    permutations.SEED = before if seed is None else seed
    try:
        return explainer.shap_values(rows, standard_errors=True)
    finally:
        permutations.SEED = before


def timed_error(run: Callable[[], Any], truth: Any) -> dict[str, float]:
    """Seconds a row, and the error."""
    start = time.process_time()
    values = run()
    seconds = (time.process_time() - start) / len(truth)
    return {"seconds": seconds, "error": difference(last_class(getattr(values, "values", values)), truth)}


def gpu_case(name: str, n_rows: int, n_background: int) -> dict[str, Any]:
    """Time on a GPU from host to host, by the clock."""
    model, X = classifier(name)
    rows, background = np.resize(X, (n_rows, X.shape[1])), X[-n_background:]
    explainer = glasswood.Explainer(model, background, output="probability", device="cuda")
    on_cpu = glasswood.Explainer(model, background, output="probability", device="cpu", dtype="float64")
    error = float(np.abs(explainer.shap_values(rows[:50]) - on_cpu.shap_values(rows[:50])).max())
    found = {"case": name, "rows": n_rows, "background": n_background, "error": error}
    found["seconds"] = seconds_of(lambda: explainer.shap_values(rows), 3, time.perf_counter)
    some = rows[: n_rows // 10]
    found["pairs error"] = float(
        np.abs(explainer.shap_interaction_values(some[:20]) - on_cpu.shap_interaction_values(some[:20])).max()
    )
    found["seconds of pairs, a tenth of the rows"] = seconds_of(
        lambda: explainer.shap_interaction_values(some), 3, time.perf_counter
    )
    return found


def table(header: list[str], lines: list[list[str]]) -> str:
    """Write Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *lines))


def update(results: dict[str, Any]) -> None:
    """Write the tables of benchmarks/results/libraries.md."""
    page, text = (
        ROOT / "benchmarks" / "results" / "libraries.md",
        (ROOT / "benchmarks" / "results" / "libraries.md").read_text(),
    )
    times = results["times"]
    shown = lambda one, key, unit="s": f"{one[key]:.3g} {unit}" if key in one else "-"  # noqa: E731
    error = lambda one, key: f" ({one[key]:.1e})" if key in one else ""  # noqa: E731
    lines = [
        [
            f"{name}, {one['rows']:,} × {one['background']}",
            shown(one, "exact"),
            f"{one['one row'] * 1e3:.2f} ms",
            shown(one, "rescale") + error(one, "rescale error"),
            *(
                shown(one, f"{rival}, a row") + error(one, f"{rival} error")
                for rival in ("all coalitions", "exact by shap")
            ),
            shown(one, "permutation, a row") + error(one, "permutation error"),
        ]
        for name, one in times.items()
    ]
    header = ["rows × background", "exact", "one row", "rescale", "all coalitions, a row", "shap, exact, a row"]
    content = f"{about(results['conditions'])}\n\n{table([*header, 'shap, permutation, a row'], lines)}"
    text = between(text, "responses", content)
    keys = ("error", "first", "swapped", "signs")
    rules = [
        [DATA_SETS[name], f"{one['shap']['error']:.1%}", *(f"{one['glasswood'][key]:.1%}" for key in keys)]
        for name, one in results["rules"].items()
    ]
    header = ["classifier", "relative error of shap", "of `rule='rescale'`", "another strongest feature"]
    header += ["swapped ranks", "flipped signs"]
    text = between(text, "rules", table(header, rules))
    page.write_text(between(text, "estimates", estimates_table(results["estimates"])))


def about(measured: dict[str, Any]) -> str:
    """Say when and where seconds were measured."""
    said = [measured["date"], f"commit {measured['commit']}", measured["cpu"], f"load average {measured['load']}"]
    return f"{', '.join(said)}: seconds of processors."


def estimates_table(found: dict[str, Any]) -> str:
    """Write errors and times, and the errors at the time of glasswood's first line: they fall as the root of time."""
    methods = found["methods"]
    first = next(iter(methods.values()))["seconds"]
    share = lambda one, key: f"{one[key]:.1%}" if key in one else ""  # noqa: E731
    lines = [
        [
            name,
            f"{one['seconds']:.3g} s",
            f"{one['error']:.1%}",
            f"{one['error'] * math.sqrt(one['seconds'] / first):.1%}",
            share(one, "within 1"),
            share(one, "within 2"),
        ]
        for name, one in methods.items()
    ]
    header = ["method", "a row", "relative error", "the same in the first line's time"]
    rows = f"{found['rows']} rows"
    return f"{about(found['conditions'])} {rows}.\n\n{table([*header, 'within 1 standard error', 'within 2'], lines)}"


def main() -> None:
    """Measure, and write results and tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--gpu", type=Path, metavar="FOLDER", help="measure the GPU alone, and write FOLDER/responses.json"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure; default all")
    parser.add_argument("--rows", type=int, default=10, help="rows whose values are estimated; default 10")
    options = parser.parse_args()
    if options.gpu:
        found = {"conditions": conditions(), "gpu": [gpu_case(*case) for case in GPU_CASES]}
        (options.gpu / "responses.json").write_text(json.dumps(found, indent=1))
        print(json.dumps(found["gpu"], indent=1))
        return
    path = RESULTS / f"responses-{machine_name()}.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    if "rules" in options.parts:
        results["rules"] = {name: rule_case(name) for name in DATA_SETS}
    if "estimates" in options.parts:
        results["estimates"] = {"conditions": conditions(), **estimate_case(options.rows)}
    if "times" in options.parts:
        results["conditions"] = conditions()
        results["times"] = {name: time_case(*case) for name, case in TIME_CASES.items()}
    print(json.dumps(results, indent=1), flush=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    update(results)


if __name__ == "__main__":
    main()
