"""Which algorithm evaluates a batch of rows: the names, what each can run, and the choices that a forest carries."""

from __future__ import annotations

import math
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from silva.forest import Forest

ALGORITHMS = ("auto", "serial", "by_sample", "by_node", "windowed")
"""Values of `algorithm=`, with one meaning on every device."""

MOST_SPLITS = {"by_node": 255}
"""Most splits of a tree that an algorithm can run; those without an entry run every forest."""

DEVICES = ("cpu", "cuda")


class Choice(NamedTuple):
    """How to evaluate batches of about `n_rows` rows.

    Attributes
    ----------
    n_rows : int
        Size of the batches that it was measured on; 0 where nothing was measured.
    device : {"cpu", "cuda"}
    algorithm : {"serial", "by_sample", "by_node", "windowed"}
    setting : int
        The algorithm's one parameter: reductions per pass (by_node), levels of a window (windowed). 0 is its default.
    seconds : float
        Measured median of a batch; NaN where nothing was measured.
    """

    n_rows: int
    device: str
    algorithm: str
    setting: int = 0
    seconds: float = float("nan")


def check_algorithm(forest: Forest, algorithm: str) -> None:
    """Raise ValueError unless `algorithm` is known and can run every tree of the forest."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm is {algorithm!r}, expected one of {', '.join(ALGORITHMS)}")
    if not can_run(forest, algorithm):
        raise ValueError(
            f"algorithm={algorithm!r} evaluates all splits of a tree at once, at most {MOST_SPLITS[algorithm]}; the "
            f"largest tree has {forest.most_splits}; use algorithm='windowed', for trees of any size"
        )


def can_run(forest: Forest, algorithm: str) -> bool:
    """Whether the algorithm can run every tree of the forest."""
    return forest.most_splits <= MOST_SPLITS.get(algorithm, math.inf)


def tuned(choices: Iterable[Choice], n_rows: int, devices: Collection[str] = DEVICES) -> Choice | None:
    """Pick the fastest choice on one of the devices among those measured nearest to `n_rows`, None without any."""
    usable = [choice for choice in choices if choice.device in devices]
    if not usable:
        return None
    at = math.log(max(n_rows, 1))
    nearest = min(abs(math.log(choice.n_rows) - at) for choice in usable)
    return min(
        (choice for choice in usable if abs(math.log(choice.n_rows) - at) == nearest), key=lambda choice: choice.seconds
    )


def check_choices(choices: object) -> str | None:
    """Say what is wrong with the choices of a forest, None if nothing is."""
    if not isinstance(choices, tuple) or not all(isinstance(choice, Choice) for choice in choices):
        return f"choices is {choices!r}, expected a tuple of silva.choice.Choice"
    for choice in choices:
        if (
            not _is_count(choice.n_rows, 1)
            or choice.device not in DEVICES
            or choice.algorithm not in ALGORITHMS[1:]
            or not _is_count(choice.setting, 0)
            or not (isinstance(choice.seconds, float) and choice.seconds > 0 and math.isfinite(choice.seconds))
        ):
            return f"choices holds {choice!r}, which no tuning writes"
    return None


def _is_count(value: object, least: int) -> bool:
    is_whole = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    return is_whole and least <= int(value) < 2**63  # type: ignore[call-overload]
