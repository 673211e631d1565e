"""The strongest interactions on GPUs, emulated and real, against their own matrices and against the cores."""

from __future__ import annotations

import numpy as np
import pytest

from glasswood import Explainer
from tests.strategies import Options, full_forest, random_forest

pytestmark = pytest.mark.usefixtures("gpu")


def by_sorting(entries, top):
    """Places and numbers of the largest magnitudes, (n, top), of equal ones the first."""
    places = np.argsort(-np.abs(entries), axis=1, kind="stable")[:, :top]
    return places, np.take_along_axis(entries, places, axis=1)


@pytest.fixture(params=["tables", "walk", "outputs", "background"])
def example(request):
    X = np.random.default_rng(1).normal(size=(45, 7)).astype(np.float32)
    if request.param == "outputs":
        return random_forest(3, Options(n_trees=9, n_features=7, n_outputs=3)), X, {}
    options = {"algorithm": "quadrature"} if request.param == "walk" else {}
    options |= {"background": X[:9]} if request.param == "background" else {}
    return full_forest(2, n_trees=4, depth=5, n_features=7), X, options


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_strongest_of_each_row_and_overall(example, dtype, limits):
    """Batches of seven rows; lists of one, some and all pairs, longer ones than GPUs keep included."""
    import cupy

    forest, X, options = example
    explainer = Explainer(forest, device="cuda", dtype=dtype, **options)
    matrices = np.asarray(explainer.shap_interaction_values(X)).reshape(len(X), 7, 7, -1)
    i, j = np.triu_indices(7, 1)
    entries = matrices[:, i, j]
    limits(matrix_bytes=7 * 49 * matrices.itemsize * entries.shape[2], most_listed=20, strongest_kept=0, least_probed=3)
    for top in (1, 4, 20, 21):
        expected, numbers = by_sorting(entries, top)
        for rows in (X, cupy.asarray(X)):
            pairs, values = explainer.shap_interaction_values(rows, top=top)
            assert (type(values), values.dtype, pairs.dtype) == (type(rows), dtype, np.int32)
            pairs, values = cupy.asnumpy(pairs), cupy.asnumpy(values)
            np.testing.assert_array_equal(values.reshape(numbers.shape), numbers)
            found = pairs.reshape(len(X), top, 2, -1)
            np.testing.assert_array_equal(found[:, :, 0], i[expected])
            np.testing.assert_array_equal(found[:, :, 1], j[expected])
    strength = np.abs(entries).sum(axis=(0, 2), dtype=np.float64)
    chosen = np.argsort(-strength, kind="stable")[:3]
    for rows in (X, cupy.asarray(X)):
        pairs, values = explainer.shap_interaction_values(rows, top=3, overall=True)
        assert type(pairs) is type(values) is type(rows)
        np.testing.assert_array_equal(cupy.asnumpy(pairs), np.stack([i, j], axis=1)[chosen])
        np.testing.assert_array_equal(cupy.asnumpy(values).reshape(len(X), 3, -1), entries[:, chosen])


def test_pairs_of_some_features(example):
    forest, X, options = example
    explainer = Explainer(forest, device="cuda", **options)
    matrices = np.asarray(explainer.shap_interaction_values(X)).reshape(len(X), 7, 7, -1)
    pairs, values = explainer.shap_interaction_values(X, features=[5, 2], top=3)
    found = pairs.reshape(len(X), 3, 2, -1)
    assert np.isin(found, [2, 5]).any(axis=2).all()
    rows, _, outputs = np.indices(values.reshape(len(X), 3, -1).shape)
    # Matrices of some features are other sums on a GPU: not the same bits.
    shown = matrices[rows, found[:, :, 0], found[:, :, 1], outputs]
    np.testing.assert_allclose(values.reshape(shown.shape), shown, atol=1e-5 * np.abs(matrices).max())
