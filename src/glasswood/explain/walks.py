"""Explanations on the CPU without tables: walks of trees, whose parameters are a game's and whose maths is compiled."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from glasswood import _core
from glasswood.base.escapes import shown
from glasswood.base.parallel import n_threads
from glasswood.base.typing import Array, Bools, Doubles, Int32s, Int64s
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.explain.game import Game

PLANS: dict[str, type[_core.ExplainPlan32 | _core.ExplainPlan64]] = {
    "float32": _core.ExplainPlan32,
    "float64": _core.ExplainPlan64,
}


class Walk(Protocol):
    """Explanations of a forest without tables."""

    def values(self, rows: Array, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, P) or (n, P, k)."""

    def interactions(self, rows: Array, places: Int32s, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, m, P) or (n, m, P, k); places[p] is player p's place among the m, or -1."""


def walk_of(game: Game, trees: TreeEnsemble, dtype: str, n_jobs: int | None) -> Any:
    """Walk of a game's trees, or of some of them."""
    if not game.has_background:
        return QuadratureWalk(trees, dtype, game.players.of_feature)
    return (LinearPatternWalk if trees.has_linear_leaves else PatternWalk)(game, trees, n_jobs)


def index_walk_of(game: Game, n_jobs: int | None) -> Any:
    """Walk of a game's trees for indices of sets."""
    if not game.has_background:
        return CoverIndexWalk(game.forest, game.players.of_feature)
    return walk_of(game, game.forest, "float64", n_jobs)


class QuadratureWalk:
    """The path-dependent game by quadrature; what interactions need is laid out when they are first asked for."""

    def __init__(self, trees: TreeEnsemble, dtype: str, player_of: Int32s) -> None:
        self._trees, self._player_of = trees, player_of
        self._plan_type = PLANS[dtype]
        self._values = self._plan_type(trees, player_of, False)
        self._interactions: Any = None

    @property
    def expected_value(self) -> Doubles:
        """Margin that each output has on average over the training covers: (n_outputs,)."""
        expected: Doubles = self._values.expected_value
        return expected

    def values(self, rows: Array, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, P) or (n, P, k)."""
        self._values.values(rows, out, n_threads(n_jobs))

    def interactions(self, rows: Array, places: Int32s, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, m, P) or (n, m, P, k); places[p] is player p's place among the m, or -1."""
        if self._interactions is None:
            self._interactions = self._plan_type(self._trees, self._player_of, True)
        self._interactions.interactions(rows, places, out, n_threads(n_jobs))


class CoverIndexWalk:
    """Indices of sets of players in the path-dependent game."""

    def __init__(self, trees: TreeEnsemble, player_of: Int32s) -> None:
        self._walk = _core.CoverWalk(trees, player_of)

    def indices(self, rows: Array, sets: Int32s, is_banzhaf: bool, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, n_sets) or (n, n_sets, k), with the index of each set (n_sets, 4), padded with -1."""
        self._walk.indices(rows, sets.reshape(-1), is_banzhaf, out, n_threads(n_jobs))


class PatternWalk:
    """The game against a background by its patterns at each leaf: any trees of constant leaves."""

    def __init__(self, game: Game, trees: TreeEnsemble, n_jobs: int | None) -> None:
        self._walk = _core.PatternWalk(trees, game.players.of_feature, *game.weighted_rows, n_threads(n_jobs))

    def values(self, rows: Array, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, P) or (n, P, k)."""
        self._walk.values(rows, out, n_threads(n_jobs))

    def interactions(self, rows: Array, places: Int32s, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, m, P) or (n, m, P, k); places[p] is player p's place among the m, or -1."""
        self._walk.interactions(rows, places, out, n_threads(n_jobs))

    def indices(self, rows: Array, sets: Int32s, is_banzhaf: bool, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, n_sets) or (n, n_sets, k), with the index of each set (n_sets, 4), padded with -1."""
        self._walk.indices(rows, sets.reshape(-1), is_banzhaf, out, n_threads(n_jobs))


class LinearPatternWalk:
    """Values against a background where leaves hold linear models: by patterns, and pair by pair where leaves clip."""

    def __init__(self, game: Game, trees: TreeEnsemble, n_jobs: int | None) -> None:
        self._walk = _core.LinearPatternWalk(trees, game.players.of_feature, *game.weighted_rows, n_threads(n_jobs))
        self._instead = "explain without a background" + " or grow with clip='none'" * (trees.source == "glasswood")

    def values(self, rows: Array, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, P) or (n, P, k)."""
        try:
            self._walk.values(rows, out, n_threads(n_jobs))
        except ValueError as error:
            raise NotImplementedError(f"{shown(error)}; {self._instead}") from error


