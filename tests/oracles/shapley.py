"""Shapley values and interactions of a forest's path-dependent game, from their definition, in float64.

The game of a row: the value of a coalition S of features is the margin where splits on features of S follow the row
and splits on other features send the shares cover(child) / cover(node) down both sides. A node without cover shares
evenly; a child without cover gets nothing.

`values` and `interactions` sum over all 2^M coalitions of the M features that a tree uses. `values_by_leaf` and
`interactions_by_leaf` take the game of each leaf (a product over the features of its path), group its coalitions by
size, and so reach any depth: every term has one sign, nothing cancels. `chain_values` is the closed form of one tree.

All take `went_left`: the side that each row takes at each node, (n_rows, n_nodes), from `sides`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tests.oracles import evaluate

if TYPE_CHECKING:
    from glasswood import Forest

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

MAX_FEATURES = 10
"""Most features of a tree that the sum over all coalitions takes."""


def sides(forest: Forest, X: Any) -> Bools:
    """Whether each row goes left at each node, (n_rows, n_nodes); False at leaves."""
    trees = forest.ensemble
    rows = evaluate.routed_values(forest, X)
    result = np.zeros((len(rows), len(trees.feature)), np.bool_)
    for node in np.flatnonzero(trees.feature >= 0):
        result[:, node] = evaluate.goes_left(forest, int(node), rows[:, trees.feature[node]])
    return result


def values(forest: Forest, went_left: Bools) -> Floats:
    """Shapley values, (n_rows, n_features, n_outputs), by the sum over all coalitions."""
    result = np.zeros((len(went_left), forest.n_features, forest.n_outputs))
    for tree in _trees(forest):
        features = tree.features_used()
        game = _coalition_values(tree, features, went_left)
        result[:, features] += np.einsum("nso,si->nio", game, _value_coefficients(len(features)))
    return result


def interactions(forest: Forest, went_left: Bools) -> Floats:
    """Shapley interactions, (n_rows, n_features, n_features, n_outputs), by the sum over all coalitions."""
    result = np.zeros((len(went_left), forest.n_features, forest.n_features, forest.n_outputs))
    for tree in _trees(forest):
        features = tree.features_used()
        game = _coalition_values(tree, features, went_left)
        pairs = np.einsum("nso,sij->nijo", game, _interaction_coefficients(len(features)))
        result[:, features[:, None], features] += pairs
    return _with_diagonal(result, values(forest, went_left))


def values_by_leaf(forest: Forest, went_left: Bools) -> Floats:
    """Shapley values, (n_rows, n_features, n_outputs), leaf by leaf: any depth, any number of features."""
    result = np.zeros((len(went_left), forest.n_features, forest.n_outputs))
    for leaf_value, features, share, stays in _leaf_games(forest, went_left):
        weights = [1 / (len(features) * math.comb(len(features) - 1, size)) for size in range(len(features))]
        for i, rest in _products_without_each(share, stays):
            gain = (stays[:, i] - share[i]) * (rest @ weights)
            result[:, features[i]] += gain[:, None] * leaf_value
    return result


def interactions_by_leaf(forest: Forest, went_left: Bools) -> Floats:
    """Shapley interactions, (n_rows, n_features, n_features, n_outputs), leaf by leaf."""
    result = np.zeros((len(went_left), forest.n_features, forest.n_features, forest.n_outputs))
    for leaf_value, features, share, stays in _leaf_games(forest, went_left):
        d = len(features)
        weights = [1 / (2 * (d - 1) * math.comb(d - 2, size)) for size in range(d - 1)]
        for i in range(d):
            others = np.delete(np.arange(d), i)
            for j, rest in _products_without_each(share[others], stays[:, others]):
                gain = (stays[:, i] - share[i]) * (stays[:, others[j]] - share[others[j]]) * (rest @ weights)
                result[:, features[i], features[others[j]]] += gain[:, None] * leaf_value
    return _with_diagonal(result, values_by_leaf(forest, went_left))


def expected_value(forest: Forest) -> Floats:
    """Value of the empty coalition, (n_outputs,)."""
    trees = forest.ensemble
    nobody = np.zeros((1, forest.n_nodes), np.bool_)
    nothing = np.zeros(0, np.int64)
    return trees.base_score + sum(_coalition_values(tree, nothing, nobody)[0, 0] for tree in _trees(forest))


def leaf_spread(forest: Forest) -> Floats:
    """Sum over trees of (largest - smallest leaf value), (n_outputs,): what the tolerances refer to."""
    spreads = [np.ptp(tree.leaf_value[tree.feature < 0], axis=0) for tree in _trees(forest)]
    return np.sum(spreads, axis=0, initial=0.0) + np.zeros(forest.n_outputs)


def chain_values(d: int, P: float) -> float:
    """Shapley value of every feature for the row that reaches the last leaf of a chain of d distinct features.

    Each split keeps the share P^(1/d) of the cover and only the last leaf is 1. By symmetry the d features divide
    1 - P, the margin of the row less the expected value, into equal parts.
    """
    return (1 - P) / d


@dataclass(frozen=True)
class _Tree:
    """Arrays over the nodes of one tree; `leaf_value` holds the contribution to every output, 0 at splits."""

    first: int
    feature: NDArray[np.int32]
    left: NDArray[np.int32]
    share: Floats
    leaf_value: Floats

    def features_used(self) -> NDArray[np.int64]:
        return np.unique(self.feature[self.feature >= 0]).astype(np.int64)


def _trees(forest: Forest) -> Iterator[_Tree]:
    trees = forest.ensemble
    leaf = 0
    for t in range(len(trees.tree_offsets) - 1):
        nodes = slice(trees.tree_offsets[t], trees.tree_offsets[t + 1])
        feature, left = trees.feature[nodes], trees.left[nodes]
        at_leaf = feature < 0
        n_leaves = int(at_leaf.sum())
        outputs = (
            slice(None) if trees.leaf_value.shape[1] > 1 else slice(trees.tree_output[t], trees.tree_output[t] + 1)
        )
        leaf_value = np.zeros((len(feature), len(trees.base_score)))
        leaf_value[at_leaf, outputs] = trees.tree_weight[t] * trees.leaf_value[leaf : leaf + n_leaves]
        leaf += n_leaves
        yield _Tree(int(nodes.start), feature, left, _shares(feature, left, trees.cover[nodes]), leaf_value)


def _shares(feature: NDArray[np.int32], left: NDArray[np.int32], cover: Floats) -> Floats:
    """Share of its parent's rows that each node gets; 1 at the root."""
    share = np.ones(len(feature))
    for node in np.flatnonzero(feature >= 0):
        for child in (left[node], left[node] + 1):
            share[child] = cover[child] / cover[node] if cover[node] > 0 else 0.5
    return share


