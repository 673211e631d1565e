"""One row at a time: everything but the look-ups is done beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva import _core
from silva.inputs import as_rows
from silva.inputs.arrays import checked_row
from silva.inputs.categories import arrays_hold_values
from silva.inputs.placed import PlacedRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from silva.explain.coalitions import CoalitionExplainer
    from silva.explain.cpu import CpuExplainer
    from silva.explain.responses import ResponseExplainer
    from silva.typing import Array

ROWS = {"float32": _core.RowExplainer32, "float64": _core.RowExplainer64}


def make_row(
    explainer: CpuExplainer | ResponseExplainer | CoalitionExplainer, top: int | None
) -> Callable[[Array], Any]:
    """`Explainer.row`."""
    if top is not None and (isinstance(top, bool) or not hasattr(top, "__index__")):
        raise TypeError(f"top is {top!r}, expected a number of features")
    if top is not None and top < 1:
        raise ValueError(f"top is {top}, expected at least 1 feature, or None for all of them")
    n_top = 0 if top is None else min(int(top), explainer.game.players.n)
    explainer.prepare()
    tables = explainer.whole_tables
    if tables is None or explainer.game.forest.categories is not None:
        return PlainRow(explainer, n_top)
    row: Callable[[Array], Any] = ROWS[explainer.settings.dtype](
        tables, explainer.game.forest.missing, n_top, (make_row, (explainer, top))
    )
    return row


class PlainRow:
    """Rows that need more than tables: walked trees, categories that are matched by value."""

    def __init__(self, explainer: CpuExplainer | ResponseExplainer | CoalitionExplainer, top: int) -> None:
        self._explainer, self._top = explainer, top

    def __call__(self, row: Array) -> Any:
        """Explain a row."""
        forest = self._explainer.game.forest
        rows = as_rows(checked_row(row, forest.n_features, arrays_hold_values(forest)), forest)
        phi: Array = self._explainer.values(PlacedRows(rows))[0]
        return strongest(phi, self._top) if self._top else phi


def strongest(phi: Array, top: int) -> tuple[Array, Array]:
    """Features and values of the largest magnitudes, falling; of equal ones the first feature."""
    order = np.argsort(-np.abs(phi), axis=0, kind="stable")[:top].astype(np.int32)
    return order, np.take_along_axis(phi, order, axis=0)
