"""What exact values of responses are going to cost, said before they are computed."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

from silva import _core

if TYPE_CHECKING:
    from collections.abc import Callable

WARNED_SECONDS = 20.0
"""Estimated time of calls that say before they start what they cost."""

FEW_ROWS = 100
"""Background rows that explanations commonly have."""

PROBED, LONG_PAIRS = 12, 1000
"""Rows, and background rows, whose pairs are explained first where a call has more pairs than the second number and
could take long: a pair takes at most"""

PAIR_SECONDS, COALITION_SECONDS = 1e-5, 5e-8
"""seconds, and so many for each coalition and output."""


class CostWarning(UserWarning):
    """A call is going to take long."""


def could_be_long(n_pairs: int, n_players: int, n_outputs: int) -> bool:
    """Whether so many pairs of rows, which differ on up to so many players, might take `WARNED_SECONDS`."""
    of_pair = PAIR_SECONDS + (n_outputs * COALITION_SECONDS) * 2**n_players
    return n_pairs > LONG_PAIRS and n_pairs * of_pair > WARNED_SECONDS


def seconds_of(probe: Callable[[], object], n_threads: int) -> float:
    """Time of processors, since other work of the machine does not count; threads beyond the cores are no help."""
    start = time.process_time()
    probe()
    return (time.process_time() - start) / min(n_threads, int(_core.max_threads()))


def warn_of_cost(seconds: float, n_rows: int, n_background: int, may_rescale: bool) -> None:
    """Say what a call costs and what would cost less, if it is long."""
    if seconds < WARNED_SECONDS:
        return
    m, few = n_background, FEW_ROWS
    fewer = "" if m <= few else f" {few} background rows take about {seconds * few / m:.0f} s;"
    rescaled = "; rule='rescale' takes about what the margin's values take" if may_rescale else ""
    warnings.warn(
        f"exact values of {n_rows:,} rows against {m:,} background rows are those of {n_rows * m:,} pairs, about "
        f"{seconds:.0f} s here;{fewer} with groups, each feature less on which rows differ halves the time{rescaled}",
        CostWarning,
        stacklevel=3,
    )
