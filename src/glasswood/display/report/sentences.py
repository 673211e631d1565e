"""The first screen of a report: what drives predictions, how good they are, and what the model is, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.base.wording import Wording, count_text, cut_texts, number_text, percent_texts, tick_texts
from glasswood.display.report.performance import errors_of
from glasswood.model.facts import constraints, exposure_text, search_text

if TYPE_CHECKING:
    from glasswood.base.phrases import Phrases
    from glasswood.display.report.rows import ReportRows

LONGEST, DRIVERS = 50, 5
"""Letters of a name in a sentence, and features that have one."""

ONE_WAY = 0.6
"""Share of a curve's range between its lower and upper tenth from which the sentence compares these."""

FEWEST = 10
"""Rows of a category that a sentence names."""

OVERFIT = 1.3
"""Error on test rows, in errors on training rows, from which a model overfits."""


@dataclass(frozen=True, eq=False)
class _Summary:
    """Writes the sentences of a report in its language.

    Attributes
    ----------
    sets : dict of str to ReportRows
        Rows by the name of their set; the last ones tell how good the model is.
    measured : dict
        What `performance` found for each.
    target : str
        Name of what is predicted, or empty.
    units : mapping of str to str
    phrases : Phrases
    """

    sets: dict[str, ReportRows]
    measured: dict[str, dict[str, Any] | None]
    target: str
    units: Mapping[str, str]
    phrases: Phrases

    @property
    def rows(self) -> ReportRows:
        """The rows that the report is about."""
        return next(iter(self.sets.values()))

    def _number(self, value: Any, digits: int) -> str:
        return self.phrases.number(number_text(value, digits))

    def _percents(self, shares: Sequence[float]) -> list[str]:
        return [self.phrases.number(text) for text in percent_texts(shares)]

    def what(self) -> list[str]:
        """Say what the model is."""
        rows, say = self.rows, self.phrases.text
        kind, size = ("tree", rows.forest.n_leaves) if rows.forest.n_trees == 1 else ("trees", rows.forest.n_trees)
        size_text = self.phrases.counted(size, "n leaves" if kind == "tree" else "n trees")
        parts = {
            "model": say(f"a {kind}", size=size_text),
            "features": self.phrases.counted(len(rows.names), "from n features"),
            "name": self.target or say("the target"),
        }
        if is_number(rows):
            outputs = {"outputs": self.phrases.counted(len(rows.classes), "n outputs")}
            key, more = ("predicts outputs", outputs) if len(rows.classes) > 1 else ("predicts", {})
        elif len(rows.classes) == 2:
            key, more = "predicts class", {"label": rows.classes[1]}
            if rows.y is not None:
                [of_rows] = self._percents([float(np.mean(rows.y == 1))])
                key, more = "predicts class of", more | {"share": of_rows, "rows": self._rows_text()}
        else:
            key, more = "predicts classes", {"n": str(len(rows.classes))}
        held = constraints(rows.forest, self.phrases)
        said = say(f"{key} {kind}", **parts, **more)
        cut = search_text(rows.forest, self.phrases)
        cuts = [f"{cut[0].upper()}{cut[1:]}."] if cut else []
        weighted = "" if rows.exposure is None else say("weighted rates")
        rates = filter(None, [exposure_text(rows.forest, self.phrases), weighted])
        return [said, *rates, *([say("by construction", held=held)] if held else []), *cuts]

    def _rows_text(self) -> str:
        return self.phrases.number(count_text(len(self.rows)))

    def how_well(self) -> list[str]:
        """Name a figure of the test rows beside that of the training rows; of the rows shown if there are no others."""
        last, say = list(self.sets)[-1], self.phrases.text
        rows = self.sets[last]
        found = {name: _score(one, self.measured[name]) for name, one in self.sets.items()}
        if found[last] is None:
            return []
        figure = _figure(rows)
        better = [one for one in found.values() if one is not None]
        is_share = figure == "right class"
        texts = self._percents(better) if is_share else [self.phrases.number(_score_text(one)) for one in better]
        figure = say(f"figure {figure}", value=texts[-1])
        beside = self._beside(rows, self.measured[last])
        if len(better) == 2:
            training, test = better
            lost = (1 - test) / max(1 - training, 1e-12)
            key = "test, overfits" if lost > OVERFIT and training - test > 0.05 else "test"
            return [say(key, figure=figure, training=texts[0]), *beside]
        key = "test alone" if last else "these rows alone"
        return [say(key, figure=figure, rows=self._rows_text()), *beside]

    def _beside(self, rows: ReportRows, measured: dict[str, Any] | None) -> list[str]:
        """Say what the figure means: the usual error, what chance does, or what the most frequent class alone gets."""
        if measured is None or rows.y is None:
            return []
        say = self.phrases.text
        if is_number(rows):
            return [say("off by", error=self._number(errors_of(rows).mae, 3))]
        if len(rows.classes) == 2:
            precision, share = measured["classes"][0]["averagePrecision"], float(np.mean(rows.y == 1))
            named, rate = self._percents([precision, share])
            return [say("precision", value=named, times=self._number(precision / share, 2), rate=rate)]
        most = int(np.argmax(measured["counts"]))
        [of_rows] = self._percents([measured["counts"][most] / measured["n"]])
        return [say("always", name=rows.classes[most], share=of_rows)]

    def drivers(self, entries: Sequence[dict[str, Any]], importance: Doubles) -> list[dict[str, Any]]:
        """Describe the effect of each of the most important features by two of its values."""
        rows = self.rows
        entries = [entry for entry in entries if importance[entry["feature"]] > 0][:DRIVERS]
        names = cut_texts([rows.names[entry["feature"]] for entry in entries], LONGEST)
        said = []
        for name, entry in zip(names, entries, strict=True):
            text, direction = self._driver(entry)
            said.append({"feature": entry["feature"], "name": name, "text": text, "direction": direction})
        return said

    def _driver(self, entry: dict[str, Any]) -> tuple[str, int]:
        """Compare the predictions at two values of a feature: its text, and 1 where the first one is higher."""
        rows = self.rows
        averages = np.asarray(entry["average"], np.float64)
        pairs = [_two_values(rows, entry, curve) for curve in averages]
        changes = [abs(curve[high] - curve[low]) for curve, (low, high) in zip(averages, pairs, strict=True)]
        output = 1 if len(averages) == 2 == len(rows.classes) and not is_number(rows) else int(np.argmax(changes))
        curve, grid, (low, high) = averages[output], entry["grid"], pairs[output]
        if curve[high] == curve[low]:
            return self.phrases.text("no effect alone"), 0
        if entry["isText"]:
            first, second = cut_texts([str(grid[high]), str(grid[low])], LONGEST)
        else:
            texts = _values(rows, entry, float(grid[high]), float(grid[low]))
            first, second = (self.phrases.amount(text) for text in texts)
        unit = self.units.get(rows.names[entry["feature"]], "")
        direction = 1 if curve[high] > curve[low] else -1
        parts = {
            "first": f"{first} {unit}" if unit else first,
            "second": second,
            "what": self._what_moves(output, len(averages)),
            "size": self._size(abs(float(curve[high] - curve[low]))),
        }
        return self.phrases.text("driver raises" if direction > 0 else "driver lowers", **parts), direction

    def _what_moves(self, output: int, n_outputs: int) -> str:
        rows, say, target = self.rows, self.phrases.text, self.target
        if rows.classes and len(rows.forest.classes) == 1:
            place = 1 if n_outputs == 1 and len(rows.classes) == 2 else min(output, len(rows.classes) - 1)
            name = rows.classes[place]
            is_label = name in {"True", "False"} or name.removeprefix("-").replace(".", "", 1).isdigit()
            return say("moves probability", name=f"{target} = {name}" if is_label and target else name)
        of = {"name": rows.classes[output]} if rows.classes else {}
        key = "moves target" if target else "moves prediction"
        return say(f"{key} of" if of else key, target=target, **of)

    def _size(self, change: float) -> str:
        rows = self.rows
        if rows.classes and len(rows.forest.classes) == 1:
            points = number_text(100 * change, 2)
            return self.phrases.text("1 point" if points == "1" else "points", number=self.phrases.number(points))
        return self._number(change, 2)


