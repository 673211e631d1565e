"""Bin packing against the textbook's definitions, item by item."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasswood.reference.paths import HEURISTICS, pack_paths


def place_one_by_one(sizes, heuristic):
    """Room left in each bin when items are placed as the heuristic is defined."""
    order = sorted(sizes, reverse=True) if heuristic in {"ffd", "bfd"} else list(sizes)
    room = []
    for size in order:
        fits = [b for b, left in enumerate(room) if left >= size]
        if heuristic == "none":
            fits = []
        elif heuristic == "nf":
            fits = [b for b in fits if b == len(room) - 1]
        elif heuristic == "bfd":
            fits.sort(key=lambda b: room[b])
        if not fits:
            room.append(32)
            fits = [len(room) - 1]
        room[fits[0]] -= size
    return room


@pytest.mark.parametrize("heuristic", HEURISTICS)
@given(sizes=st.lists(st.integers(1, 32), max_size=60))
def test_bins_are_those_of_the_definition(heuristic, sizes):
    packing = pack_paths(np.array(sizes, np.int32), heuristic)
    used = np.bincount(packing.bins, weights=sizes, minlength=packing.n_bins) if sizes else np.zeros(0)
    assert (used <= 32).all()
    expected = place_one_by_one(sizes, heuristic)
    assert packing.n_bins == len(expected)
    assert sorted(32 - used) == sorted(expected)
    if sizes:
        assert packing.utilisation == sum(sizes) / (32 * len(expected))


@pytest.mark.parametrize("sizes", [[0], [33], [5, -1]])
def test_sizes_outside_a_warp_are_refused(sizes):
    with pytest.raises(ValueError, match="between 1 and 32"):
        pack_paths(np.array(sizes, np.int32))


def test_unknown_heuristic():
    with pytest.raises(ValueError, match="heuristic is 'best', expected one of none, nf, ffd, bfd"):
        pack_paths(np.array([1], np.int32), "best")
