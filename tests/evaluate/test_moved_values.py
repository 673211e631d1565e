"""Predictions with values of one column from other rows have the bits of predictions of such rows."""

from __future__ import annotations

import numpy as np
import pytest

from glasswood.base.typing import Choice
from glasswood.evaluate.cpu import CpuEvaluator
from tests.evaluate.test_row_lanes import oblivious_forest
from tests.instruction_sets import run_again_on
from tests.strategies import Options, full_forest, random_forest, random_rows

SERIAL = Choice(1000, "cpu", "serial")


def forests():
    yield "oblivious", oblivious_forest(20, 5)
    yield "oblivious, one level", oblivious_forest(20, 1)
    yield "full", full_forest(0, 12, 4, 5)
    yield "full, 8 levels", full_forest(0, 40, 8, 5, "float64")  # more than 255 thresholds a column
    kinds = {
        "categories": Options(categorical=True, row_type="float64", n_outputs=3),
        "chains": Options(shape="mixed", categorical=True),
        "vector leaves": Options(n_outputs=4, vector_leaves=True, missing="zeros", row_type="float64"),
        "ties": Options(thresholds="ties", missing="marker"),
        "one tree": Options(categorical=True, n_features=2),
    }
    for name, options in kinds.items():
        for seed in range(3):
            drawn = {"n_trees": 1 if name == "one tree" else 12, "n_features": options.n_features + 2}
            yield f"{name} {seed}", random_forest(seed, Options(**{**vars(options), **drawn}))


@pytest.mark.parametrize("forest", [pytest.param(forest, id=name) for name, forest in forests()])
@pytest.mark.parametrize("n_rows", [1, 64, 65, 300])
def test_moved_values_have_the_bits_of_predictions(forest, n_rows):
    cpu, rng = CpuEvaluator(forest.ensemble), np.random.default_rng(n_rows)
    rows = random_rows(1, forest, n_rows, dtype=str(forest.ensemble.threshold.dtype))
    features = np.unique(forest.ensemble.feature[forest.ensemble.feature >= 0]).tolist()
    if not features:
        assert not cpu.can_move
        return
    sources = np.stack([np.arange(n_rows), rng.permutation(n_rows), rng.integers(0, n_rows, n_rows)])
    assert cpu.can_move
    found = cpu.moved_margins(rows, features, sources, 2)
    np.testing.assert_array_equal(cpu.moved_margins(np.asfortranarray(rows), features, sources, 1), found)
    for feature, margins in zip(features, found, strict=True):
        for source, margin in zip(sources, margins, strict=True):
            changed = rows.copy()
            changed[:, feature] = rows[source, feature]
            np.testing.assert_array_equal(margin, cpu.margins(changed, SERIAL, 1))


def test_what_cannot_be_moved_is_refused():
    forest = full_forest(0, 3, 4, 5)
    cpu, rows = CpuEvaluator(forest.ensemble), random_rows(0, forest, 10)
    with pytest.raises(ValueError, match="no such row"):
        cpu.moved_margins(rows, [0], np.full((1, 10), 10), 1)
    with pytest.raises(ValueError, match="no tree splits the feature"):
        cpu.moved_margins(rows, [17], np.zeros((1, 10), np.int64), 1)
    with pytest.raises(ValueError, match="wrong shape"):
        cpu.moved_margins(rows, [0], np.zeros((1, 9), np.int64), 1)
    assert not CpuEvaluator(full_forest(0, 3, 9, 5).ensemble).can_move


@pytest.mark.parametrize("level", ["v2", "v3"])
def test_on_older_processors(level):
    run_again_on(level, __file__, "bits")
