"""Nodes of ONNX's tree ensembles: those of versions 1 and 3 by tree and number, those of version 5 by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Bools, Int64s
from glasswood.model.onnx_note import NEVER
from glasswood.readers.assemble import NodeArrays, less_than, pack_sets
from glasswood.readers.onnx.graph import ENSEMBLE

if TYPE_CHECKING:
    from glasswood.readers.onnx.graph import Graph

AT_MOST, LESS, AT_LEAST, MORE, EQUAL, UNEQUAL, MEMBER = range(7)
MODES = {
    "BRANCH_LEQ": AT_MOST,
    "BRANCH_LT": LESS,
    "BRANCH_GTE": AT_LEAST,
    "BRANCH_GT": MORE,
    "BRANCH_EQ": EQUAL,
    "BRANCH_NEQ": UNEQUAL,
}
LEAF = -1
MOST_ID, MOST_MEMBER = 2**31 - 1, 2**20
LEAST_ROOM, ROOM_OF_A_NODE = 2**26, 1000
"""Largest number of codes of all sets: the larger of a minimum and a number per node."""


@dataclass(frozen=True, eq=False)
class TreeNodes:
    """All nodes, tree after tree.

    Attributes
    ----------
    counts : (n_trees,)
    mode : (n_nodes,)
        LEAF or one of the comparisons.
    feature, value, tracks : (n_nodes,)
        Tested feature, what it is compared with, and whether missing values take the true side.
    yes, no : (n_nodes,)
        Children, counted from the tree's first node; -1 at leaves.
    members : list of arrays
        Values of each MEMBER node, in their order.
    leaf : (n_nodes,)
        At leaves their id: the number within the tree (versions 1, 3) or the position among all leaves (5).
    tree_id, node_id : (n_nodes,)
        The source's own numbers.
    cover : (n_nodes,)
        NaN where the model keeps none.
    """

    counts: Int64s
    mode: Array
    feature: Array
    value: Array
    tracks: Bools
    yes: Array
    no: Array
    members: list[Array]
    leaf: Array
    tree_id: Array
    node_id: Array
    cover: Array

    @classmethod
    def from_graph(cls, graph: Graph) -> TreeNodes:
        """Read the attributes."""
        return _by_position(graph) if graph.operator == ENSEMBLE else _by_number(graph)

    @property
    def tree(self) -> Int64s:
        """Tree of each node."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def _column(graph: Graph, name: str, n: int, default: int | None = None) -> Array:
    values = graph.integers(name)
    if not len(values) and default is not None:
        return np.full(n, default, np.int64)
    return _sized(values, name, n)


def _sized(values: Array, name: str, n: int) -> Array:
    if len(values) != n:
        raise ValueError(f"{name!r} has {len(values)} entries, expected {n}")
    return values


def _by_number(graph: Graph) -> TreeNodes:
    """Versions 1 and 3: nodes have a tree and a number in it."""
    modes = graph.texts("nodes_modes")
    n = len(modes)
    if n == 0:
        raise ValueError("it holds no nodes")
    if unknown := set(modes) - set(MODES) - {"LEAF"}:
        raise NotImplementedError(f"nodes of the mode {min(unknown)!r} are not read")
    tree_id, node_id = _column(graph, "nodes_treeids", n), _column(graph, "nodes_nodeids", n)
    _check_ids(tree_id, "nodes_treeids")
    _check_ids(node_id, "nodes_nodeids")
    order = np.argsort(tree_id, kind="stable")
    mode = np.array([MODES.get(name, LEAF) for name in modes])[order]
    tree_id, node_id = tree_id[order], node_id[order]
    counts = np.unique(tree_id, return_counts=True)[1]
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    find = _Finder(tree_id, node_id)
    is_split = mode != LEAF
    children = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        target = _column(graph, name, n)[order]
        place = find(tree_id[is_split], target[is_split], name)
        child = np.full(n, -1, np.int64)
        child[is_split] = place - starts[is_split]
        children.append(child)
    values = graph.numbers("nodes_values")
    first = _roots(children, counts, starts)
    return _rooted(first, TreeNodes(
        counts=counts,
        mode=mode,
        feature=np.where(is_split, _column(graph, "nodes_featureids", n, 0)[order], -1),
        value=_sized(values, "nodes_values", n)[order],
        tracks=_column(graph, "nodes_missing_value_tracks_true", n, 0)[order] != 0,
        yes=children[0],
        no=children[1],
        members=[],
        leaf=node_id,
        tree_id=tree_id,
        node_id=node_id,
        cover=_covers(graph, n)[order],
    ))  # fmt: skip


