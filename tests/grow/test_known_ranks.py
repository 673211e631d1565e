"""Ranks of some rows from those of all: number by number what sorting finds, so that searches take the same path."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

import glasswood
from glasswood.grow.data.columns import TrainingColumns
from glasswood.grow.data.sorting import KnownRanks, Sorter
from tests.grow.engines import piecewise

rng = np.random.default_rng(0)
COLUMNS = {
    "numbers": rng.standard_normal(1000) * 10.0 ** rng.integers(-300, 300, 1000),
    "ties": rng.integers(-3, 4, 1000).astype(float),
    "both zeros and missing values": rng.choice([0.0, -0.0, 5e-324, -5e-324, np.nan, -np.nan, 1.0], 1000),
    "all missing": np.full(1000, np.nan),
    "one value": np.full(1000, 2.5),
}
ROWS = {
    "all": np.arange(1000),
    "in another order": rng.permutation(1000),
    "some": np.sort(rng.permutation(1000)[:700]),
    "repeated": rng.integers(0, 1000, 1500),
    "one": np.array([7]),
}
X = np.column_stack(list(COLUMNS.values()))
KNOWN = KnownRanks.of(X, np.array([True] * X.shape[1]), 2, Sorter())


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("column", range(len(COLUMNS)))
def test_ranks_are_those_of_sorting(column, rows):
    rows = ROWS[rows].astype(np.int32)
    half = len(rows) // 2
    known = KNOWN.taken(np.roll(rows, half)).taken(
        np.roll(np.arange(len(rows), dtype=np.int32), -half)
    )  # of some again
    values = X[rows, column]
    found, expected = [], []
    for result, rank in ((found, lambda *arrays: known.rank(column, *arrays)), (expected, Sorter().rank)):
        ranks, order = np.empty((2, len(rows)), np.int32)
        distinct, starts = np.empty(len(rows)), np.empty(len(rows) + 1, np.int32)
        n = rank(values, ranks, order, distinct, starts)
        result += [ranks, order, distinct[:n].view(np.int64), starts[: n + 1]]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def frame_of(n_rows):
    values, y = piecewise(n_rows)
    frame = pd.DataFrame(values, columns=[f"x{k}" for k in range(values.shape[1])])
    frame.loc[::7, "x1"] = np.nan
    frame["kind"] = pd.Categorical(rng.choice(list("abcd"), n_rows))
    return frame, y + 3.0 * (frame["kind"] == "c")


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("mean", {"honest": 0.5}),
        pytest.param("mean", {"monotonic_cst": {"x0": 1}}, marks=pytest.mark.slow),
        ("boosting", {}),
        pytest.param("boosting", {"loss": "huber"}, marks=pytest.mark.slow),
    ],
)
def test_ensembles_have_the_trees_that_sorting_gives(monkeypatch, method, changes):
    frame, y = frame_of(300)
    tree = glasswood.ModelTreeRegressor(generations=3, max_leaves=4, population_size=8, **changes)
    model = glasswood.ModelTreeEnsembleRegressor(tree, method=method, n_estimators=2, max_trees=4, n_jobs=1)
    known = model.fit(frame, y).forest_.ensemble
    monkeypatch.setattr(TrainingColumns, "ranked", lambda columns, *_: columns)
    sorted_ = model.fit(frame, y).forest_.ensemble
    for name in ("feature", "threshold", "linear_coefficient"):
        np.testing.assert_array_equal(getattr(known, name), getattr(sorted_, name))


def test_a_sequence_sorts_its_numbers_once(monkeypatch):
    values, y = piecewise(200)
    n_sorted, original = [], Sorter.rank
    monkeypatch.setattr(Sorter, "rank", lambda *arguments: n_sorted.append(1) or original(*arguments))
    glasswood.ModelTreeEnsembleClassifier(method="boosting", n_estimators=1, max_trees=3, n_jobs=1).fit(values, y > 0)
    assert len(n_sorted) == values.shape[1]
