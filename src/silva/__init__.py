"""silva grows, evaluates and explains decision trees on parallel hardware."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from silva.forest import Forest

if TYPE_CHECKING:
    from silva.explain import Explainer
    from silva.readers import load

__version__ = "0.1.0.dev0"

__all__ = ["Explainer", "Forest", "__version__", "load"]

LAZY = {"Explainer": "silva.explain", "load": "silva.readers"}
"""Public names by the module that defines them; imported on first use."""


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module 'silva' has no attribute {name!r}")
    value = getattr(importlib.import_module(LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
