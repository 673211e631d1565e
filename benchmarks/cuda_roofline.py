"""What limits the CUDA walk: Nsight Compute's counters of one call, against the GPU's ceilings.

    python benchmarks/cuda_roofline.py --data FOLDER --results FOLDER

Explains 10,000 rows of cal_housing-med under `ncu` (on the PATH, with access to the counters) and writes a table.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.counters import count

METRICS = {
    "us": "gpu__time_duration.sum",
    "warp instructions": "smsp__inst_executed.sum",
    "IPC (of 4)": "sm__inst_executed.avg.per_cycle_active",
    "issue, % of peak": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "fused multiply-adds, threads": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "adds, threads": "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
    "multiplications, threads": "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
    "DRAM bytes": "dram__bytes.sum",
    "L2 bytes": "lts__t_bytes.sum",
    "L1 bytes": "l1tex__t_bytes.sum",
    "L1 hits, %": "l1tex__t_sector_hit_rate.pct",
    "L1, % of peak": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "L2, % of peak": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM, % of peak": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "resident warps, %": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
    "cycles a warp waits for an instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    **{
        f"of these: {reason}": f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        for reason in ("long_scoreboard", "short_scoreboard", "wait", "not_selected", "lg_throttle", "branch_resolving")
    },
}


def explain_once(data, interactions):
    """The work under the profiler: one warm call, then the one that counts."""
    import cupy
    import numpy as np

    import silva
    from benchmarks.cuda_tables import INTERACTION_ROWS, ROWS, load_data, train

    X, y = load_data(data, "cal_housing")
    explainer = silva.Explainer(train("cal_housing-med", X, y))
    method = explainer.shap_interaction_values if interactions else explainer.shap_values
    x = cupy.asarray(np.resize(X, (INTERACTION_ROWS if interactions else ROWS, X.shape[1])))
    method(x)
    cupy.cuda.profiler.start()
    method(x)
    cupy.cuda.profiler.stop()
    cupy.cuda.Device().synchronize()


def profile(data, interactions):
    """Counters of each kernel of the call: list of dicts."""
    command = [sys.executable, __file__, "--data", data, "--once"]
    return count([*command, *(["--interactions"] if interactions else [])], METRICS)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--results")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--interactions", action="store_true")
    arguments = parser.parse_args()
    if arguments.once:
        explain_once(arguments.data, arguments.interactions)
        return
    found = {name: profile(arguments.data, name == "interactions") for name in ("values", "interactions")}
    Path(arguments.results, "cuda_roofline.json").write_text(json.dumps(found, indent=1))
    for name, kernels in found.items():
        print(name)
        for kernel in kernels:
            print(json.dumps(kernel, indent=1))


if __name__ == "__main__":
    main()
