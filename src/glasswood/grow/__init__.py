"""Evolutionary model trees: one small, readable tree with linear models in its leaves.

The estimators stand here. Below them `search` grows one tree from the rows of `data`, with `cuda` on GPUs, and `tree`
makes a Forest of what it finds; `search` imports from the others, and all of them from `data`. `curves` stand beside.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glasswood.grow.additive import AdditiveClassifier, AdditiveRegressor
    from glasswood.grow.classifier import ModelTreeClassifier
    from glasswood.grow.ensemble import ModelTreeEnsembleRegressor
    from glasswood.grow.ensemble_classifier import ModelTreeEnsembleClassifier
    from glasswood.grow.estimator import ModelTreeRegressor
    from glasswood.grow.search.alternatives import Alternatives
    from glasswood.grow.search.engine import Progress

__all__ = [
    "AdditiveClassifier",
    "AdditiveRegressor",
    "Alternatives",
    "ModelTreeClassifier",
    "ModelTreeEnsembleClassifier",
    "ModelTreeEnsembleRegressor",
    "ModelTreeRegressor",
    "Progress",
]

LAZY = {
    "AdditiveClassifier": "glasswood.grow.additive",
    "AdditiveRegressor": "glasswood.grow.additive",
    "Alternatives": "glasswood.grow.search.alternatives",
    "ModelTreeClassifier": "glasswood.grow.classifier",
    "ModelTreeEnsembleClassifier": "glasswood.grow.ensemble_classifier",
    "ModelTreeEnsembleRegressor": "glasswood.grow.ensemble",
    "ModelTreeRegressor": "glasswood.grow.estimator",
    "Progress": "glasswood.grow.search.engine",
}
"""Public names by the module that defines them: the estimators need scikit-learn."""


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module 'glasswood.grow' has no attribute {name!r}")
    try:
        module = importlib.import_module(LAZY[name])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        raise ImportError(f"glasswood.{name} needs scikit-learn: pip install 'glasswood[sklearn]'") from error
    return getattr(module, name)
