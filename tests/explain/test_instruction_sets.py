"""The kernels of every instruction set that this processor runs, and the shared maths with one row a lane."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from glasswood.model import storage
from tests.explain.tolerance import assert_close
from tests.instruction_sets import SETS, skip_unless_runs
from tests.oracles import evaluate, interventional, shapley
from tests.strategies import Options, random_forest, random_rows

SCRIPT = """
import sys
import numpy as np
import glasswood
forest, X = glasswood.load(sys.argv[1]), np.load(sys.argv[2])
result = {"leaf": forest.predict(X, output="leaf")}
for dtype in ("float32", "float64"):
    for algorithm in ("tables", "quadrature"):
        explainer = glasswood.Explainer(forest, algorithm=algorithm, dtype=dtype)
        result[f"{algorithm}_{dtype}"] = explainer.shap_values(X)
        row = explainer.row()
        result[f"rows_{algorithm}_{dtype}"] = [row(x) for x in X]
        result[f"interactions_{algorithm}_{dtype}"] = explainer.shap_interaction_values(X)
    against = glasswood.Explainer(forest, X[20:], dtype=dtype)
    result[f"background_{dtype}"] = against.shap_values(X)
    result[f"background_interactions_{dtype}"] = against.shap_interaction_values(X)
np.savez(sys.argv[3], **result)
print(glasswood._core.instruction_set())
"""


@pytest.fixture(params=[(False, 6), (True, 6), (False, 14)], ids=["scalar leaves", "vector leaves", "many features"])
def forest(request):
    vector_leaves, n_features = request.param
    options = Options(n_trees=5, n_features=n_features, n_outputs=3, vector_leaves=vector_leaves, categorical=True)
    return random_forest(5, options)


@pytest.mark.parametrize("instructions", SETS)
def test_every_instruction_set_explains_alike(instructions, forest, tmp_path):
    skip_unless_runs(instructions)
    X = random_rows(6, forest, 37)
    files = [str(tmp_path / name) for name in ("forest.glasswood", "rows.npy", "result.npz")]
    storage.save_forest(forest, files[0])
    np.save(files[1], X)
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, *files],
        env={**os.environ, "GLASSWOOD_ISA": instructions},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr) == (instructions + "\n", "")
    found, sides = np.load(files[2]), shapley.sides(forest, X)
    np.testing.assert_array_equal(found["leaf"], evaluate.leaf_ids(forest, X))
    for dtype in ("float32", "float64"):
        for algorithm in ("tables", "quadrature"):
            for of in (algorithm, f"rows_{algorithm}"):
                assert_close(found[f"{of}_{dtype}"], shapley.values_by_leaf(forest, sides), forest, dtype)
            pairs = found[f"interactions_{algorithm}_{dtype}"]
            assert_close(pairs, shapley.interactions_by_leaf(forest, sides), forest, dtype)
        against = interventional.values_by_pair(forest, X, X[20:])
        assert_close(found[f"background_{dtype}"], against, forest, dtype)
        assert_close(found[f"background_interactions_{dtype}"].sum(axis=2), against, forest, dtype)
