"""Forests of tests."""

from __future__ import annotations

from typing import Any

from glasswood import Forest
from glasswood.model.ensemble import TreeEnsemble


class ArrayForest(Forest):
    """A forest made of arrays, which are attributes: tests look at them and, by `dataclasses.replace`, change them."""

    __dataclass_fields__ = TreeEnsemble.__dataclass_fields__

    def __init__(self, ensemble: TreeEnsemble | None = None, **arrays: Any) -> None:
        super().__init__(TreeEnsemble(**arrays) if ensemble is None else ensemble)

    def __getattr__(self, name: str) -> Any:
        if name == "ensemble" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.ensemble, name)
