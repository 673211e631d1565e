"""One process that attacks case after case, and says on standard output which one it is at."""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import os
import resource
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np

from tests.fuzz.formats import find_seeds, mutate


def make_case(seed, number, seeds):
    """Format and bytes of a case, which depend on the seed and its number alone."""
    rng = np.random.default_rng([seed, number])
    suffix = list(seeds)[number % len(seeds)]
    return suffix, mutate(rng, suffix, seeds[suffix])


def run_case(attack, path, seeds):
    """What came of a file: "loaded", "refused" or the traceback of what it should not have raised."""
    try:
        return {"outcome": attack(path, seeds[path.suffix])}
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = next((f for f in reversed(frames) if "/glasswood/" in f.filename), frames[-1])
        text = "".join(traceback.format_exception(error))[-6000:]
        place = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
        return {"outcome": "finding", "place": place, "text": text}


def limit(memory):
    """So many bytes of address space, and errors of the machine with their place."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def main():
    """Attack the cases first, first + step, ... up to last."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="tests.fuzz.target:attack")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", default="*")
    for name in ("seed", "first", "step", "last", "memory"):
        parser.add_argument(f"--{name}", type=int)
    given = parser.parse_args()
    module, _, name = given.target.partition(":")
    attack, seeds = getattr(importlib.import_module(module), name), find_seeds(given.only)
    limit(given.memory)
    warnings.simplefilter("error")
    for number in range(given.first, given.last, given.step):
        suffix, data = make_case(given.seed, number, seeds)
        path = given.folder / f"{os.getpid()}{suffix}"
        path.write_bytes(data)
        print(json.dumps({"begins": number}), flush=True)
        result = run_case(attack, path, seeds)
        print(json.dumps({"ends": number, "format": suffix} | result), flush=True)
        path.unlink()


if __name__ == "__main__":
    sys.exit(main())