def _check_ids(ids: Array, name: str) -> None:
    if (ids < 0).any() or (ids > MOST_ID).any():
        raise ValueError(f"{name!r} holds {ids.min()} to {ids.max()}, expected numbers of 0 to {MOST_ID}")


class _Finder:
    """Places of nodes by tree and number."""

    def __init__(self, tree: Array, node: Array) -> None:
        keys = tree * (MOST_ID + 1) + node
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        if (self._keys[1:] == self._keys[:-1]).any():
            raise ValueError("two nodes of a tree have the same number")

    def __call__(self, tree: Array, node: Array, name: str) -> Array:
        """Find nodes."""
        _check_ids(tree, name)
        _check_ids(node, name)
        keys = tree * (MOST_ID + 1) + node
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        if (wrong := self._keys[at] != keys).any():
            i = int(np.argmax(wrong))
            raise ValueError(f"{name!r} names node {node[i]} of tree {tree[i]}, which does not exist")
        return self._order[at]


def _roots(children: list[Array], counts: Int64s, starts: Array) -> Array:
    """Position within its tree of each root: the node that is not a child."""
    n, is_child = len(starts), np.zeros(len(starts), np.bool_)
    for child in children:
        is_child[(child + starts)[child >= 0]] = True
    roots = np.flatnonzero(~is_child)
    tree = np.repeat(np.arange(len(counts)), counts)
    if n and (len(roots) != len(counts) or (tree[roots] != np.arange(len(counts))).any()):
        raise ValueError("a tree has not one root: nodes are lost, or the tree is cyclic")
    return roots - starts[roots]


def _rooted(first: Array, nodes: TreeNodes) -> TreeNodes:
    """Put each tree's root in the first place, by exchanging it with what stands there."""
    starts = np.cumsum(nodes.counts) - nodes.counts
    if not first.any():
        return nodes
    order = np.arange(len(nodes.mode))
    order[starts], order[starts + first] = starts + first, starts
    moved = {
        name: getattr(nodes, name)[order]
        for name in ("mode", "feature", "value", "tracks", "leaf", "tree_id", "node_id", "cover")
    }
    root = np.repeat(first, nodes.counts)
    for name in ("yes", "no"):
        child = getattr(nodes, name)[order]
        moved[name] = np.where(child == 0, root, np.where(child == root, 0, child))
    return TreeNodes(counts=nodes.counts, members=nodes.members, **moved)


def _covers(graph: Graph, n: int) -> Array:
    """Weights of training rows, where a model keeps any: converters write 0 or 1 everywhere."""
    rates = graph.numbers("nodes_hitrates").astype(np.float64)
    if len(rates) != n or not np.isfinite(rates).all() or len(np.unique(rates)) < 2:
        return np.full(n, np.nan)
    return rates


def _by_position(graph: Graph) -> TreeNodes:
    """Version 5: inner nodes and leaves lie in tables of their own; a tree begins where `tree_roots` says."""
    mode = graph.numbers("nodes_modes").astype(np.int64)
    n, n_leaves = len(mode), len(graph.integers("leaf_targetids"))
    if n == 0 or n_leaves == 0:
        raise ValueError("it holds no nodes")
    if ((mode < 0) | (mode > MEMBER)).any():
        raise ValueError(f"'nodes_modes' holds {mode.min()} to {mode.max()}, expected 0 to {MEMBER}")
    columns = [_column(graph, name, n) for name in ("nodes_truenodeids", "nodes_falsenodeids", "nodes_featureids")]
    to_leaf = [_column(graph, name, n) != 0 for name in ("nodes_trueleafs", "nodes_falseleafs")]
    for child, is_leaf in zip(columns, to_leaf, strict=False):
        if ((child < 0) | (child >= np.where(is_leaf, n_leaves, n))).any():
            raise ValueError("a node's child does not exist")
    splits = _sized(graph.numbers("nodes_splits"), "nodes_splits", n)
    tracks = _column(graph, "nodes_missing_value_tracks_true", n, 0) != 0
    members = _members(graph, int((mode == MEMBER).sum()))
    reached = bytearray(n)
    parts = [_walk(int(root), columns, to_leaf, reached) for root in _tree_roots(graph, n)]
    place = np.concatenate([part[0] for part in parts])
    is_split = place < n
    at = np.where(is_split, place, 0)
    set_of = np.where(mode == MEMBER, np.cumsum(mode == MEMBER) - 1, -1)
    return TreeNodes(
        counts=np.array([len(part[0]) for part in parts]),
        mode=np.where(is_split, mode[at], LEAF),
        feature=np.where(is_split, columns[2][at], -1),
        value=np.where(is_split & (mode[at] != MEMBER), splits[at], set_of[at].astype(splits.dtype)),
        tracks=tracks[at],
        yes=np.concatenate([part[1] for part in parts]),
        no=np.concatenate([part[2] for part in parts]),
        members=members,
        leaf=np.where(is_split, -1, place - n),
        tree_id=np.zeros(len(place), np.int64),
        node_id=place,
        cover=np.full(len(place), np.nan),
    )


