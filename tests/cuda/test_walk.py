"""The CUDA walk's header under g++, with its tapes and rank codes, against the oracle: no GPU is needed."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import glasswood.explain.cuda.tapes
from glasswood.cuda.codes import encode_forest
from glasswood.explain.cuda.results import find_targets
from tests.native import load_library
from tests.oracles import evaluate, shapley
from tests.strategies import forests_and_rows


@pytest.fixture(scope="module")
def walk():
    return load_library(Path(__file__).with_name("walk_host.cpp")).walk


@pytest.fixture(autouse=True, scope="module")
def eight_points():
    """The host program is compiled for eight points: small forests take them too, weights of 0 fill up."""
    patch = pytest.MonkeyPatch()
    original = glasswood.explain.cuda.tapes.quadrature

    def padded(points):
        per_pass, t, w = original(points)
        n_passes = len(t) // per_pass
        long = np.full((n_passes, 8), 0.5), np.zeros((n_passes, 8))
        long[0][:, :per_pass], long[1][:, :per_pass] = t.reshape(n_passes, -1), w.reshape(n_passes, -1)
        return 8, long[0].ravel(), long[1].ravel()

    patch.setattr(glasswood.explain.cuda.tapes, "quadrature", padded)
    yield
    patch.undo()


def codes_of(forest, codes, X):
    """Rank codes one value at a time, by the meaning of Forest's fields."""
    rows = evaluate.routed_values(forest, X)
    result = np.zeros((len(rows), max(codes.n_columns, 1)), np.int32)
    for column in range(codes.n_columns):
        thresholds = codes.thresholds[codes.offsets[column] : codes.offsets[column + 1]]
        node = int(np.flatnonzero((codes.node_column == column) & (forest.ensemble.feature >= 0))[0])
        x = rows[:, codes.feature[column]]
        if codes.category_set[column] >= 0:
            result[:, column] = ~evaluate.goes_left(forest, node, x)
        else:
            reached = np.searchsorted(thresholds[thresholds < np.inf], x, side="right")
            result[:, column] = np.where(np.isnan(x), codes.missing[column], reached)
    return result


def aligned(words):
    """A copy of the tape on the boundary that its records ask for."""
    room = np.zeros(len(words) + 64, np.int32)
    start = -room.ctypes.data // 4 % 8
    room[start : start + len(words)] = words
    return room[start : start + len(words)]


def explain(walk, forest, X):
    codes = encode_forest(forest)
    tapes = glasswood.explain.cuda.tapes.write_tapes(forest, codes, "float64", pairs=True)
    row_codes = codes_of(forest, codes, X)
    parts = []
    for tape in tapes:
        words, sums = aligned(tape.words), np.zeros((len(X), len(tape.slot_keys)))
        for row in range(len(X)):
            arrays = (words, tape.chunk_starts, tape.slot_offsets, row_codes[row], sums[row])
            tape_, starts, slots, row_, sums_ = (array.ctypes.data_as(ctypes.c_void_p) for array in arrays)
            walk(tape_, starts, slots, ctypes.c_longlong(len(tape.chunk_starts)), row_, sums_)
        parts.append(sums)
    keys = np.concatenate([tape.slot_keys for tape in tapes] or [np.zeros(0, np.int64)])
    return keys, np.concatenate(parts, axis=1) if parts else np.zeros((len(X), 0))


def gather(forest, keys, sums, pairs):
    """Values or interactions off the diagonal of the accumulators."""
    n_features, n_outputs = forest.n_features, forest.n_outputs
    is_single = keys // n_features % n_features == keys % n_features
    chosen = np.flatnonzero(is_single != pairs)
    targets = find_targets(keys[chosen], n_features, n_outputs, pairs, np.arange(n_features))
    shape = (n_features, n_features, n_outputs) if pairs else (n_features, n_outputs)
    result = np.zeros((len(sums), int(np.prod(shape))))
    for entry, (begin, end) in enumerate(zip(targets.slot_starts[:-1], targets.slot_starts[1:], strict=True)):
        total = sums[:, chosen[targets.slots[begin:end]]].sum(axis=1)
        result[:, targets.target[entry]] = total
        if targets.mirror[entry] >= 0:
            result[:, targets.mirror[entry]] = total
    return result.reshape(len(sums), *shape)


@given(example=forests_and_rows(max_rows=6))
def test_the_walk_computes_values_and_interactions(walk, example):
    forest, X = example
    keys, sums = explain(walk, forest, X)
    sides = shapley.sides(forest, X)
    allowed = 1e-12 * shapley.leaf_spread(forest)
    assert (np.abs(gather(forest, keys, sums, False) - shapley.values(forest, sides)) <= allowed).all()
    expected = shapley.interactions(forest, sides)
    diagonal = np.arange(forest.n_features)
    expected[:, diagonal, diagonal] = 0
    assert (np.abs(gather(forest, keys, sums, True) - expected) <= allowed).all()


@given(example=forests_and_rows(max_rows=30))
def test_codes_route_as_the_forest(example):
    forest, X = example
    codes = encode_forest(forest)
    left = codes_of(forest, codes, X)[:, codes.node_column] < codes.node_rank
    splits = forest.ensemble.feature >= 0
    np.testing.assert_array_equal(left[:, splits], shapley.sides(forest, X)[:, splits])
