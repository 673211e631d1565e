"""What a target's quantity means, and whether it was reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.cases import Case, Target


@dataclass(frozen=True)
class Quantity:
    """A number from the case and from glasswood's and the rival's medians; its text; whether the bound is the least."""

    of: Callable[[Case, float, float], float]
    text: str
    is_least: bool = False


QUANTITIES = {
    "speed-up": Quantity(lambda _case, own, rival: rival / own, "{:,.1f}×", is_least=True),
    "rows/s": Quantity(lambda case, own, _rival: case.n_rows / own, "{:,.0f} rows/s", is_least=True),
    "s": Quantity(lambda _case, own, _rival: own, "{:,.3f} s"),
    "µs": Quantity(lambda _case, own, _rival: 1e6 * own, "{:,.1f} µs"),
    "MiB": Quantity(lambda _case, own, _rival: own, "{:,.0f} MiB"),
}


def reached(target: Target, case: Case, medians: Mapping[str, float]) -> float:
    """Value of the target's quantity; NaN without the rival's time."""
    own, rival = medians[case.libraries[0]], medians.get(target.rival, float("nan"))
    return QUANTITIES[target.quantity].of(case, own, rival)


def is_met(target: Target, value: float) -> bool:
    return value >= target.bound if QUANTITIES[target.quantity].is_least else value <= target.bound


def bound_text(target: Target) -> str:
    quantity = QUANTITIES[target.quantity]
    return f"{'≥' if quantity.is_least else '≤'} {quantity.text.format(target.bound)}"


def value_text(target: Target, value: float) -> str:
    return f"{QUANTITIES[target.quantity].text.format(value)} {'met' if is_met(target, value) else '**missed**'}"