def _tree_roots(graph: Graph, n: int) -> Array:
    roots = graph.integers("tree_roots")
    if not len(roots):
        raise ValueError("it holds no trees")
    if ((roots < 0) | (roots >= n)).any():
        raise ValueError(f"'tree_roots' holds {roots.min()} to {roots.max()}, expected 0 to {n - 1}")
    return roots


def _walk(root: int, columns: list[Array], to_leaf: list[Bools], reached: bytearray) -> tuple[Array, Array, Array]:
    """Reach a tree's nodes: their places (leaves behind the inner nodes), true and false children.

    `reached` marks the inner nodes that any tree has reached: one that belongs to several trees, or to several places
    of a tree, would stand in the forest as often.
    """
    n, places, yes, no = len(reached), [root], [-1], [-1]
    first, second = columns[0], columns[1]
    at = 0
    # Exporters write a tree of one leaf as a node both of whose children are that leaf.
    if to_leaf[0][root] and to_leaf[1][root] and first[root] == second[root]:
        return np.array([n + first[root]]), np.array([-1]), np.array([-1])
    while at < len(places):
        node = places[at]
        if node < n:
            if reached[node]:
                raise ValueError(f"node {node} is reached on two ways: its trees are cyclic or share nodes")
            reached[node] = 1
            yes[at], no[at] = len(places), len(places) + 1
            places += [int(first[node]) + n * to_leaf[0][node], int(second[node]) + n * to_leaf[1][node]]
            yes += [-1, -1]
            no += [-1, -1]
        at += 1
    return np.array(places), np.array(yes), np.array(no)


def _members(graph: Graph, n_sets: int) -> list[Array]:
    """Values of each MEMBER node: `membership_values` has them behind each other, with NaN after each node's."""
    values = graph.numbers("membership_values").astype(np.float64)
    ends = np.flatnonzero(np.isnan(values))
    parts = np.split(values, ends + 1)
    parts = [part[:-1] if i < len(ends) else part for i, part in enumerate(parts)]
    if len(parts) == n_sets + 1 and not len(parts[-1]):
        parts = parts[:-1]
    if len(parts) != n_sets:
        raise ValueError(f"'membership_values' holds {len(parts)} sets, {n_sets} nodes test one")
    return parts


def read_nodes(graph: Graph, nodes: TreeNodes, leaf_values: Array) -> tuple[NodeArrays, dict[str, Any]]:
    """Make NodeArrays, and the fields of TreeEnsemble that hold sets.

    A test of equality becomes one of categories, whose table holds the values that any node tests; membership is
    that of codes.
    """
    row_type = np.float64 if graph.row_type == "float64" else np.float32
    is_split = nodes.mode != LEAF
    if (nodes.feature[is_split] < 0).any():
        raise ValueError("a node tests a negative feature")
    categorical = is_split & (nodes.mode >= EQUAL)
    threshold, is_swapped = _thresholds(nodes, is_split & ~categorical, row_type)
    default_left = np.where(nodes.mode == UNEQUAL, True, nodes.tracks ^ is_swapped)
    category_set: Array | None = None
    fields: dict[str, Any] = {}
    if categorical.any():
        category_set, fields = _categories(graph, nodes, categorical)
        # onnxruntime truncates what it looks up in a set, unless all members of the set are small.
        threshold[nodes.mode == MEMBER] = np.nextafter(row_type(-1), row_type(0))
    return NodeArrays(
        counts=nodes.counts,
        left=np.where(is_swapped, nodes.no, nodes.yes),
        right=np.where(is_swapped, nodes.yes, nodes.no),
        feature=nodes.feature,
        threshold=threshold,
        default_left=default_left,
        cover=nodes.cover,
        value=leaf_values,
        leaf_id=nodes.leaf,
        category_set=category_set,
    ), fields


