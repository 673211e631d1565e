"""`explainer(X)` on machines without shap."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glasswood import Explainer
from glasswood.explain.results.explanation import Explanation
from tests.strategies import Options, random_forest

X = np.random.default_rng(0).normal(size=(6, 4))

pytestmark = pytest.mark.usefixtures("without_shap")


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("interactions", [False, True])
def test_one_row_has_no_axis_of_rows(n_outputs, interactions):
    explainer = Explainer(random_forest(0, Options(n_trees=4, n_features=4, n_outputs=n_outputs)))
    whole = explainer(X, interactions=interactions)
    assert isinstance(whole, Explanation)
    for row in (explainer(X[2], interactions=interactions), whole[2]):
        assert isinstance(row, Explanation)
        np.testing.assert_array_equal(row.values, whole.values[2])
        np.testing.assert_array_equal(row.base_values, explainer.expected_value)
        np.testing.assert_array_equal(row.data, X[2])
        assert row.feature_names == whole.feature_names
        assert row.output_names == whole.output_names
        assert repr(row).startswith("Explanation(1 row, 4 features")
        assert row._repr_html_() == whole[2:3]._repr_html_().replace("1 rows", "1 row")


def test_rows_are_taken_as_arrays_take_them():
    whole = Explainer(random_forest(0, Options(n_trees=4, n_features=4)))(X)
    for rows in (slice(1, 4), np.array([4, 0]), X[:, 0] > 0):
        np.testing.assert_array_equal(whole[rows].values, whole.values[rows])
        np.testing.assert_array_equal(whole[rows].data, X[rows])
    assert repr(whole[1:4]).startswith("Explanation(3 rows")


def forest_of_three():
    forest = random_forest(0, Options(n_trees=6, n_features=4, n_outputs=3))
    classes = (np.array(["setosa", "versicolor", "virginica"]),)
    return dataclasses.replace(forest, feature_names=tuple("abcd"), classes=classes, prediction="argmax")


def test_features_and_outputs_are_taken_by_name_as_shap_takes_them():
    whole = Explainer(forest_of_three())(X)
    assert whole.shape == (6, 4, 3)
    assert len(whole) == 6
    one = whole[:, "b", "versicolor"]
    np.testing.assert_array_equal(one.values, whole.values[:, 1, 1])
    np.testing.assert_array_equal(one.data, X[:, 1])
    np.testing.assert_array_equal(one.base_values, whole.base_values[:, 1])
    assert (one.feature_names, one.output_names, one.shape) == ("b", "versicolor", (6,))
    output = whole[:, :, "virginica"]
    np.testing.assert_array_equal(output[2].values, whole.values[2, :, 2])
    np.testing.assert_array_equal(output[2, "c"].values, whole.values[2, 2, 2])
    np.testing.assert_array_equal(output.base_values, whole.base_values[:, 2])
    some = whole[1:3, [3, 0]]
    np.testing.assert_array_equal(some.values, whole.values[1:3][:, [3, 0]])
    np.testing.assert_array_equal(some.data, X[1:3][:, [3, 0]])
    assert some.feature_names == ["d", "a"]
    for part in (one, output, some, whole[0, "a"]):
        assert part._repr_html_().startswith("<div>")


def test_what_explanations_do_not_hold_is_refused_by_name():
    explainer = Explainer(forest_of_three())
    whole = explainer(X)
    for key, message in (
        ((slice(None), "e"), "no 'e' among its features; expected one of a, b, c, d"),
        ("a", "no 'a' among its rows; rows have numbers"),
        ((0, 0, 0, 0), r"has 3 axes \(rows, features, outputs\), not 4"),
    ):
        with pytest.raises(IndexError, match=message):
            whole[key]
    pairs = explainer(X, interactions=True)
    assert pairs[1:3].shape == (2, 4, 4, 3)
    assert pairs[:, :, :, 1:].output_names == ["versicolor", "virginica"]
    with pytest.raises(TypeError, match="selects only rows of interactions"):
        pairs[:, "a"]
