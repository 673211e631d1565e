"""glasswood's calls of the tasks that benchmarks.rivals compares."""

from __future__ import annotations

import copy
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.data import CACHE, tiled_parquet
from benchmarks.work import Call, Work, save_xgboost

PEAK_MEMORY = """
import re, sys
from glasswood.cli import main
code = main(sys.argv[1:])
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
sys.exit(code)
"""
"""Run glasswood's command line, then print the most memory that the process had, in kB (rusage counts its parent's)."""

BACKGROUND_MEMORY = """
import re, sys
import numpy, glasswood
def memory(name):
    return int(re.search(name + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])
forest, arrays = glasswood.load(sys.argv[1]), numpy.load(sys.argv[2])
background, rows = arrays["background"], arrays["rows"]
open("/proc/self/clear_refs", "w").write("5")
before = memory("VmRSS")
glasswood.Explainer(forest, background, n_jobs=int(sys.argv[3])).shap_values(rows)
print(memory("VmHWM") - before)
"""
"""Explain rows against background rows, then print the most memory beyond that of the forest and the rows, in kB."""


def values(dtype: str, work: Work) -> Call:
    import glasswood

    return partial(glasswood.Explainer(work.model, dtype=dtype, n_jobs=work.n_threads).shap_values, work.rows)


def prepare(work: Work) -> Call:
    """Plan and build the tables of a forest that is loaded; the count of outputs is what can be compared."""
    import glasswood

    forest = glasswood.load(work.model)
    return lambda: np.size(glasswood.Explainer(_unplanned(forest), n_jobs=work.n_threads).prepare().expected_value)


def _unplanned(forest: Any) -> Any:
    """The forest without what it keeps for further calls: planning is part of the time, validation that of loading."""
    return type(forest)(copy.copy(forest.ensemble))


def explain_row(work: Work) -> Call:
    import glasswood

    return partial(glasswood.Explainer(work.model, n_jobs=work.n_threads).row(), work.rows[0])


def interactions(dtype: str, work: Work) -> Call:
    import glasswood

    return partial(
        glasswood.Explainer(work.model, dtype=dtype, n_jobs=work.n_threads).shap_interaction_values, work.rows
    )


def background(method: str, work: Work) -> Call:
    """From rows to values: the background's tables are part of the call, as are the other libraries'."""
    import glasswood

    forest = glasswood.load(work.model)

    def explain() -> Any:
        return getattr(glasswood.Explainer(_unplanned(forest), work.background, n_jobs=work.n_threads), method)(
            work.rows
        )

    return explain


def weighted_background(work: Work) -> Call:
    import glasswood

    forest, weight = glasswood.load(work.model), np.random.default_rng(0).random(work.case.n_background)
    against = {"background_weight": weight, "n_jobs": work.n_threads}
    return lambda: glasswood.Explainer(_unplanned(forest), work.background, **against).shap_values(work.rows)


def background_memory(work: Work) -> Call:
    return partial(_memory_against, work, work.saved(".ubj", save_xgboost))


def _memory_against(work: Work, model: Path) -> float:
    """MiB beyond the forest and the rows of a process of its own."""
    with TemporaryDirectory(dir=CACHE) as folder:
        np.savez(f"{folder}/arrays.npz", background=work.background, rows=work.rows)
        command = [sys.executable, "-c", BACKGROUND_MEMORY, str(model), f"{folder}/arrays.npz", str(work.n_threads)]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(run.stdout) / 1024


def margin(work: Work) -> Call:
    import glasswood

    return partial(glasswood.load(work.model).predict, work.rows, output="margin", n_jobs=work.n_threads)


def row(work: Work) -> Call:
    import glasswood

    return partial(glasswood.load(work.model).predictor("margin"), work.rows[0])


def named_row(work: Work) -> Call:
    """The first row by the names of its columns, categories as texts."""
    import glasswood

    row = work.rows.astype(object).to_dict("records")[0]
    forest = glasswood.load(work.model).with_categories(work.rows)
    return partial(forest.predictor("margin", names=True), row)


def dependence(work: Work) -> Call:
    import glasswood

    glasswood.set_config(n_jobs=work.n_threads)
    grid = partial(glasswood.partial_dependence, glasswood.load(work.model), work.rows, 0)
    return lambda: grid().average[0]


def importance(work: Work) -> Call:
    """From rows of a frame to scores, five shuffles a feature."""
    import glasswood

    glasswood.set_config(n_jobs=work.n_threads)
    shuffle = partial(glasswood.permutation_importance, glasswood.load(work.estimator), work.rows, work.target)
    return lambda: shuffle(random_state=0).importances


def report(work: Work) -> Call:
    """The report of a forest that is loaded; the count of files is what can be compared."""
    import glasswood

    glasswood.set_config(n_jobs=work.n_threads)
    forest, path = glasswood.load(work.model), CACHE / "report.html"

    def report() -> int:
        glasswood.report(forest, work.rows, path=path)
        return 1

    return report


def report_size(work: Work) -> Call:
    write = report(work)

    def size() -> float:
        write()
        return (CACHE / "report.html").stat().st_size / 2**20

    return size


def load(suffix: str, work: Work) -> Call:
    import glasswood

    saves = {".glasswood": lambda model, path: glasswood.load(model).save(path)}
    source = work.saved(suffix, saves.get(suffix, save_xgboost)) if suffix else work.model
    return lambda: glasswood.load(source).n_trees


def explain_file(work: Work) -> Call:
    data = tiled_parquet(work.case.model.data, work.case.n_rows)
    return partial(_peak_memory, work.saved(".ubj", save_xgboost), data, work.n_threads)


def _peak_memory(model: Path, data: Path, n_threads: int) -> float:
    """Explain a file in a process of its own and return the MiB that it needed."""
    with TemporaryDirectory(dir=CACHE) as folder:
        command = ["explain", str(model), str(data), "-o", f"{folder}/phi.parquet", "--n-jobs", str(n_threads)]
        run = subprocess.run([sys.executable, "-c", PEAK_MEMORY, *command], check=True, capture_output=True, text=True)
    return int(run.stdout.split()[-1]) / 1024
