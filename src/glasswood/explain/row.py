"""One row at a time: everything but the look-ups is done beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from glasswood import _core
from glasswood.base.typing import Array
from glasswood.inputs import as_rows
from glasswood.inputs.arrays import checked_row
from glasswood.inputs.categories import arrays_hold_values
from glasswood.inputs.encoder import RowEncoder
from glasswood.inputs.placed import PlacedRows
from glasswood.model.facts import feature_names

if TYPE_CHECKING:
    from glasswood.explain.cpu import CpuExplainer
    from glasswood.explain.responses.coalitions import CoalitionExplainer
    from glasswood.explain.responses.rescaling import ResponseExplainer

    Engine: TypeAlias = CpuExplainer | ResponseExplainer | CoalitionExplainer

ROWS = {"float32": _core.RowExplainer32, "float64": _core.RowExplainer64}


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
        raise TypeError(f"top is {top!r}, expected a number of features")
    if top is not None and top < 1:
        raise ValueError(f"top is {top}, expected at least 1 feature, or None for all of them")
    explainer.prepare()
    if names:
        return NamedRow(explainer, top)
    row = _row_of_codes(explainer, top)
    return ValueRow(explainer, top, row) if arrays_hold_values(explainer.game.forest) else row


def _row_of_codes(explainer: Engine, top: int | None) -> Callable[[Array], Any]:
    """Explain rows whose categories are codes."""
    n_top = 0 if top is None else min(int(top), explainer.game.players.n)
    of = explainer.whole_tables or explainer.row_trees
    if of is None:
        return WalkedRow(explainer, n_top)
    row: Callable[[Array], Any] = ROWS[explainer.settings.dtype](
        of, explainer.game.forest.missing, n_top, (make_row, (explainer, top))
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


class ValueRow:
    """Rows whose categories are values, which become codes first."""

    def __init__(self, explainer: Engine, top: int | None, row: Callable[[Array], Any]) -> None:
        self._arguments, self._row = (explainer, top), row
        self._n_features, self._encoder = explainer.game.forest.n_features, RowEncoder(explainer.game.forest)

    def __call__(self, row: Array) -> Any:
        """Explain a row."""
        return self._row(self._encoder(checked_row(row, self._n_features, takes_objects=True).ravel().tolist()))

    def __reduce__(self) -> tuple[object, ...]:
        return make_row, self._arguments


class NamedRow:
    """Rows of texts and numbers by the names of the features, or what `Forest.encoder` made of them."""

    def __init__(self, explainer: Engine, top: int | None) -> None:
        self._arguments = (explainer, top, True)
        forest, players = explainer.game.forest, explainer.game.players
        self._row, self._encoder = _row_of_codes(explainer, top), RowEncoder(forest)
        self._top, self._names = top, players.names or feature_names(forest)
        self._members = [np.flatnonzero(players.of_feature == player).tolist() for player in range(players.n)]

    def __call__(self, row: Any) -> Any:
        """Explain a row."""
        is_encoded = isinstance(row, np.ndarray)
        found = self._row(row if is_encoded else self._encoder(row))
        if self._top is None:
            return found
        values = row.ravel().tolist() if is_encoded else self._encoder.values(row)
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

    def __reduce__(self) -> tuple[object, ...]:
        return make_row, self._arguments


def strongest(phi: Array, top: int) -> tuple[Array, Array]:
    """Features and values of the largest magnitudes, falling; of equal ones the first feature."""
    order = np.argsort(-np.abs(phi), axis=0, kind="stable")[:top].astype(np.int32)
    return order, np.take_along_axis(phi, order, axis=0)
