"""Compare a forest that was read from a live model with the model itself, once for each model."""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.sources import SOURCES
from glasswood.base.typing import Checked
from glasswood.checking.answers import answers, as_shaped, one_thread
from glasswood.checking.rows import MOST_FEATURES, made_rows, shaped
from glasswood.evaluate.evaluator import evaluator_of
from glasswood.evaluate.links import respond
from glasswood.inputs import arranged, as_rows
from glasswood.inputs.sparse import is_sparse
from glasswood.model.target_statistics import TargetStatistics
from glasswood.readers import library_of
from glasswood.readers.ydf import as_taken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glasswood.base.typing import Array
    from glasswood.model.ensemble import TreeEnsemble
    from glasswood.readers.curve import Curve

TOLERANCE = 1e-5
"""Relative to the largest number: libraries add hundreds of trees up in float32."""

TEXTS = tuple("0123456789")
"""Categories of CatBoost's columns, whose files keep hashes of them: texts of small codes are the most common."""

_seen: dict[int, tuple[weakref.ref[Any], int, Checked]] = {}
"""What was found, by the identity of models that are still alive, beside a checksum of what was read."""

_lock = threading.Lock()
_process = os.getpid()


def check_live(forest: TreeEnsemble, model: object, curve: Curve | None) -> Checked | None:
    """Compare margins, probabilities and predictions of a forest with those of the live model it was read from.

    Parameters
    ----------
    forest : TreeEnsemble
    model : object
        What the forest was read from.
    curve : Curve, optional
        What a survival forest was read for.

    Returns
    -------
    Checked or None
        None if the library is not asked.

    Raises
    ------
    ValueError
        If they differ; the message names library, output, row and both numbers.

    Notes
    -----
    Of a pipeline, the last step is compared: the steps before it transform rows themselves. A model that was compared
    before is not asked again, as long as the same trees are read from it.
    """
    model, forest = _last_step(model, forest)
    library = library_of(model)
    if library is None or not SOURCES[library].is_asked:
        return None
    if forest.checked is not None:  # the reader knows why not
        return forest.checked
    if os.getpid() != _process or _is_worker():
        return Checked(0, 0.0, ("predictions: in a process that was forked, threads of libraries may hang",))
    if forest.n_features > MOST_FEATURES:
        return Checked(0, 0.0, (f"predictions: rows of {forest.n_features:,} features would take too much memory",))
    checksum = _checksum(forest, curve)
    with _lock:
        if (kept := _seen.get(id(model))) is not None and kept[0]() is model and kept[1] == checksum:
            return kept[2]
        with warnings.catch_warnings(), one_thread(library):  # what libraries say of these rows is not for users
            warnings.resetwarnings()  # scikit-learn hands each filter to each of its tasks
            warnings.simplefilter("ignore")
            found = _compared(forest, model, library, curve)
        _remember(model, checksum, found)
    return found


def _is_worker() -> bool:
    """Whether this process works for another that may have forked it before glasswood was imported.

    A process that `spawn` has started is a new one, without threads that only its parent has; those that it forks are
    not, and their identity has a number more.
    """
    processes = sys.modules.get("multiprocessing.process")
    if processes is None or processes.parent_process() is None:
        return False
    is_spawned = "--multiprocessing-fork" in sys.orig_argv and len(processes.current_process()._identity) == 1
    return not is_spawned


def _last_step(model: Any, forest: TreeEnsemble) -> tuple[Any, TreeEnsemble]:
    """Find the estimator of trees behind searches and pipelines, and its forest without the steps before it."""
    while True:
        if hasattr(model, "best_estimator_") and hasattr(model, "cv"):
            model = model.best_estimator_
        elif hasattr(model, "steps") and hasattr(model, "named_steps"):
            model = model.steps[-1][1]
        elif type(model).__name__ == "FrozenEstimator":
            model = model.estimator
        else:
            break
    if forest.transform is not None and not isinstance(forest.transform, TargetStatistics):
        forest = forest.without_transform()
    return model, forest


def _checksum(forest: TreeEnsemble, curve: Curve | None) -> int:
    """Checksum of what may change if the model is trained on or its parameters are."""
    checksum = 0
    routes = forest.feature, forest.threshold, forest.left, forest.default_left, forest.category_set
    numbers = forest.leaf_value, forest.linear_coefficient, forest.tree_weight, forest.base_score
    for array in (*routes, *numbers):
        checksum = zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, checksum)
    said = (
        forest.link,
        forest.prediction,
        forest.prediction_offset,
        forest.missing,
        curve and (curve.kind, *curve.times),
    )
    return zlib.crc32(repr(said).encode(), checksum)


def forget() -> None:
    """Compare all models again."""
    with _lock:
        _seen.clear()


def _remember(model: object, checksum: int, found: Checked) -> None:
    key = id(model)
    try:
        alive = weakref.ref(model, lambda _: _seen.pop(key, None))
    except TypeError:
        return
    _seen[key] = alive, checksum, found


def _compared(forest: TreeEnsemble, model: Any, library: str, curve: Curve | None) -> Checked:
    n_rows, difference = 0, 0.0
    unchecked = [*_unknown(forest)]
    for X, what in _rows(forest, model, library):
        try:
            expected = answers(model, library, forest, X, curve)
        except Exception as error:  # whatever a library raises for rows that it does not take
            unchecked.append(f"{what}, which the library refuses: {_in_short(error)}")
            continue
        try:
            margins = _margins(forest, X)
        except (TypeError, ValueError, NotImplementedError) as error:
            unchecked.append(f"{what}, which glasswood refuses: {_in_short(error)}")
            continue
        for output, theirs in expected.items():
            found = respond(forest, margins, output)
            difference = max(difference, _difference(forest, margins, output, found, theirs))
        n_rows += X.shape[0]
    return Checked(n_rows, difference, tuple(unchecked))


