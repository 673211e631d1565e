"""Shapley values of a score: how much of a model's loss reduction, or R², each feature is worth."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from glasswood import _core
from glasswood.base.config import device_of
from glasswood.base.device import gpus_worthwhile, import_cupy, parse_device
from glasswood.base.escapes import quoted
from glasswood.base.parallel import n_threads as threads_of
from glasswood.base.typing import Array, Doubles, Rows
from glasswood.evaluate.links import has_probabilities
from glasswood.explain.background import Background, merged
from glasswood.explain.cpu import CpuExplainer
from glasswood.explain.engines import WORTHWHILE
from glasswood.explain.explainer import Explainer
from glasswood.explain.game import Game, Settings
from glasswood.explain.responses.labels import checked_labels
from glasswood.explain.responses.permutations import EstimateWarning
from glasswood.explain.responses.response import Response, is_margin, make_response
from glasswood.explain.scores.estimates import Chains, estimated
from glasswood.explain.scores.result import ScoreValues
from glasswood.inputs import arranged
from glasswood.inputs.placed import PlacedRows
from glasswood.inputs.targets import as_targets, refuse_counts, refuse_text, row_weights
from glasswood.model.ensemble import TreeEnsemble

Loss = Literal["auto", "squared", "absolute", "log_loss", "poisson"]
LOSSES = ("auto", "squared", "absolute", "log_loss", "poisson")

MOST = 20
"""Features or groups that the forest may test: 2 to this many coalitions of a row."""

CUBE_BYTES = 2**23
"""Bytes of the outputs of all coalitions of the rows that are computed together."""

GPU_PLAYERS, ROWS_TOGETHER_ON_CPU = 18, 16
"""Players whose means of all coalitions a GPU holds; rows of a block on the CPU, as in engines.py."""

ROWS_TOGETHER = 256
"""Rows whose margins are explained together where values of the score are estimates."""

SMALLEST = 1e-15
"""Probability at which the log-loss is clipped, and mean at which the Poisson deviance is."""


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
) -> ScoreValues:
    """Divide the score of a model among its features: Shapley values of the loss, exactly.

    Parameters
    ----------
    model : Forest, estimator, or any model that `glasswood.load` reads
    X : array-like or frame of shape (n, n_features)
        Rows on which the model is scored: test rows, not training rows.
    y : array-like of shape (n,)
        Their targets or class labels; for a model that was fitted with `exposure`, rates.
    loss : {"auto", "squared", "absolute", "log_loss", "poisson"}, or callable
        "auto": the log-loss for classifiers, the Poisson deviance for models of means with a log link, otherwise the
        squared error. A callable gets y as (n, 1) (places of classes, for classifiers) and outputs (n, coalitions), or
        (n, coalitions, k) of k outputs, and returns losses (n, coalitions).
    background : array-like or frame of shape (m, n_features), optional
        With a background, a coalition's output is the mean output of the rows with the values of the coalition and the
        background's other values (the marginal game, SAGE). Without one, unknown features count as their shares of the
        training rows at each split (the path-dependent game, as of Shapley R²).
    groups : mapping of str to sequence of int or str, optional
        Groups of features, as for `Explainer`.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, at least 0; of rates, the exposures.
    per_row : bool
        Keep the reductions of each row's loss.

    Returns
    -------
    ScoreValues

    Raises
    ------
    ValueError
        If y or weights do not fit, labels are none of the model's, the loss is unknown, or losses are no numbers; if
        the model predicts rates and there are no weights, as y may be counts.
    NotImplementedError
        For linear leaves without a background or with more than 20 features, and for links whose means have no closed
        form here.

    Warns
    -----
    EstimateWarning
        If the forest tests more than 20 features or groups: values are estimates from random orders of the features,
        with a fixed seed. The result has their standard errors.

    Notes
    -----
    For each row the outputs of all 2^F coalitions of the F features that the forest tests are computed once: leaf by
    leaf as products of their path's conditions, and summed over subsets. Each loss is that of an output, which is the
    *mean* over the background; it is not a mean of losses. Costs O(n · m · leaves) with a background of m rows and
    O(n · leaves · 2^p) without one, for p features on a path, and n · F · 2^F; memory for some rows at a time.

    With a background, a GPU computes exact values in float64; functions get its arrays (CuPy). The device "auto" uses
    one where it is faster, for losses by name.

    Values can be negative: knowing the feature raises the loss. Path-dependent values of correlated features can be
    negative although the model needs these features; the guide shows which question each definition answers.

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
        raise ValueError(f"loss is {quoted(loss)}, expected one of {', '.join(LOSSES)}, or a function")
    explainer = Explainer(model, background, groups=groups, device="cpu", dtype="float64")
    forest = explainer.game.forest
    game = _ScoreGame(explainer.game, loss, device_of("auto"))
    rows = explainer._engines.place(arranged(X, forest), "values", None, on_host=True).rows
    if not len(rows):
        raise ValueError("X has no rows, expected at least 1")
    refuse_counts(forest, sample_weight, "score_values")
    targets = game.targets(y, len(rows))
    weight = np.ones(len(rows)) if sample_weight is None else row_weights(sample_weight, len(rows))
    result = _summed(game, explainer.players, rows, targets, weight, per_row)
    if game.is_estimated:
        warnings.warn(
            f"the forest tests {game.n_used} features, and values of a score are exact for up to {MOST}: these are "
            f"estimates with standard errors of up to {result.estimate_error.max(initial=0):.2g} (estimate_error); "
            "pass groups of features for exact values",
            EstimateWarning,
            stacklevel=2,
        )
    return result


