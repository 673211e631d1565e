"""LightGBM's linear trees (`linear_tree`) against LightGBM."""

from __future__ import annotations

import re

import lightgbm as lgb
import numpy as np
import pytest
from tests.readers.agreement import assert_agrees
from tests.readers.lightgbm_models import COMMON, N_ROWS, adversarial, make_data, train

import glasswood

LINEAR = {"linear_tree": True}
MODELS = {
    "default": {},
    "many leaves": {"num_leaves": 60, "min_data_in_leaf": 2},
    "penalty": {"linear_lambda": 3.0},
    "two leaves": {"num_leaves": 2},
    "nothing missing": {"use_missing": False},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "binary": {"objective": "binary"},
    "multi-class": {"objective": "multiclass", "num_class": 3},
    "one versus all": {"objective": "multiclassova", "num_class": 3},
    "poisson": {"objective": "poisson"},
    "huber": {"objective": "huber"},
    "bagging": {"bagging_freq": 1, "bagging_fraction": 0.5},
    "some features": {"feature_fraction": 0.5},
    "rounds of one leaf": {"min_gain_to_split": 50.0},
    "deep": {"num_leaves": 120, "max_depth": 9, "min_data_in_leaf": 1},
    "gradients one-sided": {"data_sample_strategy": "goss", "learning_rate": 0.4},
    "random thresholds": {"extra_trees": True},
    "few bins": {"max_bin": 7},
    "gamma": {"objective": "gamma"},
    "tweedie": {"objective": "tweedie"},
    "fair": {"objective": "fair"},
    "cross-entropy": {"objective": "cross_entropy"},
    "square roots": {"reg_sqrt": True},
    "classes, dart": {"objective": "multiclass", "num_class": 3, "boosting": "dart", "drop_rate": 0.3},
    "smooth paths": {"path_smooth": 5.0},
    "penalties": {"lambda_l2": 2.0, "linear_lambda": 0.5},
    "weights of classes": {"objective": "binary", "scale_pos_weight": 3.0},
    "steep": {"objective": "binary", "sigmoid": 2.5},
}


@pytest.fixture(scope="module")
def data():
    return make_data()


def categorical(data, params, n_trees=12):
    dataset = lgb.Dataset(data[0], data[1], categorical_feature=[4], params={"linear_tree": True})
    return lgb.train({**COMMON, **LINEAR, **params}, dataset, n_trees)


def check(booster, data):
    forest = glasswood.load(booster)
    assert forest.ensemble.has_linear_leaves
    # Where an equation meets infinity both give infinity or no number, which no bound compares.
    rows = adversarial(forest, data)
    rows = rows[~np.isinf(rows).any(axis=1) & (np.nan_to_num(np.abs(rows)) < 1e30).all(axis=1)]
    assert np.isnan(rows).any(axis=1).sum() > 100
    leaves, margins = booster.predict(rows, pred_leaf=True), booster.predict(rows, raw_score=True)
    assert_agrees(forest, rows, leaves, margins, sums="float64")
    assert_agrees(forest, rows, predictions=booster.predict(rows), sums="float64")
    return forest


@pytest.mark.parametrize("name", MODELS)
def test_linear_trees_agree(name, data):
    forest = check(train(data, LINEAR | MODELS[name]), data)
    assert len(forest.ensemble.linear_feature) > 10


@pytest.mark.parametrize("name", ["default", "many leaves", "dart", "penalty", "fair", "huber", "few bins"])
def test_linear_trees_of_categories_agree(name, data):
    assert check(categorical(data, MODELS[name]), data).ensemble.is_categorical


def test_continued_training_from_constant_leaves(data):
    X, y = data
    text = lgb.train(COMMON, lgb.Dataset(X, y), 3).model_to_string()
    linear = train(data, LINEAR, n_trees=3).model_to_string()
    trees = re.split(r"\n(?=Tree=|end of trees)", linear)
    constant = re.split(r"\n(?=Tree=|end of trees)", text)
    mixed = "\n".join([trees[0], constant[1], *trees[2:]])
    booster = lgb.Booster(model_str=re.sub(r"tree_sizes=.*\n", "", mixed))
    check(booster, data)


def test_infinite_numbers(data):
    booster = train(data, LINEAR)
    rows = np.array([[np.inf, 0, 0, 0, 1], [-np.inf, 1, 0, 0, 2], [np.inf, -np.inf, np.nan, 3, 4]])
    np.testing.assert_array_equal(glasswood.load(booster).predict(rows), booster.predict(rows))


