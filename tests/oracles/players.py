"""Games between players, features or groups of features that are known together, by all coalitions, in float64.

`path_dependent` and `interventional` have the value of each coalition, (n_rows, 2^P, n_outputs); bit p of a coalition
is player p. `tests.oracles.interventional.index` makes values, interactions and indices of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tests.oracles import interventional as by_features
from tests.oracles import shapley

if TYPE_CHECKING:
    from glasswood import Forest

    Floats = NDArray[np.float64]


def path_dependent(forest: Forest, X: Any, player_of: Any) -> Floats:
    """Splits on known features follow the row, others send the shares of the covers down both sides."""
    trees = forest.ensemble
    row, member = shapley.sides(forest, X), members(player_of)
    result = np.tile(trees.base_score, (len(row), len(member), 1)).astype(np.float64)
    for tree in shapley._trees(forest):
        waiting: list[tuple[int, Any]] = [(0, np.ones(result.shape[:2]))]
        while waiting:
            node, weight = waiting.pop()
            if tree.feature[node] < 0:
                result += weight[..., None] * tree.leaf_value[node]
                continue
            knows, takes_left = member[:, player_of[tree.feature[node]]], row[:, tree.first + node, None]
            for child, takes in ((tree.left[node], takes_left), (tree.left[node] + 1, ~takes_left)):
                waiting.append((int(child), weight * np.where(knows, takes, tree.share[child])))
    return result


def interventional(forest: Forest, X: Any, background: Any, player_of: Any, weight: Any = None) -> Floats:
    """Mean over background rows of the margin of rows that have known features from X, others from the background."""
    trees = forest.ensemble
    row, other, member = shapley.sides(forest, X), shapley.sides(forest, background), members(player_of)
    margins = np.tile(trees.base_score, (len(row), len(other), len(member), 1)).astype(np.float64)
    for tree in shapley._trees(forest):
        waiting: list[tuple[int, Any]] = [(0, np.ones(margins.shape[:3], np.bool_))]
        while waiting:
            node, arrives = waiting.pop()
            if tree.feature[node] < 0:
                margins += arrives[..., None] * tree.leaf_value[node]
                continue
            knows, at = member[:, player_of[tree.feature[node]]], tree.first + node
            left = np.where(knows, row[:, at, None, None], other[None, :, at, None])
            waiting += [(int(tree.left[node]), arrives & left), (int(tree.left[node]) + 1, arrives & ~left)]
    return by_features.game(margins, weight)


def members(player_of: Any) -> NDArray[np.bool_]:
    """Whether coalition s has player p: (2^P, P)."""
    n_players = int(max(player_of, default=-1)) + 1
    return (np.arange(2**n_players)[:, None] >> np.arange(n_players)) & 1 == 1


def values(game: Floats) -> Floats:
    """Shapley values, (n_rows, P, n_outputs)."""
    return np.stack(list(by_features.index(game, 1).values()), axis=1)


def interactions(game: Floats) -> Floats:
    """Half of each pair's index, (n_rows, P, P, n_outputs), main effects on the diagonal."""
    phi = values(game)
    result = np.zeros((*phi.shape[:2], *phi.shape[1:]))
    for (i, j), one in by_features.index(game, 2).items():
        result[:, i, j] = result[:, j, i] = one / 2
    return shapley._with_diagonal(result, phi)
