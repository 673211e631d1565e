"""The local search: what it must find, whatever it skips."""

import numpy as np
import pytest

from tests.grow.engines import engine_of, given, single_leaf


def steps(heights, n_rows=4000, noise=0.3):
    """Constant on each of len(heights) equal parts of the first attribute; the second is of no use."""
    rng = np.random.default_rng(3)
    X = rng.uniform(0, len(heights), (n_rows, 2))
    return X, np.asarray(heights, float)[X[:, 0].astype(int)] + noise * rng.standard_normal(n_rows)


def splits_of(tree):
    return sorted((a, cut) for a, cut in zip(tree["feature"], tree["threshold"], strict=True) if a >= 0)


def constant(tree):
    """The tree with constants in its leaves."""
    return {**tree, "model": np.zeros_like(tree["model"])}


def chain(cuts, n_features=2):
    """Tests of the first attribute, each on the left side of the one before."""
    n = len(cuts)
    attribute, left, right = (np.full(2 * n + 1, -1, np.int32) for _ in range(3))
    attribute[:n] = 0
    left[:n], right[:n] = np.arange(1, n + 1), np.arange(2 * n, n, -1)
    cut = np.zeros(2 * n + 1, np.int32)
    cut[:n] = cuts
    return {
        "feature": attribute, "threshold": cut, "missing_left": np.zeros(2 * n + 1, np.uint8), "left": left,
        "right": right, "model": np.zeros((2 * n + 1) * n_features, np.uint8),
    }  # fmt: skip


HEIGHTS = [0, 0.5, 0.5, 6.5, 6.5, 9.5]
"""Jumps at 3, 5 and 1, the higher the earlier."""


def polished(tree, max_leaves):
    """Splits of the polished tree, and their true places, by the order of the jumps."""
    X, y = steps(HEIGHTS)
    engine, _ = engine_of(X, y, linear=np.zeros(2, bool), max_leaves=max_leaves)
    found = splits_of(engine.apply("polish", tree([np.sum(X[:, 0] < at) for at in (3, 5, 1)]), 0, None, 0, 0)[0])
    return found, [(0, np.sum(X[:, 0] < at)) for at in (3, 5, 1)]


@pytest.mark.parametrize("max_leaves", [2, 3, 4])
def test_leaves_that_gain_most_are_split_first(max_leaves):
    found, true = polished(lambda _: constant(single_leaf(2)), max_leaves)
    np.testing.assert_allclose(found, sorted(true[: max_leaves - 1]), atol=3)


def test_a_full_tree_gives_up_a_split_for_a_better_one():
    """The lower jump of the left side is worth its price, so that nothing but the exchange frees the leaf."""
    found, true = polished(lambda cuts: chain([cuts[0], cuts[2]]), max_leaves=3)
    np.testing.assert_allclose(found, true[:2], atol=3)


def test_polish_ends_where_it_finds_nothing():
    """A second polish of its result returns it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, 6))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 5 * X[:, 3] + rng.standard_normal(len(X))
    engine, _ = engine_of(X, y, max_leaves=6)
    once = engine.apply("polish", single_leaf(6), 0, None, 0, 0)[0]
    assert (once["feature"] < 0).sum() == 6
    again = engine.apply("polish", given(once), 0, None, 0, 0)[0]
    assert again["fitness"] == once["fitness"]


def test_together_polished_trees_are_the_same_for_any_number_of_threads():
    """Random trees of several polishes come at the second, the sixth and so on."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1000, 4))
    y = np.floor(4 * X[:, 0]) * X[:, 1] + np.abs(X[:, 2] - 0.4) + 0.1 * rng.standard_normal(len(X))
    runs = []
    for n_threads in (1, 3):
        changes = {"n_threads": n_threads, "polish_interval": 2, "polish_random": 2, "crossover": 0, "mutation": 0}
        engine, _ = engine_of(X, y, population=8, max_leaves=12, **changes)
        engine.initialise([])
        evaluated = []
        for _generation in range(11):
            engine.step(1, 1000, 1e-6, 1e9)
            evaluated.append(engine.counters[2])
        assert evaluated[6] == evaluated[9] < evaluated[10]  # the best tree alone has long been polished
        runs.append([tree["fitness"] for tree in engine.population()])
    assert runs[0] == runs[1]


def test_a_search_long_at_rest_polishes_more_seldom():
    """From a thousand generations without improvement on."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(100, 2))
    engine, _ = engine_of(X, X[:, 0], population=4, polish_interval=1, crossover=0, mutation=0)
    engine.initialise([])
    evaluated = []
    for _generation in range(2600):
        engine.step(1, 10_000, 1e-6, 1e9)
        evaluated.append(engine.counters[2])
    assert engine.counters[1] < 100  # the last improvement
    polished = np.flatnonzero(np.diff(evaluated) > 0)
    counts = [np.count_nonzero((polished >= first) & (polished < first + 600)) for first in (300, 1900)]
    assert counts[0] == 150  # every fourth
    assert 20 <= counts[1] <= 30
