"""Data for growing: generators with a known tree, classical ones, and public data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

ARMCHAIR = (0, 1.0, None, (0, 4.0, (1, 2.0, None, (1, 3.0, None, None)), None))
TRAP5 = (0, 1.0, None, (0, 3.0, (1, 2.5, None, None), (1, 2.5, None, None)))
"""True trees as (attribute, threshold, left, right); None is a leaf."""


@dataclass(frozen=True, eq=False)
class Case:
    """A training and a test part, and the true tree and its attributes where they are known."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    truth: Any = None
    attributes: tuple[int, ...] = ()


def split_case(name: str, X: np.ndarray, y: np.ndarray, seed: int, truth: Any = None, attributes: Any = ()) -> Case:
    """A random third is kept for the test."""
    order = np.random.default_rng(1000 + seed).permutation(len(y))
    n_train = round(len(y) * 2 / 3)
    train, test = order[:n_train], order[n_train:]
    return Case(name, X[train], y[train], X[test], y[test], truth, tuple(attributes))


def armchair(seed: int, extra: int = 0, n_rows: int = 10_000) -> Case:
    """Five planes over two attributes, as recalled from the paper's figure; `extra` attributes of noise."""
    rng = np.random.default_rng(seed)
    x1, x2 = rng.uniform(0, 5, (2, n_rows))
    y = np.select(
        [x1 < 1, x1 >= 4, x2 < 2, x2 >= 3],
        [10 * x1 - 1.5 * x2 - 5, -10 * x1 + 1.5 * x2 + 45, 0.5 * x1 - 2.5 * x2 + 1.5, 0.5 * x1 + 2.5 * x2 - 8.5],
        0.5 * x1 - 0.5 * x2 - 2.5,
    )
    y += 0.1 * rng.standard_normal(n_rows)
    X = np.column_stack([x1, x2, rng.uniform(0, 5, (n_rows, extra))])
    return split_case(f"armchair + {extra} noise", X, y, seed, ARMCHAIR, (0, 1))


def trap5(seed: int, extra: int = 0, n_rows: int = 10_000) -> Case:
    """Five planes whose best first split misleads: an exclusive or of two tests."""
    rng = np.random.default_rng(seed)
    x1, x2 = rng.uniform(0, 5, (2, n_rows))
    sign = np.where((x1 < 3) == (x2 < 2.5), 1.0, -1.0)
    y = np.where(x1 < 1, 1.5 * x2 - 1, sign * (3 + x1 - 0.5 * x2)) + 0.1 * rng.standard_normal(n_rows)
    X = np.column_stack([x1, x2, rng.uniform(0, 5, (n_rows, extra))])
    return split_case(f"trap5 + {extra} noise", X, y, seed, TRAP5, (0, 1))


def random_tree(seed: int, n_rows: int = 10_000) -> Case:
    """A random tree of 4 to 12 leaves over 3 to 10 attributes, in each leaf a random plane over two of them.

    Leaves are split at random between a quarter and three quarters of their box while they hold at least a tenth of it.
    """
    rng = np.random.default_rng(seed)
    n_leaves, n_attributes = int(rng.integers(4, 13)), int(rng.integers(3, 11))
    X = rng.uniform(0, 5, (n_rows, n_attributes))
    leaves = [(np.arange(n_rows), np.tile([0.0, 5.0], (n_attributes, 1)), ())]
    tests: dict[tuple[int, ...], tuple[int, float]] = {}
    while len(leaves) < n_leaves:
        rows, box, path = leaves.pop(int(np.argmax([len(r) * rng.uniform(0.3, 1) for r, _, _ in leaves])))
        a = int(rng.integers(n_attributes))
        cut = box[a, 0] + (box[a, 1] - box[a, 0]) * rng.uniform(0.25, 0.75)
        tests[path] = (a, float(cut))
        for side, below in enumerate((X[rows, a] < cut, X[rows, a] >= cut)):
            inner = box.copy()
            inner[a, 1 - side] = cut
            leaves.append((rows[below], inner, (*path, side)))
    y = 0.1 * rng.standard_normal(n_rows)
    for rows, _, _ in leaves:
        used = rng.choice(n_attributes, 2, replace=False)
        y[rows] += rng.uniform(-5, 5) + X[np.ix_(rows, used)] @ rng.uniform(-3, 3, 2)
    return split_case("random trees", X, y, seed, _nested(tests, ()), tuple(range(n_attributes)))


