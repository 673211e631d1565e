"""The progress bar of a search."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from silva.grow.search import Progress


@contextlib.contextmanager
def watching(
    callbacks: Sequence[Callable[[Progress], Any]], generations: int, verbose: bool
) -> Iterator[tuple[Callable[[Progress], Any], ...]]:
    """Yield the callbacks, with a bar on standard error behind them if asked for."""
    if not verbose:
        yield tuple(callbacks)
        return
    bar = _Bar(generations)
    try:
        yield (*callbacks, bar)
    finally:
        bar.close()


def describe(progress: Progress) -> str:
    """One line about the best tree so far."""
    return f"fitness {progress.fitness:.6g}, {progress.n_leaves} leaves, rmse {progress.rmse:.4g}"


class _Bar:
    """Generation, best fitness, leaves and error; by tqdm where it is installed, else as plain lines."""

    def __init__(self, generations: int) -> None:
        try:
            from tqdm import tqdm
        except ImportError:
            self._bar = None
        else:
            self._bar = tqdm(total=generations, desc="grow", unit="gen")

    def __call__(self, progress: Progress) -> None:
        if self._bar is None:
            print(f"generation {progress.generation}: {describe(progress)}", file=sys.stderr)
            return
        self._bar.set_postfix_str(describe(progress), refresh=False)
        self._bar.update(progress.generation - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
