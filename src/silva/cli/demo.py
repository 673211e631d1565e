"""`silva demo`: a model of California housing, predicted and explained."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cli.columns import explanation_metadata, margin_columns, to_batch, value_columns
from silva.cli.tables import TableReader, writing
from silva.inputs import as_rows
from silva.report import import_plotting, ranked_table, save_beeswarm

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from silva.forest import Forest

DATA = Path(__file__).parent.parent / "data"
TARGET = "MedHouseVal"
UNIT = "$100,000"


def demo(options: argparse.Namespace) -> None:
    """Run `silva demo`."""
    import silva

    _use_files()
    forest, load_time = _timed(lambda: silva.load(DATA / "california_housing.json"))
    rows = as_rows(_housing(forest), forest)
    explainer = silva.Explainer(forest, n_jobs=options.n_jobs)
    prediction, predict_time = _timed(lambda: forest.predict(rows, n_jobs=options.n_jobs))
    explanation, explain_time = _timed(lambda: explainer(rows))
    print(f"California housing: {len(rows):,} districts, {forest.n_features} features, median price in {UNIT}")
    print(f"Model: {forest.source}, {forest.n_trees} trees, {forest.n_leaves:,} leaves, depth {forest.depth}\n")
    _print_time("load", load_time)
    _print_time("predict", predict_time, len(rows))
    _print_time("explain", explain_time, len(rows))
    print(f"\nadditivity: |expected value + sum of phi - prediction| <= {_error(explanation, prediction):.1e}\n")
    print(ranked_table(forest.feature_names or (), np.abs(explanation.values).mean(axis=0)))
    picture, file = options.out / "beeswarm.png", options.out / "explanation.parquet"
    options.out.mkdir(parents=True, exist_ok=True)
    save_beeswarm(explanation, picture, title=f"California housing: median price in {UNIT}")
    _write(explanation, file, forest, explainer.expected_value, prediction)
    print(f"\npicture      {picture}\nexplanation  {file}")


def _use_files() -> None:
    """Draw into files, without a display; what is imported here is not part of any time."""
    import_plotting()[1].switch_backend("Agg")


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = run()
    return result, time.perf_counter() - start


def _print_time(what: str, seconds: float, n_rows: int = 0) -> None:
    rate = f"{n_rows / seconds:>14,.0f} rows/s" if n_rows else ""
    print(f"{what:<8}{1000 * seconds:>9,.1f} ms{rate}")


def _housing(forest: Forest) -> Any:
    """Read the features of all districts as one record batch."""
    reader = TableReader(DATA / "california_housing.parquet")
    (batch,) = reader.batches(list(forest.feature_names or ()), [], [], reader.n_rows or 0)
    return batch


def _error(explanation: Any, prediction: NDArray[Any]) -> float:
    total = explanation.values.sum(axis=1, dtype=np.float64) + explanation.base_values
    return float(np.abs(total - prediction).max())


def _write(explanation: Any, path: Path, forest: Forest, expected_value: ArrayLike, margin: NDArray[Any]) -> None:
    columns = value_columns(explanation.values, forest.feature_names or (), forest)
    with writing(path, explanation_metadata(forest, expected_value)) as write:
        write(to_batch({}, columns | margin_columns(margin, expected_value, forest)))
