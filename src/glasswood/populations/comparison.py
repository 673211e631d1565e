"""Changes between two populations, or between two models."""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.device import on_host
from glasswood.base.escapes import PICTURE, short, shown
from glasswood.base.extras import import_extra
from glasswood.base.typing import Array, Doubles, Int64s, Rows
from glasswood.explain import Explainer, Summary
from glasswood.explain.players import make_players
from glasswood.explain.responses.coalitions import MOST, WARNED_SECONDS, CostWarning
from glasswood.explain.responses.response import is_margin
from glasswood.forest import Forest
from glasswood.inputs import arranged, as_rows, with_tables, without_extra
from glasswood.inputs.shown import own_values, unknown_labels
from glasswood.loading import load
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import output_names
from glasswood.populations.batches import means_of, parts_of, pooled, standard_error
from glasswood.populations.shift import shift_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 20
"""Features of a picture."""

OPERATIONS, FEWEST_ROWS, PROBED = 4e9, 200, 50
"""Operations that the exact values of the pairs of two populations may take, some ten seconds of a processor; rows that
are explained at least; and rows whose pairs are looked at beforehand."""

LINEAR = 5
"""Operations of a coalition where leaves have equations."""

ROUNDING = 1e-14
"""Part of the mean up to which a change is the rounding of sums of float64."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `glasswood.compare`.

    Attributes
    ----------
    kind : {"populations", "models", "summaries"}
    names : tuple of str
        Features, or groups of features.
    output_names : list of str
    change : ndarray of shape (n_features, k)
        Contribution of each feature to the change of the mean prediction.
    standard_error : ndarray of shape (n_features, k)
        Standard errors of `change`, by a bootstrap over batches (for summaries, as of independent rows); NaN if a
        population has a single batch.
    magnitude : ndarray of shape (n_features, k)
        Mean |φ|: of the rows of b against population a, or of the difference of two models.
    before, after : ndarray of shape (k,)
        Mean predictions of a and of b.
    offset : ndarray of shape (k,)
        Change that no feature explains: between models the difference of the expected values, between populations 0 or,
        where rows were drawn, what their mean differs from that of all.
    shift, shift_error : ndarray of shape (n_features,), or None
        Between populations, how far the distribution of each feature has moved, from 0 to 1: for numbers the largest
        difference of the distribution functions (Kolmogorov and Smirnov), for categories half the sum of the
        differences of the shares. With standard errors.
    n_rows : pair of int
    explained : str
        What the means are of, in words: "prediction", "margin (log-odds)", "probability", ...
    n_explained : pair of int, or None
        Rows that were drawn at random and explained, if not all were.

    Notes
    -----
    ``before + offset + change.sum(axis=0)`` is `after`.
    """

    kind: str
    names: tuple[str, ...]
    output_names: list[str]
    change: Doubles
    standard_error: Doubles
    magnitude: Doubles
    before: Doubles
    after: Doubles
    offset: Doubles
    shift: Doubles | None
    shift_error: Doubles | None
    n_rows: tuple[int, int]
    explained: str = "prediction"
    n_explained: tuple[int, int] | None = None

    def strongest(self, output: int = 0) -> list[str]:
        """Names by how far the change exceeds two standard errors, then by its ratio to the standard error."""
        return [self.names[place] for place in self._order(output)]

    def _order(self, output: int) -> list[int]:
        size, error = np.abs(self.change[:, output]), np.nan_to_num(self.standard_error[:, output])
        certain = np.maximum(size - 2 * error, 0)
        ratio = np.divide(size, error, out=size.copy(), where=error > 0)
        order: list[int] = np.lexsort([-ratio, -certain]).tolist()
        return order

    def rows(self, output: int = 0) -> list[dict[str, Any]]:
        """One dictionary for each feature, the largest change first; `is_certain` if it exceeds two standard errors."""
        found = []
        for place in np.argsort(-np.abs(self.change[:, output]), kind="stable").tolist():
            change, error = float(self.change[place, output]), float(self.standard_error[place, output])
            line = {
                "feature": self.names[place],
                "change": change,
                "standard_error": error,
                "is_certain": abs(change) > 2 * error,
                "magnitude": float(self.magnitude[place, output]),
            }
            if self.shift is not None and self.shift_error is not None:
                line |= {"shift": float(self.shift[place]), "shift_error": float(self.shift_error[place])}
            found.append(line)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything as lists, for JSON; None where a standard error is not known."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    def __str__(self) -> str:
        lines, width = [], min(40, max(24, *map(len, map(shown, self.names))))
        for output, name in enumerate(self.output_names):
            prefix = f"{shown(name)}: " if len(self.output_names) > 1 else ""
            lines.append(f"{prefix}mean {self.explained} {self.before[output]:.6g} → {self.after[output]:.6g}")
            rows = self.rows(output)
            for row in rows:
                moved = f"   moved {row['shift']:.3f} ± {row['shift_error']:.3f}" if "shift" in row else ""
                change = self._change_text(row["change"], output)
                value, mark = (
                    f"{change} ± {row['standard_error']:.2g}",
                    " " if row["is_certain"] or change == "0" else "?",
                )
                lines.append(f"{mark} {short(row['feature'], width):{width}} {value:22}{moved}".rstrip())
            offset = "(drawn rows)" if self.n_explained else "(expected value)"
            if self.offset[output]:
                lines.append(f"  {offset:{width}} {self.offset[output]:+.4g}")
            total = float(self.after[output] - self.before[output])
            lines.append(f"  {'total':{width}} {self._change_text(total, output)}")
        if any(line.startswith("? ") for line in lines):
            lines.append("? The change does not exceed two standard errors.")
        if self.n_explained:
            pairs = zip(self.n_explained, self.n_rows, strict=True)
            drawn = " and ".join(f"{n:,} of {of:,}" for n, of in pairs)
            lines.append(f"Explained by {drawn} rows, drawn at random; the standard errors are theirs.")
        return "\n".join(lines)

    def _change_text(self, change: float, output: int) -> str:
        """Write a change; 0 where the mean's own rounding may have made it."""
        size = max(abs(self.before[output]), abs(self.after[output]), float(self.magnitude[:, output].max(initial=0)))
        return f"{change:+.4g}" if abs(change) > ROUNDING * size else "0"

    def plot(self, axes: Any = None, output: int = 0) -> Any:
        """Draw changes with two standard errors and, beside them, the shifts of the features.

        Parameters
        ----------
        axes : matplotlib Axes, or two of them, optional
        output : int
            Which of several outputs.

        Returns
        -------
        array of matplotlib Axes
        """
        pyplot = import_extra("matplotlib.pyplot", "plot", "pictures need matplotlib")
        rows = self.rows(output)[:MOST_BARS][::-1]
        n = 1 if self.shift is None else 2
        if axes is None:
            size = (5 * n, 1 + 0.3 * len(rows))
            axes = pyplot.subplots(1, n, layout="constrained", squeeze=False, sharey=True, figsize=size)[1][0]
        axes = np.atleast_1d(axes)
        with import_extra("matplotlib", "plot", "pictures need matplotlib").rc_context(PICTURE):
            _bars(axes[0], rows, "change", "standard_error", f"change of the mean {self.explained}")
            if n == 2 and len(axes) == 2:
                _bars(axes[1], rows, "shift", "shift_error", "shift of the feature's distribution")
        return axes


def _plain(value: Any) -> Any:
    """Make lists of arrays, with None for what is not a number."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def _bars(ax: Axes, rows: list[dict[str, Any]], value: str, error: str, label: str) -> None:
    errors = np.nan_to_num([2 * row[error] for row in rows])
    ax.barh(range(len(rows)), [row[value] for row in rows], xerr=errors)
    ax.set_yticks(range(len(rows)), [short(row["feature"]) for row in rows])
    ax.axvline(0, color="0.4", linewidth=0.8)
    ax.set_xlabel(label)


def compare(
    a: Any,
    b: Any,
    *,
    model: Any = None,
    X: Rows | None = None,
    background: Rows | None = None,
    weights: tuple[ArrayLike | None, ArrayLike | None] = (None, None),
    output: Any = "margin",
    groups: Any = None,
    n_batches: int = 20,
    random_state: int = 0,
    device: str = "auto",
    n_jobs: int | None = None,
    ignore_extra: bool = False,
    max_rows: int | Literal["auto"] | None = "auto",
) -> Comparison:
    """Find out which features changed the mean prediction, between two populations or two models.

    Parameters
    ----------
    a, b : array-like or frame, two models, or two summaries
        With `model`, two populations, such as the rows of last month and of this month. With `X`, two models of the
        same features, from any libraries. Without either, two summaries of one explainer (`Explainer.summary`).
    model : Forest, estimator, or any model that `glasswood.load` reads
        For populations, the model that predicts both.
    X : array-like or frame of shape (n, n_features)
        For models, the rows that both predict.
    background : array-like or frame, optional
        For models, background rows of both explainers; default path-dependent values.
    weights : pair of array-like
        Weights of the rows of a and of b; for models, the first one has those of `X`.
    output, groups, device, n_jobs
        As for `Explainer`.
    n_batches : int
        Number of contiguous batches of rows that the bootstrap draws, at least 2. Rows that depend on each other, such
        as those of one day, belong in one batch.
    random_state : int
        Seed of the bootstrap.
    ignore_extra : bool
        Ignore columns that the model does not know.
    max_rows : int, "auto" or None
        Rows of each population (or of X) that are explained; more are drawn at random, in their order, with the seed
        `random_state`. Standard errors are then those of the drawn rows; means are of all rows. "auto" draws only for
        outputs other than the margin, whose cost grows with the number of pairs, as many as take some ten seconds on a
        CPU (at least 200). None explains all rows.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If there are no rows, rows do not fit the model, or the two models have different features or outputs.
    TypeError
        If neither or both of `model` and `X` are given with rows or models.

    Warns
    -----
    CostWarning
        If populations take more than 20 seconds, such as those of many rows with ``max_rows=None``.

    Notes
    -----
    Between populations, the change is the mean SHAP value of the rows of b with a as their background. Changes add up
    exactly to the difference of the mean predictions. glasswood also explains the rows of a with b as their background,
    because the standard error depends on the samples of both populations.

    Between models, SHAP values of the difference of two forests are the differences of their values, since margins are
    sums over trees.

    Examples
    --------
    >>> print(glasswood.compare(last_month, this_month, model=model))  # doctest: +SKIP
    >>> glasswood.compare(old_model, new_model, X=X).plot()  # doctest: +SKIP
    """
    if isinstance(a, Summary) and isinstance(b, Summary) and model is None and X is None:
        return _summaries(a, b)
    if (model is None) == (X is None):
        raise TypeError("pass model=... to compare two populations, or X=... to compare two models")
    if isinstance(n_batches, bool) or not hasattr(n_batches, "__index__") or n_batches < 2:
        raise ValueError(f"n_batches is {n_batches!r}, expected a number of at least 2")
    is_number = hasattr(max_rows, "__index__") and not isinstance(max_rows, bool)
    if max_rows not in ("auto", None) and (not is_number or int(max_rows) < 1):
        raise ValueError(f"max_rows is {max_rows!r}, expected a number of rows, 'auto', or None for all rows")
    settings = {"output": output, "groups": groups, "device": device, "n_jobs": n_jobs, "dtype": "float64"}
    if ignore_extra and model is not None:
        a, b = (without_extra(rows, load(model).ensemble) for rows in (a, b))
    elif ignore_extra:
        X, background = (None if rows is None else without_extra(rows, load(a).ensemble) for rows in (X, background))
    if model is not None:
        if background is not None:
            raise TypeError("background is for two models; populations are each other's background")
        return _populations(a, b, model, weights, int(n_batches), random_state, settings, max_rows)
    return _models(a, b, X, background, weights[0], int(n_batches), random_state, settings, max_rows)


def _populations(
    a: Any, b: Any, model: Any, weights: Any, n_batches: int, random_state: int, settings: dict[str, Any], max_rows: Any
) -> Comparison:
    found, rows, told, weight, parts, errors = [], [], [], [], [], []
    own, coded, settings = _coded(model, settings, a)
    for population, name, given in ((a, "a", weights[0]), (b, "b", weights[1])):
        rows.append(_rows_of(population, own, name))
        told.append(_told_apart(population, own, rows[-1]))
        weight.append(_weights_of(given, len(rows[-1]), name))
        parts.append(parts_of(len(rows[-1]), n_batches))
    whole = [Explainer(coded, rows[side], background_weight=weight[side], **settings) for side in (0, 1)]
    expected = [np.atleast_1d(explainer.expected_value) for explainer in whole]
    drawn = _drawn(own, rows, settings["output"], max_rows, random_state)
    some = [one[at] for one, at in zip(rows, drawn, strict=True)]
    shares = [_some(one[at]) for one, at in zip(weight, drawn, strict=True)]
    is_drawn = any(len(at) < len(one) for at, one in zip(drawn, rows, strict=True))
    explainers = whole
    if is_drawn:
        explainers = [Explainer(coded, some[side], background_weight=shares[side], **settings) for side in (0, 1)]
    names, k = whole[0].players, whole[0].n_outputs
    magnitude: Any = 0.0
    pace = _Pace(sum(map(len, some)))
    for side in (0, 1):
        explain = pace.counting(_values_of(explainers[1 - side], some[side], k))
        means, sizes = means_of(explain, shares[side], parts_of(len(some[side]), n_batches))
        found.append(pooled(means[:, 0], sizes))
        errors.append(standard_error(means[:, 0], sizes, random_state, side))
        magnitude = pooled(means[:, 1], sizes)
    offset = expected[1] - expected[0] - found[1].sum(axis=0) if is_drawn else np.zeros(k)
    is_feature = not settings["groups"]
    moved = shift_of(own, _with_unknown(rows, told), (weight[0], weight[1]), (parts[0], parts[1]), random_state)
    return Comparison(
        "populations", tuple(names), output_names(own, k), found[1], np.hypot(*errors), magnitude, expected[0],
        expected[1], offset, moved.distance if is_feature else None,
        moved.standard_error if is_feature else None, (len(rows[0]), len(rows[1])), wording_of(own, settings["output"]),
        (len(some[0]), len(some[1])) if is_drawn else None,
    )  # fmt: skip


def _drawn(forest: TreeEnsemble, rows: Sequence[Array], output: Any, max_rows: Any, random_state: int) -> list[Int64s]:
    """Places of the rows of two populations that are explained, in their order."""
    most = [len(one) for one in rows]
    if max_rows == "auto":
        if not is_margin(output, forest):
            pairs = OPERATIONS / _operations_of_pair(forest, rows)
            side = max(FEWEST_ROWS, int(math.sqrt(pairs)))
            fewest = min(side, *most)
            most = [min(n, max(side, int(pairs / fewest))) if n > fewest else n for n in most]
    elif max_rows is not None:
        most = [min(n, int(max_rows)) for n in most]
    found = []
    for stream, (one, n) in enumerate(zip(rows, most, strict=True)):
        rng = np.random.default_rng([random_state, stream, len(one)])
        found.append(np.sort(rng.choice(len(one), n, replace=False)) if n < len(one) else np.arange(len(one)))
    return found


def _operations_of_pair(forest: TreeEnsemble, rows: Sequence[Array]) -> float:
    """Estimate what the exact values of a pair of rows cost: its coalitions, and the paths of the trees."""
    used = np.union1d(forest.feature[forest.feature >= 0], forest.linear_feature)
    some, others = (one[:: -(-len(one) // PROBED)][:, used] for one in rows)
    n_differ = np.minimum((some[:, None] != others).sum(axis=2), MOST)
    per_coalition = forest.n_outputs * (LINEAR if forest.has_linear_leaves else 1)
    per_path = forest.depth + len(forest.linear_feature) / len(forest.leaf_value)
    return float(np.mean(2.0**n_differ)) * per_coalition + forest.n_trees * per_path


def _some(weights: Doubles) -> Doubles:
    """Weights of drawn rows; equal ones if all of them are 0."""
    return weights if weights.any() else np.ones(len(weights))


class _Pace:
    """Says how long the rest of the rows takes, once, if that is long; a first batch, which plans, does not count."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows, self._n_done, self._is_told = n_rows, 0, False
        self._first: tuple[int, float] | None = None

    def counting(self, values: Callable[[slice], Doubles]) -> Callable[[slice], Doubles]:
        """Count the rows of each batch."""

        def counted(part: slice) -> Doubles:
            found = values(part)
            self._n_done += len(found)
            if self._first is None:
                self._first = self._n_done, time.perf_counter()
            elif not self._is_told:
                self._tell(*self._first)
            return found

        return counted

    def _tell(self, n_first: int, since: float) -> None:
        rest = (time.perf_counter() - since) * (self._n_rows - self._n_done) / (self._n_done - n_first)
        if rest < WARNED_SECONDS:
            return
        self._is_told = True
        warnings.warn(
            f"comparing {self._n_rows:,} rows takes about {rest:.0f} s more: each row of one population is explained "
            "against all rows of the other, so half of both take a quarter of the time, and values of the margin take "
            "far less",
            CostWarning,
            stacklevel=3,
        )


