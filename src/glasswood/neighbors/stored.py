"""Neighbours in `.glasswood` files: beside the forest the lists of its leaves, the training rows and their targets."""

from __future__ import annotations

import os
from typing import Any, NoReturn

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.typing import Array
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.storage import (
    UNREADABLE,
    Attachment,
    check_array,
    load_attachment,
    name_of,
    naming,
    read_attachment_note,
    save_forest,
)
from glasswood.neighbors.index import LeafIndex, LeafLists, TargetIndex
from glasswood.neighbors.training import MOST_SHARE

KIND, VERSION = "neighbors", 1
LISTS = ("offsets", "rows", "mass")

TYPES: dict[str, tuple[Any, ...]] = {
    "training": (np.float32, np.float64),
    "weights": (np.int64,),
    "bags": (np.uint16,),
    "row_weight": (np.float64,),
    "targets": (np.float64, np.int32),
    "scores": (np.float64,),
    "offsets": (np.int64,),
    "rows": (np.int32,),
    "mass": (np.float64,),
    "values": (np.float64,),
}
"""Types of arrays, by the last part of their names."""

ALWAYS = ("training", "weights", "offsets", "rows")
MAYBE = ("bags", "row_weight", "targets", "scores")


def holds_neighbors(model: object) -> bool:
    """Whether this is the path of a file that `Neighbors.save` wrote."""
    if not isinstance(model, str | os.PathLike):
        return False
    return (read_attachment_note(model) or {}).get("kind") == KIND


def save_neighbors(
    path: str | os.PathLike[str],
    index: LeafIndex,
    parts: dict[str, Array | None],
    targets: list[TargetIndex],
) -> None:
    """Write a file; `parts` are the training rows, targets and scores of conformal prediction."""
    arrays = {
        **parts,
        "weights": index.weights,
        "bags": index.bags,
        "row_weight": index.row_weight,
        "offsets": index.lists.offsets,
        "rows": index.lists.rows,
    }
    for output, target in enumerate(targets):
        arrays |= {f"target{output}.{name}": getattr(target.lists, name) for name in LISTS}
        arrays[f"target{output}.values"] = target.targets
    kept = {name: array for name, array in arrays.items() if array is not None}
    about = {"kind": KIND, "version": VERSION, "outputs": len(targets)}
    save_forest(index.forest, path, Attachment(about, kept))


def load_neighbors(
    path: str | os.PathLike[str], mmap: bool
) -> tuple[LeafIndex, dict[str, Array | None], list[TargetIndex]]:
    """Read what `save_neighbors` wrote.

    Raises
    ------
    ValueError
        If the file holds no neighbours, those of a later version, or is truncated or corrupt.
    """
    ensemble, attachment = load_attachment(path, mmap)
    where = name_of(path)
    if attachment is None or attachment.about["kind"] != KIND:
        raise ValueError(
            f"{shown(where)} holds no neighbours; pass its forest and the training rows to glasswood.Neighbors"
        )
    version = attachment.about.get("version")
    if type(version) is int and version > VERSION:
        raise ValueError(
            f"{shown(where)} holds neighbours of version {version}, this glasswood reads up to {VERSION}; "
            "upgrade glasswood"
        )
    with naming(path, *UNREADABLE):
        arrays, n_outputs = attachment.arrays, _check_names(attachment)
        _check_shapes(arrays, ensemble, n_outputs)
        lists = LeafLists(arrays["offsets"], arrays["rows"], np.zeros(0))
        index = LeafIndex(ensemble, lists, arrays["weights"], arrays.get("bags"), arrays.get("row_weight"))
        _ = index.shares  # checks that rows are in range and rise within a leaf
        leaves = _leaves_of_trees(index)
        targets = [_target(arrays, index, output) for output in range(n_outputs)]
        for output, target in enumerate(targets):
            _check_target(target, index, leaves, _column(arrays["targets"], output))
    parts = {name: arrays.get(name) for name in ("training", "targets", "scores")}
    return index, parts, targets


def _target(arrays: dict[str, Array], index: LeafIndex, output: int) -> TargetIndex:
    of_output = {name: arrays[f"target{output}.{name}"] for name in LISTS}
    return TargetIndex(index, arrays[f"target{output}.values"], LeafLists(**of_output))


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"corrupt neighbours: {shown(what)}")


def _check_names(attachment: Attachment) -> int:
    """Count the outputs whose targets are listed."""
    about, names = attachment.about, set(attachment.arrays)
    if about.keys() != {"kind", "version", "outputs"} or about["version"] != VERSION:
        _refuse(f"its entries are {sorted(about)}, expected kind, outputs and version {VERSION}")
    n_outputs = about["outputs"]
    if type(n_outputs) is not int or not 0 <= n_outputs <= len(names):
        _refuse(f"outputs is {n_outputs!r}, expected a number")
    needed = {*ALWAYS, *(f"target{output}.{name}" for output in range(n_outputs) for name in (*LISTS, "values"))}
    if needed - names or names - needed - set(MAYBE):
        _refuse(f"its arrays are {sorted(names)[:20]}, expected {sorted(needed)[:20]}")
    return n_outputs


