"""What limits the kernels of growing: Nsight Compute's counters beside an H200's ceilings.

    python -m benchmarks.grow.roofline --data DIR --out benchmarks/results/grow_roofline_h200.json

Profiles launches in the middle of a search by sums and of one by the paper's evaluation.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.counters import count
from benchmarks.grow.gpu import engine_of, prepared
from benchmarks.grow.gpu_cases import CASES

METRICS = {
    "us": "gpu__time_duration.sum",
    "DRAM bytes": "dram__bytes.sum",
    "DRAM, % of peak": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2, % of peak": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "fused": "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
    "adds": "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum",
    "multiplications": "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum",
    "issue, % of peak": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "resident warps, %": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
TENSOR = tuple(
    f"{unit}__inst_executed_pipe_{pipe}_op_dmma.sum" for unit in ("sm", "smsp") for pipe in ("tensor", "fp64")
)
"""Names of the counter of float64 tensor core instructions, which differ between chips."""

DMMA_FLOPS = 512
"""Of one 8 x 8 x 4 product of a warp."""

DRAM_CEILING, FP64_CEILING, DMMA_CEILING = 4.8e12, 34e12, 67e12
"""Bytes and operations a second, by the vendor's datasheet for the H200 SXM."""

UNITS = {"": 1, "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "ns": 1e-3, "nsecond": 1e-3, "us": 1,
         "usecond": 1, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6, "%": 1, "inst": 1}  # fmt: skip


def known_metrics() -> dict[str, str]:
    """Those of the metrics that this version of the profiler has."""
    listed = subprocess.run(["ncu", "--query-metrics"], capture_output=True, text=True, check=True).stdout
    names = set(listed.split())
    found = {name: metric for name, metric in METRICS.items() if metric.partition(".")[0] in names}
    tensor = [metric for metric in TENSOR if metric.partition(".")[0] in names]
    return found | ({"tensor instructions": tensor[0]} if tensor else {})


def search_once(folder: Path, case: str, algorithm: str, generations: int) -> None:
    """Work under the profiler: a few generations, then those that count."""
    import cupy

    from glasswood import ModelTreeRegressor
    from glasswood.grow.search.engine import place_rows

    rows, _ = prepared(*CASES[case].make(folder))
    model = ModelTreeRegressor(algorithm=algorithm)
    gpu = place_rows("cuda", algorithm, None, rows)
    assert gpu is not None
    engine = engine_of(model, rows, gpu)
    with gpu.searching(engine):
        engine.initialise([])
        engine.step(3, 100, 0.0, 1e9)
        cupy.cuda.profiler.start()
        engine.step(generations, 100, 0.0, 1e9)
        cupy.cuda.profiler.stop()


def number(text: str) -> float:
    """Read a counter with its unit."""
    value, _, unit = text.replace(",", "").partition(" ")
    return float(value) * UNITS[unit]


def totals(launches: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Sums and rates by kernel."""
    table = []
    known = {**METRICS, "tensor instructions": ""}
    for kernel in dict.fromkeys(launch["kernel"] for launch in launches):
        own = [launch for launch in launches if launch["kernel"] == kernel]
        column = {name: np.array([number(launch[name]) for launch in own]) for name in known if name in own[0]}
        seconds = column["us"].sum() * 1e-6
        plain = sum(
            factor * column[name].sum()
            for name, factor in (("fused", 2), ("adds", 1), ("multiplications", 1))
            if name in column
        )
        tensor = DMMA_FLOPS * column["tensor instructions"].sum() if "tensor instructions" in column else 0
        table.append(
            {
                "kernel": re.sub(r"^grow_|_kernel$", "", kernel),
                "launches": len(own),
                "us": round(seconds * 1e6, 1),
                "longest_us": round(float(column["us"].max()), 1),
                "bytes_a_second": column["DRAM bytes"].sum() / seconds,
                "share_of_dram": column["DRAM bytes"].sum() / seconds / DRAM_CEILING,
                "flops_a_second": (plain + tensor) / seconds,
                "share_of_fp64": plain / seconds / FP64_CEILING + tensor / seconds / DMMA_CEILING,
                "warps": float(np.average(column["resident warps, %"], weights=column["us"])),
            }
        )
    return sorted(table, key=lambda kernel: -kernel["us"])


def main() -> None:
    """Profile, or be profiled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cases", default="armchair 1M x 2,generated 515K x 90")
    parser.add_argument("--launches", type=int, default=60)
    parser.add_argument("--once", choices=("gram", "qr"))
    arguments = parser.parse_args()
    names = arguments.cases.split(",")
    if arguments.once:
        search_once(arguments.data, names[0], arguments.once, 5)
        return
    metrics, found = known_metrics(), {}
    for name in names:
        for algorithm in ("gram", "qr"):
            command = [sys.executable, "-m", __spec__.name, "--data", str(arguments.data), "--cases", name]
            limit = ["--launch-count", str(arguments.launches), "--kill", "yes"]
            launches = count([*command, "--once", algorithm], metrics, *limit)
            found[f"{name}, {algorithm}"] = totals(launches)
            arguments.out.write_text(json.dumps(found, indent=1) + "\n")
            for kernel in found[f"{name}, {algorithm}"]:
                print(name, algorithm, json.dumps(kernel), flush=True)


if __name__ == "__main__":
    main()
