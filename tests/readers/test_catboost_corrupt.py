"""CatBoost documents that are truncated, corrupt or hostile; CatBoost itself is not needed."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest

import glasswood
from glasswood.readers.catboost.cbm import Core, Trees, check_shared
from glasswood.readers.flatbuffer import FlatTable

DATA = Path(__file__).parent / "data"
STEPS = DATA / "catboost-1.2.10-depthwise.json"
OBLIVIOUS_CBM, STEPS_CBM = DATA / "catboost-1.2.10-classes.cbm", DATA / "catboost-1.2.10-lossguide.cbm"


def oblivious():
    """A document of one tree of two levels, with a category."""
    number = {"feature_id": "a", "flat_feature_index": 0, "borders": [0.5, 1.5], "has_nans": False}
    number |= {"nan_value_treatment": "AsIs", "feature_index": 0}
    category = {"feature_id": "b", "flat_feature_index": 1, "feature_index": 0, "values": [7, -7]}
    splits = [{"split_index": 1, "split_type": "FloatFeature"}, {"split_index": 2, "split_type": "OneHotFeature"}]
    tree = {"leaf_values": [1.0, 2.0, 3.0, 4.0], "leaf_weights": [1, 2, 3, 4], "splits": splits}
    return {
        "features_info": {"float_features": [number], "categorical_features": [category]},
        "model_info": {"params": {"loss_function": {"type": "RMSE"}}},
        "oblivious_trees": [tree, dict(tree)],
        "scale_and_bias": [1, [0.5]],
    }


def change(*path):
    """Set, or with a last entry of `delete` remove, what the path leads to."""

    def apply(document):
        *keys, last, value = path
        for key in keys:
            document = document[key]
        if value is delete:
            del document[last]
        else:
            document[last] = value

    return apply


def delete():
    """Mark what is to be removed."""


def labels(names, kind="Integer"):
    """Information of a classifier."""
    loss = {"params": {"loss_function": {"type": "Logloss"}}}
    return loss | {"class_params": {"class_label_type": kind, "class_names": names}}


NUMBER, CATEGORY = ("features_info", "float_features", 0), ("features_info", "categorical_features", 0)
TREE = ("oblivious_trees", 1)
CORRUPTIONS = {
    "no features": (change("features_info", "x"), "'features_info' is of type str, expected dict"),
    "features are text": (change("features_info", "float_features", "x"), "'float_features' is of type str"),
    "feature is a number": (change("features_info", "float_features", [1]), "'float_features' holds a int, expected"),
    "no column": (change(*NUMBER, "flat_feature_index", delete), "'flat_feature_index' is None, expected an integer"),
    "column twice": (
        change(*NUMBER, "flat_feature_index", 1),
        r"its features are the columns \[1, 1\], expected 0 to 1",
    ),
    "column beyond": (change(*NUMBER, "flat_feature_index", 10**9), "columns of text or embeddings"),
    "negative column": (change(*NUMBER, "flat_feature_index", -1), "its features are the columns"),
    "a number as a name": (change(*NUMBER, "feature_id", 3), "'feature_id' is of type int"),
    "no borders": (change(*NUMBER, "borders", delete), "'borders' is of type NoneType"),
    "borders are text": (change(*NUMBER, "borders", ["0.5"]), "'borders' holds something other than numbers"),
    "infinite border": (change(*NUMBER, "borders", [1e39, 1.5]), "feature 0 has a border that is not finite"),
    "category twice": (change(*CATEGORY, "values", [7, 7]), "feature 1 tests a category twice"),
    "category beyond 32 bits": (change(*CATEGORY, "values", [7, 2**40]), "expected integers of 32 bits"),
    "very many categories": (change(*CATEGORY, "values", list(range(10**4))), "tests 10000 categories"),
    "no trees": (change("oblivious_trees", delete), "'trees' is missing, expected list"),
    "trees are text": (change("oblivious_trees", "x"), "'oblivious_trees' is of type str"),
    "tree is text": (change(*TREE, "x"), "'oblivious_trees' holds a str, expected objects"),
    "no leaf values": (change(*TREE, "leaf_values", delete), "'leaf_values' is missing, expected an array"),
    "fewer leaf values": (change(*TREE, "leaf_values", [1.0, 2.0]), "'leaf_values' are not as many"),
    "no first leaves": (change("oblivious_trees", 0, "leaf_values", []), "'leaf_values' are not as many"),
    "leaf values are text": (change(*TREE, "leaf_values", list("abcd")), "'leaf_values' holds something other"),
    "infinite leaf": (change(*TREE, "leaf_values", [1.0, 2.0, 3.0, np.inf]), "leaf_value holds NaN or infinity"),
    "fewer leaf weights": (change(*TREE, "leaf_weights", [1, 2]), "'leaf_weights' are not one for each leaf"),
    "negative leaf weight": (change(*TREE, "leaf_weights", [1, 2, 3, -4]), "a leaf weight is negative"),
    "splits are text": (change(*TREE, "splits", "ab"), "'splits' is not a list"),
    "split is text": (change(*TREE, "splits", ["a", "b"]), "a split is a str, expected an object"),
    "split beyond the tests": (change(*TREE, "splits", 0, "split_index", 4), "a split names test 2 to 4 of 4"),
    "split beyond 64 bits": (change(*TREE, "splits", 0, "split_index", 2**80), "'split_index' holds"),
    "column beyond 64 bits": (change(*NUMBER, "flat_feature_index", 2**80), "its features are the columns"),
    "negative split": (change(*TREE, "splits", 0, "split_index", -1), "a split names test -1 to 2 of 4"),
    "split without its test": (change(*TREE, "splits", 0, "split_index", delete), "'split_index' is None"),
    "no bias": (change("scale_and_bias", delete), "'scale_and_bias' is missing"),
    "scale is text": (change("scale_and_bias", 0, "1"), "'scale_and_bias' is not a pair of a number and a list"),
    "infinite scale": (change("scale_and_bias", 0, np.inf), "tree_weight holds NaN or infinity"),
    "several biases": (change("scale_and_bias", 1, [0.5, 0.5]), "it holds 2 biases for 1 outputs"),
    "no information": (change("model_info", delete), "'model_info' is missing"),
    "information is not valid JSON": (change("model_info", "params", "{"), "'params' is not valid JSON"),
    "labels": (change("model_info", labels([1, 2, 3])), "it names 3 classes, expected 2"),
    "labels of other types": (change("model_info", labels(["a", "b"])), "invalid literal"),
    "labels beyond 64 bits": (change("model_info", labels([1, 2**80])), "'class_params' holds labels beyond 64 bits"),
    "labels are objects": (change("model_info", labels([{}, {}])), "'class_params' holds no labels"),
    "labels of no type": (change("model_info", labels([1, 2], "Complex")), "'class_params' holds no labels"),
    "labels of a type that is a list": (change("model_info", labels([1, 2], [])), "'class_params' holds no labels"),
    "threshold beyond 1": (change("model_info", "binclass_probability_threshold", "7"), None),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corrupt_document(name, tmp_path):
    edit, message = CORRUPTIONS[name]
    path = tmp_path / "model.json"
    document = oblivious()
    edit(document)
    path.write_text(json.dumps(document))
    if message is None:  # matters to labels only, which no file predicts
        assert glasswood.load(path).n_trees == 2
        return
    with pytest.raises(ValueError, match=message) as caught:
        glasswood.load(path)
    assert str(path) in str(caught.value)


def test_the_document_itself_is_sound(tmp_path):
    """The category is the higher bit of a leaf's number."""
    path = tmp_path / "model.json"
    path.write_text(json.dumps(oblivious()))
    forest = glasswood.load(path)
    np.testing.assert_array_equal(forest.predict([[1.5, "x"], [1.6, "x"]]), [2.5, 4.5])
    assert forest.feature_names == ("a", "b")


