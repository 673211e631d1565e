"""Similarity, nearest rows, outlier scores and prototypes beside all pairs of rows."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from glasswood import _core
from tests.oracles import neighbors as oracle


@pytest.fixture(params=["random_forest", "booster"])
def model(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def neighbors(model, numbers):
    return glasswood.Neighbors(model, *numbers[:2])


def leaves_of(model, *parts):
    return [glasswood.load(model).predict(part, output="leaf") for part in parts]


def test_nearest_rows_are_those_of_the_definition(model, neighbors, numbers):
    training, leaves = leaves_of(model, numbers[0], numbers[2])
    expected = oracle.similarity(leaves, training, neighbors.tree_weight)
    similarity, rows = neighbors.kneighbors(numbers[2], 7)
    np.testing.assert_allclose(similarity, np.take_along_axis(expected, rows, axis=1), atol=1e-12)
    np.testing.assert_array_equal(rows, oracle.nearest(expected.round(9), 7))
    np.testing.assert_allclose(neighbors.similarity(numbers[2], numbers[0]), expected, atol=1e-12)


def test_nearest_rows_by_categories_are_those_of_the_librarys_leaves():
    lightgbm, pandas = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    towns = pandas.Categorical.from_codes(rng.integers(-1, 40, 300), [f"town {i}" for i in range(40)])
    frame = pandas.DataFrame({"town": towns, "number": rng.normal(size=300)})
    y = frame.town.cat.codes.to_numpy() % 5 + frame.number.to_numpy()
    params = {"verbose": -1, "num_threads": 1, "num_leaves": 15, "min_data_per_group": 1, "cat_smooth": 1}
    booster = lightgbm.train(params, lightgbm.Dataset(frame[:240], y[:240]), 10)
    leaves = booster.predict(frame, pred_leaf=True)
    neighbors = glasswood.Neighbors(booster, frame[:240], y[:240])
    expected = oracle.similarity(leaves[240:], leaves[:240], neighbors.tree_weight)
    similarity, rows = neighbors.kneighbors(frame[240:], 7)
    np.testing.assert_array_equal(rows, oracle.nearest(expected.round(9), 7))
    np.testing.assert_allclose(similarity, np.take_along_axis(expected, rows, axis=1), atol=1e-12)


def test_training_rows_are_not_their_own_neighbours(model, neighbors, numbers):
    (training,) = leaves_of(model, numbers[0])
    expected = oracle.similarity(training, training, neighbors.tree_weight)
    rows = neighbors.kneighbors(n_neighbors=4, return_similarity=False)
    np.testing.assert_array_equal(rows, oracle.nearest(expected.round(9), 4, own=True))


@pytest.mark.parametrize(
    ("n_leaves", "weights", "n_trees"),
    [(7, 1, 5), (256, 1, 3), (9, 1, 300), (300, 1, 4), (9, (3, 1, 0, 500), 4), (40_000, 1, 2)],
)
def test_lists_and_codes_find_the_same(n_leaves, weights, n_trees):
    rng = np.random.default_rng(n_leaves)
    n_rows, n_queries = 333, 70
    first = np.arange(n_trees + 1, dtype=np.int32) * n_leaves
    training, queries = (
        (rng.integers(0, n_leaves, (n, n_trees)) % rng.integers(2, 40) + first[:-1]).astype(np.int32)
        for n in (n_rows, n_queries)
    )
    weight = np.broadcast_to(np.array(weights, np.uint16), n_trees).copy()
    offsets, rows, _ = _core.index_leaves(training, first, np.arange(n_rows, dtype=np.int32), None, None, 2)
    shares = _core.RowShares(offsets, rows, first, weight, n_rows)
    expected = oracle.similarity(queries, training, weight.astype(float)) if n_trees < 10 else None
    group, query_group = (rng.integers(0, 3, n).astype(np.int32) for n in (n_rows, n_queries))
    for positions, first_own, count in ((queries, -1, n_queries), (training[90:160].copy(), 90, 70)):
        found = {}
        for by in ("lists", "codes"):
            near, share = np.empty((count, 12), np.int32), np.empty((count, 12), np.int32)
            shares.nearest(positions, first_own, near, share, by, 2)
            squares = np.empty(count, np.uint64)
            shares.squares(positions, first_own, group, query_group, squares, by, 2)
            found[by] = near, share, squares
        for one, other in zip(*found.values(), strict=True):
            np.testing.assert_array_equal(one, other)
        if expected is not None and first_own < 0:
            total = float(weight.sum())
            np.testing.assert_array_equal(found["lists"][0], oracle.nearest(expected.round(9), 12))
            same = group == query_group[:, None]
            np.testing.assert_allclose(found["lists"][2], ((expected * total) ** 2 * same).sum(axis=1))


def test_trees_of_too_many_leaves_have_no_codes():
    first = np.array([0, 70_000], np.int32)
    positions = np.arange(0, 70_000, 1000, dtype=np.int32)[:, None].copy()
    offsets, rows, _ = _core.index_leaves(positions, first, np.arange(70, dtype=np.int32), None, None, 1)
    shares = _core.RowShares(offsets, rows, first, np.ones(1, np.uint16), 70)
    assert not shares.prefers_codes
    out = np.empty((70, 1), np.int32)
    with pytest.raises(ValueError, match="too many leaves"):
        shares.nearest(positions, -1, out, out.copy(), "codes", 1)


def test_damaged_arrays_are_refused():
    first, offsets, rows = np.array([0, 2], np.int32), np.array([0, 1, 2]), np.array([1, 0], np.int32)
    one = np.ones(1, np.uint16)
    _core.RowShares(offsets, rows, first, one, 2)
    for wrong in (
        (offsets, np.array([1, 2], np.int32), first, one),
        (np.array([0, 2, 1]), rows, first, one),
        (offsets, rows, np.array([0, 3], np.int32), one),
        (np.array([0, 2, 2]), np.array([1, 1], np.int32), first, one),
    ):
        with pytest.raises(ValueError, match=r"fit|rise"):
            _core.RowShares(*wrong, 2)
    shares = _core.RowShares(offsets, rows, first, one, 2)
    with pytest.raises(ValueError, match="outside"):
        shares.nearest(np.array([[2]], np.int32), -1, *np.empty((2, 1, 1), np.int32), "auto", 1)


def test_sparse_matrix_and_frame(neighbors, numbers):
    similarity, rows = neighbors.kneighbors(numbers[2], 6)
    graph = neighbors.kneighbors_graph(numbers[2], 6)
    assert graph.shape == (100, 400)
    np.testing.assert_allclose(np.take_along_axis(graph.toarray(), rows, axis=1), similarity)
    distance = neighbors.kneighbors_graph(numbers[2], 6, mode="distance")
    np.testing.assert_allclose(np.take_along_axis(distance.toarray(), rows, axis=1), 1 - similarity)
    frame = neighbors.kneighbors_frame(numbers[2], 6)
    assert list(frame) == ["row", "neighbor", "similarity", "target"]
    np.testing.assert_array_equal(frame["neighbor"].to_numpy().reshape(100, 6), rows)
    np.testing.assert_array_equal(frame["target"], numbers[1][frame["neighbor"]])


def test_distance_is_a_metric_of_scikit_learn(neighbors, numbers):
    from sklearn.cluster import DBSCAN

    rows = numbers[2][:30]
    dense = 1 - neighbors.similarity(rows)
    assert neighbors.distance(rows[0], rows[1]) == pytest.approx(dense[0, 1])
    by_metric = DBSCAN(eps=0.8, min_samples=2, metric=neighbors.distance).fit_predict(rows.astype(np.float64))
    np.testing.assert_array_equal(by_metric, DBSCAN(eps=0.8, min_samples=2, metric="precomputed").fit_predict(dense))


def test_rows_that_share_no_leaf():
    from sklearn.tree import DecisionTreeRegressor

    X = np.arange(4.0)[:, None]
    neighbors = glasswood.Neighbors(DecisionTreeRegressor().fit(X, X[:, 0]), X)
    similarity, rows = neighbors.kneighbors(n_neighbors=2)
    assert (rows == -1).all()
    assert (similarity == 0).all()
    assert neighbors.kneighbors_graph(n_neighbors=2).nnz == 0


def test_duplicate_rows_come_in_their_order(random_forest, numbers):
    X = np.concatenate([numbers[0], numbers[0]])
    neighbors = glasswood.Neighbors(random_forest, X, check=False)
    similarity, rows = neighbors.kneighbors(numbers[0][:20], 2)
    np.testing.assert_array_equal(rows, np.stack([np.arange(20), np.arange(20) + 400], axis=1))
    assert (similarity == 1).all()


def test_outlier_scores_are_those_of_randomforest(classifier, numbers, classes):
    neighbors = glasswood.Neighbors(classifier, numbers[0], classes)
    leaves = classifier.apply(numbers[0])
    proximity = oracle.similarity(leaves, leaves, np.ones(30))
    expected = np.empty(400)
    for label in np.unique(classes):
        own = classes == label
        raw = 400 / (proximity[np.ix_(own, own)] ** 2).sum(axis=1)
        expected[own] = (raw - np.median(raw)) / (1.4826 * np.median(np.abs(raw - np.median(raw))))
    np.testing.assert_allclose(neighbors.outlier_score(), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(neighbors.outlier_score(numbers[0][:9], classes[:9]), expected[:9], atol=1e-9)
    with pytest.raises(ValueError, match="pass the classes of X"):
        neighbors.outlier_score(numbers[0])


def test_outliers_of_numbers_are_those_of_all_rows(booster, numbers):
    neighbors = glasswood.Neighbors(booster, *numbers[:2])
    raw = 400 / (neighbors.similarity(numbers[0]) ** 2).sum(axis=1)
    middle = np.median(raw)
    expected = (raw - middle) / (1.4826 * np.median(np.abs(raw - middle)))
    np.testing.assert_allclose(neighbors.outlier_score(), expected, rtol=1e-9, atol=1e-9)


def test_prototypes_stand_among_their_class(classifier, numbers, classes):
    neighbors = glasswood.Neighbors(classifier, numbers[0], classes)
    found = neighbors.prototypes(2, n_neighbors=20)
    assert found.label.tolist() == [label for label in np.unique(classes) for _ in range(2)]
    rows = neighbors.kneighbors(n_neighbors=20, return_similarity=False)
    own = (classes[rows] == classes[:, None]).sum(axis=1)
    for label, row, count, median in zip(
        found.label[::2], found.row[::2], found.n_members[::2], found.median[::2], strict=True
    ):
        assert classes[row] == label
        assert count == own[row] == own[classes == label].max()
        of_class = np.append(rows[row][classes[rows[row]] == label], row)
        np.testing.assert_allclose(median, np.median(numbers[0][of_class], axis=0))
    assert (found.low <= found.median).all()
    assert (found.median <= found.high).all()
    assert len(set(found.row)) == 6


def test_isolation_forests_have_neighbours(numbers):
    from sklearn.ensemble import IsolationForest

    model = IsolationForest(n_estimators=20, random_state=0).fit(numbers[0])
    neighbors = glasswood.Neighbors(model, numbers[0])
    assert (neighbors.kneighbors(numbers[0], 1)[1][:, 0] >= 0).all()
