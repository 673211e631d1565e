"""Allowed values of the estimators' parameters: one table for all, checked before the search."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np

from glasswood.base.device import parse_device
from glasswood.base.escapes import quoted, shown
from glasswood.base.typing import Clip, Fitness, GrowAlgorithm, LeafModel, Loss, Noise
from glasswood.grow.data.rows import STORAGES

ABOVE_0, BELOW_1 = np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0)
ABOVE_1, BELOW_2 = np.nextafter(1.0, 2.0), np.nextafter(2.0, 1.0)

LARGEST = np.finfo(float).max


def _check_number(
    name: str, value: Any, low: float, high: float, limits: str, words: tuple[str | None, ...], kind: type
) -> None:
    """Raise TypeError or ValueError unless this is a number from `low` to `high`, or one of the words."""
    if (value is None or isinstance(value, str)) and value in words:
        return
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if not is_number:
        expected = "an integer" if kind is Integral else "a number"
        raise TypeError(f"{name} is {quoted(value)}, expected {_either(expected, words)}")
    if not low <= value <= high:
        raise ValueError(f"{name} is {shown(value)}, expected {_either(limits, words)}")


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {quoted(value)}, expected one of {', '.join(choices)}")


def _check_switch(name: str, value: Any) -> None:
    if value not in (True, False, "auto"):
        raise ValueError(f"{name} is {quoted(value)}, expected True, False or 'auto'")


def _check_device(_: str, value: Any) -> None:
    parse_device(value)


def _either(first: str, words: tuple[str | None, ...]) -> str:
    """Put words that are allowed instead behind an expectation."""
    *most, last = [first, *(repr(word) for word in words)]
    return f"{', '.join(most)} or {last}" if most else last


def _real(low: float, high: float = np.inf, limits: str = "", words: tuple[str | None, ...] = ()) -> Any:
    limits = limits or (f"at least {low}" if high == np.inf else f"{low} to {high}")
    return partial(_check_number, low=low, high=high, limits=limits, words=words, kind=Real)


def _whole(low: int, high: float = np.inf, limits: str = "", words: tuple[str | None, ...] = ()) -> Any:
    return partial(_real(low, high, limits, words), kind=Integral)


def one_of(*choices: str) -> Any:
    """Make the check of a parameter that is one of some words."""
    return partial(_check_choice, choices=choices)


_SHARE = _real(ABOVE_0, 1, "a number above 0 and up to 1")

PARAMETERS: dict[str, Callable[[str, Any], None]] = {
    "generations": _whole(0),
    "population_size": _whole(2),
    "n_iter_no_change": _whole(1, words=("auto",)),
    "penalty": _real(0),
    "max_leaves": _whole(1),
    "max_depth": _whole(0, 18),
    "min_samples_leaf": _whole(1),
    "max_terms_per_leaf": _whole(0, limits="at least 0 terms", words=(None,)),
    "smoothing": _real(0, LARGEST, "a finite number of at least 0", ("auto",)),
    "alternatives": _whole(0),
    "honest": _real(0, 1),
    "quantile": _real(ABOVE_0, BELOW_1, "a number above 0 and below 1"),
    "tweedie_power": _real(ABOVE_1, BELOW_2, "a number above 1 and below 2"),
    "rounds": _whole(1),
    "n_estimators": _whole(1),
    "max_trees": _whole(1),
    "max_bins": _whole(2, 1 << 15),
    "curves": _check_switch,
    "pairs": _whole(0, words=("auto",)),
    "max_samples": _SHARE,
    "learning_rate": _SHARE,
    "time_limit": _real(ABOVE_0, limits="seconds above 0", words=(None,)),
    "clip": one_of(*get_args(Clip)),
    "fitness": one_of(*get_args(Fitness)),
    "leaf_model": one_of(*get_args(LeafModel)),
    "loss": one_of(*get_args(Loss)),
    "noise": one_of(*get_args(Noise)),
    "algorithm": one_of(*get_args(GrowAlgorithm)),
    "storage": one_of(*STORAGES),
    "log_terms": _check_switch,
    "verbose": _check_switch,
    "device": _check_device,
    "chunks": _whole(1, limits="at least 1 row", words=("auto", None)),
}
"""Check of each parameter that any estimator has by this name."""


def check_parameters(estimator: Any, **own: Callable[[str, Any], None]) -> None:
    """Raise TypeError, ValueError or NotImplementedError for the first parameter that is out of range.

    Parameters
    ----------
    estimator : estimator
    **own
        Checks that differ from those of the table.
    """
    values = estimator.get_params(deep=False)
    for name, check in {**PARAMETERS, **own}.items():
        if name in values:
            check(name, values[name])
    if values.get("algorithm") == "qr" and parse_device(values["device"])[0] == "all":
        raise NotImplementedError("algorithm='qr' uses one GPU, as the paper does; pass device='cuda' or 'cuda:1'")
    for name in ("monotonic_cst", "coefficient_signs"):
        if values.get(name) is not None and values.get("smoothing", 0) not in ("auto", 0):
            raise ValueError(
                f"smoothing is {shown(values['smoothing'])}, expected 0 or 'auto' with {name}, "
                "which blended equations may violate"
            )
