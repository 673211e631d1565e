"""Partial dependence of all features and pairs in one pass over the leaves, where predictions are sums over trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from glasswood import _core
from glasswood.base.parallel import n_threads
from glasswood.base.typing import Array, Doubles

if TYPE_CHECKING:
    from glasswood.inspection.rows import ChangingRows

Pair = tuple[int, int]

MOST_NUMBERS = 1 << 28
"""Numbers of one result: 2 GB."""


class AdditiveParts(NamedTuple):
    """The mean prediction, and what features and pairs add to it.

    The partial dependence on a feature is the mean plus the feature's main part; on a pair it is the mean plus two main
    parts plus the pair's joint part.

    Attributes
    ----------
    mean : (k,)
    main : by feature, (k, grid points)
    joint : by pair, (k, grid points of the first, of the second)
    """

    mean: Doubles
    main: dict[int, Doubles]
    joint: dict[Pair, Doubles]


def additive_parts(
    rows: ChangingRows,
    grids: dict[int, Array],
    pairs: Sequence[Pair],
    weights: Doubles | None,
    points: Array | None,
) -> AdditiveParts:
    """Find the parts of the margin for the points of grids, or at `points`, rows of the forest's own values.

    Features of `grids` rise, and so do those of a pair.

    Raises
    ------
    ValueError
        If the result had more than `MOST_NUMBERS` numbers.
    """
    forest = rows.forest
    n_features, k = forest.n_features, forest.n_outputs
    features, sizes = list(grids), np.array([len(grid) for grid in grids.values()], np.int32)
    place = np.full(n_features, -1, np.int32)
    place[features] = np.arange(len(features))
    pair_place = np.full((len(features), len(features)), -1, np.int32)
    at = place[np.array(pairs, np.int64).reshape(-1, 2)]
    pair_place[at[:, 0], at[:, 1]] = np.arange(len(pairs))
    grid = np.full((sizes.max(initial=1), n_features), np.nan, rows.values.dtype)
    for feature, values in grids.items():
        grid[: len(values), feature] = values
    whole = np.zeros((0, n_features), rows.values.dtype) if points is None else points
    n_main = k * sizes.astype(np.int64)
    n_joint = k * sizes[at[:, 0]].astype(np.int64) * sizes[at[:, 1]]
    shapes = n_main.sum(), n_joint.sum(), len(features) * k * len(whole), len(pairs) * k * len(whole)
    if sum(map(int, shapes)) > MOST_NUMBERS:
        raise ValueError(
            f"{len(pairs)} pairs on these grids are {sum(map(int, shapes)):,} numbers, at most {MOST_NUMBERS:,} are "
            "supported; pass fewer features or pairs, or a smaller grid_resolution"
        )
    total = np.zeros(k)
    main, joint, row_main, row_joint = (np.zeros(int(size)) for size in shapes)
    first_main, first_joint = (
        np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(np.int64) for sizes in (n_main, n_joint)
    )
    _core.effect_sums(
        forest, rows.values, weights, grid, whole, place, pair_place.ravel(), sizes, first_main, first_joint,
        total, main, joint, row_main, row_joint, n_threads(None),
    )  # fmt: skip
    n = float(len(rows)) if weights is None else weights.sum()
    if points is None:
        each = np.split(main / n, first_main[1:])
        both = np.split(joint / n, first_joint[1:]) if pairs else []
    else:
        each, both = [*row_main.reshape(len(features), -1) / n], [*row_joint.reshape(len(pairs), len(points) * k) / n]
    return AdditiveParts(
        forest.base_score + total / n,
        {j: part.reshape(k, -1) for j, part in zip(features, each, strict=True)},
        {pair: _shaped(part, k, pair, grids, points) for pair, part in zip(pairs, both, strict=True)},
    )


def _shaped(part: Doubles, k: int, pair: Pair, grids: dict[int, Array], points: Array | None) -> Doubles:
    return part.reshape(k, -1) if points is not None else part.reshape(k, *(len(grids[feature]) for feature in pair))