@dataclass(frozen=True)
class Hardness:
    """What makes a random tree hard to find.

    Attributes
    ----------
    noise : float
        Standard deviation of the noise, in parts of that of the trees' values.
    correlation : float
        Of each pair of attributes, before they are made uniform.
    irrelevant : int
        Further attributes that the tree does not know.
    n_leaves : int, optional
        Drawn from 3 to 12 otherwise.
    freedom : float
        Degrees of freedom of t-distributed noise (of unit scale, times `noise`); infinite for normal noise.
    """

    noise: float
    correlation: float = 0.0
    irrelevant: int = 0
    n_leaves: int = 0
    freedom: float = np.inf


HARD = {
    "5 % noise": Hardness(0.05),
    "20 % noise": Hardness(0.2),
    "50 % noise": Hardness(0.5),
    "correlated attributes, 20 % noise": Hardness(0.2, correlation=0.8),
    "50 irrelevant attributes, 20 % noise": Hardness(0.2, irrelevant=50),
}
HEAVY = Hardness(0.2, n_leaves=8, freedom=2)
"""Eight leaves under noise without a variance."""


def hard_tree(seed: int, name: str, hard: Hardness, n_rows: int = 10_000) -> Case:
    """A random tree over 3 to 10 attributes in [0, 5], in each leaf a plane over two of them.

    Leaves are split between the quartiles of an attribute of their rows, large ones first.
    """
    rng = np.random.default_rng(seed)
    n_leaves, n_attributes = hard.n_leaves or int(rng.integers(3, 13)), int(rng.integers(3, 11))
    X = rng.uniform(0, 5, (n_rows, n_attributes))
    if hard.correlation:
        common = np.sqrt(hard.correlation) * rng.standard_normal((n_rows, 1))
        normal = common + np.sqrt(1 - hard.correlation) * rng.standard_normal(X.shape)
        X = 5 * (np.argsort(np.argsort(normal, axis=0), axis=0) + 0.5) / n_rows
    leaves: list[tuple[np.ndarray, tuple[int, ...]]] = [(np.arange(n_rows), ())]
    tests: dict[tuple[int, ...], tuple[int, float]] = {}
    while len(leaves) < n_leaves:
        rows, path = leaves.pop(int(np.argmax([len(r) * rng.uniform(0.3, 1) for r, _ in leaves])))
        a = int(rng.integers(n_attributes))
        cut = float(np.quantile(X[rows, a], rng.uniform(0.25, 0.75)))
        tests[path] = (a, cut)
        leaves += [(rows[X[rows, a] < cut], (*path, 0)), (rows[X[rows, a] >= cut], (*path, 1))]
    y = np.zeros(n_rows)
    for rows, _ in leaves:
        used = rng.choice(n_attributes, 2, replace=False)
        y[rows] = rng.uniform(-5, 5) + X[np.ix_(rows, used)] @ rng.uniform(-3, 3, 2)
    is_normal = hard.freedom == np.inf
    noise = rng.standard_normal(n_rows) if is_normal else rng.standard_t(hard.freedom, n_rows)
    y += hard.noise * y.std() * noise
    X = np.column_stack([X, rng.uniform(0, 5, (n_rows, hard.irrelevant))])
    return split_case(name, X, y, seed, _nested(tests, ()), tuple(range(n_attributes)))


def _nested(tests: dict[tuple[int, ...], tuple[int, float]], path: tuple[int, ...]) -> Any:
    if path not in tests:
        return None
    return (*tests[path], _nested(tests, (*path, 0)), _nested(tests, (*path, 1)))


