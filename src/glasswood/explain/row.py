"""One row at a time: everything but the look-ups is done beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from glasswood import _core
from glasswood.base.escapes import quoted
from glasswood.base.typing import Array
from glasswood.inputs import as_rows
from glasswood.inputs.arrays import checked_row
from glasswood.inputs.categories import arrays_hold_values
from glasswood.inputs.encoder import NamedRow, ValueRow
from glasswood.inputs.placed import PlacedRows
from glasswood.model.facts import feature_names

if TYPE_CHECKING:
    from glasswood.explain.cpu import CpuExplainer
    from glasswood.explain.responses.coalitions import CoalitionExplainer
    from glasswood.explain.responses.rescaling import ResponseExplainer

    Engine: TypeAlias = CpuExplainer | ResponseExplainer | CoalitionExplainer

ROWS: dict[str, type[_core.RowExplainer32 | _core.RowExplainer64]] = {
    "float32": _core.RowExplainer32,
    "float64": _core.RowExplainer64,
}


class Reason(NamedTuple):
    """A feature, or a group of features, with the row's own value and the effect on the explained output.

    A group has a tuple of values.
    """

    feature: str
    value: Any
    effect: float


def make_row(explainer: Engine, top: int | None, names: bool = False) -> Callable[[Any], Any]:
    """`Explainer.row`."""
    if top is not None and (isinstance(top, bool) or not hasattr(top, "__index__")):
        raise TypeError(f"top is {quoted(top)}, expected a number of features")
    if top is not None and top < 1:
        raise ValueError(f"top is {top}, expected at least 1 feature, or None for all of them")
    explainer.prepare()
    forest = explainer.game.forest
    if names and top is not None:
        return ReasonedRow(explainer, top)
    row = _row_of_codes(explainer, top)
    if names:
        return NamedRow(forest, row, (make_row, (explainer, top, True)))
    return ValueRow(forest, row, (make_row, (explainer, top))) if arrays_hold_values(forest) else row


def _row_of_codes(explainer: Engine, top: int | None) -> Callable[[Array], Any]:
    """Explain rows whose categories are codes."""
    n_top = 0 if top is None else min(int(top), explainer.game.players.n)
    tables, trees = explainer.row_parts
    if tables is None and trees is None:
        return WalkedRow(explainer, n_top)
    row: Callable[[Array], Any] = ROWS[explainer.settings.dtype](
        tables, trees, explainer.game.forest.missing, n_top, (make_row, (explainer, top))
    )
    return row


class WalkedRow:
    """Rows that need more than kept tables or one walk: of backgrounds, linear leaves and responses."""

    def __init__(self, explainer: Engine, top: int) -> None:
        self._explainer, self._top = explainer, top

    def __call__(self, row: Array) -> Any:
        """Explain a row."""
        forest = self._explainer.game.forest
        rows = checked_row(row, forest.n_features)
        if not arrays_hold_values(forest):
            rows = as_rows(rows, forest)
        phi: Array = self._explainer.values(PlacedRows(rows))[0]
        return strongest(phi, self._top) if self._top else phi


class ReasonedRow(NamedRow):
    """The strongest features of a row by their names, each with its value and its effect."""

    def __init__(self, explainer: Engine, top: int) -> None:
        forest, players = explainer.game.forest, explainer.game.players
        super().__init__(forest, _row_of_codes(explainer, top), (make_row, (explainer, top, True)))
        self._names = players.names or feature_names(forest)
        self._members = [np.flatnonzero(players.of_feature == player).tolist() for player in range(players.n)]

    def __call__(self, row: Any) -> Any:
        """Explain a row."""
        found = super().__call__(row)
        values = row.ravel().tolist() if isinstance(row, np.ndarray) else self._encoder.values(row)
        players, effects = (each.T.tolist() for each in found)
        if found[0].ndim == 1:
            return self._reasons(values, players, effects)
        return [self._reasons(values, *each) for each in zip(players, effects, strict=True)]

    def _reasons(self, values: Sequence[Any], players: list[int], effects: list[float]) -> list[Reason]:
        return [
            Reason(self._names[player], self._value(values, player), effect)
            for player, effect in zip(players, effects, strict=True)
        ]

    def _value(self, values: Sequence[Any], player: int) -> Any:
        members = self._members[player]
        return values[members[0]] if len(members) == 1 else tuple(values[member] for member in members)


def strongest(phi: Array, top: int) -> tuple[Array, Array]:
    """Features and values of the largest magnitudes, falling; of equal ones the first feature."""
    order = np.argsort(-np.abs(phi), axis=0, kind="stable")[:top].astype(np.int32)
    return order, np.take_along_axis(phi, order, axis=0)
