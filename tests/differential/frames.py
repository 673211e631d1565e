"""Random frames of mixed columns for LightGBM, and DMatrix batches for XGBoost: equal to the library's, or refused.

Batches are the frame of training with categories reordered, left out or added, columns in another order or of another
dtype, as frames of pandas, polars and pyarrow. Where the library predicts a batch, so must glasswood, or refuse it;
where the library refuses, glasswood may predict what the same values mean in the frame of training.

python -m tests.differential.frames --frames 2000 --batches 1000 --seed 0
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

import glasswood
from tests.differential.data import pick

N = 120
REFUSED = (TypeError, ValueError, NotImplementedError)


class WrongNumberError(AssertionError):
    """Another number without a word."""


def values_of(rng, kind):
    """Values of a column of N rows; categories may have unused ones, and any order."""
    if kind == "float":
        column = pd.Series(rng.normal(size=N).round(1))
        return column.where(rng.random(N) > 0.1)
    if kind == "small":
        return pd.Series(rng.integers(0, rng.integers(1, 6), N))
    if kind == "large":
        return pd.Series(rng.integers(-50, 500, N))
    if kind == "flag":
        return pd.Series(rng.random(N) < 0.5)
    known = {
        "texts": list("abcdefg"),
        "numbers": [10, 20, 30, 40, 55],
        "codes": [0, 1, 2, 3],
        "flags": [False, True],
    }[kind]
    some = list(rng.permutation(np.array(known, object))[: rng.integers(1, len(known) + 1)])
    if rng.random() < 0.5:
        some = sorted(some)
    used = some[: rng.integers(1, len(some) + 1)]
    drawn = pd.Categorical([pick(rng, used) for _ in range(N)], categories=some, ordered=rng.random() < 0.3)
    return pd.Series(drawn).where(rng.random(N) > pick(rng, (0, 0.1)))


def frame_of(rng, kinds):
    """A frame of training, and its target."""
    n_columns = int(rng.integers(2, 7))
    frame = pd.DataFrame({f"c{i}": values_of(rng, pick(rng, kinds)) for i in range(n_columns)})
    y = np.zeros(N)
    for place, column in enumerate(frame.columns):
        codes = frame[column].cat.codes if frame[column].dtype == "category" else frame[column].astype(float)
        y += (np.nan_to_num(codes.to_numpy(float)) % 3 == 1) * (place + 1.0)
    return frame, y + 0.1 * rng.normal(size=N)


def categories_in(frame):
    return [name for name in frame if frame[name].dtype == "category"]


def changed(rng, frame):
    """Change a batch: its name, the batch, and the same values with the dtypes of training."""
    rows = frame.iloc[np.sort(rng.choice(N, int(rng.integers(1, N)), replace=False))].reset_index(drop=True)
    names, numbers = categories_in(frame), [name for name in frame if frame[name].dtype.kind in "if"]
    change = pick(rng, ("same", "order", "unused", "new", "columns", "values", "codes", "category", "float"))
    if change in {"order", "unused", "new", "values", "codes"} and not names:
        change = "same"
    name = pick(rng, names) if names else None
    if change == "codes" and isinstance(rows[name].cat.categories[0], bool | np.bool_):
        change = "same"  # pandas takes 0 and 1 for flags in some frames and not in others
    batch, meant = rows.copy(), rows
    if change == "order":
        batch[name] = rows[name].cat.reorder_categories(
            list(rng.permutation(np.array(rows[name].cat.categories, object)))
        )
    elif change == "unused":
        batch[name] = rows[name].cat.remove_unused_categories()
    elif change == "new":
        new = "new" if isinstance(rows[name].cat.categories[0], str) else 77
        if not isinstance(rows[name].cat.categories[0], bool | np.bool_):
            batch[name] = rows[name].cat.add_categories([new]).where(rng.random(len(rows)) > 0.5, new)
            meant = rows.assign(**{name: batch[name].cat.set_categories(rows[name].cat.categories)})
    elif change == "columns":
        batch = rows[list(rng.permutation(rows.columns))]
    elif change == "values":
        batch[name] = rows[name].astype(object)
    elif change == "codes":
        batch[name] = rows[name].cat.codes
        as_values = batch[name].astype("category").cat.set_categories(rows[name].cat.categories)
        meant = rows.assign(**{name: as_values.astype(rows[name].dtype)})
    elif change == "category" and numbers:
        number = pick(rng, numbers)
        batch = rows.assign(**{number: rows[number].astype("category")})
    elif change == "float" and numbers:
        number = pick(rng, numbers)
        batch[number] = rows[number].astype(float)
    return change, batch, meant


def in_library(rng, batch):
    """The batch as a frame of another library, where that holds it as it is."""
    kind = pick(rng, ("pandas", "pandas", "pyarrow", "polars"))
    if kind == "pyarrow":
        import pyarrow as pa

        return pa.Table.from_pandas(batch, preserve_index=False)
    texts = all(isinstance(batch[name].cat.categories[0], str) for name in categories_in(batch))
    if kind == "polars" and texts and not any(batch[name].dtype == object for name in batch):
        import polars as pl

        return pl.from_pandas(batch)
    return batch


def reason(error):
    """What a refusal says, without names and numbers."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "…", str(error))
    text = re.sub(r"column \S+ of X", "column of X", re.sub(r"[-\d.]+", "#", text))
    return f"{type(error).__name__}: {text[:70]}"


def answer(call):
    """What a call returns, or its error."""
    try:
        return call(), None
    except REFUSED as error:
        return None, error


