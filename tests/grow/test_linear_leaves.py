"""Forests whose leaves hold linear models: values, files, and what is refused."""

import dataclasses

import numpy as np
import pytest

import glasswood
from tests.example_forests import small_forest, with_linear_leaves


@pytest.fixture
def forest():
    return with_linear_leaves(small_forest())


def expected(forest, row):
    """By hand: the trees of small_forest; missing x1 and categories other than 5 go right."""
    total = float(forest.ensemble.base_score[0])
    positions = forest.predict(row[None], output="leaf")[0]
    for tree, leaf_id in enumerate(positions):
        first, last = forest.ensemble.leaf_offsets[tree : tree + 2]
        leaf = first + int(np.flatnonzero(forest.ensemble.leaf_id[first:last] == leaf_id)[0])
        x = row[forest.ensemble.linear_feature[leaf]]
        deviation = 0.0 if np.isnan(x) else x - forest.ensemble.linear_mean[leaf]
        value = forest.ensemble.leaf_value[leaf, 0] + forest.ensemble.linear_coefficient[leaf] * deviation
        total += forest.ensemble.tree_weight[tree] * min(
            max(value, forest.ensemble.leaf_range[leaf, 0]), forest.ensemble.leaf_range[leaf, 1]
        )
    return total


@pytest.mark.parametrize(
    "row", [[0.0, 5.0], [0.0, 4.0], [1.0, 2.0], [np.nan, 5.0], [1.0, np.nan], [1e6, 3.0], [-1e6, 5.0]]
)
def test_values(forest, row):
    row = np.array(row)
    assert forest.predict(row[None], output="margin")[0] == pytest.approx(expected(forest, row), rel=1e-12)


def test_algorithms_agree_and_rows_do_not_depend_on_each_other(forest):
    rows = np.random.default_rng(0).normal(size=(50, 2)) * 5
    whole = forest.predict(rows, algorithm="serial")
    np.testing.assert_array_equal(whole, forest.predict(rows, algorithm="by_sample"))
    np.testing.assert_array_equal(whole, np.concatenate([forest.predict(row[None]) for row in rows]))


def test_terms_of_categories_and_of_missing_values(forest):
    """A term is 1 where the row's category has the code, or where there is no value, and 0 elsewhere."""
    terms = dataclasses.replace(forest, linear_category=np.array([-2, 5, -2, 5], np.int32))
    rows = np.array([[0.0, 5.0], [1.0, 4.0], [np.nan, np.nan]])
    offsets = terms.predict(rows, output="margin") - dataclasses.replace(terms, linear_coefficient=np.zeros(4)).predict(
        rows, output="margin"
    )
    leaves = terms.predict(rows, output="leaf")
    for row, positions, offset in zip(rows, leaves, offsets, strict=True):
        expected = 0.0
        for tree, leaf_id in enumerate(positions):
            first, last = terms.leaf_offsets[tree : tree + 2]
            leaf = first + int(np.flatnonzero(terms.leaf_id[first:last] == leaf_id)[0])
            x = row[terms.linear_feature[leaf]]
            has_it = np.isnan(x) if terms.linear_category[leaf] == -2 else x == 5
            deviation = float(has_it) - terms.linear_mean[leaf]
            expected += terms.tree_weight[tree] * terms.linear_coefficient[leaf] * deviation
        assert offset == pytest.approx(expected, rel=1e-12)


def test_no_rows(forest):
    assert forest.predict(np.empty((0, 2))).shape == (0,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"linear_offsets": np.array([0, 1, 2, 3, 5])}, "linear_offsets must rise from 0 to 4"),
        ({"linear_offsets": np.array([0, 2, 1, 3, 4])}, "linear_offsets must rise from 0 to 4"),
        ({"linear_feature": np.array([0, 1, 2, 0], np.int32)}, "term 2 of the linear models uses feature 2"),
        ({"linear_coefficient": np.array([0, 1, np.nan, 0])}, "linear_coefficient holds NaN"),
        ({"linear_category": np.array([-1, -4, 0, 0], np.int32)}, "term 1 of the linear models takes category -4"),
        ({"linear_category": np.array([-1], np.int32)}, "linear_category has 1 entries, expected 4"),
        ({"linear_mean": np.zeros(3)}, "linear_mean has 3 entries, expected 4"),
        ({"leaf_range": np.zeros((3, 2))}, "leaf_range has the shape"),
        ({"leaf_range": np.tile([1.0, 0.0], (4, 1))}, "the range of leaf 0"),
        ({"linear_offsets": np.zeros(0, np.int64)}, "leaf_range has the shape|linear_offsets is empty"),
    ],
)
def test_corrupt_models_are_refused(forest, change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(forest, **change)


def test_files(forest, tmp_path):
    forest.save(tmp_path / "linear.glasswood")
    rows = np.random.default_rng(0).normal(size=(20, 2))
    np.testing.assert_array_equal(glasswood.load(tmp_path / "linear.glasswood").predict(rows), forest.predict(rows))
