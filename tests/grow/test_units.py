"""Other units of the target and of columns grow the same trees."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.base import clone

from tests.grow.test_row_order import fits, predicted

UNITS = {
    "target": (1000 / 3, 0, 1),
    "target, shifted": (1.8, 32, 1),
    "columns": (1, 0, 1024.0),
    "all": (0.3048, 0, 2.0**-10),
}
"""Factor and shift of the target, factor of the columns: a power of two, since searches for classes meet trees that are
equal but for rounding."""


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 3)).round(2)
    X[::9, 2] = np.nan
    return X, X[:, 0] - X[:, 1] * np.nan_to_num(X[:, 2]) + 0.5 * rng.normal(size=len(X))


@pytest.mark.sizes("each")
@pytest.mark.parametrize("units", list(UNITS))
@pytest.mark.parametrize("name", list(fits()))
def test_units_change_no_tree(name, units, data, request):
    if name != "smooth":
        request.getfixturevalue("unjudged")
    model, is_classifier = fits()[name]
    X, y = data
    factor, shift, of_columns = UNITS[units]
    if is_classifier:
        y, factor, shift = np.digitize(y, [-0.5, 0.8]), 1, 0
    expected = predicted(clone(model), X, y, X) * factor + shift
    found = predicted(clone(model), X * of_columns, y if is_classifier else y * factor + shift, X * of_columns)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * factor)
