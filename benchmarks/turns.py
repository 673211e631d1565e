"""Two installed versions in turns, each in a process of its own: what became slower.

    python -m benchmarks.turns OLD NEW [--device cuda] [--name silva] [--most 1.05] [--turns 9] [--results FOLDER]

OLD and NEW are folders that hold the package, NEW's being the one that is imported here. Both explain, predict, load
and grow the same models and rows; results are compared before times are. A version that finds alternatives grows
without them too. A time is processor time on one core, since other work on the machine hardly changes it; on a GPU it
is time on the clock, beside all cores, until the GPU has ended, of rows that lie in its memory. A ratio is the median
of those of turns, whose order alternates. It ends with 1 if a ratio is above --most. --name is the old package's, where
it had another.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

LEAST = 0.05
"""Seconds of processor time that a turn lasts at least; shorter calls are repeated."""

TOLERANCE = 1e-5
"""Most relative difference of results: XGBoost's are float32."""

GPU_COPIES = 10
"""Copies of the 20,000 rows that GPUs explain and predict; interactions have a tenth of the rows."""


def make_models(folder: pathlib.Path) -> None:
    """Train and save what both versions are asked about."""
    import lightgbm
    import xgboost

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 16)).astype(np.float32)
    y = (X * np.roll(X, 1, axis=1) * rng.uniform(1, 2, 16)).sum(axis=1)
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    settings = {"n_jobs": 1, "random_state": 0}
    by_depth = xgboost.XGBRegressor(n_estimators=300, max_depth=7, max_bin=64, **settings).fit(X, y)
    by_depth.save_model(folder / "depth.json")
    classes = xgboost.XGBClassifier(n_estimators=100, max_depth=4, **settings).fit(X[:, :8], y > y.mean())
    classes.save_model(folder / "classes.json")
    by_leaf = lightgbm.LGBMRegressor(n_estimators=200, num_leaves=200, max_bin=63, verbose=-1, **settings).fit(X, y)
    by_leaf.booster_.save_model(folder / "leaf.txt")


def cases(package: Any, folder: pathlib.Path) -> dict[str, Callable[[], Any]]:
    """Make the calls that are timed; their results are arrays, or None where versions may differ."""
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    deep, leafy = package.load(folder / "depth.json"), package.load(folder / "leaf.txt")
    explainer, background = package.Explainer(deep), package.Explainer(deep, X[:100])
    chance = package.Explainer(folder / "classes.json", X[:20, :8], output="probability")
    rows, one, of_leaves = list(X[:2000]), deep.predictor(), leafy.predictor()
    reasons = package.Explainer(deep).prepare().row(top=3)
    options = {"generations": 8, "time_limit": 600, "random_state": 0, "n_jobs": 1}

    return {
        "values": lambda: explainer.shap_values(X[:2000]),
        "interactions": lambda: explainer.shap_interaction_values(X[:300]),
        "values against a background": lambda: background.shap_values(X[:300]),
        "values of probabilities": lambda: chance.shap_values(X[:20, :8]),
        "predictions": lambda: deep.predict(X),
        "predictions, leaf by leaf": lambda: leafy.predict(X),
        "single rows": lambda: np.array([one(row) for row in rows]),
        "single rows, leaf by leaf": lambda: np.array([of_leaves(row) for row in rows]),
        "reasons of single rows": lambda: np.array([reasons(row)[1] for row in rows[:100]]),
        "loading": lambda: package.load(folder / "depth.json").predict(X[:10]),
        **growing(package, options, X[:2000], y[:2000]),
    }


