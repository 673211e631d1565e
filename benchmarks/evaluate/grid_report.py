"""Tables of benchmarks/evaluate/gpu_grid.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

BATCHES = (1, 100, 10_000, 1_000_000)
MISSING = "-"


def grid_tables(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Header and table of the cells, then the summary."""
    head = ["trees × depth × features", "leaves", "1 row, µs", "ratio", "host row, µs"]
    head += ["100 rows, µs", "ratio", "10,000 rows, µs", "ratio", "1,000,000 rows, ms", "ratio", "of it encoding, ms"]
    forests: dict[tuple[int, int, int], dict[int, Mapping[str, Any]]] = {}
    for one in results:
        forests.setdefault((one["trees"], one["depth"], one["features"]), {})[one["batch"]] = one
    lines = [head, ["---"] * len(head), *(_forest_line(shape, cells) for shape, cells in forests.items())]
    dropped = [one for one in results if "difference" in one and "nvforest" not in one]
    note = [f"\nnvForest's result differed in {len(dropped)} cells, whose times are left out."] if dropped else []
    return ["## Grid\n", _table(lines), *note, "", *summary_lines(results), ""]


def summary_lines(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Median, least and largest ratio by batch, and of all cells."""
    lines = [["rows", "cells", "median ratio", "least", "largest"], ["---"] * 5]
    for batch in (*BATCHES, None):
        ratios = [_ratio(one) for one in results if "nvforest" in one and batch in {one["batch"], None}]
        if ratios:
            numbers = (f"{number:.2f}" for number in (median(ratios), min(ratios), max(ratios)))
            lines.append([f"{batch:,}" if batch else "all", str(len(ratios)), *numbers])
    return [_table(lines)]


def crossover_table(crossover: Sequence[Mapping[str, Any]]) -> list[str]:
    """Host rows on the CPU and on the GPU."""
    if not crossover:
        return []
    lines = [["trees × depth", "rows", "CPU", "GPU"], ["---"] * 4]
    for one in crossover:
        times = (f"{one[device]:,.0f}" for device in ("cpu", "cuda"))
        lines.append([f"{one['trees']} × {one['depth']}", f"{one['rows']:,}", *times])
    return ["## Crossover of host rows, µs\n", _table(lines), ""]


def _forest_line(shape: tuple[int, int, int], cells: Mapping[int, Mapping[str, Any]]) -> list[str]:
    line = [" × ".join(map(str, shape)), f"{next(iter(cells.values()))['leaves']:,}"]
    for batch in BATCHES:
        one = cells.get(batch, {})
        is_long = batch == max(BATCHES)
        line.append((f"{one['glasswood']:.2f}" if is_long else f"{1e3 * one['glasswood']:.1f}") if one else MISSING)
        line.append(f"{_ratio(one):.2f}" if "nvforest" in one else MISSING)
        more = {1: ("host",), max(BATCHES): ("encoding",)}.get(batch, ())
        line += [
            f"{one[name] * (1 if is_long else 1e3):.{2 if is_long else 1}f}" if name in one else MISSING
            for name in more
        ]
    return line


def _ratio(one: Mapping[str, Any]) -> float:
    return float(one["nvforest"] / one["glasswood"])


def _table(lines: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
