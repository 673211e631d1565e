"""Mutated files of neighbours, summaries, scores, Arrow and Parquet: python -m tests.fuzz.stored --cases 1000 --seed 1.

Each is refused by a ValueError that names it, or read; what is read answers the same whatever memory held before.
Some cases are the attacks on memory and time that `tests/readers` has for every format and object, mutated or not.
Processes read some cases each, so that a crash is a finding, with 3 GB more than they have and 20 s of processor time
for a case, 2 GB and 6 s for those attacks. Case n of a seed is always the same.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import glasswood
from glasswood.base.escapes import NOT_SHOWN
from glasswood.cli.tables.reader import TableReader
from tests.fuzz.formats import mutate_explainer, mutate_glasswood
from tests.fuzz.mutators import mutate_bytes, mutate_document, pick
from tests.readers.door_attacks import DOORS
from tests.readers.resource_attacks import attacks
from tests.readers.resource_costs import LIMIT, place
from tests.strategies import full_forest

TOGETHER = 200
"""Cases of one process."""

MEMORY, SECONDS, COSTLY_SECONDS = 3 * 2**30, 20, 6
COSTLY = 0.2
"""Share of the cases that ask for memory or time."""

KINDS = {
    "neighbors": ".glasswood",
    "summary": ".json",
    "score": ".json",
    "arrow": ".arrow",
    "stream": ".arrow",
    "parquet": ".parquet",
}


def seeds(folder):
    """Whole files of each kind."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    forest = full_forest(0, 4, 3, 3)
    found = {kind: [] for kind in KINDS} | {"costly": costly_by_format()}
    for number, weights in enumerate((None, rng.integers(1, 4, 60) / 2)):
        neighbors = glasswood.Neighbors(forest, X, X[:, 0], sample_weight=weights, check=False)
        if number:
            neighbors.conformalize(X[:20], X[:20, 0])
        neighbors.save(folder / "seed.glasswood")
        found["neighbors"].append((folder / "seed.glasswood").read_bytes())
        summary = glasswood.Explainer(forest).summary(X, pair_rows=10 * number)
        summary.save(folder / "seed.json")
        found["summary"].append((folder / "seed.json").read_bytes())
        glasswood.score_values(forest, X, X[:, 0], sample_weight=weights).save(folder / "seed.json")
        found["score"].append((folder / "seed.json").read_bytes())
    texts = pa.array(["u", "vw", None, "xyz"] * 15)
    for column in (texts, texts.dictionary_encode()):
        table = pa.table({"a": X[:, 0], "k": column, "b": pa.array(X[:, 1] > 0)})
        for kind, make in (("arrow", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
            sink = pa.BufferOutputStream()
            with make(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=25)
            found[kind].append(sink.getvalue().to_pybytes())
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=25)
        found["parquet"].append(sink.getvalue().to_pybytes())
    return found


def costly_by_format():
    """Attacks on memory and time, those of each door and suffix in a list."""
    groups = {}
    for one in attacks().values():
        groups.setdefault((one.door, one.suffix), []).append(one)
    return list(groups.values())


def make_case(found, seed, number):
    """Kind and content of a case."""
    rng = np.random.default_rng([seed, number])
    if rng.random() < COSTLY:
        costly = pick(rng, pick(rng, found["costly"]))
        data = costly.build()
        is_mutated = rng.random() < 0.3 and costly.suffix != ".spark"  # whose archive is the test's own
        return f"{costly.door} {costly.suffix}", mutate_bytes(rng, data, data) if is_mutated else data
    kind = pick(rng, list(KINDS))
    data, other = pick(rng, found[kind]), pick(rng, found[kind])
    for _ in range(int(rng.integers(1, 4))):
        if kind == "neighbors" and rng.random() < 0.9:
            try:
                data = pick(rng, (mutate_explainer, mutate_explainer, mutate_glasswood))(rng, data, other)
            except Exception:  # a mutation before has left no file to mutate
                data = mutate_bytes(rng, data, other)
        elif kind in {"summary", "score"} and rng.random() < 0.9:
            try:
                document = json.loads(data)
            except ValueError:
                continue
            data = json.dumps(mutate_document(rng, document)).encode()
        else:
            data = mutate_bytes(rng, data, other)
    return kind, data


def ask(kind, path):
    """Answers of what a file holds."""
    if " " in kind:  # an attack on memory or time, and its door
        DOORS[kind.partition(" ")[0]](path)
        return []
    if kind == "neighbors":
        read = glasswood.Neighbors.load(path)
        X = np.linspace(-2, 2, 30).reshape(10, read.forest.n_features) if read.forest.n_features == 3 else None
        if X is None:
            return []
        answers = [read.outlier_score(), *read.kneighbors(X, 1), read.similarity(X)]
        return answers if read._targets is None else [*answers, read.quantile(X, [0.1, 0.9])]
    if kind == "summary":
        read = glasswood.Summary.load(path)
        return [read.mean, read.quantiles(), read.share_first] if read.n_rows else [read.total]
    if kind == "score":
        read = glasswood.ScoreValues.load(path)
        sums = read + read
        return [read.values, read.standard_error, read.shares, read.estimate_error, sums.values, len(repr(sums))]
    reader = TableReader(path)
    return [len(batch.to_pylist()) for batch in reader.batches(reader.names, [], [], 10)]


def attack(kind, path):
    """What is wrong with how a file is read; None if nothing is."""
    answers = []
    for byte in (0x00, 0x7F):
        try:
            with mock.patch("numpy.empty", filled_with(byte, np.empty)), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answers.append(ask(kind, path))
        except (ValueError, NotImplementedError) as error:
            if ran_out(error) and " " in kind:
                return "asks for more memory than a case may"
            if str(path) not in str(error):
                return f"does not name the file: {error}"
            return f"a message holds what terminals obey: {error!r}" if NOT_SHOWN.search(str(error)) else None
        except MemoryError:
            return "asks for more memory than a case may"
        except TimeoutError:
            return "takes more time than a case may"
        except Exception:
            return traceback.format_exc()
    same = all(np.array_equal(one, other, equal_nan=True) for one, other in zip(*answers, strict=True))
    return None if same else "answers depend on what memory held"


def ran_out(error):
    """Whether an error began as one of memory."""
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error is not None


def filled_with(byte, function):
    """A function that makes arrays, whose memory holds the same byte everywhere."""

    def make(*arguments, **options):
        array = function(*arguments, **options)
        if array.dtype.kind in "biufc":
            array.reshape(-1).view(np.uint8)[...] = byte
        return array

    return make


def overdue(*_):
    """End a case that takes too long."""
    raise TimeoutError


def limit_memory(n_bytes):
    """Let this process have so much more memory than it has."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + n_bytes, resource.RLIM_INFINITY))


def child(seed, first, last):
    """Attack some cases; each is announced before, so that a crash has a number."""
    signal.signal(signal.SIGPROF, overdue)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = seeds(folder)
        for number in range(first, last):
            kind, data = make_case(found, seed, number)
            case = folder / str(number)
            case.mkdir()
            path = place(data, KINDS.get(kind, kind.partition(" ")[2]), case)
            print(f"case {number}", flush=True)
            is_costly = " " in kind
            signal.setitimer(signal.ITIMER_PROF, COSTLY_SECONDS if is_costly else SECONDS)
            limit_memory(LIMIT if is_costly else MEMORY)
            if finding := attack(kind, path):
                print(f"FINDING {kind}, case {number}: {finding}", flush=True)
            signal.setitimer(signal.ITIMER_PROF, 0)
            shutil.rmtree(case)


def main(arguments=None):
    """Return the exit code: 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.stored", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.first is not None:
        child(given.seed, given.first, given.first + given.cases)
        return 0
    findings, first = [], 0
    while first < given.cases:
        n = min(TOGETHER, given.cases - first)
        command = [
            sys.executable,
            "-m",
            "tests.fuzz.stored",
            f"--seed={given.seed}",
            f"--first={first}",
            f"--cases={n}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        findings += [line for line in lines if line.startswith("FINDING")]
        if done.returncode:
            last = next(line for line in reversed(lines) if line.startswith("case "))
            findings.append(f"FINDING {last}: exit code {done.returncode}\n{done.stderr[-2000:]}")
            first = int(last.split()[1]) + 1
        else:
            first += n
    print(f"seed {given.seed}: {given.cases} files of neighbours, summaries and tables, {len(findings)} findings")
    print("\n".join(findings))
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
