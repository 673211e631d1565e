"""Plans that explainers of one forest share: laid out once, filled by each for itself, forgotten with their forest."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from glasswood import Explainer
from glasswood.explain import tables
from tests.explain.tolerance import assert_close
from tests.oracles import interventional
from tests.strategies import full_forest


@pytest.fixture
def planned(monkeypatch):
    """Forests that are laid out, in their order."""
    calls, made = [], tables.TABLES["float32"]

    def plan(forest, *arguments):
        calls.append(forest)
        return made(forest, *arguments)

    monkeypatch.setitem(tables.TABLES, "float32", plan)
    return calls


def example(seed=0):
    X = np.random.default_rng(seed).normal(size=(60, 4)).astype(np.float32)
    return full_forest(seed, n_trees=4, depth=4, n_features=4), X


def test_backgrounds_share_a_plan_and_no_contents(planned):
    forest, X = example()
    backgrounds = [X[:20], X[20:40], X[40:]]
    explainers = [Explainer(forest, background) for background in backgrounds]
    for _ in range(2):
        for explainer, background in zip(explainers, backgrounds, strict=True):
            expected = interventional.values_by_pair(forest, X, background)
            assert_close(explainer.shap_values(X), expected, forest, "float32")
    assert planned == [forest.ensemble]


@pytest.mark.parametrize(
    "other",
    [{"table_bytes": 2**20}, {"algorithm": "tables"}, {"background": np.zeros((1, 4))}, {"groups": {"a": [0, 1]}}],
)
def test_other_settings_have_other_plans(planned, other):
    forest, X = example()
    Explainer(forest).shap_values(X)
    Explainer(forest).shap_values(X)
    Explainer(forest, **other).shap_values(X)
    assert len(planned) == 2


@pytest.mark.parametrize(("most_bytes", "times"), [(0, 2), (2**25, 1)])
def test_small_plans_stay_with_the_forest(limits, planned, most_bytes, times):
    limits(most_table_bytes=most_bytes)
    forest, X = example()
    for _ in range(2):
        Explainer(forest, X).shap_values(X)
        gc.collect()
    assert len(planned) == times


def test_a_forest_is_forgotten_with_its_plans():
    forest, X = example()
    Explainer(forest, X).shap_values(X)
    alive = weakref.ref(forest)
    del forest
    gc.collect()
    assert alive() is None
