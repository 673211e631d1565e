"""Times of calls, taken in turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

N_RUNS = 5
"""Warm runs of each call; the table shows their median."""

LONG = 5.0
"""Seconds beyond which a call is timed once only."""

SHORT = 0.02
"""Seconds that a run lasts at least: a shorter call is repeated within the run."""

PAUSE = 0.1
"""Seconds before a run: OpenMP's threads spin for milliseconds after a call, on cores that the next library needs."""


Clock = Callable[[], float]


def interleaved(calls: Mapping[str, Callable[[], Any]], clock: Clock = time.perf_counter) -> dict[str, list[float]]:
    """Seconds a call, run by run, of calls that take turns; the first turn warms up and tells how long each lasts.

    On a machine that does other work, the clock is `time.process_time`.
    """
    first = {name: _seconds(call, 1, clock) for name, call in calls.items()}
    repeats = {name: math.ceil(SHORT / first[name]) for name in first if first[name] <= LONG}
    runs = [{name: _seconds(calls[name], n, clock) for name, n in repeats.items()} for _ in range(N_RUNS)]
    return {name: [run[name] for run in runs] if name in repeats else [first[name]] for name in calls}


def _seconds(call: Callable[[], Any], repeats: int, clock: Clock) -> float:
    time.sleep(PAUSE)
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats
