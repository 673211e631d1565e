"""One row by the names of its features, as the numbers that the trees compare."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Real
from typing import Any, NamedTuple, cast

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.typing import Array, Doubles
from glasswood.inputs.arrays import checked_row
from glasswood.inputs.categories import column_floats, object_column
from glasswood.inputs.matching import column_order
from glasswood.inputs.tables import refuse_open_tables
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_names

EXACT = 2**53
"""Whole numbers up to here are floats, too."""

MOST_HASHED = 100_000
"""Categories of a feature whose hashes are kept."""


class _Feature(NamedTuple):
    """Known values of a feature, and what they become.

    Attributes
    ----------
    codes : dict, or None
        Position of each category; None where the feature is a number.
    kinds : tuple of types
        Values that are numbers, or looked up; others are encoded as a column of a frame.
    other : float, or None
        Code of values that are not among the codes; None where they are hashed first.
    missing : float, or None
        Code of None; None where it is refused.
    """

    codes: dict[object, float] | None
    kinds: tuple[type, ...]
    other: float | None
    missing: float | None


class RowEncoder:
    """Turns one row of texts and numbers into the numbers that the trees compare; `Forest.encoder` makes it.

    They are those that a frame of this one row becomes: a category is its position in the forest's table.

    Parameters
    ----------
    forest : TreeEnsemble
    strict : bool
        Refuse a value that is none of the feature's categories, instead of what the model does with it.

    Attributes
    ----------
    unseen : dict
        By feature, how many rows held a value that is none of its categories, since the encoder was made: for a
        service's log. CatBoost's files hold the categories that a split tests, not those of training: nothing is
        counted there.

    Raises
    ------
    NotImplementedError
        If CatBoost's model is to be strict.
    """

    def __init__(self, forest: TreeEnsemble, strict: bool = False) -> None:
        refuse_open_tables(forest, "a row by name")
        if strict and forest.category_hash:
            raise NotImplementedError(
                "strict=True needs the categories of training; CatBoost's models hold those alone that a split tests"
            )
        self._forest, self._strict = forest, strict
        self.unseen: dict[str, int] = {}
        self._lock = threading.Lock()
        self._tables = forest.categories or (None,) * forest.n_features
        self._features = [_feature_of(table, forest) for table in self._tables]

    def __call__(self, row: Mapping[str, Any] | Sequence[Any]) -> Doubles:
        """Encode a row.

        Parameters
        ----------
        row : mapping, tuple or list
            Values by the names of the features, or in the features' order: numbers, texts of categories, None or NaN
            where one is missing.

        Returns
        -------
        float64, (n_features,)
            What ``predictor(names=True)`` and ``Explainer.row(names=True)`` take in place of the row.

        Raises
        ------
        ValueError
            If the row lacks features, or has others; if strict, for a value that is none of the feature's categories.
        TypeError
            If a value is neither a number nor a category as the model knows them.
        """
        codes = []
        for feature, value in enumerate(self.values(row)):
            known, kinds, other, missing = self._features[feature]
            code = missing if value is None else None
            if type(value) in kinds and (type(value) is not int or -EXACT <= value <= EXACT):
                code = value if known is None else known.get(value)
                if code is None and other is not None:
                    code = other
                    self._note_unseen(feature, value)
            codes.append(self._encode(feature, value) if code is None else code)
        return np.array(codes, np.float64)

    def __reduce__(self) -> tuple[object, ...]:
        return RowEncoder, (self._forest, self._strict)

    def values(self, row: Any) -> Sequence[Any]:
        """List the row's values in the features' order; refuse rows that have other features."""
        forest = self._forest
        if not hasattr(row, "keys"):
            if not isinstance(row, tuple | list):
                raise TypeError(
                    f"the row is a {type(row).__name__}, expected a mapping of names to values or a tuple of values"
                )
            if len(row) != forest.n_features:
                raise ValueError(f"the row has {len(row)} values, expected {forest.n_features}, one for each feature")
            return row
        if forest.feature_names is None:
            raise ValueError("the row has names and the forest has none; pass a tuple in the features' order")
        if len(row) == forest.n_features:
            try:
                return [row[name] for name in forest.feature_names]
            except KeyError:
                pass
        keys = list(row.keys())
        order = column_order(list(map(str, keys)), forest, "the row")
        return [row[keys[place]] for place in order or range(len(keys))]

    def _encode(self, feature: int, value: object) -> float:
        """Encode as a frame's column with this one value."""
        alone = np.empty(1, object)
        alone[0] = value
        with np.errstate(over="ignore"):
            table = self._tables[feature]
            code = float(column_floats(object_column(alone), table, feature, self._forest, "{} of the row")[0])
        known, kinds, other, _ = self._features[feature]
        if known is not None and other is None and type(value) in kinds:
            if len(known) >= MOST_HASHED:
                known.clear()
            known[value] = code
        elif table is not None and other is not None and not code < len(table) and not _is_missing(value):
            self._note_unseen(feature, value)
        return code

    def _note_unseen(self, feature: int, value: object) -> None:
        """Count a value that is none of the categories, or refuse it."""
        name = feature_names(self._forest)[feature]
        if not self._strict:
            with self._lock:
                self.unseen[name] = self.unseen.get(name, 0) + 1
            return
        table = cast("Array", self._tables[feature]).tolist()
        texts = [one for one in table if isinstance(one, str)] if isinstance(value, str) else []
        near = get_close_matches(str(value), texts, 1)
        meant = f"; did you mean {shown(repr(near[0]))}?" if near else ""
        raise ValueError(
            f"{shown(name)} is {shown(repr(value))}, none of the {len(table)} categories that the model knows{meant}"
        )


