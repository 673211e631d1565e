"""What CatBoost's two documents, .cbm and JSON, have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Array, Doubles, Int32s, Int64s

if TYPE_CHECKING:
    from glasswood.model.target_statistics import Statistic, StatisticTable

MAX_OUTPUTS = 2**20
NO_LEAF = 2**32 - 1
"""In `StepTrees.leaf`: the node holds no value."""


@dataclass(frozen=True, eq=False)
class NumberFeature:
    """A numerical feature, and the borders that the trees test: a row is right of a border if it is greater."""

    column: int
    name: str
    borders: NDArray[np.float32]
    nan_is_right: bool


@dataclass(frozen=True, eq=False)
class CategoryFeature:
    """A categorical feature, and the categories that the trees test, as hashes of their texts."""

    column: int
    name: str
    hashes: Int32s


@dataclass(frozen=True, eq=False)
class CtrFeature:
    """A statistic, and the borders that the trees test."""

    statistic: Statistic
    borders: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class StepTrees:
    """Trees that are not oblivious, their nodes tree after tree.

    Attributes
    ----------
    step : (n_nodes, 2)
        Distance to the left and to the right child; where one of them is 0, a leaf takes the child's place, and where
        both are, the node's.
    leaf : (n_nodes,)
        The leaf at the node, times the number of outputs; `NO_LEAF` if there is none.
    """

    step: Array
    leaf: Array


@dataclass(frozen=True, eq=False)
class Model:
    """A document.

    Attributes
    ----------
    numbers, categories
        All features of the two kinds.
    n_outputs : int
    sizes : (n_trees,)
        Splits of each oblivious tree, nodes of each other tree.
    splits : (sizes.sum(),)
        Number of each test: the borders of all numerical features come first, then all categories of the categorical,
        then the borders of the target statistics.
    leaf_value : (n_leaves * n_outputs,)
    leaf_weight : (n_leaves,) or (0,)
        Training weight of each leaf, empty if it was not recorded.
    steps : StepTrees or None
        None if the trees are oblivious.
    scale, bias : float, (n_outputs,)
        A row's margin is the scale times the sum of its leaves, plus the bias.
    info : dict
        Training parameters, labels and more, some of it as JSON.
    ctrs, tables
        Target statistics, and the tables that they look up.
    """

    numbers: Sequence[NumberFeature]
    categories: Sequence[CategoryFeature]
    n_outputs: int
    sizes: Int64s
    splits: Int64s
    leaf_value: Doubles
    leaf_weight: Doubles
    steps: StepTrees | None
    scale: float
    bias: Doubles
    info: dict[str, Any]
    ctrs: Sequence[CtrFeature] = ()
    tables: Sequence[StatisticTable] = ()

    @property
    def features(self) -> list[NumberFeature | CategoryFeature]:
        """All features, in the order of their tests."""
        return [*self.numbers, *self.categories]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.features)

    def feature_names(self) -> tuple[str, ...] | None:
        """Name the columns; None if the training data had no names."""
        names = [""] * self.n_features
        for feature in self.features:
            names[feature.column] = feature.name
        return tuple(name or str(column) for column, name in enumerate(names)) if any(names) else None


def refuse_estimated(what: str) -> None:
    """Refuse features that are computed from others before a tree tests them."""
    raise NotImplementedError(
        f"the model computes features from {what} before its trees test them, which glasswood does not do; "
        "train on numbers and categories"
    )


def check_features(model: Model) -> None:
    """Check that the features are the columns 0, 1, ..., each once.

    Raises
    ------
    ValueError
        If they are not, or borders and categories are not proper tests.
    """
    columns = sorted(feature.column for feature in model.features)
    if columns != list(range(model.n_features)):
        raise ValueError(
            f"its features are the columns {columns[:8]}, expected 0 to {model.n_features - 1}; "
            "columns of text or embeddings are not supported"
        )
    for number in model.numbers:
        if np.isnan(number.borders).any():
            raise ValueError(f"feature {number.column} has a border that is not a number")
    for category in model.categories:
        if len(np.unique(category.hashes)) < len(category.hashes):
            raise ValueError(f"feature {category.column} tests a category twice")
    for ctr in model.ctrs:
        if not np.isfinite(ctr.borders).all():
            raise ValueError("a target statistic has a border that is not finite")
        width = model.tables[ctr.statistic.table].counts.shape[1]
        last = {"Borders": width - 2, "Buckets": width - 1}.get(ctr.statistic.kind, ctr.statistic.target_border)
        if not 0 <= ctr.statistic.target_border <= last:
            raise ValueError(f"a target statistic divides {width} classes at {ctr.statistic.target_border}")
