"""Other trees that fit as well: what a search has met near the tree that it returns.

Trees of other splits, often of other features, may be hardly worse (the Rashomon set: Breiman 2001,
https://doi.org/10.1214/ss/1009213726; Fisher, Rudin and Dominici 2019, https://jmlr.org/papers/v20/18-760.html). The
engine keeps those that it meets (`native/grow/search/met_trees.h`). Here they are counted, and some that differ most
are pruned and fitted as the tree itself is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.config import config_context
from glasswood.base.parallel import side_by_side
from glasswood.base.typing import Array, Bools, Doubles
from glasswood.base.wording import Wording
from glasswood.forest import Forest
from glasswood.grow.data.rows import threads_of
from glasswood.grow.tree.assembly import split_of_categories
from glasswood.grow.tree.pruning import Known
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_names
from glasswood.readers.assemble import NodeArrays, assemble, pack_sets
from glasswood.words.rules import node_tests

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingColumns
    from glasswood.grow.data.rows import TrainingRows
    from glasswood.grow.search.growing import Growth
    from glasswood.grow.search.process import Interrupts
    from glasswood.grow.tree.assembly import GrownTree

MARGIN = 0.02
"""Part of the error by which other trees may exceed the tree's own."""

SAME = 0.05
"""Part of the rows within which thresholds of a feature are one split, centred on the one that most trees have."""

TRIED = 2
"""Trees that are fitted for each that is wanted: their errors on left-out rows are known only then."""

MOST_WORK = 2e8
"""Rows times squared columns of all trees that are fitted: beyond it there are fewer of them."""

