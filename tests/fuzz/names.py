"""Forests with hostile names and categories, written by every writer and read by those who read such files.

python -m tests.fuzz.names --seed 1 --cases 3000; `--case 123` shows one case again. Code must compile and compute what
`Forest.predict` does, markup must have the elements that plain names have, texts no control characters. What a writer
refuses is what its target cannot hold, by rules of this file's own.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import json
import math
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd

import glasswood
from glasswood.display.report.page import as_json
from glasswood.display.table import ranked_table
from glasswood.model.facts import forest_facts
from tests.display import postgresql, spreadsheet
from tests.display.hostile import NAMES
from tests.display.runners import C_FLAGS, call_c
from tests.strategies import Node, flatten

BATCH = 50
N_ROWS = 5
COMPILERS = (("-std=c99", "-trigraphs", "-pedantic-errors"), ("-std=gnu17",), ("-std=c99",))
CODE = ("python", "duckdb", "sqlite", "postgresql", "excel")
TARGETS = (*CODE, "c", "text", "html", "script", "picture")
PICTURES = 25
"""One case of so many is drawn."""
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
NOT_IN_CELLS = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")
HALVES = re.compile("[\ud800-\udfff]")


def hostile_text(rng):
    """Pieces that are known to be trouble, with random characters between them."""
    pieces = []
    for _ in range(rng.integers(1, 5)):
        pieces.append(NAMES[rng.integers(len(NAMES))])
        highest = (0x7F, 0x7F, 0x300, 0x3000, 0x110000)[rng.integers(5)]
        pieces += [chr(rng.integers(highest)) for _ in range(rng.integers(3))]
    text = "".join(pieces)
    # Databases refuse these two: few of them, that the others are tried.
    return text if rng.random() < 0.1 else HALVES.sub("?", text.replace("\0", "/"))


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """Two numbers and a category: names, rows in their order, and what predict makes of them."""

    forest: glasswood.Forest
    categories: list
    rows: list
    expected: np.ndarray

    @property
    def names(self):
        """Names of the columns."""
        return list(self.forest.feature_names)


def make_case(seed, number):
    """Case of a number; it depends on the seed and the number alone."""
    rng = np.random.default_rng([seed, number])
    names, table = [hostile_text(rng) for _ in range(3)], list({hostile_text(rng): None for _ in range(3)})
    if rng.random() < 0.8:  # spreadsheets refuse the others
        table = list({NOT_IN_CELLS.sub("?", text): None for text in table})
    if rng.random() < 0.05:
        names[1] = names[0].swapcase() if rng.random() < 0.5 else names[0]
    if rng.random() < 0.05:
        names[0] = 40 * names[0]
    values = rng.normal(size=6)
    trees = [
        Node(children=(Node(value=values[0]), Node(value=values[1])), feature=0, threshold=0.25, cover=2.0),
        Node(children=(Node(value=values[2]), Node(value=values[3])), feature=1, threshold=-0.25, default_left=True),
        Node(children=(Node(value=values[4]), Node(value=values[5])), feature=2, category_set=0, default_left=True),
    ]
    meaning = {
        "feature_names": tuple(names),
        "categories": (None, None, np.array(table, object)),
        "classes": (np.array([hostile_text(rng), hostile_text(rng)], object),),
        "source": hostile_text(rng),
        "objective": hostile_text(rng),
        "missing": math.nan,
    }
    forest = flatten(trees, 3, "float64", [(np.array([rng.integers(1, 8)], np.uint32), False)], **meaning)
    forest = with_equations(forest, rng)
    rows = [[*rng.normal(size=2), table[rng.integers(len(table))]] for _ in range(N_ROWS - 1)]
    rows.append([None, None, None])
    plain = dataclasses.replace(forest, feature_names=("a", "b", "c"))
    frame = pd.DataFrame({name: pd.Series([row[i] for row in rows], dtype=object) for i, name in enumerate("abc")})
    frame = frame.astype({"a": float, "b": float})
    return Case(forest, table, rows, plain.predict(frame, output="margin"))


def with_equations(forest, rng):
    """A term of each number and of a category in every leaf, clipped."""
    n_terms = 3 * forest.n_leaves
    return dataclasses.replace(
        forest,
        linear_offsets=np.arange(0, n_terms + 1, 3),
        linear_feature=np.tile([0, 1, 2], forest.n_leaves).astype(np.int32),
        linear_category=np.tile([-1, -3, 0], forest.n_leaves).astype(np.int32),
        linear_coefficient=rng.normal(size=n_terms),
        linear_mean=rng.normal(size=n_terms) / 4,
        linear_deviation=np.ones(n_terms),
        leaf_range=np.tile([-2.0, 2.0], (forest.n_leaves, 1)),
    )


def is_text(texts):
    """Whether these can be texts of a database."""
    return not any("\0" in text or HALVES.search(text) for text in texts)


def columns_of(names, identity):
    """Whether these can be the columns of one table."""
    return is_text(names) and all(names) and len({identity(name) for name in names}) == len(names)


def lowered(name):
    """Name without the case of ASCII's letters."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def cut(name):
    """Name as PostgreSQL keeps it: whole characters of the first 63 bytes."""
    kept, size = [], 0
    for letter in name:
        size += len(letter.encode())
        if size > 63:
            break
        kept.append(letter)
    return "".join(kept)