def two_planes(seed: int) -> Case:
    """2dplanes (Breiman et al. 1984)."""
    rng = np.random.default_rng(seed)
    n = 40_768
    X = np.column_stack([rng.choice([-1.0, 1.0], n), rng.choice([-1.0, 0.0, 1.0], (n, 9))])
    y = np.where(X[:, 0] == 1, 3 + X[:, 1:4] @ [3, 2, 1], -3 + X[:, 4:7] @ [3, 2, 1]) + rng.standard_normal(n)
    return split_case("2dplanes", X, y, seed, (0, 0.0, None, None), tuple(range(10)))


def fried(seed: int) -> Case:
    """Friedman (1991), 40,768 rows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(40_768, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return split_case("fried", X, y + rng.standard_normal(len(y)), seed)


def mv(seed: int) -> Case:
    """Torgo's mv: attributes that depend on each other, a target of cases and products, no noise; colours one-hot."""
    rng = np.random.default_rng(seed)
    n = 40_768
    x1, x2 = rng.uniform(-5, 5, n), rng.uniform(-15, -10, n)
    green = x1 > 0
    red = ~green & (rng.random(n) < 0.4)
    x4 = np.where(green, x1 + 2 * x2, np.where(rng.random(n) < 0.3, x1 / 2, x2 / 2))
    x5, x6, x7 = rng.uniform(-1, 1, n), x4 * rng.uniform(0, 5, n), rng.random(n) < 0.3
    x9, x10 = rng.uniform(100, 500, n), np.floor(rng.uniform(1000, 1201, n))
    y = np.select(
        [x2 > 2, (x4 >= -2) & (x4 <= 2), x7, x5 < 0.5], [35 - 0.5 * x4, 10 - 2 * x1, 3 - x1 / x4, x6 + x1], x1 / 2
    )
    X = np.column_stack([x1, x2, green, red, x4, x5, x6, x7, x5 < 0.5, x9, x10]).astype(float)
    return split_case("mv", X, y, seed)


def diabetes(seed: int) -> Case:
    """The 442 patients that scikit-learn ships."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes()
    return split_case("diabetes", data.data, data.target, seed)


def california(seed: int, folder: Path) -> Case:
    """California housing."""
    import pandas as pd

    table = pd.read_parquet(folder / "california_housing.parquet").to_numpy(float)
    return split_case("california", table[:, :-1], table[:, -1], seed)


def covertype(seed: int, folder: Path) -> Case:
    """Covertype's elevation from the other attributes."""
    import pandas as pd

    table = pd.read_parquet(folder / "covtype.parquet")
    names = [name for name in table.columns if name not in {"Elevation", table.columns[-1]}]
    return split_case("covertype", table[names].to_numpy(float), table["Elevation"].to_numpy(float), seed)


def true_error(case: Case) -> tuple[float, int]:
    """Test error of the true structure, thresholds midway in the training gaps, leaves by least squares; its leaves."""
    predicted = np.empty(len(case.y_test))

    def fit(tree: Any, train: np.ndarray, test: np.ndarray) -> int:
        if tree is None:
            A = np.column_stack([np.ones(len(train)), case.X[np.ix_(train, case.attributes)]])
            solution = np.linalg.lstsq(A, case.y[train], rcond=None)[0]
            predicted[test] = (
                np.column_stack([np.ones(len(test)), case.X_test[np.ix_(test, case.attributes)]]) @ solution
            )
            return 1
        attribute, cut, left, right = tree
        x, at = case.X[train, attribute], case.X_test[test, attribute]
        middle = (x[x < cut].max() + x[x >= cut].min()) / 2
        return fit(left, train[x < middle], test[at < middle]) + fit(right, train[x >= middle], test[at >= middle])

    n_leaves = fit(case.truth, np.arange(len(case.y)), np.arange(len(case.y_test)))
    return rmse(case.y_test, predicted), n_leaves


def rmse(y: np.ndarray, predicted: np.ndarray) -> float:
    """Root mean squared error."""
    return float(np.sqrt(np.mean((np.asarray(predicted).ravel() - y) ** 2)))
