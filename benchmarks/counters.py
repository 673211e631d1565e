"""Nsight Compute's counters of a command, for the scripts that set kernels beside a GPU's ceilings."""

from __future__ import annotations

import csv
import io
import subprocess
from collections.abc import Mapping, Sequence


def count(command: Sequence[str], metrics: Mapping[str, str], *options: str) -> list[dict[str, str]]:
    """Counters of the kernels that a command launches between the profiler's start and stop.

    Parameters
    ----------
    command : sequence of str
    metrics : mapping
        Nsight Compute's names by ours.
    options : str
        Further ones of `ncu`, which is on the PATH and may read the counters.

    Returns
    -------
    list of dict
        Per launch: kernel, grid, block and the counters with their units.
    """
    profiler = ["ncu", "--profile-from-start", "off", "--clock-control", "none", "--csv", "--page", "raw", *options]
    wanted = ["--metrics", ",".join(metrics.values())]
    output = subprocess.run([*profiler, *wanted, *command], capture_output=True, text=True, check=True).stdout
    rows = list(csv.DictReader(io.StringIO(output[output.index('"ID"') :])))
    names = {metric: title for title, metric in metrics.items()}
    units = rows[0]
    return [
        {"kernel": row["Kernel Name"].split("(")[0], "grid": row["Grid Size"], "block": row["Block Size"]}
        | {names[key]: f"{value} {units[key]}".strip() for key, value in row.items() if key in names}
        for row in rows[1:]
    ]
