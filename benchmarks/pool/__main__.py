"""The command line: `benchmarks.pool` says how to use it."""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
import zlib
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import benchmarks.pool
from benchmarks.pool import methods, results, sets

SPLITS = 5

QUICK = 8
"""Of --quick: sets of each kind of the tuning half, those of the first hashes, at most `QUICK_ROWS` rows of each."""

QUICK_ROWS = 1_500


def fit(paths: list[Path], chosen: dict[str, dict[str, Any]], options: argparse.Namespace) -> None:
    """Fit what no file of results has, and add it to the store as it comes."""
    store = options.store or options.folder / "results.json"
    found = json.loads(store.read_text()) if store.exists() else []
    known = {results.key(one) for one in found + results.read(options.folder)}
    tasks = [
        (path, split, options.rows, method, settings)
        for split in range(options.splits)
        for path in paths
        for method, settings in chosen.items()
        if not (sets.has_classes(path.stem) and settings.get("of", method) in methods.REGRESSIONS)
    ]
    part, n_parts = (int(number) for number in options.shard.split("/"))
    tasks = [task for task in tasks[part - 1 :: n_parts] if _key(task) not in known]
    ends, n_before = time.monotonic() + options.seconds, len(found)
    with ProcessPoolExecutor(options.jobs, initializer=_quiet) as pool:
        for future in as_completed([pool.submit(_in_time, ends, task) for task in tasks]):
            if (one := future.result()) is not None:
                found.append(one)
                store.write_text(json.dumps(found))
    print(f"{len(found) - n_before} of {len(tasks)} fits made")


def _key(task: tuple[Path, int, int, str, dict[str, Any]]) -> tuple[Any, ...]:
    path, split, most_rows, method, _ = task
    return path.stem, split, method, most_rows


def _in_time(ends: float, task: tuple[Path, int, int, str, dict[str, Any]]) -> dict[str, Any] | None:
    """Fit one method on one split, if there is time."""
    if time.monotonic() > ends:
        return None
    path, number, most_rows, method, settings = task
    split = sets.read(path, number, most_rows)
    about = {"case": split.name, "kind": split.kind, "split": number, "method": method, "rows": len(split.y)}
    return {**about, "most_rows": most_rows, **methods.fitted(split, method, settings)}


def _quiet() -> None:
    """One thread a fit, and no warnings of other libraries."""
    warnings.simplefilter("ignore")
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")


def _chosen(options: argparse.Namespace) -> list[Path]:
    """Sets by the options, those of the largest files first, so that the last fits are brief."""
    import pyarrow.parquet as pq

    paths = sorted(options.folder.glob("*.parquet"), key=lambda path: (-path.stat().st_size, path.stem))
    if options.half != "both":
        paths = [path for path in paths if sets.is_tuning(path.stem) == (options.half == "tuning")]
    if options.small:
        paths = [path for path in paths if pq.read_metadata(path).num_rows <= QUICK_ROWS]
    if options.kind != "both":
        paths = [path for path in paths if sets.has_classes(path.stem) == (options.kind == "classes")]
    if options.quick:
        ranked = sorted((p for p in paths if sets.is_tuning(p.stem)), key=lambda p: zlib.crc32(p.stem.encode()))
        paths = [p for kind in (False, True) for p in [p for p in ranked if sets.has_classes(p.stem) == kind][:QUICK]]
    return paths


def _methods(texts: list[str]) -> dict[str, dict[str, Any]]:
    parts = [text.partition("=") for text in texts]
    return {name: json.loads(settings or "{}") for name, _, settings in parts}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pool",
        description=benchmarks.pool.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("task", choices=["build", "kinds", "fit", "table", "record"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("methods", nargs="*", default=["tree", "LightGBM"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--rows", type=int, default=4_500, help="largest number of rows of a set that are used")
    parser.add_argument("--seconds", type=float, default=420, help="time after which no fit begins")
    parser.add_argument("--half", choices=["both", "tuning", "reporting"], default="both")
    parser.add_argument("--kind", choices=["both", "regression", "classes"], default="both")
    parser.add_argument("--shard", default="1/1", help="part of the fits, 1/3 to 3/3, for several machines")
    parser.add_argument("--store", type=Path, help="file of results that is written; default: FOLDER/results.json")
    parser.add_argument("--quick", action="store_true", help="a few sets of the tuning half")
    parser.add_argument("--small", action="store_true", help=f"sets of up to {QUICK_ROWS} rows")
    parser.add_argument("--machine", default="", help="what to record of where it was measured")
    parser.add_argument("--keep", nargs="+", default=[], help="methods whose rows stay as an earlier record has them")
    parser.add_argument("--page", default="pool", help="file and place that `record` writes: pool, or pool-kinds")
    parser.add_argument("--all", action="store_true", help="print a line for every set")
    options = parser.parse_args()
    if options.quick:
        options.rows = QUICK_ROWS
    if options.task == "build":
        sets.build(options.folder)
        return
    if options.task == "kinds":
        sets.build_kinds(options.folder)
        return
    chosen, paths = _methods(options.methods), _chosen(options)
    if options.task == "fit":
        fit(paths, chosen, options)
    found = [one for one in results.read(options.folder, options.store) if one["most_rows"] == options.rows]
    parts = results.parts(found, [path.stem for path in paths], list(chosen), options.splits)
    results.show(parts, options.all)
    if options.task == "record":
        about = {"splits": options.splits, "rows": options.rows, "machine": options.machine}
        about |= {"commit": os.environ.get("COMMIT", ""), "methods": options.methods}
        results.record(parts, found, about, options.keep, options.page)


if __name__ == "__main__":
    main()