Cut = tuple[int, int]
"""A split as the search knows it: a column and a rank."""


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Other trees that fit as well as a grown one, and what all such trees have in common.

    A search meets many trees. Those that count here have errors at most 2 % above the tree's own, by the criterion of
    the search, and no splits that do not pay. Thresholds of a feature within 5 % of the rows are one split.

    Attributes
    ----------
    forests : tuple of Forest
        Trees whose splits differ, the one with the least error first.
    errors : float64, (n_forests,)
        Their errors, at most 2 % above `error`: for ``squared`` and ``huber`` the root mean squared error in units of
        y, for classes the mean log-loss, each row being left out of its leaf's fit, but not of the choice of splits and
        terms (trees of classes must also be within the margin once that choice is priced); for other losses the mean
        deviance (or quantile loss) of the training rows.
    error : float
        The error of the tree itself.
    n_met : int
        Number of trees that count, the tree itself among them; the search is not exhaustive.
    features : dict of arrays
        One entry per feature, with the keys feature, and the shares of these trees whose splits test it (split), whose
        first split tests it (first), and whose equations contain it (term). The shares of ``first`` add up to the share
        of trees with splits.
    splits : dict of arrays
        One entry per split, the most frequent first, with the keys test (as text), feature, share (of these trees that
        have it) and chosen (whether the tree itself has it).

    Notes
    -----
    Shares say how free the choice of a split was, not how probable it is: each tree counts once, and the trees that a
    search meets are no sample of all.
    """

    forests: tuple[Forest, ...]
    errors: Doubles
    error: float
    n_met: int
    features: dict[str, Array]
    splits: dict[str, Array]
    stumps: TreeEnsemble | None
    """One tree of one split per entry of `splits`, for texts in other languages; None without splits."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A tree of the search as the model has it: its final splits in ranks, the forest, the error and the cost.

    The cost is what trees are chosen by, if not the error alone.
    """

    tree: dict[str, Any]
    forest: TreeEnsemble
    error: float
    cost: float = 0.0


def alternatives_of(
    model: Any, growth: Growth, grown: GrownTree, meaning: dict[str, Any], interrupts: Interrupts
) -> Alternatives:
    """Find those of a regression's tree.

    Parameters
    ----------
    model : ModelTreeRegressor
    growth : Growth
    grown : GrownTree
        What has become of it.
    meaning : dict
        Further fields of the forests.
    interrupts : Interrupts
        One ends it with what was found.
    """
    shared = replace(growth, parts=None, known=Known())  # no intervals are asked for

    def fit(tree: dict[str, Any]) -> Fitted:
        other = shared.with_tree(tree).pruned(model)
        other = other if other.refit is None else other.refit(replace(other, known=None))
        return fitted(other, other.tree(model, **meaning))

    def fitted(one: Growth, grown: GrownTree) -> Fitted:
        error = grown.left_out if one.deviance is None else one.deviance(one)
        return Fitted(one.result.best, grown.forest, error)

    return find_alternatives(growth, fitted(growth, grown), model, fit, interrupts)


def find_alternatives(
    growth: Growth, own: Fitted, model: Any, fit: Callable[[dict[str, Any]], Fitted], interrupts: Interrupts
) -> Alternatives:
    """Choose among the trees that a search has met, fit them, and count all.

    Parameters
    ----------
    growth : Growth
    own : Fitted
        The tree that the search has returned.
    model : ModelTreeRegressor or ModelTreeClassifier
        Says how many there are at most.
    fit : callable
        Prunes and fits a tree.
    interrupts : Interrupts
    """
    met, rows, columns, most = growth.result.met, growth.rows, growth.columns, model.alternatives
    if not any(_cuts(tree) == _cuts(own.tree) for tree in met):
        met = [own.tree, *met]
    group_of, centres = _grouped(own.tree, met, rows)
    splits = [frozenset(group_of[cut] for cut in _cuts(tree)) for tree in met]
    known = frozenset(group_of[cut] for cut in _cuts(own.tree))
    work = float(columns.X.shape[0]) * columns.X.shape[1] ** 2
    tries = int(min(TRIED * most, MOST_WORK // max(work, 1.0)))
    kept: list[Fitted] = []
    seen, written = {known}, {_as_written(own.forest)}
    chosen = [met[at] for at in _farthest_first(known, splits, tries)]
    for one in _in_batches(fit, chosen, threads_of(columns.X.size), interrupts):
        final = frozenset(group_of[cut] for cut in _cuts(one.tree))
        is_new = final not in seen and _as_written(one.forest) not in written
        if is_new and one.error <= own.error * (1 + MARGIN) and one.cost <= own.cost * (1 + MARGIN):
            kept.append(one)
            seen.add(final)
            written.add(_as_written(one.forest))
            if len(kept) == most:
                break
    kept.sort(key=lambda one: one.error)
    forests, errors = tuple(Forest(one.forest) for one in kept), np.array([one.error for one in kept])
    names = feature_names(own.forest)
    table, stumps = _split_table(splits, known, centres, growth, own.forest)
    return Alternatives(forests, errors, own.error, len(met), _feature_table(met, columns, names), table, stumps)


def _in_batches(
    fit: Callable[[dict[str, Any]], Fitted], trees: list[dict[str, Any]], together: int, interrupts: Interrupts
) -> Iterator[Fitted]:
    """Yield fits in order, some beside each other, until an interrupt comes."""
    for start in range(0, len(trees), together):
        if interrupts.have_come:
            return
        batch = trees[start : start + together]
        with config_context(n_jobs=None if together == 1 else 1):
            found = side_by_side(lambda k, batch=batch: fit(batch[k]), len(batch), together)  # type: ignore[misc]
        yield from found


def _as_written(forest: TreeEnsemble) -> bytes:
    """Take the splits with their final thresholds: other ranks may part the rows of a node alike."""
    splits = np.column_stack([forest.feature, forest.threshold])
    return splits.tobytes() + forest.set_words.tobytes()


def _cuts(tree: dict[str, Any]) -> set[Cut]:
    """Return the splits of a tree."""
    is_split = tree["feature"] >= 0
    return set(zip(tree["feature"][is_split].tolist(), tree["threshold"][is_split].tolist(), strict=True))


def _grouped(own: dict[str, Any], met: list[dict[str, Any]], rows: TrainingRows) -> tuple[dict[Cut, int], list[Cut]]:
    """Join splits of a column that part nearly the same rows: the group of each, and what stands for each group."""
    of_own, counts = _cuts(own), dict[Cut, int]()
    for tree in met:
        for cut in _cuts(tree):
            counts[cut] = counts.get(cut, 0) + 1
    every = sorted(counts.keys() | of_own, key=lambda cut: (cut not in of_own, -counts.get(cut, 0), cut))
    group_of: dict[Cut, int] = {}
    centres: list[Cut] = []
    of_column: dict[int, list[tuple[float, int]]] = {}
    for cut in every:
        column, below = cut[0], _part_below(cut, rows)
        near = [(abs(below - centre), group) for centre, group in of_column.get(column, [])]
        distance, group = min(near, default=(np.inf, -1))
        if distance > SAME / 2:
            group = len(centres)
            centres.append(cut)
            of_column.setdefault(column, []).append((below, group))
        group_of[cut] = group
    return group_of, centres


def _part_below(cut: Cut, rows: TrainingRows) -> float:
    column, rank = cut
    return float(rows.starts[rows.offsets[column] + column + rank]) / len(rows.y)


def _farthest_first(own: frozenset[int], splits: list[frozenset[int]], most: int) -> Iterator[int]:
    """Yield places of trees that share the fewest splits with those before, of equal ones the fittest first."""
    places = {one: at for at, one in reversed(list(enumerate(splits))) if one != own}
    waiting = sorted(places.values())
    nearest = [_distance(own, splits[at]) for at in waiting]
    for _ in range(min(most, len(waiting))):
        best = int(np.argmax(nearest))
        chosen = waiting.pop(best)
        nearest.pop(best)
        yield chosen
        nearest = [min(d, _distance(splits[chosen], splits[at])) for d, at in zip(nearest, waiting, strict=True)]


def _distance(a: frozenset[int], b: frozenset[int]) -> float:
    """Part of the splits of either that are not those of both (Jaccard 1912)."""
    return 1 - len(a & b) / max(len(a | b), 1)


def _feature_table(met: list[dict[str, Any]], columns: TrainingColumns, names: tuple[str, ...]) -> dict[str, Array]:
    sources, n = columns.sources, columns.n_features
    tested, first, used = np.zeros((len(met), n), bool), np.zeros((len(met), n), bool), np.zeros((len(met), n), bool)
    for of_tree, (tree, at) in enumerate(zip(met, tested, strict=True)):
        is_split = tree["feature"] >= 0
        at[sources[tree["feature"][is_split]]] = True
        if is_split[0]:
            first[of_tree, sources[tree["feature"][0]]] = True
        in_leaves = tree["model"].reshape(len(is_split), -1)[~is_split].any(axis=0)
        used[of_tree, sources[np.flatnonzero(in_leaves)]] = True
    shares = {"split": tested, "first": first, "term": used}
    return {"feature": np.array(names, object), **{name: has.mean(axis=0) for name, has in shares.items()}}


def _split_table(
    splits: list[frozenset[int]], own: frozenset[int], centres: list[Cut], growth: Growth, forest: TreeEnsemble
) -> tuple[dict[str, Array], TreeEnsemble | None]:
    """One entry a group of splits, and a tree of one split for each."""
    shares = np.array([sum(group in one for one in splits) for group in range(len(centres))]) / len(splits)
    chosen = np.array([group in own for group in range(len(centres))], bool)
    order = np.lexsort((np.arange(len(centres)), ~chosen, -shares))
    stumps = _stumps([centres[group] for group in order.tolist()], growth, forest) if centres else None
    names, wording = feature_names(forest), Wording()
    tests = [node_tests(stumps, tree, wording)[0][0] for tree in range(stumps.n_trees)] if stumps else []
    features = [names[growth.columns.sources[centres[group][0]]] for group in order.tolist()]
    table: dict[str, Array] = {
        "test": np.array(tests, object),
        "feature": np.array(features, object),
        "share": shares[order],
        "chosen": chosen[order],
    }
    return table, stumps


def _stumps(cuts: list[Cut], growth: Growth, forest: TreeEnsemble) -> TreeEnsemble:
    """Make a tree of each split."""
    columns, n = growth.columns, len(cuts)
    feature, threshold, chosen = np.full(3 * n, -1), np.zeros(3 * n), np.full(3 * n, -1, np.int32)
    sets: list[Bools] = []
    for tree, (column, rank) in enumerate(cuts):
        feature[3 * tree] = columns.sources[column]
        as_set = split_of_categories(column, rank, growth.rows, columns)
        if as_set is None and column >= columns.n_features:  # of a logarithm: its numbers are apart from missing ones
            is_last = rank >= len(growth.rows.distinct(column))
            threshold[3 * tree] = np.inf if is_last else growth.rows.distinct(columns.sources[column])[0]
        elif as_set is None:
            threshold[3 * tree] = _between(growth.rows.distinct(column), rank)
        else:
            chosen[3 * tree] = len(sets)
            sets.append(as_set[1])
    is_root = np.arange(3 * n) % 3 == 0
    nodes = NodeArrays(
        counts=np.full(n, 3),
        left=np.where(is_root, 1, -1),
        right=np.where(is_root, 2, -1),
        feature=feature,
        threshold=threshold,
        default_left=np.zeros(3 * n, bool),
        cover=np.ones(3 * n),
        value=np.zeros(3 * n),
        leaf_id=np.arange(3 * n),
        category_set=chosen if sets else None,
    )
    packed: dict[str, Any] = {}
    if sets:
        offsets, words = pack_sets(sets)
        packed = {"set_offsets": offsets, "set_words": words, "set_others_left": np.zeros(len(sets), bool)}
    return assemble(
        nodes,
        n_features=columns.n_features,
        tree_weight=np.ones(n),
        base_score=np.zeros(1),
        categories=forest.categories if columns.is_categorical.any() else None,
        feature_names=forest.feature_names,
        missing_seen=np.zeros(columns.n_features, bool),
        **packed,
    )


def _between(values: Doubles, rank: int) -> float:
    """Midway between the values that a rank parts; +inf where all go left."""
    if rank >= len(values):
        return float("inf")
    high = float(values[rank])
    low = float(values[rank - 1]) if rank else high
    middle = low + (high - low) / 2
    return middle if low < middle <= high else high
