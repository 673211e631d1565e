"""Training rows by the leaves of a forest: what all questions about neighbours share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.device import on_host
from glasswood.base.escapes import escaped_errors, shown
from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, Doubles, Int32s, Rows
from glasswood.evaluate.evaluator import evaluator_of
from glasswood.forest import Forest
from glasswood.inputs import arranged, as_rows, with_tables
from glasswood.inputs.targets import as_targets, class_places, refuse_counts, refuse_text, row_weights
from glasswood.loading import load
from glasswood.model.ensemble import TreeEnsemble
from glasswood.neighbors.index import LeafIndex, TargetIndex, in_parts, list_rows
from glasswood.neighbors.stored import load_neighbors, save_neighbors
from glasswood.neighbors.training import bags_of, check_counts, class_weights_of, drew_by_weight, tree_shares


class LeafRows:
    """Training rows, their targets and their leaves.

    Parameters
    ----------
    model, X, y, sample_weight, tree_weight, check, n_jobs
        As for `Neighbors`.
    """

    forest: Forest

    def __init__(
        self,
        model: object,
        X: Rows,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        tree_weight: str | ArrayLike = "auto",
        check: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        loaded = load(model)
        ensemble = with_tables(X, loaded.ensemble)
        loaded = loaded if ensemble is loaded.ensemble else Forest(ensemble)
        if ensemble.n_trees == 0:
            raise ValueError("the forest has no trees, expected at least one")
        rows = np.array(as_rows(arranged(on_host(X), ensemble), ensemble))  # the caller may change X later
        if not len(rows):
            raise ValueError("X has no rows, expected the rows that the forest was trained on")
        targets = None if y is None else targets_of(ensemble, y, len(rows))
        if y is not None:
            refuse_counts(ensemble, sample_weight, "Neighbors")
        row_weight = _row_weight(sample_weight, len(rows))
        bags = bags_of(model, len(rows), ensemble.n_trees) if check else None
        if bags is not None and drew_by_weight(ensemble, bags):
            row_weight = None
        positions = evaluator_of(ensemble).positions(rows, n_jobs)
        lists = list_rows(ensemble, positions, n_jobs)
        classes = class_weights_of(model, ensemble, targets, bags) if check else None
        index = LeafIndex(ensemble, lists, np.ones(1, np.int64), bags, row_weight, classes, targets)
        index.positions = positions
        counts = index.leaf_weights(n_jobs)
        if check and not (targets is None and getattr(model, "class_weight", None) is not None):
            check_counts(ensemble, counts)
        index.weights = tree_shares(ensemble, counts, tree_weight)
        self._settle(loaded, index, rows, targets, n_jobs)

    def _settle(
        self,
        forest: Forest,
        index: LeafIndex,
        rows: Array | None,
        targets: Array | None,
        n_jobs: int | None,
    ) -> None:
        assert rows is not None
        self.forest, self._index, self._rows, self._targets = forest, index, rows, targets
        self._n_jobs = n_jobs
        self._scores: Doubles | None = None

    def __getstate__(self) -> dict[str, object]:
        computed = [name for name in self.__dict__ if isinstance(getattr(type(self), name, None), cached_property)]
        return {name: value for name, value in self.__dict__.items() if name not in computed}

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        target = "" if self._targets is None else ", with targets"
        return f"{type(self).__name__}({self.n_rows:,} training rows{target}, {self.forest!r})"

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return len(self._index)

    @property
    def tree_weight(self) -> Doubles:
        """Weights of the trees; they add up to 1."""
        return self._index.weights / self._index.total

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the forest, the index, the training rows and targets to a `.glasswood` file.

        `glasswood.load` reads the forest of such a file, `Neighbors.load` all of it.

        Parameters
        ----------
        path : path
            The file appears complete or not at all.

        Raises
        ------
        ValueError
            If the suffix belongs to another library's models.
        """
        parts = {"training": self._rows, "targets": self._targets, "scores": self._scores}
        has_numbers = self._targets is not None and not self._is_classifier
        save_neighbors(path, self._index, parts, self._by_target if has_numbers else [])

    @classmethod
    @escaped_errors()
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """Read what `save` has written.

        Parameters
        ----------
        path : path
        mmap : bool
            Map the file, so that processes share its memory (`glasswood.load`).

        Returns
        -------
        Neighbors

        Raises
        ------
        ValueError
            If the file holds no neighbours, or is truncated or corrupt.
        """
        index, parts, targets = load_neighbors(path, mmap)
        made = cls.__new__(cls)
        made._settle(Forest(index.forest), index, parts["training"], parts["targets"], None)
        made._scores = parts["scores"]
        if targets:
            made._by_target = targets
        return made

    # Inside

    def _parts(self, rows: Array | None) -> Iterator[tuple[slice, Int32s]]:
        """Find the leaves of rows, or of the training rows, part by part."""
        for part in in_parts(self.forest.ensemble, self.n_rows if rows is None else len(rows)):
            yield part, self._index.positions[part] if rows is None else self._evaluated(rows[part])

    def _evaluated(self, rows: Array) -> Int32s:
        return evaluator_of(self.forest.ensemble).positions(rows, self._n_jobs)

    def _settled(self, X: Rows, allows_nan: bool = False) -> Array:
        ensemble = self.forest.ensemble
        if allows_nan and not ensemble.nan_allowed:
            import dataclasses

            ensemble = dataclasses.replace(ensemble, nan_allowed=True)
        return as_rows(arranged(on_host(X), ensemble), ensemble)

    def _read(self, X: Rows) -> tuple[Int32s, Array]:
        rows = self._settled(X)
        return self._evaluated(rows), rows

    def _positions(self, X: Rows | None) -> Int32s:
        return self._index.positions if X is None else self._read(X)[0]

    def _given_targets(self, what: str) -> Array:
        if self._targets is None:
            raise ValueError(f"{what} needs the targets of the training rows; pass y to glasswood.Neighbors")
        return self._targets

    def _numbers(self, what: str) -> None:
        self._given_targets(what)
        if self._is_classifier:
            raise ValueError(f"{what} requires numeric targets, these are classes; call predict_set")

    def _one_output(self, what: str) -> None:
        if self._given_targets(what).ndim > 1 or self.forest.n_outputs > 1:
            raise ValueError(f"{what} requires a model with one output, this one has {self.forest.n_outputs}")

    @property
    def _is_classifier(self) -> bool:
        return len(self.forest.classes) == 1

    @property
    def _labels(self) -> Array:
        return self.forest.classes[0]

    def _predictions(self, rows: Array) -> Doubles:
        found = evaluator_of(self.forest.ensemble).predict_rows(rows, "prediction", self._n_jobs)
        return np.asarray(found, np.float64)

    def _probabilities(self, rows: Array) -> Doubles:
        found = np.asarray(evaluator_of(self.forest.ensemble).predict_rows(rows, "probability", self._n_jobs))
        return np.stack([1 - found, found], axis=1) if found.ndim == 1 else found

    @cached_property
    def _by_target(self) -> list[TargetIndex]:
        """Lists of the ranks of each output's targets."""
        targets = self._given_targets("quantile")
        return [TargetIndex.of(self._index, column, self._n_jobs) for column in targets.reshape(len(targets), -1).T]


def _row_weight(sample_weight: ArrayLike | None, n_rows: int) -> Doubles | None:
    return None if sample_weight is None else row_weights(sample_weight, n_rows)  # the caller may change it later


def targets_of(forest: TreeEnsemble, y: ArrayLike, n_rows: int) -> Array:
    """Targets as float64, or places among the classes of a classifier."""
    values = as_targets(y, n_rows)
    if len(forest.classes) > 1:
        raise NotImplementedError(
            f"the model has {len(forest.classes)} classification outputs; Neighbors expects one, or y=None"
        )
    if forest.classes:
        return class_places(values, forest).astype(np.int32)
    refuse_text(values)
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        row = int(np.argmax(~np.isfinite(values.reshape(n_rows, -1)).all(axis=1)))
        raise ValueError(f"y is {shown(str(values[row]))} in row {row}, expected finite numbers; leave such rows out")
    return values
