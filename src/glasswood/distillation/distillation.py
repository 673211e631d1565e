"""A readable tree that answers as another model does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone, is_classifier

from glasswood.base.escapes import markup, quoted, shown
from glasswood.base.seeds import generator_of
from glasswood.base.typing import Array, Doubles, Int64s, Rows
from glasswood.base.wording import leaves_text, percent_text
from glasswood.distillation.drawn import RowsBetween, taken
from glasswood.forest import Forest
from glasswood.grow.classifier import ModelTreeClassifier
from glasswood.grow.ensemble_base import TreeEnsembleEstimator
from glasswood.grow.estimator import ModelTreeRegressor
from glasswood.grow.search.process import Interrupts, keeping_interrupts
from glasswood.grow.tree_estimator import TreeEstimator
from glasswood.inspection.plots import axes_of, plain
from glasswood.words.outline import estimator_html

if TYPE_CHECKING:
    from glasswood.grow.table import Table

LEAST_ROWS = 8
TEST_SIZE = 0.25
WORST_SHARE = 0.05
"""Least share of the rows in a region that is called the worst."""

SIZES = {"max_leaves": "leaves", "max_trees": "trees in a sequence", "n_estimators": "trees"}
"""Parameters that say how large a student is."""


@dataclass(frozen=True, eq=False)
class Region:
    """The region in which a student is worst.

    Attributes
    ----------
    rule : str
        Tests that define the region, from the rows that the student was grown on.
    share : float
        Share of the unseen rows that lie in it.
    error : float
        Error of the student on these rows: root mean square, or share of other classes.
    """

    rule: str
    share: float
    error: float


@dataclass(frozen=True, eq=False)
class Distillation:
    """The result of `glasswood.distill`: readable trees, called students, and their fidelity.

    Attributes
    ----------
    model : model tree, or ensemble of them
        The largest student, fitted.
    models : list
        Students of all sizes.
    curve : dict of arrays
        One entry per size, for pandas or polars: size, n_leaves, fidelity, drawn_fidelity and seconds of growing.
    fidelity, drawn_fidelity : float
        R² of the predictions of `model` against the answers, or the share of rows with the same class: on held-out rows
        of X, and on rows drawn between these.
    error : float
        Error of `model` on both: root mean square, or share of rows with another class.
    worst : Region
        Where its error is the largest.
    n_held_out, n_drawn : int
        Numbers of rows on which glasswood measured `fidelity` and `drawn_fidelity`.
    seconds : float
        Time that the model took to answer for all rows.
    interrupted : bool
        True if Ctrl-C ended the searches: larger sizes are missing, and the last student is the best so far.
    """

    models: list[Any]
    curve: Table
    error: float
    worst: Region
    n_held_out: int
    n_drawn: int
    seconds: float
    interrupted: bool = False

    @property
    def model(self) -> Any:
        """The largest student."""
        return self.models[-1]

    @property
    def fidelity(self) -> float:
        """Fidelity of the largest student on held-out rows."""
        return float(self.curve["fidelity"][-1])

    @property
    def drawn_fidelity(self) -> float:
        """Fidelity of the largest student on rows drawn between held-out rows."""
        return float(self.curve["drawn_fidelity"][-1])

    def __str__(self) -> str:
        is_class = is_classifier(self.model)
        measure, write = ("same class", percent_text) if is_class else ("R²", "{:.3f}".format)
        error, worst = ((percent_text if is_class else "{:.4g}".format)(of.error) for of in (self, self.worst))
        lines = [
            f"{type(self.model).__name__} in place of the model: {measure} {write(self.fidelity)} on "
            f"{self.n_held_out:,} held-out rows, {write(self.drawn_fidelity)} on {self.n_drawn:,} drawn between them",
            f"error {error}; where {self.worst.rule}, {percent_text(self.worst.share)} of the rows, {worst}",
            "",
            f"{'size':>6}{'leaves':>8}{'held out':>10}{'drawn':>8}",
        ]
        columns = zip(*(self.curve[name] for name in ("size", "n_leaves", "fidelity", "drawn_fidelity")), strict=True)
        lines += [f"{size:>6}{leaves:>8}{write(held):>10}{write(drawn):>8}" for size, leaves, held, drawn in columns]
        if self.interrupted:
            lines.append("interrupted: the last student is the best so far, larger ones were not grown")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Distillation({leaves_text(self.model.n_leaves_)}, fidelity {self.fidelity:.3f})"

    def _repr_html_(self) -> str:
        tree = estimator_html(self.model) if hasattr(self.model, "leaf_summary_") else ""
        lines = "\n".join(markup(line) for line in str(self).splitlines())
        return f"<pre style='white-space:pre-wrap'>{lines}</pre>{tree}"

    def plot(self, ax: Any = None) -> Any:
        """Draw fidelity over size.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        ax = axes_of(ax)
        with plain():
            ax.plot(self.curve["size"], self.curve["fidelity"], "o-", label="held-out rows")
            ax.plot(self.curve["size"], self.curve["drawn_fidelity"], "s--", label="rows drawn between them")
            ax.set_xscale("log", base=2)
            ax.set_xticks(self.curve["size"], [str(size) for size in self.curve["size"]])
            ax.set_xlabel(f"largest number of {SIZES[_size_name(self.model)]}")
            ax.set_ylabel("share of the same class" if is_classifier(self.model) else "fidelity (R²)")
            ax.legend(frameon=False)
        return ax


