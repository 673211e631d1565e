"""What raised and what lowered the output for a row, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glasswood.base.device import on_host
from glasswood.base.escapes import quoted, shown
from glasswood.base.phrases import Phrases
from glasswood.base.typing import Doubles
from glasswood.base.wording import Wording, checked_wording, decimals_of, fixed_text, number_text, quoted_name
from glasswood.evaluate.links import expit, has_probabilities
from glasswood.explain.responses.response import (
    SLOPES,
    is_margin,
    returns_probabilities,
    slope_of_link,
)
from glasswood.explain.results.explanation import shown_names, values_of_players
from glasswood.explain.shap_arguments import as_table
from glasswood.inputs.encoder import RowEncoder
from glasswood.inputs.matching import listed
from glasswood.inputs.shown import MISSING
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_names, is_per_exposure, output_names

if TYPE_CHECKING:
    from glasswood.explain.game import Game, Settings

PREDICTION = "prediction"
"""Name in `units` of what is predicted."""

MOST_MEMBERS = 3
"""Features of a group that are named with their values."""

DIGITS = 4
"""Significant digits of a row's own values."""


class Explained(NamedTuple):
    """What a row is explained by: values, their standard errors, the expected value, and the row's own values.

    Attributes
    ----------
    values, errors : float64, (players, k)
    expected : float64, (k,)
    own : sequence
        Values of the players.
    members : sequence
        Values of the features.
    """

    values: Doubles
    errors: Doubles
    expected: Doubles
    own: Sequence[Any]
    members: Sequence[Any]