def must_run(case, target):
    """Whether the target can hold the names and categories."""
    if target == "python":
        return len(set(case.names)) == 3
    if target in ("duckdb", "sqlite"):
        numbers = {"duckdb": {"rowid"}, "sqlite": {"rowid", "oid", "_rowid_"}}[target]
        return (
            columns_of(case.names, lowered) and is_text(case.categories) and not numbers & set(map(lowered, case.names))
        )
    if target == "postgresql":
        return is_text(case.names) and columns_of(case.names, cut) and is_text(case.categories)
    if target == "excel":
        return all(case.categories) and not any(map(NOT_IN_CELLS.search, case.categories))
    return True


class Fuzzer:
    """Cases in batches, for every writer, and what came of them."""

    def __init__(self, seed, folder, server) -> None:
        self.seed, self.folder, self.server = seed, folder, server
        self.counts, self.findings = collections.Counter(), []

    def run(self, numbers, targets=TARGETS):
        """Attack with a batch of cases."""
        cases = {number: make_case(self.seed, number) for number in numbers}
        for target in CODE:
            is_there = {"postgresql": self.server, "excel": spreadsheet.OFFICE}.get(target, True)
            if target in targets and is_there:
                getattr(self, target)(self.write(target, cases))
        if "c" in targets:
            self.c(cases)
        for number, case in cases.items():
            for target in ("text", "html", "script", "picture"):
                if target not in targets or (target == "picture" and number % PICTURES):
                    continue
                self.check(number, target, getattr(self, target), case)

    def write(self, target, cases):
        """Code of the cases that the target can hold; the others must be refused."""
        written = {}
        for number, case in cases.items():
            runs = must_run(case, target)
            try:
                code = write(target, case, 1 + N_ROWS * len(written))
            except ValueError as error:
                self.counts[target, "refused"] += 1
                if runs:
                    self.find(number, target, f"refused: {error}")
                continue
            if runs:
                written[number] = (case, code)
            else:
                self.find(number, target, "not refused")
        return written

    def python(self, written):
        """Compile and call the functions."""
        for number, (case, code) in written.items():
            self.check(number, "python", lambda case, code=code: self.compare(case, call_python(code, case)), case)

    def duckdb(self, written):
        """Query one table a case."""
        import duckdb

        for number, (case, code) in written.items():
            with duckdb.connect() as connection:
                self.check(
                    number, "duckdb", lambda case, c=connection, e=code: self.compare(case, query(c, e, case)), case
                )

    def sqlite(self, written):
        """Query one table a case."""
        import sqlite3

        for number, (case, code) in written.items():
            with contextlib.closing(sqlite3.connect(":memory:")) as connection:
                self.check(
                    number,
                    "sqlite",  # which reads one number in some 30,000 as its neighbour
                    lambda case, c=connection, e=code: self.compare(case, query(c, e, case), 1e-15),
                    case,
                )

    def postgresql(self, written):
        """All of a batch in one session; one by one if it fails."""
        scripts = {number: server_script(case, code) for number, (case, code) in written.items()}
        try:
            found = self.server.run("".join(scripts.values()))
            each = [found[start : start + N_ROWS] for start in range(0, len(found), N_ROWS)]
            answers = dict(zip(written, each, strict=True))
        except (RuntimeError, ValueError):
            answers = {}
        for number, (case, _) in written.items():

            def answer(case, number=number):
                lines = answers[number] if number in answers else self.server.run(scripts[number])
                self.compare(case, np.array(lines, float))

            self.check(number, "postgresql", answer, case)

    def excel(self, written):
        """One workbook a batch."""
        if not written:
            return
        sheet = [
            [formula, *row] for case, code in written.values() for formula, row in zip(code, case.rows, strict=True)
        ]
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            profile = self.folder / "profile"
            found = [row[0] for row in spreadsheet.compute(sheet, Path(folder), profile)]
        for place, (number, (case, _)) in enumerate(written.items()):
            cells = found[place * N_ROWS : (place + 1) * N_ROWS]
            self.check(
                number, "excel", lambda case, cells=cells: self.compare(case, np.array(cells, float), 1e-9), case
            )

    def c(self, cases):
        """One library a batch, whose functions are all that it defines; one by one if it fails."""
        import ctypes

        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            folder = Path(folder)
            library = self.compile(cases, folder)
            for number, case in cases.items():
                name = f"f{number}"
                alone = library or self.compile({number: case}, folder)
                if alone is None:
                    self.find(number, "c", "does not compile, or defines other symbols")
                    continue
                codes = {category: float(code) for code, category in enumerate(case.categories)}
                matrix = [[*map(missing_as_nan, row[:2]), codes.get(row[2], math.nan)] for row in case.rows]
                function = getattr(ctypes.CDLL(str(alone)), name)
                self.check(number, "c", lambda case, f=function, m=matrix: self.compare(case, call_c(f, m)), case)

    def compile(self, cases, folder):
        """Path of a library with these cases' functions and nothing else; None if there is none."""
        sources = {f"f{number}.c": glasswood.export_c(case.forest, f"f{number}") for number, case in cases.items()}
        for name, source in sources.items():
            (folder / name).write_bytes(source.encode(errors="surrogatepass"))
        built = f"l{next(iter(cases))}-{len(cases)}.so"
        flags = [*C_FLAGS, "-O0", *COMPILERS[next(iter(cases)) // BATCH % len(COMPILERS)], "-shared", "-fPIC"]
        command = ["gcc", "-x", "c", *flags, *sources, "-o", built, "-lm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        if done.returncode or not all(source.isascii() for source in sources.values()):
            return None
        listed = subprocess.run(["nm", "-D", "--defined-only", built], cwd=folder, capture_output=True, check=True)
        symbols = {line.split()[-1] for line in listed.stdout.decode().splitlines()}
        return folder / built if symbols == {f"f{number}" for number in cases} else None

    def text(self, case):
        """Rules, facts and tables: as many lines as with plain names, and nothing that a terminal obeys."""
        forest = case.forest
        texts = [glasswood.export_text(forest, tree) for tree in range(3)]
        lines = [text.count("\n") for text in texts]
        assert lines == [glasswood.export_text(plain_of(forest), tree).count("\n") for tree in range(3)]
        told = [*texts, *forest_facts(forest).values(), repr(forest), ranked_table(case.names, np.ones(3))]
        for text in told:
            assert not CONTROLS.search(text)
            text.encode()

    def html(self, case):
        """The elements of plain names."""
        page, plain = case.forest._repr_html_(), plain_of(case.forest)._repr_html_()
        assert elements_of(page) == elements_of(plain)
        page.encode()

    def script(self, case):
        """JSON in a script element comes back as it was."""
        content = {"names": case.names, "categories": case.categories, case.names[0]: case.forest.source}
        page = Page(f'<script type="application/json">{as_json(content)}</script><p>behind')
        assert page.elements == [("script", ("type",)), ("p", ())]
        assert json.loads(page.texts[0]) == content
        page.texts[0].encode()

    def picture(self, case):
        """A tree as SVG, which is XML and shows texts."""
        from xml.etree import ElementTree

        import matplotlib as mpl

        with mpl.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            ax = glasswood.plot_tree(case.forest, tree=2)
            path = self.folder / "tree.svg"
            ax.figure.savefig(path)
            mpl.pyplot.close(ax.figure)
        assert not {"script", "image", "a"} & {one.tag.rpartition("}")[2] for one in ElementTree.parse(path).iter()}

    def compare(self, case, found, tolerance=0.0):
        """Values of the rows."""
        np.testing.assert_allclose(found, case.expected, rtol=tolerance, atol=tolerance)

    def check(self, number, target, attack, case):
        """Attack, and keep what goes wrong."""
        try:
            attack(case)
        except Exception:  # whatever it is, it is a finding
            self.find(number, target, traceback.format_exc(limit=-3))
        else:
            self.counts[target, "ran"] += 1

    def find(self, number, target, text):
        """Keep a finding."""
        self.counts[target, "findings"] += 1
        self.findings.append((number, target, text))
        if self.counts[target, "findings"] <= 3:
            print(f"FINDING {target}, --seed {self.seed} --case {number}: {text[-1500:]}", flush=True)

    def report(self, seconds):
        """Table of what came of the exports."""
        print(f"seed {self.seed}, {seconds:.0f} s")
        print(f"{'target':12}{'ran':>9}{'refused':>9}{'findings':>10}")
        for target in dict.fromkeys(target for target, _ in self.counts):
            row = [self.counts[target, outcome] for outcome in ("ran", "refused", "findings")]
            print(f"{target:12}{row[0]:9}{row[1]:9}{row[2]:10}")
        print(f"{'all':12}{sum(n for (_, outcome), n in self.counts.items() if outcome == 'ran'):9}")


def write(target, case, first_row):
    """Code of a case; a formula a row, for rows of the sheet from the first one on."""
    if target == "python":
        return glasswood.export_python(case.forest)
    if target == "excel":
        places = [[f"{letter}{row}" for letter in "BCD"] for row in range(first_row, first_row + N_ROWS)]
        return [glasswood.export_excel(case.forest, cells=cells) for cells in places]
    return glasswood.export_sql(case.forest, target)


def call_python(code, case):
    """Results of the function for each row."""
    assert code.isascii()
    space: dict = {}
    exec(compile(code, "model.py", "exec", dont_inherit=True), space)
    return [space["predict"](dict(zip(case.names, row, strict=True))) for row in case.rows]


def query(connection, expression, case):
    """Results of an expression over a table of the case's rows."""
    kinds = ("DOUBLE", "DOUBLE", "VARCHAR")
    columns = ", ".join('"' + n.replace('"', '""') + f'" {kind}' for n, kind in zip(case.names, kinds, strict=True))
    connection.execute(f"CREATE TABLE rows ({columns})")
    connection.executemany("INSERT INTO rows VALUES (?, ?, ?)", case.rows)
    return np.array([value for (value,) in connection.execute(f"SELECT {expression} FROM rows").fetchall()])


def server_script(case, expression):
    """Table, rows and query of a case for psql; texts are written letter by letter, by no rule of glasswood's."""

    def literal(text, quote):
        return f"U&{quote}{''.join(f'{chr(92)}+{ord(letter):06x}' for letter in text)}{quote}"

    columns = ", ".join(literal(cut(name), '"') for name in case.names)  # no table has a column like xmin
    rows = []
    for *numbers, text in case.rows:
        values = ["NULL::float8" if value is None else f"'{float(value)!r}'::float8" for value in numbers]
        values.append("NULL::text" if text is None else literal(text, "'"))
        rows.append(f"({', '.join(values)})")
    return f"SELECT {expression} FROM (VALUES {', '.join(rows)}) AS rows ({columns});\n"


def plain_of(forest):
    """The same forest with harmless texts."""
    fields = {"feature_names": ("a", "b", "c"), "source": "s", "objective": "o"}
    return dataclasses.replace(forest, **fields, classes=(np.array(["no", "yes"]),))


def missing_as_nan(value):
    """None as NaN."""
    return math.nan if value is None else value


class Page(HTMLParser):
    """Elements with the names of their attributes, and texts."""

    def __init__(self, text) -> None:
        super().__init__()
        self.elements, self.texts = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        """Note an element."""
        self.elements.append((tag, tuple(name for name, _ in attributes)))

    def handle_data(self, data):
        """Note a text."""
        self.texts.append(data)


def elements_of(text):
    """Elements of a document."""
    return Page(text).elements


def parse(arguments=None):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.names", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--case", type=int, help="attack with this one alone, and show its texts")
    parser.add_argument("--targets", default=",".join(TARGETS), help="some of the writers, divided by commas")
    return parser.parse_args(arguments)


def main(arguments=None):
    """Return the exit code: 1 if anything was found."""
    given, start = parse(arguments), time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(postgresql.serve()) if postgresql.programs() else None
        fuzzer, targets = Fuzzer(given.seed, folder, server), given.targets.split(",")
        if given.case is not None:
            print(make_case(given.seed, given.case))
            fuzzer.run([given.case], targets)
        else:
            for first in range(0, given.cases, BATCH):
                fuzzer.run(range(first, min(first + BATCH, given.cases)), targets)
    fuzzer.report(time.monotonic() - start)
    return int(bool(fuzzer.findings))


if __name__ == "__main__":
    sys.exit(main())
