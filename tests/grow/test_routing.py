"""scikit-learn's metadata routing hands weights to estimators, and `set_output` names what pipelines pass on."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.model_selection import GridSearchCV, KFold, cross_validate  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

TREE = {"generations": 2, "time_limit": 60, "random_state": 0, "n_jobs": 1}
ESTIMATORS = {
    "tree": glasswood.ModelTreeRegressor(**TREE),
    "classifier": glasswood.ModelTreeClassifier(**TREE),
    "ensemble": glasswood.ModelTreeEnsembleRegressor(
        glasswood.ModelTreeRegressor(**TREE), n_estimators=2, random_state=0
    ),
    "additive": glasswood.AdditiveRegressor(interactions=0, random_state=0, n_jobs=1),
}


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def data(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + np.abs(X[:, 1]) + rng.normal(size=200)
    return X, y > 0.5 if name == "classifier" else y, rng.integers(1, 4, 200).astype(float)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_weights_reach_fit_and_score_where_they_are_asked_for(name):
    X, y, weights = data(name)
    asked = clone(ESTIMATORS[name]).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    folds = KFold(2)
    found = cross_validate(asked, X, y, params={"sample_weight": weights}, cv=folds)["test_score"]
    for score, (train, test) in zip(found, folds.split(X), strict=True):
        model = clone(ESTIMATORS[name]).fit(X[train], y[train], sample_weight=weights[train])
        assert score == model.score(X[test], y[test], sample_weight=weights[test])
    ignored = clone(ESTIMATORS[name]).set_fit_request(sample_weight=False).set_score_request(sample_weight=True)
    search = GridSearchCV(ignored, {}, cv=folds, refit=False).fit(X, y, sample_weight=weights)
    plain = [clone(ESTIMATORS[name]).fit(X[a], y[a]).score(X[b], y[b], weights[b]) for a, b in folds.split(X)]
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(plain), abs=1e-15)


@pytest.mark.usefixtures("routing")
def test_weights_that_nobody_asked_for_are_refused():
    X, y, weights = data("tree")
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="set_fit_request"):
        cross_validate(clone(ESTIMATORS["tree"]), X, y, params={"sample_weight": weights}, cv=2)


def test_pipelines_pass_names_on():
    pandas = pytest.importorskip("pandas")
    X, y, weights = data("tree")
    frame = pandas.DataFrame(X, columns=["age", "income", "rooms"]).assign(kind=np.where(X[:, 2] > 0, "flat", "house"))
    frame["kind"] = frame["kind"].astype("category")
    columns = make_column_transformer((StandardScaler(), ["age", "income"]), remainder="passthrough")
    model = make_pipeline(columns, clone(ESTIMATORS["tree"])).set_output(transform="pandas")
    model.fit(frame, y, modeltreeregressor__sample_weight=weights)
    names = ["standardscaler__age", "standardscaler__income", "remainder__rooms", "remainder__kind"]
    assert model[-1].feature_names_in_.tolist() == names
    assert list(model[-1].forest_.feature_names) == names
    assert model[-1].forest_.ensemble.categories[3].tolist() == ["flat", "house"]
    np.testing.assert_array_equal(model.predict(frame[::-1])[::-1], model.predict(frame))
