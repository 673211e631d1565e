"""Exact values of responses of the margins against sums over all coalitions."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glasswood
from glasswood.explain.responses import coalitions
from glasswood.explain.responses.permutations import EstimateWarning
from tests.example_forests import with_models
from tests.oracles import coalitions as oracle
from tests.oracles import evaluate, interventional
from tests.strategies import Options, forests_and_rows, full_forest, random_forest, random_rows


def explainer_of(forest, background, output="response", weight=None, dtype="float64", groups=None, n_jobs=2):
    settings = {"output": output, "background_weight": weight, "dtype": dtype, "groups": groups, "n_jobs": n_jobs}
    return glasswood.Explainer(forest, background, **settings)


def with_axis(found, n_axes):
    return found if found.ndim == n_axes else found[..., None]


def softmax(margins, scale=1.0):
    terms = np.exp(scale * (margins - margins.max(axis=1, keepdims=True)))
    return terms / terms.sum(axis=1, keepdims=True)


def softmax_loss(margins, label):
    return np.logaddexp.reduce(margins, axis=1) - margins[:, label]


def check(forest, X, background, output, respond, y=None, weight=None, groups=None, tolerance=1e-12):
    """Values, interactions and indices of sets; respond(margins, label) of margins (N, k)."""
    explainer = explainer_of(forest, background, output, weight, groups=groups)
    player_of = explainer.game.players.of_feature

    def of_rows(rows, place):
        return respond(evaluate.margins(forest, rows), None if y is None else y[place])

    game = oracle.game(of_rows, X, background, player_of, weight)
    size = tolerance * max(1, float(np.ptp(game)))
    labels = {} if y is None else {"y": y}
    phi = oracle.values(game)
    found = with_axis(explainer.shap_values(X, **labels), 3)
    np.testing.assert_allclose(found, phi, rtol=0, atol=size)
    pairs = with_axis(explainer.shap_interaction_values(X, **labels), 4)
    np.testing.assert_allclose(pairs, oracle.interactions(game), rtol=0, atol=size)
    for order, kind in itertools.product((1, 3), ("shapley", "banzhaf")):
        index = interventional.index(game, order, kind)
        of_sets = with_axis(explainer.interaction_index(X, list(index), kind, **labels), 3)
        expected = np.stack(list(index.values()), axis=1) if index else np.zeros((len(X), 0, phi.shape[2]))
        np.testing.assert_allclose(of_sets, expected, rtol=0, atol=size)
    expected = np.atleast_1d(explainer.expected_value)
    expected = expected if y is None else expected[np.asarray(y)][:, None]
    np.testing.assert_allclose(phi.sum(axis=1) + expected, game[:, -1], rtol=0, atol=size)


@given(
    example=forests_and_rows(min_rows=2, max_rows=6, n_features=5, n_outputs=1),
    link=st.sampled_from(["logistic", "exponential", "log1p_exp", "exp"]),
    groups=st.sampled_from([None, {"a": [4, 1], "b": [3]}]),
)
def test_responses_of_any_forest(example, link, groups):
    """Categories, missing values, ties, chains, groups: what the walk sees, one output."""
    forest, X = example
    largest = max(1.0, float(np.abs(evaluate.margins(forest, X)).max()))
    forest = dataclasses.replace(
        forest,
        link=link,
        link_scale=0.7,
        leaf_value=forest.ensemble.leaf_value / largest,
        base_score=forest.ensemble.base_score / largest,
    )
    respond = {
        "logistic": lambda m, _: interventional.sigmoid(0.7 * m),
        "exponential": lambda m, _: interventional.sigmoid(2 * m),
        "log1p_exp": lambda m, _: np.logaddexp(0, m),
        "exp": lambda m, _: np.exp(m),
    }[link]
    background = X[1:]
    check(forest, X[:2], background, "response", respond, weight=1.0 + np.arange(len(background)) % 3, groups=groups)


@pytest.mark.parametrize("vector_leaves", [False, True])
@pytest.mark.parametrize("n_outputs", [2, 3, 7])
@pytest.mark.parametrize("row_type", ["float32", "float64"])
def test_probabilities_and_losses_of_several_classes(n_outputs, vector_leaves, row_type):
    options = Options(
        n_trees=3 * n_outputs, n_features=5, n_outputs=n_outputs, vector_leaves=vector_leaves, row_type=row_type,
        categorical=True, weights="dart", meaning={"link": "softmax"},
    )  # fmt: skip
    forest = random_forest(n_outputs, options)
    X = random_rows(1, forest, 12)
    check(forest, X[:3], X[3:], "probability", lambda m, _: softmax(m))
    y = np.arange(3) % n_outputs
    check(forest, X[:3], X[3:], "log_loss", softmax_loss, y=y)
    apart = dataclasses.replace(forest, link="one_vs_all")
    check(apart, X[:3], X[3:], "probability", lambda m, _: interventional.sigmoid(m))
    check(apart, X[:3], X[3:], "log_loss", lambda m, label: np.logaddexp(0, -m[:, label]), y=y)


@pytest.mark.parametrize("spread", [1.0, 30.0, 1000.0])
def test_losses_of_two_classes(spread):
    forest = full_forest(3, n_trees=8, depth=4, n_features=5)
    forest = dataclasses.replace(forest, link="logistic", leaf_value=forest.ensemble.leaf_value * spread)
    X = np.random.default_rng(1).normal(size=(14, 5))
    y = np.array([0, 1, 1, 0])
    check(forest, X[:4], X[4:], "log_loss", lambda m, label: interventional.log_loss(m[:, 0], label), y=y)
    check(forest, X[:4], X[4:], "probability", lambda m, _: 1 / (1 + np.exp(-np.clip(m, -700, 700))))


def test_decisions_and_callables():
    forest = dataclasses.replace(full_forest(3, n_trees=8, depth=4, n_features=5), link="logistic")
    X = np.random.default_rng(1).normal(size=(14, 5))
    check(forest, X[:4], X[4:], "decision", lambda m, _: m > 0)
    check(forest, X[:4], X[4:], np.tanh, lambda m, _: np.tanh(m))
    check(forest, X[:4], X[4:], lambda m: m[:, 0] ** 2, lambda m, _: m**2)
    both = lambda m: np.column_stack([m, np.cos(m)])  # noqa: E731
    check(forest, X[:4], X[4:], both, lambda m, _: both(m))
    options = Options(n_trees=9, n_features=5, n_outputs=3, meaning={"link": "softmax", "prediction": "argmax"})
    classes = random_forest(2, options)
    chosen = lambda m, _: m.argmax(axis=1)[:, None] == np.arange(3)  # noqa: E731
    check(classes, X[:4], X[4:], "decision", chosen)


@pytest.mark.parametrize("ends", [(-np.inf, np.inf), (-0.5, 0.3)])
@pytest.mark.parametrize("has_missing", [False, True])
def test_leaves_with_equations(ends, has_missing):
    forest = with_models(random_forest(4, Options(n_trees=3, n_features=5)), 4, *ends)
    forest = dataclasses.replace(forest, link="exp")
    X = np.random.default_rng(2).normal(size=(12, 5))
    if has_missing:
        X[::3, :2] = np.nan
        forest = dataclasses.replace(forest, leaf_missing=np.linspace(-1, 1, forest.n_leaves))
    X = X.astype(forest.ensemble.threshold.dtype).astype(np.float64)
    check(forest, X[:3], X[3:], "response", lambda m, _: np.exp(m))
    check(forest, X[:3], X[3:], "response", lambda m, _: np.exp(m), groups={"a": [0, 1], "b": [2, 4]})


@pytest.mark.parametrize("n_features", [8, 9, 30, 60, 90])
def test_masks_of_any_width(n_features):
    """A bit a feature in 8 to 64, beyond that a bit a position of the leaf's path."""
    forest = full_forest(5, n_trees=40, depth=4, n_features=n_features)
    forest = dataclasses.replace(forest, link="logistic")
    assert len(np.unique(forest.ensemble.feature[forest.ensemble.feature >= 0])) > min(n_features - 2, 64)
    rng = np.random.default_rng(n_features)
    X = np.repeat(rng.normal(size=(1, n_features)), 6, axis=0)
    changed = rng.permutation(n_features)[:7]
    X[:, changed] = rng.normal(size=(6, 7))
    player_of = np.full(n_features, 7)
    player_of[changed] = np.arange(7)
    of_rows = lambda rows, _: interventional.sigmoid(evaluate.margins(forest, rows))  # noqa: E731
    game = oracle.game(of_rows, X[:2], X[2:], player_of)
    found = explainer_of(forest, X[2:]).shap_values(X[:2])
    np.testing.assert_allclose(found[:, changed], oracle.values(game)[:, :7, 0], rtol=0, atol=1e-12)
    assert not np.delete(found, changed, axis=1).any()