def test_files_and_estimators_agree(data, tmp_path):
    X, y = data
    model = lgb.LGBMRegressor(n_estimators=8, **COMMON, **LINEAR).fit(X, y)
    model.booster_.save_model(tmp_path / "model.txt")
    for given in (model, tmp_path / "model.txt"):
        forest = glasswood.load(given)
        np.testing.assert_allclose(forest.predict(X), model.predict(X), rtol=0, atol=1e-13)
        forest.save(tmp_path / "forest.glasswood")
        np.testing.assert_array_equal(glasswood.load(tmp_path / "forest.glasswood").predict(X), forest.predict(X))
        predict = forest.predictor()
        assert [predict(row) for row in X[:20]] == forest.predict(X[:20]).tolist()


def test_explanations_need_the_means_of_training_rows(data):
    X, _ = data
    forest = glasswood.load(train(data, LINEAR))
    with pytest.raises(ValueError, match=r"has no means of the features in its linear leaves.*\.with_means\(X\)"):
        glasswood.Explainer(forest)
    known = forest.with_means(X)
    np.testing.assert_allclose(known.predict(X), forest.predict(X), rtol=0, atol=1e-12)
    explainer = glasswood.Explainer(known, dtype="float64")
    total = explainer.shap_values(X, check_additivity=True).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, forest.predict(X), rtol=0, atol=1e-10)


def test_means_are_those_of_the_rows_in_the_leaf(data):
    X, _ = data
    forest = glasswood.load(train(data, LINEAR)).with_means(X)
    ids = forest.predict(X, output="leaf")
    tree = int(np.searchsorted(forest.ensemble.linear_offsets[forest.ensemble.leaf_offsets], 1))
    for leaf in range(forest.ensemble.leaf_offsets[tree - 1], forest.ensemble.leaf_offsets[tree]):
        inside = X[ids[:, tree - 1] == forest.ensemble.leaf_id[leaf]]
        terms = slice(*forest.ensemble.linear_offsets[leaf : leaf + 2])
        np.testing.assert_allclose(
            forest.ensemble.linear_mean[terms], np.nanmean(inside[:, forest.ensemble.linear_feature[terms]], axis=0)
        )
    few = glasswood.load(train(data, LINEAR)).with_means(X[:1])
    assert np.isfinite(few.ensemble.linear_mean).all()


def test_means_of_constant_leaves_are_refused(data):
    with pytest.raises(ValueError, match="leaves of this forest are constants"):
        glasswood.load(train(data, {})).with_means(data[0])
    with pytest.raises(ValueError, match="X has no rows"):
        glasswood.load(train(data, LINEAR)).with_means(data[0][:0])


EDITS = {
    "fewer constants": (r"leaf_const=\S+ ", "leaf_const=", "entries of 'leaf_const', expected 7"),
    "no constants": (r"leaf_const=.*\n", "", "tree 1 holds 0 entries of 'leaf_const'"),
    "negative counts": (r"num_features=\d", "num_features=-1", "a leaf with fewer than 0 or more"),
    "more features than listed": (r"num_features=\d+", "num_features=2", "entries of 'leaf_features', expected"),
    "more features than the model": (r"num_features=\d+", f"num_features={2**63 - 1}", "or more than . features"),
    "unknown feature": (r"leaf_features= *\d", "leaf_features=9", "leaf of a feature that does not exist"),
    "infinite coefficient": (r"leaf_coeff= *\S+", "leaf_coeff=inf", "leaf_coeff that is not finite"),
    "infinite constant": (r"leaf_const=\S+", "leaf_const=nan", "leaf_const that is not finite"),
}


@pytest.mark.parametrize("name", EDITS)
def test_equations_that_do_not_fit_are_refused(name, data, tmp_path):
    pattern, replacement, message = EDITS[name]
    head, second = train(data, LINEAR).model_to_string().split("\nTree=1\n")
    text = f"{head}\nTree=1\n{re.sub(pattern, replacement, second, count=1)}"
    (tmp_path / "model.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        glasswood.load(tmp_path / "model.txt")


def test_rows_of_training_reach_every_kind_of_leaf(data):
    forest = glasswood.load(train(data, LINEAR | {"num_leaves": 60, "min_data_in_leaf": 2}))
    assert len(data[0]) == N_ROWS
    assert {0, 1, 2} <= set(np.diff(forest.ensemble.linear_offsets).tolist())