def sentences(
    sets: dict[str, ReportRows],
    measured: dict[str, dict[str, Any] | None],
    target: str,
    entries: Sequence[dict[str, Any]],
    importance: Doubles,
    wording: Wording,
) -> dict[str, list[Any]]:
    """Say what drives predictions, most important first, how good they are on unseen rows, and what the model is.

    `entries` are the partial dependences of the most important features; constraints that hold by construction are a
    sentence of their own.
    """
    writer = _Summary(sets, measured, target, wording.units, wording.phrases)
    return {"drivers": writer.drivers(entries, importance), "quality": writer.how_well(), "what": writer.what()}


def is_number(rows: ReportRows) -> bool:
    """Whether numbers are predicted, and no classes."""
    return not rows.classes or not rows.forest.classes


def _figure(rows: ReportRows) -> str:
    return "R²" if is_number(rows) else "AUC" if len(rows.classes) == 2 else "right class"


def _score(rows: ReportRows, measured: dict[str, Any] | None) -> float | None:
    if measured is None or rows.y is None:
        return None
    if is_number(rows):
        return errors_of(rows).r2
    if len(rows.classes) == 2:
        found: float | None = measured["classes"][0].get("auc")
        return found
    return float(np.trace(measured["matrix"])) / float(measured["n"])