class ValueRow:
    """A function of rows of codes, for rows whose categories are values.

    Parameters
    ----------
    forest : TreeEnsemble
    of_codes : callable
    reduced : tuple
        What it is pickled as.
    strict : bool
        As for `RowEncoder`.
    """

    def __init__(
        self,
        forest: TreeEnsemble,
        of_codes: Callable[[Doubles], Any],
        reduced: tuple[object, ...],
        strict: bool = False,
    ) -> None:
        self._of_codes, self._reduced = of_codes, reduced
        self._n_features, self._encoder = forest.n_features, RowEncoder(forest, strict)
        tables = [table for table in forest.categories or () if table is not None]
        self._takes_objects = bool(forest.category_hash) or any(table.dtype.kind not in "biuf" for table in tables)

    def __call__(self, row: Any) -> Any:
        """Answer for a row, an array."""
        checked = checked_row(row, self._n_features, self._takes_objects)
        return self._of_codes(self._encoder(checked.ravel().tolist()))

    def __reduce__(self) -> tuple[object, ...]:
        return self._reduced


class NamedRow(ValueRow):
    """The same for a row by the names of the features, or one that `Forest.encoder` has encoded."""

    @property
    def unseen(self) -> dict[str, int]:
        """By feature, how many rows held a value that is none of its categories, as `RowEncoder` counts them."""
        return self._encoder.unseen

    def __call__(self, row: Any) -> Any:
        """Answer for a row, a mapping or a sequence."""
        return self._of_codes(row if isinstance(row, np.ndarray) else self._encoder(row))


def _is_missing(value: Any) -> bool:
    """Whether a value that became no category is a missing one: None, NaN, pandas' NA and NaT."""
    return (
        value is None or type(value).__name__ in {"NAType", "NaTType"} or (isinstance(value, Real) and value != value)
    )


def _feature_of(table: Array | None, forest: TreeEnsemble) -> _Feature:
    if table is None:
        return _Feature(None, (float, int), None, math.nan)
    if forest.category_hash:
        return _Feature({}, (str, int), None, None)
    values, unseen = table.tolist(), float(len(table)) if forest.unseen_apart else math.nan
    codes = {value: float(place) for place, value in enumerate(values)}
    if forest.empty_missing:
        codes[""] = math.nan
    for kinds in ((str,), (float, int)):
        if values and all(type(value) in kinds for value in values):
            return _Feature(codes, kinds, unseen, math.nan)
    return _Feature(codes, (), unseen, None)
