"""Shapley values of a score: how much of a model's loss reduction, or R², each feature is worth."""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from glasswood import _core
from glasswood.base.escapes import escaped_errors
from glasswood.base.extras import import_extra
from glasswood.base.files import check_output, replacing
from glasswood.base.parallel import n_threads as threads_of
from glasswood.base.typing import Array, Doubles, Rows
from glasswood.explain.background import Background, merged
from glasswood.explain.explainer import Explainer
from glasswood.explain.responses.labels import checked_labels
from glasswood.explain.responses.permutations import EstimateWarning
from glasswood.explain.responses.response import Response, has_probabilities, is_margin, make_response
from glasswood.explain.score_estimates import Chains, estimated
from glasswood.inputs import arranged
from glasswood.inputs.placed import PlacedRows
from glasswood.inputs.targets import as_targets, refuse_text
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.storage import UNREADABLE

Loss = Literal["auto", "squared", "absolute", "log_loss", "poisson"]
LOSSES = ("auto", "squared", "absolute", "log_loss", "poisson")

MOST = 20
"""Features or groups that the forest may test: 2 to this many coalitions of a row."""

CUBE_BYTES = 2**26
"""Bytes of the outputs of all coalitions of the rows that are computed together."""

ROWS_TOGETHER = 256
"""Rows whose margins are explained together where values of the score are estimates."""

SMALLEST = 1e-15
"""Probability at which the log-loss is clipped, and mean at which the Poisson deviance is."""


