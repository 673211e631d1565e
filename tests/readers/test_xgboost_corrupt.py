"""XGBoost documents that are truncated, corrupt, hostile or not supported yet."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import glasswood

DATA = Path(__file__).parent / "data"


def mutate(path, change):
    """The document with one thing changed."""
    document = json.loads((DATA / "xgboost-3.2.0-categories.json").read_bytes())
    change(document)
    path.write_text(json.dumps(document))
    return path


def model_of(document):
    return document["learner"]["gradient_booster"]["model"]


def tree_of(document):
    return model_of(document)["trees"][1]


def change_tree(name, at, value):
    def change(document):
        tree_of(document)[name][at] = value

    return change


def set_tree(name, value):
    def change(document):
        tree_of(document)[name] = value

    return change


def set_parameter(name, value):
    def change(document):
        document["learner"]["learner_model_param"][name] = value

    return change


HOSTILE = {
    "left child out of range": (change_tree("left_children", 0, 99), "tree 1 names child 99"),
    "left child negative": (change_tree("left_children", 0, -7), "tree 1 has a left child below -1"),
    "right child out of range": (change_tree("right_children", 0, 10**6), "tree 1 names child 1000000"),
    "right child beyond int32": (change_tree("right_children", 0, 2**40), "expected integers of 32 bits"),
    "cycle": (change_tree("left_children", 1, 0), "tree 1 reaches node 0 twice"),
    "shared child": (change_tree("right_children", 0, 1), "tree 1 reaches node 1 twice"),
    "split cut off": (change_tree("left_children", 0, -1), "tree 1 declares .* nodes, its root reaches 1"),
    "feature beyond": (change_tree("split_indices", 0, 4), "tree 1 has a split on a feature beyond the 4 declared"),
    "feature negative": (change_tree("split_indices", 0, -1), "tree 1 has a split on a feature beyond"),
    "feature beyond int64": (change_tree("split_indices", 0, 2**70), "'split_indices' holds"),
    "fractional child": (change_tree("left_children", 0, 1.5), "'left_children' holds float64, expected integers"),
    "NaN threshold": (lambda document: split_on_nan(document), "tree 1 has a threshold that is NaN"),
    "NaN leaf": (lambda document: nan_leaf(document), "leaf_value holds NaN or infinity"),
    "column missing": (lambda document: tree_of(document).pop("default_left"), "'default_left' is missing"),
    "column a text": (set_tree("split_conditions", "123456789"), "'split_conditions' is of type str"),
    "column of texts": (change_tree("split_conditions", 0, "1"), "'split_conditions' holds something other"),
    "column nested": (change_tree("split_conditions", 0, [1.0]), "inhomogeneous"),
    "column null": (set_tree("sum_hessian", None), "'sum_hessian' is missing"),
    "column short": (lambda document: tree_of(document)["sum_hessian"].pop(), "'sum_hessian' of tree 1 has"),
    "columns empty": (set_tree("left_children", []), "'left_children' of tree 1 has 0 entries"),
    "a billion nodes": (lambda document: declare_nodes(document, 10**9), "of tree 1 has .* expected 1000000000"),
    "more nodes than fit": (lambda document: declare_nodes(document, 10**30), "'num_nodes' is .* expected 0 to"),
    "nodes no number": (lambda document: declare_nodes(document, "x"), "invalid literal for int"),
    "a billion trees": (lambda document: declare_trees(document, 10**9), "declares 1000000000 trees and holds 2"),
    "tree no object": (lambda document: model_of(document)["trees"].__setitem__(1, []), "tree 1 is a list"),
    "tree of no output": (
        lambda document: model_of(document)["tree_info"].__setitem__(1, 5),
        "tree 1 adds to output 5",
    ),
    "vector leaf": (lambda document: tree_of(document)["tree_param"].update(size_leaf_vector="7"), "leaves hold"),
    "a billion classes": (set_parameter("num_class", "1000000000"), "declares 1 targets and 1000000000 classes"),
    "negative targets": (set_parameter("num_target", "-3"), "declares -3 targets"),
    "features no number": (set_parameter("num_feature", None), "'num_feature' is None, expected an integer"),
    "base score a list": (set_parameter("base_score", [0.5]), "'base_score' is of type list"),
    "base score no number": (set_parameter("base_score", "half"), "could not convert string to float"),
    "base score NaN": (set_parameter("base_score", "nan"), "base_score holds NaN"),
    "base scores too many": (set_parameter("base_score", "[1,2,3]"), "'base_score' has 3 entries for 1 outputs"),
    "category beyond": (change_tree("categories", 0, 2**24), "'categories' holds"),
    "category negative": (change_tree("categories", 0, -1), "'categories' holds -1"),
    "category segment": (change_tree("categories_segments", 0, 10**6), "that 'categories' does not hold"),
    "category size": (change_tree("categories_sizes", 0, 0), "that 'categories' does not hold"),
    "category node": (change_tree("categories_nodes", 0, 10**6), "name different categorical splits"),
    "split type": (lambda document: no_split_types(document), "name different categorical splits"),
    "names no texts": (
        lambda document: document["learner"].update(feature_names=[1]),
        "'feature_names' holds something",
    ),
    "names too few": (lambda document: document["learner"].update(feature_names=["a"]), "feature_names has 1 entries"),
    "no learner": (lambda document: document.pop("learner"), "'learner' is missing"),
    "no version": (lambda document: document.pop("version"), "'version' is of type NoneType"),
}


def split_on_nan(document):
    tree = tree_of(document)
    numerical = next(i for i, left in enumerate(tree["left_children"]) if left > 0 and not tree["split_type"][i])
    tree["split_conditions"][numerical] = float("nan")


def nan_leaf(document):
    tree = tree_of(document)
    tree["split_conditions"][tree["left_children"].index(-1)] = float("nan")


def declare_nodes(document, n):
    tree_of(document)["tree_param"]["num_nodes"] = str(n)


def declare_trees(document, n):
    model_of(document)["gbtree_model_param"]["num_trees"] = str(n)


def no_split_types(document):
    tree = tree_of(document)
    tree["split_type"] = [0] * len(tree["split_type"])


@pytest.mark.parametrize("fault", HOSTILE)
def test_hostile_documents_are_refused(fault, tmp_path):
    change, message = HOSTILE[fault]
    path = mutate(tmp_path / "model.json", change)
    with pytest.raises(ValueError, match=message) as caught:
        glasswood.load(path)
    assert str(path) in str(caught.value)


def test_unchanged_document_is_accepted(tmp_path):
    assert glasswood.load(mutate(tmp_path / "model.json", dict)).n_trees == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty, expected a model"),
        ("null", "it is a NoneType"),
        ("[]", "it is a list"),
        ("{}", "'learner' is missing"),
        ('{"learner": "x"}', "'learner' is of type str"),
        ("[" * 100_000, "truncated or corrupt"),
        ('{"a":' * 100_000, "truncated or corrupt"),
        ("9" * 10_000, "truncated or corrupt"),
        ("\udcff", "truncated or corrupt"),
    ],
)
def test_files_that_are_no_models(text, message, tmp_path):
    path = tmp_path / "model.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=message):
        glasswood.load(path)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_truncated_files(suffix, tmp_path):
    data = (DATA / f"xgboost-3.2.0-categories.{suffix}").read_bytes()
    path = tmp_path / f"model.{suffix}"
    for n_bytes in range(0, len(data), 7):
        path.write_bytes(data[:n_bytes])
        with pytest.raises(ValueError, match="model"):
            glasswood.load(path)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_flipped_bytes_give_a_valid_forest_or_a_value_error(suffix, tmp_path):
    rng = np.random.default_rng(3)
    original = np.fromfile(DATA / f"xgboost-3.2.0-categories.{suffix}", np.uint8)
    path, refused = tmp_path / f"model.{suffix}", 0
    for _ in range(400):
        data = original.copy()
        data[rng.integers(len(data), size=2)] = rng.integers(256, size=2, dtype=np.uint8)
        data.tofile(path)
        try:
            glasswood.load(path)
        except (ValueError, NotImplementedError):
            refused += 1
    assert refused > 200


def test_signalling_nans_of_covers_warn_of_nothing(tmp_path):
    data = (DATA / "xgboost-3.2.0-categories.ubj").read_bytes()
    name = b"sum_hessian[$d#L"
    first = data.index(name) + len(name) + 8
    path = tmp_path / "model.ubj"
    path.write_bytes(data[:first] + bytes.fromhex("7fa00001") + data[first + 4 :])
    forest = glasswood.load(path)  # warnings are errors
    with pytest.raises(ValueError, match="cover"):
        glasswood.Explainer(forest).shap_values(np.zeros((1, forest.n_features)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.update(version=[4, 0, 0]), "documents of XGBoost 4 are not read yet"),
        (lambda document: document["learner"]["objective"].update(name="x:y"), "the objective 'x:y' is not supported"),
    ],
)
def test_unknown_documents_are_named(change, message, tmp_path):
    with pytest.raises(NotImplementedError, match=message):
        glasswood.load(mutate(tmp_path / "model.json", change))
