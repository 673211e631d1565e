"""What stands around the kernels of each public call: frames in and out, names, checks, copies.

    python -m benchmarks.shares [--rows 20000] [--results benchmarks/results] [--device cpu]

Adult with its categories (LightGBM, 100 trees of 31 leaves) and California's numbers. Every function and method of the
compiled core is wrapped before anything else imports it, and counts its own processor seconds; "around" is what a call
takes beside them. The core also reads columns, so that "around" is Python and what Python calls (pandas, NumPy). The
first call is listed by itself: it plans, builds tables and imports. One thread.

With `--device cuda` times are seconds, and the core's are those of kernels and of copies to and from the GPU, as
PyTorch's profiler sees them.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glasswood import _core

RUNS = 7
"""Warm calls; the one of the median share counts."""

FEW = 2_000
"""Rows of calls that take each row many times."""


class Clock:
    """Seconds in the compiled core: of the outermost call, whichever function it is."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now, self.depth, self.spent = now, 0, 0.0

    def timed(self, function: Any) -> Any:
        """Count a function's seconds."""

        @functools.wraps(function, assigned=("__name__", "__doc__"), updated=())
        def call(*arguments: Any, **named: Any) -> Any:
            self.depth += 1
            start = self.now()
            try:
                return function(*arguments, **named)
            finally:
                self.depth -= 1
                if self.depth == 0:
                    self.spent += self.now() - start

        return call


def wrap_core(clock: Clock) -> int:
    """Wrap all functions and methods of the core; returns their number."""
    n = 0
    for name, value in vars(_core).copy().items():
        if isinstance(value, type):
            for method, function in vars(value).copy().items():
                if type(function).__name__ == "nb_method" and (not method.startswith("__") or method == "__call__"):
                    setattr(value, method, clock.timed(function))
                    n += 1
        elif type(value).__name__ == "nb_func":
            setattr(_core, name, clock.timed(value))
            n += 1
    return n


