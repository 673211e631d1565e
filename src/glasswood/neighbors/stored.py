"""Neighbours in `.glasswood` files: beside the forest the lists of its leaves, the training rows and their targets."""

from __future__ import annotations

import os
from typing import Any, NoReturn

import numpy as np

from glasswood.base.typing import Array
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.storage import Attachment, load_attachment, name_of, naming, read_attachment_note, save_forest
from glasswood.neighbors.index import LeafIndex, LeafLists, TargetIndex
from glasswood.neighbors.training import MOST_SHARE

KIND, VERSION = "neighbors", 1
LISTS = ("offsets", "rows", "mass")

TYPES: dict[str, tuple[int, tuple[str, ...]]] = {
    "training": (2, ("<f4", "<f8")),
    "weights": (1, ("<i8",)),
    "bags": (2, ("<u2",)),
    "row_weight": (1, ("<f8",)),
    "targets": (0, ("<f8", "<i4")),
    "scores": (1, ("<f8",)),
    "offsets": (1, ("<i8",)),
    "rows": (1, ("<i4",)),
    "mass": (1, ("<f8",)),
    "values": (1, ("<f8",)),
}
"""Axes (0: one or two) and types of arrays, by the last part of their names."""

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
    by_position: bool,
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
    about = {"kind": KIND, "version": VERSION, "outputs": len(targets), "by_position": by_position}
    save_forest(index.forest, path, Attachment(about, kept))


def load_neighbors(
    path: str | os.PathLike[str], mmap: bool
) -> tuple[LeafIndex, dict[str, Array | None], list[TargetIndex], bool]:
    """Read what `save_neighbors` wrote.

    Raises
    ------
    ValueError
        If the file holds no neighbours, those of a later version, or is truncated or corrupt.
    """
    ensemble, attachment = load_attachment(path, mmap)
    where = name_of(path)
    if attachment is None or attachment.about["kind"] != KIND:
        raise ValueError(f"{where} holds no neighbours; pass its forest and the training rows to glasswood.Neighbors")
    version = attachment.about.get("version")
    if type(version) is int and version > VERSION:
        raise ValueError(
            f"{where} holds neighbours of version {version}, this glasswood reads up to {VERSION}; upgrade glasswood"
        )
    with naming(path, ValueError):
        arrays, n_outputs = attachment.arrays, _check_names(attachment)
        _check_shapes(arrays, ensemble, n_outputs)
        lists = LeafLists(arrays["offsets"], arrays["rows"], np.zeros(0))
        index = LeafIndex(ensemble, lists, arrays["weights"], arrays.get("bags"), arrays.get("row_weight"))
        _ = index.shares  # checks the lists
        targets = [_target(arrays, index, output) for output in range(n_outputs)]
    parts = {name: arrays.get(name) for name in ("training", "targets", "scores")}
    return index, parts, targets, attachment.about["by_position"]


def _target(arrays: dict[str, Array], index: LeafIndex, output: int) -> TargetIndex:
    of_output = {name: arrays[f"target{output}.{name}"] for name in LISTS}
    return TargetIndex(index, arrays[f"target{output}.values"], LeafLists(**of_output))


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"corrupt neighbours: {what}")


def _check_names(attachment: Attachment) -> int:
    """Count the outputs whose targets are listed."""
    about, names = attachment.about, set(attachment.arrays)
    if about.keys() != {"kind", "version", "outputs", "by_position"} or about["version"] != VERSION:
        _refuse(f"its entries are {sorted(about)}, expected by_position, kind, outputs and version {VERSION}")
    n_outputs = about["outputs"]
    if type(about["by_position"]) is not bool:
        _refuse(f"by_position is {about['by_position']!r}, expected true or false")
    if type(n_outputs) is not int or not 0 <= n_outputs <= len(names):
        _refuse(f"outputs is {n_outputs!r}, expected a number")
    needed = {*ALWAYS, *(f"target{output}.{name}" for output in range(n_outputs) for name in (*LISTS, "values"))}
    if needed - names or names - needed - set(MAYBE):
        _refuse(f"its arrays are {sorted(names)[:20]}, expected {sorted(needed)[:20]}")
    return n_outputs


def _check_shapes(arrays: dict[str, Array], forest: TreeEnsemble, n_outputs: int) -> None:
    for name, array in arrays.items():
        n_axes, dtypes = TYPES[name.rpartition(".")[2]]
        if array.ndim != n_axes and not (n_axes == 0 and array.ndim in {1, 2}):
            _refuse(f"{name} has {array.ndim} axes")
        if array.dtype not in [np.dtype(dtype) for dtype in dtypes]:
            _refuse(f"{name} holds {array.dtype}")
    n = len(arrays["training"])
    shapes: dict[str, Any] = {
        "training": (n, forest.n_features),
        "weights": (forest.n_trees,),
        "bags": (n, forest.n_trees),
        "row_weight": (n,),
        "offsets": (forest.n_leaves + 1,),
        "rows": (n * forest.n_trees,),
        **{f"target{output}.offsets": (forest.n_leaves + 1,) for output in range(n_outputs)},
        **{f"target{output}.values": (n,) for output in range(n_outputs)},
    }
    for name, shape in shapes.items():
        if name in arrays and arrays[name].shape != shape:
            _refuse(f"{name} has the shape {arrays[name].shape}, expected {shape}")
    weights, targets = arrays["weights"], arrays.get("targets")
    if weights.min(initial=0) < 0 or not 0 < weights.sum() <= MOST_SHARE or weights.max() > MOST_SHARE:
        _refuse(f"the weights of the trees add up to {weights.sum()}, expected 1 to {MOST_SHARE}")
    if targets is not None and len(targets) != n:
        _refuse(f"targets has {len(targets)} entries, expected {n}")
    if targets is not None and bool(forest.classes) != (targets.dtype == np.int32):
        _refuse(f"targets holds {targets.dtype}")
    if targets is not None and forest.classes and (targets.min() < 0 or targets.max() >= len(forest.classes[0])):
        _refuse("targets holds places of no class")
    if (arrays["offsets"][forest.leaf_offsets] != np.arange(forest.n_trees + 1) * n).any():
        _refuse(f"a tree does not list each of the {n} rows once")
    for output in range(n_outputs):
        if (np.diff(arrays[f"target{output}.values"]) < 0).any():
            _refuse("targets do not rise")
