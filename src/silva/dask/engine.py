"""Dask, imported in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType


def import_dask() -> ModuleType:
    """Import Dask.

    Raises
    ------
    ImportError
        Naming the extra to install.
    """
    try:
        import dask
    except ImportError as error:
        raise ImportError("silva.dask needs Dask: pip install 'silva[dask]'") from error
    module: ModuleType = dask
    return module


def current_client() -> Any:
    """Return the client of dask.distributed that is open.

    Raises
    ------
    ImportError
        Without dask.distributed.
    ValueError
        If there is none.
    """
    import_distributed()
    from distributed import get_client

    try:
        return get_client()
    except ValueError as error:
        raise ValueError(
            "futures need a client of dask.distributed and none is open; call this while one is"
        ) from error


def import_distributed() -> ModuleType:
    """Import dask.distributed.

    Raises
    ------
    ImportError
        Naming the extra to install.
    """
    try:
        import distributed
    except ImportError as error:
        raise ImportError("schedulers and futures need dask.distributed: pip install 'silva[dask]'") from error
    module: ModuleType = distributed
    return module
