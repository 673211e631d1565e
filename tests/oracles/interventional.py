"""Games between features against background rows, from their definition, in float64.

A feature that a coalition S knows has the explained row's value, any other that of a background row; the value of S is
the mean over the background rows, by weight, of a function of the margin of these mixed rows. `coalition_margins` has
the margin of every mixed row, `game` their means, `index` sums over all coalitions.

`values_by_pair` and `interactions_by_pair` take the game of each leaf, row and background row, which asks for some
features of the row and some of the background row: any depth, any number of features.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tests.oracles import shapley

if TYPE_CHECKING:
    from glasswood import Forest

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]


def players(forest: Forest) -> NDArray[np.int64]:
    """Features that any tree splits."""
    trees = forest.ensemble
    return np.unique(trees.feature[trees.feature >= 0]).astype(np.int64)


def coalition_margins(forest: Forest, X: Any, background: Any) -> Floats:
    """Margins of mixed rows, (n_rows, n_background, 2^M, n_outputs); bit j of a coalition is player j."""
    trees = forest.ensemble
    features, row, other = players(forest), shapley.sides(forest, X), shapley.sides(forest, background)
    member = (np.arange(2 ** len(features))[:, None] >> np.arange(len(features))) & 1 == 1
    result = np.tile(trees.base_score, (len(row), len(other), len(member), 1)).astype(np.float64)
    for tree in shapley._trees(forest):
        waiting: list[tuple[int, Any]] = [(0, np.ones(result.shape[:3], np.bool_))]
        while waiting:
            node, arrives = waiting.pop()
            if tree.feature[node] < 0:
                result += arrives[..., None] * tree.leaf_value[node]
                continue
            knows = member[:, features == tree.feature[node]].any(axis=1)
            left = np.where(knows, row[:, tree.first + node, None, None], other[None, :, tree.first + node, None])
            waiting += [(int(tree.left[node]), arrives & left), (int(tree.left[node]) + 1, arrives & ~left)]
    return result


def game(margins: Floats, weight: Any = None, output: Callable[[Floats], Floats] | None = None) -> Floats:
    """Value of each coalition, (n_rows, 2^M, n_outputs), of some function of `coalition_margins`."""
    explained = margins if output is None else output(margins)
    weight = np.ones(margins.shape[1]) if weight is None else np.asarray(weight, np.float64)
    return np.einsum("nbsk,b->nsk", explained, weight / weight.sum())


def index(values: Floats, order: int, kind: str = "shapley") -> dict[tuple[int, ...], Floats]:
    """Index of each set of `order` players, (n_rows, n_outputs): shapley (interaction index) or banzhaf."""
    n_players = (values.shape[1] - 1).bit_length()
    return {S: _index_of(values, n_players, S, kind) for S in itertools.combinations(range(n_players), order)}


def _index_of(values: Floats, n_players: int, S: tuple[int, ...], kind: str) -> Floats:
    others = [j for j in range(n_players) if j not in S]
    result = np.zeros(values[:, 0].shape)
    for T in _subsets(others):
        t, r = len(T), n_players - len(S)
        weight = 0.5**r if kind == "banzhaf" else 1 / ((r + 1) * math.comb(r, t))
        for L in _subsets(S):
            sign = (-1) ** (len(S) - len(L))
            result += weight * sign * values[:, sum(1 << j for j in (*T, *L))]
    return result


def _subsets(items: Any) -> Iterator[tuple[int, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(items, n) for n in range(len(items) + 1))


def values(forest: Forest, X: Any, background: Any, weight: Any = None) -> Floats:
    """Shapley values of the margin, (n_rows, n_features, n_outputs)."""
    found = index(game(coalition_margins(forest, X, background), weight), 1)
    result = np.zeros((len(X), forest.n_features, forest.n_outputs))
    for (player,), one in found.items():
        result[:, players(forest)[player]] = one
    return result


def interactions(forest: Forest, X: Any, background: Any, weight: Any = None) -> Floats:
    """Half of each pair's index, (n_rows, n_features, n_features, n_outputs), main effects on the diagonal."""
    used, result = players(forest), np.zeros((len(X), forest.n_features, forest.n_features, forest.n_outputs))
    for (i, j), one in index(game(coalition_margins(forest, X, background), weight), 2).items():
        result[:, used[i], used[j]] = result[:, used[j], used[i]] = one / 2
    return shapley._with_diagonal(result, values(forest, X, background, weight))


def values_by_pair(forest: Forest, X: Any, background: Any, weight: Any = None) -> Floats:
    """Shapley values of the margin, (n_rows, n_features, n_outputs), leaf by leaf and pair by pair.

    A leaf whose path only the row passes at k features, only the background row at z, is the game "all of the k, none
    of the z": (k - 1)! z! / (k + z)! for each of the k, -k! (z - 1)! / (k + z)! for each of the z.
    """
    share = np.ones(len(background)) if weight is None else np.asarray(weight, np.float64)
    share = share / share.sum()
    result = np.zeros((len(X), forest.n_features, forest.n_outputs))
    for leaf_value, features, phi in _pair_games(forest, X, background):
        result[:, features] += (phi * share[:, None]).sum(axis=1)[:, :, None] * leaf_value
    return result


