"""Compare two populations, or two models."""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Doubles, Int64s, Rows
from glasswood.explain import Explainer, Summary
from glasswood.explain.players import make_players
from glasswood.explain.responses.coalitions import MOST, WARNED_SECONDS, CostWarning
from glasswood.explain.responses.response import is_margin
from glasswood.forest import Forest
from glasswood.inputs import with_tables
from glasswood.inputs.batches import batches_of, come_in_batches
from glasswood.loading import load
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import output_names
from glasswood.populations.batches import means_of, parts_of, pooled, standard_error
from glasswood.populations.comparison import Comparison
from glasswood.populations.reading import Labels, Population, Reading, rows_of, smallest, with_unknown
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
    X: Rows | Iterable[Rows] | None = None,
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
    a, b : array-like or frame, batches of rows, two models, or two summaries
        With `model`, two populations, such as the rows of last month and of this month. With `X`, two models of the
        same features, from any libraries. Without either, two summaries of one explainer (`Explainer.summary`).
        Batches come from an iterator, a `polars.LazyFrame`, a `pyarrow.dataset.Dataset` (a folder), or a list of
        frames. They are read once and need constant memory.
    model : Forest, estimator, or any model that `glasswood.load` reads
        For populations, the model that predicts both.
    X : array-like or frame of shape (n, n_features), or batches of rows
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
        CPU (at least 200), and of batches as many as take 128 MiB. None explains all rows, of batches too.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If there are no rows, rows do not fit the model, or the two models have different features or outputs.
    TypeError
        If neither or both of `model` and `X` are given with rows or models, or batches with `sample_weight`.

    Warns
    -----
    CostWarning
        If populations take more than 20 seconds, such as those of many rows with ``max_rows=None``.

    Notes
    -----
    Between populations, the change is the mean SHAP value of the rows of b with a as their background. Changes add up
    exactly to the difference of the mean predictions. glasswood also explains the rows of a with b as their background,
    because the standard error depends on the samples of both populations.

    The drawn rows depend only on the seed and on the order of all rows, so batches give the same bits as the frame that
    they make up. If batches hold more rows than are kept, shifts are those of the kept rows. The means of all rows are
    then sums over batches, equal up to rounding (1e-12 of the largest).

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
    own, coded, settings, both = _read(a, b, model, weights, settings, max_rows, random_state)
    rows, weight = [one.rows[0] for one in both], [one.weight for one in both]
    whole = [Explainer(coded, rows[side], background_weight=weight[side], **settings) for side in (0, 1)]
    names, k = whole[0].players, whole[0].n_outputs
    expected = [
        np.atleast_1d(explainer.expected_value if one.mean is None else one.mean)
        for explainer, one in zip(whole, both, strict=True)
    ]
    drawn = _drawn(own, rows, [one.keys for one in both], settings["output"], max_rows)
    some = [one[at] for one, at in zip(rows, drawn, strict=True)]
    shares = [_some(one[at]) for one, at in zip(weight, drawn, strict=True)]
    is_drawn = any(len(at) < len(one) for at, one in zip(drawn, rows, strict=True))
    explainers = whole
    if is_drawn:
        explainers = [Explainer(coded, some[side], background_weight=shares[side], **settings) for side in (0, 1)]
    change, error, magnitude = _changes(explainers, some, shares, k, n_batches, random_state)
    n_rows = both[0].n_rows, both[1].n_rows
    is_cut = n_rows != (len(rows[0]), len(rows[1]))
    offset = expected[1] - expected[0] - change.sum(axis=0) if is_drawn or is_cut else np.zeros(k)
    is_feature = not settings["groups"]
    parts = parts_of(len(rows[0]), n_batches), parts_of(len(rows[1]), n_batches)
    seen = with_unknown(own, rows, [one.told for one in both])
    moved = shift_of(own, seen, (weight[0], weight[1]), parts, random_state)
    return Comparison(
        "populations", tuple(names), output_names(own, k), change, error, magnitude, expected[0], expected[1], offset,
        moved.distance if is_feature else None, moved.standard_error if is_feature else None, n_rows,
        wording_of(own, settings["output"]),
        (len(some[0]), len(some[1])) if is_drawn or is_cut else None,
        (len(rows[0]), len(rows[1])) if is_feature and is_cut else None,
    )  # fmt: skip


def _read(
    a: Any, b: Any, model: Any, weights: Any, settings: dict[str, Any], max_rows: Any, random_state: int
) -> tuple[TreeEnsemble, Forest, dict[str, Any], list[Population]]:
    """Read both populations, whole or batch by batch; the first rows say how the model takes them."""
    batches = [batches_of(one) if come_in_batches(one) else None for one in (a, b)]
    first = a if batches[0] is None else next(batches[0], None)
    own, coded, settings = _coded(model, settings, first)
    reading = Reading((own,), coded, settings, {}, max_rows, random_state)
    if batches[0] is not None:
        batches[0] = chain(() if first is None else (first,), batches[0])
    both = [
        reading.whole(X, weight, name, side) if parts is None else reading.batches(parts, weight, name, side)
        for side, (X, parts, name, weight) in enumerate(zip((a, b), batches, ("a", "b"), weights, strict=True))
    ]
    return own, coded, settings, both


