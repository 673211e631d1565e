"""What the libraries that are compared are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import CACHE, read, rows_of
from benchmarks.models import trained

if TYPE_CHECKING:
    import pandas

    from benchmarks.cases import Case

Call = Callable[[], Any]


@dataclass(frozen=True)
class Work:
    """What a case gives to every library."""

    case: Case

    @cached_property
    def model(self) -> Any:
        """The trained model, live in the library that trained it."""
        return trained(self.case.model)

    @cached_property
    def rows(self) -> NDArray[np.float32] | pandas.DataFrame:
        return rows_of(self.case.model.data, self.case.n_rows)

    @cached_property
    def target(self) -> NDArray[Any]:
        """What the rows' predictions are scored by."""
        target = read(self.case.model.data).target
        return target[np.arange(self.case.n_rows) % len(target)]

    @cached_property
    def estimator(self) -> Any:
        """The model as scikit-learn's functions take it."""
        if self.case.model.library != "xgboost":
            return self.model
        import xgboost

        classifier = xgboost.XGBClassifier(n_jobs=self.n_threads)
        classifier.load_model(self.saved(".ubj", save_xgboost))
        return classifier

    @cached_property
    def background(self) -> NDArray[np.float32]:
        """The last rows of the data."""
        return read(self.case.model.data).rows[-self.case.n_background :]

    @property
    def n_threads(self) -> int:
        return self.case.n_threads

    def saved(self, suffix: str, save: Callable[[Any, Path], Any]) -> Path:
        """Write the model beside the trained ones."""
        path = CACHE / f"{self.case.model.library}-saved{suffix}"
        save(self.model, path)
        return path


def save_xgboost(model: Any, path: Path) -> None:
    model.save_model(path)
