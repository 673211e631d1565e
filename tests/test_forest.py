"""What Forest refuses, and that copying it changes nothing."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pytest

from glasswood import Explainer
from tests.example_forests import assert_same, empty_forest, small_forest, whole_forest
from tests.strategies import Node, Options, flatten, random_forest, random_rows


def at(field: str, index, value) -> dict:
    """The small forest's `field` with another value at `index`."""
    array = getattr(small_forest(), field).copy()
    array[index] = value
    return {field: array}


def as_dtype(field: str, dtype) -> dict:
    return {field: getattr(small_forest(), field).astype(dtype)}


def longer(field: str) -> dict:
    array = getattr(small_forest(), field)
    return {field: np.concatenate([array, array[:1]])}


REFUSED = {
    "left child skips nodes": (at("left", 1, 4), "left of node 1 is 4: the trees are cyclic"),
    "left child is the root": (at("left", 1, 0), "left of node 1 is 0"),
    "child beyond the tree": (at("left", 0, 99), "left of node 0 is 99"),
    "negative child": (at("left", 0, -1), "left of node 0 is -1"),
    "leaf has a child": (at("left", 2, 1), "left of node 2 is 1"),
    "split without children": ({**at("feature", 2, 0), **at("left", 2, 5)}, "tree 0 has 5 nodes and 3 splits"),
    "leaf where children are": ({**at("feature", 1, -1), **at("left", 1, 0)}, "tree 0 has 5 nodes and 1 splits"),
    "node below itself": (
        {"feature": np.array([0, -1, -1, 0, -1, -1], np.int32), "left": np.array([1, 0, 0, 3, 0, 0], np.int32)},
        "node 3 is its own descendant",
    ),
    "offsets start late": (at("tree_offsets", 0, 1), "tree_offsets must run from 0 to 6"),
    "offsets end early": (at("tree_offsets", -1, 5), "tree_offsets must run from 0 to 6"),
    "no offsets": ({"tree_offsets": np.zeros(0, np.int64)}, "tree_output has 2 entries, expected -1"),
    "empty tree": (at("tree_offsets", 1, 0), "tree 0 has no nodes"),
    "offsets fall": (at("tree_offsets", 1, 7), "tree 1 has no nodes"),
    "offsets that wrap around": (
        {
            "tree_offsets": np.array([0, 2**63 - 1, -2, 6]),
            "tree_output": np.zeros(3, np.int32),
            "tree_weight": np.ones(3),
        },
        "tree 1 has no nodes",
    ),
    "feature beyond the last": (at("feature", 0, 2), "node 0 splits on feature 2, the forest has 2"),
    "feature below -1": (at("feature", 2, -2), "node 2 splits on feature -2"),
    "threshold NaN": (at("threshold", 0, np.nan), "the threshold of node 0 is NaN"),
    "leaf value NaN": (at("leaf_value", 0, np.nan), "leaf_value holds NaN or infinity"),
    "leaf value infinite": (at("leaf_value", 3, -np.inf), "leaf_value holds NaN or infinity"),
    "weight NaN": (at("tree_weight", 1, np.nan), "tree_weight holds NaN"),
    "base score infinite": (at("base_score", 0, np.inf), "base_score holds NaN or infinity"),
    "no outputs": ({"base_score": np.zeros(0)}, "base_score is empty"),
    "too few leaves": (
        {"leaf_value": np.zeros((3, 1)), "leaf_id": np.zeros(3, np.int32)},
        "leaf_value has 3 rows, the trees have 4 leaves",
    ),
    "leaves too wide": ({"leaf_value": np.zeros((4, 2))}, "leaves hold 2 values, expected 1 or 1"),
    "leaves too narrow": (
        {"leaf_value": np.zeros((4, 2)), "base_score": np.zeros(3)},
        "leaves hold 2 values, expected 1 or 3",
    ),
    "leaves of no width": ({"leaf_value": np.zeros((4, 0))}, "leaves hold 0 values"),
    "leaf values flat": ({"leaf_value": np.zeros(4)}, "leaf_value is 1-dimensional float64, expected 2-dimensional"),
    "leaf values float32": (as_dtype("leaf_value", np.float32), "leaf_value is 2-dimensional float32"),
    "leaf values a list": ({"leaf_value": [[1.0]] * 4}, "leaf_value is 0-dimensional list"),
    "output negative": (at("tree_output", 0, -1), "tree 0 adds to output -1, expected 0 to 0"),
    "output beyond the last": (at("tree_output", 1, 1), "tree 1 adds to output 1, expected 0 to 0"),
    "output of vector leaves": (
        {"leaf_value": np.zeros((4, 2)), "base_score": np.zeros(2), **at("tree_output", 1, 1)},
        "tree 1 adds to output 1, expected 0 to 0",
    ),
    "set beyond the last": (at("category_set", 1, 1), "node 1 uses category set 1, the forest has 1"),
    "set below -1": (at("category_set", 0, -2), "node 0 uses category set -2"),
    "set at a leaf": (at("category_set", 2, 0), "node 2 is a leaf and uses category set 0"),
    "negative categories": (at("threshold", 1, -1.0), "the smallest category of node 1 is -1.0, expected 0 or -0.9999"),
    "fraction of a category": (
        at("threshold", 1, 0.5),
        "the smallest category of node 1 is 0.5, expected 0 or -0.9999",
    ),
    "feature of two kinds": (at("feature", 0, 1), "feature 1 is split both as a number and as a category"),
    "set offsets start late": (at("set_offsets", 0, 1), "set_offsets must rise from 0 to 1"),
    "set offsets end late": (at("set_offsets", 1, 9), "set_offsets must rise from 0 to 1"),
    "set offsets fall": (
        {"set_offsets": np.array([0, 2, 1]), "set_others_left": np.zeros(2, np.bool_)},
        "set_offsets must rise from 0 to 1",
    ),
    "too few sets": ({"set_others_left": np.zeros(0, np.bool_)}, "set_offsets has 2 entries, expected 1"),
    "bytes that are not booleans": (
        {"default_left": np.array([0, 1, 2, 0, 0, 0], np.uint8).view(np.bool_)},
        "default_left holds bytes other than 0 and 1",
    ),
    "others that are not booleans": (
        {"set_others_left": np.array([255], np.uint8).view(np.bool_)},
        "set_others_left holds bytes other than 0 and 1",
    ),
    "zero_missing too short": ({"zero_missing": np.zeros(1, np.bool_)}, "zero_missing has 1 entries, expected 2"),
    "missing_seen too short": ({"missing_seen": np.zeros(1, np.bool_)}, "missing_seen has 1 entries, expected 2"),
    "feature is not an array": ({"feature": [0, 1]}, "feature is a list, expected a NumPy array"),
    "feature is a number": ({"feature": np.array(0, np.int32)}, "feature is 0-dimensional int32"),
    "threshold two-dimensional": ({"threshold": np.zeros((6, 1))}, "threshold is 2-dimensional float64"),
    "threshold float16": (as_dtype("threshold", np.float16), "threshold is float16, expected float32 or float64"),
    "threshold integer": (as_dtype("threshold", np.int64), "threshold is int64, expected float32 or float64"),
    "no features": ({"n_features": -1}, "n_features is -1, expected 0 to"),
    "too many features": ({"n_features": 2**24 + 1}, "n_features is 16777217, expected 0 to 16777216"),
    "features a fraction": ({"n_features": 2.0}, "n_features is 2.0, expected an integer"),
    "features a boolean": ({"n_features": True}, "n_features is True, expected an integer"),
    "zero threshold negative": ({"zero_threshold": -1.0}, "zero_threshold is -1.0, expected at least 0"),
    "zero threshold NaN": ({"zero_threshold": np.nan}, "zero_threshold is nan, expected a finite number"),
    "scale infinite": ({"link_scale": np.inf}, "link_scale is inf, expected a finite number"),
    "missing a string": ({"missing": "NA"}, "missing is 'NA', expected a number"),
    "nan_allowed a number": ({"nan_allowed": 1}, "nan_allowed is 1, expected True or False"),
    "source missing": ({"source": None}, "source is None, expected a string"),
    "link unknown": ({"link": "cauchit"}, "link is 'cauchit', expected one of identity, logistic"),
    "prediction unknown": ({"prediction": "mode"}, "prediction is 'mode', expected one of response"),
    "link of other outputs": ({"link": "mean_and_variance"}, "link is 'mean_and_variance', which requires 2 outputs"),
    "hash unknown": ({"category_hash": "md5"}, "category_hash is 'md5', expected one of , city64"),
    "result dtype unknown": ({"result_dtype": "float16"}, "result_dtype is 'float16', expected one of float32"),
    "leaf shape too small": ({"leaf_shape": (1,)}, "leaf_shape .1,. has room for 1 trees, the forest has 2"),
    "leaf shape a list": ({"leaf_shape": [2]}, "leaf_shape is .2., expected a tuple of integers"),
    "names too few": ({"feature_names": ("a",)}, "feature_names has 1 entries for 2 features"),
    "names no strings": ({"feature_names": ("a", 2)}, "feature_names holds something other than strings"),
    "names a list": ({"feature_names": ["a", "b"]}, "feature_names is a list, expected a tuple"),
    "categories too many": ({"categories": (None, None, None)}, "categories has 3 entries for 2 features"),
    "categories a list": ({"categories": (None, [1])}, "categories holds a list, expected 1-dimensional"),
    "classes two-dimensional": ({"classes": (np.zeros((2, 2)),)}, "classes holds a ndarray, expected 1-dimensional"),
    "classes an array": ({"classes": np.zeros(2)}, "classes is a ndarray, expected a tuple"),
    "classes None": ({"classes": (None,)}, "classes holds a NoneType, expected 1-dimensional"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_corrupt_forest_is_refused(name):
    changes, message = REFUSED[name]
    with pytest.raises(ValueError, match=f"^corrupt forest: .*{message}"):
        dataclasses.replace(small_forest(), **changes)


LENGTHS = ("threshold", "left", "default_left", "cover", "leaf_id", "tree_output", "tree_weight", "category_set")


@pytest.mark.parametrize("field", [*LENGTHS, "set_offsets"])
def test_wrong_length_is_refused(field):
    with pytest.raises(ValueError, match=f"corrupt forest: {field} has . entries, expected .$"):
        dataclasses.replace(small_forest(), **longer(field))


INTEGERS = ("tree_offsets", "feature", "left", "leaf_id", "tree_output", "category_set", "set_offsets", "set_words")


@pytest.mark.parametrize("field", [*INTEGERS, "default_left", "cover", "tree_weight", "base_score", "set_others_left"])
@pytest.mark.parametrize("dtype", [np.int16, np.float32, ">i4", object])
def test_wrong_dtype_is_refused(field, dtype):
    with pytest.raises(ValueError, match=f"corrupt forest: {field} is 1-dimensional"):
        dataclasses.replace(small_forest(), **as_dtype(field, dtype))


def test_more_nodes_than_kernels_index_are_refused():
    many = np.broadcast_to(np.int32(-1), (2**31,))
    with pytest.raises(ValueError, match="2147483648 nodes, at most 2147483647 are supported"):
        dataclasses.replace(small_forest(), feature=many)


def test_forest_without_trees_is_valid():
    forest = empty_forest()
    assert (forest.n_trees, forest.n_nodes, forest.n_outputs, forest.depth) == (0, 0, 1, 0)


def test_sizes_are_counted():
    forest = small_forest()
    assert (forest.n_trees, forest.n_nodes, forest.n_leaves, forest.n_outputs, forest.depth) == (2, 6, 4, 1, 2)
    assert forest.ensemble.leaf_offsets.tolist() == [0, 3, 4]
    assert forest.ensemble.node_depth.tolist() == [0, 1, 1, 2, 2, 0]
    assert repr(forest) == "Forest(2 trees, 4 leaves, 2 features, 1 output)"
    assert repr(flatten([Node()], n_features=1)) == "Forest(1 tree, 1 leaf, 1 feature, 1 output)"
    assert repr(whole_forest()).endswith(" 5 features, 3 outputs, some library 1.2)")


def test_no_margin_exceeds_the_largest():
    forest = random_forest(0, Options(n_outputs=3))
    margins = np.abs(forest.predict(random_rows(0, forest, 200), output="margin"))
    assert margins.max() <= forest.ensemble.largest_margin
    assert dataclasses.replace(forest, base_score=np.full(3, 1e300)).largest_margin >= 1e300
    huge = dataclasses.replace(
        forest, leaf_value=forest.ensemble.leaf_value * 1e300, tree_weight=forest.ensemble.tree_weight * 1e300
    )
    assert huge.ensemble.largest_margin == np.inf


def test_forest_is_frozen():
    with pytest.raises(AttributeError):
        small_forest().n_features = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        small_forest().ensemble.n_features = 3


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_pickle_keeps_everything(protocol):
    forest = whole_forest()
    assert forest.depth > 0
    assert_same(pickle.loads(pickle.dumps(forest, protocol)), forest)


def test_pickle_opens_in_another_process(tmp_path):
    path = tmp_path / "a.pickle"
    path.write_bytes(pickle.dumps(small_forest()))
    code = f"import pickle; print(pickle.load(open({str(path)!r}, 'rb')))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "Forest(2 trees, 4 leaves, 2 features, 1 output)\n"


def test_deep_copy_shares_no_memory():
    forest = whole_forest()
    twin = copy.deepcopy(forest)
    assert_same(twin, forest)
    assert not np.shares_memory(twin.ensemble.leaf_value, forest.ensemble.leaf_value)


def spread_out(array: np.ndarray) -> np.ndarray:
    """The same values at every second place."""
    return np.repeat(array, 2, axis=0)[::2]


def misaligned(array: np.ndarray) -> np.ndarray:
    """The same values one byte beside where they belong."""
    moved = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


LINEAR = (
    "linear_offsets",
    "linear_feature",
    "linear_category",
    "linear_coefficient",
    "linear_mean",
    "linear_deviation",
    "leaf_missing",
)


@pytest.mark.parametrize("laid_out", [spread_out, misaligned])
def test_arrays_of_any_layout_give_the_same_results(laid_out):
    forest, X = whole_forest(), np.random.default_rng(0).normal(size=(20, 5))
    forest = dataclasses.replace(forest, categories=None, nan_allowed=True)
    arrays = {f.name: getattr(forest, f.name) for f in dataclasses.fields(forest)}
    arrays = {name: laid_out(value) for name, value in arrays.items() if isinstance(value, np.ndarray)}
    other = dataclasses.replace(forest, **arrays)
    np.testing.assert_array_equal(other.predict(X, output="margin"), forest.predict(X, output="margin"))
    without = {name: np.zeros(0, getattr(forest, name).dtype) for name in LINEAR}
    without |= {"leaf_range": np.zeros((0, 2)), "means_known": True}
    forest, other = (dataclasses.replace(each, **without) for each in (forest, other))
    for dtype in ("float32", "float64"):
        found, expected = Explainer(other, dtype=dtype), Explainer(forest, dtype=dtype)
        np.testing.assert_array_equal(found.shap_values(X), expected.shap_values(X))
        np.testing.assert_array_equal(found.expected_value, expected.expected_value)


@pytest.mark.parametrize("copied", [lambda f: f, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_arrays_are_read_only(copied):
    forest = copied(small_forest())
    with pytest.raises(ValueError, match="read-only"):
        forest.ensemble.leaf_value[0] = 7.0
