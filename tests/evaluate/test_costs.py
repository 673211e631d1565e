"""The model of costs prefers what was measured to be the fastest, wherever that is clear."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import glasswood
import glasswood.evaluate.cpu
from glasswood import _core
from glasswood.base.typing import Choice
from glasswood.evaluate import costs
from glasswood.evaluate.cpu import CpuEvaluator, probe_rows
from tests.evaluate.test_categories import forest_of_sets
from tests.strategies import chain_forest, full_forest


def coarse(forest):
    """Few thresholds a feature: 8-bit ranks."""
    return dataclasses.replace(forest, threshold=np.round(forest.ensemble.threshold * 16) / 16)


def permutes_bytes():
    plan = CpuEvaluator(coarse(full_forest(0, 20, 4, 5))).node_plan(Choice(1, "cpu", "by_node"))
    return plan.in_registers and plan.code_bits == 8


@pytest.mark.parametrize(
    ("forest", "n_rows", "expected"),
    [
        (coarse(full_forest(0, 100, 6, 30)), 10_000, "by_node"),
        (coarse(full_forest(0, 500, 8, 50)), 60, "by_node"),
        (chain_forest(15, 0.5), 10_000, "by_node"),
        (full_forest(0, 100, 6, 50, "float64"), 10_000, "by_node"),
        (full_forest(0, 100, 8, 300), 10_000, "by_sample"),
        (full_forest(0, 150, 12, 10), 60, "windowed"),
        (full_forest(0, 20, 14, 8), 20_000, "by_sample"),
    ],
)
def test_the_fastest_of_clear_cases(forest, n_rows, expected):
    if not permutes_bytes():
        pytest.skip("measured on a processor that permutes bytes")
    assert CpuEvaluator(forest).default_choice(n_rows).algorithm == expected


def test_by_sample_without_registers():
    if _core.instruction_set() in {"v3", "v4"}:
        pytest.skip("vectors of 32 bytes take enough rows in lanes for by_node")
    assert CpuEvaluator(full_forest(0, 100, 6, 30)).default_choice(10_000).algorithm == "by_sample"


@pytest.mark.parametrize(
    "forest", [full_forest(0, 1, 10, 8), full_forest(0, 8, 4, 50), forest_of_sets(3, "float64", n_trees=2)]
)
@pytest.mark.parametrize("n_rows", [1, 40, 10_000])
def test_few_trees_take_what_is_measured_to_be_the_fastest(monkeypatch, forest, n_rows):
    measured(monkeypatch, forest, n_rows)


@pytest.mark.parametrize("n_rows", [1, 2, 7])
@pytest.mark.parametrize("forest", [full_forest(0, 100, 6, 8), full_forest(0, 30, 10, 8, "float64")])
def test_few_rows_take_what_is_measured_to_be_the_fastest(monkeypatch, forest, n_rows):
    measured(monkeypatch, forest, n_rows)


def test_nothing_is_measured_where_calls_are_long(monkeypatch):
    def ask():
        raise AssertionError("the clock is asked")

    monkeypatch.setattr(glasswood.evaluate.cpu, "seconds", ask)
    evaluator = CpuEvaluator(full_forest(0, 100, 6, 8).ensemble)
    evaluator.default_choice(10_000)
    with pytest.raises(AssertionError, match="clock"):
        evaluator.default_choice(1)


def test_trees_of_one_leaf_are_measured_too():
    forest = full_forest(0, 3, 0, 2)
    np.testing.assert_array_equal(forest.predict(np.zeros((3, 2))), forest.predict(np.ones((3, 2)), algorithm="serial"))


def measured(monkeypatch, forest, n_rows):
    """The clock stands still but for the calls, whose seconds are given."""
    for fastest in {choice.algorithm for choice in CpuEvaluator(forest.ensemble).usual()}:
        evaluator, now = CpuEvaluator(forest.ensemble), [0.0]
        margins = evaluator.margins

        def slowed(rows, choice, n_jobs, margins=margins, now=now, fastest=fastest):
            now[0] += 1.0 if choice.algorithm == fastest else 1.1
            return margins(rows, choice, n_jobs)

        monkeypatch.setattr(evaluator, "margins", slowed)
        monkeypatch.setattr(glasswood.evaluate.cpu, "seconds", lambda now=now: now[0])
        assert evaluator.default_choice(n_rows).algorithm == fastest
        calls = now[0]
        assert evaluator.default_choice(n_rows).algorithm == fastest
        assert now[0] == calls, "measured once a kind of batches"


@pytest.mark.parametrize(("typical", "other"), [(1, 5), (250, 24), (3_000, 250), (20_000, 1)])
def test_few_trees_are_measured_once_that_pays(monkeypatch, typical, other):
    """After as many rows of a kind of batch as measuring takes time for; until then they go by_sample."""
    evaluator, measured = CpuEvaluator(full_forest(0, 3, 5, 8).ensemble), []
    monkeypatch.setattr(evaluator, "_fastest", lambda n_rows: measured.append(n_rows) or Choice(0, "cpu", "by_node"))
    chosen = [evaluator.choice_for_next(typical).algorithm for _ in range(5_000)]
    first = chosen.index("by_node")
    assert chosen == ["by_sample"] * first + ["by_node"] * (5_000 - first)
    assert measured == [min(typical, 2_000)]
    if typical >= costs.LANE_ROWS:
        assert first * typical <= 7 * len(evaluator.usual()) * min(typical, 2_000) < (first + 1) * typical
    else:
        assert 500 < first * typical < 4_000  # in 2 ms
    assert evaluator.choice_for_next(other).algorithm == "by_sample"


def test_predictors_of_single_rows_are_measured_when_they_are_made(monkeypatch):
    forest = glasswood.Forest(full_forest(0, 3, 5, 8).ensemble)
    monkeypatch.setattr(CpuEvaluator, "_fastest", lambda *_: pytest.fail("measured"))
    forest.predict(np.zeros((9, 8)))
    with pytest.raises(pytest.fail.Exception, match="measured"):
        forest.predictor()


def test_long_calls_of_many_trees_are_estimated_at_once():
    evaluator = CpuEvaluator(full_forest(0, 100, 8, 50).ensemble)
    assert evaluator.choice_for_next(20_000) == evaluator.default_choice(20_000)


def test_rows_to_measure_by_reach_most_leaves():
    forest = full_forest(0, 3, 5, 8)
    reached = forest.predict(probe_rows(forest.ensemble, 250), output="leaf", algorithm="serial")
    assert all(len(np.unique(of_tree)) > 12 for of_tree in reached.T)


def test_rows_that_come_once_pay_for_no_layout_that_they_do_not_need():
    forest = full_forest(0, 100, 8, 50).ensemble
    evaluator = CpuEvaluator(forest)
    assert evaluator.choice_for_once(100).algorithm == "by_sample"
    assert evaluator.choice_for_once(100_000) == evaluator.default_choice(100_000)


@pytest.mark.parametrize("n_rows", [1, 8, 100, 10_000])
@pytest.mark.parametrize("forest", [chain_forest(15, 0.5), full_forest(0, 20, 14, 8), forest_of_sets(3, "float64", 9)])
def test_the_bound_of_a_walk_is_above_its_estimate(forest, n_rows):
    ensemble = getattr(forest, "ensemble", forest)
    assert costs.most_of_walk(ensemble) >= costs.nanoseconds(ensemble, Choice(n_rows, "cpu", "by_sample"), n_rows, None)


def test_rows_that_come_once_take_layouts_that_are_there():
    evaluator = CpuEvaluator(full_forest(0, 100, 8, 50).ensemble)
    evaluator.node_plan(Choice(1, "cpu", "by_node"))
    assert evaluator.choice_for_once(100) == evaluator.default_choice(100)


@pytest.mark.parametrize("n_rows", costs.TYPICAL_ROWS)
def test_every_term_has_a_constant(n_rows):
    for forest in (full_forest(0, 20, 8, 5), coarse(full_forest(0, 20, 4, 5)), full_forest(0, 2, 10, 300, "float64")):
        evaluator = CpuEvaluator(forest.ensemble)
        for choice in evaluator.usual():
            plan = None if choice.algorithm == "by_sample" else evaluator.node_plan(choice)
            assert set(costs.terms(forest.ensemble, choice, n_rows, plan)) <= set(costs.CONSTANTS)


def test_the_choice_depends_on_the_kind_of_batch_alone():
    for smallest, largest in ((1, 1), (2, 2), (3, 8), (9, 63), (64, 1_000), (1_001, 8_000), (8_001, 10**6)):
        assert costs.batch_kind(smallest) == costs.batch_kind(largest)
    assert [costs.batch_kind(n) for n in costs.TYPICAL_ROWS] == list(range(7))