def score_of_rows(game: Game, names: Sequence[str], rows: Array, y: ArrayLike, weight: Doubles) -> ScoreValues:
    """Values of the score of rows that `as_rows` made, with the loss of the model's objective, on the CPU."""
    score = _ScoreGame(game, "auto", "cpu")
    # Of classes y holds places already.
    targets = np.asarray(y, np.int32) if score.loss_name == "log_loss" else score.targets(y, len(rows))
    return _summed(score, names, rows, targets, weight, per_row=False)


def _summed(
    game: _ScoreGame, names: Sequence[str], rows: Array, targets: Array, weight: Doubles, per_row: bool
) -> ScoreValues:
    """Sum what the rows say."""
    kept, moments, baseline = [], np.zeros((6, len(names))), 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for part, values, without, variance in game.parts(rows, targets):
            w = weight[part, None]
            parts = values**0, w * values**0, values, w * values, w * values**2, w * variance
            moments += [(w * one).sum(axis=0) for one in parts]
            baseline += float((weight[part] * without).sum())
            if per_row:
                kept.append((values, np.sqrt(variance)))
    if not (np.isfinite(moments).all() and np.isfinite(baseline)):
        raise ValueError(
            f"losses of y up to {np.abs(targets).max():.3g}, or squares of these for standard errors, are no numbers "
            f"(loss is {quoted(game.loss_name)}); fit and score a model of y in larger units"
        )
    return ScoreValues(
        names=tuple(names),
        loss=game.loss_name,
        n_rows=len(rows),
        baseline=baseline / float(weight.sum()),
        rows=np.concatenate([values for values, _ in kept]) if per_row else None,
        moments=moments,
        row_errors=np.concatenate([errors for _, errors in kept]) if per_row and game.is_estimated else None,
    )