def test_results_are_rounded_once_and_their_bits_depend_on_nothing_else():
    forest = dataclasses.replace(full_forest(1, n_trees=20, depth=6, n_features=7), link="logistic")
    X = np.random.default_rng(1).normal(size=(140, 7))
    rows, background = X[:90], X[90:]
    found = explainer_of(forest, background).shap_values(rows)
    np.testing.assert_array_equal(explainer_of(forest, background, n_jobs=1).shap_values(rows), found)
    np.testing.assert_array_equal(explainer_of(forest, background, n_jobs=5).shap_values(rows), found)
    one_by_one = [explainer_of(forest, background).shap_values(row[None])[0] for row in rows[:5]]
    np.testing.assert_array_equal(one_by_one, found[:5])
    np.testing.assert_array_equal(
        explainer_of(forest, background, dtype="float32").shap_values(rows), found.astype("f4")
    )
    order = np.random.default_rng(3).permutation(len(background))
    np.testing.assert_array_equal(explainer_of(forest, background[order]).shap_values(rows), found)


def test_equal_rows_are_explained_once():
    forest = dataclasses.replace(full_forest(1, n_trees=20, depth=3, n_features=3), link="logistic")
    X = np.random.default_rng(1).normal(size=(40, 3))
    explainer = explainer_of(forest, np.repeat(X[20:], 3, axis=0))
    twice = explainer.shap_values(np.repeat(X[:20], 2, axis=0))
    np.testing.assert_array_equal(twice[::2], twice[1::2])
    np.testing.assert_array_equal(twice[::2], explainer_of(forest, X[20:]).shap_values(X[:20]))


