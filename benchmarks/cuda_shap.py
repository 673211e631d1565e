"""Values against background rows on this machine's GPU, beside shap's explainer of the shap-cuda wheel.

    python benchmarks/cuda_shap.py --results FOLDER

Both take NumPy arrays and the trees of the model that glasswood ships (California, 100 trees of depth 8), shap as its
own dictionary of arrays, so that no library of models is needed. From background rows to values, then values again by
the explainer that is made; medians of interleaved runs. Each result is compared with glasswood's float64 values on the
cores, which suites compare with sums over coalitions: one that is wrong has an error and no time.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib

import numpy as np
import pandas

import glasswood

CASES = ((100, 200), (100, 10_000), (1000, 1000))
"""Background rows and rows."""

CHECKED, TOLERANCE = 500, 1e-4
"""Rows that are compared, and the error that a result may have, relative to the largest value."""


def shap_model(forest):
    """Dictionary of arrays that shap takes for trees: `x <= threshold` goes left, in float64."""
    names = "children_left", "children_right", "children_default", "features", "thresholds", "values"
    trees, n_leaves = [], 0
    for first, end in zip(forest.ensemble.tree_offsets[:-1], forest.ensemble.tree_offsets[1:], strict=True):
        is_split = forest.ensemble.feature[first:end] >= 0
        left = np.where(is_split, forest.ensemble.left[first:end], -1)
        right = np.where(is_split, left + 1, -1)
        default = np.where(forest.ensemble.default_left[first:end], left, right)
        below = np.nextafter(forest.ensemble.threshold[first:end], np.float32(-np.inf)).astype(np.float64)
        values = np.zeros((end - first, 1))
        values[~is_split] = forest.ensemble.leaf_value[n_leaves : n_leaves + (~is_split).sum()]
        n_leaves += int((~is_split).sum())
        arrays = (
            left,
            right,
            default,
            forest.ensemble.feature[first:end],
            below,
            values * forest.ensemble.tree_weight[len(trees)],
        )
        tree = dict(zip(names, arrays, strict=True))
        trees.append(tree | {"node_sample_weight": forest.ensemble.cover[first:end].astype(np.float64)})
    response = (
        {"objective": "binary_crossentropy", "tree_output": "log_odds"} if forest.ensemble.link == "logistic" else {}
    )
    return {"trees": trees, "base_offset": float(forest.ensemble.base_score[0])} | response


def explainers(forest, background, output):
    """From background rows to explainers, by library; shap calls the margin "raw"."""
    calls = {"glasswood": lambda: glasswood.Explainer(forest, background, output=output, device="cuda")}
    try:
        import shap
        import shap_cuda
    except ImportError as error:
        print("shap left out:", error)
        return calls
    model = shap_model(forest)
    asked = {"feature_perturbation": "interventional", "model_output": "raw" if output == "margin" else output}
    # By default shap draws 100 of the background rows.
    masker = shap.maskers.Independent(background, max_samples=len(background))
    return calls | {"shap": lambda: shap_cuda.GPUTreeExplainer(model, masker, **asked)}


def values(name, explainer, rows):
    found = explainer.shap_values(rows) if name == "glasswood" else explainer.shap_values(rows, check_additivity=False)
    return np.asarray(found).reshape(rows.shape)


def measure(forest, background, rows, output):
    from benchmarks.cuda_tables import seconds

    checked = rows[:CHECKED]
    exact = glasswood.Explainer(forest, background, output=output, device="cpu", dtype="float64").shap_values(checked)
    made = explainers(forest, background, output)
    ready = {name: make() for name, make in made.items()}
    errors = {name: np.abs(values(name, ready[name], checked) - exact).max() / np.abs(exact).max() for name in made}
    right = [name for name in made if errors[name] <= TOLERANCE]
    return {
        "output": output,
        "background": len(background),
        "rows": len(rows),
        "errors": {name: float(error) for name, error in errors.items()},
        "first_s": seconds({name: lambda n=name: values(n, made[n](), rows) for name in right}),
        "again_s": seconds({name: lambda n=name: values(n, ready[n], rows) for name in right}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", required=True)
    parser.add_argument("--name", default="shap", help="of the file of results")
    parser.add_argument("--commit", default="")
    arguments = parser.parse_args()
    from benchmarks.cuda_tables import machine

    data = pathlib.Path(glasswood.__file__).parent / "data"
    X = pandas.read_parquet(data / "california_housing.parquet").iloc[:, :-1].to_numpy(np.float32)
    margin = glasswood.load(data / "california_housing.json")
    logistic = glasswood.Forest(dataclasses.replace(margin.ensemble, link="logistic"))
    forests = {"margin": margin, "probability": logistic}
    result = {"machine": machine(arguments.commit), "against_shap": []}
    for output, forest in forests.items():
        for n_background, n_rows in CASES:
            row = measure(forest, X[-n_background:], X[:n_rows], output)
            result["against_shap"].append(row)
            print(json.dumps(row), flush=True)
    pathlib.Path(arguments.results, f"{arguments.name}.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