@pytest.mark.parametrize("kind", ["EstimatedFeature", None])
def test_splits_on_computed_features(kind, tmp_path):
    document = oblivious()
    document["oblivious_trees"][1]["splits"][0]["split_type"] = kind
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    with pytest.raises(NotImplementedError, match="computes features from others"):
        glasswood.load(path)


STEP_CORRUPTIONS = {
    "no child": (change("trees", 0, "left", delete), "a node is a NoneType, expected an object"),
    "child is a number": (change("trees", 0, "left", 3), "a node is a int, expected an object"),
    "no split": (change("trees", 0, "split", delete), "a split is a NoneType, expected an object"),
    "split beyond the tests": (change("trees", 0, "split", "split_index", 999), "a split names test 0 to 999 of"),
    "vector leaf": (change("trees", 0, "left", {"value": [1.0, 2.0], "weight": 1}), "a leaf does not hold"),
    "leaf is text": (change("trees", 0, "left", {"value": "x", "weight": 1}), "'value' holds something other"),
    "weight is text": (change("trees", 0, "left", {"value": 1.0, "weight": "x"}), "'weight' holds something other"),
    "negative weight": (change("trees", 0, "left", {"value": 1.0, "weight": -1}), "a leaf weight is negative"),
}


@pytest.mark.parametrize("name", STEP_CORRUPTIONS)
def test_corrupt_document_of_other_trees(name, tmp_path):
    edit, message = STEP_CORRUPTIONS[name]
    document = json.loads(STEPS.read_text())
    edit(document)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message):
        glasswood.load(path)


def test_deep_document(tmp_path):
    path = tmp_path / "model.json"
    path.write_text('{"features_info": ' + "[" * 10**5)
    with pytest.raises(ValueError, match="truncated or corrupt: it is nested too deep"):
        glasswood.load(path)


def load_bytes(tmp_path, data):
    path = tmp_path / "model.cbm"
    path.write_bytes(data)
    return glasswood.load(path)