def _summaries(a: Summary, b: Summary) -> Comparison:
    if not a.is_like(b):
        raise ValueError(
            "the summaries come from different explainers; compare summaries of one model, output and background"
        )
    change, errors = b.mean - a.mean, np.hypot(a.standard_error, b.standard_error)
    before, after = (one.expected_value + one.mean.sum(axis=0) for one in (a, b))
    return Comparison(
        "summaries", a.names, a.output_names, change, errors, b.mean_abs, before, after, np.zeros(len(before)), None,
        None, (a.n_rows, b.n_rows), "output",
    )  # fmt: skip


def _models(
    a: Any,
    b: Any,
    X: Any,
    background: Any,
    weights: Any,
    n_batches: int,
    random_state: int,
    settings: dict[str, Any],
    max_rows: Any,
) -> Comparison:
    forests, explainers = [], []
    for model in (a, b):
        own, coded, found = _coded(model, settings)
        against = None if background is None else _rows_of(background, own, "background")
        forests.append(own)
        explainers.append(Explainer(coded, against, **found))
    if explainers[0].n_outputs != explainers[1].n_outputs or explainers[0].players != explainers[1].players:
        raise ValueError(
            f"a has {len(explainers[0].players)} features and {explainers[0].n_outputs} outputs, b "
            f"{len(explainers[1].players)} and {explainers[1].n_outputs}; compare models of the same features, with "
            "the same names, and outputs"
        )
    k = explainers[0].n_outputs
    rows = [_rows_of(X, forest, "X") for forest in forests]
    weight, n_rows = _weights_of(weights, len(rows[0]), "X"), len(rows[0])
    others = explainers[0].game.background
    if max_rows != "auto" or others is not None:
        pairs = [rows[0], rows[0] if others is None else others.rows]
        at = _drawn(forests[0], pairs, settings["output"], max_rows, random_state)[0]
        rows, weight = [one[at] for one in rows], _some(weight[at])
    parts = parts_of(len(rows[0]), n_batches)
    values = [_values_of(*one, k) for one in zip(explainers, rows, strict=True)]

    def both(part: slice) -> Doubles:
        first, second = (one(part)[:, 0] for one in values)
        return np.stack([second - first, np.abs(second - first), first], axis=1)

    means, sizes = means_of(both, weight, parts)
    change, magnitude, of_a = (pooled(means[:, part], sizes) for part in range(3))
    offsets = [np.atleast_1d(explainer.expected_value) for explainer in explainers]
    before = offsets[0] + of_a.sum(axis=0)
    return Comparison(
        "models", tuple(explainers[0].players), output_names(explainers[0].game.forest, k), change,
        standard_error(means[:, 0], sizes, random_state, 0), magnitude, before,
        before + offsets[1] - offsets[0] + change.sum(axis=0), offsets[1] - offsets[0], None, None,
        (n_rows, n_rows), wording_of(explainers[0].game.forest, settings["output"]),
        (len(rows[0]), len(rows[0])) if len(rows[0]) < n_rows else None,
    )  # fmt: skip


