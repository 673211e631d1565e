"""Tuning measures what runs, keeps what is fastest, and changes no prediction."""

from __future__ import annotations

import dataclasses
import math
import pickle

import numpy as np
import pytest

import glasswood
from glasswood.base.typing import Choice
from glasswood.evaluate.choice import tuned
from glasswood.evaluate.cpu import CpuEvaluator
from glasswood.evaluate.evaluator import Evaluator
from glasswood.evaluate.tuning import choose_fastest, measure
from tests.example_forests import empty_forest, with_linear_leaves
from tests.strategies import Options, chain_forest, full_forest, random_forest, random_rows

SECONDS = 0.02


def rows_for(forest, n_rows):
    return np.random.default_rng(0).normal(size=(n_rows, forest.n_features))


@pytest.mark.parametrize("n_rows", [1, 2, 100, 101, 12_000])
def test_sizes_up_to_the_rows_given(n_rows):
    forest = full_forest(0, 4, 4, 5)
    with glasswood.config_context(device="cpu"):
        found = forest.tune(rows_for(forest, n_rows), seconds=SECONDS)
    expected = sorted({*(size for size in (1, 100, 10_000) if size < n_rows), n_rows})
    assert [choice.n_rows for choice in found.choices] == expected
    assert all(choice.seconds > 0 for choice in found.choices)


def test_every_algorithm_that_can_run_is_measured():
    small, large = full_forest(0, 4, 4, 5), full_forest(0, 4, 9, 5)
    for forest, names in (
        (small, {"serial", "by_sample", "by_node", "windowed"}),
        (large, {"serial", "by_sample", "windowed"}),
    ):
        measured = measure(Evaluator(forest), rows_for(forest, 3), seconds=SECONDS, device="cpu", n_jobs=1)
        assert {choice.algorithm for choice in measured} == names


def test_predictions_do_not_change():
    forest = random_forest(0, Options(n_trees=12, n_features=5, n_outputs=3, categorical=True, missing="marker"))
    X = random_rows(1, forest, 150)
    found = forest.tune(X, seconds=SECONDS)
    assert forest.choices == ()
    np.testing.assert_array_equal(found.predict(X, output="margin"), forest.predict(X, output="margin"))


def test_choices_are_followed_saved_and_pickled(tmp_path):
    choices = (Choice(1, "cpu", "serial", 0, 1e-6), Choice(1000, "cpu", "windowed", 3, 1e-4))
    forest = dataclasses.replace(full_forest(0, 4, 4, 5), choices=choices)
    forest.save(tmp_path / "tuned.glasswood")
    for other in (forest, glasswood.load(tmp_path / "tuned.glasswood"), pickle.loads(pickle.dumps(forest))):
        assert other.choices == choices
        choose = Evaluator(other.ensemble).choose
        assert choose("auto", 2, "cpu") == choices[0]
        assert choose("auto", 10**6, "cpu") == choices[1]
        assert choose("by_sample", 2, "cpu").algorithm == "by_sample"


def test_the_fastest_of_each_batch_and_device_is_kept():
    measured = [
        Choice(1, "cpu", "serial", 0, 3.0),
        Choice(1, "cpu", "by_node", 0, 1.0),
        Choice(1, "cuda", "by_node", 0, 2.0),
    ]
    found = choose_fastest(measured)
    assert found == (measured[1], measured[2])
    assert tuned(found, 1) == measured[1]
    assert tuned(found, 1, ("cuda",)) == measured[2]
    assert tuned((), 1) is None


def test_nothing_to_measure_on():
    forest = full_forest(0, 4, 4, 5)
    with pytest.raises(ValueError, match="X has no rows to measure on; pass at least one row"):
        forest.tune(np.zeros((0, 5)))


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan, None, "1"])
def test_time_to_spend_is_checked(seconds):
    with pytest.raises(ValueError, match="seconds is"):
        full_forest(0, 4, 4, 5).tune(np.zeros((1, 5)), seconds=seconds)


def test_rows_of_nan():
    forest = full_forest(0, 4, 4, 5)
    X = np.full((20, 5), np.nan)
    np.testing.assert_array_equal(forest.tune(X, seconds=SECONDS).predict(X), forest.predict(X))
    with pytest.raises(ValueError, match="NaN in row 0"):
        dataclasses.replace(forest, nan_allowed=False).tune(X, seconds=SECONDS)


@pytest.mark.parametrize("make", [empty_forest, lambda: with_linear_leaves(full_forest(0, 2, 3, 4))])
def test_forests_without_trees_and_with_linear_leaves(make):
    forest = make()
    X = rows_for(forest, 30)
    np.testing.assert_array_equal(forest.tune(X, seconds=SECONDS).predict(X), forest.predict(X))


@pytest.mark.parametrize(
    "choices",
    [
        [Choice(1, "cpu", "serial", 0, 1.0)],
        ((1, "cpu", "serial", 0, 1.0),),
        (Choice(0, "cpu", "serial", 0, 1.0),),
        (Choice(1, "tpu", "serial", 0, 1.0),),
        (Choice(1, "cpu", "auto", 0, 1.0),),
        (Choice(1, "cpu", "serial", -1, 1.0),),
        (Choice(1, "cpu", "serial", 0, math.nan),),
        (Choice(1, "cpu", "serial", 0, "1"),),
    ],
)
def test_choices_that_no_tuning_writes_are_refused(choices):
    with pytest.raises(ValueError, match="choices"):
        dataclasses.replace(full_forest(0, 4, 4, 5), choices=choices)


def test_reductions_are_measured_where_paths_are_reduced():
    settings = [
        {choice.setting for choice in CpuEvaluator(forest).candidates(10) if choice.algorithm == "by_node"}
        for forest in (chain_forest(20, 0.5), full_forest(0, 4, 4, 5), chain_forest(100, 0.5))
    ]
    assert settings == [{0, 1, 2, 3}, {0}, {0}]
