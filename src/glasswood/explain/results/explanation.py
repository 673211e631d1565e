"""The result of `explainer(X)`: shap's own class where shap is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.device import on_host
from glasswood.base.escapes import quoted, shown
from glasswood.base.typing import Array, Doubles
from glasswood.explain.responses.labels import checked_labels
from glasswood.explain.results.html import explanation_html
from glasswood.inputs import arranged
from glasswood.inputs.matching import as_trained
from glasswood.inputs.shown import own_values, source_values
from glasswood.inputs.sparse import is_on_gpu, is_sparse, made_dense
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_names, output_names

if TYPE_CHECKING:
    from glasswood.explain.game import Game, Settings


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """SHAP values with what plots need: the fields of shap.Explanation, for machines without shap.

    ``explanation[rows, features, outputs]`` accepts for each axis a number (the result lacks the axis), a slice, a mask
    or an array of numbers; features and outputs can also be names. Interactions can be selected only by rows and
    outputs.

    Attributes
    ----------
    values : (n, P) or (n, P, k); interactions (n, P, P) or (n, P, P, k)
    base_values : float64, (n,) or (n, k)
    data : (n, P)
        The rows as given, with categories by value; NaN for groups.
    feature_names : list of str, or str for a single feature
    output_names : list of str, str for a single output, or None
        Names of k > 1 outputs: classes if the model has them.
    error_std : of the values' shape, or None
        Standard errors of estimated values, 0 for exact values; None if all values are exact.
    """

    values: Array
    base_values: Doubles
    data: Array
    feature_names: list[str] | str
    output_names: list[str] | str | None = None
    error_std: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return tuple(self.values.shape)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, key: Any) -> Explanation:
        keys = list(key) if isinstance(key, tuple) else [key]
        axes = self._axes
        if len(keys) > len(axes):
            raise IndexError(f"explanation[...] has {len(axes)} axes ({', '.join(axes)}), not {len(keys)}")
        names: dict[str, Any] = {"features": self.feature_names, "outputs": self.output_names}
        of_features = [one for one, axis in zip(keys, axes, strict=False) if axis == "features"]
        if axes.count("features") > 1 and not all(map(_is_whole, of_features)):
            raise TypeError("explanation[...] selects only rows of interactions; index explanation.values for pairs")
        places = {axis: _place(one, axis, names.get(axis)) for axis, one in zip(axes, keys, strict=False)}
        taken = {
            "values": _taken(self.values, axes, places),
            "base_values": _taken(self.base_values, [axis for axis in axes if axis != "features"], places),
            "data": _taken(self.data, [axis for axis in axes if axis != "outputs"][: self.data.ndim], places),
        }
        if self.error_std is not None:
            taken["error_std"] = _taken(self.error_std, axes, places)
        for axis, field in (("features", "feature_names"), ("outputs", "output_names")):
            if axis in places:
                found = np.array(names[axis], object)[places[axis]]
                taken[field] = found if isinstance(found, str) else found.tolist()
        return replace(self, **taken)

    @property
    def _axes(self) -> list[str]:
        """What the axes of the values are."""
        outputs = ["outputs"] if isinstance(self.output_names, list) else []
        has_features = isinstance(self.feature_names, list)
        rows = ["rows"] if self.data.ndim > has_features else []
        return rows + ["features"] * (self.values.ndim - len(rows) - len(outputs)) + outputs

    def __repr__(self) -> str:
        outputs = f", outputs {', '.join(map(shown, _listed(self.output_names)))}" if self.output_names else ""
        rows = f"{len(self.values)} rows" if "rows" in self._axes else "1 row"
        n_features = len(_listed(self.feature_names))
        return f"Explanation({rows}, {n_features} feature{'s' * (n_features != 1)}{outputs})"

    def _repr_html_(self) -> str:
        """Features by their effects on a row, or by their mean magnitudes, for notebooks."""
        return explanation_html(repr(self), self)


def _listed(names: list[str] | str | None) -> list[str]:
    return [names] if isinstance(names, str) else names or []


def _is_whole(key: Any) -> bool:
    return isinstance(key, slice) and key == slice(None)


def _place(key: Any, axis: str, names: list[str] | None) -> Any:
    """Place of a name, or the key as it is."""
    if not isinstance(key, str):
        return key
    if names is None or key not in names:
        known = "rows have numbers" if names is None else f"expected one of {', '.join(map(shown, names))}"
        raise IndexError(f"explanation[...] has no {quoted(key)} among its {axis}; {known}")
    return names.index(key)


def _taken(array: Array, axes: Sequence[str], places: dict[str, Any]) -> Any:
    """Take places along axes, the last first, since a number ends its axis."""
    for at, axis in reversed(list(enumerate(axes))):
        if axis in places and not _is_whole(places[axis]):
            array = array[(slice(None),) * at + (places[axis],)]
    return array


def make_explanation(
    game: Game,
    settings: Settings,
    n_outputs: int,
    X: Any,
    values: Array,
    base_values: Doubles,
    errors: Array | None = None,
) -> Any:
    """Wrap the values of rows into shap.Explanation, or into the dataclass above where shap is not installed."""
    forest = game.forest
    data = np.array(values_of_players(game, X)[0])  # the caller may change X later
    names = shown_names(game, settings, arranged(X, forest))
    outputs = list(settings.output_names or output_names(forest, n_outputs))
    named = outputs if len(outputs) > 1 else None
    if importlib.util.find_spec("shap") is None:
        return Explanation(values, base_values, data, names, named, errors)
    from glasswood.explain.results.shown import Explanation as ShownExplanation

    names_of_axes = {"feature_names": names, "output_names": named}
    return ShownExplanation(values=values, base_values=base_values, data=data, error_std=errors, **names_of_axes)


def values_of_players(game: Game, X: Any) -> tuple[Array, Array]:
    """Rows as their user gave them: values of the players, and of the features."""
    forest = game.forest
    source = source_values(X, forest.transform, forest.columns)
    X = arranged(X, forest)
    if is_sparse(X):
        X = made_dense(X.get() if is_on_gpu(X) else X, forest)
    own = own_values(on_host(X), forest)
    return game.players.data(own, forest, source), own


def shown_names(game: Game, settings: Settings, X: object) -> list[str]:
    """Names that the user gave, else those of groups, else those of features."""
    return list(settings.feature_names or (game.players.groups and game.players.names) or names_of(X, game.forest))


def base_values_of(
    forest: TreeEnsemble, output: str, expected_value: float | Doubles, n_rows: int, y: ArrayLike | None
) -> Doubles:
    """Each row's expected value, of the log-loss that of its label: (n,) or (n, k)."""
    expected = np.asarray(expected_value, np.float64)
    if output == "log_loss":
        return expected[checked_labels(y, n_rows, forest)]
    return np.broadcast_to(expected, (n_rows, *expected.shape)).copy()


def names_of(X: object, forest: TreeEnsemble) -> list[str]:
    """Take the forest's names as the frame spells them, else those of the frame, else x0, x1, ..."""
    columns = getattr(X, "columns", None)
    if columns is None or callable(columns) or (not forest.feature_names and len(columns) != forest.n_features):
        return list(feature_names(forest))
    names = [str(getattr(column, "_name", column)) for column in columns]
    if not forest.feature_names:
        return names
    spelled = dict(zip(as_trained(names, forest), names, strict=True))
    return [spelled.get(name, name) for name in forest.feature_names]
