"""What limits explanations on a GPU: Nsight Compute's counters of one call, and the row phase beside its ceilings.

    python benchmarks/cuda_roofline.py --data FOLDER --results FOLDER [--models cal_housing-med adult-med]

Explains 10,000 rows under `ncu` (on the PATH, with access to the counters). The row phase adds up tables: a row needs
an entry of each subtree, read from shared memory, which gives each multiprocessor 128 bytes a cycle.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.counters import count

METRICS = {
    "time": "gpu__time_duration.sum",
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
    "shared memory, wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "shared memory, of these by bank conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "shared memory, % of peak": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed",
    "resident warps, %": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
    "cycles a warp waits for an instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    **{
        f"of these: {reason}": f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        for reason in ("long_scoreboard", "short_scoreboard", "wait", "not_selected", "lg_throttle", "branch_resolving")
    },
}


METHODS = {"values": "shap_values", "interactions": "shap_interaction_values"}
ADDING = ("add_tables_kernel", "add_points_kernel", "add_pairs_kernel")
WAVEFRONT = 128
"""Bytes of shared memory that a multiprocessor reads in a cycle, and float32 additions that it does."""


def explain_once(model, data, trained, kind):
    """The work under the profiler: one warm call, then the one that counts."""
    import cupy
    import numpy as np

    import glasswood
    from benchmarks.cuda_models import load_data, load_forest, name_of
    from benchmarks.cuda_tables import ROWS

    X, _ = load_data(data, name_of(model))
    method = getattr(glasswood.Explainer(load_forest(model, data, trained)), METHODS[kind])
    x = cupy.asarray(np.resize(X, (ROWS, X.shape[1])))
    method(x)
    cupy.cuda.profiler.start()
    method(x)
    cupy.cuda.profiler.stop()
    cupy.cuda.Device().synchronize()


def profile(model, data, trained, kind):
    """Counters of each kernel of the call: list of dicts."""
    command = [sys.executable, __file__, "--data", data, "--once", kind, "--models", model]
    return count([*command, *(["--trained", trained] if trained else [])], METRICS)


def row_phase_work(plan, n_rows):
    """Least work of the row phase by tables: bytes of entries and additions, and what else moves, in bytes."""
    import numpy as np

    records = plan.arrays["records"].view(np.int32).reshape(plan.n_subtrees, -1)
    numbers, item = int(records[:, 2].sum()) * plan.n_components, plan.dtype.itemsize
    return {
        "subtrees": plan.n_subtrees,
        "entries_bytes": n_rows * numbers * item,
        "additions": n_rows * numbers,
        "keys_bytes": 2 * 2 * n_rows * plan.n_subtrees,
        "sums_bytes": 2 * n_rows * len(plan.arrays["slot_keys"]) * item,
        "tables_bytes": plan.n_bytes,
    }


def row_phase(model, data, trained, kind, kernels):
    """The row phase's work, its time by the counters and its shares of the ceilings; None without tables."""
    import cupy

    import glasswood
    from benchmarks.cuda_models import load_forest
    from benchmarks.cuda_tables import ROWS
    from glasswood.explain.cuda.table_launches import TableJob
    from glasswood.plans import plan_of

    explainer = glasswood.Explainer(load_forest(model, data, trained), device="cuda")
    job = plan_of(explainer, "cuda").job("values" if kind == "values" else "pairs")
    if not isinstance(job, TableJob):
        return None
    attributes = cupy.cuda.Device().attributes
    cycles = attributes["MultiProcessorCount"] * 1e3 * attributes["ClockRate"]
    adding = [kernel for kernel in kernels if kernel["kernel"].endswith(ADDING)]
    elapsed, of_all = (sum(seconds_of(kernel["time"]) for kernel in some) for some in (adding, kernels))
    work = row_phase_work(job.plan, ROWS)
    return work | {
        "s": elapsed,
        "all_s": of_all,
        "share_of_shared_memory": work["entries_bytes"] / (elapsed * cycles * WAVEFRONT),
        "share_of_additions": work["additions"] / (elapsed * cycles * WAVEFRONT),
    }


def seconds_of(text):
    """From a time of Nsight Compute."""
    value, unit = text.replace(",", "").split()
    return float(value) * {"n": 1e-9, "u": 1e-6, "m": 1e-3, "s": 1.0}[unit[0]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--results")
    parser.add_argument("--trained", help="folder where models are kept")
    parser.add_argument("--models", nargs="+", default=["cal_housing-med", "adult-med"])
    parser.add_argument("--once", choices=list(METHODS))
    arguments = parser.parse_args()
    if arguments.once:
        explain_once(arguments.models[0], arguments.data, arguments.trained, arguments.once)
        return
    found, phases = {}, {}
    for model in arguments.models:
        for kind in METHODS:
            of_call = model, arguments.data, arguments.trained, kind
            found[f"{kind} of {model}"] = profile(*of_call)
            phases[f"{kind} of {model}"] = row_phase(*of_call, found[f"{kind} of {model}"])
    result = {"roofline": found, "row_phases": phases}
    Path(arguments.results, "roofline.json").write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