def distill(
    predict: Any,
    X: Rows,
    *,
    sizes: Sequence[int] = (2, 4, 8, 16),
    estimator: Any = None,
    n_drawn: int | None = None,
    time_limit: float | None = 60,
    random_state: int = 0,
) -> Distillation:
    """Grow readable trees that imitate a model.

    Parameters
    ----------
    predict : function of rows, or model with `predict_proba` or `predict`
        Answers with a number or a class for each row. With two classes, the tree learns the probability of the second
        class; with several, the most probable class. Text, booleans and the predictions of a classifier without
        probabilities are classes.
    X : array-like or frame of shape (n, n_features)
        Rows like those that the model is used for; the model receives rows of the same type. Targets are not needed.
    sizes : sequence of int
        Sizes to try: the largest number of leaves of a tree (`max_leaves`), of trees in a boosted sequence
        (`max_trees`), or the number of trees in a mean (`n_estimators`).
    estimator : model tree, or ensemble of them, optional
        What to grow, without its size, `n_jobs` (that of `glasswood.set_config`), `random_state` and `time_limit`.
        Default: a `ModelTreeRegressor` whose predictions stay within the answers of each leaf (``clip="leaf"``), a
        `ModelTreeClassifier` for classes.
    n_drawn : int, optional
        Number of rows to draw between those of X; default: as many as X has. A quarter of the rows of X, and of the
        drawn rows, is held out.
    time_limit : float or None
        Seconds for all searches together. If a search reaches the limit, the result depends on the machine.
    random_state : int
        Seed of the division, of the drawn rows and of the searches.

    Returns
    -------
    Distillation

    Raises
    ------
    ValueError
        If the answers hold NaN or have another shape, all have the same class, or a parameter is out of range.
    TypeError
        If `predict` is neither a function nor a model that predicts, or X or `estimator` has another type than
        expected.

    Notes
    -----
    A drawn row lies between a row of X and the nearest of eight random other rows, at a place drawn uniformly. Numbers
    are interpolated, and rounded if the column has only whole numbers. Categories, and numbers that one of the two rows
    lacks, come from the nearer row. Drawn rows thus roughly keep the dependencies of the features, as in MUNGE
    (Buciluă, Caruana, Niculescu-Mizil, "Model compression", KDD 2006, https://doi.org/10.1145/1150402.1150464).
    glasswood holds out rows first, so no row that a tree is grown on lies between held-out rows.

    To find the worst region, glasswood grows a tree of up to four leaves on the squared errors of the training rows.
    The error of the region is measured on rows that neither tree has seen.

    Ctrl-C ends all searches. The result has the sizes that were finished by then, and says so
    (`Distillation.interrupted`).

    Examples
    --------
    >>> found = glasswood.distill(network, X)  # doctest: +SKIP
    >>> print(found)  # doctest: +SKIP
    >>> print(glasswood.export_text(found.model))  # doctest: +SKIP
    """
    rng = generator_of(random_state)
    between = RowsBetween(X, getattr(estimator, "categorical_features", None))
    sizes = _checked_sizes(sizes)
    first, second, way, parts = _drawn(between, n_drawn, rng)
    rows = between.rows(first, second, way)
    started = time.perf_counter()
    answers = _answers(predict, rows, len(first))
    seconds = time.perf_counter() - started
    student = _student(estimator, answers).set_params(n_jobs=None, random_state=random_state)
    with keeping_interrupts() as interrupts:
        models, curve = _grown(student, sizes, rows, answers, parts, time_limit, interrupts)
        squares = _squares(answers, models[-1].predict(rows))
        rule, inside = _worst(rows, squares, parts, student.categorical_features)
        interrupted = interrupts.have_come
    unseen = np.flatnonzero(parts)
    worst = Region(rule, len(inside) / len(unseen), _error(answers, squares[inside]))
    n_held_out, n_drawn = np.bincount(parts)[1:].tolist()
    return Distillation(
        models, curve, _error(answers, squares[unseen]), worst, n_held_out, n_drawn, seconds, interrupted
    )


