"""Parameters and targets, checked before the search."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from silva.device import parse_device
from silva.grow.data.rows import STORAGES
from silva.grow.search.engine import OPERATORS, POLISH
from silva.grow.tree_search import TreeSearch, search_of
from silva.typing import Clip, Fitness, GrowAlgorithm, LeafModel, Loss, Noise

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGEST_SHARE = np.nextafter(1.0, 0.0)

SMALLEST, MOST = np.nextafter(0.0, 1.0), np.finfo(float).max

RANGES: dict[str, tuple[Any, float, float]] = {
    "generations": (Integral, 0, np.inf),
    "population_size": (Integral, 2, np.inf),
    "n_iter_no_change": (Integral, 1, np.inf),
    "penalty": (Real, 0, np.inf),
    "max_leaves": (Integral, 1, np.inf),
    "max_depth": (Integral, 0, 18),
    "min_samples_leaf": (Integral, 1, np.inf),
    "rows_per_parameter": (Real, 1, np.inf),
    "smoothing": (Real, 0, MOST),
    "stability": (Integral, 0, np.inf),
    "honest": (Real, 0, 1),
    "quantile": (Real, SMALLEST, LARGEST_SHARE),
}
SEARCH_RANGES: dict[str, tuple[Any, float, float]] = {
    "crossover_probability": (Real, 0, 1),
    "mutation_probability": (Real, 0, 1),
    "tol": (Real, 0, np.inf),
    "test_weight": (Real, 0, np.inf),
    "alpha": (Real, 0, np.inf),
    "polish_interval": (Integral, 1, np.inf),
    "polish_trees": (Integral, 0, np.inf),
}
ENSEMBLE_RANGES: dict[str, tuple[Any, float, float]] = {
    "n_estimators": (Integral, 1, np.inf),
    "max_trees": (Integral, 1, np.inf),
    "max_samples": (Real, SMALLEST, 1),
    "learning_rate": (Real, SMALLEST, 1),
}
AUTOMATIC = ("n_iter_no_change", "smoothing")
"""Those of these numbers that may also be "auto"."""

ROUNDS: dict[str, tuple[Any, float, float]] = {"rounds": (Integral, 1, np.inf)}

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
    check_ranges(estimator, RANGES)
    for name, choices in CHOICES.items():
        check_choice(estimator, name, choices)
    check_time_limit(estimator.time_limit)
    _check_terms(estimator.max_terms_per_leaf)
    if estimator.log_terms not in (True, False, "auto"):
        raise ValueError(f"log_terms is {estimator.log_terms!r}, expected True, False or 'auto'")
    if not isinstance(estimator.search, TreeSearch | None):
        raise TypeError(f"search is {estimator.search!r}, expected a silva.TreeSearch or None")
    search = search_of(estimator)
    check_ranges(search, SEARCH_RANGES)
    _check_names(search.operator_rates or {}, OPERATORS, "operator_rates")
    if not isinstance(search.polish, bool):
        _check_names(search.polish or (), POLISH, "polish")
    if estimator.verbose not in (True, False, "auto"):
        raise ValueError(f"verbose is {estimator.verbose!r}, expected True, False or 'auto'")
    _check_device(estimator.device, estimator.algorithm)
    _check_chunks(estimator.chunks)
    for name in ("monotonic_cst", "coefficient_signs"):
        if getattr(estimator, name) is not None and estimator.smoothing not in ("auto", 0):
            raise ValueError(
                f"smoothing is {estimator.smoothing}, expected 0 or 'auto' with {name}, "
                "which blended equations may violate"
            )


def check_ranges(estimator: Any, ranges: dict[str, tuple[Any, float, float]]) -> None:
    """Raise TypeError or ValueError for the first number that is out of its range."""
    for name, (kind, low, high) in ranges.items():
        value = getattr(estimator, name)
        if value == "auto" and name in AUTOMATIC:
            continue
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}, expected {'an integer' if kind is Integral else 'a number'}")
        if not low <= value <= high:
            limits = {np.inf: f"at least {low}", MOST: f"a finite number of at least {low}"}
            between = f"a number above 0 and up to {high}" if low == SMALLEST else f"{low} to {high}"
            raise ValueError(f"{name} is {value}, expected {limits.get(high, between)}")


def check_choice(estimator: Any, name: str, choices: Iterable[str]) -> None:
    """Raise ValueError unless a parameter is one of its choices."""
    if getattr(estimator, name) not in choices:
        raise ValueError(f"{name} is {getattr(estimator, name)!r}, expected one of {', '.join(choices)}")


def check_time_limit(time_limit: Any) -> None:
    """Raise ValueError unless these are seconds, or None."""
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time_limit is {time_limit}, expected seconds above 0 or None")


def _check_device(device: str, algorithm: str) -> None:
    kind, _ = parse_device(device)
    if kind == "all" and algorithm == "qr":
        raise NotImplementedError("algorithm='qr' uses one GPU, as the paper does; pass device='cuda' or 'cuda:1'")


def _check_terms(most: Any) -> None:
    if most is None:
        return
    if not isinstance(most, Integral) or isinstance(most, bool):
        raise TypeError(f"max_terms_per_leaf is {most!r}, expected an integer or None")
    if most < 0:
        raise ValueError(f"max_terms_per_leaf is {most}, expected at least 0 terms or None")


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