@pytest.mark.parametrize("source", [OBLIVIOUS_CBM, STEPS_CBM], ids=lambda path: path.name)
def test_truncated_file(source, tmp_path):
    data = source.read_bytes()
    core_end = 8 + struct.unpack_from("<I", data, 4)[0]
    for end in [*range(5, core_end, 61), core_end - 1]:
        with pytest.raises(ValueError, match=r"model\.cbm holds no valid CatBoost model"):
            load_bytes(tmp_path, data[:end])
    for end in range(16, core_end, 211):  # the announced size corrected: never anything but the two errors
        with contextlib.suppress(ValueError, NotImplementedError):
            load_bytes(tmp_path, data[:4] + struct.pack("<I", end - 8) + data[8:end])


@pytest.mark.parametrize("source", [OBLIVIOUS_CBM, STEPS_CBM], ids=lambda path: path.name)
def test_random_edits_never_crash(source, tmp_path):
    """Bytes and offsets overwritten: a forest, or one of the two errors."""
    rng = np.random.default_rng(4)
    original, refused = source.read_bytes(), 0
    structure = np.concatenate([np.arange(8, 900), np.arange(len(original) - 2500, len(original))])
    for _ in range(400):
        data = bytearray(original)
        for at in rng.choice(structure, 3):
            data[at : at + 4] = struct.pack(
                "<I", rng.choice([0, 1, 4, 2**16, 2**31 - 1, 2**32 - 4, rng.integers(2**32)])
            )
        try:
            load_bytes(tmp_path, bytes(data[: len(original)]))
        except (ValueError, NotImplementedError):
            refused += 1
    assert 50 < refused < 400


def overwrite(data, find, dtype, values):
    """Overwrite the first values of a vector of the trees."""
    core = data[8:]
    trees = FlatTable.root(core).table(Core.TREES)
    first, length = trees._vector(find, np.dtype(dtype).itemsize)
    assert length
    values = np.array(values, dtype).tobytes()
    return data[: 8 + first] + values + data[8 + first + len(values) :]


VECTORS = {
    "size beyond": (OBLIVIOUS_CBM, Trees.SIZES, "<i4", [99], "levels, expected 0 to 30"),
    "negative size": (OBLIVIOUS_CBM, Trees.SIZES, "<i4", [-1], "its trees have -1 to"),
    "another size": (OBLIVIOUS_CBM, Trees.SIZES, "<i4", [4], "it holds .* splits, expected"),
    "split beyond": (OBLIVIOUS_CBM, Trees.SPLITS, "<i4", [10**6], "a split names test"),
    "negative weight": (OBLIVIOUS_CBM, Trees.LEAF_WEIGHT, "<f8", [-1], "a leaf weight is negative"),
    "NaN leaf": (OBLIVIOUS_CBM, Trees.LEAF_VALUE, "<f8", [np.nan], "leaf_value holds NaN"),
    "NaN bias": (OBLIVIOUS_CBM, Trees.BIASES, "<f8", [np.nan], "base_score holds NaN"),
    "child beyond": (STEPS_CBM, Trees.STEP, "<u2", [60000], "node 0 names a child beyond its tree"),
    "shared child": (STEPS_CBM, Trees.STEP, "<u2", [1, 1], "node 1 has several parents"),
    "leaf beyond": (STEPS_CBM, Trees.LEAF, "<u4", [9999] * 9, "names a leaf that does not exist"),
    "negative tree": (STEPS_CBM, Trees.SIZES, "<i4", [-3], "a tree has -3 nodes"),
    "another tree": (STEPS_CBM, Trees.SIZES, "<i4", [3], "its trees declare"),
    "split of steps beyond": (STEPS_CBM, Trees.SPLITS, "<i4", [10**6], "a split names test"),
}


@pytest.mark.parametrize("name", VECTORS)
def test_corrupt_vectors(name, tmp_path):
    source, field, dtype, values, message = VECTORS[name]
    with pytest.raises(ValueError, match=message):
        load_bytes(tmp_path, overwrite(source.read_bytes(), field, dtype, values))


def test_other_files(tmp_path):
    for data, message in (
        (b"", "is empty"),
        (b"CBM1", "it starts with b'CBM1'"),
        (b"CBM2" + bytes(99), "it starts with b'CBM2', expected b'CBM1'"),
        (b"CBM1" + struct.pack("<I", 99) + bytes(9), "it announces 99 bytes and holds 9"),
        (b"CBM1" + struct.pack("<I", 16) + bytes(16), "its format is ''"),
    ):
        with pytest.raises(ValueError, match=message):
            load_bytes(tmp_path, data)


def test_shared_vectors():
    """Many features that point to one long vector would take more memory than the file."""
    check_shared([np.zeros(1000, np.float32)] * 2, 8_000)
    with pytest.raises(ValueError, match="its features share their borders"):
        check_shared([np.zeros(1000, np.float32)] * 3, 11_999)
