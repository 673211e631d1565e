"""Compare two populations, or two models."""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.device import on_host
from glasswood.base.escapes import quoted, retold, shown
from glasswood.base.seeds import generator_of
from glasswood.base.typing import Array, Doubles, Int64s, Rows
from glasswood.explain import Explainer, Summary
from glasswood.explain.players import make_players
from glasswood.explain.responses.coalitions import MOST, WARNED_SECONDS, CostWarning
from glasswood.explain.responses.response import is_margin
from glasswood.forest import Forest
from glasswood.inputs import arranged, as_rows, with_tables
from glasswood.inputs.shown import own_values, unknown_labels
from glasswood.loading import load
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import output_names
from glasswood.populations.batches import means_of, parts_of, pooled, standard_error
from glasswood.populations.comparison import Comparison
from glasswood.populations.shift import shift_of

OPERATIONS, FEWEST_ROWS, PROBED = 4e9, 200, 50
"""Operations that the exact values of the pairs of two populations may take, some ten seconds of a processor; rows that
are explained at least; and rows whose pairs are looked at beforehand."""

LINEAR = 5
"""Operations of a coalition where leaves have equations."""


def compare(
    a: Any,
    b: Any,
    *,
    model: Any = None,
    X: Rows | None = None,
    background: Rows | None = None,
    sample_weight: tuple[ArrayLike | None, ArrayLike | None] = (None, None),
    output: Any = "margin",
    groups: Any = None,
    n_batches: int = 20,
    random_state: int = 0,
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
    sample_weight : pair of array-like
        Weights of the rows of a and of b; for models, the first one has those of `X`.
    output, groups
        As for `Explainer`.
    n_batches : int
        Number of contiguous batches of rows that the bootstrap draws, at least 2. Rows that depend on each other, such
        as those of one day, belong in one batch.
    random_state : int
        Seed of the bootstrap.
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
        raise ValueError(f"n_batches is {quoted(n_batches)}, expected a number of at least 2")
    is_number = hasattr(max_rows, "__index__") and not isinstance(max_rows, bool)
    if max_rows not in ("auto", None) and (not is_number or int(max_rows) < 1):
        raise ValueError(f"max_rows is {quoted(max_rows)}, expected a number of rows, 'auto', or None for all rows")
    settings = {"output": output, "groups": groups, "dtype": "float64"}
    if model is not None:
        if background is not None:
            raise TypeError("background is for two models; populations are each other's background")
        return _populations(a, b, model, sample_weight, int(n_batches), random_state, settings, max_rows)
    return _models(a, b, X, background, sample_weight[0], int(n_batches), random_state, settings, max_rows)


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
        rng = generator_of(random_state, stream, len(one))
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
    if not a._is_like(b):
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
        rows = as_rows(arranged(X, forest), forest)
    except (TypeError, ValueError) as error:
        raise retold(error, f"{shown(name)}: {shown(error)}") from error
    if not len(rows):
        raise ValueError(f"{shown(name)} has no rows, expected at least 1")
    return rows


def _told_apart(X: Any, forest: TreeEnsemble, rows: Array) -> dict[int, dict[Any, Array]]:
    """Rows of each category that the forest's table lacks, by feature and label."""
    tables = forest.categories or ()
    found: dict[int, dict[Any, Array]] = {}
    shown = None
    for feature, table in enumerate(tables):
        if table is None or (rows[:, feature] < len(table)).all():
            continue
        shown = own_values(arranged(on_host(X), forest), forest) if shown is None else shown
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
        raise ValueError(
            f"sample_weight of {shown(name)} has shape {found.shape}, expected {n_rows} of at least 0, not all 0"
        )
    return found


def _values_of(explainer: Explainer, rows: Array, k: int) -> Callable[[slice], Doubles]:
    """Make a function of a batch that returns values and their magnitudes, (rows, 2, features, k)."""

    def values(part: slice) -> Doubles:
        found = np.asarray(explainer.shap_values(rows[part]), np.float64)
        return _with_magnitude(found.reshape(*found.shape[:2], k))

    return values


def _with_magnitude(values: Doubles) -> Doubles:
    return np.stack([values, np.abs(values)], axis=1)
