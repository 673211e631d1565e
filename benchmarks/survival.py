"""Survival forests: SHAP values of risk scores and of curves over time, beside shap's on scikit-survival.

`python -m benchmarks.survival` writes benchmarks/results/survival-<machine>.json and a table of libraries.md there.
Seconds are those of processors. shap does not read forests of scikit-survival: it calls the model's predict, as
survshap does. Their times are those of a few rows, times the number of rows.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import glasswood
from benchmarks.data import ROOT
from benchmarks.machine import conditions, machine_name
from benchmarks.tables import between

RESULTS = Path(__file__).parent / "results"
N_ROWS, N_TRAINING, N_FEATURES, N_TREES = 40_000, 4_000, 10, 100
N_BACKGROUND, SHAP_ROWS, SURVSHAP_ROWS = 100, 5, 2
MOST_CALLS = 10 * (2 * N_FEATURES + 1)
"""Coalitions of a row that shap asks for: ten orders of the features, forwards and backwards."""

MONTHS = np.arange(1, 21) * 6
DAY = 86_400


def made() -> tuple[Any, Any, Any]:
    """Fit a random survival forest of censored months; its training rows, and rows to explain."""
    from sksurv.ensemble import RandomSurvivalForest
    from sksurv.util import Surv

    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    hazard = np.exp(X[:, 0] + X[:, 1] * (X[:, 2] > 0) - X[:, 3])
    months = np.ceil(rng.exponential(40 / hazard[:N_TRAINING]).clip(0, 120)) + 0.0
    event = (rng.random(N_TRAINING) < 0.8) & (months < 120)
    target = Surv.from_arrays(event, np.maximum(months, 1))
    model = RandomSurvivalForest(N_TREES, min_samples_leaf=15, random_state=0).fit(X[:N_TRAINING], target)
    return model, X[:N_TRAINING], X


def seconds(call: Callable[[], Any]) -> float:
    """Processor time of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def measured() -> dict[str, Any]:
    """Seconds of each way, for so many rows."""
    import shap

    model, training, X = made()
    background, result = training[:N_BACKGROUND], {}

    def curves(rows: Any) -> Any:
        return model.predict_survival_function(rows, return_array=True)[:, places]

    places = np.maximum(np.searchsorted(model.unique_times_, MONTHS, side="right") - 1, 0)
    for name, source, loaded in (
        ("risk score", model.predict, glasswood.load(model, check=X[:100])),
        ("20 times", curves, glasswood.load(model, check=X[:100], survival_at=MONTHS)),
    ):
        for kind, rows in (("path-dependent", None), (f"{N_BACKGROUND} background rows", background)):
            taken = seconds(lambda forest=loaded, rows=rows: glasswood.Explainer(forest, rows).shap_values(X))
            result[f"glasswood, {name}, {kind}"] = {"rows": N_ROWS, "seconds": taken}
        permutations = shap.PermutationExplainer(source, background)
        permutations(X[:1], max_evals=MOST_CALLS)  # which compiles
        taken = seconds(lambda explainer=permutations: explainer(X[:SHAP_ROWS], max_evals=MOST_CALLS))
        result[f"shap, {name}, {N_BACKGROUND} background rows"] = {"rows": SHAP_ROWS, "seconds": taken}
    ours = glasswood.Explainer(loaded, background, dtype="float64").shap_values(X[:SURVSHAP_ROWS])
    result[f"survshap, 20 times, {N_BACKGROUND} background rows"] = by_survshap(model, background, X, ours)
    return result


def by_survshap(model: Any, background: Any, X: Any, ours: Any) -> dict[str, float]:
    """Seconds of SurvSHAP(t) by its authors, by all coalitions of a row, and the largest difference from glasswood."""
    import pandas as pd
    from survshap import PredictSurvSHAP, SurvivalModelExplainer

    names = [f"x{place}" for place in range(N_FEATURES)]
    labels = np.zeros(len(background), [("event", "?"), ("time", "<f8")])  # which it asks for, and does not use here
    explainer = SurvivalModelExplainer(model=model, data=pd.DataFrame(background, columns=names), y=labels)
    taken, difference = 0.0, 0.0
    for row in range(SURVSHAP_ROWS):
        explanation = PredictSurvSHAP(calculation_method="kernel")
        one = pd.DataFrame(X[row : row + 1], columns=names)
        taken += seconds(lambda to=explanation, one=one: to.fit(explainer, one, timestamps=MONTHS.astype(float)))
        found = explanation.result.set_index("variable_name").loc[names]
        values = found[[name for name in found.columns if str(name).startswith("t = ")]].to_numpy()
        difference = max(difference, float(np.abs(values - ours[row]).max()))
    return {"rows": SURVSHAP_ROWS, "seconds": taken, "largest_difference": difference}


def table(found: dict[str, Any]) -> str:
    """Rows of Markdown: seconds of all rows, shap's by the time of a row."""
    lines = [f"| what | by | seconds for {N_ROWS:,} rows |", "|---|---|---|"]
    for name, one in found.items():
        by, what = name.split(", ", 1)
        total = one["seconds"] * N_ROWS / one["rows"]
        shown = f"{total:,.1f}" if total < DAY else f"{total:,.0f} ({total / DAY:,.1f} days, from {one['rows']} rows)"
        shown = f"{total:,.0f} (from {one['rows']} rows)" if one["rows"] < N_ROWS and total < DAY else shown
        lines.append(f"| {what} | {by} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and write results and the table."""
    warnings.simplefilter("ignore")
    found = {"conditions": conditions(), "survival": measured()}
    path = RESULTS / f"survival-{machine_name()}.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    page = ROOT / "benchmarks" / "results" / "libraries.md"
    page.write_text(between(page.read_text(), "survival", table(found["survival"])))


if __name__ == "__main__":
    main()