def walked_part(
    forest: TreeEnsemble, trees: Int32s, cut_nodes: Int64s, dtype: DTypeLike, has_background: bool = False
) -> TreeEnsemble | None:
    """Return the forest of what is walked: some of the trees, of which some nodes have become leaves of value 0.

    Parameters
    ----------
    forest : TreeEnsemble
        Its leaves are constants.
    trees : int32
        Rising.
    cut_nodes : int64
        Nodes of the forest all of whose leaves have tables, none below another.
    dtype : dtype
        dtype of the tables: in float32 they subtract a tree's middle from its leaves, and so must the rest.
    has_background : bool
        Whether the tables are filled by background rows.

    Returns
    -------
    TreeEnsemble or None
        None if nothing is walked.
    """
    if not len(trees):
        return None
    has_tree = np.zeros(forest.n_trees, np.bool_)
    has_tree[trees] = True
    is_cut = np.zeros(forest.n_nodes, np.bool_)
    is_cut[cut_nodes] = True
    has_node = _without_descendants(forest, is_cut) & has_tree[_tree_of_nodes(forest)]
    is_split = (forest.feature >= 0) & ~is_cut
    values, weight = _values_of_rest(forest, is_cut, dtype, has_background)
    none = np.zeros(0, np.int32)
    node_leaf = np.cumsum(forest.feature < 0) - 1
    # A node that has become a leaf takes the values behind the last leaf's, which are 0.
    leaf = np.where(is_cut, len(values) - 1, node_leaf)[has_node & ~is_split]
    n_nodes = np.add.reduceat(has_node, forest.tree_offsets[:-1], dtype=np.int64)[has_tree]
    n_splits_before: Int64s = np.cumsum(is_split & has_node) - (is_split & has_node)
    first_split: Int64s = np.repeat(n_splits_before[forest.tree_offsets[:-1]], np.diff(forest.tree_offsets))
    left = np.where(is_split, 2 * (n_splits_before - first_split) + 1, 0).astype(np.int32)
    return dataclasses.replace(
        forest,
        tree_offsets=np.concatenate([[0], np.cumsum(n_nodes)]),
        feature=np.where(is_split, forest.feature, -1)[has_node],
        threshold=np.where(is_split, forest.threshold, 0).astype(forest.threshold.dtype)[has_node],
        left=left[has_node],
        default_left=(forest.default_left & is_split)[has_node],
        cover=forest.cover[has_node],
        leaf_value=values[leaf],
        leaf_id=np.zeros(len(leaf), np.int32),
        leaf_shape=(),
        n_curves=0,
        choices=(),
        tree_output=forest.tree_output[has_tree],
        tree_weight=weight[has_tree],
        absent_missing=forest.absent_missing[has_tree] if len(forest.absent_missing) else forest.absent_missing,
        category_set=np.where(is_split, forest.category_set, -1)[has_node] if forest.is_categorical else none,
    )


def _tree_of_nodes(forest: TreeEnsemble) -> Int64s:
    return np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offsets))


def _without_descendants(forest: TreeEnsemble, is_cut: Bools) -> Bools:
    """Nodes that are below none of the nodes that are cut."""
    stays = np.ones(forest.n_nodes, np.bool_)
    first = forest.tree_offsets[_tree_of_nodes(forest)]
    left = first + forest.left
    level = np.flatnonzero(is_cut & (forest.feature >= 0))
    while len(level):
        children = np.concatenate([left[level], left[level] + 1])
        stays[children] = False
        level = children[forest.feature[children] >= 0]
    return stays


def _values_of_rest(
    forest: TreeEnsemble, is_cut: Bools, dtype: DTypeLike, has_background: bool
) -> tuple[Doubles, Doubles]:
    """Values of the leaves and a row of zeros; weights of the trees: 1 where values are weighted already."""
    in_part = np.zeros(forest.n_trees, np.bool_)
    in_part[_tree_of_nodes(forest)[is_cut]] = True
    leaf_tree = _tree_of_nodes(forest)[forest.feature < 0]
    weighted = forest.leaf_value * forest.tree_weight[leaf_tree, None]
    if np.dtype(dtype) == np.float32:
        weighted -= _core.middle_of_trees(forest, has_background).reshape(forest.n_trees, -1)[leaf_tree]
    values = np.where(in_part[leaf_tree, None], weighted, forest.leaf_value)
    zeros = np.zeros((1, forest.leaf_width))
    return np.concatenate([values, zeros]), np.where(in_part, 1.0, forest.tree_weight)
