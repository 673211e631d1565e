"""The tables of benchmarks/results/evaluate_paper.md."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.data import ROOT
from benchmarks.tables import between

DOCUMENT = ROOT / "benchmarks" / "results" / "evaluate_paper.md"
PAPER_RATIO = 404.466 / 538.235
"""Inner time of by_node over that of by_sample, Table 1 of the paper."""


def update(kind: str, results: Mapping[str, Any]) -> None:
    """Rewrite the tables of one device."""
    text = between(DOCUMENT.read_text(), f"paper {kind}", f"{_caption(results)}\n\n{_table(results['table'])}")
    DOCUMENT.write_text(between(text, f"grid {kind}", _grid(results["grid"])))


def group_bound(mean_depth: float) -> float:
    """Equation 1: the processors of a record group below which by_node is expected to win."""
    return 2 * mean_depth / (1 + math.log2(mean_depth))


def _caption(results: Mapping[str, Any]) -> str:
    state, table = results["conditions"], results["table"]
    shape = f"depth {table['depth']}, mean depth of the records {table['mean_depth']:.2f}"
    where = f"{state['gpu']} beside {state['cpu']}" if state.get("gpu") else f"{state['cpu']}; one thread on the CPU"
    return f"{state['date']}, commit {state['commit']}, {where}; {shape}; µs."


def _table(table: Mapping[str, Any]) -> str:
    names = ("mean", "min", "max", "deviation")
    header = ["algorithm", *(f"outer {name}" for name in names), *(f"inner {name}" for name in names), "million rows/s"]
    lines = [header, ["---"] * len(header)]
    for algorithm, times in table["algorithms"].items():
        cells = [f"{1e6 * times[kind][name]:,.1f}" for kind in ("outer", "inner") for name in names]
        lines.append([algorithm, *cells, f"{65_536 / times['inner']['median'] / 1e6:,.0f}"])
    inner = {algorithm: times["inner"]["median"] for algorithm, times in table["algorithms"].items()}
    ratio = f"{inner['by_node'] / inner['by_sample']:.2f}"
    ratio = f"by_node / by_sample, inner medians: **{ratio}** (the paper's means: {PAPER_RATIO:.2f})."
    calls = {
        name: (times["outer"].get("calls"), times["inner"].get("calls")) for name, times in table["algorithms"].items()
    }
    most = max((n for pair in calls.values() for n in pair if n), default=0)
    few = [
        f"{name} {pair[0]} outer, {pair[1]} inner" for name, pair in calls.items() if any(n and n < most for n in pair)
    ]
    note = f" Of {most} calls each; fewer where they take long: {'; '.join(few)}." if few else ""
    return f"{_lines(lines)}\n\n{ratio}{note}"


def _grid(grid: Sequence[Mapping[str, Any]]) -> str:
    header = ["tree", "splits p", "d", "2d/(1+log2 d)", "rows", "serial", "by_sample", "by_node", "windowed"]
    lines = [[*header, "by_node / by_sample"], ["---"] * (len(header) + 1)]
    for case in grid:
        times = case["times"]
        cells = [_microseconds(times[name]) if name in times else "" for name in header[5:]]
        ratio = f"{times['by_node'] / times['by_sample']:.2f}" if "by_node" in times else ""
        shape = [f"{case['shape']} {case['depth']}", f"{case['splits']:,}", f"{case['mean_depth']:.1f}"]
        lines.append([*shape, f"{group_bound(case['mean_depth']):.1f}", case["rows"], *cells, ratio])
    counts = [n for case in grid for n in case.get("calls", {}).values()]
    note = (
        f"\n\nMedians of {max(counts)} calls, {min(counts)} where they take long."
        if counts and min(counts) < max(counts)
        else ""
    )
    return _lines(lines) + note


def _microseconds(seconds: float) -> str:
    return f"{1e6 * seconds:,.{0 if seconds >= 1e-4 else 1}f}"


def _lines(lines: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