def _coalition_values(tree: _Tree, features: NDArray[np.int64], went_left: Bools) -> Floats:
    """Value of each coalition for each row, (n_rows, 2^M, n_outputs); bit j of a coalition is feature features[j]."""
    n_players = len(features)
    if n_players > MAX_FEATURES:
        raise ValueError(f"{n_players} features make too many coalitions")
    member = _members(n_players)
    result = np.zeros((len(went_left), len(member), tree.leaf_value.shape[1]))
    waiting: list[tuple[int, Any]] = [(0, np.ones((len(went_left), len(member))))]
    while waiting:
        node, weight = waiting.pop()
        if tree.feature[node] < 0:
            result += weight[:, :, None] * tree.leaf_value[node]
            continue
        follows = member[:, features == tree.feature[node]].any(axis=1)
        takes_left = went_left[:, tree.first + node, None]
        for child, takes in ((tree.left[node], takes_left), (tree.left[node] + 1, ~takes_left)):
            waiting.append((int(child), weight * np.where(follows, takes, tree.share[child])))
    return result


def _members(n_players: int) -> Bools:
    """Whether coalition s has player j, (2^n_players, n_players)."""
    coalitions = np.arange(2**n_players)
    return (coalitions[:, None] >> np.arange(n_players)) & 1 == 1


