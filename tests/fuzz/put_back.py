"""Defects that were mended, put back into a copy of the package: python -m tests.fuzz.put_back --cases 2000 [NAME ...].

Says the first case of `tests.fuzz.stored` that finds each. A defect is texts of the source in place of others; where
the source has changed so that a text is no longer in it, `test_put_back.py` says so.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import glasswood
from glasswood import _core
from tests.fuzz.stored import TOGETHER

PACKAGE = Path(glasswood.__file__).parent
SPARK, NEIGHBORS = "readers/spark/", "neighbors/stored.py"

BELIEVED = """def checked_state(state, n_bytes):
    n, k = len(state["names"]), len(state["output_names"])
    shapes = dict.fromkeys(ARRAYS[:-2], (n, k)) | {"pair_magnitudes": (n, n, k) if state["n_pair_rows"] else (0,)}
    types = dict.fromkeys(shapes, np.float64) | {"leads": np.int64}
    return state | {name: np.array(state[name], types[name]).reshape(shape) for name, shape in shapes.items()}


def never_called(state: Any, n_bytes: int) -> dict[str, Any]:
"""

CALL = '            _check_target(target, index, leaves, _column(arrays["targets"], output))\n'
LISTED_TWICE = [
    (NEIGHBORS, "        if (found < 0).any():\n", "        if False:\n"),
    (NEIGHBORS, CALL, "            pass\n"),
]

DEFECTS = {
    "summaries believed": [
        ("explain/results/summary.py", "def checked_state(state: Any, n_bytes: int) -> dict[str, Any]:\n", BELIEVED)
    ],
    "neighbours unchecked": [
        (NEIGHBORS, "        _check_shapes(arrays, ensemble, n_outputs)\n", ""),
        (NEIGHBORS, "        _ = index.shares ", "        # "),
        *LISTED_TWICE,
    ],
    "tables not validated": [("cli/tables/columnar.py", "    rows.validate(full=True)\n", "")],
    "rows listed twice": LISTED_TWICE,
    "Spark of any size": [
        (SPARK + "nodes.py", "MOST_EXPANSION, LEAST_ROOM = 2**8, 2**22", "MOST_EXPANSION, LEAST_ROOM = 2**8, 2**62"),
        (SPARK + "stages.py", "MOST_ENTRIES = 2**22", "MOST_ENTRIES = 2**62"),
        (SPARK + "stages.py", "MOST_MADE = 2**18 + 2**12", "MOST_MADE = 2**62"),
        (SPARK + "trees.py", "LEAST_WORDS, WORDS_OF_NODE = 2**21, 64", "LEAST_WORDS, WORDS_OF_NODE = 2**62, 64"),
    ],
    "H2O of any size": [
        ("readers/h2o.py", "        if self.entries < 0:\n", "        if False:\n"),
        ("readers/h2o.py", "        if file not in of_file:\n", "        if True:\n"),
        ("readers/h2o.py", "        if total > room // MOST_UNPACKED:\n", "        if False:\n"),
        ("readers/h2o.py", "n = min(first + n_bits, len(table))", "bits, n = np.resize(bits, len(table)), len(table)"),
    ],
}  # fmt: skip

CHILD = """
import os, sys
sys.meta_path[:] = [finder for finder in sys.meta_path if isinstance(finder, type)]  # not those of editable packages
import glasswood
assert glasswood.__file__.startswith(os.getcwd())
from tests.fuzz.stored import child
child({}, {}, {})
"""


def put_back(name, package):
    """Write a defect into a copy of the package.

    Raises
    ------
    ValueError
        If the source no longer holds a text of it once.
    """
    for path, text, other in DEFECTS[name]:
        source = (package / path).read_text(encoding="utf-8")
        if source.count(text) != 1:
            raise ValueError(f"{path} holds {text!r} {source.count(text)} times, expected once")
        (package / path).write_text(source.replace(text, other), encoding="utf-8")


def first_finding(name, seed, n_cases):
    """Number of the first case that finds a defect and what it says; None if no case does."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PACKAGE, Path(folder) / "glasswood", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(_core.__file__, Path(folder) / "glasswood")
        (Path(folder) / "tests").symlink_to(Path(__file__).parents[1])
        put_back(name, Path(folder) / "glasswood")
        for first in range(0, n_cases, TOGETHER):
            last = min(first + TOGETHER, n_cases)
            code = CHILD.format(seed, first, last)
            command, number = [sys.executable, "-c", code], first
            with subprocess.Popen(command, cwd=folder, stdout=-1, stderr=subprocess.DEVNULL, text=True) as process:
                said = []
                for line in process.stdout:
                    if said and line.startswith(("case ", "FINDING ")):
                        break
                    if said or line.startswith("FINDING "):
                        said.append(line.partition(": ")[2] if not said else line)
                    elif line.startswith("case "):
                        number = int(line.split()[1])
                if said:
                    process.kill()
                    return number, [line for line in said if line.strip()][-1].strip()
            if process.returncode:
                return number, f"exit code {process.returncode}"
    return None


def main(arguments=None):
    """Print a line for each defect; the exit code is 1 if one was not found."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.put_back", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(DEFECTS), metavar="NAME", help=f"of {', '.join(DEFECTS)}")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20261128)
    given = parser.parse_args(arguments)
    found = {name: first_finding(name, given.seed, given.cases) for name in given.names}
    for name, finding in found.items():
        print(f"{name}: {f'not found in {given.cases} cases' if finding is None else 'case {}, {}'.format(*finding)}")
    return int(None in found.values())


if __name__ == "__main__":
    sys.exit(main())
