"""Write the types of the compiled core, _core.pyi, from the signatures of its bindings.

`python tools/stub.py MODULE OUT [FOLDER]`, FOLDER where the module lies. The build writes them beside the module,
`make types` into src/. nanobind tells all types but those of the objects that some functions return: these stand here,
and a function that is missing ends the build.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TREE = "dict[str, Any]"
RETURNS = {
    "breadth_first": "tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int32]]",
    "category_hashes": "NDArray[numpy.int64]",
    "object_floats": "NDArray[numpy.float64] | None",
    "object_codes": "tuple[NDArray[numpy.int64], list[Any]] | None",
    "leaf_layouts": "dict[str, Any]",
    "plan_gpu_tables": "dict[str, Any]",
    "tree_shapes": "tuple[NDArray[numpy.int32], NDArray[numpy.int32]]",
    "write_pattern_tape": "dict[str, Any]",
    "write_tape": "dict[str, Any]",
    "extract_paths": "dict[str, NDArray[Any]]",
    "index_leaves": "tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float64]]",
    "NodePlan.ranks": "NDArray[numpy.uint8] | None",
    "CoalitionForest.gpu_plan": "dict[str, Any]",
    "GpuCalls.again": "Any",
    "GrowEngine.step": "list[tuple[int, float, float, int, float]]",
    "GrowEngine.best": TREE,
    "GrowEngine.population": f"list[{TREE}]",
    "GrowEngine.met": f"list[{TREE}]",
    "GrowEngine.apply": f"list[{TREE}]",
    "GrowEngine.gpu_counters": "tuple[int, float]",
    "GrowEngine.procedure_seconds": "dict[str, float]",
    "GrowEngine.counters": "tuple[int, int, int, int]",
    "__call__": "Any",
    "__reduce__": "tuple[Any, ...]",
}
"""What functions return whose signatures say object, tuple, list or dict."""

VAGUE = re.compile(r"(?P<start>\s*def (?P<name>\w+)\(.*\) -> )(object|tuple|list|dict)(?P<end>:.*)")
WHOLE = {"NDArray": "NDArray[Any]", "dict": TREE, "list": f"list[{TREE}]"}
"""Parameters without the types of their elements."""


def told(stub: str) -> str:
    """Put into a stub what nanobind does not know."""
    owner, lines = "", ["from typing import Any"]
    for line in stub.splitlines():
        if line[:1].strip():
            owner = f"{found[1]}." if (found := re.match(r"class (\w+)", line)) else ""
        if found := VAGUE.fullmatch(line):
            name = found["name"]
            returned = RETURNS.get(owner + name) or RETURNS.get(name if owner else "")
            if returned is None:
                raise SystemExit(f"{owner}{name} returns what its signature does not tell; add it to RETURNS")
            line = f"{found['start']}{returned}{found['end']}"
        if "def " in line:
            line = re.sub(r"(: |\[)(NDArray|dict|list)(?=[,)\]])", lambda match: match[1] + WHOLE[match[2]], line)
        lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    module, out, *folders = sys.argv[1:]
    where = [word for folder in folders for word in ("-i", folder)]
    generate = [sys.executable, "-m", "nanobind.stubgen", "-q", "-D", "-m", module, "-o", out, *where]
    subprocess.run(generate, check=True)
    Path(out).write_text(told(Path(out).read_text()))
