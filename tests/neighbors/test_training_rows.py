"""What is refused: rows of another training, targets that are none."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood


def test_counts_of_bootstrap_samples_are_the_forests_own(random_forest, numbers):
    X, y, *_ = numbers
    glasswood.Neighbors(random_forest, X, y)
    with pytest.raises(ValueError, match="other leaves"):
        glasswood.Neighbors(random_forest, np.random.default_rng(1).permutation(X, axis=1), y)
    with pytest.raises(ValueError, match=r"X has 399 rows, the forest was trained on 400"):
        glasswood.Neighbors(random_forest, X[:399], y[:399])
    other = np.concatenate([X, X[:1]])
    with pytest.raises(ValueError, match=r"X has 401 rows, the forest was trained on 400"):
        glasswood.Neighbors(random_forest, other, np.append(y, 0.0))
    assert len(glasswood.Neighbors(random_forest, X[:399], y[:399], check=False)) == 399


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost", "hist", "extra"])
def test_sources_that_count_rows_know_theirs(library, numbers):
    X, y, *_ = numbers
    model = made(library).fit(X, y)
    glasswood.Neighbors(model, X, y)
    with pytest.raises(ValueError, match="X has 300 rows, the forest was trained on 400"):
        glasswood.Neighbors(model, X[:300], y[:300])
    with pytest.raises(ValueError, match="other leaves"):
        glasswood.Neighbors(model, np.random.default_rng(1).permutation(X, axis=1), y)


def made(library):
    from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

    if library == "hist":
        return HistGradientBoostingRegressor(max_iter=10)
    if library == "extra":
        return ExtraTreesRegressor(10, random_state=0)
    module = pytest.importorskip(library)
    if library == "xgboost":
        return module.XGBRegressor(n_estimators=10, max_depth=4, n_jobs=1)
    if library == "lightgbm":
        return module.LGBMRegressor(n_estimators=10, verbose=-1, n_jobs=1)
    return module.CatBoostRegressor(10, verbose=False, allow_writing_files=False, thread_count=1)


def test_hessians_count_no_rows(numbers):
    xgboost = pytest.importorskip("xgboost")
    X, y, *_ = numbers
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y > 0)
    assert len(glasswood.Neighbors(model, X, y > 0)) == 400
    assert len(glasswood.Neighbors(model, X[:200], y[:200] > 0)) == 200


def test_targets_are_checked(random_forest, classifier, numbers, classes):
    X, y, *_ = numbers
    wrong = y.copy()
    wrong[7] = np.nan
    for targets, message in (
        (wrong, "y is nan in row 7"),
        (y[:-1], r"y has shape \(399,\), expected \(400,\)"),
        (classes, "holds text"),
    ):
        with pytest.raises(ValueError, match=message):
            glasswood.Neighbors(random_forest, X, targets)
    with pytest.raises(ValueError, match="one of the model's classes"):
        glasswood.Neighbors(classifier, X, np.where(classes == "low", "deep", classes))


def test_what_needs_targets_says_so(random_forest, numbers):
    neighbors = glasswood.Neighbors(random_forest, numbers[0])
    rows = numbers[2]
    for call in (
        lambda: neighbors.quantile(rows),
        lambda: neighbors.cdf(rows, 0.0),
        lambda: neighbors.sample(rows),
        lambda: neighbors.predict_interval(rows),
        lambda: neighbors.conformalize(rows, numbers[3]),
        lambda: neighbors.influence(rows),
    ):
        with pytest.raises(ValueError, match=r"needs the targets of the training rows; pass y"):
            call()
    assert neighbors.kneighbors(rows, 3)[1].shape == (100, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tree_weight": "depth"}, "expected 'auto', 'uniform'"),
        ({"tree_weight": [1.0, 2.0]}, "one number for each tree"),
        ({"tree_weight": -np.ones(30)}, "at least 0"),
        ({"sample_weight": np.ones(3)}, "one per row"),
        ({"sample_weight": np.zeros(400)}, "one above 0"),
    ],
)
def test_weights_are_checked(arguments, message, random_forest, numbers):
    with pytest.raises(ValueError, match=message):
        glasswood.Neighbors(random_forest, *numbers[:2], **arguments)


def test_numbers_are_checked(random_forest, numbers):
    neighbors = glasswood.Neighbors(random_forest, *numbers[:2])
    rows = numbers[2]
    for call, message in (
        (lambda: neighbors.quantile(rows, 1.5), "from 0 to 1"),
        (lambda: neighbors.quantile(rows, 0.5, method="median"), "expected 'linear'"),
        (lambda: neighbors.cdf(rows, [np.nan]), "NaN"),
        (lambda: neighbors.kneighbors(rows, 0), "expected 1 to 400"),
        (lambda: neighbors.kneighbors(n_neighbors=400), "expected 1 to 399"),
        (lambda: neighbors.kneighbors_graph(rows, mode="far"), "mode is 'far'"),
        (lambda: neighbors.sample(rows, 0), "at least 1"),
        (lambda: neighbors.predict_interval(rows, 90), "between 0 and 1"),
        (lambda: neighbors.predict_set(rows), "expects a classifier"),
        (lambda: neighbors.influence(rows, output=1), "expected 0 to 0"),
        (lambda: neighbors.quantile(rows[:, :3]), "3 columns"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_rows_whose_leaves_have_no_training_rows(random_forest, numbers):
    X, y, rows, _ = numbers
    neighbors = glasswood.Neighbors(random_forest, X[:2], y[:2], check=False)
    similarity, near = neighbors.kneighbors(rows, 2)
    alone = similarity[:, 0] == 0
    assert alone.any()
    assert (near[alone] == -1).all()
    assert np.isnan(neighbors.quantile(rows)[alone]).all()
    assert not np.isnan(neighbors.quantile(rows)[~alone]).any()
    assert np.isnan(neighbors.cdf(rows, 0.0)[alone]).all()
    with pytest.raises(ValueError, match="no training row reaches a leaf of row"):
        neighbors.sample(rows)


def test_missing_rows_and_trees(random_forest, numbers):
    with pytest.raises(ValueError, match="X has no rows"):
        glasswood.Neighbors(random_forest, numbers[0][:0])


def test_names_of_columns_are_matched(numbers):
    import pandas
    from sklearn.ensemble import RandomForestRegressor

    X, y, rows, _ = numbers
    frame = pandas.DataFrame(X, columns=list("abcde"))
    model = RandomForestRegressor(10, min_samples_leaf=4, random_state=0).fit(frame, y)
    neighbors = glasswood.Neighbors(model, frame[list("edcba")], y)
    asked = pandas.DataFrame(rows, columns=list("abcde"))
    np.testing.assert_array_equal(neighbors.quantile(asked), neighbors.quantile(asked[list("bcdea")]))
