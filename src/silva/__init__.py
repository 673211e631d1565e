"""silva grows, evaluates and explains decision trees on parallel hardware."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from silva.forest import Forest

if TYPE_CHECKING:
    from silva.explain import Explainer
    from silva.grow import ModelTreeRegressor
    from silva.readers import load
    from silva.report.plot import plot_history, plot_tree
    from silva.report.text import export_text

__version__ = "0.1.0.dev0"

__all__ = [
    "Explainer",
    "Forest",
    "ModelTreeRegressor",
    "__version__",
    "export_text",
    "load",
    "plot_history",
    "plot_tree",
]

LAZY = {
    "Explainer": "silva.explain",
    "ModelTreeRegressor": "silva.grow",
    "export_text": "silva.report.text",
    "load": "silva.readers",
    "plot_history": "silva.report.plot",
    "plot_tree": "silva.report.plot",
}
"""Public names by the module that defines them; imported on first use."""


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module 'silva' has no attribute {name!r}")
    value = getattr(importlib.import_module(LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
