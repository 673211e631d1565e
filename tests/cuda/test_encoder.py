"""Rows to rank codes, against sorting: buckets, search trees, staged thresholds and thresholds where they are."""

from __future__ import annotations

import types

import numpy as np
import pytest

from glasswood.cuda.codes import Codes
from glasswood.cuda.encoder import CodeTables

pytestmark = pytest.mark.usefixtures("gpu")
rng = np.random.default_rng(0)
EMPTY = np.zeros(0)
COLUMNS = {
    "normal": np.quantile(rng.normal(size=9999), np.arange(1, 256) / 256),
    "uniform": np.linspace(-3, 7, 100),
    "one": np.array([0.25]),
    "zeros and neighbours": np.array([-1e-45, 0.0, 1e-45, 1.0]),
    "next to each other": 1 + np.arange(5) * 2.0**-23,
    "from end to end": np.array([-3e38, -1.0, 2.0, 3e38]),
    "infinite": np.array([-np.inf, -2.0, 5.0, np.inf]),
    "nothing finite": np.array([np.inf]),
    "over many magnitudes": np.exp(np.linspace(-40, 40, 255)),
    "too many for a byte": np.linspace(0, 1, 300),
}
IN_BUCKETS = set(COLUMNS) - {"nothing finite", "over many magnitudes", "too many for a byte"}


def tables_of(columns, dtype, **meaning):
    thresholds = [np.unique(values.astype(dtype)) for values in columns]
    sizes = [len(values) for values in thresholds]
    n_columns = len(columns)
    codes = Codes(
        node_column=EMPTY.astype(np.int32),
        node_rank=EMPTY.astype(np.int32),
        feature=np.arange(n_columns, dtype=np.int32),
        category_set=np.full(n_columns, -1, np.int32),
        missing=np.where(np.arange(n_columns) % 2, sizes, 0).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        thresholds=np.concatenate(thresholds),
    )
    fields = {"zero_missing": EMPTY.astype(bool), "zero_threshold": 0.0, "missing": np.nan, **meaning}
    sets = {"set_offsets": np.zeros(1, np.int64), "set_words": EMPTY.astype(np.uint32), "set_others_left": EMPTY > 0}
    return CodeTables(types.SimpleNamespace(**fields, **sets), codes, np.uint16), thresholds


def values_around(thresholds, n_rows, dtype):
    """Thresholds, their neighbours, special values and others, (n_rows, n_columns)."""
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e38, -1e38, 1e-45], dtype)
    columns = []
    for values in thresholds:
        sides = [np.nextafter(values, dtype(side), dtype=dtype) for side in (-np.inf, np.inf)]
        near = np.concatenate([values, *sides, special, rng.normal(size=64).astype(dtype)])
        columns.append(rng.permutation(np.resize(near, n_rows)))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize(
    "shape", [(1, 0), (1, 999), (10**9, 0), (10**9, 999)], ids=["wide", "wide, two", "8", "8, two"]
)
@pytest.mark.parametrize("is_staged", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_are_ranks(limits, dtype, is_staged, shape):
    """A column of each kind, and more of one kind than a tile has columns, for whole tiles and a rest."""
    import cupy

    wide_values, small_table = shape
    limits(encoder_wide_values=wide_values, encoder_small_table=small_table)
    if not is_staged:
        limits(encoder_shared_bytes=0)
    tables, thresholds = tables_of([*COLUMNS.values(), *[COLUMNS["normal"]] * 35], dtype)
    X = values_around(thresholds, 1100, dtype)
    with np.errstate(over="ignore"):
        found = cupy.asnumpy(tables.encode(cupy.asarray(X), 1280))
    assert (found[:, 1100:] == 0).all()
    for column, values in enumerate(thresholds):
        x = X[:, column]
        expected = np.searchsorted(values[values < np.inf], x, side="right")
        expected = np.where(np.isnan(x), tables.codes.missing[column], expected)
        np.testing.assert_array_equal(found[column, :1100], expected)


def test_which_columns_have_buckets():
    tables, _ = tables_of(COLUMNS.values(), np.float32)
    steps = tables._search.buckets[:, 2]
    assert {name for name, n in zip(COLUMNS, steps, strict=True) if n} == IN_BUCKETS
    assert steps[list(COLUMNS).index("normal")] <= 2


def test_zeros_that_are_missing():
    import cupy

    columns = [np.array([-1.0, 0.0, 1.0])] * 2
    tables, _ = tables_of(columns, np.float32, zero_missing=np.array([False, True]), zero_threshold=1e-3)
    X = np.repeat(np.array([[-1e-4], [0.0], [1e-4], [2e-3]], np.float32), 2, axis=1)
    np.testing.assert_array_equal(
        cupy.asnumpy(tables.encode(cupy.asarray(X), 128))[:, :4], [[2, 2, 2, 2], [3, 3, 3, 2]]
    )
