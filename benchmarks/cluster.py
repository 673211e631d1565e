"""Explain 20 million rows in 64 files by one process, by two workers of Dask, and by two one of which dies.

`python -m benchmarks.cluster FOLDER [FILES]` needs 5 GB there. Each process has one thread. Seconds of processors are
those of the process that explains, or of both workers: a busy machine changes them less than the clock's.
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

import glasswood
from benchmarks.machine import conditions, machine_name

N_FILES, FILE_ROWS = 64, 312_500
DATA = Path(glasswood.__file__).parent / "data"
SCRIPT = "import sys; from glasswood.cli import main; sys.exit(main())"
USED = "import resource, time; used = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss"
RESULTS = Path(__file__).parent / "results"


def make_rows(folder: Path, n_files: int) -> None:
    """Rows like California's, each feature drawn by itself."""
    rows = pq.read_table(DATA / "california_housing.parquet").drop_columns("MedHouseVal")
    for i in range(n_files):
        rng = np.random.default_rng(i)
        drawn = {name: rows[name].to_numpy()[rng.integers(0, len(rows), FILE_ROWS)] for name in rows.column_names}
        pq.write_table(pa.table(drawn), folder / f"part-{i:02d}.parquet", compression="none", use_dictionary=False)


def explain(data: Path, out: Path, *arguments: str) -> tuple[float, float, int]:
    """Seconds, those of processors, and peak memory (KiB) of `glasswood explain` in a process of its own."""
    command = [
        sys.executable,
        "-c",
        SCRIPT.replace("sys.exit(main())", f"code = main(); {USED}; print(*used, file=sys.stderr); sys.exit(code)"),
    ]
    start = time.perf_counter()
    run = subprocess.run(
        [*command, "explain", str(DATA / "california_housing.json"), str(data), "-o", str(out), *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    processors, peak = run.stderr.split()[-2:]
    return time.perf_counter() - start, float(processors), int(peak)


def peaks(client) -> list[int]:
    """Peak memory of each worker in MiB."""
    return [text // 1024 for text in client.run(_peak).values()]


def _peak() -> int:
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))


def kill_after(victim: int, folder: Path, n_parts: int) -> None:
    """Kill a process when so many parts are there; their directory has no name of its own yet."""
    while len(list(folder.glob(".glasswood-*/part-*"))) < n_parts:
        time.sleep(0.01)
    os.kill(victim, signal.SIGKILL)


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
    facts = conditions()
    found: dict[str, object] = {name: facts[name] for name in ("date", "commit", "cpu", "kernels", "cores", "load")}
    found |= {"rows": rows, "files": n_files}
    alone, processors, kib = explain(data, folder / "alone", "--n-jobs", "1", "--partition-rows", str(FILE_ROWS))
    found["one process"] = figures(rows, alone, processors) | {"MiB": kib // 1024}
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        before, started = peaks(client), sum(client.run(time.process_time).values())
        seconds, _, _ = explain(data, folder / "two", "--n-jobs", "1", "--scheduler", cluster.scheduler_address)
        processors = sum(client.run(time.process_time).values()) - started
        memory = {"MiB of a worker before": before, "MiB of a worker": peaks(client)}
        found["two workers"] = figures(rows, seconds, processors) | memory | {"times as fast": alone / seconds}
        victim = next(iter(client.run(os.getpid).values()))
        threading.Thread(target=kill_after, args=(victim, folder, n_files // 3)).start()
        seconds, _, _ = explain(data, folder / "killed", "--n-jobs", "1", "--scheduler", cluster.scheduler_address)
        assert victim not in client.run(os.getpid).values()
        found["two workers, one killed after a third"] = figures(rows, seconds)
    found["all three wrote the same"] = same(folder / "alone", folder / "two") and same(
        folder / "two", folder / "killed"
    )
    return found


def figures(rows: int, seconds: float, processors: float | None = None) -> dict[str, float]:
    """Seconds and rows a second, by the clock and by processors."""
    taken = {"s": seconds, "rows/s": rows / seconds}
    return taken if processors is None else taken | {"processor s": processors, "rows/processor s": rows / processors}


if __name__ == "__main__":
    text = json.dumps(main(Path(sys.argv[1]), *map(int, sys.argv[2:])), indent=1)
    (RESULTS / f"cluster-{machine_name()}.json").write_text(text + "\n")
    print(text)
