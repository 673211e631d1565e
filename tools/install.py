"""Install a part of what the Makefile needs into the running environment: build, core, demo, docs, test or lint."""

import compileall
import os
import subprocess
import sys
import sysconfig
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
CORE = ["--no-build-isolation", "--no-deps", "--force-reinstall", "--editable", str(ROOT)]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq"]


OLDEST = ROOT / "tests" / "oldest.txt"
"""Versions of `make test-oldest`."""

BESIDE_OLDEST = (
    *("catboost", "duckdb", "hypothesis", "lightgbm", "onnx", "onnxruntime", "pandas", "polars", "pytest"),
    *("pytest-timeout", "pytest-xdist", "treelite", "xgboost-cpu"),
)
"""Of the group of tests: what can be installed beside them."""


def requirements(part: str) -> list[str]:
    """List the requirements of an extra or a group of pyproject.toml, of extras that it names too, or of the build."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    if part == "build":
        return [*project["build-system"]["requires"], "cmake>=3.18", "ninja"]
    if part == "oldest":
        found = [
            line for extra in ("dask", "excel", "files", "mlflow", "plot", "sklearn") for line in requirements(extra)
        ]
        return found + [line for line in requirements("test") if line.split(">=")[0] in BESIDE_OLDEST]
    parts = project["project"]["optional-dependencies"] | project["dependency-groups"]
    found = list(project["project"]["dependencies"])
    for requirement in parts[part]:
        if requirement.startswith("glasswood["):
            nested = requirement.removeprefix("glasswood[").removesuffix("]").split(",")
            found += [line for name in nested for line in requirements(name)]
        else:
            found.append(requirement)
    return found


def run(command: list[str], label: str) -> int:
    """Run a command and return its exit code; the label shows the elapsed time, on a terminal while it runs."""
    begun, moves = time.monotonic(), sys.stdout.isatty()
    print(f"{label} ...", end="", flush=True)
    with subprocess.Popen(command) as process:
        while True:
            try:
                code = process.wait(timeout=1 if moves else None)
            except subprocess.TimeoutExpired:
                print(f"\r{label} ... {_elapsed(begun)}", end="", flush=True)
            else:
                start = f"\r{label} ..." if moves else ""
                print(f"{start} {_elapsed(begun)}{' (failed)' * (code != 0)}", flush=True)
                return code


def _elapsed(begun: float) -> str:
    minutes, seconds = divmod(round(time.monotonic() - begun), 60)
    return f"{minutes}:{seconds:02d}"


def main(part: str) -> int:
    """Install and return pip's exit code."""
    levels = os.environ.get("GLASSWOOD_LEVELS", "machine")
    what = (
        [*CORE, "-C", f"cmake.define.GLASSWOOD_LEVELS={levels}"]
        if part == "core"
        else list(dict.fromkeys(requirements(part)))
    )
    takes = " (compiles glasswood, two minutes the first time)" if part == "core" else ""
    # Of matplotlib and scikit-learn the demo imports few modules, which are compiled then. Tests import what others did
    # not, and there a warning of a library's compilation would be an error.
    compiles = part not in ("build", "core", "demo")
    oldest = ["--constraint", str(OLDEST)] if part == "oldest" else []
    command = [*PIP, "install", *([] if compiles else ["--no-compile"]), *oldest, *what]
    code = run(command, f"installing {part}{takes}")
    if part in ("test", "others", "oldest") and not code:
        compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2, workers=0)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