@dataclass(frozen=True, eq=False)
class Writer:
    """Writes the sentences of rows.

    Attributes
    ----------
    game : Game
    settings : Settings
    names : sequence of str
        Names of the players.
    phrases : Phrases
    wording : Wording
        Has the units.
    top : int
        Features that have a sentence of their own.
    output : int or None
        Which of several outputs; None: the class that the row most probably has.
    n_outputs : int
    """

    game: Game
    settings: Settings
    names: Sequence[str]
    phrases: Phrases
    wording: Wording
    top: int
    output: int | None
    n_outputs: int

    def write(self, row: Explained) -> list[str]:
        """Write what the row's output is and against what, then a sentence for each of the strongest features."""
        k = self._output_of(row)
        values, expected = row.values[:, k], float(row.expected[k])
        end, scale = expected + float(values.sum()), scale_of(self.game.forest, self.settings.output)
        order = np.argsort(-np.abs(values), kind="stable").tolist()
        n_top = len(order) if len(order) == self.top + 1 else self.top
        sizes = [scale.size(float(value)) for value in values[order]]
        decimals = decimals_of(max([*map(abs, sizes), abs(scale.size(end - expected))], default=0.0))
        listed = [
            (place, size) for place, size in zip(order[:n_top], sizes, strict=False) if scale.is_visible(size, decimals)
        ]
        told = [place for place, _ in listed]
        found = [self._heading(end, expected, k, scale, decimals)]
        found += [
            self._change(self._feature(row, place), size, float(row.errors[place, k]), scale, decimals)
            for place, size in listed
        ]
        rest = np.setdiff1d(np.arange(len(values)), told)
        others = scale.size(float(values[rest].sum()))
        if len(rest) and scale.is_visible(others, decimals):
            found.append(self._others(others, len(rest), scale, decimals))
        return found

    def _output_of(self, row: Explained) -> int:
        if self.output is not None:
            return self.output
        return int((row.expected + row.values.sum(axis=0)).argmax()) if len(row.expected) > 1 else 0

    def _heading(self, end: float, expected: float, k: int, scale: Scale, decimals: int) -> str:
        phrases = self.phrases
        what, value, base = self._what(k, scale), self._end(end, scale, decimals), self._base(expected, scale, decimals)
        if scale.kind == "odds":
            return phrases.text("odds", what=what, value=value, factor=self._factor(end - expected), base=base)
        change = scale.size(end - expected)
        text = "above" if change > 0 else "below"
        text = text if scale.is_visible(change, decimals) else "equal"
        return phrases.text(text, what=what, value=value, size=self._size(abs(change), scale, decimals), base=base)

    def _what(self, k: int, scale: Scale) -> str:
        forest, n = self.game.forest, self.n_outputs
        names = self.settings.output_names or output_names(forest, n)
        labels = forest.classes[0].tolist() if len(forest.classes) == 1 else []
        name = shown(str(names[k])) if n > 1 else shown(str(labels[1])) if len(labels) == 2 else ""
        if self.settings.output == "decision" and name:
            return self.phrases.text("decision for", name=name)
        kind = "probability" if scale.kind in {"share", "odds"} else "prediction"
        if kind == "prediction" and labels and name:
            return self.phrases.text("score of", name=name)
        if kind == "prediction" and n == 1 and is_per_exposure(forest):
            return self.phrases.text("prediction per exposure")
        is_named = bool(name) and (n == 1 or bool(forest.classes) or bool(forest.outputs))
        return self.phrases.text(f"{kind} of", name=name) if is_named or n > 1 else self.phrases.text(kind)

    def _end(self, end: float, scale: Scale, decimals: int) -> str:
        """Write what is explained."""
        value = scale.shown(end)
        if scale.kind == "odds":
            percent = 100 * value
            return self._percent(percent, decimals_of(min(percent, 100 - percent)))
        if scale.kind == "share":
            return self._percent(100 * value, decimals)
        if scale.kind == "percent":
            return self._with_unit(self.phrases.number(number_text(value, DIGITS)))
        return self._with_unit(self.phrases.number(fixed_text(value, decimals)))

    def _percent(self, percent: float, decimals: int) -> str:
        return self.phrases.text("percent", number=self.phrases.number(fixed_text(percent, decimals)))

    def _base(self, expected: float, scale: Scale, decimals: int) -> str:
        """Say against what values are."""
        kind = {"odds": " log-odds", "percent": " logarithm"}.get(scale.kind, "")
        value = self._end(expected, scale, decimals)
        background = self.game.background
        if background is None:
            return self.phrases.text(f"average{kind}", value=value)
        n = self.phrases.number(f"{len(background):,}")
        return self.phrases.text(f"background{kind}", n=n, value=value)

    def _change(self, feature: str, size: float, error: float, scale: Scale, decimals: int) -> str:
        text = "raises" if size > 0 else "lowers"
        is_odds = scale.kind == "odds"
        said = self._factor(abs(size)) if is_odds else self._size(abs(size), scale, decimals)
        error = scale.error(abs(size), error)
        if error >= 0.5 * 10.0 ** -(2 if is_odds else decimals):
            shown_error = self.phrases.number(f"{error:.2f}") if is_odds else self._size(error, scale, decimals)
            said = self.phrases.text("uncertain", size=said, error=shown_error)
        return self.phrases.text(f"{text} odds" if is_odds else text, feature=feature, size=said)

    def _others(self, size: float, n: int, scale: Scale, decimals: int) -> str:
        """Say what the features without a sentence of their own add."""
        if n == 1:
            sentence = self._change(self.phrases.text("other"), size, 0.0, scale, decimals)
            return sentence[:1].upper() + sentence[1:]
        text = f"others {'raise' if size > 0 else 'lower'}{' odds' if scale.kind == 'odds' else ''}"
        number = self._factor(abs(size)) if scale.kind == "odds" else self._size(abs(size), scale, decimals)
        return self.phrases.text(text, n=str(n), size=number)

    def _size(self, size: float, scale: Scale, decimals: int) -> str:
        number = self.phrases.number(fixed_text(size, decimals))
        if scale.kind == "share":
            return self.phrases.text("points", number=number)
        return self.phrases.text("percent", number=number) if scale.kind == "percent" else self._with_unit(number)

    def _factor(self, log_odds: float) -> str:
        factor = math.exp(min(log_odds, 700.0))
        return self.phrases.number(f"{factor:.2f}" if 1 <= factor < 10 else number_text(factor, 3))

    def _with_unit(self, text: str) -> str:
        return self.wording.with_unit(text, PREDICTION)

    def _feature(self, row: Explained, place: int) -> str:
        """Name a feature and its value, or a group and the values of its features."""
        players, forest = self.game.players, self.game.forest
        name = shown(quoted_name(self.names[place]))
        members = np.flatnonzero(players.of_feature == place).tolist()
        if len(members) == 1 or not (isinstance(row.own[place], Real) and row.own[place] != row.own[place]):
            own = feature_names(forest)[members[0]] if members else self.names[place]
            return f"{name} = {self._value(row.own[place], own)}"
        if players.columns or len(members) > MOST_MEMBERS:
            return name
        features = feature_names(forest)
        listed = ", ".join(
            f"{shown(quoted_name(features[i]))} = {self._value(row.members[i], features[i])}" for i in members
        )
        return f"{name} ({listed})"

    def _value(self, value: Any, feature: str) -> str:
        if value is None or (isinstance(value, str) and value == MISSING) or value != value:
            return self.phrases.text("missing")
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
            return shown(str(value))
        return self.wording.with_unit(self.phrases.number(number_text(float(value), DIGITS)), feature)


