"""Where and with what the times were taken."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.data import ROOT
from benchmarks.rivals import RIVALS, package_version
from glasswood import _core

QUIET = 0.3
"""Load average for each core above which times are not to be trusted."""


def cpu_model() -> str:
    """Name of the processor as the kernel knows it."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return found[1] if found else platform.processor() or platform.machine()


def machine_name() -> str:
    """Name for a file of results, such as intel-xeon-2-50ghz-2-cores."""
    words = re.sub(r"\((R|TM)\)|CPU|Processor|@", " ", cpu_model())
    return "-".join(re.findall(r"[a-z0-9]+", f"{words} {os.cpu_count()} cores".lower()))


def conditions() -> dict[str, Any]:
    """Describe what may differ from run to run; COMMIT names what is measured where there is no repository."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": os.environ.get("COMMIT") or _commit(),
        "cpu": cpu_model(),
        "kernels": _core.instruction_set(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "versions": {rival.package: package_version(name) for name, rival in RIVALS.items()},
    }


def is_quiet() -> bool:
    return os.getloadavg()[0] <= QUIET * (os.cpu_count() or 1)


def _commit() -> str:
    return _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain", "src") else "")


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.strip()
