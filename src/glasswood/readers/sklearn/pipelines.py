"""Pipelines: the forest of the last step, behind the steps that transform its rows."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array
from glasswood.model.ensemble import TreeEnsemble, of_absent

if TYPE_CHECKING:
    Source = tuple[str, ...]

PASSES = ("passthrough", None)

ONE_TO_ONE = (
    "Binarizer", "MaxAbsScaler", "MinMaxScaler", "OrdinalEncoder", "PowerTransformer", "QuantileTransformer",
    "RobustScaler", "SimpleImputer", "StandardScaler", "TargetEncoder",
)  # fmt: skip
"""scikit-learn's transformers whose outputs, where they are as many as the inputs, come from one input each."""

KEEP_SPARSE = ("Binarizer", "MaxAbsScaler", "RobustScaler", "SimpleImputer", "StandardScaler")
"""scikit-learn's transformers that make sparse rows of sparse ones, and dense rows of dense ones."""


@dataclasses.dataclass(frozen=True, eq=False)
class Transformer:
    """Steps before the forest of a pipeline.

    Attributes
    ----------
    steps : estimator with `transform`
        All steps but the last.
    source_columns : tuple of tuples of str
        Columns that each feature of the forest comes from.
    refuses_nan : bool
        Whether NaN stands for entries that sparse rows do not store, so that no other entry may be NaN.
    """

    steps: Any
    source_columns: tuple[Source, ...]
    refuses_nan: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the first step takes; x0, x1, ... where they have none."""
        return tuple(_names_in(self.steps))

    @property
    def shown_columns(self) -> tuple[str | None, ...]:
        """Column that each feature shows the value of: the only one it comes from, if that makes no other feature."""
        counts = Counter(self.source_columns)
        return tuple(one[0] if len(one) == counts[one] == 1 else None for one in self.source_columns)

    def __call__(self, X: Any) -> Any:
        """Transform rows.

        Raises
        ------
        ValueError
            If the steps change the number of rows.
        NotImplementedError
            If a forest whose estimators take entries that are not stored differently meets NaN, or for rows on a GPU.
        """
        if hasattr(X, "__cuda_array_interface__"):
            raise NotImplementedError("a pipeline's steps transform rows on the host; pass host rows")
        rows = self.steps.transform(X)
        before, after = _count(X), _count(rows)
        if before is not None and after is not None and before != after:
            raise ValueError(
                f"the pipeline's steps make {after} rows of {before}; glasswood reads pipelines that keep every row"
            )
        if self.refuses_nan:
            _refuse_stored_nan(rows)
        return rows


def _refuse_stored_nan(rows: Any) -> None:
    values = np.asarray(rows.data if hasattr(rows, "tocsr") else rows)
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise NotImplementedError(
            "the pipeline's steps leave NaN in sparse rows, and its estimators do not agree on entries that are not "
            "stored; add an imputer, or let the encoder make dense rows"
        )


def read_pipeline(model: Any, read: Callable[[Any], TreeEnsemble]) -> TreeEnsemble:
    """Read a Pipeline whose last step is an ensemble of trees of any library.

    Raises
    ------
    TypeError
        If the last step is none, or a step before it does not transform.
    """
    (*before, (name, last)) = model.steps
    if last in PASSES or not hasattr(last, "predict"):
        raise TypeError(f"the pipeline's last step ({name!r}) is {last!r}, which predicts nothing; expected trees")
    forest = read(last)
    before = [(label, step) for label, step in before if not _passes(step)]
    for label, step in before:
        if not hasattr(step, "transform"):
            raise TypeError(f"the pipeline's step {label!r} is a {type(step).__name__}, which does not transform rows")
    if not before:
        return forest
    if forest.transform is not None:
        raise NotImplementedError("pipelines within pipelines are not supported as last steps; flatten their steps")
    steps = model[:-1]
    names = forest.feature_names or _names_out(steps, forest.n_features)
    sources = _sources_of_steps([step for _, step in before], [(name,) for name in _names_in(steps)], forest.n_features)
    is_mixed = len(forest.absent_missing) > 0 and _gives_sparse(steps, False) is True
    forest = of_absent(forest) if is_mixed else forest
    return dataclasses.replace(forest, feature_names=names, transform=Transformer(steps, tuple(sources), is_mixed))


def _gives_sparse(step: Any, is_sparse: bool | None) -> bool | None:
    """Whether a fitted step makes sparse rows, if those that it is given are sparse or not; None where unknown."""
    if not transforms_as_sklearn(step):
        return None
    if hasattr(step, "steps"):
        for _, one in step.steps:
            is_sparse = is_sparse if _passes(one) else _gives_sparse(one, is_sparse)
        return is_sparse
    kind = type(step).__name__
    if hasattr(step, "sparse_output_"):
        return bool(step.sparse_output_)
    if kind == "OneHotEncoder":
        return bool(step.sparse_output)
    if kind == "KBinsDiscretizer":
        return bool(step.encode == "onehot")
    return is_sparse if kind in KEEP_SPARSE or hasattr(step, "get_support") else None


def _count(rows: Any) -> int | None:
    shape = getattr(rows, "shape", None)
    return int(shape[0]) if shape else None


def _passes(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _names_out(steps: Any, n_features: int) -> tuple[str, ...] | None:
    try:
        names = tuple(str(name) for name in steps.get_feature_names_out())
    except (AttributeError, ValueError, TypeError):
        return None
    return names if len(names) == n_features else None


def _names_in(steps: Any) -> list[str]:
    """Names of the pipeline's own columns."""
    names = getattr(steps, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    return [f"x{i}" for i in range(int(getattr(steps, "n_features_in_", 0)))]


def _sources_of_steps(steps: Sequence[Any], sources: list[Source], n_out: int) -> list[Source]:
    """Columns that the outputs of steps one behind the other come from."""
    for i, step in enumerate(steps):
        after = n_out if i + 1 == len(steps) else int(getattr(steps[i + 1], "n_features_in_", len(sources)))
        sources = _sources(step, sources, after)
    return sources


def _sources(step: Any, sources: list[Source], n_out: int) -> list[Source]:
    """Columns that the `n_out` outputs of a step come from; `sources` are those of its inputs.

    All outputs of a step that is not known come from all of its inputs, however many there are.
    """
    if not transforms_as_sklearn(step):
        return _mixed(sources, n_out)
    if hasattr(step, "steps"):
        return _sources_of_steps([one for _, one in step.steps if not _passes(one)], sources, n_out)
    if hasattr(step, "transformers_"):
        return _sources_of_columns(step, sources, n_out)
    if hasattr(step, "get_support"):
        return [source for source, kept in zip(sources, step.get_support(), strict=True) if kept]
    if getattr(step, "indicator_", None) is not None:
        marked = [sources[i] for i in step.indicator_.features_]
        return _sources_of_counts(step, sources, n_out - len(marked)) + marked
    return _sources_of_counts(step, sources, n_out)


def transforms_as_sklearn(step: Any) -> bool:
    """Whether a step's `transform` is scikit-learn's, not that of a class derived from one or of another library."""
    owner = next((kind for kind in type(step).__mro__ if "transform" in vars(kind)), None)
    if "transform" in getattr(step, "__dict__", {}):
        return False
    return owner is not None and owner.__module__.partition(".")[0] == "sklearn"


def _sources_of_counts(step: Any, sources: list[Source], n_out: int) -> list[Source]:
    """Find the same where each input makes some outputs, one input after the other; else all come from all."""
    if (counts := _counts(step, sources)) is not None and sum(counts) == n_out:
        return [source for source, count in zip(sources, counts, strict=True) for _ in range(count)]
    return sources if len(sources) == n_out and _is_one_to_one(step) else _mixed(sources, n_out)


def _is_one_to_one(step: Any) -> bool:
    """Whether each output comes from the input in its place, if there are as many."""
    kind = type(step).__name__
    if kind == "FunctionTransformer":
        # NumPy's own functions of one number; any other may mix columns or put them in another order.
        is_plain = isinstance(step.func, np.ufunc) and step.func.nin == 1 and not step.kw_args
        return step.func is None or is_plain
    if kind == "KBinsDiscretizer":
        return bool(step.encode == "ordinal")
    return kind in ONE_TO_ONE


def _mixed(sources: list[Source], n_out: int) -> list[Source]:
    return [tuple(dict.fromkeys(column for source in sources for column in source))] * n_out


def _sources_of_columns(step: Any, sources: list[Source], n_out: int) -> list[Source]:
    """Columns that a ColumnTransformer's outputs come from."""
    names = _names_in(step)
    result: list[Source] = [()] * n_out
    for name, one, columns in step.transformers_:
        outputs = range(n_out)[step.output_indices_[name]]
        if not len(outputs):
            continue
        inputs = [sources[i] for i in _positions(columns, names)]
        of_one = inputs if isinstance(one, str) else _sources(one, inputs, len(outputs))
        for place, source in zip(outputs, of_one, strict=True):
            result[place] = source
    return result


def _positions(columns: Any, names: list[str]) -> list[int]:
    """Positions of columns that are named, numbered, marked or sliced."""
    if isinstance(columns, str):
        return [names.index(columns)]
    if isinstance(columns, slice):
        whole = not isinstance(columns.start, str) and not isinstance(columns.stop, str)
        if whole:
            return list(range(len(names))[columns])
        start = 0 if columns.start is None else names.index(columns.start)
        stop = len(names) if columns.stop is None else names.index(columns.stop) + 1
        return list(range(start, stop))
    marked: Array = np.asarray(columns)
    if marked.dtype == np.bool_:
        return np.flatnonzero(marked).tolist()
    return [names.index(one) if isinstance(one, str) else int(one) for one in np.atleast_1d(marked).tolist()]


def _counts(step: Any, sources: list[Source]) -> list[int] | None:
    """Count the outputs of each input of a step; None where they are not known."""
    kind = type(step).__name__
    if kind == "OneHotEncoder" and hasattr(step, "categories_"):
        return _one_hot_counts(step)
    if kind == "KBinsDiscretizer" and step.encode != "ordinal":
        return [int(count) for count in step.n_bins_]
    if kind == "SplineTransformer" and sources:
        return [step.n_features_out_ // len(sources)] * len(sources)
    if kind == "TargetEncoder" and getattr(step, "target_type_", "") == "multiclass":
        return [len(step.classes_)] * len(sources)
    if kind == "SimpleImputer" and not step.keep_empty_features and step.statistics_.dtype.kind == "f":
        return [int(not dropped) for dropped in np.isnan(step.statistics_)]
    return None


def _one_hot_counts(step: Any) -> list[int]:
    infrequent = getattr(step, "infrequent_categories_", None) or [None] * len(step.categories_)
    dropped = [None] * len(step.categories_) if step.drop_idx_ is None else step.drop_idx_
    return [
        len(categories) - (0 if rare is None else len(rare) - 1) - (drop is not None)
        for categories, rare, drop in zip(step.categories_, infrequent, dropped, strict=True)
    ]
