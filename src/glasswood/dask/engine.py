"""Dask, imported in one place."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from glasswood.base.extras import import_extra


def import_dask() -> ModuleType:
    """Import Dask."""
    return import_extra("dask", "dask", "glasswood.dask needs Dask")


def import_distributed() -> ModuleType:
    """Import dask.distributed."""
    return import_extra("distributed", "dask", "schedulers and futures need dask.distributed")


def current_client() -> Any:
    """Return the client of dask.distributed that is open.

    Raises
    ------
    ImportError
        Without dask.distributed.
    ValueError
        If there is none.
    """
    distributed = import_distributed()
    try:
        return distributed.get_client()
    except ValueError as error:
        raise ValueError("futures need an open client of dask.distributed; open one first") from error