def test_results_that_are_larger_than_memory_go_to_out_in_parts(limits, tmp_path):
    forest = dataclasses.replace(full_forest(1, n_trees=20, depth=4, n_features=7), link="logistic")
    X = np.random.default_rng(1).normal(size=(60, 7))
    rows = np.concatenate([X[:40], X[30:5:-1]])
    explainer = explainer_of(forest, X[40:])
    whole = explainer.shap_interaction_values(rows)
    limits(mask_bytes=2**12)
    out = np.lib.format.open_memmap(tmp_path / "pairs.npy", "w+", np.float64, whole.shape)
    assert explainer_of(forest, X[40:]).shap_interaction_values(rows, out=out) is out
    np.testing.assert_allclose(out, whole, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", ["mask_bytes", "coalitions_together"])
def test_memory_is_bounded_by_parts(name, limits):
    forest = dataclasses.replace(full_forest(1, n_trees=20, depth=6, n_features=7), link="logistic")
    X = np.random.default_rng(1).normal(size=(60, 7))
    whole = [explainer_of(forest, X[20:], output).shap_values(X[:20]) for output in ("response", np.tanh)]
    limits(**{name: 2**12})
    parts = [explainer_of(forest, X[20:], output).shap_values(X[:20]) for output in ("response", np.tanh)]
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-15)


def test_functions_are_checked():
    forest = dataclasses.replace(full_forest(1, n_trees=4, depth=3, n_features=3), link="logistic")
    X = np.random.default_rng(1).normal(size=(9, 3))
    with pytest.raises(
        ValueError, match=r"output sum returned shape \(\) for margins of shape \(2, 1\), expected \(2,\)"
    ):
        explainer_of(forest, X, np.sum)

    def impossible(margins):
        return np.where(margins == 0, 0, np.nan)

    with pytest.raises(
        ValueError, match=r"output impossible is \[nan\] where row \d has its own values of no feature and the other"
    ):
        explainer_of(forest, X, impossible).shap_values(X)
    with pytest.raises(TypeError, match="returned <U1, expected numbers"):
        explainer_of(forest, X, lambda m: np.full(len(m), "a")).shap_values(X)
    with pytest.raises(NotImplementedError, match="output='decision' needs a classifier"):
        explainer_of(full_forest(1, n_trees=1, depth=1, n_features=3), X, "decision")


def test_functions_that_raise_leave_the_explainer_usable():
    forest = full_forest(1, n_trees=4, depth=3, n_features=3)
    X = np.random.default_rng(1).normal(size=(9, 3))
    fails = True

    def capricious(margins):
        if fails and len(margins) > len(X):
            raise ZeroDivisionError("of the caller")
        return np.tanh(margins[:, 0])

    explainer = explainer_of(forest, X[4:], capricious)
    with pytest.raises(ZeroDivisionError, match=r"^of the caller$"):
        explainer.shap_values(X[:4])
    fails = False
    np.testing.assert_array_equal(explainer.shap_values(X[:4]), explainer_of(forest, X[4:], np.tanh).shap_values(X[:4]))


