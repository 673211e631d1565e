"""The choice of an algorithm for a batch of rows: what each can run, and the fastest of those measured."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.typing import ALGORITHMS, DEVICES, Choice
from glasswood.model.ensemble import TreeEnsemble

MOST_SPLITS = {"by_node": 255}
"""Most splits of a tree that an algorithm can run; those without an entry run every forest."""


def most_splits(forest: TreeEnsemble) -> int:
    """Count the splits of the largest tree."""
    return (int(np.diff(forest.tree_offsets).max(initial=1)) - 1) // 2


def runnable(forest: TreeEnsemble) -> tuple[str, ...]:
    """List the algorithms that can run every tree of the forest."""
    largest = most_splits(forest)
    return tuple(name for name in ALGORITHMS[1:] if largest <= MOST_SPLITS.get(name, math.inf))


def refuse_algorithm(forest: TreeEnsemble, algorithm: str) -> None:
    """Raise ValueError: `algorithm` is unknown or cannot run every tree of the forest."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm is {quoted(algorithm)}, expected one of {', '.join(ALGORITHMS)}")
    raise ValueError(
        f"algorithm={quoted(algorithm)} supports trees of at most {MOST_SPLITS[algorithm]} splits, the largest "
        f"tree has {most_splits(forest)}; use algorithm='windowed', for trees of any size"
    )


def tuned(choices: Sequence[Choice], n_rows: int, devices: Collection[str] = DEVICES) -> Choice | None:
    """Pick the fastest choice on one of the devices among those measured nearest to `n_rows`, None without any."""
    if not choices:
        return None
    usable = [choice for choice in choices if choice.device in devices]
    if not usable:
        return None
    at = math.log(max(n_rows, 1))
    nearest = min(abs(math.log(choice.n_rows) - at) for choice in usable)
    return min(
        (choice for choice in usable if abs(math.log(choice.n_rows) - at) == nearest), key=lambda choice: choice.seconds
    )