def _thresholds(nodes: TreeNodes, numerical: Bools, row_type: Any) -> tuple[Array, Bools]:
    """Thresholds of ``x < threshold``, and the nodes whose true side is the right one."""
    value = np.where(numerical, nodes.value, 0).astype(np.float64)
    if np.isnan(value).any():
        raise ValueError("a node compares with NaN")
    exclusive = (nodes.mode == LESS) | (nodes.mode == AT_LEAST)
    with np.errstate(over="ignore"):
        largest = np.finfo(row_type).max
        if (numerical & np.where(exclusive, value == np.inf, value == largest)).any():
            raise NotImplementedError("nodes that tell infinity from the largest number are not read")
        at = np.where(exclusive, _at_least(value, row_type), less_than(value, row_type))
    is_swapped = numerical & ((nodes.mode == AT_LEAST) | (nodes.mode == MORE))
    return np.where(numerical, at, 0).astype(row_type), is_swapped


def _at_least(value: Array, row_type: Any) -> Array:
    """Smallest numbers of the row type that are not below the values."""
    rounded = value.astype(row_type)
    above = np.nextafter(rounded, np.asarray(np.inf, row_type))
    return np.where(rounded.astype(np.float64) < value, above, rounded)


def _categories(graph: Graph, nodes: TreeNodes, categorical: Bools) -> tuple[Array, dict[str, Any]]:
    """Make sets of the nodes that test equality or membership; features of the former have tables of their values."""
    _refuse_mixed(nodes, categorical)
    tables = _tables(graph, nodes)
    places = np.flatnonzero(categorical)
    unequal = nodes.mode[places] == UNEQUAL
    lefts: list[Bools] = []
    room = max(LEAST_ROOM, ROOM_OF_A_NODE * len(nodes.mode))
    for i in places:
        if nodes.mode[i] == MEMBER:
            lefts.append(_members_left(nodes.members[int(nodes.value[i])], NEVER if graph.own else None))
        else:
            is_tested = tables[nodes.feature[i]] == nodes.value[i].astype(graph.row_type)
            lefts.append(is_tested ^ bool(nodes.mode[i] == UNEQUAL))
        room -= len(lefts[-1])
        if room < 0:
            raise NotImplementedError(
                f"its {len(places)} tests of categories name more than {ROOM_OF_A_NODE} on average, which is not read"
            )
    offsets, words = pack_sets(lefts, unequal)
    category_set = np.full(len(nodes.mode), -1)
    category_set[places] = np.arange(len(places))
    fields: dict[str, Any] = {"set_offsets": offsets, "set_words": words, "set_others_left": unequal}
    if tables:
        categories: list[Array | None] = [None] * graph.n_features(nodes.feature)
        for feature, table in tables.items():
            categories[feature] = table
        fields["categories"] = tuple(categories)
    return category_set, fields


def _refuse_mixed(nodes: TreeNodes, categorical: Bools) -> None:
    """Refuse features of two kinds, and missing values where a value that no node names takes another side."""
    kinds = [
        np.unique(nodes.feature[which])
        for which in ((nodes.mode != LEAF) & ~categorical, categorical & (nodes.mode != MEMBER), nodes.mode == MEMBER)
    ]
    if len(np.unique(np.concatenate(kinds))) < sum(map(len, kinds)):
        raise NotImplementedError("a feature is compared both by size and by equality or membership, which is not read")
    if (nodes.tracks & (nodes.mode == EQUAL)).any():
        raise NotImplementedError("tests of equality that missing values pass are not read")


def _tables(graph: Graph, nodes: TreeNodes) -> dict[int, Array]:
    """Collect the values that each feature is tested for equality with."""
    equality = np.flatnonzero((nodes.mode == EQUAL) | (nodes.mode == UNEQUAL))
    equality = equality[np.argsort(nodes.feature[equality], kind="stable")]
    features, starts = np.unique(nodes.feature[equality], return_index=True)
    values = np.split(nodes.value[equality].astype(graph.row_type) + 0.0, starts[1:])
    return {int(feature): np.unique(part) for feature, part in zip(features, values, strict=bool(len(features)))}


def _members_left(members: Array, placeholder: int | None) -> Bools:
    """Mark the members of a set by their codes; a placeholder stands in empty sets."""
    if len(members) == 1 and members[0] == placeholder:
        return np.zeros(0, np.bool_)
    if (members != np.floor(members)).any() or (members < 0).any() or (members > MOST_MEMBER).any():
        raise NotImplementedError(f"sets of other members than the integers 0 to {MOST_MEMBER} are not read")
    left = np.zeros(int(members.max(initial=-1)) + 1, np.bool_)
    left[members.astype(np.int64)] = True
    return left