def values_of_pairs(forest: Forest, X: Any, background: Any) -> Floats:
    """The same against each background row by itself, (n_rows, n_background, n_features, n_outputs)."""
    result = np.zeros((len(X), len(background), forest.n_features, forest.n_outputs))
    for leaf_value, features, phi in _pair_games(forest, X, background):
        result[:, :, features] += phi[..., None] * leaf_value
    return result


def interactions_by_pair(forest: Forest, X: Any, background: Any, weight: Any = None) -> Floats:
    """Half of each pair's index, (n_rows, n_features, n_features, n_outputs), leaf by leaf and pair by pair.

    In the game "all of the k, none of the z" two of the k have (k - 2)! z! / (k + z - 1)!, two of the z
    k! (z - 2)! / (k + z - 1)!, and one of each -(k - 1)! (z - 1)! / (k + z - 1)!.
    """
    share = np.ones(len(background)) if weight is None else np.asarray(weight, np.float64)
    share = share / share.sum() / 2
    result = np.zeros((len(X), forest.n_features, forest.n_features, forest.n_outputs))
    for leaf_value, features, mine, its, possible in _demands(forest, X, background):
        k, z = mine.sum(axis=2).astype(int), its.sum(axis=2).astype(int)
        sides = ((mine, mine, _ratio(k - 2, z)), (its, its, _ratio(z - 2, k)), (mine, its, -_ratio_below(k, z)))
        for one, other, size in sides:
            found = np.einsum("nbi,nbj,nb->nij", one, other, possible * size * share)
            found = found * (1 - np.eye(len(features))) if one is other else found + found.swapaxes(1, 2)
            result[:, features[:, None], features] += found[..., None] * leaf_value
    return shapley._with_diagonal(result, values_by_pair(forest, X, background, weight))


def _ratio_below(k: NDArray[Any], z: NDArray[Any]) -> Floats:
    """(k - 1)! (z - 1)! / (k + z - 1)!, 0 where one is 0."""
    return np.where((k > 0) & (z > 0), _ratio(k - 1, np.maximum(z - 1, 0)), 0.0)


def _pair_games(forest: Forest, X: Any, background: Any) -> Iterator[tuple[Floats, NDArray[np.int64], Floats]]:
    """For each leaf: value, features of its path, and their values (n_rows, n_background, d) of a leaf of 1."""
    for leaf_value, features, mine, its, possible in _demands(forest, X, background):
        k, z = mine.sum(axis=2).astype(int), its.sum(axis=2).astype(int)
        gain, loss = _ratio(k - 1, z), _ratio(z - 1, k)
        yield leaf_value, features, (possible * gain)[..., None] * mine - (possible * loss)[..., None] * its


def _demands(forest: Forest, X: Any, background: Any) -> Iterator[tuple[Floats, Any, Floats, Floats, Bools]]:
    """For each leaf: value, features of its path, which of them only the row, or only the background row passes.

    And whether each is passed by one of them.
    """
    row, other = shapley.sides(forest, X), shapley.sides(forest, background)
    rows, others = shapley._leaf_games(forest, row), shapley._leaf_games(forest, other)
    for (leaf_value, features, _, x), (_, _, _, b) in zip(rows, others, strict=True):
        possible = ((x[:, None, :] + b) > 0).all(axis=2)
        yield leaf_value, features, x[:, None, :] * (1 - b), (1 - x)[:, None, :] * b, possible


def _ratio(a: NDArray[Any], b: NDArray[Any]) -> Floats:
    """a! b! / (a + b + 1)!, 0 for a < 0."""
    known = _ratios(int(max(a.max(initial=0), b.max(initial=0))) + 1)
    return np.where(a < 0, 0.0, known[np.maximum(a, 0), b])


@functools.cache
def _ratios(n: int) -> Floats:
    """p! q! / (p + q + 1)! for p and q below n."""
    return np.array([[1 / ((p + q + 1) * math.comb(p + q, p)) for q in range(n)] for p in range(n)])


def expected_value(forest: Forest, background: Any, weight: Any = None) -> Floats:
    """Mean margin of the background rows, (n_outputs,)."""
    from tests.oracles import evaluate

    return np.average(evaluate.margins(forest, background), axis=0, weights=weight)


def sigmoid(margins: Floats) -> Floats:
    """Probability of the second class."""
    return 1 / (1 + np.exp(-margins))


def log_loss(margins: Floats, y: Any) -> Floats:
    """-log of the probability of each row's class, 0 or 1, for margins (n_rows, ...)."""
    label = np.asarray(y, np.float64).reshape(-1, *[1] * (margins.ndim - 1))
    return np.logaddexp(0, margins) - label * margins
