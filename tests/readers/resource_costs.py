"""What attacks on readers cost: python -m tests.readers.resource_costs writes benchmarks/results/resources.md."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.poison import poison
from tests.readers import spark_models
from tests.readers.door_attacks import DOORS
from tests.readers.resource_attacks import attacks

from glasswood import readers

SECONDS, BYTES = 2.0, 500_000_000
"""For a file of a megabyte at most: processor time and memory."""

LIMIT = 4 * BYTES
"""Address space beyond which a reader gets no memory."""

RESULTS = Path("benchmarks/results/resources.md")


class Cost(NamedTuple):
    """Of reading a file.

    Attributes
    ----------
    seconds : float
        Processor time.
    peak : int
        Most bytes in memory, beyond those before.
    ran_out : bool
        Whether it asked for more than `LIMIT`, whatever it said then.
    told : str or None
        Why it is refused.
    """

    seconds: float
    peak: int
    ran_out: bool
    told: str | None


def place(data, suffix, folder):
    """Write what an attack builds; the path to read."""
    path = Path(folder) / f"model{suffix}"
    path.write_bytes(data)
    return spark_models.unpack(data, Path(folder) / "folder") if suffix == ".spark" else path


def cost_of(path, door):
    """Read a file in a child, whose peak of memory is its own."""
    receives, sends = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(sends, json.dumps(measured(path, DOORS[door])).encode())
        finally:
            os._exit(0)
    os.close(sends)
    with open(receives, "rb") as file:
        answer = file.read()
    os.waitpid(child, 0)
    return Cost(*json.loads(answer))


@contextlib.contextmanager
def small_process():
    """Yield a function like `cost_of` whose children are those of a process that has imported readers and no more.

    To fork the process of all tests, and look at its memory, takes ten times as long as to read most files.
    """
    command = [sys.executable, "-m", __name__, "serve"]
    folder = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def cost_of_one(path, door):
            process.stdin.write(json.dumps([str(path), door]) + "\n")
            process.stdin.flush()
            return Cost(*json.loads(process.stdout.readline()))

        yield cost_of_one


def serve():
    """Answer a line of standard input, a path and a door, by what it costs, a line of standard output."""
    poison()
    for module in pkgutil.walk_packages(readers.__path__, f"{readers.__name__}."):
        importlib.import_module(module.name)
    for line in sys.stdin:
        path, door = json.loads(line)
        print(json.dumps(cost_of(Path(path), door)), flush=True)


def measured(path, read):
    """What `Cost` has, in this process."""
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + LIMIT, resource.RLIM_INFINITY))
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, start, told, ran_out = memory("VmRSS"), time.process_time(), None, False
    try:
        read(path)
    except (ValueError, NotImplementedError, MemoryError) as error:
        cause: BaseException | None = error
        told = str(error)
        while cause is not None:
            ran_out |= isinstance(cause, MemoryError)
            cause = cause.__cause__ or cause.__context__
    return time.process_time() - start, memory("VmHWM") - before, ran_out, told


def memory(name):
    """Bytes of this process."""
    return 1024 * int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0])


def main():
    """Write the table of all attacks."""
    lines = ["| attack | file, KB | processor seconds | peak memory, MB | |", "|---|---:|---:|---:|---|"]
    for name, attack in attacks().items():
        data = attack.build()
        with tempfile.TemporaryDirectory() as folder:
            cost = cost_of(place(data, attack.suffix, folder), attack.door)
        outcome = "read" if cost.told is None else "refused"
        lines.append(f"| {name} | {len(data) / 1e3:.1f} | {cost.seconds:.2f} | {cost.peak / 1e6:.0f} | {outcome} |")
    head = f"Written by `python -m tests.readers.resource_costs`: {len(attacks())} attacks.\n\n"
    RESULTS.write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
