"""Cuts and rows of a list that lies in parts, beside those of the merged list."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native import load_library

GRID = 32


@pytest.fixture(scope="module")
def look():
    library = load_library(Path(__file__).with_name("rank_counts_host.cpp"))

    def call(lists, low, high, cells, first, last, stride):
        ranks, sizes = np.concatenate(lists).astype(np.int32), np.array([len(part) for part in lists], np.int64)
        cuts, cut_ranks, more = np.zeros((3, GRID), np.int32)
        places, n_asked = np.zeros((len(ranks) + 1, 2), np.int32), np.zeros(1, np.int32)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (cuts, cut_ranks, more, places, n_asked)]
        n = library.look(
            ctypes.c_void_p(ranks.ctypes.data), ctypes.c_void_p(sizes.ctypes.data), len(lists), low, high, cells,
            ctypes.c_int64(first), ctypes.c_int64(last), ctypes.c_int64(stride), *pointers,
        )  # fmt: skip
        return cuts[:n], cut_ranks[:n], more[:n], places[: -(-len(ranks) // stride)], int(n_asked[0])

    return call


def expected_cuts(ranks, first, last):
    """The grid's targets, each moved to the next change of rank behind the cut before."""
    changes = np.flatnonzero(np.diff(ranks)) + 1
    changes = changes[(changes > first) & (changes < last)]
    n_targets = min(last - first - 1, GRID)
    cuts = []
    for j in range(n_targets):
        target = first + (last - first) * (j + 1) // (n_targets + 1)
        behind = changes[changes >= max([target, *(cut + 1 for cut in cuts[-1:])])]
        if len(behind) == 0:
            break
        cuts.append(int(behind[0]))
    edges = [first, *cuts, last]
    more = [
        any(low < change < high and change != cut for change in changes)
        for low, cut, high in zip(edges, cuts, edges[2:], strict=False)
    ]
    return cuts, more


@st.composite
def divided_lists(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    high = draw(st.sampled_from([1, 3, 40, 1000, 100_000]))
    ranks = rng.integers(0, high, draw(st.integers(1, 400)))
    ranks[rng.random(len(ranks)) < draw(st.sampled_from([0, 0.5, 0.9]))] = draw(st.integers(0, high - 1))
    part = rng.integers(0, draw(st.integers(1, 4)), len(ranks))
    return [np.sort(ranks[part == p]) for p in range(part.max() + 1)], high


@settings(max_examples=300, deadline=None)
@given(divided_lists(), st.sampled_from([1, 2, 7, 100, 32768]), st.data())
def test_cuts_are_those_of_the_merged_list(look, divided, cells, data):
    lists, high = divided
    merged = np.sort(np.concatenate(lists))
    bounds = [0, *(np.flatnonzero(np.diff(merged)) + 1), len(merged)]
    first, last = sorted(data.draw(st.lists(st.sampled_from(bounds), min_size=2, max_size=2, unique=True)))
    stride = data.draw(st.integers(1, 50))
    cuts, ranks, more, places, n_asked = look(lists, 0, high, cells, first, last, stride)
    expected, expected_more = expected_cuts(merged, first, last)
    assert list(cuts) == expected
    assert list(ranks) == list(merged[expected])
    assert list(more) == expected_more
    if cells >= high:
        assert n_asked == 0
    order = sorted((rank, p, i) for p, part in enumerate(lists) for i, rank in enumerate(part))
    assert [tuple(place) for place in places] == [(p, i) for _, p, i in order[::stride]]


def test_a_sweep_over_distinct_values_takes_one_round(look):
    rng = np.random.default_rng(0)
    ranks = rng.permutation(100_000)
    lists = [np.sort(part) for part in np.array_split(ranks, 2)]
    *_, n_asked = look(lists, 0, 100_000, 1024, 0, 100_000, 100_000)
    assert n_asked == 1
