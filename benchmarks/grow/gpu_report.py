"""GPU tables of benchmarks/results/grow.md: `python -m benchmarks.grow.gpu_report RESULT PAGE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.grow.gpu import WHOLE
from benchmarks.grow.gpu_cases import CASES
from benchmarks.grow.report import put_tables
from glasswood.grow.data.rows import STORAGES

PROCEDURES = ("transfer", "redistribute", "separate", "reorganise", "calc_models", "estimate_errors", "reduction")
COMPARED = ("gram cuda", "qr cuda", "gram cpu", "qr cpu")


def lines(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows])


def in_order(results: dict[str, Any], *kinds: str) -> list[tuple[str, dict[str, Any]]]:
    """Measured cases that have one of these runs, in the order of the plan."""
    measured = results["cases"]
    return [(name, measured[name]) for name in CASES if name in measured and set(kinds) & set(measured[name]["runs"])]


def of_the_paper(results: dict[str, Any], *kinds: str) -> list[tuple[str, dict[str, Any]]]:
    """The same of the paper's data and those with a target."""
    return [(name, case) for name, case in in_order(results, *kinds) if CASES[name].paper or CASES[name].target]


def seconds(value: float | None) -> str:
    """Seconds as a person writes them."""
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def milliseconds(value: float | None) -> str:
    """Three digits of them."""
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def gpu_whole(results: dict[str, Any]) -> str:
    """Whole runs beside the paper's times and our targets."""
    on = {"whole cuda": "GPU", "whole cuda without polish": "GPU, no polish", "whole cpu": "cores"}
    rows = []
    for name, case in in_order(results, *on):
        for kind, where in on.items():
            run = case["runs"].get(kind)
            if run is None:
                continue
            done = run["generations"]
            total = case["prepare"] + run["set_up"] + run["seconds"]
            rows.append(
                [
                    name,
                    where,
                    seconds(CASES[name].paper),
                    seconds(CASES[name].target),
                    f"{seconds(total)}{'' if done == WHOLE else f' for {done:,} generations'}",
                    seconds(case["prepare"] + run["set_up"]),
                    f"{1e3 * run['seconds'] / max(done, 1):.2f}",
                    f"{run['rounds'] / max(done, 1):.1f}",
                    f"{run['waiting'] / run['seconds']:.0%}",
                    f"{run['rmse']:.4g} / {run['leaves']}",
                ]
            )
    header = ["data", "on", "paper, s", "target, s", "s", "of these before the search", "ms a generation"]
    return lines([*header, "rounds a generation", "waiting for the GPU", "RMSE / leaves"], rows)


def gpu_ratios(results: dict[str, Any]) -> str:
    """What the method gains and what the GPU gains."""
    rows = []
    for name, case in of_the_paper(results, *COMPARED):
        ms = {kind: case["runs"].get(kind, {}).get("ms_a_generation") for kind in COMPARED}
        rows.append(
            [
                name,
                *(milliseconds(ms[kind]) for kind in COMPARED),
                _ratio(ms["qr cuda"], ms["gram cuda"]),
                _ratio(ms["qr cpu"], ms["gram cpu"]),
                _ratio(ms["gram cpu"], ms["gram cuda"]),
                _ratio(ms["qr cpu"], ms["qr cuda"]),
            ]
        )
    header = ["data", "sums, GPU", "paper's, GPU", "sums, cores", "paper's, cores"]
    return lines([*header, "method, GPU", "method, cores", "GPU, sums", "GPU, paper's"], rows)


def _ratio(slow: float | None, fast: float | None) -> str:
    return "" if not slow or not fast else f"{slow / fast:,.3g}"


def gpu_procedures(results: dict[str, Any]) -> str:
    """Shares of the run-time of the paper's evaluation on the GPU, as in its figures 15 and 17."""
    rows = []
    for name, case in of_the_paper(results, "qr cuda"):
        run = case["runs"]["qr cuda"]
        timed = sum(run["procedures"].values())
        layouts = [run["procedures"].get(procedure, 0) / run["seconds"] for procedure in PROCEDURES]
        rest = f"{1 - timed / run['seconds']:.1%}"
        each = 1e3 * run["seconds"] / run["evaluations"]
        rows.append([name, f"{each:.3g}", *(f"{layout:.1%}" for layout in layouts), rest])
    return lines(["data", "ms a tree", *PROCEDURES, "CPU and gaps"], rows)


def gpu_storage(results: dict[str, Any]) -> str:
    """Rows as float64 and as float32."""
    rows = []
    for name, case in in_order(results, "float32 cuda"):
        both = [case["runs"].get(f"{storage} cuda") for storage in STORAGES]
        if None in both:
            continue
        ms = [run["ms_a_generation"] for run in both]
        read = [f"{run['rows_read'] / run['generations'] / 1e6:.3g}" for run in both]
        memory = [f"{run['gpu_bytes'] / 2**20:,.0f}" for run in both]
        error = [f"{run['rmse']:.5g} / {run['leaves']}" for run in both]
        rows.append([name, *map(milliseconds, ms), _ratio(*ms), *read, *memory, *error])
    header = ["data", "float64, ms a generation", "float32", "ratio", "float64, million rows read a generation"]
    return lines([*header, "float32", "float64, MiB of the GPU", "float32", "float64, RMSE / leaves", "float32"], rows)


def gpu_several(results: dict[str, Any]) -> str:
    """One GPU and all of a machine's."""
    rows = []
    for name, case in results["cases"].items():
        for kind, run in case["runs"].items():
            if not kind.startswith("cuda:all of "):
                continue
            n_gpus = int(kind.rpartition(" ")[2])
            one = case["runs"][f"cuda:0 of {n_gpus}"]["ms_a_generation"]
            several = run["ms_a_generation"]
            rows.append([name, str(n_gpus), f"{one:.3g}", f"{several:.3g}", f"{one / several:.2f}"])
    return lines(["data", "GPUs", "ms a generation on one", "on all", "ratio"], rows)


def main() -> None:
    """Put the tables that have rows between their marks."""
    results = json.loads(Path(sys.argv[1]).read_text())
    tables = {
        table.__name__: table(results) for table in (gpu_whole, gpu_ratios, gpu_procedures, gpu_storage, gpu_several)
    }
    put_tables(Path(sys.argv[2]), {name: table for name, table in tables.items() if table.count("\n") > 1})


if __name__ == "__main__":
    main()