def _in_short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"


def _rows(forest: TreeEnsemble, model: Any, library: str) -> Iterator[tuple[Any, str]]:
    """Yield rows of each kind that the model takes, and their name."""
    numbers = made_rows(forest)
    if isinstance(forest.transform, TargetStatistics) or forest.category_hash:
        yield _text_rows(numbers, forest), "rows with categories"
        return
    stands_for_absent = len(forest.absent_missing) > 0 or " in scikit-learn" in forest.source
    if stands_for_absent:
        import scipy.sparse

        stored = np.where(np.isnan(numbers), 0.0, numbers).astype(forest.threshold.dtype)
        stored[::2, ::2] = 0.0
        yield scipy.sparse.csr_matrix(stored), "sparse rows"
        if not len(forest.absent_missing):
            return
    rows = shaped(numbers, forest, library != "xgboost")
    yield (as_taken(model, rows) if library == "ydf" else rows), "rows"


def _unknown(forest: TreeEnsemble) -> Iterator[str]:
    """Name what made rows cannot hold."""
    if isinstance(forest.transform, TargetStatistics) or forest.category_hash:
        yield "categories that training knew, of which CatBoost keeps hashes"
    if forest.open_tables:
        yield "which columns have the model's tables of categories"


def _text_rows(numbers: Array, forest: TreeEnsemble) -> Any:
    """Rows of CatBoost's columns: numbers, and texts where it hashes categories."""
    import pandas

    statistics = forest.transform
    hashes = (forest.categories or ()) if statistics is None else statistics.hashes
    n = len(hashes)
    names = (forest.feature_names if statistics is None else statistics.names) or tuple(range(n))
    rng = np.random.default_rng(1)
    columns = {}
    for place, name in enumerate(names):
        if hashes[place] is None:
            columns[name] = numbers[:, place].astype(np.float32)
        else:
            columns[name] = rng.choice([*TEXTS, "glasswood: unseen"], len(numbers))
    return pandas.DataFrame(columns)


def _margins(forest: TreeEnsemble, X: Any) -> Array:
    """Margins, (n, n_outputs), by the algorithm that needs the least to be laid out."""
    evaluator = evaluator_of(forest)
    if is_sparse(X):
        margins: Array = evaluator.predict(X, "margin", "by_sample", "cpu", 1)
        return margins.reshape(X.shape[0], -1)
    rows = as_rows(arranged(X, forest), forest)
    return evaluator.cpu.margins(rows, evaluator.choose("by_sample", len(rows), "cpu"), 1)


def _difference(forest: TreeEnsemble, margins: Array, output: str, found: Any, expected: Any) -> float:
    """Largest difference of an output; raises ValueError if it is more than rounding."""
    if isinstance(found, list):
        return max(_difference(forest, margins, output, *pair) for pair in zip(found, expected, strict=True))
    theirs = as_shaped(expected, found)
    if theirs.shape != found.shape:
        raise ValueError(_message(forest, output, 0, f"shape {found.shape}", f"shape {theirs.shape}"))
    tolerance = TOLERANCE * _scale(forest, margins)
    if theirs.dtype.kind != "f" or (output == "prediction" and forest.prediction not in {"response", "margin"}):
        wrong = (found != theirs).reshape(len(found), -1).any(axis=1)
        wrong &= ~_may_tie(forest, margins, theirs, tolerance) if wrong.any() else True
        difference = 0.0
    else:
        gap = np.abs(found.astype(np.float64) - theirs)
        gap[(found == theirs) | (np.isnan(found) & np.isnan(theirs))] = 0.0
        if output != "margin":  # a link may stretch the margins' rounding
            tolerance = (
                TOLERANCE
                * max(1.0, tolerance / TOLERANCE)
                * max(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0), 1e-30)
            )
        wrong = ~(gap <= tolerance).reshape(len(found), -1).all(axis=1)
        difference = float(gap.max(initial=0.0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(_message(forest, output, row, found[row], theirs[row]))
    return difference


def _scale(forest: TreeEnsemble, margins: Array) -> float:
    """Size of the numbers that libraries add up."""
    with np.errstate(over="ignore", invalid="ignore"):
        leaf = np.abs(forest.leaf_value).max(initial=0.0) * np.abs(forest.tree_weight).max(initial=0.0)
        return float(max(np.abs(margins).max(initial=0.0), np.abs(forest.base_score).max(initial=0.0), leaf))


def _may_tie(forest: TreeEnsemble, margins: Array, theirs: Array, tolerance: float) -> Array:
    """Whether rounding alone may have given the library's labels: moving a margin by the tolerance gives them too."""
    ties = np.zeros(len(margins), np.bool_)
    flat = theirs.reshape(len(theirs), -1)
    for output in range(margins.shape[1]):
        for step in (-2 * tolerance, 2 * tolerance):
            moved = margins.copy()
            moved[:, output] += step
            labels = np.asarray(respond(forest, moved, "prediction")).reshape(len(theirs), -1)
            ties |= (labels == flat).all(axis=1)
    return ties


def _message(forest: TreeEnsemble, output: str, row: int, found: Any, theirs: Any) -> str:
    return (
        f"glasswood and {shown(forest.source or 'the model')} disagree on the {output} of row {row} of those made "
        f"to check the model: {shown(found)} instead of {shown(theirs)}; do not use this forest, and report the model "
        "(check=False leaves the check out)"
    )
