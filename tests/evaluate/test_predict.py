"""Leaves and margins of the kernels against plain recursion."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given

import glasswood
from glasswood import Explainer
from tests.example_forests import empty_forest, small_forest
from tests.oracles import evaluate
from tests.strategies import Node, Options, flatten, forests_and_rows, full_forest, random_forest, random_rows

ALGORITHMS = ("serial", "by_sample", "by_node", "windowed", "auto")
UNITS = {"float32": 2.0**-24, "float64": 2.0**-53}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(example=forests_and_rows(max_rows=70))
def test_leaves_match_the_oracle(algorithm, example):
    forest, X = example
    found = forest.predict(X, output="leaf", algorithm=algorithm)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, evaluate.leaf_ids(forest, X))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(example=forests_and_rows(max_rows=70))
def test_margins_match_the_oracle(algorithm, example):
    forest, X = example
    found = forest.predict(X, output="margin", algorithm=algorithm)
    assert found.dtype == forest.ensemble.result_dtype
    assert found.shape == ((len(X),) if forest.n_outputs == 1 else (len(X), forest.n_outputs))
    bound = evaluate.summation_bound(forest, X, UNITS[forest.ensemble.result_dtype])
    # The oracle rounds as well, in float64.
    error = np.abs(found.reshape(bound.shape) - evaluate.margins(forest, X))
    assert (error <= bound + evaluate.summation_bound(forest, X, UNITS["float64"])).all()


NEAR_CATEGORIES = (-np.inf, -7, -1, -0.999, -0.5, -1e-30, -0.0, 0, 0.5, 1, 30.9, 31, 32, 33, 63.5, 64, 3e9, 1e300)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("row_type", ["float32", "float64"])
@pytest.mark.parametrize("words", [[], [0], [1], [2**31, 3]])
@pytest.mark.parametrize("others_left", [False, True])
@pytest.mark.parametrize("truncates", [False, True])
def test_categories(algorithm, row_type, words, others_left, truncates):
    """Fractions, negative and unseen categories, also where the set has no words to read from."""
    kind = np.dtype(row_type).type
    smallest = np.nextafter(kind(-1), kind(0)) if truncates else 0.0
    tree = Node(2, feature=0, threshold=smallest, category_set=0, children=(Node(1, 1.0), Node(1, 2.0)))
    forest = flatten([tree], 1, row_type, sets=[(words, others_left)])
    rows = np.array([*NEAR_CATEGORIES, np.inf, np.nan])[:, None]
    found = forest.predict(rows, output="leaf", algorithm=algorithm)
    np.testing.assert_array_equal(found, evaluate.leaf_ids(forest, rows))


@pytest.mark.parametrize("output", ["margin", "leaf"])
@given(example=forests_and_rows(max_rows=70))
def test_same_bits_of_every_forest(output, example):
    forest, X = example
    expected = forest.predict(X, output=output, algorithm="serial", n_jobs=1)
    for algorithm in ALGORITHMS:
        np.testing.assert_array_equal(forest.predict(X, output=output, algorithm=algorithm, n_jobs=2), expected)
    if len(X):
        parts = [forest.predict(rows, output=output) for rows in (X[:1], X[1:])]
        np.testing.assert_array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize("output", ["margin", "leaf"])
@pytest.mark.parametrize("result_dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_same_bits_however_the_work_is_divided(output, result_dtype, n_outputs):
    meaning = {"result_dtype": result_dtype}
    forest = random_forest(0, Options(n_trees=40, n_features=5, n_outputs=n_outputs, weights="dart", meaning=meaning))
    X = random_rows(1, forest, 300)
    expected = forest.predict(X, output=output, algorithm="serial", n_jobs=1)
    for algorithm in ALGORITHMS:
        for n_jobs in (1, 2, 3, 7, -1, None):
            found = forest.predict(X, output=output, algorithm=algorithm, n_jobs=n_jobs)
            np.testing.assert_array_equal(found, expected, err_msg=f"{algorithm}, n_jobs={n_jobs}")
        for size in (1, 2, 7, 16, 17, 64, 299):
            batches = [X[start : start + size] for start in range(0, 300, size)]
            parts = [forest.predict(batch, output=output, algorithm=algorithm, n_jobs=2) for batch in batches]
            np.testing.assert_array_equal(np.concatenate(parts), expected, err_msg=f"{algorithm}, batches of {size}")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_large_forest(algorithm):
    """More trees and nodes than fit any cache of tiles; also one row against many."""
    forest = full_forest(0, n_trees=300, depth=8, n_features=50)
    X = np.random.default_rng(1).normal(size=(101, 50)).astype(np.float32)
    ids = forest.predict(X, output="leaf", algorithm=algorithm)
    np.testing.assert_array_equal(ids, _leaf_positions(forest, X))
    margins = forest.predict(X, output="margin", algorithm=algorithm)
    for row in range(0, 101, 20):
        one = X[row : row + 1]
        np.testing.assert_array_equal(forest.predict(one, output="leaf", algorithm=algorithm)[0], ids[row])
        assert forest.predict(one, output="margin", algorithm=algorithm)[0] == margins[row]


def _leaf_positions(forest, X):
    """Positions in complete trees of float32 thresholds: all trees at once, level by level."""
    roots = forest.ensemble.tree_offsets[:-1]
    position = np.zeros((len(X), forest.n_trees), np.int64)
    for _ in range(forest.depth):
        value = np.take_along_axis(X, forest.ensemble.feature[roots + position], axis=1)
        position = 2 * position + 1 + (value >= forest.ensemble.threshold[roots + position])
    return position


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("output", ["margin", "leaf", "prediction"])
def test_no_rows_give_no_rows(algorithm, output):
    forest = full_forest(0, n_trees=3, depth=2, n_features=4)
    found = forest.predict(np.zeros((0, 4)), output=output, algorithm=algorithm)
    assert found.shape == ((0, 3) if output == "leaf" else (0,))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_trees_give_the_base_score(algorithm):
    forest, X = empty_forest(), np.ones((20, 3))
    np.testing.assert_array_equal(forest.predict(X, output="margin", algorithm=algorithm), np.full(20, 0.5))
    assert forest.predict(X, output="leaf", algorithm=algorithm).shape == (20, 0)


def test_leaf_ids_take_the_shape_of_the_source():
    forest = dataclasses.replace(full_forest(0, n_trees=6, depth=2, n_features=4), leaf_shape=(3, 2))
    X = np.random.default_rng(0).normal(size=(5, 4))
    found = forest.predict(X, output="leaf")
    assert found.shape == (5, 3, 2)
    np.testing.assert_array_equal(found.reshape(5, 6), evaluate.leaf_ids(forest, X))


def test_rows_are_not_changed():
    forest = random_forest(0, Options(n_trees=4, missing="zeros", categorical=True))
    X = random_rows(1, forest, 50)
    before = X.copy()
    forest.predict(X, output="margin")
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"output": "margins"}, ValueError),
        ({"algorithm": "magic"}, ValueError),
        ({"n_jobs": 0}, ValueError),
        ({"n_jobs": 10**6}, ValueError),
        ({"n_jobs": 2**40}, ValueError),
        ({"n_jobs": 1.5}, TypeError),
        ({"device": "tpu"}, ValueError),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments, error):
    forest = full_forest(0, n_trees=3, depth=2, n_features=4)
    with pytest.raises(error, match=next(iter(arguments))):
        forest.predict(np.zeros((1, 4)), **arguments)


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_where_sparse_rows_are_refused_by_name(device):
    forest, X = small_forest(), scipy.sparse.csr_array(np.eye(2))
    with pytest.raises(NotImplementedError, match="sparse"), glasswood.config_context(device=device):
        forest.tune(X)
    with pytest.raises(NotImplementedError, match="sparse"):
        Explainer(forest, device=device).shap_interaction_values(X)


@pytest.mark.parametrize("prediction", ["response", "margin"])
def test_margins_beyond_the_dtype_are_infinite(prediction):
    forest = full_forest(0, 2, 1, 4)
    forest = dataclasses.replace(
        forest, base_score=np.array([1e300]), result_dtype="float32", link="exp", prediction=prediction
    )
    for output in ("margin", "prediction"):
        assert forest.predict(np.zeros((1, 4)), output=output).tolist() == [np.inf]


@pytest.mark.parametrize("names", [[], ["a"]])
def test_fewer_labels_than_classes(names):
    forest = dataclasses.replace(
        full_forest(0, 2, 1, 4), base_score=np.array([9.0]), prediction="positive", classes=(np.array(names, object),)
    )
    with pytest.raises(ValueError, match=rf"predicts class 1 and has {len(names)} class labels \("):
        forest.predict(np.zeros((1, 4)))


@pytest.mark.parametrize("sizes", [(2, 0), (2, 2)])
def test_labels_of_other_outputs(sizes):
    classes = tuple(np.arange(size) for size in sizes)
    forest = dataclasses.replace(random_forest(0, Options(n_outputs=3)), prediction="argmax", classes=classes)
    with pytest.raises(ValueError, match=r"class labels for 3 outputs"):
        forest.predict(random_rows(0, forest, 2))