def _grown(
    student: Any,
    sizes: list[int],
    rows: Any,
    answers: Array,
    parts: Array,
    time_limit: float | None,
    interrupts: Interrupts,
) -> tuple[list[Any], Table]:
    """Students of all sizes until an interrupt comes, and their curve; each has an equal part of the time left."""
    seen, *unseen = (np.flatnonzero(parts == part) for part in range(3))
    models: list[Any] = []
    lines, started = [], time.perf_counter()
    for place, size in enumerate(sizes):
        if models and interrupts.have_come:
            break
        began = time.perf_counter()
        left = None if time_limit is None else max(time_limit - (began - started), 1e-3) / (len(sizes) - place)
        model = clone(student).set_params(**{_size_name(student): size, "time_limit": left})
        models.append(model.fit(taken(rows, seen), answers[seen]))
        seconds = time.perf_counter() - began
        fidelities = (_fidelity(answers[part], model.predict(taken(rows, part))) for part in unseen)
        lines.append((size, model.n_leaves_, *fidelities, seconds))
    names = ("size", "n_leaves", "fidelity", "drawn_fidelity", "seconds")
    return models, {name: np.array(column) for name, column in zip(names, zip(*lines, strict=True), strict=True)}


def _checked_sizes(sizes: Sequence[int]) -> list[int]:
    found = np.unique(np.asarray(sizes))
    if found.dtype.kind not in "iu" or np.ndim(sizes) != 1 or not len(found) or found[0] < 1:
        raise ValueError(f"sizes is {quoted(sizes)}, expected whole numbers of at least 1")
    return [int(size) for size in found]


def _drawn(
    between: RowsBetween, n_drawn: int | None, rng: np.random.Generator
) -> tuple[Int64s, Int64s, Doubles, Array]:
    """Rows of X and drawn ones as pairs and the way between them, and their parts: 0 seen, 1 held out, 2 drawn."""
    n = len(between)
    if n < LEAST_ROWS:
        raise ValueError(f"X has {n} rows, expected at least {LEAST_ROWS}")
    wanted = n if n_drawn is None else n_drawn
    if not hasattr(wanted, "__index__") or isinstance(wanted, bool) or wanted < 2:
        raise ValueError(f"n_drawn is {quoted(n_drawn)}, expected a whole number of at least 2")
    counts = [int(np.clip(round(TEST_SIZE * size), 2 if size == n else 1, size - 1)) for size in (n, int(wanted))]
    held_out, seen = np.split(rng.permutation(n), [counts[0]])
    pairs = [between.pairs(seen, int(wanted) - counts[1], rng), between.pairs(held_out, counts[1], rng)]
    first = np.concatenate([seen, held_out, pairs[0][0], pairs[1][0]])
    second = np.concatenate([seen, held_out, pairs[0][1], pairs[1][1]])
    way = np.concatenate([np.zeros(n), rng.random(int(wanted))])
    parts = np.repeat([0, 1, 0, 2], [len(seen), len(held_out), int(wanted) - counts[1], counts[1]])
    return first, second, way, parts


