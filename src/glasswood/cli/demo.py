"""`glasswood demo`: a tree grown on California housing, and a forest on the same rows predicted and explained."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.pictures import save_picture
from glasswood.base.typing import Array
from glasswood.base.wording import leaves_text
from glasswood.cli.tables.reader import TableReader
from glasswood.cli.tables.writer import writing
from glasswood.display import import_plotting, ranked_table, save_beeswarm
from glasswood.inputs import as_rows
from glasswood.mapping.columns import explanation_metadata, margin_columns, value_columns
from glasswood.mapping.frames import arrow_batch
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_names

if TYPE_CHECKING:
    import argparse

DATA = Path(__file__).parent.parent / "data"
UNIT = "$100,000"
TREE: dict[str, Any] = {"max_leaves": 6, "n_iter_no_change": 30, "time_limit": 3.0}
"""Parameters of the grown tree: few leaves and short equations, which fit a screen, in a few seconds."""


def demo(options: argparse.Namespace) -> None:
    """Run `glasswood demo`."""
    import glasswood

    options.out.mkdir(parents=True, exist_ok=True)
    _use_files()
    forest, load_time = _timed(lambda: glasswood.load(DATA / "california_housing.json"))
    _grow(options)
    trees = forest.ensemble
    rows = as_rows(_housing(trees), trees)
    explainer = glasswood.Explainer(forest)
    prediction, predict_time = _timed(lambda: forest.predict(rows))
    explanation, explain_time = _timed(lambda: explainer(rows))
    print(f"Forest: {forest.source}, {forest.n_trees} trees, {forest.n_leaves:,} leaves, depth {forest.depth}\n")
    _print_time("load", load_time)
    _print_time("predict", predict_time, len(rows))
    _print_time("explain", explain_time, len(rows))
    print(f"\nadditivity: |expected value + sum of phi - prediction| <= {_error(explanation, prediction):.1e}\n")
    print(ranked_table(feature_names(trees), np.abs(explanation.values).mean(axis=0)))
    picture, file = options.out / "beeswarm.png", options.out / "explanation.parquet"
    save_beeswarm(explanation, picture, title=f"California housing: median price in {UNIT}")
    _write(explanation, file, trees, explainer.expected_value, prediction)
    print(f"\ntree         {options.out / 'tree.glasswood'}, {options.out / 'tree.png'}")
    print(f"picture      {picture}\nexplanation  {file}")


def _grow(options: argparse.Namespace) -> None:
    """Grow a small model tree on two thirds of the districts, print it, draw it and save it."""
    import glasswood
    from glasswood.cli.grow import read_table

    X, y = read_table(DATA / "california_housing.parquet", "MedHouseVal")
    print(f"California housing: {len(y):,} districts, {X.num_columns} features, median price in {UNIT}\n")
    train = np.random.default_rng(0).permutation(len(y)) < len(y) * 2 // 3
    tree = glasswood.ModelTreeRegressor(**TREE)
    _, seconds = _timed(lambda: tree.fit(X.filter(train), y[train]))
    error = np.sqrt(np.mean((tree.predict(X.filter(~train)) - y[~train]) ** 2))
    size = leaves_text(tree.n_leaves_)
    print(f"Tree grown in {seconds:.1f} s: {size}, error (RMSE) on held-out districts {error:.3f}\n")
    print(glasswood.export_text(tree), "\n")
    glasswood.plot_tree(tree, X.filter(train), y[train])
    save_picture(import_plotting()[1].gcf(), options.out / "tree.png", "png", dpi=110, bbox_inches="tight")
    tree.forest_.save(options.out / "tree.glasswood")


def _use_files() -> None:
    """Draw into files, without a display; what is imported here is not part of any time."""
    import_plotting()[1].switch_backend("Agg")


def _timed(run: Callable[[], object]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = run()
    return result, time.perf_counter() - start


def _print_time(what: str, seconds: float, n_rows: int = 0) -> None:
    rate = f"{n_rows / seconds:>14,.0f} rows/s" if n_rows else ""
    print(f"{what:<8}{1000 * seconds:>9,.1f} ms{rate}")


def _housing(forest: TreeEnsemble) -> Any:
    """Read the features of all districts as one record batch."""
    reader = TableReader(DATA / "california_housing.parquet")
    (batch,) = reader.batches(list(feature_names(forest)), [], [], reader.n_rows or 0)
    return batch


def _error(explanation: Any, prediction: Array) -> float:
    total = explanation.values.sum(axis=1, dtype=np.float64) + explanation.base_values
    return float(np.abs(total - prediction).max())


def _write(explanation: Any, path: Path, forest: TreeEnsemble, expected_value: ArrayLike, margin: Array) -> None:
    names = feature_names(forest)
    columns = value_columns(explanation.values, names, forest)
    with writing(path, explanation_metadata(names, expected_value, forest)) as write:
        write(arrow_batch(columns | margin_columns(margin, expected_value, forest)))
