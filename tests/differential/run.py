"""Random models of every installed library against adversarial rows: leaf ids, margins, predictions.

python -m tests.differential --rows 1000000 --seed 1; `--model 123` makes one again.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import time
import traceback

import numpy as np

from tests.differential.libraries import LIBRARIES, ignore_their_warnings
from tests.differential.texts import compare_codes, compare_texts
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees

MODULES = {"isolation": "sklearn", "linear_tree": "lightgbm", "onnx": "onnxruntime"}
MOST_ROWS = 4000


def installed():
    """Names of the libraries whose models can be trained here."""
    found = [name for name in LIBRARIES if importlib.util.find_spec(MODULES.get(name, name))]
    return [*found, "codes", "texts"] if {"lightgbm", "xgboost", "catboost", "sklearn"} <= set(found) else found


def compare(name, seed, number):
    """Rows compared, and what the model was; AssertionError where something differs."""
    rng = np.random.default_rng([seed, number])
    if name in ("texts", "codes"):
        return {"texts": compare_texts, "codes": compare_codes}[name](rng, MOST_ROWS)
    case = LIBRARIES[name](rng)
    nan = case.forest.ensemble.nan_allowed
    rows = adversarial_rows(case.forest, case.rows, number, allow_nan=nan, allow_inf=case.allow_inf, max_rows=MOST_ROWS)
    rows = rows[~(np.abs(rows) > case.largest).any(axis=1)]
    try:
        assert_agrees(case.forest, rows, **case.expect(rows), sums=case.sums, most_tied=1)
    except Exception as error:
        raise AssertionError(case.what) from error
    return len(rows)


class Comparison:
    """Models by turns of the libraries, and the rows that agreed."""

    def __init__(self, seed, names=()):
        self.seed, self.names = seed, [name for name in installed() if not names or name in names]
        self.models, self.rows, self.wrong = collections.Counter(), collections.Counter(), []

    def run(self, n_rows, first=0):
        """Compare until so many rows have been."""
        number = first
        while self.rows.total() < n_rows:
            self.one(number)
            number += 1

    def one(self, number):
        """One model; what differs is told and counted."""
        name = self.names[number % len(self.names)]
        self.models[name] += 1
        try:
            self.rows[name] += compare(name, self.seed, number)
        except Exception:
            self.wrong.append(number)
            self.rows[name] += 1  # the end comes all the same
            print(f"MODEL {number} of {name}:\n{traceback.format_exc()[-3000:]}", flush=True)


def main(arguments=None):
    """Return the exit code: 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="tests.differential", description=__doc__)
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", type=int, help="compare this one alone")
    parser.add_argument("--only", default="", help="names of libraries, divided by commas")
    given = parser.parse_args(arguments)
    ignore_their_warnings()
    comparison, begin = Comparison(given.seed, [one for one in given.only.split(",") if one]), time.monotonic()
    if given.model is None:
        comparison.run(given.rows)
    else:
        comparison.one(given.model)
    print(f"seed {given.seed}, {time.monotonic() - begin:.0f} s")
    for name in comparison.names:
        print(f"{name:12}{comparison.models[name]:6} models{comparison.rows[name]:10} rows")
    models, rows = comparison.models.total(), comparison.rows.total()
    print(f"{'all':12}{models:6} models{rows:10} rows, {len(comparison.wrong)} models wrong")
    return int(bool(comparison.wrong))