def _answers(predict: Any, rows: Any, n: int) -> Array:
    """Ask the model: numbers as float64, or classes."""
    classes = getattr(predict, "classes_", None)
    if isinstance(predict, Forest):
        classes = (predict.classes or (None,))[0]
        found = predict.predict(rows, "probability" if predict.classes else "prediction")
    else:
        ask: Callable[[Any], Any] | None = getattr(predict, "predict_proba", None) or getattr(predict, "predict", None)
        if ask is None and not callable(predict):
            raise TypeError(
                f"predict is a {type(predict).__name__}, expected a function of rows, or a model with predict_proba or "
                "predict"
            )
        found = (ask or predict)(rows)
    found = np.asarray(found)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.shape[:1] != (n,) or found.ndim > 2:
        raise ValueError(f"predict returned shape {found.shape} for {n} rows, expected ({n},) or ({n}, n_classes)")
    if found.ndim == 2:
        return _of_probabilities(found, classes)
    if found.dtype.kind == "O":
        found = np.array(found.tolist())
    if found.dtype.kind in "USb" or (classes is not None and not hasattr(predict, "predict_proba")):
        if len(np.unique(found)) < 2:
            raise ValueError(
                f"predict returned the class {shown(found[0])} for all {n} rows, expected at least two classes"
            )
        return found
    return _finite(found)


def _of_probabilities(found: Array, classes: Any) -> Array:
    """Probability of the second of two classes, or the most probable one of several."""
    found = np.stack([_finite(column) for column in found.T], axis=1)
    if (found < 0).any() or not np.allclose(found.sum(axis=1), 1, atol=1e-3):
        raise ValueError(
            f"predict returned shape {found.shape}, whose rows are not probabilities; distill one output at a time, "
            "predict=lambda X: model.predict(X)[:, 0]"
        )
    if found.shape[1] == 2:
        return np.asarray(found[:, 1])
    labels: Array = np.arange(found.shape[1]) if classes is None else np.asarray(classes)
    return np.asarray(labels[found.argmax(axis=1)])


def _finite(found: Array) -> Doubles:
    if found.dtype.kind not in "iuf":
        raise ValueError(f"predict returned {found.dtype}, expected real numbers or classes")
    values = found.astype(np.float64)
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"predict returned {values[at]} for row {at} of {len(values)}, expected finite numbers")
    return values


def _student(estimator: Any, answers: Array) -> Any:
    is_class = answers.dtype.kind != "f"
    if estimator is None:
        return ModelTreeClassifier() if is_class else ModelTreeRegressor(clip="leaf")
    if not isinstance(estimator, TreeEstimator):
        raise TypeError(f"estimator is a {type(estimator).__name__}, expected a model tree of glasswood, or None")
    if is_classifier(estimator) != is_class:
        kinds = ("classes", "numbers") if is_class else ("numbers", "classes")
        raise TypeError(f"predict returned {kinds[0]}, and {type(estimator).__name__} learns {kinds[1]}")
    return clone(estimator)


def _size_name(student: Any) -> str:
    """Name the parameter of the student's size."""
    if not isinstance(student, TreeEnsembleEstimator):
        return "max_leaves"
    return "max_trees" if student.method == "boosting" else "n_estimators"


def _squares(answers: Array, predicted: Array) -> Doubles:
    """Squared errors; 1 for another class."""
    if answers.dtype.kind != "f":
        return np.asarray(answers != predicted, np.float64)
    return np.asarray((answers - predicted) ** 2)


def _error(answers: Array, squares: Doubles) -> float:
    """Root mean square, or share of other classes; NaN of no rows."""
    mean = float(squares.mean()) if len(squares) else float("nan")
    return mean if answers.dtype.kind != "f" else mean**0.5


def _fidelity(answers: Array, predicted: Array) -> float:
    """R², or the share of the same class; of constant answers 1 if they are met."""
    errors = _squares(answers, predicted)
    if answers.dtype.kind != "f":
        return 1 - float(errors.mean())
    total = float(((answers - answers.mean()) ** 2).sum())
    return 1 - float(errors.sum()) / total if total > 0 else float(not errors.any())


def _worst(rows: Any, squares: Doubles, parts: Array, categorical: Any) -> tuple[str, Int64s]:
    """Find the rule of the largest mean squared error among the rows that were seen, and the others that it holds."""
    seen, unseen = np.flatnonzero(parts == 0), np.flatnonzero(parts)
    least = max(5, int(WORST_SHARE * len(seen)))
    tree = ModelTreeRegressor(max_leaves=4, leaf_model="constant", min_samples_leaf=least, generations=50)
    tree.set_params(categorical_features=categorical, verbose=False).fit(taken(rows, seen), squares[seen])
    leaf = int(np.argmax(tree.leaf_summary_["mean"]))
    return str(tree.rules_["rule"][leaf]), unseen[tree.apply(taken(rows, unseen)) == leaf]