def wording_of(forest: TreeEnsemble, output: Any) -> str:
    """Name what is explained, for people."""
    if not is_margin(output, forest):
        words = {"probability": "probability", "log_loss": "log-loss", "response": "prediction"}
        return words.get(output, "output") if isinstance(output, str) else "output"
    if forest.link == "identity":
        return "probability" if forest.classes else "prediction"
    return "margin (log-odds)" if forest.link in {"logistic", "softmax"} and forest.link_scale == 1 else "margin"


def _coded(model: Any, settings: dict[str, Any], X: Any = None) -> tuple[TreeEnsemble, Forest, dict[str, Any]]:
    """Return the forest, and one that takes rows as `as_rows` made them for it, with settings of its explainer."""
    forest = load(model).ensemble if X is None else with_tables(X, load(model).ensemble)
    groups = make_players(settings["groups"], forest).groups or None
    unset: dict[str, Any] = {"categories": None, "category_hash": "", "missing": np.nan, "transform": None}
    unset |= {"open_tables": (), "table_places": np.zeros((0, 0), np.bool_)}
    return forest, Forest(dataclasses.replace(forest, **unset, nan_allowed=True)), settings | {"groups": groups}


def _rows_of(X: Any, forest: TreeEnsemble, name: str) -> Array:
    try:
        rows = as_rows(arranged(X, forest, by_position=False), forest)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error
    if not len(rows):
        raise ValueError(f"{name} has no rows, expected at least 1")
    return rows


