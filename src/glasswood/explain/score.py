"""Shapley values of a score: how much of a model's loss reduction, or R², each feature is worth."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from glasswood import _core
from glasswood.base.extras import import_extra
from glasswood.base.parallel import n_threads as threads_of
from glasswood.base.typing import Array, Doubles, Rows
from glasswood.explain.background import Background, merged
from glasswood.explain.explainer import Explainer
from glasswood.explain.responses.labels import checked_labels
from glasswood.explain.responses.response import Response, has_probabilities, is_margin, make_response
from glasswood.inputs import arranged
from glasswood.inputs.targets import as_targets, refuse_text
from glasswood.model.ensemble import TreeEnsemble

Loss = Literal["auto", "squared", "absolute", "log_loss", "poisson"]
LOSSES = ("auto", "squared", "absolute", "log_loss", "poisson")

MOST = 20
"""Features or groups that the forest may test: 2 to this many coalitions of a row."""

CUBE_BYTES = 2**26
"""Bytes of the outputs of all coalitions of the rows that are computed together."""

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
    rows : float64, (n, F), or None
        Reductions of each row's loss, with ``per_row=True``.
    """

    names: tuple[str, ...]
    loss: str
    n_rows: int
    baseline: float
    rows: Doubles | None
    moments: Doubles
    """Σw, Σw² of the rows, and of their values φ: Σwφ, Σw²φ, Σw²φ²; (5, F)."""

    @property
    def values(self) -> Doubles:
        """Mean reduction of the loss by each feature, (F,)."""
        return np.asarray(self.moments[2] / self.moments[0])

    @property
    def standard_error(self) -> Doubles:
        """Standard errors of the values over the rows, (F,); NaN for one row."""
        total, squares, _, first, second = self.moments
        mean = self.values
        spread = np.maximum(second - 2 * mean * first + mean**2 * squares, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.sqrt(spread * self.n_rows / (self.n_rows - 1)) / total)

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
        return f"ScoreValues({len(self.names)} features, {self.n_rows:,} rows, {self.loss}, {share:.1%} of the loss)"

    def __add__(self, other: ScoreValues) -> ScoreValues:
        if not isinstance(other, ScoreValues):
            return NotImplemented
        if (self.names, self.loss) != (other.names, other.loss):
            raise ValueError("the values are of other features or losses; add those of batches of one model")
        weights = self.moments[0][0], other.moments[0][0]
        both = self.rows is not None and other.rows is not None
        return dataclasses.replace(
            self,
            n_rows=self.n_rows + other.n_rows,
            baseline=float(np.average([self.baseline, other.baseline], weights=weights)),
            rows=np.concatenate([self.rows, other.rows]) if both else None,
            moments=self.moments + other.moments,
        )

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
        If the forest tests more than 20 features or groups, for linear leaves without a background, and for links of
        which means have no closed form here.

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
    explainer = Explainer(model, background, groups=groups, device="cpu", n_jobs=n_jobs)
    forest = explainer.game.forest
    game = _ScoreGame(explainer, loss)
    rows = explainer._engines.place(arranged(X, forest, by_position=False), "values", None, on_host=True).rows
    if not len(rows):
        raise ValueError("X has no rows, expected at least 1")
    targets = game.targets(y, len(rows))
    weight = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weight.shape != (len(rows),) or not (np.isfinite(weight) & (weight >= 0)).all() or not weight.any():
        raise ValueError(f"sample_weight has shape {weight.shape}, expected {len(rows)} of at least 0, not all 0")
    kept, moments, baseline = [], np.zeros((5, len(explainer.players))), 0.0
    for part, values, without in game.parts(rows, targets):
        w = weight[part, None]
        moments += [(w * one).sum(axis=0) for one in (values**0, w * values**0, values, w * values, w * values**2)]
        baseline += float((weight[part] * without).sum())
        if per_row:
            kept.append(values)
    return ScoreValues(
        names=tuple(explainer.players),
        loss=game.loss_name,
        n_rows=len(rows),
        baseline=baseline / float(weight.sum()),
        rows=np.concatenate(kept) if per_row else None,
        moments=moments,
    )


class _ScoreGame:
    """Losses of the outputs of all coalitions of a row."""

    def __init__(self, explainer: Explainer, loss: Any) -> None:
        game = explainer.game
        self._forest = forest = game.forest
        self._n_players, self._threads = len(explainer.players), threads_of(explainer.settings.n_jobs)
        self._layout = _core.CoalitionForest(forest, game.players.of_feature)
        if self._layout.n_used > MOST:
            raise NotImplementedError(
                f"the forest tests {self._layout.n_used} features, exact values of a score are for up to {MOST}; pass "
                "groups of features"
            )
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

    def parts(self, rows: Array, targets: Array) -> Iterator[tuple[slice, Doubles, Doubles]]:
        """Values of some rows after the other, (n, P), and their losses without features, (n,)."""
        n_used, k = self._layout.n_used, self._forest.n_outputs
        weights = _shapley_weights(n_used)
        player = self._layout.bit_players()
        together = max(1, CUBE_BYTES // (8 * k << n_used))
        for first in range(0, len(rows), together):
            part = slice(first, first + together)
            losses = self._losses(self._outputs(rows[part]), targets[part])
            values = np.zeros((len(losses), self._n_players))
            values[:, player] = -losses @ weights
            yield part, values, losses[:, 0]

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
