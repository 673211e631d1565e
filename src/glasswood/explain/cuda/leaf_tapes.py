"""Leaves that hold linear models, laid out for native/explain/cuda/explain_leaves.cu. No GPU is needed here."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glasswood import _core
from glasswood.base.typing import Array, Doubles, Int32s, Int64s
from glasswood.explain.cuda.tapes import choose_points, chunk_offsets, chunk_splits, quadrature
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.cuda.codes import Codes

PART, LEAF, ENTRY, TERM = (np.dtype(_core.leaf_layouts()[name]) for name in ("part", "leaf", "entry", "term"))
"""Structs of native/explain/cuda/leaf_format.h."""


@dataclass(frozen=True, eq=False)
class LeafTape:
    """Leaves that take the same number of points.

    Attributes
    ----------
    points : int
        Quadrature points of a pass.
    arrays : dict of str to array
        What the kernel reads, by the names of its arguments.
    slot_offsets : int64, (n_parts + 1,)
        Accumulators of each part: leaves of one output, in one pass.
    slot_keys : int64, (n_slots,)
        As of a `Tape`.
    most_slots, most_tested : int
        Largest numbers of accumulators of a part, and of features that a path tests.
    """

    points: int
    arrays: dict[str, Array]
    slot_offsets: Int64s
    slot_keys: Int64s
    most_slots: int
    most_tested: int

    def upload(self, cupy: ModuleType) -> dict[str, Any]:
        """Arguments of its kernel on the current GPU."""
        arrays = {name: cupy.asarray(array.view(np.uint8).reshape(-1)) for name, array in self.arrays.items()}
        n_passes = len(self.arrays["points"])
        pass_size = self.arrays["numbers"].size // n_passes
        return {**arrays, "slot_offsets": cupy.asarray(self.slot_offsets), "pass_size": pass_size}


class LeafGames:
    """The games of a forest's leaves, path by path, for any number of points.

    Attributes
    ----------
    entries : ndarray of ENTRY
        Path after path, those with tests first; `slot` is empty.
    feature : int32
        The feature of each entry.
    z : float64
        Product of the cover ratios of each entry.
    terms : ndarray of TERM
        Entry after entry.
    leaves : ndarray of LEAF
    output : int32
        Of each leaf.
    """

    z: Doubles
    leaves: Array

    def __init__(self, forest: TreeEnsemble, codes: Codes) -> None:
        paths = _core.extract_paths(forest, codes)
        self.output: Int32s = paths["output"][paths["offsets"][:-1]]
        path_of_leaf = np.empty(forest.n_leaves, np.int64)
        path_of_leaf[paths["leaf"]] = np.arange(len(paths["leaf"]))
        tested = np.flatnonzero(paths["feature"] >= 0)
        path = np.repeat(np.arange(len(path_of_leaf)), np.diff(paths["offsets"]))[tested]
        n_features = max(forest.n_features, 1)
        tested_keys = path * n_features + paths["feature"][tested]
        of_term = path_of_leaf[np.repeat(np.arange(forest.n_leaves), np.diff(forest.linear_offsets))]
        term_keys = of_term * n_features + forest.linear_feature
        keys = np.concatenate([tested_keys, np.setdiff1d(term_keys, tested_keys)])
        is_tested = np.arange(len(keys)) < len(tested)
        order = np.lexsort([keys, ~is_tested, keys // n_features])
        self._sizes = np.bincount(keys // n_features, minlength=len(path_of_leaf))
        self.feature: Int32s = (keys[order] % n_features).astype(np.int32)
        self._take_terms(forest, keys[order], term_keys)
        self._take_tests(
            paths, np.where(is_tested, np.append(tested, np.zeros(len(keys) - len(tested), int)), -1)[order]
        )
        self._take_leaves(forest, paths, np.bincount(path, minlength=len(path_of_leaf)))

    def _take_terms(self, forest: TreeEnsemble, keys: Int64s, term_keys: Int64s) -> None:
        """Put the terms into the order of the entries."""
        rank = np.argsort(keys)
        entry = rank[np.searchsorted(keys, term_keys, sorter=rank)] if len(keys) else term_keys
        order = np.argsort(entry, kind="stable")
        self.terms: Array = np.zeros(len(order), TERM)
        for name in TERM.names or ():
            self.terms[name] = getattr(forest, f"linear_{name}")[order]
        self._term_starts = np.searchsorted(entry[order], np.arange(len(keys) + 1))

    def _take_tests(self, paths: dict[str, Array], element: Int64s) -> None:
        """Take the tests of each entry: those of an element of its path, or none (-1)."""
        is_tested, self.z = element >= 0, np.where(element >= 0, paths["z"][element], 1.0)
        self.entries: Array = np.zeros(len(element), ENTRY)
        for name, column in zip(("column", "lower", "width"), paths["test"].reshape(-1, 3).T, strict=True):
            self.entries[f"test.{name}"] = np.where(is_tested, column[element], 0)
        self.entries["first_extra"] = np.where(is_tested, paths["extra_begin"][element], 0)
        self.entries["end_extra"] = self.entries["first_extra"] + np.where(is_tested, paths["extra_count"][element], 0)
        self.extra: Int32s = paths["extra"] if len(paths["extra"]) else np.zeros(3, np.int32)

    def _take_leaves(self, forest: TreeEnsemble, paths: dict[str, Array], n_tested: Int64s) -> None:
        leaf, self.leaves = paths["leaf"], np.zeros(len(n_tested), LEAF)
        low, high = forest.leaf_range[leaf].T
        value = forest.leaf_value[leaf, 0]
        self.leaves["centred"] = paths["value"][paths["offsets"][:-1]]
        self.leaves["value"], self.leaves["low"], self.leaves["high"] = value, low, high
        self.leaves["at_means"] = np.clip(value, low, high)
        self.leaves["weight"] = np.repeat(forest.tree_weight, np.diff(forest.leaf_offsets))[leaf]
        self.leaves["missing"] = forest.leaf_missing[leaf] if len(forest.leaf_missing) else np.nan
        self.leaves["n_tested"], self.leaves["n_entries"] = n_tested, self._sizes

    def write(self, members: Int64s, forest: TreeEnsemble, points: int, dtype: DTypeLike, wanted: Any) -> LeafTape:
        """Lay out some leaves; `wanted` says for each feature whether its interactions are, None for values."""
        leaves, sizes = self.leaves[members], self._sizes[members]
        chosen = ragged((np.cumsum(self._sizes) - self._sizes)[members], sizes)
        entries, n_terms = self.entries[chosen], np.diff(self._term_starts)[chosen]
        entries["end_term"] = np.cumsum(n_terms)
        entries["first_term"] = entries["end_term"] - n_terms
        starts, term_starts = np.cumsum([0, *sizes]), np.append(0, entries["end_term"])
        leaves["first_entry"] = starts[:-1]
        leaves["first_term"], leaves["end_term"] = term_starts[starts[:-1]], term_starts[starts[1:]]
        first = second = np.arange(len(chosen))
        if wanted is not None:
            n_before = np.minimum(first - np.repeat(starts[:-1], sizes), np.repeat(leaves["n_tested"], sizes))
            leaves["first_pair"] = np.append(0, np.cumsum(n_before))[starts[:-1]]
            first = np.append(first, np.repeat(first, n_before))
            second = np.append(second, ragged(np.repeat(starts[:-1], sizes), n_before))
        parts = chunk_offsets(np.ones_like(members), self.output[members], chunk_splits(forest, wanted is not None))
        part = np.repeat(np.repeat(np.arange(len(parts) - 1), np.diff(parts)), sizes)[first]
        i, j = self.feature[chosen[first]].astype(np.int64), self.feature[chosen[second]].astype(np.int64)
        output = np.repeat(self.output[members], sizes)[first].astype(np.int64)
        keys = (output * forest.n_features + np.minimum(i, j)) * forest.n_features + np.maximum(i, j)
        is_wanted = (i == j) if wanted is None else (i == j) | wanted[i] | wanted[j]
        slots, slot_offsets, slot_keys = number_slots(part, keys, is_wanted, len(parts) - 1)
        entries["slot"] = slots[: len(chosen)]
        arrays = {
            "leaves": leaves,
            "entries": entries,
            "terms": self.terms[ragged(self._term_starts[chosen], n_terms)],
            "extra": self.extra,
            "pair_slots": np.append(slots[len(chosen) :], np.int32(-1)),
        }
        most = int(np.diff(slot_offsets).max(initial=0)), int(leaves["n_tested"].max(initial=0))
        return _in_passes(points, dtype, arrays, self.z[chosen], parts, slot_offsets, slot_keys, most)


def _in_passes(
    points: int,
    dtype: DTypeLike,
    arrays: dict[str, Array],
    z: Doubles,
    parts: Int64s,
    slot_offsets: Int64s,
    slot_keys: Int64s,
    most: tuple[int, int],
) -> LeafTape:
    """Repeat the parts, from one offset to the next, for each pass over the quadrature's points."""
    per_pass, t, w = quadrature(points)
    t, w = t.reshape(-1, per_pass), w.reshape(-1, per_pass)
    n_passes = len(t)
    repeated = np.zeros((n_passes, len(parts) - 1), PART)
    repeated["first_leaf"], repeated["end_leaf"] = parts[:-1], parts[1:]
    repeated["pass"] = np.arange(n_passes)[:, None]
    of_entries = np.broadcast_to(z[:, None], (n_passes, len(z), 1))
    inverse = 1 / (of_entries + (1 - of_entries) * t[:, None])
    all_arrays = {
        "parts": repeated,
        **arrays,
        "numbers": np.concatenate([of_entries, inverse], axis=2).astype(dtype),
        "points": np.stack([t, w, 1 / (1 - t)], axis=1).astype(dtype),
    }
    starts = np.arange(n_passes)[:, None] * slot_offsets[-1] + slot_offsets[:-1]
    all_offsets = np.append(starts.reshape(-1), n_passes * slot_offsets[-1])
    return LeafTape(per_pass, all_arrays, all_offsets, np.tile(slot_keys, n_passes), *most)