def judged(found, refused, expected, meant, what):
    """Name an outcome; raise where numbers differ."""
    if refused is not None:
        return f"refused: {reason(refused)}" if expected is not None else "refused by both"
    truth = meant if expected is None else expected
    if truth is None or not np.allclose(found, truth, rtol=1e-5, atol=1e-6):
        off = np.inf if truth is None else np.abs(found - truth).max()
        raise WrongNumberError(
            f"{what}: off by {off:.3g}, and the library {'refuses it' if expected is None else 'predicts it'}"
        )
    return "equal" if expected is not None else "equal to the same values, which the library refuses"


def compare_frame(rng):
    """Train LightGBM on a frame, predict a batch; name the outcome."""
    import lightgbm as lgb

    frame, y = frame_of(rng, ("float", "small", "large", "flag", "texts", "numbers", "codes", "flags"))
    small = [name for name in frame if frame[name].dtype.kind == "i" and frame[name].min() >= 0]
    chosen = "auto"
    if rng.random() < 0.5:
        chosen = [name for name in [*small, *categories_in(frame)] if rng.random() < 0.5]
    settings = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 1, "min_data_per_group": 1, "cat_smooth": 1}
    settings["max_cat_to_onehot"] = pick(rng, (1, 4))
    booster = lgb.train(settings, lgb.Dataset(frame, y, categorical_feature=chosen), 4)
    change, batch, meant = changed(rng, frame)
    if rng.random() < 0.5:
        forest = glasswood.load(booster)
    else:
        with tempfile.TemporaryDirectory() as folder:
            booster.save_model(Path(folder) / "model.txt")
            forest = glasswood.load(Path(folder) / "model.txt")
    if rng.random() < 0.2:
        forest = forest.with_categories(frame)
    ordered = batch[list(frame)]
    expected, _ = answer(lambda: booster.predict(ordered))
    right, _ = answer(lambda: booster.predict(meant))
    rows = in_library(rng, batch)
    found, refused = answer(lambda: forest.predict(rows))
    if refused is None and expected is not None and rng.random() < 0.2:
        values = glasswood.Explainer(forest, dtype="float64").shap_values(rows)
        judged(values, None, booster.predict(ordered, pred_contrib=True)[:, :-1], None, f"values, {change}")
    return judged(found, refused, expected, right, f"LightGBM, {change}, categorical_feature={chosen}")


def compare_matrix(rng):
    """Train XGBoost on a frame, predict a DMatrix of a batch; name the outcome."""
    import xgboost as xgb

    refused_by_library = (*REFUSED, xgb.core.XGBoostError, AssertionError, KeyError)
    frame, y = frame_of(rng, ("float", "small", "flag", "texts", "numbers"))
    settings = {"nthread": 1, "max_depth": int(rng.integers(1, 6)), "max_cat_to_onehot": pick(rng, (1, 4))}
    settings["min_child_weight"] = 0
    booster = xgb.train(settings, xgb.DMatrix(frame, y, enable_categorical=True, nthread=1), 4)
    forest = glasswood.load(booster)
    change, batch, meant = changed(rng, frame)
    batch = batch if change == "columns" else batch[list(frame)]
    rows = in_library(rng, batch)
    extras = {"label": np.arange(len(batch)), "weight": np.ones(len(batch))} if rng.random() < 0.3 else {}
    if rng.random() < 0.05:
        extras["base_margin"] = rng.normal(size=len(batch))
    if rng.random() < 0.2 and not categories_in(batch):
        extras["missing"] = 1.0
    try:
        matrix = xgb.DMatrix(rows, enable_categorical=True, nthread=1, **extras)
    except refused_by_library:
        return "no matrix: XGBoost refuses the rows"
    try:
        expected = booster.predict(matrix, validate_features=change != "columns")
    except refused_by_library:
        expected = None
    if change == "columns":  # XGBoost takes them by position, glasswood by name
        expected = (
            None
            if extras.keys() & {"missing", "base_margin"}
            else booster.predict(xgb.DMatrix(batch[list(frame)], enable_categorical=True, nthread=1))
        )
    right = None
    if not extras.keys() & {"missing", "base_margin"}:
        right = booster.predict(xgb.DMatrix(meant, enable_categorical=True, nthread=1))
    found, refused = answer(lambda: forest.predict(matrix))
    if refused is None and change == "columns" and expected is None:
        return "columns in another order, not compared"
    return judged(found, refused, expected, right, f"XGBoost, {change}, {sorted(extras)}")


SWEEPS = {"frames": compare_frame, "batches": compare_matrix}


def sweep(name, seed, amount, first=0):
    """Outcomes of so many trials; prints those that are wrong, which a seed and a number make again."""
    outcomes: Counter[str] = Counter()
    for number in range(first, first + amount):
        try:
            outcome = SWEEPS[name](np.random.default_rng([seed, number, list(SWEEPS).index(name)]))
        except WrongNumberError as error:
            outcome = "WRONG"
            print(f"WRONG: trial {number} of {name}: {error}", flush=True)
        outcomes[outcome] += 1
    return outcomes


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    n_wrong = 0
    for name, amount in (("frames", options.frames), ("batches", options.batches)):
        outcomes = sweep(name, options.seed, amount, options.first)
        print(f"{name}: {amount} trials, seed {options.seed}")
        for outcome, count in outcomes.most_common():
            print(f"  {count:6} {outcome}")
        n_wrong += outcomes["WRONG"]
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
