"""Explainers in files: the same bits without the background rows."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import pytest
from hypothesis import given

import glasswood
from glasswood import Explainer, load
from glasswood.explain import background
from glasswood.inputs import as_rows
from tests.example_forests import assert_same
from tests.fuzz.formats import join_glasswood, split_glasswood
from tests.oracles import evaluate
from tests.strategies import forests_and_rows, full_forest


@given(example=forests_and_rows(min_rows=1))
def test_any_explainer_survives_the_round_trip(tmp_path_factory, example):
    forest, X = example
    path = tmp_path_factory.mktemp("explainer") / "explainer.glasswood"
    weight = 1.0 + np.arange(len(X)) % 3
    explainer = Explainer(forest, X, background_weight=weight, dtype="float64", table_bytes=2**20)
    explainer.save(path)
    loaded = Explainer.load(path)
    np.testing.assert_array_equal(loaded.shap_values(X), explainer.shap_values(X))
    np.testing.assert_array_equal(loaded.expected_value, explainer.expected_value)
    assert (loaded.settings.dtype, loaded.settings.table_bytes) == ("float64", 2**20)
    assert_same(load(path), forest)


@pytest.mark.parametrize("output", ["margin", "probability", "log_loss"])
def test_hundreds_of_rows_give_the_same_bits(tmp_path, output):
    """Of probabilities, too: the weights of each part are rounded once for rows that the forest takes for equal."""
    forest = dataclasses.replace(full_forest(0, n_trees=6, depth=4, n_features=5), link="logistic")
    X, weight = np.random.default_rng(0).normal(size=(400, 5)), 1 + np.arange(400) % 7 / 3
    labels = {"y": np.arange(400) % 2} if output == "log_loss" else {}
    explainer = Explainer(forest, X, background_weight=weight, output=output, dtype="float64", rule="rescale")
    explainer.save(tmp_path / "explainer.glasswood")
    loaded = Explainer.load(tmp_path / "explainer.glasswood")
    np.testing.assert_array_equal(loaded.shap_values(X, **labels), explainer.shap_values(X, **labels))
    np.testing.assert_array_equal(loaded.expected_value, explainer.expected_value)


@given(example=forests_and_rows())
def test_stand_ins_go_where_the_values_go(example):
    forest, X = example
    rows, routed = background.settled(as_rows(X, forest), forest), evaluate.routed_values(forest, X)
    for node in np.flatnonzero(forest.ensemble.feature >= 0):
        feature = forest.ensemble.feature[node]
        found = evaluate.goes_left(forest, node, background.stand_ins(forest, feature, rows[:, feature]))
        np.testing.assert_array_equal(found, evaluate.goes_left(forest, node, routed[:, feature]))


def test_equal_rows_are_kept_once(tmp_path):
    """A forest of two thresholds tells 3 x 3 rows apart, however many there are."""
    forest = full_forest(0, n_trees=1, depth=2, n_features=2)
    X = np.random.default_rng(0).normal(size=(5000, 2))
    Explainer(forest, X).save(tmp_path / "explainer.glasswood")
    assert (tmp_path / "explainer.glasswood").stat().st_size < 6000
    np.testing.assert_array_equal(
        Explainer.load(tmp_path / "explainer.glasswood").shap_values(X), Explainer(forest, X).shap_values(X)
    )


@pytest.mark.usefixtures("without_shap")
@pytest.mark.parametrize("groups", [None, {"both": [0, 2]}])
def test_names_that_the_caller_gave(tmp_path, groups):
    forest = full_forest(0, n_trees=2, depth=3, n_features=3)
    names = ["a", "b", "c"][: 3 if groups is None else 2]
    explainer = Explainer(forest, groups=groups, feature_names=names)
    explainer.save(tmp_path / "explainer.glasswood")
    assert list(Explainer.load(tmp_path / "explainer.glasswood")(np.zeros((2, 3))).feature_names) == names


def test_explainers_without_a_background(tmp_path):
    forest = full_forest(0, n_trees=2, depth=3, n_features=4)
    X = np.random.default_rng(0).normal(size=(9, 4))
    explainer = Explainer(forest, algorithm="quadrature", dtype="float64")
    explainer.save(tmp_path / "explainer.glasswood")
    with glasswood.config_context(device="cpu"):
        loaded = Explainer.load(tmp_path / "explainer.glasswood")
    found = loaded.settings
    assert (found.algorithm, found.dtype, found.device, found.n_jobs) == ("quadrature", "float64", "cpu", None)
    np.testing.assert_array_equal(loaded.shap_values(X), explainer.shap_values(X))


def test_a_file_of_an_explainer_is_not_taken_for_a_forest(tmp_path):
    """Its background and settings would be lost without a word."""
    forest = full_forest(0, n_trees=2, depth=3, n_features=4)
    Explainer(forest, np.zeros((3, 4))).save(tmp_path / "explainer.glasswood")
    for path in (tmp_path / "explainer.glasswood", str(tmp_path / "explainer.glasswood")):
        with pytest.raises(ValueError, match=r"holds an explainer.*glasswood\.Explainer\.load reads it"):
            Explainer(path)


def test_files_without_an_explainer_or_of_another_version(tmp_path):
    forest = full_forest(0, n_trees=2, depth=3, n_features=4)
    forest.save(tmp_path / "forest.glasswood")
    with pytest.raises(ValueError, match="holds a forest but no explainer"):
        Explainer.load(tmp_path / "forest.glasswood")
    Explainer(forest, np.zeros((3, 4))).save(tmp_path / "later.glasswood")
    version, header, arrays = split_glasswood((tmp_path / "later.glasswood").read_bytes())
    header["attachment"]["version"] = 4
    (tmp_path / "later.glasswood").write_bytes(join_glasswood(version, header, arrays))
    with pytest.raises(
        ValueError, match=r"later\.glasswood holds an explainer of version 4, .* up to 3; upgrade glasswood"
    ):
        Explainer.load(tmp_path / "later.glasswood")
    whole = (tmp_path / "later.glasswood").read_bytes()
    (tmp_path / "cut.glasswood").write_bytes(whole[:-1])
    with pytest.raises(ValueError, match="truncated or corrupt"):
        Explainer.load(tmp_path / "cut.glasswood")


def test_a_loaded_explainer_does_not_follow_its_file(tmp_path):
    path, forest = tmp_path / "explainer.glasswood", full_forest(0, 9, 3, 4)
    X = np.random.default_rng(0).normal(size=(20, 4))
    explainer = Explainer(forest, X)
    explainer.save(path)
    loaded = Explainer.load(path)
    path.write_bytes(b"\0" * path.stat().st_size)
    assert_same(loaded.forest, forest)
    os.truncate(path, 0)
    np.testing.assert_array_equal(loaded.shap_values(X), explainer.shap_values(X))
