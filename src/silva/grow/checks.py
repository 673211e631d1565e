"""Parameters and targets, checked before the search."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, get_args

import numpy as np

from silva.device import parse_device
from silva.grow.data.rows import STORAGES
from silva.grow.search.engine import OPERATORS, POLISH
from silva.typing import Clip, Fitness, GrowAlgorithm, LeafModel, Loss, Noise

MOST = np.finfo(float).max

RANGES: dict[str, tuple[Any, float, float]] = {
    "generations": (Integral, 0, np.inf),
    "population_size": (Integral, 2, np.inf),
    "crossover_probability": (Real, 0, 1),
    "mutation_probability": (Real, 0, 1),
    "n_iter_no_change": (Integral, 1, np.inf),
    "tol": (Real, 0, np.inf),
    "penalty": (Real, 0, np.inf),
    "test_weight": (Real, 0, np.inf),
    "alpha": (Real, 0, np.inf),
    "max_leaves": (Integral, 1, np.inf),
    "max_depth": (Integral, 0, 18),
    "min_samples_leaf": (Integral, 1, np.inf),
    "rows_per_parameter": (Real, 1, np.inf),
    "polish_interval": (Integral, 1, np.inf),
    "polish_trees": (Integral, 0, np.inf),
    "smoothing": (Real, 0, MOST),
    "honest": (Real, 0, 1),
}
AUTOMATIC = ("n_iter_no_change", "smoothing")
"""Of these, the numbers that may be "auto" instead."""

CHOICES = {
    "clip": get_args(Clip),
    "fitness": get_args(Fitness),
    "leaf_model": get_args(LeafModel),
    "loss": get_args(Loss),
    "noise": get_args(Noise),
    "algorithm": get_args(GrowAlgorithm),
    "storage": STORAGES,
}


def check_parameters(estimator: Any) -> None:
    """Raise TypeError or ValueError for the first parameter that is out of range."""
    for name, (kind, low, high) in RANGES.items():
        value = getattr(estimator, name)
        if value == "auto" and name in AUTOMATIC:
            continue
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}, expected {'an integer' if kind is Integral else 'a number'}")
        if not low <= value <= high:
            limits = {np.inf: f"at least {low}", MOST: f"a finite number of at least {low}"}
            raise ValueError(f"{name} is {value}, expected {limits.get(high, f'{low} to {high}')}")
    for name, choices in CHOICES.items():
        if getattr(estimator, name) not in choices:
            raise ValueError(f"{name} is {getattr(estimator, name)!r}, expected one of {', '.join(choices)}")
    if estimator.time_limit is not None and not estimator.time_limit > 0:
        raise ValueError(f"time_limit is {estimator.time_limit}, expected seconds above 0 or None")
    _check_names(estimator.operator_rates or {}, OPERATORS, "operator_rates")
    if not isinstance(estimator.polish, bool):
        _check_names(estimator.polish or (), POLISH, "polish")
    if estimator.verbose not in (True, False, "auto"):
        raise ValueError(f"verbose is {estimator.verbose!r}, expected True, False or 'auto'")
    _check_device(estimator.device, estimator.algorithm)
    _check_chunks(estimator.chunks)


def check_rounds(rounds: Any) -> None:
    """Raise TypeError or ValueError unless it is a number of searches."""
    if not isinstance(rounds, Integral) or isinstance(rounds, bool):
        raise TypeError(f"rounds is {rounds!r}, expected an integer")
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}, expected at least 1")


def _check_device(device: str, algorithm: str) -> None:
    kind, _ = parse_device(device)
    if kind == "all" and algorithm == "qr":
        raise NotImplementedError("algorithm='qr' uses one GPU, as the paper does; pass device='cuda' or 'cuda:1'")


def _check_chunks(chunks: Any) -> None:
    if chunks is None or chunks == "auto":
        return
    if not isinstance(chunks, Integral) or isinstance(chunks, bool):
        raise TypeError(f"chunks is {chunks!r}, expected 'auto', None or a number of rows")
    if chunks < 1:
        raise ValueError(f"chunks is {chunks}, expected at least 1 row, 'auto' or None")


def _check_names(given: Any, known: Any, parameter: str) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{parameter} names {name!r}, expected some of {', '.join(known)}")
    if isinstance(given, dict) and any(not rate >= 0 for rate in given.values()):
        raise ValueError(f"{parameter} are {given}, expected numbers of at least 0")