def _told_apart(X: Any, forest: TreeEnsemble, rows: Array) -> dict[int, dict[Any, Array]]:
    """Rows of each category that the forest's table lacks, by feature and label."""
    tables = forest.categories or ()
    found: dict[int, dict[Any, Array]] = {}
    shown = None
    for feature, table in enumerate(tables):
        if table is None or (rows[:, feature] < len(table)).all():
            continue
        shown = own_values(arranged(on_host(X), forest, by_position=False), forest) if shown is None else shown
        unknown = unknown_labels(shown[:, feature], rows[:, feature], table)
        labels = dict.fromkeys(shown[unknown, feature].tolist())
        found[feature] = {label: unknown & (shown[:, feature] == label) for label in labels}
    return found


def _with_unknown(rows: list[Array], told: list[dict[int, dict[Any, Array]]]) -> tuple[Array, Array]:
    """Give categories that the forest's tables lack codes of their own, the same in both populations."""
    if not any(told):
        return rows[0], rows[1]
    result = [each.copy() for each in rows]
    for feature in {*told[0], *told[1]}:
        labels = dict.fromkeys(label for one in told for label in one.get(feature, ()))
        first = 1 + max(float(np.nanmax(each[:, feature], initial=-1)) for each in rows)
        for place, label in enumerate(labels):
            for one, each in zip(told, result, strict=True):
                if (mask := one.get(feature, {}).get(label)) is not None:
                    each[mask, feature] = first + place
    return result[0], result[1]


def _weights_of(weights: Any, n_rows: int, name: str) -> Doubles:
    found = np.ones(n_rows) if weights is None else np.asarray(weights, np.float64)
    if found.shape != (n_rows,) or not (np.isfinite(found) & (found >= 0)).all() or not found.any():
        raise ValueError(f"weights of {name} have shape {found.shape}, expected {n_rows} of at least 0, not all 0")
    return found


def _values_of(explainer: Explainer, rows: Array, k: int) -> Callable[[slice], Doubles]:
    """Make a function of a batch that returns values and their magnitudes, (rows, 2, features, k)."""

    def values(part: slice) -> Doubles:
        found = np.asarray(explainer.shap_values(rows[part]), np.float64)
        return _with_magnitude(found.reshape(*found.shape[:2], k))

    return values


def _with_magnitude(values: Doubles) -> Doubles:
    return np.stack([values, np.abs(values)], axis=1)
