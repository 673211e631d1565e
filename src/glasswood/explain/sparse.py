"""SHAP values of sparse rows, and sparse SHAP values: only features that the forest uses have any."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.device import array_gpu, import_cupy, on_host
from glasswood.base.typing import Array
from glasswood.explain.cpu import checked_result
from glasswood.explain.game import Game
from glasswood.explain.players import make_players
from glasswood.inputs.sparse import dense_chunks, in_columns, is_on_gpu, used_columns
from glasswood.inputs.targets import as_targets


def in_used_columns(game: Game) -> Game:
    """Game of the features that the forest uses alone."""
    used, background = used_columns(game.forest), game.background
    if background is not None:
        background = dataclasses.replace(background, placed=background.rows[:, used])
    forest = in_columns(game.forest, used)
    return Game(forest, make_players(None, forest), background)


def values_of_sparse(
    explain: Callable[..., Any],
    game: Game,
    n_outputs: int,
    dtype: str,
    X: Any,
    out: Array | None,
    is_sparse_output: bool,
    y: ArrayLike | None,
) -> Any:
    """Values of the rows X, chunk by chunk; `explain` takes dense rows of the features that the forest uses."""
    if game.players.groups:
        raise NotImplementedError("groups of features require dense rows; pass X.toarray()")
    forest, used = game.forest, used_columns(game.forest)
    labels = None if y is None else as_targets(y, X.shape[0])
    shape = (X.shape[0], forest.n_features, *((n_outputs,) if n_outputs > 1 else ()))
    places: Any = used
    if not is_sparse_output and is_on_gpu(X):
        out, places = _result_on_gpu(shape, dtype, out), import_cupy().asarray(used)
    elif not is_sparse_output:
        X = X.tocsr()
        out = checked_result(shape, dtype, X.data, out)
    parts = []
    for rows, dense in dense_chunks(X, forest, used):
        values = explain(dense, None if labels is None else labels[rows])
        if is_sparse_output:
            parts.append(to_sparse(on_host(values), used, forest.n_features))
        elif out is not None:
            out[rows] = 0
            out[rows, places] = values
    return out if not is_sparse_output else _stacked(parts, n_outputs, forest.n_features, dtype)


def _result_on_gpu(shape: tuple[int, ...], dtype: str, out: Any) -> Any:
    """Check the caller's array, or make one."""
    if out is None:
        return import_cupy().empty(shape, dtype)
    if array_gpu(out) is None or out.shape != shape or out.dtype != dtype:
        raise ValueError(f"out is not a CuPy array of {dtype} and shape {shape}, which rows on a GPU require")
    return out


def to_sparse(values: Array, used: Array, n_features: int) -> list[Any]:
    """Keep the values that are not 0 in a CSR array an output."""
    import scipy.sparse

    result = []
    for output in range(values.shape[2] if values.ndim == 3 else 1):
        part = values[:, :, output] if values.ndim == 3 else values
        row, column = np.nonzero(part)
        entries = (part[row, column], (row, used[column]))
        result.append(scipy.sparse.csr_array(entries, shape=(len(values), n_features)))
    return result


def sparse_values(values: Array, n_outputs: int) -> Any:
    """Turn dense values into a CSR array, or a list of one an output."""
    parts = to_sparse(values, np.arange(values.shape[1]), values.shape[1])
    return parts[0] if n_outputs == 1 else parts


def _stacked(parts: list[list[Any]], n_outputs: int, n_features: int, dtype: str) -> Any:
    """Put chunks below each other: one array, or a list of one an output."""
    import scipy.sparse

    if not parts:
        parts = [[scipy.sparse.csr_array((0, n_features), dtype=dtype)] * n_outputs]
    stacked = [scipy.sparse.vstack(of_output, format="csr") for of_output in zip(*parts, strict=True)]
    return stacked[0] if n_outputs == 1 else stacked
