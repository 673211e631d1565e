"""The progress bar of a search."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from glasswood.base.progress import new_bar, shows_bars
from glasswood.base.wording import leaves_text

if TYPE_CHECKING:
    from glasswood.grow.search.engine import Progress


PATIENCE_SECONDS, BAR_SECONDS = 10, 1
"""A search that takes longer is not left in silence; on a terminal and in a notebook a bar comes sooner."""

FIRST_GENERATIONS = 5
"""From which on the estimate of what is left counts."""

LINE_SECONDS = 30
"""Between two lines where there is no bar."""

BAR = "{desc} {percentage:3.0f}%|{bar:20}| {elapsed}{postfix}"


@contextlib.contextmanager
def watching(
    callbacks: Sequence[Callable[[Progress], Any]], verbose: bool | str
) -> Iterator[tuple[Callable[[Progress], Any], ...]]:
    """Yield the callbacks, with a bar on standard error behind them: from the start, or only for long searches."""
    if verbose is False:
        yield tuple(callbacks)
        return
    bar = _Bar(0 if verbose is True else PATIENCE_SECONDS)
    try:
        yield (*callbacks, bar)
    finally:
        bar.close()


def describe(progress: Progress) -> str:
    """One line about the best tree so far, and when the search may end."""
    least, most = (f"{seconds:.0f} s" for seconds in (progress.least_seconds_left, progress.most_seconds_left))
    ends = least if least == most or math.isinf(progress.most_seconds_left) else f"{least} to {most}"
    return (
        f"{leaves_text(progress.n_leaves)}, rmse {progress.rmse:.4g}, fitness {progress.fitness:.6g}, "
        f"generation {progress.generation}, ends in {ends}"
    )


class _Bar:
    """Show how much of a search's time has passed: by tqdm on a terminal if it is installed, otherwise in lines."""

    def __init__(self, patience: float) -> None:
        self._patience, self._bar, self._said = patience, None, -math.inf

    def __call__(self, progress: Progress) -> None:
        if not self._said > -math.inf and not self._is_long(progress):
            return
        if self._bar is None and self._said == -math.inf:
            self._bar = new_bar(total=100, desc="grow", bar_format=BAR)
        if self._bar is not None:
            share = progress.seconds / max(progress.seconds + progress.least_seconds_left, 1e-9)
            self._bar.set_postfix_str(describe(progress), refresh=False)
            self._bar.update(round(100 * share) - self._bar.n)
        elif progress.seconds - self._said >= LINE_SECONDS or not self._patience:
            if sys.stderr is None or sys.stderr.closed:
                return
            print(f"grow {progress.seconds:.0f} s: {describe(progress)}", file=sys.stderr)
        else:
            return
        self._said = progress.seconds

    def _is_long(self, progress: Progress) -> bool:
        known = progress.generation >= FIRST_GENERATIONS
        left = progress.least_seconds_left if known else 0.0
        patience = min(self._patience, BAR_SECONDS) if shows_bars() else self._patience
        return progress.seconds + left >= patience

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
