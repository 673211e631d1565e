"""Explain 20 million rows in 64 files by one process, by two workers of Dask, and by two one of which dies.

`python -m benchmarks.cluster FOLDER [FILES]` needs 5 GB there. Each process has one thread.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import silva

N_FILES, FILE_ROWS = 64, 312_500
DATA = Path(silva.__file__).parent / "data"
SCRIPT = "import sys; from silva.cli import main; sys.exit(main())"
PEAK = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"


def make_rows(folder: Path, n_files: int) -> None:
    """Rows like California's, each feature drawn by itself."""
    rows = pq.read_table(DATA / "california_housing.parquet").drop_columns("MedHouseVal")
    for i in range(n_files):
        rng = np.random.default_rng(i)
        drawn = {name: rows[name].to_numpy()[rng.integers(0, len(rows), FILE_ROWS)] for name in rows.column_names}
        pq.write_table(pa.table(drawn), folder / f"part-{i:02d}.parquet", compression="none", use_dictionary=False)


def explain(data: Path, out: Path, *arguments: str) -> tuple[float, int]:
    """Seconds and peak memory (KiB) of `silva explain` in a process of its own."""
    command = [sys.executable, "-c", SCRIPT.replace("sys.exit(main())", f"code = main(); {PEAK}; sys.exit(code)")]
    start = time.perf_counter()
    run = subprocess.run(
        [*command, "explain", str(DATA / "california_housing.json"), str(data), "-o", str(out), *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return time.perf_counter() - start, int(run.stderr.split()[-1])


def peaks(client) -> list[int]:
    """Peak memory of each worker in MiB."""
    return [text // 1024 for text in client.run(_peak).values()]


def _peak() -> int:
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))


def same(one: Path, other: Path) -> bool:
    """Whether both directories hold the same rows, file by file."""
    names = sorted(path.name for path in one.iterdir())
    return names == sorted(path.name for path in other.iterdir()) and all(
        pq.read_table(one / name).equals(pq.read_table(other / name)) for name in names
    )


def main(folder: Path, n_files: int = N_FILES) -> dict[str, object]:
    """Run all three ways."""
    from distributed import Client, LocalCluster

    data = folder / "rows"
    if not data.exists():
        data.mkdir(parents=True)
        make_rows(data, n_files)
    rows = n_files * FILE_ROWS
    found: dict[str, object] = {"rows": rows, "files": n_files}
    alone, kib = explain(data, folder / "alone", "--n-jobs", "1", "--partition-rows", str(FILE_ROWS))
    found |= {"one process, rows/s": rows / alone, "one process, MiB": kib // 1024}
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        before = peaks(client)
        seconds, _ = explain(data, folder / "two", "--n-jobs", "1", "--scheduler", cluster.scheduler_address)
        found |= {
            "two workers, rows/s": rows / seconds,
            "a worker before and at its peak, MiB": [before, peaks(client)],
        }
        found["ratio"] = alone / seconds
        victim = next(iter(client.run(os.getpid).values()))
        threading.Timer(seconds / 3, os.kill, (victim, signal.SIGKILL)).start()
        seconds, _ = explain(data, folder / "killed", "--n-jobs", "1", "--scheduler", cluster.scheduler_address)
        assert victim not in client.run(os.getpid).values()
        found["two workers, one killed after a third, rows/s"] = rows / seconds
    found["all three wrote the same"] = same(folder / "alone", folder / "two") and same(
        folder / "two", folder / "killed"
    )
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), *map(int, sys.argv[2:])), indent=1))
