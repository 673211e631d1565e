"""Processes that attack mutated files until the time is up; what they find is kept.

python -m tests.fuzz --seconds 600 --seed 1; `--case 123` attacks one case again, in this process.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.fuzz.child import make_case
from tests.fuzz.formats import SUFFIXES, find_seeds

KEPT = Path("build/fuzz")
KEPT_OF_A_KIND = 3
MOST_CASES = 10**9


class Fuzzer:
    """Children in turn, and what came of their cases."""

    def __init__(self, given):
        self.given = given
        self.end = time.monotonic() + given.seconds
        self.counts = {suffix: collections.Counter() for suffix in SUFFIXES}
        self.findings = collections.Counter()
        self.lock, self.seeds = threading.Lock(), find_seeds(given.only)

    def run(self):
        """Attack with several processes at a time until the time or the cases are used up."""
        workers = [threading.Thread(target=self.work, args=(index,)) for index in range(self.given.workers)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def work(self, first):
        """One process after the other: each begins behind the case that ended the last."""
        while first is not None and first < self.given.cases and time.monotonic() < self.end:
            first = self.follow(first)

    def follow(self, first):
        """Start a child and listen to it; the case to go on from, None when all is done."""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
            with subprocess.Popen(self.command(first, folder), stdout=subprocess.PIPE, stderr=errors) as child:
                try:
                    at, why = self.listen(child)
                finally:
                    child.kill()
            if why is None:
                return None
            errors.seek(0)
            if at is None:
                raise RuntimeError(f"the child did not begin: {errors.read().decode(errors='replace')[-3000:]}")
            code = f" (exit code {child.returncode})" if why == "crash" else ""
            text = errors.read().decode(errors="replace")
            self.keep(at, f"{why}{code} {first_frame(text)}", text[-20_000:])
        return at + self.given.workers

    def command(self, first, folder):
        """Command line of a child."""
        given = self.given
        options = {"seed": given.seed, "first": first, "step": given.workers, "last": given.cases}
        options |= {"memory": given.memory, "folder": folder, "target": given.target, "only": given.only}
        return [sys.executable, "-m", "tests.fuzz.child", *(f"--{name}={value}" for name, value in options.items())]

    def listen(self, child):
        """Last case begun, and why the child ended: "hang", "crash", None for the end of the time or the cases."""
        at, buffer, limit = None, b"", 60 + self.given.case_seconds  # libraries are imported first
        while time.monotonic() < self.end:
            ready = select.select([child.stdout], [], [], min(limit, max(0.0, self.end - time.monotonic())))[0]
            if not ready:
                return (at, "hang") if time.monotonic() < self.end else (at, None)
            data = os.read(child.stdout.fileno(), 65536)
            if not data:
                return (at, None if child.wait() == 0 else "crash")
            *lines, buffer = (buffer + data).split(b"\n")
            for line in map(json.loads, lines):
                at = line.get("begins", at)
                limit = self.given.case_seconds
                if "ends" in line:
                    self.note(line)
        return at, None

    def note(self, line):
        """Count an outcome."""
        with self.lock:
            self.counts[line["format"]][line["outcome"]] += 1
        if line["outcome"] == "finding":
            self.keep(line["ends"], line["place"], line["text"], counted=True)

    def keep(self, number, place, text, counted=False):
        """Write the file and what it did, the first few of a kind."""
        suffix, data = make_case(self.given.seed, number, self.seeds)
        with self.lock:
            self.findings[f"{suffix}: {place}"] += 1
            self.counts[suffix]["finding"] += not counted
            is_new = self.findings[f"{suffix}: {place}"] <= KEPT_OF_A_KIND
        if is_new:
            self.given.keep.mkdir(parents=True, exist_ok=True)
            name = self.given.keep / f"{self.given.seed}-{number}{suffix}"
            name.write_bytes(data)
            Path(f"{name}.log").write_text(f"{place}\n\n{text}")
            print(f"FINDING {place}: {name}", flush=True)

    def report(self):
        """Table of what came of the cases of each format."""
        print(f"seed {self.given.seed}, {self.given.seconds} s at most, {self.given.workers} processes")
        print(f"{'format':11}{'cases':>9}{'loaded':>9}{'refused':>9}{'findings':>10}")
        for suffix, count in self.counts.items():
            row = (count.total(), count["loaded"], count["refused"], count["finding"])
            print(f"{suffix:11}" + "".join(f"{n:{width}}" for n, width in zip(row, (9, 9, 9, 10), strict=True)))
        print(f"all        {sum(count.total() for count in self.counts.values()):9}")
        for place, n in self.findings.most_common():
            print(f"{n:6} x {place}")


def first_frame(text):
    """What tells one crash from another: the sanitizer's summary, or Python's innermost line."""
    lines = [line.strip() for line in text.splitlines()]
    told = [line for line in lines if line.startswith("SUMMARY") or "runtime error" in line]
    return (told or [line for line in lines if line.startswith("File")] or [""])[0][:200]


def repeat(given):
    """Attack one case in this process, its file kept."""
    seeds = find_seeds(given.only)
    suffix, data = make_case(given.seed, given.case, seeds)
    given.keep.mkdir(parents=True, exist_ok=True)
    path = given.keep / f"{given.seed}-{given.case}{suffix}"
    path.write_bytes(data)
    print(path, flush=True)
    from tests.fuzz.target import attack

    print(attack(path, seeds[suffix]))


def parse(arguments=None):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=MOST_CASES)
    parser.add_argument("--case", type=int, help="attack this one alone, in this process")
    parser.add_argument("--only", default="*", help="names of the seeds to begin with: patterns, divided by commas")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--case-seconds", type=float, default=20)
    parser.add_argument(
        "--memory", type=int, default=3 * 2**30, help="bytes of address space; 0: no limit (sanitizers)"
    )
    parser.add_argument("--keep", type=Path, default=KEPT)
    parser.add_argument("--target", default="tests.fuzz.target:attack")
    return parser.parse_args(arguments)


def main(arguments=None):
    """Return the exit code: 1 if anything was found."""
    given = parse(arguments)
    if given.case is not None:
        return repeat(given)
    shutil.rmtree(given.keep, ignore_errors=True)
    fuzzer = Fuzzer(given)
    fuzzer.run()
    fuzzer.report()
    return int(bool(fuzzer.findings))