def measured(clock: Clock, call: Callable[[], Any]) -> dict[str, float]:
    """Milliseconds of the first call, of a warm one, and of what is around the core in it."""

    def once() -> tuple[float, float]:
        clock.spent, start = 0.0, clock.now()
        call()
        total = clock.now() - start
        return total * 1000, clock.spent * 1000

    first = once()
    runs = sorted((once() for _ in range(RUNS)), key=lambda run: run[0] - run[1])
    total, inside = runs[RUNS // 2]
    return {"first": first[0], "total": total, "core": inside, "around": total - inside}


def measured_on_gpu(clock: Clock, call: Callable[[], Any]) -> dict[str, float]:
    """The same of kernels and copies; `copies` is the share of the latter."""
    import torch

    found = measured(clock, call)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
        call()
    took = {"kernels": 0.0, "copies": 0.0}
    for event in profiled.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            took["copies" if event.name.startswith("Mem") else "kernels"] += event.device_time / 1000
    inside = took["kernels"] + took["copies"]
    return found | took | {"core": inside, "around": found["total"] - inside}


def cases(n_rows: int) -> dict[str, Callable[[], Any]]:
    """Public calls, by what is given and asked for."""
    import lightgbm
    import numpy as np
    import pyarrow.parquet

    import glasswood
    from benchmarks.data import FOLDER

    adult = pyarrow.parquet.read_table(FOLDER / "adult.parquet").to_pandas()
    y = adult.pop(adult.columns[-1]).astype(str).to_numpy()
    for name in adult.select_dtypes(exclude="number").columns:
        adult[name] = adult[name].astype("category")
    model = lightgbm.LGBMClassifier(n_estimators=100, num_leaves=31, n_jobs=1, verbose=-1).fit(adult, y)
    frame = adult.iloc[np.arange(n_rows) % len(adult)].reset_index(drop=True)
    labels = y[np.arange(n_rows) % len(adult)] == y.max()
    few, few_labels = frame.iloc[:FEW], labels[:FEW]
    forest = glasswood.load(model)
    explainer = glasswood.Explainer(forest)
    against = glasswood.Explainer(forest, frame.iloc[:100])
    exact = glasswood.Explainer(forest, frame.iloc[:100], output="probability")

    homes = pyarrow.parquet.read_table(FOLDER / "california_housing.parquet").to_pandas()
    value = homes.pop(homes.columns[-1]).to_numpy()
    booster = lightgbm.LGBMRegressor(n_estimators=100, num_leaves=31, n_jobs=1, verbose=-1).fit(homes, value)
    numbers = homes.iloc[np.arange(n_rows) % len(homes)].reset_index(drop=True)
    array = numbers.to_numpy(np.float32)
    homes_forest = glasswood.load(booster)
    homes_explainer = glasswood.Explainer(homes_forest)
    arrow = pyarrow.Table.from_pandas(frame, preserve_index=False)
    rows = [dict(zip(frame.columns, row, strict=True)) for row in frame.iloc[:FEW].itertuples(index=False)]
    one_by_one, one_mapping = homes_forest.predictor(), forest.predictor(names=True)
    one_reason = explainer.row(3, names=True)
    found: dict[str, Callable[[], Any]] = {
        "predict, array of numbers": lambda: homes_forest.predict(array),
        "predict, frame of numbers": lambda: homes_forest.predict(numbers),
        "predict, frame with categories": lambda: forest.predict(frame),
        "predict, Arrow table with categories": lambda: forest.predict(arrow),
        f"predictor, {FEW} rows one by one": lambda: [one_by_one(row) for row in array[:FEW]],
        f"predictor of mappings, {FEW} rows one by one": lambda: [one_mapping(row) for row in rows],
        "predict leaves, frame with categories": lambda: forest.predict(frame, "leaf"),
        "SHAP values, array of numbers": lambda: homes_explainer.shap_values(array),
        "SHAP values, frame with categories": lambda: explainer.shap_values(frame),
        "Explanation, frame of numbers": lambda: homes_explainer(numbers),
        "Explanation, frame with categories": lambda: explainer(frame),
        "SHAP values against 100 rows, frame": lambda: against.shap_values(frame),
        "Explanation against 100 rows, frame": lambda: against(frame),
        f"exact SHAP values of the probability, {FEW} rows": lambda: exact.shap_values(few),
        f"interactions, {FEW} rows": lambda: explainer.shap_interaction_values(few),
        f"three strongest pairs, {FEW} rows": lambda: explainer.shap_interaction_values(few, top=3),
        "three strongest features a row": lambda: explainer.importance(frame),
        f"rows explained by name, {FEW} one by one": lambda: [one_reason(row) for row in rows],
        "sentences of a tenth": lambda: explainer.sentences(frame.iloc[: n_rows // 10]),
        "summary": lambda: explainer.summary(frame),
        f"score values, {FEW} rows": lambda: glasswood.score_values(forest, few, few_labels),
        f"effects, {FEW} rows": lambda: glasswood.effects(forest, few),
        "partial dependence of a number": lambda: glasswood.partial_dependence(homes_forest, array[:FEW], 0),
        f"permutation importance, {FEW} rows": lambda: glasswood.permutation_importance(forest, few, few_labels),
        "compare": lambda: glasswood.compare(frame.iloc[: n_rows // 2], frame.iloc[n_rows // 2 :], model=forest),
    }
    neighbors = glasswood.Neighbors(homes_forest, homes, value)
    found[f"ten neighbours, {FEW} rows"] = lambda: neighbors.kneighbors(array[:FEW], 10)
    found[f"quantiles of neighbours, {FEW} rows"] = lambda: neighbors.quantile(array[:FEW], [0.05, 0.95])
    tree = glasswood.ModelTreeRegressor(max_leaves=8, time_limit=None, random_state=0).fit(numbers[:FEW], value[:FEW])
    found["ModelTreeRegressor.predict, frame"] = lambda: tree.predict(numbers)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--results", type=Path)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    clock = Clock(time.perf_counter if on_gpu else time.process_time)
    wrap_core(clock)
    import glasswood
    from benchmarks.machine import conditions, machine_name

    glasswood.set_config(n_jobs=1, device=options.device)
    found = dict[str, dict[str, float]]()
    heads = "first, ms", "warm, ms", "core, ms", "around, ms", "around / core"
    print(f"| {options.rows} rows | {' | '.join(heads)} |\n|---{'|--:' * len(heads)}|")
    for name, call in cases(options.rows).items():
        if options.only not in name:
            continue
        try:
            found[name] = one = (measured_on_gpu if on_gpu else measured)(clock, call)
        except Exception as error:
            print(f"| {name} | {type(error).__name__}: {str(error)[:90]} |")
            continue
        numbers = [one["first"], one["total"], one["core"], one["around"], one["around"] / max(one["core"], 1e-9)]
        print(f"| {name} | {' | '.join(f'{number:.2f}' for number in numbers)} |", flush=True)
    if options.results:
        about = {"conditions": conditions(), "rows": options.rows, "device": options.device, "milliseconds": found}
        path = options.results / f"shares-{options.device}-{machine_name()}.json"
        path.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
