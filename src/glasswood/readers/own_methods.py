"""Classes that users derive from those of libraries: whether they predict by methods of their own."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

PREDICTING = re.compile(
    r"_*(raw_)?predict(?!_log_proba).*|_*decision_function.*|_*(compute_)?score_samples.*|_validate_X_predict|apply"
)
"""Names of methods on which a prediction rests, private ones included; those left out only repeat others."""

ACCELERATED = ("sklearnex", "daal4py")
"""Packages that derive classes from scikit-learn's to compute the same predictions faster."""


def refuse_own_methods(model: Any, libraries: Collection[str]) -> None:
    """Raise NotImplementedError if a method that predicts is not the library's: its trees would not say what it does.

    Parameters
    ----------
    model : estimator
        Of a class of one of the libraries, or of a class derived from one.
    libraries : collection of str
        Packages whose methods are known.
    """
    kinds = type(model).__mro__
    owners: dict[str, str] = {}
    for kind in kinds:
        if _is_known(kind, libraries):
            for name in vars(kind):
                owners.setdefault(name, "")
        else:
            for name in vars(kind):
                owners.setdefault(name, kind.__name__)
    own = {name: owner for name, owner in owners.items() if owner}
    own |= {name: "the object itself" for name in getattr(model, "__dict__", {}) if callable(vars(model)[name])}
    for name, owner in own.items():
        if PREDICTING.fullmatch(name) and (base := _overridden(name, kinds, libraries)) is not None:
            raise NotImplementedError(
                f"{type(model).__name__} has a method {name} of its own ({owner}) in place of that of {base.__name__}, "
                f"which glasswood would read; explain a {base.__name__}, or the tree of glasswood.distill(model, X)"
            )


def _is_known(kind: type, libraries: Collection[str]) -> bool:
    package = kind.__module__.partition(".")[0]
    return package in libraries or package in ACCELERATED or package == "builtins"


def _overridden(name: str, kinds: tuple[type, ...], libraries: Collection[str]) -> type | None:
    """Name the library's class whose method a class of the user's replaces; None if it has no such method."""
    known = [kind for kind in kinds if _is_known(kind, libraries)]
    return known[0] if hasattr(known[0], name) else None