def _check_shapes(arrays: dict[str, Array], forest: TreeEnsemble, n_outputs: int) -> None:
    """Check types, shapes and the numbers of arrays that need no other array."""
    n, given = len(arrays["training"]) if arrays["training"].ndim else 0, arrays.get("targets")
    if not 0 < n < 2**31 or forest.n_trees == 0:
        _refuse(f"{n} training rows and {forest.n_trees} trees, expected at least one of each")
    of_targets: tuple[int | None, ...] = (n,) if forest.classes or given is None or given.ndim != 2 else (n, None)
    shapes: dict[str, tuple[int | None, ...]] = {
        "training": (n, forest.n_features),
        "weights": (forest.n_trees,),
        "bags": (n, forest.n_trees),
        "row_weight": (n,),
        "targets": of_targets,
        "scores": (None,),
        "offsets": (forest.n_leaves + 1,),
        "rows": (n * forest.n_trees,),
    }
    for output in range(n_outputs):
        shapes[f"target{output}.offsets"], shapes[f"target{output}.values"] = (forest.n_leaves + 1,), (n,)
        shapes[f"target{output}.rows"] = shapes[f"target{output}.mass"] = (None,)
    for name, array in arrays.items():
        check_array(name, array, shapes[name], *TYPES[name.rpartition(".")[2]])
    if (arrays["offsets"][forest.leaf_offsets] != np.arange(forest.n_trees + 1) * n).any():
        _refuse(f"a tree does not list each of the {n} rows once")
    _check_numbers(arrays, forest)
    _check_targets(given, forest, n_outputs)


def _check_numbers(arrays: dict[str, Array], forest: TreeEnsemble) -> None:
    weights, row_weight, scores = arrays["weights"], arrays.get("row_weight"), arrays.get("scores")
    if weights.min() < 0 or weights.max() > MOST_SHARE or not 0 < weights.sum() <= MOST_SHARE:
        _refuse(f"the weights of the trees add up to {weights.sum()}, expected 1 to {MOST_SHARE}")
    if not forest.nan_allowed and np.isnan(arrays["training"]).any():
        _refuse("training holds NaN, which this forest refuses")
    if row_weight is not None and not (np.isfinite(row_weight).all() and row_weight.min() >= 0 and row_weight.any()):
        _refuse("row_weight holds others than finite numbers of at least 0, one of them above 0")
    if scores is None:
        return
    if "targets" not in arrays or not len(scores) or np.isnan(scores).any() or (np.diff(scores) < 0).any():
        _refuse("scores expects targets, and numbers that rise")


def _check_targets(targets: Array | None, forest: TreeEnsemble, n_outputs: int) -> None:
    is_listed = targets is not None and not forest.classes
    expected = 0 if targets is None or not is_listed else targets.size // len(targets)
    if n_outputs != expected:
        _refuse(f"outputs is {n_outputs}, expected {expected}")
    if targets is None:
        return
    if targets.dtype != (np.int32 if forest.classes else np.float64):
        _refuse(f"targets holds {targets.dtype}")
    if forest.classes and (len(forest.classes) > 1 or not 0 <= targets.min() <= targets.max() < len(forest.classes[0])):
        _refuse("targets holds places of no class")
    if not forest.classes and (not targets.size or not np.isfinite(targets).all()):
        _refuse("targets holds others than finite numbers")


def _leaves_of_trees(index: LeafIndex) -> list[Array]:
    """Leaf of each row, a tree after the other; refuses lists that do not hold each row once."""
    n, lists, result = len(index), index.lists, []
    leaf = np.repeat(np.arange(index.forest.n_leaves, dtype=np.int32), np.diff(lists.offsets))
    for tree in range(index.forest.n_trees):
        part, found = slice(tree * n, (tree + 1) * n), np.full(n, -1, np.int32)
        found[lists.rows[part]] = leaf[part]
        if (found < 0).any():
            _refuse(f"tree {tree} does not list row {int(np.argmin(found))}")
        result.append(found)
    return result


def _column(targets: Array, output: int) -> Array:
    return targets if targets.ndim == 1 else targets[:, output]


def _check_target(target: TargetIndex, index: LeafIndex, leaves: list[Array], targets: Array) -> None:
    """Ranks of the given rows stand in these rows' leaves, each once, with weights that add up."""
    order, lists = np.argsort(targets, kind="stable"), target.lists
    if not np.array_equal(targets[order], target.targets):
        _refuse("the values of a target are not its targets in their order")
    weight = index.weight()
    leaf = np.repeat(np.arange(index.forest.n_leaves, dtype=np.int32), np.diff(lists.offsets))
    for tree, found in enumerate(leaves):
        part = slice(*lists.offsets[index.forest.leaf_offsets[tree : tree + 2]])
        n_given = len(index) if weight is None else np.count_nonzero(weight[:, tree] > 0)
        if len(leaf[part]) != n_given or (found[order[lists.rows[part]]] != leaf[part]).any():
            _refuse(f"the targets of tree {tree} stand in other leaves than its rows")
    mass = lists.mass
    if len(mass) != (0 if weight is None else len(lists.rows)):
        _refuse(f"mass has {len(mass)} entries, expected {0 if weight is None else len(lists.rows)}")
    if len(mass):
        before = np.where(leaf[1:] == leaf[:-1], mass[:-1], 0.0)
        if not np.isfinite(mass).all() or not mass[0] > 0 or not (mass[1:] > before).all():
            _refuse("mass holds weights that do not rise within a leaf")