def _score_text(score: float) -> str:
    """Write a score with two decimals, more where these would say that nothing is wrong."""
    return next(text for n in (2, 3, 4, 6) if float(text := f"{score:.{n}f}") < 1 or score == 1 or n == 6)


def _values(rows: ReportRows, entry: dict[str, Any], *values: float) -> list[str]:
    """Write two numbers of a feature: as they are where it has few, else with the digits that their distance needs."""
    if entry["few"]:
        return [text.replace("-", "−") for text in tick_texts(values)]
    column = rows.columns[:10_000, entry["feature"]]
    is_whole = bool((column[np.isfinite(column)] % 1 == 0).all())
    step = abs(values[0] - values[1]) / 20
    decimals = min(0, -int(np.floor(np.log10(step)))) if is_whole else -int(np.floor(np.log10(step)))
    return [text.replace("-", "−") for text in tick_texts([round(value, decimals) for value in values])]


def _two_values(rows: ReportRows, entry: dict[str, Any], curve: Doubles) -> tuple[int, int]:
    """Places in the grid of what is compared: tenths of the values where the curve goes one way, else its extremes."""
    inside = np.arange(len(curve))
    if entry["isText"] or entry["few"]:
        counts = _counts(rows, entry)
        inside = inside[counts >= FEWEST] if (counts >= FEWEST).sum() > 1 else inside
        if entry["isText"]:
            return int(inside[curve[inside].argmin()]), int(inside[curve[inside].argmax()])
    elif len(entry["deciles"]):
        grid = np.asarray(entry["grid"])
        ends = [int(np.abs(grid - entry["deciles"][place]).argmin()) for place in (0, -1)]
        inside = np.arange(ends[0], ends[1] + 1) if ends[0] < ends[1] else inside
    first, last = int(inside[0]), int(inside[-1])
    if abs(curve[last] - curve[first]) >= ONE_WAY * np.ptp(curve[inside]):
        return first, last
    return int(inside[curve[inside].argmin()]), int(inside[curve[inside].argmax()])


def _counts(rows: ReportRows, entry: dict[str, Any]) -> Array:
    """Rows of each value of a grid."""
    column = rows.columns[:, entry["feature"]]
    return np.array([int((column == code).sum()) for code in entry["codes"]])