def test_more_classes_than_outputs_have_no_losses():
    forest = dataclasses.replace(full_forest(1, n_trees=4, depth=3, n_features=3), link="logistic")
    X = np.random.default_rng(1).normal(size=(9, 3))
    several = dataclasses.replace(forest, classes=(np.arange(3),))
    with pytest.raises(NotImplementedError, match="an output for each class, this forest has 1 for 3 classes"):
        explainer_of(several, X, "log_loss")
    apart = dataclasses.replace(forest, classes=(np.arange(2), np.arange(2)))
    with pytest.raises(NotImplementedError, match="output='log_loss' needs a classifier of one label"):
        explainer_of(apart, X, "log_loss")


@pytest.mark.parametrize("overall", [False, True])
def test_strongest_pairs(overall):
    forest = dataclasses.replace(full_forest(1, n_trees=9, depth=4, n_features=5), link="logistic")
    X = np.random.default_rng(1).normal(size=(30, 5))
    explainer = explainer_of(forest, X[10:], "probability")
    matrix = explainer.shap_interaction_values(X[:10])
    pairs, values = explainer.shap_interaction_values(X[:10], top=3, overall=overall)
    first, second = np.triu_indices(5, 1)
    upper = matrix[:, first, second]
    strength = np.broadcast_to(np.abs(upper).mean(axis=0), upper.shape) if overall else np.abs(upper)
    chosen = np.argsort(-strength, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(np.broadcast_to(pairs, (10, 3, 2)), np.stack([first, second], axis=1)[chosen])
    np.testing.assert_array_equal(values, np.take_along_axis(upper, chosen, axis=1))


@pytest.mark.parametrize("output", ["response", "callable"])
def test_what_is_infinite_is_named_by_the_row_of_the_call(output):
    """Of rows in any order, also of equal ones; a coalition by its features."""
    forest = full_forest(1, n_trees=1, depth=2, n_features=2)
    is_largest = forest.leaf_value == forest.leaf_value.max()
    forest = dataclasses.replace(forest, link="exp", leaf_value=np.where(is_largest, 800.0, 0.0))
    X = np.random.default_rng(1).normal(size=(200, 2))
    is_infinite = evaluate.margins(forest, X)[:, 0] > 700
    usual = X[~is_infinite][:1]
    rows = np.concatenate([np.repeat(usual, 5, axis=0), X[is_infinite][:1], np.repeat(usual, 3, axis=0)])
    message = "output response is infinite for some hybrid of row 5 and a"
    if output == "callable":
        output = lambda m: np.where(m[:, 0] > 700, np.inf, m[:, 0])  # noqa: E731
        message = r"is \[inf\] where row 5 has its own 'x.* and the other values of a background row"
    with pytest.raises(ValueError, match=message):
        explainer_of(forest, usual, output).shap_values(rows)


def test_files_pickles_single_rows_and_mappers_have_the_same_bits(tmp_path):
    forest = dataclasses.replace(full_forest(1, n_trees=9, depth=4, n_features=4), link="logistic")
    X = np.random.default_rng(1).normal(size=(30, 4))
    explainer = explainer_of(forest, X[10:], "probability", groups={"a": [0, 2]})
    expected = explainer.shap_values(X[:10])
    explainer.save(tmp_path / "explainer.glasswood")
    again = glasswood.Explainer.load(tmp_path / "explainer.glasswood")
    assert again.settings.rule == "exact"
    for other in (again, pickle.loads(pickle.dumps(explainer))):
        np.testing.assert_array_equal(other.shap_values(X[:10]), expected)
        assert other.expected_value == explainer.expected_value
    np.testing.assert_array_equal(explainer.row()(X[3]), expected[3])
    np.testing.assert_array_equal(explainer(X[:10]).values, expected)
    pandas = pytest.importorskip("pandas")
    columns = explainer.mapper()(pandas.DataFrame(X[:10], columns=[f"x{i}" for i in range(4)]))
    np.testing.assert_array_equal(columns["phi_a"], expected[:, 0])
    plain = explainer_of(forest, X[10:], "probability")
    sparse = plain.shap_values(X[:10], sparse_output=True)
    np.testing.assert_array_equal(sparse.toarray(), plain.shap_values(X[:10]))
    with pytest.raises(TypeError, match="output is a callable, which files cannot hold"):
        explainer_of(forest, X[10:], np.tanh).save(tmp_path / "callable.glasswood")


def test_averages_of_probabilities_are_margins():
    forest = dataclasses.replace(
        random_forest(2, Options(n_trees=5, n_outputs=2, vector_leaves=True)),
        classes=(np.arange(2),),
        prediction="argmax",
    )
    X = np.random.default_rng(1).normal(size=(20, 3))
    found = explainer_of(forest, X[5:], "probability").shap_values(X[:5])
    np.testing.assert_array_equal(found, explainer_of(forest, X[5:], "margin").shap_values(X[:5]))


def test_what_does_not_go_together_is_refused():
    forest = dataclasses.replace(full_forest(1, n_trees=4, depth=3, n_features=3), link="logistic")
    X = np.random.default_rng(1).normal(size=(9, 3))
    for settings, message in (
        (
            {"output": "probability"},
            "output='probability' needs background rows: path-dependent values average margins",
        ),
        ({"output": "odds"}, "output is 'odds', expected one of margin, probability, log_loss, response, decision, or"),
        ({"rule": "scale"}, "rule is 'scale', expected 'exact' or 'rescale'"),
        (
            {"background": X, "output": "decision", "rule": "rescale"},
            "rule='rescale' does not support output='decision'",
        ),
        (
            {"background": X, "output": "probability", "algorithm": "tables"},
            "algorithm='tables' does not support exact",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            glasswood.Explainer(forest, **settings)
    losses = explainer_of(forest, X, "log_loss")
    with pytest.raises(ValueError, match="explains the loss of each row's label; pass y"):
        losses.shap_values(X)
    with pytest.raises(ValueError, match="expected 0 and 1"):
        losses.shap_values(X, y=np.full(9, 2))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="sanitizers have address spaces of their own")
def test_coalitions_beyond_memory_are_an_error_that_names_them():
    """With room for the masks of rows alone; then, with more, the same explainer explains."""
    code = """
    import dataclasses, resource
    import numpy as np
    import glasswood
    from tests.strategies import full_forest

    forest = dataclasses.replace(full_forest(1, n_trees=30, depth=5, n_features=20), link="logistic")
    X = np.random.default_rng(1).normal(size=(4, 20))
    explainer = glasswood.Explainer(forest, X[2:], output="probability", n_jobs=1).prepare()
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**24, resource.RLIM_INFINITY))
    try:
        explainer.shap_values(X[:2])
    except MemoryError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    expected = glasswood.Explainer(forest, X[2:], output="probability", n_jobs=1).shap_values(X[:2])
    print((explainer.shap_values(X[:2]) == expected).all())
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    message, is_same = done.stdout.splitlines()
    assert message.startswith("output probability takes 25 MB for each thread, the margins of all coalitions of 20")
    assert is_same == "True"


def test_many_outputs_have_fewer_players_that_are_exact(limits):
    options = Options(n_trees=24, n_features=8, n_outputs=6, vector_leaves=True, meaning={"link": "softmax"})
    forest = random_forest(2, options)
    X = np.random.default_rng(1).normal(size=(12, 8))
    limits(cube_bytes=8 * 8 * 2**4)
    with pytest.warns(EstimateWarning, match="differ from background rows on more than 4 features"):
        explainer_of(forest, X[4:], "probability").shap_values(X[:4])
    assert coalitions.most_players(6) == 4


def test_long_calls_say_what_they_cost(limits):
    forest = dataclasses.replace(full_forest(1, n_trees=9, depth=4, n_features=4), link="logistic")
    X = np.random.default_rng(1).normal(size=(300, 4))
    explainer = explainer_of(forest, X[100:], "probability")
    expected = explainer.shap_values(X[:100])
    limits(warned_seconds=0)
    expected_message = r"100 rows against 199 background rows take about \d+ s here, for 19,900 pairs; 100 back"
    with pytest.warns(coalitions.CostWarning, match=expected_message) as said:
        found = explainer.shap_values(X[:100])
    np.testing.assert_array_equal(found, expected)
    assert "rule='rescale' takes about what the margin's values take" in str(said[0].message)
    with pytest.warns(coalitions.CostWarning, match="halves the time$"):
        explainer_of(forest, X[100:], "decision").shap_values(X[:100])