@dataclass(frozen=True, eq=False)
class ScoreValues:
    """What each feature is worth to a score (`glasswood.score_values`). ``a + b`` are those of the rows of both.

    Attributes
    ----------
    names : tuple of str
        Features, or groups and the other features.
    values : float64, (F,)
        Mean reduction of the loss by each feature; they add up to `total`.
    standard_error : float64, (F,)
        Of `values`, over the rows; that the background is a sample is not part of it.
    baseline : float
        Mean loss without any feature.
    total : float
        `baseline` minus the model's mean loss.
    loss : str
    n_rows : int
    rows, row_errors : float64, (n, F), or None
        Reductions of each row's loss, with ``per_row=True``; standard errors of those that are estimates, else None.
    estimate_error : float64, (F,)
        Standard errors of `values` as estimates of those of these rows, part of `standard_error`; 0 if all are exact.
    """

    names: tuple[str, ...]
    loss: str
    n_rows: int
    baseline: float
    rows: Doubles | None
    moments: Doubles
    """Σw, Σw² of the rows, of their values φ: Σwφ, Σw²φ, Σw²φ², and of their variances v: Σw²v; (6, F)."""
    row_errors: Doubles | None = None

    @property
    def values(self) -> Doubles:
        """Mean reduction of the loss by each feature, (F,)."""
        return np.asarray(self.moments[2] / self.moments[0])

    @property
    def standard_error(self) -> Doubles:
        """Standard errors of the values over the rows, (F,); NaN for one row."""
        total, squares, _, first, second, _ = self.moments
        mean = self.values
        spread = np.maximum(second - 2 * mean * first + mean**2 * squares, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.sqrt(spread * self.n_rows / (self.n_rows - 1)) / total)

    @property
    def estimate_error(self) -> Doubles:
        """Standard errors of the values as estimates of those of these rows, (F,); 0 where all are exact."""
        return np.asarray(np.sqrt(self.moments[5]) / self.moments[0])

    @property
    def is_estimated(self) -> bool:
        """Whether values are estimates from random orders of the features."""
        return bool(self.moments[5].any())

    @property
    def total(self) -> float:
        """Reduction of the mean loss by all features together."""
        return float(self.values.sum())

    @property
    def shares(self) -> Doubles:
        """Values as shares of the loss without features, (F,): of squared errors, what each adds to R²."""
        return np.asarray(self.values / self.baseline)

    def __repr__(self) -> str:
        share = self.total / self.baseline if self.baseline else np.nan
        said = ", estimated" if self.is_estimated else ""
        return (
            f"ScoreValues({len(self.names)} features, {self.n_rows:,} rows, {self.loss}, {share:.1%} of the loss{said})"
        )

    def __add__(self, other: ScoreValues) -> ScoreValues:
        if not isinstance(other, ScoreValues):
            return NotImplemented
        if (self.names, self.loss) != (other.names, other.loss):
            raise ValueError("the values are of other features or losses; add those of batches of one model")
        weights = self.moments[0][0], other.moments[0][0]
        return dataclasses.replace(
            self,
            n_rows=self.n_rows + other.n_rows,
            baseline=float(np.average([self.baseline, other.baseline], weights=weights)),
            rows=_joined(self.rows, other.rows),
            row_errors=_joined(self.row_errors, other.row_errors),
            moments=self.moments + other.moments,
        )

    def __radd__(self, other: Any) -> ScoreValues:
        """Let ``sum(scores)`` start from 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.json`` file, without the values of single rows.

        Parameters
        ----------
        path : path

        Raises
        ------
        ValueError
            If the file name has another suffix.
        OSError
            If the file cannot be written.
        """
        target = check_output(path)
        if target.suffix != ".json":
            raise ValueError(f"{target} has the suffix {target.suffix!r}, expected .json")
        state = {"names": self.names, "loss": self.loss, "n_rows": self.n_rows, "baseline": self.baseline}
        with replacing(target) as temporary:
            temporary.write_text(json.dumps(state | {"moments": self.moments.tolist()}) + "\n", encoding="utf-8")

    @classmethod
    @escaped_errors()
    def load(cls, path: str | os.PathLike[str]) -> ScoreValues:
        """Read a file that `save` wrote.

        Parameters
        ----------
        path : path

        Raises
        ------
        ValueError
            If the file holds no values of a score.
        """
        try:
            return cls(**_checked_state(json.loads(Path(path).read_bytes())))
        except (*UNREADABLE, MemoryError) as error:
            raise ValueError(f"{path} holds no values that ScoreValues.save wrote: {error}") from error

    def as_frame(self) -> Any:
        """Features by value, largest first.

        Returns
        -------
        pandas.DataFrame
            With the columns feature, value, standard_error and share.
        """
        import pandas

        columns = {"value": self.values, "standard_error": self.standard_error, "share": self.shares}
        frame = pandas.DataFrame({"feature": list(self.names), **columns})
        return frame.sort_values("value", ascending=False, ignore_index=True, kind="stable")

    def plot(self, max_display: int = 20, ax: Any = None) -> Any:
        """Draw the largest values as bars, with two standard errors.

        Parameters
        ----------
        max_display : int
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        if ax is None:
            pyplot = import_extra("matplotlib.pyplot", "plot", "pictures need matplotlib")
            ax = pyplot.subplots(figsize=(7, 1 + 0.3 * min(len(self.names), max_display)), layout="constrained")[1]
        order = np.argsort(-np.abs(self.values), kind="stable")[:max_display][::-1]
        at = np.arange(len(order))
        ax.barh(at, self.values[order], xerr=2 * np.nan_to_num(self.standard_error[order]), height=0.7)
        ax.set_yticks(at, [self.names[place] for place in order])
        ax.axvline(0, color="0.5", linewidth=0.8)
        ax.set_xlabel(f"reduction of the mean loss ({self.loss})")
        return ax


def score_values(
    model: Any,
    X: Rows,
    y: ArrayLike,
    *,
    loss: Loss | Callable[[Array, Doubles], ArrayLike] = "auto",
    background: Any = None,
    groups: Mapping[str, Sequence[int | str]] | None = None,
    sample_weight: ArrayLike | None = None,
    per_row: bool = False,
    n_jobs: int | None = None,
) -> ScoreValues:
    """Divide the score of a model among its features: Shapley values of the loss, exactly.

    Parameters
    ----------
    model : Forest, estimator, or any model that `glasswood.load` reads
    X : array-like or frame of shape (n, n_features)
        Rows on which the model is scored: test rows, not those of its training.
    y : array-like of shape (n,)
        Their targets or class labels.
    loss : {"auto", "squared", "absolute", "log_loss", "poisson"}, or callable
        "auto": log-loss of classifiers, Poisson deviance of models of means with the link log, otherwise the squared
        error. A callable gets y as (n, 1) (places of classes, for classifiers) and outputs (n, coalitions), or
        (n, coalitions, k) of k outputs, and returns losses (n, coalitions).
    background : array-like or frame of shape (m, n_features), optional
        With a background, a coalition's output is the mean output of the rows with the values of the coalition and the
        background's other values (the marginal game, SAGE). Without one, unknown features count as their shares of the
        training rows at each split (the path-dependent game, as of Shapley R²).
    groups : mapping of str to sequence of int or str, optional
        Groups of features, as for `Explainer`.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, at least 0.
    per_row : bool
        Keep the reductions of each row's loss.
    n_jobs : int, optional
        Number of threads; None or -1 for all.

    Returns
    -------
    ScoreValues

    Raises
    ------
    ValueError
        If y or weights do not fit, labels are none of the model's, or the loss is unknown.
    NotImplementedError
        For linear leaves without a background or with more than 20 features, and for links of which means have no
        closed form here.

    Warns
    -----
    EstimateWarning
        If the forest tests more than 20 features or groups: values are estimates from random orders of the features,
        with a fixed seed. The result has their standard errors.

    Notes
    -----
    For each row the outputs of all 2^F coalitions of the F features that the forest tests are computed once: leaf by
    leaf as products of their path's conditions, and summed over subsets. Losses are of these outputs, of the *mean*
    over the background and not means of losses. Costs O(n · m · leaves) with a background of m rows and
    O(n · leaves · 2^p) without one, for p features on a path, and n · F · 2^F; memory for some rows at a time.

    Values can be negative: knowing the feature raises the loss. Path-dependent ones of correlated features can be
    negative although the model needs them; the guide shows which question each game answers.

    References
    ----------
    Covert, Lundberg, Lee, "Understanding global feature contributions with additive importance measures", NeurIPS 2020,
    https://arxiv.org/abs/2004.00668; Jiang, Zhang, Zhang, "Fast calculation of feature contributions in boosting trees"
    (Q-SHAP), https://arxiv.org/abs/2407.03515, whose ensembles are another game: each tree against the residuals of
    those before it. For a single tree both are equal.

    Examples
    --------
    >>> score = glasswood.score_values(model, X_test, y_test, background=X_train[:100])  # doctest: +SKIP
    >>> score.as_frame()  # doctest: +SKIP
    """
    if not callable(loss) and loss not in LOSSES:
        raise ValueError(f"loss is {loss!r}, expected one of {', '.join(LOSSES)}, or a function")
    explainer = Explainer(model, background, groups=groups, device="cpu", dtype="float64", n_jobs=n_jobs)
    forest = explainer.game.forest
    game = _ScoreGame(explainer, loss)
    rows = explainer._engines.place(arranged(X, forest, by_position=False), "values", None, on_host=True).rows
    if not len(rows):
        raise ValueError("X has no rows, expected at least 1")
    targets = game.targets(y, len(rows))
    weight = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weight.shape != (len(rows),) or not (np.isfinite(weight) & (weight >= 0)).all() or not weight.any():
        raise ValueError(f"sample_weight has shape {weight.shape}, expected {len(rows)} of at least 0, not all 0")
    kept, moments, baseline = [], np.zeros((6, len(explainer.players))), 0.0
    for part, values, without, variance in game.parts(rows, targets):
        w = weight[part, None]
        ones = values**0
        moments += [(w * one).sum(axis=0) for one in (ones, w * ones, values, w * values, w * values**2, w * variance)]
        baseline += float((weight[part] * without).sum())
        if per_row:
            kept.append((values, np.sqrt(variance)))
    result = ScoreValues(
        names=tuple(explainer.players),
        loss=game.loss_name,
        n_rows=len(rows),
        baseline=baseline / float(weight.sum()),
        rows=np.concatenate([values for values, _ in kept]) if per_row else None,
        moments=moments,
        row_errors=np.concatenate([errors for _, errors in kept]) if per_row and game.is_estimated else None,
    )
    if game.is_estimated:
        warnings.warn(
            f"the forest tests {game.n_used} features, and values of a score are exact for up to {MOST}: these are "
            f"estimates with standard errors of up to {result.estimate_error.max(initial=0):.2g} (estimate_error); "
            "pass groups of features for exact values",
            EstimateWarning,
            stacklevel=2,
        )
    return result


class _ScoreGame:
    """Losses of the outputs of all coalitions of a row."""

    def __init__(self, explainer: Explainer, loss: Any) -> None:
        game = explainer.game
        self._forest = forest = game.forest
        self._n_players, self._threads = len(explainer.players), threads_of(explainer.settings.n_jobs)
        self._layout = _core.CoalitionForest(forest, game.players.of_feature)
        self.n_used = self._layout.n_used
        self.is_estimated = self.n_used > MOST
        if self.is_estimated and forest.has_linear_leaves:
            raise NotImplementedError(
                f"the forest tests {self.n_used} features, values of a score of linear leaves are for up to {MOST}; "
                "pass groups of features"
            )
        self._margins = explainer._engines.cpu
        self.loss_name = _loss_name(loss, forest)
        self._loss = loss if callable(loss) else None
        is_log_loss = not callable(loss) and self.loss_name == "log_loss"
        self._is_classifier = is_log_loss or (callable(loss) and has_probabilities(forest))
        if is_log_loss:
            make_response("log_loss", forest)  # refuses what has no classes of one label
        self._response = make_response("response", forest)
        self._background: Background | None = None
        if game.background is not None:
            self._code = _code_of(self._response, forest)
            plain = forest.has_linear_leaves
            self._background = game.background if plain else merged(game.background, forest)
            self._masks = self._layout.rows(self._background.rows, self._threads)
        elif forest.has_linear_leaves:
            raise NotImplementedError("linear leaves have no path-dependent values of a score; pass a background")

    def targets(self, y: ArrayLike, n_rows: int) -> Array:
        """Targets of the rows, (n,): places of classes, or numbers."""
        if self._is_classifier:
            return checked_labels(y, n_rows, self._forest)
        targets = as_targets(y, n_rows)
        if targets.ndim != 1:
            raise ValueError(f"y has shape {targets.shape}, expected ({n_rows},), one target per row of X")
        refuse_text(targets)
        targets = targets.astype(np.float64)
        if not np.isfinite(targets).all():
            raise ValueError("y holds NaN or infinite numbers, expected finite ones")
        return targets

    def parts(self, rows: Array, targets: Array) -> Iterator[tuple[slice, Doubles, Doubles, Doubles]]:
        """Values of some rows after the other, (n, P), their losses without features, (n,), and variances, (n, P)."""
        if self.is_estimated:
            yield from self._estimated_parts(rows, targets)
            return
        n_used, k = self.n_used, self._forest.n_outputs
        weights = _shapley_weights(n_used)
        player = self._layout.bit_players()
        together = max(1, CUBE_BYTES // (8 * k << n_used))
        for first in range(0, len(rows), together):
            part = slice(first, first + together)
            losses = self._losses(self._outputs(rows[part]), targets[part])
            values = np.zeros((len(losses), self._n_players))
            values[:, player] = -losses @ weights
            yield part, values, losses[:, 0], np.zeros_like(values)

    def _estimated_parts(self, rows: Array, targets: Array) -> Iterator[tuple[slice, Doubles, Doubles, Doubles]]:
        n, k, background = self._n_players, self._forest.n_outputs, self._background
        share = np.ones(1) if background is None else background.weight / background.total
        masks = None if background is None else self._masks
        chains = Chains(self._layout, self._response, n, k, self._threads, masks, share)
        for first in range(0, len(rows), ROWS_TOGETHER):
            part = slice(first, min(first + ROWS_TOGETHER, len(rows)))
            known = self._margins.values(PlacedRows(rows[part], (), None)).reshape(part.stop - first, n, k)
            found = []
            for at, of_row in zip(range(first, part.stop), known, strict=True):
                target = targets[at : at + 1]

                def lose(outputs: Doubles, target: Array = target) -> Doubles:
                    return self._losses(outputs.T[None], target)[0]

                found.append(estimated(chains, rows[at], target, lose, of_row))
            values, variance, without = (np.array(one) for one in zip(*found, strict=True))
            yield part, values, without, variance

    def _outputs(self, rows: Array) -> Doubles:
        """Mean outputs of all coalitions, (n, k, coalitions)."""
        k, masks = self._forest.n_outputs, self._layout.rows(rows, self._threads)
        cubes = np.empty((len(rows), k, 1 << self._layout.n_used))
        if self._background is not None:
            share = self._background.weight / self._background.total
            self._layout.averages(masks, self._masks, share, self._code, self._response.scale, cubes, self._threads)
            return cubes
        self._layout.path_averages(masks, cubes, self._threads)
        flat = cubes.transpose(0, 2, 1).reshape(-1, k)
        return self._response(flat).reshape(len(rows), -1, k).transpose(0, 2, 1)

    def _losses(self, outputs: Doubles, targets: Array) -> Doubles:
        """Losses of outputs (n, k, coalitions): (n, coalitions)."""
        y = targets[:, None]
        if self._loss is not None:
            given = outputs[:, 0] if outputs.shape[1] == 1 else outputs.transpose(0, 2, 1)
            found = np.asarray(self._loss(y, given), np.float64)
            if found.shape != (len(outputs), outputs.shape[2]):
                raise ValueError(
                    f"loss returns shape {found.shape}, expected {(len(outputs), outputs.shape[2])}, one loss for each "
                    "row and coalition"
                )
            return found
        if self.loss_name == "log_loss":
            return _log_loss(outputs, targets)
        if outputs.shape[1] > 1:
            raise NotImplementedError(f"the model has {outputs.shape[1]} outputs; pass loss= a function of all of them")
        f = outputs[:, 0]
        if self.loss_name == "poisson":
            if (targets < 0).any():
                raise ValueError("y holds negative numbers, expected counts or rates for loss='poisson'")
            f = np.maximum(f, SMALLEST)
            return np.asarray(2 * (np.where(y > 0, y * np.log(np.where(y > 0, y, 1) / f), 0) - (y - f)))
        return np.asarray((y - f) ** 2 if self.loss_name == "squared" else np.abs(y - f))


def _checked_state(state: Any) -> dict[str, Any]:
    """Fields of a file."""
    if not isinstance(state, dict) or state.keys() != {"names", "loss", "n_rows", "baseline", "moments"}:
        raise ValueError("its entries are others")
    names, moments = state["names"], np.asarray(state["moments"], np.float64)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in [*names, state["loss"]]):
        raise ValueError("names and loss are not texts")
    if type(state["n_rows"]) is not int or state["n_rows"] < 1 or type(state["baseline"]) is not float:
        raise ValueError("n_rows or baseline is not a number")
    if moments.shape != (6, len(names)) or not np.isfinite(moments).all() or (moments[[0, 1, 4, 5]] < 0).any():
        raise ValueError(f"moments has the shape {moments.shape}, expected (6, {len(names)}) finite sums")
    return state | {"names": tuple(names), "moments": moments, "rows": None}


def _joined(one: Doubles | None, other: Doubles | None) -> Doubles | None:
    return None if one is None or other is None else np.concatenate([one, other])


def _loss_name(loss: Any, forest: TreeEnsemble) -> str:
    if callable(loss):
        return getattr(loss, "__name__", "loss")
    if loss != "auto":
        return str(loss)
    if has_probabilities(forest):
        return "log_loss"
    return "poisson" if forest.link == "exp" else "squared"


def _code_of(response: Response, forest: TreeEnsemble) -> int:
    """Return the number of the compiled response."""
    if is_margin("response", forest):
        return _core.RESPONSE_MARGIN
    if response.code is None:
        raise NotImplementedError(
            f"means of outputs over a background are not supported for the link {forest.link!r}; leave background=None"
        )
    return response.code


def _log_loss(outputs: Doubles, places: Array) -> Doubles:
    p = outputs
    if p.shape[1] == 1:
        p = np.concatenate([1 - p, p], axis=1)
    chosen = np.take_along_axis(p, places.astype(np.int64)[:, None, None], axis=1)[:, 0]
    return np.asarray(-np.log(np.clip(chosen, SMALLEST, 1)))


def _shapley_weights(n: int) -> Doubles:
    """Weights of the coalitions' numbers in each player's value, (2^n, n)."""
    coalitions = np.arange(1 << n)
    member = (coalitions[:, None] >> np.arange(n)) & 1
    size = member.sum(axis=1)
    by_size = np.ones(max(n, 1))
    for s in range(1, n):
        by_size[s] = by_size[s - 1] * s / (n - s)
    by_size /= max(n, 1)
    others = size[:, None] - member
    signed: Doubles = np.where(member == 1, 1.0, -1.0) * by_size[np.minimum(others, max(n - 1, 0))]
    return signed
