"""Packages that extras of glasswood install, imported where they are first used."""

from __future__ import annotations

import importlib
from types import ModuleType


def import_extra(name: str, extra: str, needs: str) -> ModuleType:
    """Import a module.

    Raises
    ------
    ImportError
        What needs which package, and the extra to install.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{needs}: pip install 'glasswood[{extra}]'") from error


def import_arrow() -> ModuleType:
    """Import pyarrow."""
    return import_extra("pyarrow", "files", "batches and files of columns need pyarrow")
