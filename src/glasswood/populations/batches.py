"""Batches of rows: means of them, and standard errors by drawing batches again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from glasswood.base.seeds import generator_of
from glasswood.base.typing import Array, Doubles, Int64s

DRAWS = 1000
"""Draws of a bootstrap."""


def parts_of(n_rows: int, n_batches: int) -> list[slice]:
    """Contiguous batches of about equal size, at least one row each."""
    edges = np.linspace(0, n_rows, min(n_batches, n_rows) + 1).astype(int).tolist()
    return [slice(first, last) for first, last in pairwise(edges)]


def means_of(values: Callable[[slice], Array], weights: Doubles, parts: Sequence[slice]) -> tuple[Doubles, Doubles]:
    """Weighted means of what each batch's rows have, (batches, ...), and the batches' weights."""
    sums = []
    for part in parts:
        sums.append(np.tensordot(weights[part], np.asarray(values(part), np.float64), (0, 0)))
    sizes = np.array([weights[part].sum() for part in parts])
    shape = (-1,) + (1,) * (np.ndim(sums[0]))
    return np.array(sums) / np.maximum(sizes, np.finfo(float).tiny).reshape(shape), sizes


def pooled(means: Doubles, sizes: Doubles) -> Doubles:
    """Weighted mean over batches."""
    return np.asarray(np.average(means, axis=0, weights=sizes))


def drawn(n_batches: int, random_state: int, stream: int) -> Iterator[Int64s]:
    """Draw how often each batch occurs, one draw after the other."""
    rng = generator_of(random_state, stream)
    for _ in range(DRAWS):
        yield np.bincount(rng.integers(n_batches, size=n_batches), minlength=n_batches)


def standard_error(means: Doubles, sizes: Doubles, random_state: int, stream: int) -> Doubles:
    """Estimate the standard deviation of the pooled mean by drawing batches again; NaN for a single batch."""
    if len(means) < 2:
        return np.full(means.shape[1:], np.nan)
    counts = np.array(list(drawn(len(means), random_state, stream))) * sizes
    keep = counts.sum(axis=1) > 0
    found = np.tensordot(counts[keep], means, (1, 0)) / counts[keep].sum(axis=1).reshape(
        (-1,) + (1,) * (means.ndim - 1)
    )
    return np.asarray(found.std(axis=0, ddof=1))