def write_leaf_tapes(
    forest: TreeEnsemble,
    codes: Codes,
    dtype: DTypeLike,
    *,
    pairs: bool = False,
    features: NDArray[np.intp] | None = None,
) -> list[LeafTape]:
    """Lay out the leaves of a forest with linear models; arguments as of `write_tapes`."""
    games = LeafGames(forest, codes)
    wanted = np.full(forest.n_features, features is None) if pairs else None
    if wanted is not None and features is not None:
        wanted[features] = True
    n_tested, n_entries = games.leaves["n_tested"], games.leaves["n_entries"]
    points = choose_points(np.where(n_entries > 0, n_tested + 1, 0), np.ones(len(n_tested), np.int64))
    order = np.argsort(games.output, kind="stable")
    return [
        games.write(order[points[order] == one], forest, int(one), dtype, wanted)
        for one in np.unique(points[points > 0])
    ]


def ragged(starts: Int64s, sizes: Int64s) -> Int64s:
    """Join the ranges from `starts`, of these sizes."""
    first = np.cumsum(sizes) - sizes
    return np.repeat(starts - first, sizes) + np.arange(int(sizes.sum()))


def number_slots(
    part: Int64s, keys: Int64s, is_wanted: NDArray[np.bool_], n_parts: int
) -> tuple[Int32s, Int64s, Int64s]:
    """Accumulator of each key within its part, or -1; where each part's begin; all keys of accumulators."""
    known, number = np.unique(keys, return_inverse=True)
    asked, slot = np.unique(part[is_wanted] * len(known) + number[is_wanted], return_inverse=True)
    offsets = np.searchsorted(asked, np.arange(n_parts + 1) * len(known))
    slots = np.full(len(keys), -1, np.int32)
    slots[is_wanted] = slot - offsets[part[is_wanted]]
    return slots, offsets, known[asked % max(len(known), 1)]
