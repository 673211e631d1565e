"""Survival forests of scikit-survival: risk scores, and curves over time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tests.readers.forests import MODELS, check_rows, check_values, make_rows, signal
from tests.readers.sklearn_models import takes, with_holes

import glasswood

ensemble = pytest.importorskip("sksurv.ensemble")
tree = pytest.importorskip("sksurv.tree")
Surv = pytest.importorskip("sksurv.util").Surv

TIMES = np.array([0.0, 0.5, 2.0, 5.0])
CURVES = {"survival_at": "predict_survival_function", "hazard_at": "predict_cumulative_hazard_function"}


def target(X, seed=0):
    rng = np.random.default_rng(seed)
    time = 1 + rng.exponential(np.exp(signal(X) / 2)) + 4
    return Surv.from_arrays(rng.random(len(X)) < 0.7, time - 4)


def curves(model, kind, times):
    """What the library predicts at times, as a function of rows."""
    return lambda rows: np.array([step(times) for step in getattr(model, CURVES[kind])(rows)])


def random_forest(seed):
    rng = np.random.default_rng(seed)
    kind = (ensemble.RandomSurvivalForest, ensemble.ExtraSurvivalTrees)[seed % 2]
    return kind(
        n_estimators=int(rng.integers(1, 8)),
        max_depth=int(rng.integers(1, 6)),
        min_samples_leaf=int(rng.integers(3, 12)),
        max_features=(None, "sqrt", 0.5)[seed % 3],
        bootstrap=bool(rng.random() < 0.7),
        random_state=seed,
    )


@pytest.mark.parametrize("seed", MODELS)
def test_risk_scores_of_forests(seed):
    X = make_rows(seed)
    model = random_forest(seed).fit(X, target(X, seed))
    forest = glasswood.load(model, check=X)
    assert forest.source.startswith("scikit-survival")
    assert forest.objective == "risk score"
    check_rows(forest, model.predict, X)
    check_values(forest, model.predict, X)


@pytest.mark.parametrize("kind", CURVES)
@pytest.mark.parametrize("seed", MODELS)
def test_curves_of_forests(seed, kind):
    X = make_rows(seed)
    model = random_forest(seed).fit(X, target(X, seed))
    forest = glasswood.load(model, check=X, **{kind: TIMES})
    assert forest.output_names == ("0", "0.5", "2", "5")
    source = curves(model, kind, TIMES)
    check_rows(forest, source, X)
    check_values(forest, source, X)


@pytest.mark.parametrize("kind", [tree.SurvivalTree, tree.ExtraSurvivalTree])
def test_single_trees(kind):
    X = make_rows(0)
    model = kind(max_depth=4, random_state=0).fit(X, target(X))
    forest = glasswood.load(model, check=X)
    check_rows(forest, model.predict, X, leaves=lambda rows: model.tree_.apply(rows.astype(np.float32)))
    check_rows(glasswood.load(model, survival_at=TIMES), curves(model, "survival_at", TIMES), X)


def test_missing_values_go_where_training_sent_them():
    X = with_holes(make_rows(0))
    model = ensemble.RandomSurvivalForest(5, max_depth=4, random_state=0).fit(X, target(make_rows(0)))
    forest = glasswood.load(model, check=X)
    assert forest.ensemble.nan_allowed
    assert takes(model, np.nan)
    assert forest.ensemble.default_left[forest.ensemble.feature >= 0].any()
    check_rows(forest, model.predict, X)


def test_forests_without_curves():
    X = make_rows(0)
    model = ensemble.RandomSurvivalForest(4, low_memory=True, random_state=0).fit(X, target(X))
    check_rows(glasswood.load(model, check=X), model.predict, X)
    with pytest.raises(NotImplementedError, match=r"low_memory=True\) keeps risk scores but no curves"):
        glasswood.load(model, survival_at=TIMES)


@pytest.mark.parametrize("seed", MODELS)
def test_boosted_hazards(seed):
    X = make_rows(seed)
    rng = np.random.default_rng(seed)
    model = ensemble.GradientBoostingSurvivalAnalysis(
        n_estimators=int(rng.integers(1, 8)),
        learning_rate=0.5,
        max_depth=int(rng.integers(1, 4)),
        dropout_rate=0.3 * (seed % 2),
        random_state=seed,
    ).fit(X, target(X, seed))
    forest = glasswood.load(model, check=X)
    check_rows(forest, model.predict, X)
    check_values(forest, model.predict, X)
    for kind in CURVES:
        forest, source = glasswood.load(model, check=X, **{kind: TIMES}), curves(model, kind, TIMES)
        check_rows(forest, None, X, predictions=source)
        check_values(forest, source, X, output="response")


@pytest.mark.parametrize("loss", ["squared", "ipcwls"])
def test_boosted_times(loss):
    X = make_rows(0)
    model = ensemble.GradientBoostingSurvivalAnalysis(loss=loss, n_estimators=5, random_state=0).fit(X, target(X))
    forest = glasswood.load(model, check=X)
    check_rows(forest, None, X, predictions=model.predict)
    check_values(forest, model.predict, X, output="response")
    with pytest.raises(NotImplementedError, match=f"loss='{loss}'\\) predicts times but no curves"):
        glasswood.load(model, hazard_at=TIMES)


def test_a_curve_is_a_step_function():
    X = make_rows(0)
    model = ensemble.RandomSurvivalForest(3, random_state=0).fit(X, target(X))
    steps = model.unique_times_
    times = np.sort(np.concatenate([steps[5:9], np.nextafter(steps[5:9], 0), np.nextafter(steps[5:9], np.inf), [0]]))
    forest = glasswood.load(model, survival_at=times)
    np.testing.assert_allclose(forest.predict(X), curves(model, "survival_at", times)(X), atol=1e-14)


def test_pipelines_and_searches_of_forests():
    X = pd.DataFrame(make_rows(0), columns=list("abcd"))
    X["b"] = np.where(X["b"] > 0, "yes", "no")
    y = target(make_rows(0))
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    model = make_pipeline(encoder, ensemble.RandomSurvivalForest(3, max_depth=3, random_state=0)).fit(X[["b", "c"]], y)
    expected = np.array([step(TIMES) for step in model.predict_survival_function(X[["b", "c"]])])
    np.testing.assert_allclose(glasswood.load(model, survival_at=TIMES).predict(X[["b", "c"]]), expected, atol=1e-14)
    numbers = make_rows(0)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), ensemble.ExtraSurvivalTrees(3, max_depth=3, random_state=0)),
        {"extrasurvivaltrees__max_depth": [2, 3]},
        cv=2,
    ).fit(numbers, y)
    forest = glasswood.load(search, hazard_at=TIMES)
    expected = np.array([step(TIMES) for step in search.best_estimator_.predict_cumulative_hazard_function(numbers)])
    np.testing.assert_allclose(forest.predict(numbers), expected, atol=1e-12)


def test_files_keep_the_times(tmp_path):
    X = make_rows(0)
    model = ensemble.GradientBoostingSurvivalAnalysis(n_estimators=3, random_state=0).fit(X, target(X))
    forest = glasswood.load(model, survival_at=TIMES)
    forest.save(tmp_path / "forest.glasswood")
    again = glasswood.load(tmp_path / "forest.glasswood")
    assert again.output_names == forest.output_names
    np.testing.assert_array_equal(again.predict(X), forest.predict(X))


WRONG_TIMES = {"twice": [1, 1], "backwards": [2, 1], "negative": [-1, 1], "nan": [1, np.nan], "none": [], "text": ["a"]}


@pytest.mark.parametrize("name", WRONG_TIMES)
def test_times_that_make_no_curve(name):
    with pytest.raises(ValueError, match=r"survival_at is .*, expected times from 0 in increasing order"):
        glasswood.load(ensemble.RandomSurvivalForest(), survival_at=WRONG_TIMES[name])


def test_bad_input(tmp_path):
    X = make_rows(0)
    y = target(X)
    for kind in (ensemble.RandomSurvivalForest, ensemble.GradientBoostingSurvivalAnalysis, tree.SurvivalTree):
        with pytest.raises(ValueError, match="not fitted"):
            glasswood.load(kind())
    linear = ensemble.ComponentwiseGradientBoostingSurvivalAnalysis(n_estimators=2).fit(X, y)
    with pytest.raises(TypeError, match=r"which is not a tree ensemble of scikit-survival; expected one of "):
        glasswood.load(linear)
    model = ensemble.RandomSurvivalForest(2, max_depth=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"time 1e\+09 is beyond .*, the last that the model was trained on"):
        glasswood.load(model, survival_at=[1, 1e9])
    with pytest.raises(ValueError, match="survival_at and hazard_at ask for two forests"):
        glasswood.load(model, survival_at=[1], hazard_at=[1])
    path = tmp_path / "forest.glasswood"
    glasswood.load(model).save(path)
    for other in (path, glasswood.load(path)):
        with pytest.raises(TypeError, match=r"hazard_at is for live survival forests, got .*; pass the fitted model"):
            glasswood.load(other, hazard_at=[1])
    plain = pytest.importorskip("sklearn.ensemble").RandomForestRegressor(2).fit(X, X[:, 0])
    with pytest.raises(TypeError, match="RandomForestRegressor does not predict curves over time"):
        glasswood.load(plain, survival_at=[1])


def test_a_layout_of_another_version():
    """A leaf without the curves that this version keeps there."""
    X = make_rows(0)
    model = tree.SurvivalTree(max_depth=2, random_state=0).fit(X, target(X))
    model.is_event_time_ = model.is_event_time_[:-1]
    with pytest.raises(NotImplementedError, match=r"a leaf's value is .* layout of scikit-survival .* is not read"):
        glasswood.load(model)
