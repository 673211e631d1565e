"""The strongest interactions of rows and over all rows, against the matrices."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from glasswood import Explainer, _core
from glasswood.explain import strongest
from tests.strategies import Options, full_forest, random_forest, random_rows


def by_sorting(matrices, top, features=None):
    """Pairs and entries of one row's matrix (F, F), by falling magnitude, of equal ones the first pair."""
    pairs = [
        pair
        for pair in itertools.combinations(range(len(matrices)), 2)
        if features is None or set(pair) & set(features)
    ]
    chosen = sorted(pairs, key=lambda pair: -abs(matrices[pair]))[:top]
    return np.array(chosen), np.array([matrices[pair] for pair in chosen])


@pytest.fixture(params=["path-dependent", "background"])
def example(request):
    forest = full_forest(2, n_trees=6, depth=5, n_features=7)
    X = np.random.default_rng(1).normal(size=(50, 7))
    return Explainer(forest, X[20:] if request.param == "background" else None), X


@pytest.mark.parametrize("top", [1, 4, 21])
def test_strongest_pairs_of_each_row(example, top, limits):
    """Matrices of three rows at a time."""
    limits(strongest_together=3 * 4 * 49, rows_a_thread=1)
    explainer, X = example
    matrices = explainer.shap_interaction_values(X)
    pairs, values = explainer.shap_interaction_values(X, top=top)
    assert (pairs.dtype, values.dtype) == (np.int32, np.float32)
    for row, matrix in enumerate(matrices):
        expected_pairs, expected = by_sorting(matrix, top)
        np.testing.assert_array_equal(values[row], expected)
        np.testing.assert_array_equal(pairs[row], expected_pairs)


def test_pairs_of_some_features(example):
    explainer, X = example
    matrices = explainer.shap_interaction_values(X)
    pairs, values = explainer.shap_interaction_values(X, features=[5, 2], top=11)
    for row, matrix in enumerate(matrices):
        expected_pairs, expected = by_sorting(matrix, 11, [5, 2])
        np.testing.assert_array_equal(pairs[row], expected_pairs)
        np.testing.assert_array_equal(values[row], expected)


def test_strongest_pairs_overall(example, limits):
    explainer, X = example
    matrices = explainer.shap_interaction_values(X)
    expected, _ = by_sorting(np.abs(matrices).mean(axis=0, dtype=np.float64), 5)
    limits(strongest_together=9 * 4 * 49, rows_a_thread=1)
    pairs, values = explainer.shap_interaction_values(X, top=5, overall=True)
    np.testing.assert_array_equal(pairs, expected)
    np.testing.assert_array_equal(values, matrices[:, pairs[:, 0], pairs[:, 1]])


@pytest.mark.parametrize("unlucky", [False, True])
def test_entries_of_candidates_are_taken_in_one_pass(example, unlucky, monkeypatch, limits):
    """Candidates come from some of the rows; if other pairs are the strongest of all, their entries are taken again."""
    explainer, X = example
    if unlucky:
        X = np.concatenate([X[:1], *[X[1:2]] * 40])
    matrices = explainer.shap_interaction_values(X)
    expected, _ = by_sorting(np.abs(matrices).sum(axis=0, dtype=np.float64), 2)
    limits(strongest_kept=0, probed=64, least_probed=1, candidates=1)
    calls = []
    magnitudes = strongest.HostPairs.magnitudes

    def counted(*arguments):
        calls.append(len(arguments[1]))
        return magnitudes(*arguments)

    monkeypatch.setattr(strongest.HostPairs, "magnitudes", counted)
    pairs, values = explainer.shap_interaction_values(X, top=2, overall=True)
    np.testing.assert_array_equal(pairs, expected)
    np.testing.assert_array_equal(values, matrices[:, pairs[:, 0], pairs[:, 1]])
    assert calls[0] == 1
    assert len(calls) == (3 if unlucky else len(calls))


