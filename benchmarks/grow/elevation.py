"""Covertype's elevation with so many leaves, by every method whose size can be set: the same rows, one thread of each.

The goal of a test error below 90 with 64 leaves came from Cubist's 84.1, which has 500 rules.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import glasswood
from benchmarks.grow import cases, rivals

LEAVES = (64, 128)

SECONDS = 120
"""Processor seconds of a search: a minute on two CPUs."""

M5P_ROWS = {64: 4_300, 128: 2_150}
"""Least rows of a leaf of M5P, found by trial so that it comes to about as many rules."""


def model_tree(case: cases.Case, n_leaves: int) -> tuple[Any, int]:
    began = time.process_time()
    model = glasswood.ModelTreeRegressor(
        max_leaves=n_leaves,
        time_limit=None,
        n_jobs=1,
        verbose=False,
        callbacks=[lambda _: time.process_time() - began > SECONDS],
    ).fit(case.X, case.y)
    return model.predict(case.X_test), model.n_leaves_


def decision_tree(case: cases.Case, n_leaves: int) -> tuple[Any, int]:
    from sklearn.tree import DecisionTreeRegressor

    model = DecisionTreeRegressor(max_leaf_nodes=n_leaves, random_state=0).fit(case.X, case.y)
    return model.predict(case.X_test), model.get_n_leaves()


def linear_lightgbm(case: cases.Case, n_leaves: int) -> tuple[Any, int]:
    """The second of two trees: linear leaves begin with it, and the first one counts for nothing."""
    import lightgbm

    settings = {"linear_tree": True, "num_leaves": n_leaves, "min_data_in_leaf": 100, "verbose": -1, "num_threads": 1}
    rates = lightgbm.reset_parameter(learning_rate=lambda number: 1.0 if number else 1e-9)
    booster = lightgbm.train(settings, lightgbm.Dataset(case.X, case.y), 2, callbacks=[rates])
    return booster.predict(case.X_test), booster.dump_model()["tree_info"][1]["num_leaves"]


METHODS: dict[str, Callable[[cases.Case, int], tuple[Any, int]]] = {
    "glasswood": model_tree,
    "Cubist": lambda case, n: rivals.cubist(case, n_rules=n),
    "LightGBM, one tree of linear leaves": linear_lightgbm,
    "decision tree": decision_tree,
    "M5P": lambda case, n: rivals.m5p(case, least_rows=M5P_ROWS[n]),
    "PILOT": lambda case, n: rivals.pilot(case, max_depth=n.bit_length() - 1),
}


def records(case: cases.Case) -> Iterator[dict[str, Any]]:
    """Test error, leaves or rules, and processor seconds, those of Weka's process among them."""
    for n_leaves in LEAVES:
        for method, fitted in METHODS.items():
            began = _seconds()
            try:
                predicted, found = fitted(case, n_leaves)
            except Exception as error:
                yield {"method": method, "asked": n_leaves, "error": f"{type(error).__name__}: {error}"[:200]}
                continue
            seconds = _seconds() - began
            rmse = cases.rmse(case.y_test, predicted)
            yield {"method": method, "asked": n_leaves, "rmse": rmse, "leaves": int(found), "seconds": seconds}


def _seconds() -> float:
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + of_children.ru_utime + of_children.ru_stime
