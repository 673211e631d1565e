"""`check_additivity=True`: rows add up to their margins, and one that does not is named."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given

from glasswood import Explainer
from glasswood.explain.additivity import tolerance
from glasswood.explain.cpu import CpuExplainer
from tests.conftest import examples
from tests.example_forests import empty_forest, with_models
from tests.oracles import shapley
from tests.strategies import Options, chain_forest, forests_and_rows, full_forest, random_forest, random_rows

OPTIONS = Options(n_trees=9, n_features=6, n_outputs=3)
ROW, OUTPUT = 5, 2
DTYPES = ("float32", "float64")


def spoil(monkeypatch, amount, rows=(ROW, 11)):
    """Let every explainer on the CPU add `amount` to a value of some rows."""
    compute = CpuExplainer.values

    def values(self, X, out=None):
        found = compute(self, X, out)
        found.reshape(len(found), -1)[list(rows), OUTPUT] += amount
        return found

    monkeypatch.setattr(CpuExplainer, "values", values)


@pytest.mark.parametrize("dtype", DTYPES)
@given(example=forests_and_rows(max_rows=20))
@examples(60)
def test_forests_of_all_kinds_add_up(algorithm, dtype, example):
    forest, X = example
    explainer = Explainer(forest, dtype=dtype, algorithm=algorithm)
    checked = explainer.shap_values(X, check_additivity=True)
    np.testing.assert_array_equal(checked, explainer.shap_values(X))


@pytest.mark.parametrize("dtype", DTYPES)
def test_deep_forests_add_up(dtype):
    forest = chain_forest(200, 0.5)
    X = random_rows(0, forest, 50)
    Explainer(forest, dtype=dtype).shap_values(X, check_additivity=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(4))
def test_linear_leaves_add_up(seed, dtype):
    forest = with_models(random_forest(seed, Options(n_trees=3, n_features=5, n_outputs=1 + seed % 3)), seed)
    X = 1e4 * np.random.default_rng(seed).normal(size=(50, 5))
    Explainer(forest, dtype=dtype, device="cpu").shap_values(X, check_additivity=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_model_that_is_clipped_far_from_its_value_adds_up(dtype):
    forest = with_models(full_forest(3, n_trees=3, depth=3, n_features=4), 3)
    far = forest.ensemble.leaf_range.copy()
    far[5] = 2**31 - 1, 2**31
    forest = dataclasses.replace(forest, leaf_range=far)
    X = np.random.default_rng(4).normal(size=(60, 4))
    values = Explainer(forest, dtype=dtype).shap_values(X, check_additivity=True)
    assert np.abs(values).max() > 2**20


def test_forests_that_explain_nothing_add_up():
    Explainer(empty_forest()).shap_values(np.ones((4, 3)), check_additivity=True)
    assert len(Explainer(full_forest(0, 2, 2, 3)).shap_values(np.zeros((0, 3)), check_additivity=True)) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", ["shap_values", "__call__"])
def test_the_first_row_that_does_not_add_up_is_named(monkeypatch, call, dtype):
    forest = random_forest(1, OPTIONS)
    X = random_rows(2, forest, 20)
    amount = 3 * tolerance(forest, dtype)[OUTPUT]
    spoil(monkeypatch, amount)
    explainer = Explainer(forest, dtype=dtype)
    getattr(explainer, call)(X)  # nobody asked
    with pytest.raises(ArithmeticError, match=rf"the values of row {ROW} and .* for output {OUTPUT}, .*2 of 20 rows"):
        getattr(explainer, call)(X, check_additivity=True)


def test_the_message_has_both_numbers(monkeypatch):
    forest = full_forest(0, 3, 4, 5)
    X = random_rows(2, forest, 20)
    spoil(monkeypatch, 1.0)
    with pytest.raises(ArithmeticError) as caught:
        Explainer(forest).shap_values(X, check_additivity=True)
    total, margin = map(float, re.search(r"add up to (\S+), its margin is (\S+):", str(caught.value)).groups())
    assert margin == forest.predict(X, "margin")[ROW]
    assert total - margin == pytest.approx(1, rel=1e-5)


def test_values_that_are_no_numbers_do_not_add_up(monkeypatch):
    forest = full_forest(0, 3, 4, 5)
    spoil(monkeypatch, np.nan)
    with pytest.raises(ArithmeticError, match=f"row {ROW} and expected_value add up to nan"):
        Explainer(forest).shap_values(random_rows(2, forest, 20), check_additivity=True)


def test_out_holds_what_does_not_add_up(monkeypatch):
    forest = full_forest(0, 3, 4, 5)
    X = random_rows(2, forest, 20)
    spoil(monkeypatch, 1.0)
    out = np.full((20, 5), np.nan, np.float32)
    with pytest.raises(ArithmeticError):
        Explainer(forest).shap_values(X, out=out, check_additivity=True)
    assert np.isfinite(out).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_tolerance_follows_from_what_leaves_span(dtype):
    """1e-6 or 1e-12 of it, for each of a tree's at most five features; float64 sums beside it are small."""
    forest = full_forest(0, 30, 5, 5)
    relative = tolerance(forest, dtype) / shapley.leaf_spread(forest)
    assert relative == pytest.approx(5 * {"float32": 1e-6, "float64": 1e-12}[dtype], rel=0.01)
