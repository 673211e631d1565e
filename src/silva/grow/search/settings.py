"""The engine's settings, from an estimator's parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from silva.grow.search.engine import OPERATORS, POLISH
from silva.grow.tree_search import search_of
from silva.parallel import n_threads

if TYPE_CHECKING:
    from silva.grow.data.columns import TrainingColumns
    from silva.grow.data.rows import TrainingRows

CACHE_BYTES = 2**28


def is_pruned(model: Any) -> bool:
    """Whether the best tree of the search is pruned by the noise about its splits and terms."""
    return bool(model.noise == "any" and model.fitness == "bic")


def engine_numbers(
    model: Any, rows: TrainingRows, columns: TrainingColumns, copies: float, seed: int
) -> dict[str, Any]:
    """Numbers that the engine needs, by name.

    Parameters
    ----------
    model : ModelTreeRegressor
    rows : TrainingRows
    columns : TrainingColumns
    copies : float
        Mean number of copies of each row: BIC counts rows without copies, and a leaf needs as many times as many rows.
    seed : int
    """
    search = search_of(model)
    moves = POLISH if search.polish is True else tuple(search.polish or ())
    bic, any_sets = model.fitness == "bic", bool(columns.is_categorical.any())
    return {
        **OPERATORS,
        **(search.operator_rates or {}),
        **{f"polish_{move}": move in moves for move in POLISH},
        "bic": bic,
        "n": len(rows.y) / copies if bic else len(rows.y),
        "alpha": search.alpha,
        "penalty": model.penalty,
        "split_weight": search.test_weight if bic else 1,
        "levels": [0 if table is None else len(table) for table in columns.categories] if any_sets else [],
        "min_samples_leaf": -(-model.min_samples_leaf * copies // 1),
        "rows_per_parameter": model.rows_per_parameter * copies,
        "max_terms": -1 if model.max_terms_per_leaf is None else model.max_terms_per_leaf,
        "term": columns.sources.tolist(),
        "max_leaves": model.max_leaves,
        "max_depth": model.max_depth,
        "seed": seed,
        "population": model.population_size,
        "crossover": search.crossover_probability,
        "mutation": search.mutation_probability,
        "polish_interval": search.polish_interval if moves and model.algorithm == "gram" else 0,
        "polish_random": search.polish_trees,
        "n_threads": n_threads(model.n_jobs),
        "cache_bytes": CACHE_BYTES,
        "qr": model.algorithm == "qr",
    }