def _value_coefficients(n_players: int) -> Floats:
    """Factor of each coalition's value in each player's Shapley value, (2^M, M).

    phi_i = sum over S without i of |S|! (M - |S| - 1)! / M! (v(S + i) - v(S)).
    """
    member = _members(n_players)
    before = member.sum(axis=1)[:, None] - member
    weight = _factorial(before) * _factorial(n_players - before - 1) / math.factorial(n_players)
    return np.where(member, weight, -weight)


def _interaction_coefficients(n_players: int) -> Floats:
    """Factor of each coalition's value in each pair's interaction, (2^M, M, M); 0 on the diagonal.

    Phi_ij = sum over S without i, j of |S|! (M - |S| - 2)! / (2 (M - 1)!) (v(S + ij) - v(S + i) - v(S + j) + v(S)).
    """
    member = _members(n_players)
    has_i, has_j = member[:, :, None], member[:, None, :]
    before = member.sum(axis=1)[:, None, None] - has_i - has_j
    left_out = np.maximum(n_players - before - 2, 0)
    weight = _factorial(np.maximum(before, 0)) * _factorial(left_out) / (2 * math.factorial(max(n_players - 1, 0)))
    return np.where(has_i == has_j, weight, -weight) * ~np.eye(n_players, dtype=np.bool_)


def _factorial(n: NDArray[Any]) -> Floats:
    return np.array([float(math.factorial(i)) for i in range(MAX_FEATURES + 1)])[n]


def _with_diagonal(pairs: Floats, phi: Floats) -> Floats:
    """Phi_ii = phi_i - sum over j of Phi_ij."""
    diagonal = np.arange(phi.shape[1])
    pairs[:, diagonal, diagonal] = phi - pairs.sum(axis=2)
    return pairs


def _leaf_games(forest: Forest, went_left: Bools) -> Iterator[tuple[Floats, NDArray[np.int64], Floats, Floats]]:
    """For each leaf below a split: value, features of its path, share (d,) of the rows that each feature lets pass,
    and stays (n_rows, d), 1 where the row itself passes all splits on the feature."""
    for tree in _trees(forest):
        waiting: list[tuple[int, dict[int, tuple[float, Any]]]] = [(0, {})]
        while waiting:
            node, path = waiting.pop()
            feature = int(tree.feature[node])
            if feature >= 0:
                share, stays = path.get(feature, (1.0, True))
                takes_left = went_left[:, tree.first + node]
                for child, takes in ((tree.left[node], takes_left), (tree.left[node] + 1, ~takes_left)):
                    waiting.append((int(child), {**path, feature: (share * tree.share[child], stays & takes)}))
            elif path:
                shares = np.array([share for share, _ in path.values()])
                passed = np.stack([stays for _, stays in path.values()], axis=1).astype(np.float64)
                yield tree.leaf_value[node], np.array(list(path)), shares, passed


def _products_without_each(share: Floats, stays: Floats) -> Iterator[tuple[int, Floats]]:
    """For each i the coefficients (n_rows, d), by rising power of y, of the product over j != i of share_j + stays_j y.

    The coefficient of y^s is the sum, over coalitions of s features other than i, of what the rest of the path lets
    pass. Halving the range of i shares most of the multiplications.
    """
    waiting = [(0, len(share), np.ones((len(stays), 1)))]
    while waiting:
        begin, end, outside = waiting.pop()
        if end - begin == 1:
            yield begin, outside
        elif end > begin:
            middle = (begin + end) // 2
            waiting.append((begin, middle, _times(outside, share[middle:end], stays[:, middle:end])))
            waiting.append((middle, end, _times(outside, share[begin:middle], stays[:, begin:middle])))


def _times(polynomial: Floats, share: Floats, stays: Floats) -> Floats:
    for j in range(len(share)):
        product = np.zeros((len(polynomial), polynomial.shape[1] + 1))
        product[:, :-1] = share[j] * polynomial
        product[:, 1:] += stays[:, j, None] * polynomial
        polynomial = product
    return polynomial
