"""Batches of rows to predictions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from glasswood.base.parallel import n_threads
from glasswood.base.typing import Array
from glasswood.evaluate.evaluator import Evaluator
from glasswood.inputs import arranged
from glasswood.mapping.columns import prediction_columns
from glasswood.mapping.mapper import Mapper
from glasswood.model.storage import forest_bytes, load_attachment


class PredictionMapper(Mapper):
    """Maps batches to predictions (`Forest.mapper`)."""

    def __init__(
        self,
        evaluator: Evaluator,
        output: str,
        columns: Any,
        inputs: Sequence[str] | None,
        device: str,
        n_jobs: int | None,
        path: str | os.PathLike[str] | None,
    ) -> None:
        evaluator.check(output, "auto", device)
        n_threads(n_jobs)
        super().__init__(evaluator, path, inputs, columns)
        self._output, self._device, self._n_jobs = output, device, n_jobs

    def _content(self) -> bytes:
        return forest_bytes(self._live.forest)

    def _open(self, source: bytes | str) -> Evaluator:
        return Evaluator(load_attachment(source, mmap=isinstance(source, str))[0])

    @property
    def _settings(self) -> tuple[object, ...]:
        return ()

    def _compute(self, engine: Evaluator, rows: Any) -> dict[str, Array]:
        return prediction_columns(self._of_array(engine, rows), self._output, engine.forest)

    def _of_array(self, engine: Evaluator, rows: Any) -> Any:
        rows = arranged(rows, engine.forest, by_position=False)
        return engine.predict(rows, self._output, "auto", self._device, self._n_jobs)
