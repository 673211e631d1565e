"""Batches of rows to explanations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from glasswood.base.escapes import quoted, shown
from glasswood.base.typing import Array
from glasswood.base.wording import spelled
from glasswood.explain.results.sentences import writer_of
from glasswood.explain.stored import explainer_bytes
from glasswood.inputs import refuse_transform
from glasswood.inputs.matching import index_of_feature, listed
from glasswood.mapping.carried import carry
from glasswood.mapping.columns import (
    explanation_metadata,
    interaction_columns,
    margin_columns,
    strongest_columns,
    value_columns,
)
from glasswood.mapping.mapper import Mapper, threads_of_workers
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_names

OUTPUTS = ("values", "interactions", "margin", "sentences")


class ExplanationMapper(Mapper):
    """Maps batches to explanations (`Explainer.mapper`)."""

    def __init__(
        self,
        explainer: Any,
        output: str,
        columns: Any,
        inputs: Sequence[str] | None,
        features: Sequence[int | str] | None,
        path: str | os.PathLike[str] | None,
        top: int | None = None,
        wording: dict[str, Any] | None = None,
    ) -> None:
        if output not in OUTPUTS:
            raise ValueError(f"output is {quoted(output)}, expected one of {', '.join(OUTPUTS)}")
        if explainer.settings.output == "log_loss":
            raise NotImplementedError("batches have no labels for output='log_loss'; use shap_values(X, y=y)")
        refuse_transform(explainer.game.forest, "mapper", "shap_values", takes_statistics=True)
        self._wording = (wording or {}) | ({} if top is None else {"top": top})
        if output == "sentences":
            writer_of(explainer, **self._wording)
            if features is not None:
                raise ValueError("features selects columns of values; leave it out for sentences, which have top=")
        players = player_names(explainer)
        self._places = None if features is None else _places(features, players)
        if self._places and output == "values":
            self._places.sort()
        self._wanted = players if self._places is None else tuple(players[place] for place in self._places)
        self._top = None if top is None or output == "sentences" else _checked_top(top, output, explainer, self._wanted)
        self._class, self._output, self._device = type(explainer), output, explainer.settings.device
        self._n_jobs = threads_of_workers()
        super().__init__(explainer, path, inputs, columns)
        if explainer.settings.n_jobs != self._n_jobs:
            self._model, self._live = self._model or carry(self._content()), None

    def _content(self) -> bytes:
        return explainer_bytes(self._live.game, self._live.settings)

    def _open(self, source: bytes | str) -> Any:
        return self._class._opened(source, self._device, self._n_jobs)

    def _forest(self, engine: Any) -> TreeEnsemble:
        trees: TreeEnsemble = engine.game.forest
        return trees

    @property
    def _settings(self) -> tuple[object, ...]:
        return self._device, self._n_jobs

    @property
    def n_results(self) -> int:
        """Numbers that a row takes while it is explained."""
        players = len(player_names(self._engine)) if self._output == "interactions" else 1
        return len(self._wanted) * players * int(self._engine.n_outputs)

    @property
    def metadata(self) -> dict[str, Any]:
        """What `glasswood explain` writes beside its results."""
        explainer = self._engine
        return explanation_metadata(player_names(explainer), explainer.expected_value, explainer.game.forest)

    def _compute(self, engine: Any, rows: Any) -> dict[str, Array]:
        forest, players = engine.game.forest, player_names(engine)
        columns: dict[str, Array] = {}
        if self._output == "sentences":
            return {"sentences": self._texts(engine, rows)}
        if self._output == "interactions":
            columns = interaction_columns(self._of_array(engine, rows), self._wanted, players, forest)
        elif self._top is not None:
            columns = strongest_columns(self._values(engine, rows), self._wanted, self._top)
        elif self._output == "values":
            columns = value_columns(self._of_array(engine, rows), self._wanted, forest)
        margin = engine.forest.predict(rows, output="margin", device=self._device, n_jobs=self._n_jobs)
        return columns | margin_columns(margin, engine.expected_value, forest)

    def _texts(self, engine: Any, rows: Any) -> Array:
        """Join the sentences of each row."""
        return np.array([" ".join(said) for said in engine.sentences(rows, **self._wording)], object)

    def _values(self, engine: Any, rows: Any) -> Any:
        values = engine.shap_values(rows)
        return values if self._places is None else values[:, self._places]

    def _of_array(self, engine: Any, rows: Any) -> Any:
        if self._output == "sentences":
            return self._texts(engine, rows)
        if self._top is not None:
            raise TypeError("an array cannot hold names beside values, as top= asks for; pass a frame or a table")
        if self._output == "values":
            return self._values(engine, rows)
        if self._output == "interactions":
            return engine.shap_interaction_values(rows, features=self._places)
        return engine.forest.predict(rows, output="margin", device=self._device, n_jobs=self._n_jobs)


def _checked_top(top: int, output: str, explainer: Any, names: Sequence[str]) -> int:
    """Check how many of a row's strongest features are wanted.

    Raises
    ------
    ValueError
        If `top` is not a number of features, the results are not values, or a row has several outputs.
    """
    if output != "values":
        raise ValueError(f"top selects the strongest of a row's values; leave it out for output={quoted(output)}")
    if explainer.n_outputs > 1:
        raise ValueError(f"top requires a model with one output, this one has {explainer.n_outputs}")
    if not (isinstance(top, int | np.integer) and 1 <= top <= len(names)):
        raise ValueError(f"top is {quoted(top)}, expected a whole number from 1 to {len(names)}, the features")
    return int(top)


def _places(features: Sequence[int | str], players: Sequence[str]) -> list[int]:
    """Look up features or groups by index or name, each once, in the order in which they are asked for."""
    if isinstance(features, str) or not hasattr(features, "__iter__"):
        instead = f"; pass [{features!r}]" if isinstance(features, str) else ""
        raise TypeError(f"features is {quoted(features)}, expected a list of indices or names{shown(instead)}")
    check_features([name for name in features if isinstance(name, str)], players, "features")
    names = tuple(players)
    return list(dict.fromkeys(index_of_feature(feature, len(names), names, "features") for feature in features))


def check_features(wanted: Sequence[str], players: Sequence[str], option: str) -> None:
    """Raise ValueError if there are no such features or groups; `option` says where they were named."""
    if unknown := [name for name in spelled(wanted, players) if name not in players]:
        raise ValueError(f"{option} names {listed(unknown)}; the model's features are {listed(players)}")


def player_names(explainer: Any) -> tuple[str, ...]:
    """Names of the groups, or of the features; x0, x1, ... where the model has none."""
    return tuple(explainer.players) if explainer.groups else feature_names(explainer.game.forest)
