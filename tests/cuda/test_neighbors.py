"""The most similar rows on a GPU beside those of the CPU, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from glasswood.base.device import DeviceError
from glasswood.neighbors.cuda import CudaShares
from glasswood.neighbors.index import LeafIndex, list_rows
from tests.strategies import full_forest

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.mark.parametrize(
    ("n_rows", "n_queries", "n_trees", "k"), [(200, 70, 40, 5), (64, 64, 32, 64), (130, 3, 3, 1), (1, 5, 1, 1)]
)
@pytest.mark.parametrize("weights", ["same", "different"])
def test_nearest_rows_are_those_of_the_cpu(n_rows, n_queries, n_trees, k, weights):
    rng = np.random.default_rng(n_rows)
    forest = glasswood.load(full_forest(0, n_trees, 3, 4)).ensemble
    first = forest.leaf_offsets[:-1]
    training, queries = (
        (rng.integers(0, 8, (n, n_trees)) * rng.integers(0, 2, (n, 1)) + first).astype(np.int32)
        for n in (n_rows, n_queries)
    )
    weight = np.ones(n_trees, np.int64) if weights == "same" else rng.integers(0, 900, n_trees)
    index = LeafIndex(forest, list_rows(forest, training, 1), weight, None, None)
    index.positions = training
    shares = CudaShares(index, 0)
    for positions, own in ((queries, -1), (training[n_rows // 2 :].copy(), n_rows // 2)):
        for one, other in zip(shares.nearest(positions, k, own), index.nearest(positions, k, own, 1), strict=True):
            np.testing.assert_array_equal(one, other)


def test_neighbors_ask_the_gpu():
    pytest.importorskip("sklearn")
    from sklearn.ensemble import RandomForestRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    neighbors = glasswood.Neighbors(RandomForestRegressor(9, min_samples_leaf=3, random_state=0).fit(X, X[:, 0]), X)
    for rows in (X[:50] + 0.1, None):
        with glasswood.config_context(device="cpu"):
            expected = neighbors.kneighbors(rows, 6)
        with glasswood.config_context(device="cuda"):
            found = neighbors.kneighbors(rows, 6)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    with glasswood.config_context(device="cuda"):
        with pytest.raises(ValueError, match="GPUs find up to 64; set device='cpu'"):
            neighbors.kneighbors(X, 65)
        with pytest.raises((DeviceError, ValueError)), glasswood.config_context(device="cuda:99"):
            neighbors.kneighbors(X, 5)
        assert neighbors.kneighbors(X[:0], 5)[1].shape == (0, 5)