def _changes(
    explainers: Sequence[Explainer],
    rows: Sequence[Array],
    weights: Sequence[Doubles],
    k: int,
    n_batches: int,
    random_state: int,
) -> tuple[Doubles, Doubles, Doubles]:
    """Explain the rows of each population against the other.

    Returns
    -------
    change, standard_error, mean_abs : (F, k)
        Means over the second population's rows; the error is that of both.
    """
    found, errors = [], []
    magnitude: Any = 0.0
    pace = _Pace(sum(map(len, rows)))
    for side in (0, 1):
        explain = pace.counting(_values_of(explainers[1 - side], rows[side], k))
        means, sizes = means_of(explain, weights[side], parts_of(len(rows[side]), n_batches))
        found.append(pooled(means[:, 0], sizes))
        errors.append(standard_error(means[:, 0], sizes, random_state, side))
        magnitude = pooled(means[:, 1], sizes)
    return found[1], np.hypot(*errors), magnitude


def _drawn(
    forest: TreeEnsemble, rows: Sequence[Array], keys: Sequence[Doubles], output: Any, max_rows: Any
) -> list[Int64s]:
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
    return [smallest(one, n) for one, n in zip(keys, most, strict=True)]


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
    """Says how long the rest takes, once, if that is long; two batches, which plan and build, do not count."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows, self._n_done, self._n_batches, self._is_told = n_rows, 0, 0, False
        self._first: tuple[int, float] | None = None

    def counting(self, values: Callable[[slice], Doubles]) -> Callable[[slice], Doubles]:
        """Count the rows of each batch."""

        def counted(part: slice) -> Doubles:
            found = values(part)
            self._n_done += len(found)
            self._n_batches += 1
            if self._n_batches == 2:
                self._first = self._n_done, time.perf_counter()
            elif self._first is not None and not self._is_told:
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
        against = None if background is None else rows_of(background, own, "background")
        forests.append(own)
        explainers.append(Explainer(coded, against, **found))
    if explainers[0].n_outputs != explainers[1].n_outputs or explainers[0].players != explainers[1].players:
        raise ValueError(
            f"a has {len(explainers[0].players)} features and {explainers[0].n_outputs} outputs, b "
            f"{len(explainers[1].players)} and {explainers[1].n_outputs}; compare models of the same features, with "
            "the same names, and outputs"
        )
    k = explainers[0].n_outputs
    reading = Reading(forests, None, {}, Labels(), max_rows, random_state)
    read = reading.batches(batches_of(X), weights, "X", 0) if come_in_batches(X) else reading.whole(X, weights, "X", 0)
    rows, weight, n_rows = read.rows, read.weight, read.n_rows
    others = explainers[0].game.background
    if max_rows != "auto" or others is not None:
        pairs = [rows[0], rows[0] if others is None else others.rows]
        keys = [read.keys, np.zeros(len(pairs[1]))]
        at = _drawn(forests[0], pairs, keys, settings["output"], max_rows)[0]
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
        return "probability" if is_margin("probability", forest) else "prediction"
    return "margin (log-odds)" if forest.link in {"logistic", "softmax"} and forest.link_scale == 1 else "margin"


def _coded(model: Any, settings: dict[str, Any], X: Any = None) -> tuple[TreeEnsemble, Forest, dict[str, Any]]:
    """Return the forest, and one that takes rows as `as_rows` made them for it, with settings of its explainer."""
    forest = load(model).ensemble if X is None else with_tables(X, load(model).ensemble)
    groups = make_players(settings["groups"], forest).groups or None
    unset: dict[str, Any] = {"categories": None, "category_hash": "", "missing": np.nan, "transform": None}
    unset |= {"open_tables": (), "table_places": np.zeros((0, 0), np.bool_)}
    return forest, Forest(dataclasses.replace(forest, **unset, nan_allowed=True)), settings | {"groups": groups}


def _values_of(explainer: Explainer, rows: Array, k: int) -> Callable[[slice], Doubles]:
    """Make a function of a batch that returns values and their magnitudes, (rows, 2, features, k)."""

    def values(part: slice) -> Doubles:
        found = np.asarray(explainer.shap_values(rows[part]), np.float64)
        return _with_magnitude(found.reshape(*found.shape[:2], k))

    return values


def _with_magnitude(values: Doubles) -> Doubles:
    return np.stack([values, np.abs(values)], axis=1)