def test_lists_of_all_pairs():
    """Longer ones are sorted, shorter ones inserted; NaN, which comes of infinite leaves, counts as the largest."""
    rng = np.random.default_rng(0)
    matrices = rng.integers(-3, 4, size=(30, 100, 2)).astype(np.float32)  # many are equal
    matrices[3, 7, 1], matrices[4, 8, 0] = np.nan, -np.inf
    entries = np.sort(rng.permutation(100)[:80])
    strength = np.nan_to_num(np.abs(matrices[:, entries]), nan=np.inf)
    order = np.argsort(-strength, axis=1, kind="stable")
    for top in (1, 32, 33, 80):
        places, values = np.empty((30, top, 2), np.int32), np.empty((30, top, 2), np.float32)
        _core.strongest_entries(matrices, entries, places, values, 2)
        np.testing.assert_array_equal(places, order[:, :top])
        np.testing.assert_array_equal(values, np.take_along_axis(matrices[:, entries], order[:, :top], axis=1))
    total = np.zeros(80)
    with np.errstate(invalid="ignore"):
        _core.add_magnitudes(matrices, entries, total, 2)
        np.testing.assert_array_equal(total, np.abs(matrices[:, entries]).sum(axis=(0, 2), dtype=np.float64))
    with pytest.raises(ValueError, match="lies outside"):
        _core.strongest_entries(matrices, entries + 60, places, values, 1)


def test_several_outputs():
    forest = random_forest(3, Options(n_trees=12, n_features=6, n_outputs=3))
    X = random_rows(4, forest, 30)
    explainer = Explainer(forest)
    matrices = explainer.shap_interaction_values(X)
    pairs, values = explainer.shap_interaction_values(X, top=3)
    assert (pairs.shape, values.shape) == ((30, 3, 2, 3), (30, 3, 3))
    for row, output in np.ndindex(30, 3):
        expected_pairs, expected = by_sorting(matrices[row, ..., output], 3)
        np.testing.assert_array_equal(pairs[row, ..., output], expected_pairs)
        np.testing.assert_array_equal(values[row, :, output], expected)
    pairs, values = explainer.shap_interaction_values(X, top=3, overall=True)
    strength = np.abs(matrices).sum(axis=(0, 3), dtype=np.float64)
    np.testing.assert_array_equal(pairs, by_sorting(strength, 3)[0])
    np.testing.assert_array_equal(values, matrices[:, pairs[:, 0], pairs[:, 1]])


def test_labels_are_those_of_the_rows(limits):
    forest = dataclasses.replace(full_forest(2, n_trees=3, depth=3, n_features=4), link="logistic")
    X = np.random.default_rng(1).normal(size=(20, 4))
    y = np.arange(20) % 2
    explainer = Explainer(forest, X, output="log_loss", rule="rescale")
    matrices = explainer.shap_interaction_values(X, y=y)
    limits(strongest_together=3 * 4 * 16, rows_a_thread=1)
    pairs, values = explainer.shap_interaction_values(X, y=y, top=2)
    np.testing.assert_array_equal(values, matrices[np.arange(20)[:, None], pairs[..., 0], pairs[..., 1]])
    with pytest.raises(ValueError, match=r"y has shape \(21,\), expected \(20,\)"):
        explainer.shap_interaction_values(X, y=np.zeros(21), top=2)


def test_no_rows(example):
    explainer, X = example
    pairs, values = explainer.shap_interaction_values(X[:0], top=2)
    assert (pairs.shape, values.shape) == ((0, 2, 2), (0, 2))
    pairs, values = explainer.shap_interaction_values(X[:0], top=2, overall=True)
    assert (pairs.shape, values.shape) == ((2, 2), (0, 2))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"top": 22}, ValueError, "top is 22, expected 1 to 21, the number of pairs of features"),
        ({"top": 0}, ValueError, "top is 0, expected 1 to 21"),
        ({"top": 7, "features": [3]}, ValueError, "top is 7, expected 1 to 6, the number of pairs of features"),
        ({"top": 1.5}, TypeError, "top is 1.5, expected a number of pairs"),
        ({"overall": True}, ValueError, "pass top, how many of them"),
        ({"top": 2, "out": np.zeros((3, 7, 7))}, ValueError, "leave out=None with top"),
    ],
)
def test_what_is_no_top_is_refused_in_a_sentence(options, error, message):
    explainer = Explainer(full_forest(0, n_trees=2, depth=3, n_features=7))
    with pytest.raises(error, match=message):
        explainer.shap_interaction_values(np.zeros((3, 7)), **options)
