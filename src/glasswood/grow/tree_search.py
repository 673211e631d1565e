"""Settings of the evolutionary search that hardly anybody has to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator


class TreeSearch(BaseEstimator):  # type: ignore[misc]
    """Settings of the evolutionary search of `ModelTreeRegressor` and `ModelTreeClassifier`.

    Parameters
    ----------
    crossover_probability, mutation_probability : float, default=0.2 and 0.8
        Probability of crossing each pair of trees, and of mutating each tree.
    tol : float, default=1e-6
        Least relative gain of fitness that counts as an improvement.
    test_weight : float, default=2.0
        Number of parameters that a test counts as under BIC. A threshold is chosen among all rows, so it costs more
        than a coefficient. With 1, the textbook count, chance cuts off small leaves.
    alpha : float, default=0.001
        Price of a parameter under ``fitness="weighted"``.
    operator_rates : dict, optional
        Rates of operators that differ from `glasswood.grow.search.engine.OPERATORS`; 0 switches an operator off.
    polish : bool or sequence of str, default=True
        Moves of the local search: True for all, or some of "models", "variants", "thresholds", "splits", "pull_ups",
        "rotations".
    polish_interval : int, default=5
        Generations between two polishings.
    polish_trees : int, default=1
        Random trees per polishing. After the first polishing, those of every four are polished together; after 20
        generations without improvement, every second of these trees is newly grown.

    Examples
    --------
    >>> import glasswood
    >>> glasswood.ModelTreeRegressor(search=glasswood.TreeSearch(polish=False)).set_params(search__tol=1e-4)
    ModelTreeRegressor(search=TreeSearch(polish=False, tol=0.0001))
    """

    def __init__(
        self,
        crossover_probability: float = 0.2,
        mutation_probability: float = 0.8,
        tol: float = 1e-6,
        test_weight: float = 2.0,
        alpha: float = 0.001,
        operator_rates: dict[str, float] | None = None,
        polish: bool | Sequence[str] = True,
        polish_interval: int = 5,
        polish_trees: int = 1,
    ) -> None:
        self.crossover_probability, self.mutation_probability = crossover_probability, mutation_probability
        self.tol, self.test_weight, self.alpha = tol, test_weight, alpha
        self.operator_rates = operator_rates
        self.polish, self.polish_interval, self.polish_trees = polish, polish_interval, polish_trees


def search_of(model: Any) -> TreeSearch:
    """Return the settings of an estimator's search."""
    search: TreeSearch = TreeSearch() if model.search is None else model.search
    return search
