"""What holds on every device, on a GPU that is emulated or real; the CPU has it in tests/explain and tests/evaluate."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glasswood import Explainer
from glasswood.cli import main
from tests.conftest import repeats
from tests.explain.tolerance import assert_close
from tests.oracles import shapley
from tests.strategies import Options, chain_forest, full_forest, random_forest, random_rows

pytestmark = pytest.mark.usefixtures("gpu")
DTYPES = ("float32", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("P", [1e-3, 1e-9])
@pytest.mark.parametrize("d", [1, 8, 17, 33, 200])
def test_chain_of_distinct_features(d, P, dtype):
    phi = Explainer(chain_forest(d, P), dtype=dtype, device="cuda").shap_values(np.ones((1, d)))
    expected = np.full((1, d), shapley.chain_values(d, P))
    np.testing.assert_allclose(phi, expected, rtol=1e-12 if dtype == "float64" else 1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_ignore_a_common_offset_of_the_leaves(dtype):
    forest = full_forest(0, n_trees=10, depth=6, n_features=5)
    shifted = dataclasses.replace(forest, leaf_value=forest.ensemble.leaf_value + 10.0)
    X = np.random.default_rng(1).normal(size=(20, 5))
    expected = shapley.values(forest, shapley.sides(forest, X))
    assert_close(Explainer(shifted, dtype=dtype, device="cuda").shap_values(X), expected, forest, dtype)


def test_interactions_of_chosen_features_are_rows_of_all():
    forest = random_forest(3, Options(n_trees=5, n_features=6, n_outputs=3))
    X = random_rows(4, forest, 9)
    explainer = Explainer(forest, dtype="float64", device="cuda")
    chosen = explainer.shap_interaction_values(X, features=[4, 1])
    everything = explainer.shap_interaction_values(X)
    np.testing.assert_allclose(chosen, everything[:, [4, 1]], rtol=0, atol=1e-12 * shapley.leaf_spread(forest).max())


@pytest.mark.parametrize("n_rows", [0, 1, 31, 129, 5000])
def test_rows_do_not_see_each_other(n_rows):
    forest = full_forest(2, n_trees=7, depth=5, n_features=6)
    X = np.random.default_rng(3).normal(size=(n_rows, 6)).astype(np.float32)
    explainer = Explainer(forest, device="cuda")
    found = explainer.shap_values(X)
    assert found.shape == X.shape
    for row in range(0, n_rows, 1000):
        np.testing.assert_array_equal(explainer.shap_values(X[row : row + 1])[0], found[row])


@pytest.mark.parametrize("method", ["shap_values", "shap_interaction_values"])
def test_out_is_filled_and_returned(method):
    forest = full_forest(2, n_trees=3, depth=4, n_features=4)
    X = np.random.default_rng(3).normal(size=(50, 4))
    explain = getattr(Explainer(forest, device="cuda"), method)
    expected = explain(X)
    out = np.full_like(expected, np.nan)
    assert explain(X, out=out) is out
    np.testing.assert_array_equal(out, expected)


def test_the_same_bits_on_every_run(gpu):
    n_rows, n_runs = (3000, repeats(100)) if gpu is None else (64, 2)
    forest = full_forest(1, n_trees=30, depth=7, n_features=9)
    X = np.random.default_rng(2).normal(size=(n_rows, 9)).astype(np.float32)
    explainer = Explainer(forest, device="cuda")
    first = explainer.shap_values(X)
    for _ in range(n_runs):
        np.testing.assert_array_equal(explainer.shap_values(X), first)


def test_the_command_line_runs_where_it_is_told_to(tmp_path):
    forest = full_forest(0, n_trees=5, depth=4, n_features=3)
    forest.save(tmp_path / "model.glasswood")
    X = random_rows(0, forest, 100)
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b,c", comments="")
    files = [str(tmp_path / name) for name in ("model.glasswood", "rows.csv", "out.csv")]
    assert main(["predict", *files[:2], "-o", files[2], "--output", "margin", "--device", "cuda"]) == 0
    margins = np.loadtxt(files[2], skiprows=1)
    np.testing.assert_array_equal(margins, forest.predict(X, output="margin", device="cpu"))
    assert main(["explain", *files[:2], "-o", files[2], "--device", "cuda"]) == 0
    phi = np.loadtxt(files[2], delimiter=",", skiprows=1)[:, :3]
    np.testing.assert_allclose(phi, Explainer(forest, device="cpu").shap_values(X), rtol=1e-5, atol=1e-6)
