"""`glasswood.dask.predict` and `glasswood.dask.explain`: thin layers over the mappers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from glasswood.dask.engine import current_client, import_dask
from glasswood.explain import Explainer
from glasswood.loading import load

if TYPE_CHECKING:
    from glasswood.mapping.mapper import Mapper


def predict(model: Any, data: Any, output: str = "prediction", columns: Any = (), **settings: Any) -> Any:
    """Predict a Dask collection on the workers that hold its partitions.

    Parameters
    ----------
    model : object or path
        Any model that `glasswood.load` reads.
    data : dask DataFrame, dask Array (rows, features), or list of futures or delayed objects of batches
        Features are found by name. Arrays have the model's order and all columns in one chunk.
    output, columns : str, sequence of str
        As for `Forest.mapper`.
    **settings
        Other arguments of `Forest.mapper`: ``inputs``, ``path``. Threads and device are those of
        `glasswood.config_context`.

    Returns
    -------
    same type as `data`
        A collection that is not computed yet, with one row for each row of `data` and the same partitions.

    Raises
    ------
    TypeError
        If `data` is not a Dask collection.
    ValueError
        If columns do not fit the model, or an array's chunks do not hold all features.
    ImportError
        Without Dask.
    """
    return _mapped(load(model).mapper(cast("Any", output), columns, **settings), data)


def explain(explainer: Any, data: Any, output: str = "values", columns: Any = (), **settings: Any) -> Any:
    """Explain a Dask collection on the workers that hold its partitions.

    Parameters
    ----------
    explainer : Explainer, or any model that `glasswood.load` reads
    data : dask DataFrame, dask Array (rows, features), or list of futures or delayed objects of batches
        As for `predict`.
    output, columns : str, sequence of str
        As for `Explainer.mapper`.
    **settings
        Other arguments of `Explainer.mapper`: ``inputs``, ``features``, ``path``, ``units``, ``language``, ``top``.

    Returns
    -------
    same type as `data`
        A collection that is not computed yet. For an array, values (rows, features) or interactions
        (rows, features, features), with one more axis for several outputs.

    Raises
    ------
    TypeError, ValueError, ImportError
        As for `predict`.
    """
    explainer = explainer if isinstance(explainer, Explainer) else Explainer(explainer)
    return _mapped(explainer.mapper(output, columns, **settings), data)


def _mapped(mapper: Mapper, data: Any) -> Any:
    import_dask()
    if isinstance(data, list | tuple):
        return _map_parts(mapper, data)
    if hasattr(data, "map_partitions"):
        return data.map_partitions(apply, _sent(mapper), meta=mapper(data._meta))
    if hasattr(data, "map_blocks"):
        return _map_blocks(mapper, data)
    raise TypeError(
        f"data is a {type(data).__name__}, expected a DataFrame or an Array of Dask, or a list of futures or delayed "
        "objects; for data in memory use the model's own methods"
    )


def _map_parts(mapper: Mapper, parts: Any) -> list[Any]:
    """Map futures to futures, delayed objects to delayed objects."""
    if all(hasattr(part, "dask") for part in parts):
        call, sent = import_dask().delayed(apply), _sent(mapper)
        return [call(part, sent) for part in parts]
    client = current_client()
    sent = client.submit(_same, mapper, pure=False)
    return list(client.map(apply, list(parts), mapper=sent, pure=False))


def _sent(mapper: Mapper) -> Any:
    """Let a mapper be a task of its own, which workers hand on and which is repeated if they die."""
    return import_dask().delayed(mapper, pure=False)


def apply(batch: Any, mapper: Mapper) -> Any:
    """Map a batch."""
    return mapper(batch)


def _same(mapper: Mapper) -> Mapper:
    return mapper


def _map_blocks(mapper: Mapper, data: Any) -> Any:
    if data.ndim != 2 or len(data.chunks[1]) != 1:
        raise ValueError(
            f"data has shape {data.shape} in chunks of {data.chunksize}, expected (rows, features) with all features "
            "in each chunk; rechunk it by data.rechunk({1: -1})"
        )
    empty = mapper(np.empty((0, data.shape[1]), data.dtype))
    chunks = (data.chunks[0], *((width,) for width in empty.shape[1:]))
    axes: dict[str, Any] = {"drop_axis": 1} if empty.ndim == 1 else {"new_axis": list(range(2, empty.ndim))}
    return data.map_blocks(apply, _sent(mapper), dtype=empty.dtype, chunks=chunks, meta=empty, **axes)
