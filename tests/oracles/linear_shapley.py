"""Shapley values of forests with linear leaves, from their definition, in float64.

The game of shapley.py, but the value of a leaf depends on the coalition: the value at the means plus coefficient times
(value - mean) of those terms whose feature the coalition knows. Terms shrink in proportion where the leaf clips. Where
missing numbers take the leaf back to a constant, they share the difference equally.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tests.oracles import evaluate, shapley

if TYPE_CHECKING:
    from glasswood import Forest


def values(forest: Forest, X: Any) -> NDArray[np.float64]:
    """Shapley values, (n_rows, n_features, n_outputs), by the sum over all coalitions of all features."""
    coefficients = shapley._value_coefficients(forest.n_features)
    return np.einsum("nso,si->nio", _games(forest, X), coefficients)


def interactions(forest: Forest, X: Any, groups: list[list[int]] | None = None) -> NDArray[np.float64]:
    """Shapley interactions, (n_rows, P, P, n_outputs), by the same sum; the players are the features, or the groups."""
    players = [[feature] for feature in range(forest.n_features)] if groups is None else groups
    members = shapley._members(len(players)) @ np.array([sum(1 << feature for feature in group) for group in players])
    games = _games(forest, X)[:, members]
    pairs = np.einsum("nso,sij->nijo", games, shapley._interaction_coefficients(len(players)))
    phi = np.einsum("nso,si->nio", games, shapley._value_coefficients(len(players)))
    return shapley._with_diagonal(pairs, phi)


def _games(forest: Forest, X: Any) -> NDArray[np.float64]:
    """Value of each coalition less the base score, (n_rows, 2^n_features, n_outputs)."""
    trees = forest.ensemble
    went_left, rows = shapley.sides(forest, X), np.asarray(X, np.float64)
    everyone = np.arange(forest.n_features)
    member = (np.arange(2**forest.n_features)[:, None] >> everyone) & 1 == 1
    result = np.zeros((len(rows), len(member), forest.n_outputs))
    leaf = -1
    for tree in range(forest.n_trees):
        begin, end = trees.tree_offsets[tree : tree + 2]
        weight = {0: np.ones((len(rows), len(member)))}
        game = np.zeros((len(rows), len(member)))
        for node in range(end - begin):
            at = begin + node
            if trees.feature[at] < 0:
                leaf += 1
                game += weight[node] * _leaf_game(forest, leaf, rows, member)
                continue
            knows, takes_left = member[:, trees.feature[at]], went_left[:, at, None]
            for child, takes in ((trees.left[at], takes_left), (trees.left[at] + 1, ~takes_left)):
                share = trees.cover[begin + child] / trees.cover[at] if trees.cover[at] > 0 else 0.5
                weight[int(child)] = weight[node] * np.where(knows, takes, share)
        result[:, :, trees.tree_output[tree]] += trees.tree_weight[tree] * game
    return result


def _leaf_game(forest: Forest, leaf: int, rows: NDArray[Any], member: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Value of a leaf for each row and coalition."""
    trees = forest.ensemble
    parts, lacking = np.zeros_like(rows), np.zeros_like(rows)
    for term in range(trees.linear_offsets[leaf], trees.linear_offsets[leaf + 1]):
        feature, category = trees.linear_feature[term], trees.linear_category[term]
        x, mean = rows[:, feature], trees.linear_mean[term]
        if category in (-1, -3):
            number = x if category == -1 else evaluate.logarithm(x)
            deviation = np.where(np.isnan(number), 0, number - mean)
            lacking[:, feature] += np.isnan(number)
        else:
            deviation = np.where(np.isnan(x) if category == -2 else x == category, 1, 0) - mean
        parts[:, feature] += trees.linear_coefficient[term] * deviation
    value, total = trees.leaf_value[leaf, 0], parts.sum(axis=1)
    at_means, returned = (np.clip(value + deviation, *trees.leaf_range[leaf]) for deviation in (0, total))
    clipped = (total != 0) & ((returned != value + total) | (at_means != value))
    parts[clipped] *= ((returned - at_means)[clipped] / total[clipped])[:, None]
    if len(trees.leaf_missing):
        back = lacking.any(axis=1)
        share = lacking[back] / lacking[back].sum(axis=1, keepdims=True)
        parts[back] = share * (trees.leaf_missing[leaf] - at_means)
    return at_means + parts @ member.T


def margins(forest: Forest, X: Any) -> NDArray[np.float64]:
    """Margins, (n_rows, n_outputs), of rows in the row type."""
    trees = forest.ensemble
    went_left, rows = shapley.sides(forest, X), np.asarray(X, np.float64)
    result = np.tile(trees.base_score, (len(rows), 1)).astype(np.float64)
    leaf_of = np.cumsum(trees.feature < 0) - 1
    for tree in range(forest.n_trees):
        begin = trees.tree_offsets[tree]
        for row in range(len(rows)):
            node = begin
            while trees.feature[node] >= 0:
                node = begin + trees.left[node] + (not went_left[row, node])
            returned = _returned(forest, leaf_of[node], rows[row])
            result[row, trees.tree_output[tree]] += trees.tree_weight[tree] * returned
    return result


def _returned(forest: Forest, leaf: int, row: NDArray[Any]) -> float:
    trees = forest.ensemble
    value = trees.leaf_value[leaf, 0]
    for term in range(trees.linear_offsets[leaf], trees.linear_offsets[leaf + 1]):
        x, category, mean = (
            row[trees.linear_feature[term]],
            trees.linear_category[term],
            trees.linear_mean[term],
        )
        if category in (-1, -3):
            number = x if category == -1 else float(evaluate.logarithm(x))
            deviation = 0.0 if np.isnan(number) else number - mean
            if np.isnan(number) and len(trees.leaf_missing):
                return float(trees.leaf_missing[leaf])
        else:
            deviation = float(np.isnan(x) if category == -2 else x == category) - mean
        value += trees.linear_coefficient[term] * deviation
    return float(np.clip(value, *trees.leaf_range[leaf]))


def interventional(forest: Forest, X: Any, background: Any, player_of: Any, weight: Any = None) -> NDArray[np.float64]:
    """Value of each coalition, (n_rows, 2^P, n_outputs): the mean of the margins of mixed rows."""
    n_players = int(max(player_of)) + 1
    member = (np.arange(2**n_players)[:, None] >> np.arange(n_players)) & 1 == 1
    knows = member[:, np.asarray(player_of)]
    weight = np.ones(len(background)) if weight is None else np.asarray(weight)
    result = np.zeros((len(X), len(member), forest.n_outputs))
    for at, row in enumerate(X):
        for other, share in zip(background, weight / weight.sum(), strict=True):
            result[at] += share * margins(forest, np.where(knows, row, other).astype(X.dtype))
    return result
