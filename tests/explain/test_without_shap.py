"""`explainer(X)` on machines without shap."""

from __future__ import annotations

import numpy as np
import pytest

from silva import Explainer
from silva.explain.explanation import Explanation
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
    with pytest.raises(TypeError, match=r"expected rows alone; index explanation\.values"):
        whole[:, 0]
