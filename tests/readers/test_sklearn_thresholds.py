"""scikit-learn's wrappers of thresholds and frozen models, and names of columns with levels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV

import glasswood

frozen = pytest.importorskip("sklearn.frozen")


def make_data():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(300, 3)) * 4) / 4
    return X, np.where(X[:, 0] + rng.normal(size=300) > 1, "yes", "no")


@pytest.mark.parametrize(
    "model", [RandomForestClassifier(6, max_depth=4, random_state=0), GradientBoostingClassifier(n_estimators=6)]
)
@pytest.mark.parametrize("response", ["auto", "predict_proba", "decision_function"])
@pytest.mark.parametrize("threshold", ["auto", 0.2, 0.7])
def test_labels_are_those_of_the_threshold(model, response, threshold):
    if response == "decision_function" and not hasattr(model, "decision_function"):
        pytest.skip("forests have none")
    X, y = make_data()
    wrapped = FixedThresholdClassifier(model, threshold=threshold, response_method=response).fit(X, y)
    forest = glasswood.load(wrapped)
    np.testing.assert_array_equal(forest.predict(X), wrapped.predict(X))
    np.testing.assert_allclose(forest.predict(X, "probability"), wrapped.predict_proba(X), atol=1e-12)


def test_thresholds_on_a_score_that_rows_have():
    """At least the threshold is enough."""
    X, y = make_data()
    model = RandomForestClassifier(6, max_depth=4, random_state=0).fit(X, y)
    for threshold in np.unique(model.predict_proba(X)[:, 1])[5:10]:
        wrapped = FixedThresholdClassifier(frozen.FrozenEstimator(model), threshold=threshold).fit(X, y)
        np.testing.assert_array_equal(glasswood.load(wrapped).predict(X), wrapped.predict(X))


def test_tuned_thresholds_and_what_is_refused():
    X, y = make_data()
    tuned = TunedThresholdClassifierCV(GradientBoostingClassifier(n_estimators=6), cv=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(glasswood.load(tuned).predict(X), tuned.predict(X))
    first = FixedThresholdClassifier(GradientBoostingClassifier(n_estimators=2), pos_label="no").fit(X, y)
    with pytest.raises(NotImplementedError, match=r"pos_label is the first of its classes .* load model\.estimator_"):
        glasswood.load(first)


def test_frozen_models_are_what_they_hold():
    X, _ = make_data()
    model = RandomForestRegressor(3, random_state=0).fit(X, X[:, 0])
    np.testing.assert_allclose(glasswood.load(frozen.FrozenEstimator(model)).predict(X), model.predict(X))


def test_folders_of_others_are_named(tmp_path):
    (tmp_path / "data_spec.pb").write_bytes(b"")
    with pytest.raises(IsADirectoryError, match=r"is a folder of YDF; load it by ydf\.load_model\(path\)"):
        glasswood.load(tmp_path)