class _ScoreGame:
    """Losses of the outputs of all coalitions of a row."""

    def __init__(self, game: Game, loss: Any, device: str) -> None:
        self._forest = forest = game.forest
        self._n_players, self._threads = game.players.n, threads_of(None)
        self._layout = _core.CoalitionForest(forest, game.players.of_feature)
        self.n_used = self._layout.n_used
        self.is_estimated = self.n_used > MOST
        if self.is_estimated and forest.has_linear_leaves:
            raise NotImplementedError(
                f"the forest tests {self.n_used} features, values of a score of linear leaves are for up to {MOST}; "
                "pass groups of features"
            )
        self._margins = CpuExplainer(game, Settings(dtype="float64"))
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
        self._device, self._game = device, game

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
        gpus = self._gpus(rows)
        if self.is_estimated:
            yield from self._estimated_parts(rows, targets)
            return
        n_used, k = self.n_used, self._forest.n_outputs
        weights = _shapley_weights(n_used)
        player = self._layout.bit_players()
        if gpus:
            yield from self._parts_on_gpu(gpus[0], rows, targets, weights)
            return
        together = max(1, CUBE_BYTES // (8 * k << n_used))
        for first in range(0, len(rows), together):
            part = slice(first, first + together)
            losses = self._losses(self._outputs(rows[part]), targets[part])
            values = np.zeros((len(losses), self._n_players))
            values[:, player] = -losses @ weights
            yield part, values, losses[:, 0], np.zeros_like(values)

    def _gpus(self, rows: Array) -> tuple[int, ...]:
        """GPUs that take the rows."""
        background, is_named = self._background, parse_device(self._device)[0] in {"cuda", "all"}
        if background is None or self.is_estimated or self._forest.has_linear_leaves or self.n_used > GPU_PLAYERS:
            if is_named:
                raise NotImplementedError(
                    "GPUs compute exact values of a score against a background, for constant leaves; pass device='cpu'"
                )
            return ()
        work = len(rows) * len(background) * self._forest.n_nodes / (ROWS_TOGETHER_ON_CPU * self._threads)
        is_free = self._device == "auto" and self._loss is not None
        return () if is_free else gpus_worthwhile(self._device, rows, work, WORTHWHILE)

    def _parts_on_gpu(
        self, gpu: int, rows: Array, targets: Array, weights: Doubles
    ) -> Iterator[tuple[slice, Doubles, Doubles, Doubles]]:
        from glasswood.explain.cuda.score import ScoreJob, ScoreSource

        assert self._background is not None
        cupy, response = import_cupy(), dataclasses.replace(self._response, code=self._code)
        with cupy.cuda.Device(gpu):
            job = ScoreJob(ScoreSource(self._game, response, self._background, self._layout))
            together = job.rows_together()
            for first in range(0, len(rows), together):
                part = slice(first, first + together)
                found, without = job.values(rows[part], targets[part], self._losses, weights)
                values = np.zeros((len(found), self._n_players))
                values[:, self._layout.bit_players()] = found
                yield part, values, without, np.zeros_like(values)

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
                    return np.asarray(self._losses(outputs.T[None], target)[0])

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

    def _losses(self, outputs: Any, targets: Any) -> Any:
        """Losses of outputs (n, k, coalitions): (n, coalitions); on a GPU CuPy's arrays."""
        y, xp = targets[:, None], np if isinstance(outputs, np.ndarray) else import_cupy()
        if self._loss is not None:
            given = outputs[:, 0] if outputs.shape[1] == 1 else outputs.transpose(0, 2, 1)
            found = xp.asarray(self._loss(y, given), np.float64)
            if found.shape != (len(outputs), outputs.shape[2]):
                raise ValueError(
                    f"loss returns shape {found.shape}, expected {(len(outputs), outputs.shape[2])}, one loss for each "
                    "row and coalition"
                )
            if not xp.isfinite(found).all():
                at = int(xp.isfinite(found).all(axis=1).argmin())
                raise ValueError(f"loss returns NaN or infinity where y is {y[at, 0]:g}, expected numbers")
            return found
        if self.loss_name == "log_loss":
            return _log_loss(outputs, targets, xp)
        if outputs.shape[1] > 1:
            raise NotImplementedError(f"the model has {outputs.shape[1]} outputs; pass loss= a function of all of them")
        f = outputs[:, 0]
        if self.loss_name == "poisson":
            if (targets < 0).any():
                raise ValueError("y holds negative numbers, expected counts or rates for loss='poisson'")
            f = xp.maximum(f, SMALLEST)
            return 2 * (xp.where(y > 0, y * xp.log(xp.where(y > 0, y, 1) / f), 0) - (y - f))
        return (y - f) ** 2 if self.loss_name == "squared" else xp.abs(y - f)


def _loss_name(loss: Any, forest: TreeEnsemble) -> str:
    if callable(loss):
        return getattr(loss, "__name__", "loss")
    if loss != "auto":
        return str(loss)
    if has_probabilities(forest) or forest.classes:
        return "log_loss"
    return "poisson" if forest.link == "exp" else "squared"


def _code_of(response: Response, forest: TreeEnsemble) -> int:
    """Return the number of the compiled response."""
    if is_margin("response", forest):
        return _core.RESPONSE_MARGIN
    if response.code is None:
        raise NotImplementedError(
            f"means of outputs over a background are not supported for the link {quoted(forest.link)}; leave "
            "background=None"
        )
    return response.code


def _log_loss(outputs: Any, places: Any, xp: Any) -> Any:
    p = outputs
    if p.shape[1] == 1:
        chosen = xp.where(places[:, None] == 1, p[:, 0], 1 - p[:, 0])
    else:
        chosen = xp.take_along_axis(p, places.astype(np.int64)[:, None, None], axis=1)[:, 0]
    return -xp.log(xp.clip(chosen, SMALLEST, 1))


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
