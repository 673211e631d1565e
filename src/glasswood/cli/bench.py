"""`glasswood bench`: what each algorithm takes on a model and its data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from glasswood.base.escapes import shown
from glasswood.base.typing import Choice
from glasswood.cli.commands import read_features
from glasswood.cli.values import load_model
from glasswood.evaluate.evaluator import Evaluator
from glasswood.evaluate.tuning import choose_fastest, measure
from glasswood.forest import Forest

if TYPE_CHECKING:
    import argparse


def bench(options: argparse.Namespace) -> None:
    """Run `glasswood bench`."""
    forest = load_model(options)
    rows = read_features(options.data, options, forest.ensemble, options.rows)
    measured = measure(Evaluator(forest.ensemble), rows, options.seconds, options.device, None)
    best = Forest(dataclasses.replace(forest.ensemble, choices=choose_fastest(measured)))
    print(f"{shown(options.model.name)}: {forest}")
    for line in table(measured, best.choices):
        print(line)
    if options.out is not None:
        best.save(options.out)
        print(f"{shown(str(options.out))}: the model with the choices marked *")


def table(measured: list[Choice], best: tuple[Choice, ...]) -> Iterator[str]:
    """Yield the lines of the table: batch sizes in their order, the fastest first, what would be chosen marked."""
    yield f"{'rows':>9}  {'device':<6}  {'algorithm':<12}{'time':>12}{'rows/s':>16}"
    for choice in sorted(measured, key=lambda choice: (choice.n_rows, choice.seconds)):
        name = f"{choice.algorithm} {choice.setting or ''}".strip()
        rate = choice.n_rows / choice.seconds
        mark = " *" if choice in best else ""
        yield f"{choice.n_rows:>9,}  {choice.device:<6}  {name:<12}{_time(choice.seconds):>12}{rate:>16,.0f}{mark}"


def _time(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:,.2f} {unit}"
    return f"{seconds * 1e6:,.1f} µs"
