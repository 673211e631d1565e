"""Run groups of cases, keep the results and rewrite the tables: python -m benchmarks.run [GROUP ...]."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.cases import GROUPS
from benchmarks.data import ROOT
from benchmarks.machine import QUIET, conditions, is_quiet, machine_name
from benchmarks.models import trained
from benchmarks.rivals import TOLERANCE, difference, prepare
from benchmarks.tables import str_key, update
from benchmarks.targets import reached, value_text
from benchmarks.timing import Clock, interleaved

if TYPE_CHECKING:
    from benchmarks.cases import Case

RESULTS = ROOT / "benchmarks" / "results"
DOCUMENT = RESULTS / "libraries.md"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the chosen groups."""
    options = _parser().parse_args(arguments)
    groups = options.groups or [name for name, group in GROUPS.items() if options.long or not group.is_long]
    cases = {name: [case for case in GROUPS[name].cases if options.only in str_key(case)] for name in groups}
    if options.train:
        _train(case for name in groups for case in cases[name])
        return
    if not (is_quiet() or options.processor):
        print(f"warning: the load average is above {QUIET} for each core; these times say little")
    for name in groups:
        state = conditions()
        print(f"{name}: load average {state['load']}", flush=True)
        clock = time.process_time if options.processor else time.perf_counter
        measured = {str_key(case): measure(case, clock) for case in cases[name]}
        if (options.processor or options.only) and not options.dry:
            kind = "processor" if options.processor else "cases"
            _keep_cases(RESULTS / f"{kind}-{options.machine}.json", name, state, measured)
        elif not options.dry:
            _keep(RESULTS / f"{options.machine}.json", name, {"conditions": state, "cases": measured})


def measure(case: Case, clock: Clock = time.perf_counter) -> dict[str, Any]:
    """Compare the results of all libraries, then time those that agree."""
    calls = prepare(case)
    results = {name: call() for name, call in calls.items()}
    differences = {name: difference(result, results[case.libraries[0]]) for name, result in results.items()}
    agreeing = {name: call for name, call in calls.items() if differences[name] <= TOLERANCE}
    readings = interleaved(agreeing, clock) if case.reading == "time" else {name: [results[name]] for name in agreeing}
    return _summary(case, readings, differences)


def _summary(case: Case, readings: dict[str, list[float]], differences: dict[str, float]) -> dict[str, Any]:
    medians = {name: median(values) for name, values in readings.items()}
    summary = {"differences": differences, "readings": readings, "medians": medians}
    if case.model:
        summary |= _size(case)
    times = ", ".join(f"{name} {value:.4g}" for name, value in medians.items())
    wrong = "".join(f", {name} differs by {differences[name]:.1e}" for name in differences.keys() - medians.keys())
    if case.target:
        summary["reached"] = reached(case.target, case, medians)
        times += f": {value_text(case.target, summary['reached'])}"
    print(f"  {str_key(case)}: {times}{wrong}", flush=True)
    return summary


def _size(case: Case) -> dict[str, int]:
    import glasswood

    forest = glasswood.load(trained(case.model))
    return {"trees": forest.n_trees, "leaves": forest.n_leaves}


def _train(cases: Iterable[Case]) -> None:
    for model in dict.fromkeys(case.model for case in cases if case.model):
        trained(model)


def _keep(path: Path, name: str, group: dict[str, Any]) -> None:
    """Add a group to the results of this machine and rewrite its table."""
    results = json.loads(path.read_text()) if path.exists() else {}
    results[name] = group
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    update(DOCUMENT, {name: group})


def _keep_cases(path: Path, name: str, state: dict[str, Any], measured: dict[str, Any]) -> None:
    """Add cases, each with its conditions, to those of this machine."""
    results = json.loads(path.read_text()) if path.exists() else {}
    results.setdefault(name, {}).update({key: {"conditions": state} | case for key, case in measured.items()})
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def _group(name: str) -> str:
    if name not in GROUPS:
        raise argparse.ArgumentTypeError(f"{name!r} is no group; expected one of {', '.join(GROUPS)}")
    return name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run", description="Measure glasswood beside its rivals."
    )
    parser.add_argument("groups", nargs="*", type=_group, metavar="GROUP", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--long", action="store_true", help="also the groups that take minutes (default: all others)")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only cases whose name holds it, kept in a file of their own"
    )
    parser.add_argument("--train", action="store_true", help="only train the models and keep them")
    parser.add_argument(
        "--processor",
        action="store_true",
        help="times are processor seconds, which other work hardly changes; keeps them in a file of their own",
    )
    parser.add_argument("--dry", action="store_true", help="print, but keep nothing")
    parser.add_argument("--machine", default=machine_name(), help="name of the file of results (default: %(default)s)")
    return parser


if __name__ == "__main__":
    main()
