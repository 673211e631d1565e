"""Batches of rows to predictions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from glasswood.base.config import chosen
from glasswood.base.typing import Array
from glasswood.evaluate.evaluator import Evaluator
from glasswood.inputs import arranged
from glasswood.mapping.columns import prediction_columns
from glasswood.mapping.mapper import Mapper, threads_of_workers
from glasswood.model.storage import forest_bytes, load_attachment


class PredictionMapper(Mapper):
    """Maps batches to predictions (`Forest.mapper`)."""

    def __init__(
        self,
        evaluator: Evaluator,
        output: str,
        columns: Any,
        inputs: Sequence[str] | None,
        path: str | os.PathLike[str] | None,
    ) -> None:
        evaluator.check(output, "auto", "cpu")
        super().__init__(evaluator, path, inputs, columns)
        self._output, self._n_jobs, self._device = output, threads_of_workers(), chosen("device", "cpu")

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
        rows = arranged(rows, engine.forest)
        return engine.predict(rows, self._output, "auto", self._device, self._n_jobs)