def growing(package: Any, options: dict[str, Any], X: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Grow a tree, and where that finds alternatives, do it without them too."""
    tree = package.ModelTreeRegressor(max_leaves=6, **options)
    alone = {"alternatives": 0} if "alternatives" in tree.get_params(deep=False) else {}
    without = package.ModelTreeRegressor(max_leaves=6, **options, **alone)

    def grow(model: Any) -> None:
        model.fit(X, y)

    return {"growing": lambda: grow(tree), "growing without alternatives": lambda: grow(without)}


def gpu_cases(package: Any, folder: pathlib.Path) -> dict[str, Callable[[], Any]]:
    """Make the calls that are timed on a GPU."""
    import cupy

    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    rows = cupy.asarray(np.tile(X, (GPU_COPIES, 1)))
    some, narrow = rows[: len(rows) // GPU_COPIES], cupy.ascontiguousarray(rows[:, :8])
    deep, leafy = package.load(folder / "depth.json"), package.load(folder / "leaf.txt")
    explainer, background = package.Explainer(deep, device="cuda"), package.Explainer(deep, X[:1000], device="cuda")
    chance = package.Explainer(folder / "classes.json", X[:20, :8], output="probability", device="cuda")
    options = {"generations": 30, "time_limit": 600, "random_state": 0, "device": "cuda"}
    many, targets = np.tile(X, (GPU_COPIES, 1)), np.tile(y, GPU_COPIES)

    return {
        "values": lambda: explainer.shap_values(rows),
        "interactions": lambda: explainer.shap_interaction_values(some),
        "values against a background": lambda: background.shap_values(rows),
        "values of probabilities": lambda: chance.shap_values(narrow[:2000]),
        "predictions": lambda: deep.predict(rows),
        "predictions, leaf by leaf": lambda: leafy.predict(rows),
        **growing(package, options, many, targets),
    }


def serve(name: str, site: str, folder: str, device: str) -> None:
    """Answer lines on standard input: a case and how often to call it."""
    sys.path.insert(0, site)
    package = importlib.import_module(name)
    assert pathlib.Path(package.__file__).is_relative_to(pathlib.Path(site).resolve()), package.__file__
    if device == "cuda":
        import cupy

        calls, clock, wait = gpu_cases(package, pathlib.Path(folder)), time.perf_counter, cupy.cuda.Device().synchronize
        on_host = cupy.asnumpy
    else:
        calls, clock, wait, on_host = cases(package, pathlib.Path(folder)), time.process_time, int, np.asarray
    print(json.dumps([*calls]), flush=True)
    for line in sys.stdin:
        case, repeats, kept = json.loads(line)
        start = clock()
        for _ in range(repeats):
            result = calls[case]()
        wait()
        seconds = (clock() - start) / repeats
        if kept and result is not None:
            np.save(kept, on_host(result).astype(np.float64))
        print(json.dumps(seconds), flush=True)


class Version:
    """One of the two, in its process."""

    def __init__(self, name: str, site: str, folder: pathlib.Path, device: str) -> None:
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment = {**os.environ, **(one_thread if device == "cpu" else {})}
        command = [sys.executable, __file__, "--serve", name, str(pathlib.Path(site).resolve()), str(folder), device]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        if device == "cpu":
            os.sched_setaffinity(self._process.pid, {max(os.sched_getaffinity(0))})
        self.cases = json.loads(self._read())

    def _read(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a version ended; its error stands above")
        return line

    def seconds(self, case: str, repeats: int, kept: str | None = None) -> float:
        """Time a case."""
        self._process.stdin.write(json.dumps([case, repeats, kept]) + "\n")
        self._process.stdin.flush()
        return float(json.loads(self._read()))

    def end(self) -> None:
        """Let its process end."""
        self._process.stdin.close()
        self._process.wait()


def compare(old: Version, new: Version, case: str, turns: int, folder: pathlib.Path) -> dict[str, float]:
    """Ratio of a case's times, after its results were found to be the same."""
    files = [str(folder / f"{which}.npy") for which in ("old", "new")]
    for file in files:
        pathlib.Path(file).unlink(missing_ok=True)
    first = [version.seconds(case, 1, file) for version, file in zip((old, new), files, strict=True)]
    if pathlib.Path(files[0]).exists():
        before, after = map(np.load, files)
        np.testing.assert_allclose(after, before, rtol=TOLERANCE, atol=TOLERANCE * np.abs(before).max(), err_msg=case)
    repeats = max(1, math.ceil(LEAST / max(min(first), 1e-9)))
    found = []
    for turn in range(turns):
        pair = [(old, 0), (new, 1)][:: 1 if turn % 2 else -1]
        times = {at: version.seconds(case, repeats) for version, at in pair}
        found.append((times[0], times[1]))
    before, after = np.array(found).T
    return {"old": float(np.median(before)), "new": float(np.median(after)), "ratio": float(np.median(after / before))}


def main() -> int:
    """Print a table; 1 if a case became slower than allowed."""
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--name", default="glasswood")
    parser.add_argument("--most", type=float, default=1.05)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--results", type=pathlib.Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        make_models(folder)
        old = Version(given.name, given.old, folder, given.device)
        new = Version("glasswood", given.new, folder, given.device)
        table = {}
        print("| case | old | new | new / old |\n|---|---|---|---|")
        for case in new.cases:
            table[case] = one = compare(old, new, case, given.turns, folder)
            print(
                f"| {case} | {1e3 * one['old']:.3f} ms | {1e3 * one['new']:.3f} ms | {one['ratio']:.3f} |", flush=True
            )
        old.end()
        new.end()
    if given.results:
        from benchmarks.machine import conditions, machine_name

        machine = machine_name()
        about = {"conditions": conditions(), "turns": given.turns, "cases": table}
        if given.device == "cuda":
            import cupy

            about["gpu"] = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
            machine = "-".join(about["gpu"].lower().split())
        (given.results / f"turns-{machine}.json").write_text(json.dumps(about, indent=1) + "\n")
    slower = [case for case, one in table.items() if one["ratio"] > given.most]
    print(f"slower than {given.most} times: {', '.join(slower) or 'none'}")
    return bool(slower)


if __name__ == "__main__":
    sys.exit(main())
