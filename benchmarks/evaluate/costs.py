"""Fit the constants of glasswood.evaluate.costs, and say what `auto` loses with them on other forests.

python -m benchmarks.evaluate.costs measures the algorithms on forests of every kind (benchmarks.evaluate.pool), each
with batches of eight sizes, on one thread; prints constants to copy; and judges both them and those in the package on
other forests. It takes a quarter of an hour.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.evaluate.pool import Shape, draw
from glasswood.base.typing import Choice
from glasswood.evaluate import costs
from glasswood.evaluate.choice import runnable
from glasswood.evaluate.cpu import CpuEvaluator, quartile
from glasswood.inputs import as_rows

if TYPE_CHECKING:
    from glasswood import Forest

SIZES = (1, 2, 6, 20, 100, 700, 4_000, 20_000)
N_RUNS, SHORT, HOPELESS = 9, 0.002, 3.0
"""Runs of a call, of which the lower quartile counts, their least seconds, and times of the fastest beyond which an
algorithm is not called again."""

SOFTNESS, AGREEMENT, STIFFNESS = 0.15, 0.03, 1e-3
"""Logarithmic difference of estimates that is a factor of e in their shares; losses of an estimate that is e times the
time, and of a constant that is e times the one before."""

FIRST_ROWS = 300
"""Rows by which a call that is hopeless shows, in three calls at least."""

UNSEEN = 1000
"""First seed of the forests that the constants are judged by."""


@dataclass(frozen=True)
class Measured:
    """A forest and nanoseconds of a row by batch size and algorithm; those left out take HOPELESS times the best."""

    shape: Shape
    forest: Forest
    times: dict[tuple[int, str], float]


def measure(seed: int) -> Measured:
    """Measure every algorithm on a forest: processor time, in turns."""
    drawn = draw(seed, max(SIZES))
    ensemble = drawn.forest.ensemble
    evaluator, rows = CpuEvaluator(ensemble), as_rows(drawn.rows, ensemble)
    times = {}
    for size in SIZES:
        batches = [rows[first : first + size] for first in range(0, len(rows) - size + 1, size)]
        calls = {name: _call(evaluator, batches, name) for name in ("serial", *runnable(ensemble))}
        times |= {(size, name): seconds / size * 1e9 for name, seconds in _in_turns(calls, size).items()}
    return Measured(drawn.shape, drawn.forest, times)


def _call(evaluator: CpuEvaluator, batches: list[NDArray[np.float32]], name: str) -> Callable[[], object]:
    """Predict the next batch: processors learn the way of rows that come again and again."""
    following = itertools.cycle(batches)
    return lambda: evaluator.margins(next(following), Choice(0, "cpu", name), 1)


def _in_turns(calls: dict[str, Callable[[], object]], n_rows: int) -> dict[str, float]:
    """Seconds of a call, without those that are hopeless."""
    n_first = max(3, FIRST_ROWS // n_rows)
    first = {name: quartile([_seconds(call, 1) for _ in range(n_first)]) for name, call in calls.items()}
    best = min(first.values())
    live = {name: int(np.ceil(SHORT / first[name])) for name in calls if first[name] < HOPELESS * best}
    runs = [{name: _seconds(calls[name], n) for name, n in live.items()} for _ in range(N_RUNS)]
    return {name: quartile([run[name] for run in runs]) for name in live}


def _seconds(call: Callable[[], object], n: int) -> float:
    start = time.process_time()
    for _ in range(n):
        call()
    return max(time.process_time() - start, 1e-9) / n


@dataclass(frozen=True)
class Batch:
    """What `auto` decides between: terms (algorithms, terms), nanoseconds of a row, and times of the fastest's."""

    counts: NDArray[np.float64]
    times: NDArray[np.float64]
    ratios: NDArray[np.float64]


