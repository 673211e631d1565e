"""Random estimators of scikit-learn around trees of any library, on dense and sparse rows, against their own predict.

python -m tests.differential.wrapped --models 2000 --seed 1; `--model 123` makes one again.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import time
import traceback
import warnings

import lightgbm
import numpy as np
import pandas as pd
import scipy.sparse
import xgboost
from sklearn import ensemble, tree
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, OneHotEncoder, StandardScaler

import glasswood

N_ROWS, N_TRAINING = 90, 70
REFUSALS = (NotImplementedError, TypeError, NotFittedError)
"""What `glasswood.load` raises for models that it does not read."""

TOLERANCE = 2e-5


def pick(rng, values):
    """One of the values."""
    return values[rng.integers(len(values))]


def member(rng, kind):
    """A tree or ensemble of some library, not fitted; `kind` is "Regressor" or "Classifier"."""
    n, depth, seed = int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(1000))
    sk, tr = ensemble, tree
    boosted = {"n_estimators": n, "max_depth": depth, "n_jobs": 1}
    makers = [
        lambda: getattr(tr, f"DecisionTree{kind}")(max_depth=depth, random_state=seed),
        lambda: getattr(tr, f"ExtraTree{kind}")(max_depth=depth, random_state=seed),
        lambda: getattr(sk, f"RandomForest{kind}")(n, max_depth=depth, random_state=seed),
        lambda: getattr(sk, f"ExtraTrees{kind}")(n, max_depth=depth, random_state=seed),
        lambda: getattr(sk, f"GradientBoosting{kind}")(n_estimators=n, max_depth=depth, random_state=seed),
        lambda: getattr(sk, f"HistGradientBoosting{kind}")(max_iter=n, max_depth=depth, min_samples_leaf=5),
        lambda: getattr(sk, f"AdaBoost{kind}")(n_estimators=n, random_state=seed),
        lambda: getattr(xgboost, f"XGB{kind}")(**boosted, missing=pick(rng, [np.nan, np.nan, 0.0])),
        lambda: getattr(xgboost, f"XGB{kind}")(**boosted),
        lambda: getattr(lightgbm, f"LGBM{kind}")(**boosted, min_child_samples=5, verbose=-1),
        lambda: getattr(lightgbm, f"LGBM{kind}")(**boosted, min_child_samples=5, verbose=-1, zero_as_missing=True),
    ]
    return pick(rng, makers)()


def wrapped(rng, kind, depth=0):
    """An estimator around others, and what it is in a word."""
    choices = ["voting", "voting", "bagging", "bagging", "search", "alone"]
    choices += ["calibration"] if kind == "Classifier" else []
    choices += ["pipeline"] if depth == 0 else []
    what = pick(rng, choices)
    inner = (
        (lambda: wrapped(rng, kind, depth + 1)[0]) if depth < 1 and rng.random() < 0.25 else (lambda: member(rng, kind))
    )
    if what == "voting":
        given = [(f"m{i}", inner()) for i in range(int(rng.integers(1, 4)))]
        weights = rng.integers(1, 5, len(given)).tolist() if rng.random() < 0.5 else None
        options = {"voting": pick(rng, ["soft", "soft", "soft", "hard"])} if kind == "Classifier" else {}
        return getattr(ensemble, f"Voting{kind}")(given, weights=weights, **options), what
    if what == "bagging":
        # a bag of another kind now and then: scikit-learn takes it
        one = member(rng, pick(rng, ["Regressor", "Classifier"])) if rng.random() < 0.1 else inner()
        share = pick(rng, [1.0, 0.7])
        return getattr(ensemble, f"Bagging{kind}")(one, 2, max_features=share, random_state=int(rng.integers(99))), what
    if what == "search":
        return GridSearchCV(inner(), {}, cv=2, refit=bool(rng.random() < 0.9)), what
    if what == "calibration":
        return CalibratedClassifierCV(inner(), cv=2), what
    if what == "pipeline":
        steps = [
            pick(rng, [MaxAbsScaler(), StandardScaler(with_mean=False), Normalizer(), SelectKBest(k=3), "passthrough"])
        ]
        return make_pipeline(*steps, inner()), what
    return inner(), what


def rows_of(rng):
    """Rows of numbers, dense or sparse, or a frame whose encoder makes sparse rows of it: rows, encoder, name."""
    X = np.round(rng.normal(size=(N_ROWS, int(rng.integers(3, 7)))), 1)
    X[rng.random(X.shape) < pick(rng, [0.0, 0.4, 0.7])] = 0.0
    kind = pick(rng, ["dense", "sparse", "sparse", "frame"])
    if kind == "dense":
        return X, None, kind
    if kind == "sparse":
        return scipy.sparse.csr_matrix(X), None, kind
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    frame = frame.assign(city=rng.choice(list("uvwxyz"), N_ROWS))
    numbers = list(frame)[:-1]
    threshold = pick(rng, [0.0, 0.3, 1.0])
    return (
        frame,
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["city"]), ("passthrough", numbers), sparse_threshold=threshold
        ),
        f"{kind} of threshold {threshold}",
    )


def outcome(seed, number):
    """What became of a model: "agrees", or the reason of a refusal; AssertionError if it predicts otherwise."""
    rng = np.random.default_rng([seed, number])
    kind = pick(rng, ["Regressor", "Classifier"])
    X, encoder, of_rows = rows_of(rng)
    model, what = wrapped(rng, kind)
    if encoder is not None:
        model = make_pipeline(encoder, model)
    dense = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X.select_dtypes("number") if encoder else X)
    y = dense[:, 0] * 2 + dense[:, 1] * dense[:, 2] + rng.normal(size=N_ROWS) / 4
    if kind == "Classifier":
        edges = pick(rng, [[0.0], [-0.7, 0.7]])
        y = np.digitize(y, edges)
    try:
        model.fit(X[:N_TRAINING], y[:N_TRAINING])
        expected = model.predict(X)
    except Exception:
        return what, f"scikit-learn or the library fails on {of_rows.partition(' ')[0]} rows"
    try:
        forest = glasswood.load(model, check=False)
        found = forest.predict(X)
    except REFUSALS as error:
        return what, reason(error)
    except ValueError as error:  # of glasswood's own words, not of a fault
        return what, reason(error)
    text = f"{model!r} on {of_rows} rows"
    compare(found, expected, forest, text)
    if kind == "Classifier" and hasattr(model, "predict_proba"):
        compare(forest.predict(X, output="probability"), model.predict_proba(X), forest, text)
    glasswood.load(model)  # and the check has nothing against it
    return what, f"agrees, {of_rows.partition(' ')[0]}"


def compare(found, expected, forest, text):
    """Raise AssertionError unless both are the same, up to rounding and labels of equal classes."""
    if np.asarray(expected).dtype.kind == "f":
        scale = max(np.abs(expected).max(initial=0.0), 1e-3)
        assert found.shape == expected.shape, text
        worst = np.abs(found - expected).max(initial=0.0)
        assert worst <= TOLERANCE * scale, f"differs by {worst} of {scale}: {text}"
        return
    differ = np.asarray(found) != np.asarray(expected)
    # at most a row or two whose classes tie in float32
    assert differ.mean() <= (0.03 if forest.ensemble.link != "identity" or "xgb" in text.lower() else 0.0), text


def reason(error):
    """A refusal in the words that do not depend on the model."""
    text = re.sub(r"\(.*\)|'[^']*'|[\d.]+", "", str(error).partition(";")[0])
    return f"refused: {re.sub(r' +', ' ', text)[:110]}"


class Sweep:
    """Models one after the other, counted by what became of them."""

    def __init__(self, seed):
        self.seed, self.found, self.kinds, self.wrong = seed, collections.Counter(), collections.Counter(), []

    def one(self, number):
        try:
            what, found = outcome(self.seed, number)
        except Exception:
            self.wrong.append(number)
            print(f"MODEL {number}:\n{traceback.format_exc()[-2500:]}", flush=True)
            return
        self.kinds[what] += 1
        self.found[found] += 1


def main(arguments=None):
    """Return the exit code: 1 if a model predicts otherwise without a word."""
    parser = argparse.ArgumentParser(prog="tests.differential.wrapped", description=__doc__)
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--model", type=int, help="make this one alone")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    sweep, begin = Sweep(given.seed), time.monotonic()
    for number in [given.model] if given.model is not None else range(given.first, given.first + given.models):
        sweep.one(number)
    print(f"seed {given.seed}, {time.monotonic() - begin:.0f} s; {dict(sweep.kinds)}")
    for found, count in sweep.found.most_common():
        print(f"{count:6} {found}")
    print(f"{sum(sweep.found.values()) + len(sweep.wrong):6} models, {len(sweep.wrong)} wrong: {sweep.wrong[:20]}")
    return int(bool(sweep.wrong))


if __name__ == "__main__":
    sys.exit(main())
