"""Results as Markdown tables between the markers of benchmarks/results/libraries.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cases import GROUPS
from benchmarks.targets import bound_text, value_text

if TYPE_CHECKING:
    from benchmarks.cases import Case

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
ONCE = "¹"
FACTS = (
    "{date}",
    "commit {commit}",
    "{cpu}",
    "{cores} cores",
    "kernels for {kernels}",
    "load average {load} before the run",
)


def update(path: Path, results: Mapping[str, Any]) -> None:
    """Replace what stands between the markers of every group that has results."""
    text = path.read_text()
    for name, group in results.items():
        text = between(text, name, f"{_caption(group['conditions'])}\n\n{_table(name, group['cases'])}")
    path.write_text(text)


def between(text: str, name: str, content: str) -> str:
    """Put `content` between the markers of `name`."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the document has no lines {begin} and {end}; add them where the table belongs")
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text)


def _caption(conditions: Mapping[str, Any]) -> str:
    facts = ", ".join(text.format(**conditions) for text in FACTS)
    versions = ", ".join(f"{package} {version}" for package, version in conditions["versions"].items() if version)
    return f"{facts}; Python {conditions['python']}, {versions}."


def _table(name: str, measured: Mapping[str, Any]) -> str:
    cases = [(case, measured[key]) for case in GROUPS[name].cases if (key := str_key(case)) in measured]
    libraries = list(dict.fromkeys(library for case, _ in cases for library in case.libraries))
    header = ["case", "rows", "threads", *libraries, "target", "reached"]
    lines = [header, ["---"] * len(header), *(_line(case, result, libraries) for case, result in cases)]
    notes = [f"{ONCE} one run"] if any(ONCE in cell for line in lines for cell in line) else []
    return "\n".join([*map(_row, lines), *(f"\n{note}" for note in notes)])


def str_key(case: Case) -> str:
    """Name of a case in the file of results."""
    return f"{case.title}, {case.task}, {case.n_rows} rows, {case.n_threads} threads"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _line(case: Case, result: Mapping[str, Any], libraries: Iterable[str]) -> list[str]:
    return [
        _title(case, result),
        f"{case.n_rows:,}" if case.n_rows else "",
        str(case.n_threads),
        *(_cell(case, result, library) for library in libraries),
        bound_text(case.target) if case.target else "",
        value_text(case.target, result["reached"]) if case.target else "",
    ]


def _title(case: Case, result: Mapping[str, Any]) -> str:
    leaves = result.get("leaves")
    return f"{case.title} ({leaves:,} leaves)" if leaves else case.title


def _cell(case: Case, result: Mapping[str, Any], library: str) -> str:
    """Time and how many times that of the reference it is, or why there is none."""
    if library not in case.libraries:
        return ""
    if library not in result["differences"]:
        return "not installed"
    if library not in result["medians"]:
        return f"differs by {result['differences'][library]:.0e}"
    median, own = result["medians"][library], result["medians"][case.libraries[0]]
    if case.reading == "result":
        return f"{median:,.0f}" if median >= 10 else _digits(median)
    note = ONCE if len(result["readings"][library]) == 1 else ""
    ratio = "" if library == case.libraries[0] else f" ({_digits(median / own)}×)"
    return f"{_duration(median)}{ratio}{note}"


def _duration(seconds: float) -> str:
    scale, unit = next(((scale, unit) for scale, unit in UNITS if seconds >= scale), UNITS[-1])
    return f"{_digits(seconds / scale)} {unit}"


def _digits(value: float) -> str:
    """Three digits."""
    return f"{value:,.{max(0, 2 - int(value >= 10) - int(value >= 100))}f}"