def fit(measured: Sequence[Measured]) -> dict[str, float]:
    """Find the constants with which `auto` loses least.

    Estimates that differ by little stand for a choice of either, so that the loss is smooth: of shares that fall by e
    with every SOFTNESS of difference. Constants stay near nanoseconds, and those that do not matter where they are.
    """
    names = list(costs.CONSTANTS)
    batches = [batch for one in measured for batch in _batches(one, names)]
    log_times = np.log(np.concatenate([batch.times for batch in batches]))
    start = np.log([costs.CONSTANTS[name] for name in names])

    def loss(logs: NDArray[np.float64]) -> float:
        constants = np.exp(logs)
        estimates = [np.log(batch.counts @ constants) for batch in batches]
        expected = [_expected(*pair) for pair in zip(estimates, (batch.ratios for batch in batches), strict=True)]
        differences = np.concatenate(estimates) - log_times
        return float(np.mean(expected) + AGREEMENT * np.mean(differences**2) + STIFFNESS * np.sum((logs - start) ** 2))

    found = minimize(loss, start, method="L-BFGS-B", bounds=[(at - 2, at + 2) for at in start])
    return {name: float(f"{value:.2g}") for name, value in zip(names, np.exp(found.x), strict=True)}


def _expected(estimates: NDArray[np.float64], ratios: NDArray[np.float64]) -> float:
    """Mean of the ratios, the more of each the less its logarithmic estimate is."""
    shares = np.exp((estimates.min() - estimates) / SOFTNESS)
    return float(shares @ ratios / shares.sum())


def _batches(one: Measured, names: list[str]) -> list[Batch]:
    """Terms and times of what `auto` decides between, for batches of the typical sizes."""
    ensemble, found = one.forest.ensemble, []
    evaluator = CpuEvaluator(ensemble)
    for size in sorted({size for size, _ in one.times}):
        times = {name: seconds for (n, name), seconds in one.times.items() if n == size}
        best, typical = min(times.values()), costs.TYPICAL_ROWS[costs.batch_kind(size)]
        counts, taken = [], []
        for choice in evaluator.usual():
            plan = None if choice.algorithm == "by_sample" else evaluator.node_plan(choice)
            terms = costs.terms(ensemble, choice, typical, plan)
            counts.append([terms.get(name, 0.0) for name in names])
            taken.append(times.get(choice.algorithm, HOPELESS * best))
        found.append(Batch(np.array(counts), np.array(taken), np.array(taken) / best))
    return found


def losses(one: Measured) -> list[tuple[int, str, float]]:
    """Size, choice and loss of each batch: times that what `auto` takes needs of the fastest one's."""
    evaluator, found = CpuEvaluator(one.forest.ensemble), []
    for size in sorted({size for size, _ in one.times}):
        times = {name: seconds for (n, name), seconds in one.times.items() if n == size}
        chosen = evaluator.default_choice(size).algorithm
        best = min(times.values())
        found.append((size, chosen, times.get(chosen, HOPELESS * best) / best))
    return found


def judge(title: str, measured: Iterable[Measured]) -> None:
    """Print how many batches are within a tenth of the fastest, and losses, by family and size."""
    lost = [(one.shape, *each) for one in measured for each in losses(one)]
    groups = [("all", lost)]
    groups += [(family, [x for x in lost if x[0].family == family]) for family in sorted({x[0].family for x in lost})]
    groups += [(f"{size} rows", [x for x in lost if x[1] == size]) for size in sorted({x[1] for x in lost})]
    print(f"{title}\n{'':24}batches  within a tenth     mean   median     95 %    worst")
    for name, group in groups:
        loss = np.array([x[3] for x in group])
        found = [np.mean(loss), np.median(loss), np.quantile(loss, 0.95), loss.max()]
        print(f"{name:24}{len(loss):7}{np.mean(loss <= 1.1):16.0%}{''.join(f'{one - 1:9.1%}' for one in found)}")
    for shape, size, chosen, loss in sorted(lost, key=lambda x: -x[3])[:5]:
        print(f"  {loss:.1f} times the fastest: {chosen} for {size} rows of {shape}")


def main() -> None:
    """Measure, fit, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fitted", type=int, default=72, help="forests to fit to")
    parser.add_argument("--unseen", type=int, default=42, help="other forests, to judge by")
    arguments = parser.parse_args()
    fitted = [measure(seed) for seed in range(arguments.fitted)]
    unseen = [measure(UNSEEN + seed) for seed in range(arguments.unseen)]
    judge("constants of the package, unseen forests", unseen)
    if not fitted:
        return
    constants = fit(fitted)
    with mock.patch.dict(costs.CONSTANTS, constants):
        judge("fitted constants, forests fitted to", fitted)
        judge("fitted constants, unseen forests", unseen)
    print("\n".join(f'    "{name}": {value:g},' for name, value in constants.items()))


if __name__ == "__main__":
    main()
