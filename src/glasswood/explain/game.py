"""The game that an explainer explains, and its settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.config import device_of
from glasswood.base.device import parse_device
from glasswood.base.parallel import n_threads
from glasswood.base.typing import Array, Int64s
from glasswood.explain.checks import check_choices, check_table_bytes
from glasswood.explain.players import make_players
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.explain.background import Background
    from glasswood.explain.players import Players


@dataclass(frozen=True, eq=False)
class Game:
    """The margin of a forest as what coalitions of players are worth.

    Attributes
    ----------
    forest : TreeEnsemble
    players : Players
    background : Background or None
        Rows whose values stand for the players that a coalition does not know; None: the sides of a split are weighted
        by the training rows that took them.
    """

    forest: TreeEnsemble
    players: Players
    background: Background | None = None

    @property
    def has_background(self) -> bool:
        """Whether background rows stand for what is not known."""
        return self.background is not None

    @property
    def weighted_rows(self) -> tuple[Array, Int64s, int]:
        """Rows of the background, their weights and what these are shares of, as kernels take them."""
        assert self.background is not None
        return self.background.rows, self.background.weight, self.background.total


def game_of_features(forest: TreeEnsemble) -> Game:
    """Game of all features, without a background."""
    return Game(forest, make_players(None, forest))


@dataclass(frozen=True)
class Settings:
    """What an explainer was asked for.

    Attributes
    ----------
    algorithm, output, device, dtype, n_jobs, table_bytes, rule
        As for `Explainer`.
    feature_names, output_names : list of str, or None
        What explanations call the players and the outputs, where that is not the model's.
    """

    algorithm: str = "auto"
    output: Any = "margin"
    device: str = "auto"
    dtype: str = "float32"
    n_jobs: int | None = None
    table_bytes: int | None = None
    rule: str = "exact"
    feature_names: list[str] | None = None
    output_names: list[str] | None = None

    @property
    def is_for_gpus(self) -> bool:
        """Whether `device` names GPUs."""
        return parse_device(self.device)[0] in {"cuda", "all"}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `Explainer` that do not depend on the features."""
        names = ("algorithm", "output", "device", "dtype", "n_jobs", "table_bytes", "rule")
        return {name: getattr(self, name) for name in names}

    def of_part(self, n_parts: int, default: int) -> Settings:
        """Return settings of one of several float64 sums: an equal share of the budget, `default` if there is none."""
        budget = default if self.table_bytes is None else self.table_bytes
        return replace(self, output="margin", dtype="float64", table_bytes=budget // n_parts)

    @property
    def takes_tables(self) -> bool:
        """Whether the algorithm and the budget allow tables."""
        return self.algorithm in {"auto", "tables"} and self.table_bytes != 0


def checked_settings(
    algorithm: str,
    output: Any,
    device: str,
    dtype: DTypeLike,
    n_jobs: int | None,
    table_bytes: int | None,
    rule: str,
) -> Settings:
    """Check what an explainer is asked for.

    Raises
    ------
    ValueError, TypeError
        If an argument has no such choice.
    """
    check_choices(algorithm, output, dtype, rule)
    parse_device(device)
    device = device_of(device)
    n_threads(n_jobs)
    check_table_bytes(table_bytes, algorithm)
    n_bytes = None if table_bytes is None else int(table_bytes)
    return Settings(algorithm, output, device, str(np.dtype(dtype)), n_jobs, n_bytes, rule)
