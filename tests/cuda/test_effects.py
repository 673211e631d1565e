"""Effects whose predictions run on a GPU, beside those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from tests.strategies import Options, random_forest, random_rows

pytestmark = pytest.mark.usefixtures("gpu")


def on(device, call):
    """Call with this device."""
    with glasswood.config_context(device=device):
        return call()


@pytest.mark.parametrize("row_type", ["float32", "float64"])
def test_accumulated_effects_on_a_gpu_are_those_of_the_cpu(row_type):
    forest = random_forest(0, Options(n_trees=4, n_features=3, row_type=row_type))
    rows = random_rows(0, forest, 60, dtype=row_type)
    found, expected = (on(device, lambda: glasswood.effects(forest, rows)) for device in ("cuda", "cpu"))
    np.testing.assert_array_equal(found.dependence(0, 1).average, expected.dependence(0, 1).average)
    for features in ((0,), (0, 1)):
        ale = [one.ale(*features, bins=4).average for one in (found, expected)]
        np.testing.assert_allclose(*ale, rtol=1e-6, atol=1e-6 * np.abs(ale[1]).max())


@pytest.mark.parametrize("row_type", ["float32", "float64"])
def test_permutation_importance_on_a_gpu_is_that_of_the_cpu(row_type):
    forest = random_forest(0, Options(n_trees=4, n_features=3, row_type=row_type))
    rows = random_rows(0, forest, 60, dtype=row_type)
    y = np.random.default_rng(0).normal(size=60)
    settings = {"n_repeats": 2, "random_state": 0}
    found, expected = (
        on(device, lambda: glasswood.permutation_importance(forest, rows, y, **settings).importances)
        for device in ("cuda", "cpu")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
