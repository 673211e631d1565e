"""Exact values of responses on a GPU for models of more than 32 features, beside sums over all coalitions."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import glasswood
import glasswood.explain.cuda.coalitions
from glasswood.explain.cuda.coalition_sets import wide_sets
from tests.cuda.test_coalitions import Limits, check, check_sets
from tests.oracles import coalitions as oracle
from tests.oracles import evaluate, interventional
from tests.strategies import Node, Options, flatten, full_forest, random_forest

pytestmark = pytest.mark.usefixtures("gpu")


def two_classes(n_features, n_trees=None, depth=4):
    """Every feature in some split."""
    forest = full_forest(1, n_trees=n_trees or max(9, n_features // 3), depth=depth, n_features=n_features)
    trees = forest.ensemble
    feature, splits = trees.feature.copy(), np.flatnonzero(trees.feature >= 0)
    feature[np.random.default_rng(5).permutation(splits)[:n_features]] = np.arange(n_features)
    return dataclasses.replace(forest, feature=feature, leaf_value=trees.leaf_value * 20, link="logistic")


def nearly_equal(n, n_features, n_changed=3, seed=1, among=None):
    """Rows that differ from the first on some features, which are others in each row, or some of `among`."""
    rng = np.random.default_rng(seed)
    rows = np.tile(rng.normal(size=n_features), (n, 1))
    for row in rows[1:]:
        changed = rng.choice(n_features if among is None else among, n_changed, replace=False)
        row[changed] = 3 * rng.normal(size=n_changed)
    return rows.astype(np.float32)


def by_pairs(forest, X, background, respond, player_of, weight, y=None):
    """Values (n, P, r) and interactions (n, P, P, r), pair by pair over the players on which its rows differ."""
    n_players, share = player_of.max() + 1, np.asarray(weight) / np.sum(weight)
    phi = pairs = 0
    for i, row in enumerate(X):
        for one, of_row in zip(share, background, strict=True):
            differ = np.unique(player_of[row != of_row])
            own = np.full(n_players, len(differ))
            own[differ] = np.arange(len(differ))
            own = own[player_of]
            if not len(differ):
                continue
            label = None if y is None else y[i]
            # Players on which the rows agree are one more, whose values are 0.
            game = oracle.game(lambda rows, _, label=label: respond(evaluate.margins(forest, rows), label), [row],
                               [of_row], own)  # fmt: skip
            values, of_pairs = oracle.values(game)[0, : len(differ)], oracle.interactions(game)[0]
            if np.isscalar(phi):
                phi, pairs = (np.zeros((len(X), *[n_players] * k, values.shape[-1])) for k in (1, 2))
            phi[i, differ] += one * values
            pairs[i][np.ix_(differ, differ)] += one * of_pairs[: len(differ), : len(differ)]
    return phi, pairs


def compare(forest, X, background, respond, output, dtype, y=None, groups=None):
    weight = 1.0 + np.arange(len(background)) % 3
    settings = {"output": output, "dtype": dtype, "groups": groups, "background_weight": weight}
    explainer = glasswood.Explainer(forest, background, device="cuda", **settings)
    labels = {} if y is None else {"y": y}
    phi, pairs = by_pairs(forest, X, background, respond, explainer.game.players.of_feature, weight, y)
    found, of_pairs = explainer.shap_values(X, **labels), explainer.shap_interaction_values(X, **labels)
    assert found.dtype == dtype
    size = (1e-6 if dtype == "float32" else 1e-12) * max(1.0, float(np.abs(phi).sum(axis=1).max()))
    np.testing.assert_allclose(found.reshape(phi.shape), phi, rtol=0, atol=size)
    np.testing.assert_allclose(of_pairs.reshape(pairs.shape), pairs, rtol=0, atol=2 * size)
    assert np.abs(found).max() > 0.01
    assert np.abs(of_pairs).max() > 0.001


def logistic(margins, _):
    return interventional.sigmoid(margins)


def softmax(margins, _):
    terms = np.exp(margins - margins.max(axis=1, keepdims=True))
    return terms / terms.sum(axis=1, keepdims=True)


def softmax_loss(margins, label):
    return np.logaddexp.reduce(margins, axis=1) - margins[:, label]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_features", [33, 40, 64, 65, 130])
def test_beside_all_coalitions_of_each_pair(n_features, dtype):
    rows = nearly_equal(9, n_features)
    compare(two_classes(n_features), rows[:3], rows[3:], logistic, "probability", dtype)


@pytest.mark.parametrize("output", ["probability", "log_loss"])
@pytest.mark.parametrize("vector_leaves", [False, True])
def test_several_classes_and_groups(vector_leaves, output):
    """Groups of 70 features, 64 of them by themselves."""
    options = Options(n_trees=36, n_features=70, n_outputs=3, vector_leaves=vector_leaves, meaning={"link": "softmax"})
    forest, rows = random_forest(5, options), nearly_equal(6, 70, n_changed=4)
    y = np.array([2, 0]) if output == "log_loss" else None
    respond = softmax_loss if output == "log_loss" else softmax
    assert len(interventional.players(forest)) > 50
    for groups in (None, {"a": [0, 69, 33], "b": [5, 60, 64, 65]}):
        compare(forest, rows[:2], rows[2:], respond, output, "float64", y, groups)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_features", [40, 70])
def test_sets_beside_the_cores(n_features, dtype):
    """Sets of features on which pairs differ and of others, doubled ones too."""
    differ = [0, 1, 2, 3, 33, n_features - 2]
    forest, rows = two_classes(n_features, 60), nearly_equal(7, n_features, n_changed=4, among=differ)
    X, background = rows[:3], rows[3:]
    check(forest, X, background, dtype=dtype)
    check_sets(forest, X, background, dtype=dtype)
    sets = [[i] for i in differ] + [list(one) for r in (2, 3, 4) for one in itertools.combinations(differ, r)]
    sets += [[0, n_features - 1], [20, 0, 33]]
    for kind in ("shapley", "banzhaf"):
        found, expected = (
            glasswood.Explainer(forest, background, output="probability", dtype=of_results, device=device)
            .interaction_index(X, sets, kind)
            for device, of_results in (("cuda", dtype), ("cpu", "float64"))
        )  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 if dtype == "float32" else 1e-12)
        assert (np.abs(found[0]) > 1e-5).sum() > len(sets) // 3


def test_numbers_of_sets():
    """A player named twice counts once; the order does not matter."""
    bit = np.arange(50, dtype=np.int32)[::-1]
    sets = np.array([[0, 49, 3, -1], [3, 0, 49, 3], [49, 49, 49, 49], [49, -1, -1, -1], [0, 49, 3, 4]], np.int32)
    numbers = wide_sets(bit, sets)
    np.testing.assert_array_equal(np.unique(numbers, return_inverse=True)[1].reshape(-1), [1, 1, 2, 2, 0])
    assert numbers[2] == 0xFFFF_FFFF_FFFF_0000


@pytest.mark.parametrize("n_differing", [11, 13])
def test_larger_teams(n_differing):
    forest, rows = two_classes(45), nearly_equal(5, 45, n_changed=n_differing)
    rows[1] = rows[0]  # a pair that agrees
    check(forest, rows[:2], rows[1:4], dtype="float32")
    check_sets(forest, rows[:1], rows[2:4], dtype="float32")


@pytest.mark.parametrize(("n_on_path", "n_features"), [(12, 40), (28, 40), (40, 40), (40, 80), (62, 80)])
def test_masks_of_long_paths(n_on_path, n_features):
    """Masks of 8 to 64 bits, one a feature of the longest path; on cores, one a feature of the model up to 64."""
    rng, starts = np.random.default_rng(2), range(0, n_features, n_on_path)
    order = rng.permutation(n_features)
    chains = [chain(np.roll(order, -start)[:n_on_path], rng) for start in (*starts, *starts)]
    forest = dataclasses.replace(flatten(chains, n_features, "float32"), link="logistic")
    assert len(interventional.players(forest)) == n_features
    rows = nearly_equal(7, n_features)
    compare(forest, rows[:2], rows[2:], logistic, "probability", "float64")


def chain(features, rng):
    """A tree that splits for one feature after the other: rows go on to the right above -2."""
    tree = Node(cover=1.0, value=0.5)
    for feature in reversed(features):
        side = Node(cover=1.0, value=0.3 * rng.normal())
        tree = Node(cover=tree.cover + 1, feature=int(feature), threshold=-2.0, children=(side, tree))
    return tree


@pytest.mark.parametrize("name", ["gpu_mask_bytes", "gpu_cube_bytes"])
def test_rows_and_cubes_in_parts(monkeypatch, limits, name):
    forest, rows = two_classes(40), nearly_equal(16, 40)
    whole = check(forest, rows[:6], rows[6:])
    limits(**{name: 2**15})
    monkeypatch.setattr(glasswood.explain.cuda.coalitions, "gpu_limits", lambda: Limits(2**13))
    np.testing.assert_array_equal(check(forest, rows[:6], rows[6:]), whole)
    # Values that do not fit beside the queues are added up where they lie.
    monkeypatch.setattr(glasswood.explain.cuda.coalitions, "gpu_limits", lambda: Limits(2**12))
    check(forest, rows[:6], rows[6:])
    check_sets(forest, rows[:6], rows[6:])


def test_blocks_of_one_warp_list_the_players(monkeypatch):
    forest, rows = two_classes(70), nearly_equal(12, 70)
    whole = check(forest, rows[:4], rows[4:])
    monkeypatch.setattr(glasswood.explain.cuda.coalitions, "LISTED_BYTES", 100)
    np.testing.assert_array_equal(check(forest, rows[:4], rows[4:]), whole)


def test_what_gpus_refuse(limits):
    forest, rows = two_classes(41), nearly_equal(9, 41)
    far = np.random.default_rng(3).normal(size=(4, 41)).astype(np.float32)
    explainer = glasswood.Explainer(forest, rows, output="probability", device="cuda")
    with pytest.raises(NotImplementedError, match=r"on up to \d\d features, GPUs are exact up to 20"):
        explainer.shap_values(far)
    limits(gpu_players=40)
    explainer = glasswood.Explainer(forest, rows, output="probability", device="cuda")
    with pytest.raises(NotImplementedError, match="exact responses of more than 40 features run on the CPU only"):
        explainer.shap_values(rows)
