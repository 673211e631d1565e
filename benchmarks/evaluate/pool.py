"""Forests of all kinds, drawn at random: what the costs of predictions are fitted to and judged by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import glasswood
from benchmarks.evaluate.forests import sample_rows

if TYPE_CHECKING:
    from glasswood import Forest

N_TRAINING = 8_000
TREES = (1, 3, 8, 20, 60, 150, 400, 1000)
MOST_WORK = 60_000_000
"""Nodes times features times categories or bins of a forest, about: more take a minute to train."""


@dataclass(frozen=True)
class Shape:
    """What a forest is drawn to be."""

    family: str
    n_trees: int
    depth: int
    n_features: int
    n_categories: int
    """Of each second column; 0: numbers only."""
    seed: int


@dataclass(frozen=True)
class Drawn:
    """A forest, and rows (n, n_features) like those it was trained on."""

    shape: Shape
    forest: Forest
    rows: NDArray[np.float32]


def draw(seed: int, n_rows: int) -> Drawn:
    """Draw a forest; the seed alone decides which."""
    rng = np.random.default_rng(seed)
    family = list(TRAINERS)[seed % len(TRAINERS)]
    depth, n_features = int(rng.integers(2, 17)), int(np.exp(rng.uniform(1.4, 5)))
    n_categories = int(np.exp(rng.uniform(2, 6.5))) if family.endswith("categories") else 0
    work = 2 ** min(depth, 9) * n_features * max(n_categories, 64)
    trees = [n for n in TREES if n == 1 or n * work <= MOST_WORK]
    shape = Shape(family, int(rng.choice(trees)), depth, n_features, n_categories, seed)
    rows = _rows(shape, 2 * seed, N_TRAINING)
    forest = glasswood.load(TRAINERS[family](shape, rows, _target(shape, rows)))
    return Drawn(shape, forest, _rows(shape, 2 * seed + 1, n_rows))


def _rows(shape: Shape, seed: int, n_rows: int) -> NDArray[np.float32]:
    """Normal rows; each second column is a category's code where there are any, the first ones the most frequent."""
    rows: NDArray[np.float32] = sample_rows(seed, n_rows, shape.n_features)
    if shape.n_categories:
        rows[:, 1::2] = np.minimum(np.abs(rows[:, 1::2]) * shape.n_categories / 3, shape.n_categories - 1).astype(int)
    return rows


def _target(shape: Shape, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Waves of all columns, with noise, so that no tree runs out of splits."""
    rng = np.random.default_rng(shape.seed)
    waves = np.sin(rows * rng.uniform(0.5, 3, rows.shape[1])) @ rng.normal(size=rows.shape[1])
    return (waves + rng.normal(size=len(rows))).astype(np.float32)


def _categories(shape: Shape) -> list[int]:
    return list(range(1, shape.n_features, 2)) if shape.n_categories else []


def _train_xgboost(shape: Shape, rows: NDArray[np.float32], target: NDArray[np.float32]) -> Any:
    import xgboost

    types = ["c" if column in _categories(shape) else "q" for column in range(shape.n_features)]
    matrix = xgboost.DMatrix(rows, target, feature_types=types, enable_categorical=True)
    parameters = {"max_depth": shape.depth, "learning_rate": 0.02, "seed": shape.seed, "nthread": 1}
    return xgboost.train(parameters, matrix, shape.n_trees)


def _train_lightgbm(shape: Shape, rows: NDArray[np.float32], target: NDArray[np.float32]) -> Any:
    import lightgbm

    n_leaves = int(np.random.default_rng(shape.seed).integers(4, 2 + 2 ** min(shape.depth, 9)))
    parameters = {"num_leaves": n_leaves, "learning_rate": 0.02, "min_data_in_leaf": 5, "seed": shape.seed}
    data = lightgbm.Dataset(rows, target, categorical_feature=_categories(shape))
    return lightgbm.train({**parameters, "verbose": -1, "num_threads": 1}, data, shape.n_trees)


def _train_catboost(shape: Shape, rows: NDArray[np.float32], target: NDArray[np.float32]) -> Any:
    import catboost

    trees = catboost.CatBoostRegressor(
        iterations=shape.n_trees,
        depth=min(shape.depth, 10),
        learning_rate=0.02,
        random_seed=shape.seed,
        thread_count=1,
        verbose=0,
        allow_writing_files=False,
    )
    return trees.fit(rows, target)


def _train_forest(shape: Shape, rows: NDArray[np.float32], target: NDArray[np.float32]) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    n_trees = min(shape.n_trees, 150)
    trees = RandomForestRegressor(n_trees, max_depth=shape.depth, max_features="sqrt", random_state=shape.seed)
    return trees.fit(rows, target)


TRAINERS: dict[str, Callable[[Shape, NDArray[np.float32], NDArray[np.float32]], Any]] = {
    "XGBoost": _train_xgboost,
    "LightGBM": _train_lightgbm,
    "CatBoost": _train_catboost,
    "scikit-learn": _train_forest,
    "XGBoost, categories": _train_xgboost,
    "LightGBM, categories": _train_lightgbm,
}
