"""Shapes, types, `out=`, and the same bits however the work is divided."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given

from glasswood import Explainer, load
from glasswood.base.device import DeviceError, is_cuda_usable
from tests.example_forests import empty_forest
from tests.strategies import Node, Options, flatten, forests_and_rows, full_forest, random_forest, random_rows

METHODS = ("shap_values", "shap_interaction_values")
SHAPES = {
    ("shap_values", 1): (7, 4),
    ("shap_values", 3): (7, 4, 3),
    ("shap_interaction_values", 1): (7, 4, 4),
    ("shap_interaction_values", 3): (7, 4, 4, 3),
}


def example_forest(n_outputs=1, vector_leaves=False):
    options = Options(n_trees=6, n_features=4, n_outputs=n_outputs, vector_leaves=vector_leaves, categorical=True)
    return random_forest(1, options)


def example_rows(forest, n_rows=7):
    return random_rows(2, forest, n_rows)


@pytest.mark.parametrize(("method", "n_outputs"), SHAPES)
@pytest.mark.parametrize("vector_leaves", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shape_and_dtype(algorithm, method, n_outputs, vector_leaves, dtype):
    forest = example_forest(n_outputs, vector_leaves and n_outputs > 1)
    found = getattr(Explainer(forest, dtype=dtype, algorithm=algorithm), method)(example_rows(forest))
    assert type(found) is np.ndarray
    assert found.shape == SHAPES[method, n_outputs]
    assert found.dtype == dtype
    assert found.flags.c_contiguous
    assert found.any()


@pytest.mark.parametrize(("method", "n_outputs"), SHAPES)
def test_no_rows_give_no_rows(algorithm, method, n_outputs):
    forest = example_forest(n_outputs)
    found = getattr(Explainer(forest, algorithm=algorithm), method)(np.zeros((0, 4)))
    assert found.shape == (0, *SHAPES[method, n_outputs][1:])


@pytest.mark.parametrize(("node", "cover"), [(0, -1.0), (2, -1.0), (0, np.nan), (1, np.inf)])
def test_covers_that_weight_no_paths(tmp_path, node, cover):
    covers = full_forest(0, 2, 1, 4).cover.copy()
    covers[3 + node] = cover
    forest = dataclasses.replace(full_forest(0, 2, 1, 4), cover=covers)
    forest.save(tmp_path / "forest.glasswood")
    expected = full_forest(0, 2, 1, 4).predict(np.zeros((1, 4)))
    np.testing.assert_array_equal(load(tmp_path / "forest.glasswood").predict(np.zeros((1, 4))), expected)
    with pytest.raises(ValueError, match=rf"the cover of node {node} of tree 1 is {cover}: .* pass background rows"):
        Explainer(forest)


@pytest.mark.skipif(is_cuda_usable(), reason="says what to do where there is no GPU")
@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_paths_without_a_gpu(device):
    forest = example_forest()
    with pytest.raises(DeviceError, match=r"algorithm='paths' runs on NVIDIA GPUs only; pass .*algorithm='quadrature'"):
        Explainer(forest, algorithm="paths", device=device).shap_values(example_rows(forest))


def test_forest_of_no_features_explains_nothing(algorithm):
    forest = flatten([Node(1, 2.0)], n_features=0)
    explainer = Explainer(forest, algorithm=algorithm)
    assert explainer.shap_values(np.ones((20, 0))).shape == (20, 0)
    assert explainer.shap_interaction_values(np.ones((20, 0))).shape == (20, 0, 0)
    assert explainer.expected_value == 2


def test_leaf_values_beyond_float32_need_float64():
    forest = flatten([Node(2, feature=0, threshold=0.0, children=(Node(1, -1e300), Node(1, 3e300)))], n_features=1)
    with pytest.raises(ValueError, match=r"leaf values reach 3.0e\+300, beyond the range of float32"):
        Explainer(forest)
    assert Explainer(forest, dtype="float64").shap_values(np.ones((1, 1))) == pytest.approx(2e300)


def test_forest_of_no_trees_explains_nothing(algorithm):
    explainer = Explainer(empty_forest(), algorithm=algorithm)
    np.testing.assert_array_equal(explainer.shap_values(np.ones((20, 3))), np.zeros((20, 3)))
    np.testing.assert_array_equal(explainer.shap_interaction_values(np.ones((20, 3))), np.zeros((20, 3, 3)))
    assert explainer.expected_value == 0.5


def test_expected_value_is_a_float_or_a_vector():
    assert type(Explainer(example_forest()).expected_value) is float
    several = Explainer(example_forest(3)).expected_value
    assert several.shape == (3,)
    assert several.dtype == np.float64


@pytest.mark.parametrize(("method", "n_outputs"), SHAPES)
@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_out_receives_the_result(algorithm, method, n_outputs, order, dtype):
    forest = example_forest(n_outputs)
    explain = getattr(Explainer(forest, dtype=dtype, algorithm=algorithm), method)
    X, shape = example_rows(forest), SHAPES[method, n_outputs]
    if order == "strided":
        out = np.full([2 * size for size in shape], np.nan, dtype)[tuple(slice(None, None, 2) for _ in shape)]
    else:
        out = np.full(shape, np.nan, dtype, order=order)
    assert explain(X, out=out) is out
    np.testing.assert_array_equal(out, explain(X))


def test_out_of_restricted_interactions():
    forest = example_forest()
    explain = Explainer(forest).shap_interaction_values
    X, out = example_rows(forest), np.full((7, 2, 4), np.nan, np.float32)
    assert explain(X, features=[3, 0], out=out) is out
    np.testing.assert_array_equal(out, explain(X, features=[3, 0]))


@pytest.mark.parametrize("method", METHODS)
def test_wrong_out_is_refused(algorithm, method):
    forest = example_forest()
    explain, shape = getattr(Explainer(forest, algorithm=algorithm), method), SHAPES[method, 1]
    X = example_rows(forest)
    read_only = np.zeros(shape, np.float32)
    read_only.flags.writeable = False
    wrong = [
        np.zeros(shape),
        np.zeros(shape, ">f4"),
        np.zeros((8, *shape[1:]), np.float32),
        read_only,
        np.zeros(7),
        [0.0],
    ]
    for out in wrong:
        with pytest.raises((ValueError, TypeError), match="out"):
            explain(X, out=out)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_out_whose_entries_share_memory_is_refused(algorithm, method, axis):
    forest = example_forest()
    explain, shape = getattr(Explainer(forest, algorithm=algorithm), method), SHAPES[method, 1]
    strides = list(np.zeros(shape, np.float32).strides)
    for stride in (0, strides[axis] - 4):
        strides[axis] = stride
        out = np.lib.stride_tricks.as_strided(np.zeros(shape, np.float32), shape, strides)
        with pytest.raises(ValueError, match="several entries share memory"):
            explain(example_rows(forest), out=out)


def test_out_that_overlaps_the_rows_is_refused(algorithm):
    forest = example_forest()
    memory = np.ones((8, 4), np.float32)
    with pytest.raises(ValueError, match="out shares memory with X"):
        Explainer(forest, algorithm=algorithm).shap_values(memory[:7], out=memory[1:])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_bits_for_every_number_of_jobs_and_every_split(algorithm, method, n_outputs, dtype):
    forest = example_forest(n_outputs)
    X = example_rows(forest, 100)
    expected = getattr(Explainer(forest, dtype=dtype, n_jobs=1, algorithm=algorithm), method)(X)
    for n_jobs in (1, 2, 3, 7, -1, None):
        found = getattr(Explainer(forest, dtype=dtype, n_jobs=n_jobs, algorithm=algorithm), method)(X)
        np.testing.assert_array_equal(found, expected, err_msg=f"n_jobs={n_jobs}")
    explain = getattr(Explainer(forest, dtype=dtype, n_jobs=2, algorithm=algorithm), method)
    for size in (1, 7, 16, 17, 99):
        parts = [explain(X[start : start + size]) for start in range(0, 100, size)]
        np.testing.assert_array_equal(np.concatenate(parts), expected, err_msg=f"batches of {size}")


@pytest.mark.parametrize("method", METHODS)
def test_same_bits_on_repeated_calls_of_a_large_forest(algorithm, method):
    """Many trees, so that threads could divide them; shallow and deep ones, so that buckets differ."""
    forest = full_forest(0, n_trees=300, depth=4, n_features=12)
    X = np.random.default_rng(1).normal(size=(33, 12))
    expected = getattr(Explainer(forest, n_jobs=1, algorithm=algorithm), method)(X)
    explain = getattr(Explainer(forest, n_jobs=2, algorithm=algorithm), method)
    for _ in range(20):
        np.testing.assert_array_equal(explain(X), expected)
    np.testing.assert_array_equal(explain(X[:1]), expected[:1])


@pytest.mark.parametrize("method", METHODS)
@given(example=forests_and_rows(max_rows=33, categorical=True))
def test_same_bits_of_every_forest(algorithm, method, example):
    forest, X = example
    explain = getattr(Explainer(forest, n_jobs=2, algorithm=algorithm), method)
    expected = explain(X)
    if len(X):
        np.testing.assert_array_equal(np.concatenate([explain(X[:1]), explain(X[1:])]), expected)
    np.testing.assert_array_equal(explain(np.ascontiguousarray(X)), expected)


@pytest.mark.parametrize("method", METHODS)
def test_rows_are_not_changed(algorithm, method):
    forest = example_forest()
    X = example_rows(forest)
    before = X.copy()
    getattr(Explainer(forest, algorithm=algorithm), method)(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pickled_explainer_gives_the_same_bits(algorithm, dtype):
    forest = example_forest(3)
    X = example_rows(forest)
    explainer = Explainer(forest, dtype=dtype, n_jobs=2, algorithm=algorithm)
    expected = explainer.shap_values(X)
    twin = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(twin.shap_values(X), expected)
    np.testing.assert_array_equal(twin.shap_interaction_values(X), explainer.shap_interaction_values(X))
    np.testing.assert_array_equal(twin.expected_value, explainer.expected_value)


@pytest.mark.parametrize("X", [np.ones((2, 3)), np.ones((2, 5)), np.ones(3), np.ones((1, 2, 4)), np.float64(1)])
def test_wrong_shapes_are_refused(X):
    with pytest.raises(ValueError, match=r"(?i)columns|dimension|2-d|shape"):
        Explainer(example_forest()).shap_values(X)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"dtype": "float16"}, ValueError),
        ({"algorithm": "magic"}, ValueError),
        ({"output": "leaf"}, ValueError),
        ({"output": "probability"}, ValueError),
        ({"background": np.zeros((3, 3))}, ValueError),
        ({"n_jobs": 0}, ValueError),
        ({"device": "tpu"}, ValueError),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments, error):
    with pytest.raises(error, match=next(iter(arguments))):
        Explainer(example_forest(), **arguments)


def test_a_range_beyond_float64():
    forest = full_forest(0, 2, 1, 4)
    forest = dataclasses.replace(forest, leaf_value=forest.ensemble.leaf_value * 1e300, tree_weight=np.full(2, 1e300))
    with pytest.raises(ValueError, match="beyond the range of float32"):
        Explainer(forest)
