"""silva in the place of shap's tree explainer, for code that cannot be edited."""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING

from silva.explain.tree_explainer import TreeExplainer

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = (("shap", "TreeExplainer"), ("shap.explainers", "TreeExplainer"), ("shap.explainers", "Tree"))


@contextlib.contextmanager
def patch_shap() -> Iterator[None]:
    """Let ``shap.TreeExplainer`` be `silva.TreeExplainer` within a ``with`` block.

    Code that looks the name up in shap while the block runs gets silva's explainer; explainers that exist keep working
    afterwards. ``shap.Explainer(model)``, which chooses an explainer by itself, stays shap's.

    Raises
    ------
    ImportError
        If shap is not installed.

    Notes
    -----
    The names are replaced for the whole process, in all threads.

    Examples
    --------
    >>> with silva.patch_shap():  # doctest: +SKIP
    ...     values = shap.TreeExplainer(model).shap_values(X)
    """
    try:
        places = [(importlib.import_module(module), name) for module, name in NAMES]
    except ImportError as error:
        raise ImportError("patch_shap replaces names of shap, which is not installed: pip install shap") from error
    before = [getattr(module, name) for module, name in places]
    try:
        for module, name in places:
            setattr(module, name, TreeExplainer)
        yield
    finally:
        for (module, name), value in zip(places, before, strict=True):
            setattr(module, name, value)