class Scale(NamedTuple):
    """How values of an output are written.

    Attributes
    ----------
    kind : {"number", "share", "odds", "percent"}
        Numbers in the output's unit, points of a probability, factors of odds, percent of a prediction whose logarithm
        is explained.
    slope : float
        What a margin is multiplied with in the logistic function.
    """

    kind: str
    slope: float = 1.0

    def size(self, value: float) -> float:
        """Turn a value into the number that is written."""
        if self.kind == "share":
            return 100 * value
        if self.kind == "odds":
            return self.slope * value
        return 100 * math.expm1(min(value, 700.0)) if self.kind == "percent" else value

    def error(self, size: float, error: float) -> float:
        """Turn the standard error of a value into that of the number that is written for it."""
        if self.kind == "share":
            return 100 * error
        if self.kind == "odds":
            return abs(self.slope) * error * math.exp(min(size, 700.0))
        return (100 + size) * error if self.kind == "percent" else error

    def shown(self, end: float) -> float:
        """Turn what is explained into the number that is written."""
        if self.kind == "odds":
            return float(expit(np.array([self.slope * end]))[0])
        return math.exp(min(end, 700.0)) if self.kind == "percent" else end

    def is_visible(self, size: float, decimals: int) -> bool:
        """Whether the text of a change is not 0."""
        least = math.log(1.005) if self.kind == "odds" else 0.5 * 10.0**-decimals
        return abs(size) >= least


def scale_of(forest: TreeEnsemble, output: Any) -> Scale:
    """Choose how values of an output are written."""
    if callable(output):
        return Scale("number")
    if output in {"probability", "decision"} or (output == "response" and has_probabilities(forest)):
        return Scale("share")
    if not is_margin(output, forest):
        return Scale("number")
    if returns_probabilities(forest):
        return Scale("share")
    if forest.link in SLOPES:
        return Scale("odds", slope_of_link(forest))
    return Scale("percent") if forest.link == "exp" else Scale("number")


def writer_of(
    explainer: Any,
    units: Mapping[str, str] | None = None,
    language: str = "en",
    top: int = 5,
    output: int | str | None = None,
    names: Sequence[str] | None = None,
) -> Writer:
    """Check how sentences are to be written.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        As for `Explainer.sentences`.
    """
    game, settings, k = explainer.game, explainer.settings, explainer.n_outputs
    if settings.output == "log_loss":
        raise NotImplementedError("sentences have no labels for output='log_loss'; use shap_values(X, y=y)")
    if isinstance(top, bool) or not hasattr(top, "__index__"):
        raise TypeError(f"top is {quoted(top)}, expected a number of features")
    if top < 1:
        raise ValueError(f"top is {top}, expected at least 1 feature")
    known = [*feature_names(game.forest), *explainer.players, *(names or ()), PREDICTION]
    wording = checked_wording(Wording(units=units or {}), known)
    outputs = list(map(str, explainer.named_outputs))
    place = None if output is None else _place(output, outputs)
    if place is None and k > 1 and len(game.forest.classes) != 1:
        raise ValueError(f"the model has {k} outputs; say by output= which one: {listed(outputs)}")
    return Writer(game, settings, names or explainer.players, Phrases(language), wording, int(top), place, k)


def _place(output: int | str, outputs: list[str]) -> int:
    """Find an output by its name or number."""
    if isinstance(output, str) and output in outputs:
        return outputs.index(output)
    is_number = hasattr(output, "__index__") and not isinstance(output, bool | str)
    if not is_number or not 0 <= int(output) < len(outputs):
        raise ValueError(f"output is {quoted(output)}, expected 0 to {len(outputs) - 1}, or one of {listed(outputs)}")
    return int(output)


def sentences_of(
    explainer: Any,
    X: Any,
    units: Mapping[str, str] | None,
    language: str,
    top: int,
    output: int | str | None,
    standard_errors: bool = False,
) -> Any:
    """`Explainer.sentences`."""
    game = explainer.game
    if isinstance(X, Mapping) or type(X) is dict:
        if standard_errors:
            raise TypeError("a mapping has no standard errors; pass a row of a frame or an array")
        return _of_mapping(explainer, X, writer_of(explainer, units, language, top, output))
    is_row = getattr(X, "ndim", 2) == 1
    X = as_table(X, game.forest) if is_row else X
    writer = writer_of(explainer, units, language, top, output, shown_names(game, explainer.settings, X))
    found = explainer.shap_values(X, standard_errors=standard_errors or "estimates")
    values, errors = (np.asarray(on_host(one), np.float64) for one in found)
    values, errors = (one.reshape(*one.shape[:2], explainer.n_outputs) for one in (values, errors))
    own, members = values_of_players(game, X)
    expected = np.atleast_1d(explainer.expected_value)
    rows = zip(values, errors, own, members, strict=True)
    said = [writer.write(Explained(value, error, expected, *parts)) for value, error, *parts in rows]
    return said[0] if is_row else said


def _of_mapping(explainer: Any, row: Mapping[str, Any], writer: Writer) -> list[str]:
    """Explain a row by the names of its features."""
    values = np.asarray(explainer.row(names=True)(row), np.float64).reshape(len(writer.names), -1)
    members = RowEncoder(explainer.game.forest).values(row)
    of_feature = explainer.game.players.of_feature
    own = [
        members[int(of[0])] if len(of) == 1 else math.nan
        for of in (np.flatnonzero(of_feature == player) for player in range(explainer.game.players.n))
    ]
    expected = np.atleast_1d(explainer.expected_value)
    return writer.write(Explained(values, np.zeros_like(values), expected, own, members))
