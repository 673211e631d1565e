"""How often intervals of two standard errors hold the values: errors of the background, and of estimates.

    python -m benchmarks.background_errors [--results FOLDER]

XGBoost, 50 trees of depth 5, of California and Adult. 200 backgrounds of 100 rows are drawn, with replacement, from
2,000 rows; the truth is the values against all 2,000. Intervals are values ± 1.96 standard errors of 20 test rows and
all features whose true value is at least 1 % of the row's largest.

Estimates: of 10 times 20 rows of Adult against 1 and 30 background rows, where rows that differ on more than 6 features
are estimated; the truth are the exact values. "steep" is a model of 100 rounds with the learning rate 1.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import warnings

import numpy as np

import glasswood
from benchmarks.machine import conditions, machine_name
from benchmarks.score import adult, california, trained
from glasswood.explain.responses import coalitions

DRAWS, ROWS, POPULATION, BACKGROUND = 200, 20, 2_000, 100


def coverage(forest, rows, population, output):
    def explain(background, standard_errors):
        explainer = glasswood.Explainer(forest, background, output=output, dtype="float64", n_jobs=2)
        found = explainer.shap_values(rows, standard_errors=standard_errors)
        return found if standard_errors else (found, None)

    truth, _ = explain(population, False)
    counts = np.abs(truth) >= 0.01 * np.abs(truth).max(axis=1, keepdims=True)
    rng, held = np.random.default_rng(0), []
    for _ in range(DRAWS):
        values, errors = explain(population[rng.integers(len(population), size=BACKGROUND)], True)
        held.append((np.abs(values - truth) <= 1.96 * errors)[counts])
    lowest = float(np.mean(held, axis=0).min())
    return {"coverage": float(np.mean(held)), "lowest of a value": lowest, "values": int(counts.sum())}


def of_estimates(forest, X, labels, output, n_background):
    """Distances from the exact values in standard errors; orders depend on the background row, which are many here."""
    found, options = [], {"dtype": "float64", "output": output, "n_jobs": 2}
    for first in range(0, 10 * (20 + n_background), 20 + n_background):
        rows, background = X[first : first + 20], X[first + 20 : first + 20 + n_background]
        given = {"y": labels[first : first + 20]} if output == "log_loss" else {}
        exact = glasswood.Explainer(forest, background, **options).shap_values(rows, **given)
        whole, coalitions.MOST = coalitions.MOST, 6
        explainer = glasswood.Explainer(forest, background, **options)
        coalitions.MOST = whole
        values, errors = explainer.shap_values(rows, standard_errors="estimates", **given)
        apart = np.abs(values - exact)
        wrong = apart > 1e-9
        with np.errstate(divide="ignore"):
            found.append((apart / errors)[wrong])
    z = np.concatenate(found)
    spread = float(np.sqrt(np.mean(z**2)))
    return {"values": len(z), "spread of z": spread, "|z| > 3": float(np.mean(z > 3)), "largest |z|": float(z.max())}


def steep_models():
    X, y, objective = adult()
    for name, rate in (("usual", 0.1), ("steep", 1.0)):
        forest = glasswood.load(trained(X[::2], y[::2], objective, rate=rate))
        for output in ("probability", "log_loss", "decision"):
            for n_background in (1, 30):
                found = of_estimates(forest, X[1::2], y[1::2], output, n_background)
                yield {"model": name, "output": output, "background": n_background, **found}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", default="")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    records = []
    for make in (california, adult):
        X, y, objective = make()
        forest = glasswood.load(trained(X[::2], y[::2], objective, rounds=50, depth=5))
        outputs = ["margin"] + (["probability", "decision"] if objective.startswith("binary") else [])
        for output in outputs:
            found = coverage(forest, X[1 : 2 * ROWS : 2], X[1000 : 1000 + POPULATION], output)
            records.append({"data": make.__name__, "output": output, **found})
            print(json.dumps(records[-1]), flush=True)
    for record in steep_models():
        print(json.dumps(record), flush=True)
        records.append(record)
    if arguments.results:
        text = json.dumps({"conditions": conditions(), "records": records}, indent=1) + "\n"
        pathlib.Path(arguments.results, f"background-errors-{machine_name()}.json").write_text(text)


if __name__ == "__main__":
    main()
