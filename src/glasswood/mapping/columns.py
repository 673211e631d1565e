"""Names of the columns that predictions and explanations are written under."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.typing import Array
from glasswood.inputs.matching import listed
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import output_names


def spread(name: str, values: Array, forest: TreeEnsemble) -> dict[str, Array]:
    """Name the outputs of (n_rows,) or (n_rows, n_outputs) values."""
    if values.ndim == 1:
        return {name: values}
    labels = output_names(forest, values.shape[1])
    return {f"{name}_{label}": values[:, i] for i, label in enumerate(labels)}


def prediction_columns(values: Any, output: str, forest: TreeEnsemble) -> dict[str, Array]:
    """Name the columns of what `Forest.predict` returned."""
    if isinstance(values, list):
        return spread(output, np.concatenate(values, axis=1), forest)
    if output == "leaf":
        leaves = values.reshape(len(values), math.prod(values.shape[1:]))
        return {f"leaf_{tree}": leaves[:, tree] for tree in range(leaves.shape[1])}
    return spread(output, values[:, 0] if values.shape[1:] == (1,) and output == "prediction" else values, forest)


def value_columns(values: Array, players: Sequence[str], forest: TreeEnsemble) -> dict[str, Array]:
    """Name SHAP values (n_rows, n_players[, n_outputs]) of these players, features or groups."""
    columns: dict[str, Array] = {}
    for i, name in enumerate(players):
        columns |= spread(f"phi_{name}", values[:, i], forest)
    return columns


def strongest_columns(values: Array, players: Sequence[str], top: int) -> dict[str, Array]:
    """Name the `top` largest of the SHAP values (n_rows, n_players) of each row: feature_1, phi_1, feature_2, ..."""
    order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :top]
    labels, rows = np.array([*players], object), np.arange(len(values))
    columns: dict[str, Array] = {}
    for place in range(top):
        columns[f"feature_{place + 1}"] = labels[order[:, place]]
        columns[f"phi_{place + 1}"] = values[rows, order[:, place]]
    return columns


def interaction_columns(
    values: Array, wanted: Sequence[str], players: Sequence[str], forest: TreeEnsemble
) -> dict[str, Array]:
    """Name SHAP interaction values (n_rows, len(wanted), n_players[, n_outputs])."""
    columns: dict[str, Array] = {}
    for i, first in enumerate(wanted):
        for j, second in enumerate(players):
            columns |= spread(f"phi_{first}__{second}", values[:, i, j], forest)
    return columns


def margin_columns(margin: Array, expected_value: ArrayLike, forest: TreeEnsemble) -> dict[str, Array]:
    """Name the columns that end an explanation: the expected value, the same in every row, and the margin."""
    expected = np.broadcast_to(np.asarray(expected_value, np.float64), margin.shape)
    return spread("expected_value", expected, forest) | spread("margin", margin, forest)


def explanation_metadata(players: Sequence[str], expected_value: ArrayLike, forest: TreeEnsemble) -> dict[str, Any]:
    """Describe an explanation for the metadata of its Parquet file."""
    from glasswood import __version__

    expected = np.atleast_1d(expected_value)
    return {
        "version": __version__,
        "source": forest.source,
        "objective": forest.objective,
        "features": list(players),
        "outputs": [] if np.ndim(expected_value) == 0 else output_names(forest, len(expected)),
        "expected_value": expected.tolist(),
    }


def check_unique(names: Sequence[str]) -> None:
    """Raise ValueError if two columns of an output would have the same name."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"the output would have several columns {listed(repeated)}; rename the features or columns")


def plain(values: Array) -> Any:
    """Labels of text as Python strings, everything else contiguous."""
    return values.astype(str).tolist() if is_text(values) else np.ascontiguousarray(values)


def is_text(values: Array) -> bool:
    """Whether these are labels of text."""
    return values.dtype.kind in "OU"
