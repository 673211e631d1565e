"""A model as a workbook: inputs, a table of leaves, and a formula that looks up the leaf and adds up its terms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.extras import import_extra
from glasswood.base.wording import Wording
from glasswood.display.code_comments import origin, returned
from glasswood.display.workbook_curves import INFINITE, CurveSheets, bold, put
from glasswood.evaluate.linear import term_name
from glasswood.inputs.matching import listed
from glasswood.model.ensemble import LOGARITHM, MISSING, OF_NUMBERS, TreeEnsemble
from glasswood.model.facts import feature_names
from glasswood.words.curves import curve_trees
from glasswood.words.equations import multiplies
from glasswood.words.rules import paths

MOST_LETTERS = 8192
"""Most characters of a formula in a spreadsheet."""

MOST_LINES = 20_000
"""Most lines of a sheet: leaves, and steps of the formula."""

FIRST = 4
"""First line of the inputs, below what the model is."""

MOST_ARGUMENTS, ADDS = 200, "tree adds"
"""Arguments of a function, and what stands beside the value of each tree."""

FIRST_VALUE = 4
"""Which of the columns of leaves is the first one of values."""

LEAVES = ("tree", "leaf", "conditions", "reached", "intercept", "at the means", "lowest", "highest", "if missing")
"""Columns of the sheet of leaves, before those of the terms."""


def input_cell(feature: int) -> str:
    """Name the cell of a feature."""
    return f"Inputs!$B${FIRST + 1 + feature}"


def workbook(forest: TreeEnsemble, writer: Any, output: int, row: Mapping[str, Any]) -> Any:
    """Make a workbook of openpyxl.

    Parameters
    ----------
    forest : TreeEnsemble
    writer : Any
        Writes tests in formulas, over the cells that `input_cell` names.
    output : int
    row : mapping of str to value
        Values of the inputs at first.

    Raises
    ------
    ImportError
        If openpyxl is not installed.
    ValueError
        If the row has other features.
    NotImplementedError
        If the model has more lines than `MOST_LINES`, or a leaf more conditions than a cell takes.
    """
    openpyxl = import_extra("openpyxl", "excel", "workbooks need openpyxl")
    if unknown := [name for name in row if name not in feature_names(forest)]:
        raise ValueError(f"row holds {quoted(unknown[0])}, the model's features are {listed(feature_names(forest))}")
    trees = np.flatnonzero(forest.tree_output == output).tolist()
    n_leaves = sum(int(np.diff(forest.leaf_offsets)[tree]) for tree in trees if tree not in curve_trees(forest))
    if n_leaves > MOST_LINES:
        raise NotImplementedError(
            f"the model has {n_leaves:,} leaves, a workbook shows up to {MOST_LINES:,}; use export_sql or export_python"
        )
    book = openpyxl.Workbook()
    inputs = book.active
    inputs.title = "Inputs"
    sheet = _Sheets(forest, writer, inputs, book.create_sheet("Leaves"), book.create_sheet("Formula"))
    result = sheet.write(trees, output, CurveSheets(forest, writer, book))
    sheet.write_inputs(row, result, f"{origin(forest)} The prediction is {returned(forest, output)}.")
    return book


class _Sheets:
    """The three sheets while they are written."""

    def __init__(self, forest: TreeEnsemble, writer: Any, inputs: Any, leaves: Any, formula: Any) -> None:
        self._forest, self._writer = forest, writer
        self._inputs, self._leaves, self._formula = inputs, leaves, formula
        self._names = feature_names(forest)
        self._letter = import_extra("openpyxl.utils", "excel", "workbooks need openpyxl").get_column_letter

    def _compute(self, sheet: Any, place: str, formula: str) -> None:
        if len(formula) + 1 > MOST_LETTERS:
            raise NotImplementedError(
                f"a formula of the workbook has {len(formula):,} characters, more than the {MOST_LETTERS} of a cell; "
                "use export_sql"
            )
        sheet[place] = f"={formula}"

    def write_inputs(self, row: Mapping[str, Any], result: str, about: str) -> None:
        """Write a line for each feature, lists of categories beside them, and the prediction above."""
        lists = import_extra("openpyxl.worksheet.datavalidation", "excel", "workbooks need openpyxl")
        sheet, forest = self._inputs, self._forest
        put(sheet, "A1", about)
        put(sheet, "A2", "prediction", True)
        self._compute(sheet, "B2", result)
        sheet["B2"].font = bold()
        for column, name in zip("ABC", ("feature", "value", "an empty cell is missing"), strict=True):
            put(sheet, f"{column}{FIRST}", name, True)
        n_lists = 0
        for feature, name in enumerate(self._names):
            line = FIRST + 1 + feature
            put(sheet, f"A{line}", name)
            if (value := row.get(name)) is not None and value == value:
                put(sheet, f"B{line}", value.item() if isinstance(value, np.generic) else value)
            table = forest.categories[feature] if forest.categories else None
            if table is None:
                continue
            column = self._letter(5 + n_lists)
            n_lists += 1
            put(sheet, f"{column}1", name, True)
            for at, category in enumerate(table.tolist(), 2):
                put(sheet, f"{column}{at}", category)
            choices = f"Inputs!${column}$2:${column}${len(table) + 1}"
            known = lists.DataValidation(type="list", formula1=choices, allow_blank=True)
            sheet.add_data_validation(known)
            known.add(f"B{line}")
        sheet.column_dimensions["A"].width = min(60, max(12, *map(len, self._names)))
        sheet.column_dimensions["B"].width = 20

    def write(self, trees: list[int], output: int, curves: CurveSheets) -> str:
        """Write leaves, curves and formula, and return what the prediction is."""
        forest, writer = self._forest, self._writer
        terms = _terms_of(forest, trees)
        is_log = multiplies(forest)
        heads = [f"{head} (logarithm)" if is_log and at >= FIRST_VALUE else head for at, head in enumerate(LEAVES)]
        for name in map(self._term_name, terms):
            heads += [f"coefficient: {name}", f"mean: {name}"]
        for at, head in enumerate(heads, 1):
            put(self._leaves, f"{self._letter(at)}1", head, True)
        if is_log:
            put(self._leaves, f"{self._letter(len(heads) + 1)}1", "prediction at the means", True)
        steps = ("step", "value", "coefficient", "mean", "contribution", *(("factor",) if is_log else ()))
        for at, head in enumerate(steps, 1):
            put(self._formula, f"{self._letter(at)}1", head, True)
        line, place, totals = 2, 2, []
        for tree in trees:
            if tree in curve_trees(forest):
                place, value = self._write_curve(tree, place, curves)
                totals.append(value)
                continue
            last = self._write_leaves(tree, line, terms)
            place, value = self._write_tree(tree, place, (line, last), terms)
            totals.append(value)
            line = last + 1
        if max(place, curves.n_lines) > MOST_LINES:
            raise NotImplementedError(
                f"the formula or a sheet has more than {MOST_LINES:,} lines; use export_sql or export_python"
            )
        put(self._formula, f"A{place}", "base score", True)
        put(self._formula, f"B{place}", float(forest.base_score[output]))
        total = "logarithm of the prediction" if is_log else "sum of the trees"
        put(self._formula, f"A{place + 1}", total, True)
        summed = f"SUM({','.join(totals)})"
        if len(totals) > MOST_ARGUMENTS:
            summed = f'SUMIF($A$2:$A${place - 1},"{ADDS}",$B$2:$B${place - 1})'
        self._compute(self._formula, f"B{place + 1}", f"B{place}+{summed}")
        put(self._formula, f"A{place + 2}", "prediction", True)
        self._compute(self._formula, f"B{place + 2}", writer.response(f"B{place + 1}"))
        self._formula.column_dimensions["A"].width = 34
        self._leaves.column_dimensions["C"].width = 60
        self._leaves.freeze_panes = "E2"
        return f"Formula!$B${place + 2}"

    def _term_name(self, term: tuple[int, int]) -> str:
        return term_name(self._forest, *term)

    def _write_leaves(self, tree: int, line: int, terms: list[tuple[int, int]]) -> int:
        """Write the leaves of a tree from a line on, and return the last line."""
        forest, words = self._forest, paths(self._forest, tree, Wording(digits=6))
        tests = self._tests(tree)
        for at, (leaf, conditions) in enumerate(words.items(), line):
            value = float(forest.leaf_value[leaf, 0])
            own = self._own_terms(leaf)
            low, high = forest.leaf_range[leaf].tolist() if forest.has_linear_leaves else (-math.inf, math.inf)
            intercept = value - sum(coefficient * mean for coefficient, mean in own.values())
            put(self._leaves, f"A{at}", tree)
            put(self._leaves, f"B{at}", leaf - int(forest.leaf_offsets[tree]))
            put(self._leaves, f"C{at}", " and ".join(conditions) or "all rows")
            self._compute(self._leaves, f"D{at}", f"AND({','.join(tests[leaf])})" if tests[leaf] else "TRUE")
            put(self._leaves, f"E{at}", intercept)
            put(self._leaves, f"F{at}", value)
            put(self._leaves, f"G{at}", max(low, -INFINITE))
            put(self._leaves, f"H{at}", min(high, INFINITE))
            if len(forest.leaf_missing):
                put(self._leaves, f"I{at}", float(forest.leaf_missing[leaf]))
            for number, term in enumerate(terms):
                if term in own:
                    for offset, part in enumerate(own[term], 1 + len(LEAVES) + 2 * number):
                        put(self._leaves, f"{self._letter(offset)}{at}", part)
            if multiplies(forest):
                last = self._letter(1 + len(LEAVES) + 2 * len(terms))
                self._compute(self._leaves, f"{last}{at}", f"EXP(F{at})")
        return line + len(words) - 1

    def _own_terms(self, leaf: int) -> dict[tuple[int, int], tuple[float, float]]:
        """Coefficient and mean of each term of a leaf."""
        forest = self._forest
        at = range(*forest.linear_offsets[leaf : leaf + 2].tolist()) if forest.has_linear_leaves else ()
        return {
            (int(forest.linear_feature[i]), int(forest.linear_category[i])): (
                float(forest.linear_coefficient[i]),
                float(forest.linear_mean[i]),
            )
            for i in at
        }

    def _tests(self, tree: int) -> dict[int, list[str]]:
        """Write the tests on the way to each leaf."""
        forest, root = self._forest, int(self._forest.tree_offsets[tree])
        found: dict[int, list[str]] = {}
        leaf_of = np.cumsum(forest.feature < 0) - 1
        pending: list[tuple[int, list[str]]] = [(root, [])]
        while pending:
            node, tests = pending.pop()
            if forest.feature[node] < 0:
                found[int(leaf_of[node])] = tests
                continue
            left, test = root + int(forest.left[node]), self._writer.test(node)
            pending += [(left, [*tests, test]), (left + 1, [*tests, f"NOT({test})"])]
        return found

    def _write_tree(
        self, tree: int, place: int, lines: tuple[int, int], terms: list[tuple[int, int]]
    ) -> tuple[int, str]:
        """Write how a tree's value is computed; return the next line, and the cell of the value."""
        forest, sheet = self._forest, self._formula
        leaf = place

        def looked_up(column: int) -> str:
            letter = self._letter(column)
            return f"INDEX(Leaves!${letter}${lines[0]}:${letter}${lines[1]},$B${leaf})"

        many = f" of tree {tree}" if forest.n_trees > 1 else ""
        put(sheet, f"A{place}", f"line of the leaf{many}", True)
        self._compute(sheet, f"B{place}", f"MATCH(TRUE,Leaves!$D${lines[0]}:$D${lines[1]},0)")
        self._compute(sheet, f"C{place}", looked_up(3))
        leaves = slice(*forest.leaf_offsets[tree : tree + 2].tolist())
        used = {term for one in range(leaves.start, leaves.stop) for term in self._own_terms(one)}
        own = [(number, term) for number, term in enumerate(terms) if term in used]
        weight = float(forest.tree_weight[tree])
        place += 1
        value = looked_up(6)
        if own:
            put(sheet, f"A{place}", "at the means of the leaf")
            self._compute(sheet, f"E{place}", value)
            self._write_factor(place)
            first = place
            for number, term in own:
                place += 1
                column = 1 + len(LEAVES) + 2 * number
                self._write_term(place, term, looked_up(column), looked_up(column + 1))
                self._write_factor(place)
            value = f"SUM(E{first}:E{place})"
            value = f"MIN(MAX({value},{looked_up(7)}),{looked_up(8)})"
            if len(forest.leaf_missing):
                lacks = [
                    f"AND({self._writer.lacks(*term)},NOT(ISBLANK({looked_up(1 + len(LEAVES) + 2 * number)})))"
                    for number, term in own
                    if term[1] in OF_NUMBERS
                ]
                value = f"IF(OR({','.join(lacks)}),{looked_up(9)},{value})" if lacks else value
            place += 1
        elif forest.has_linear_leaves:
            value = f"MIN(MAX({value},{looked_up(7)}),{looked_up(8)})"
        put(sheet, f"A{place}", ADDS, True)
        self._compute(sheet, f"B{place}", value if weight == 1 else f"{self._writer.language.number(weight)}*{value}")
        return place + 1, f"B{place}"

    def _write_factor(self, place: int) -> None:
        """Write what a contribution to the logarithm multiplies the prediction with."""
        if multiplies(self._forest):
            self._compute(self._formula, f"F{place}", f"EXP(E{place})")

    def _write_curve(self, tree: int, place: int, curves: CurveSheets) -> tuple[int, str]:
        """Write where the row is in the table of a curve or surface, and what is there."""
        steps, looked_up = curves.write(tree)
        cells = []
        for title, formula in steps:
            put(self._formula, f"A{place}", title, True)
            self._compute(self._formula, f"B{place}", formula)
            cells.append(f"$B${place}")
            place += 1
        put(self._formula, f"A{place}", ADDS, True)
        self._compute(self._formula, f"B{place}", looked_up(*cells))
        return place + 1, f"B{place}"

    def _write_term(self, place: int, term: tuple[int, int], coefficient: str, mean: str) -> None:
        """Write what a term adds: its coefficient times the distance from the leaf's mean, nothing if it is missing."""
        sheet, writer, (feature, category) = self._formula, self._writer, term
        put(sheet, f"A{place}", self._term_name(term))
        self._compute(sheet, f"C{place}", coefficient)
        self._compute(sheet, f"D{place}", mean)
        if category in OF_NUMBERS:
            x = writer.language.value(feature)
            x = writer.language.logarithm(x) if category == LOGARITHM else x
            lacks = writer.lacks(feature, category)
            self._compute(sheet, f"B{place}", f'IF({lacks},"missing",{x})')
            self._compute(sheet, f"E{place}", f"IF({lacks},0,C{place}*(B{place}-D{place}))")
            return
        test = writer.is_missing(feature) if category == MISSING else writer.has(feature, category)
        self._compute(sheet, f"B{place}", f"IF({test},1,0)")
        self._compute(sheet, f"E{place}", f"C{place}*(B{place}-D{place})")


def _terms_of(forest: TreeEnsemble, trees: list[int]) -> list[tuple[int, int]]:
    """List features and categories of all terms, in their order."""
    if not forest.has_linear_leaves:
        return []
    found: dict[tuple[int, int], None] = {}
    for tree in trees:
        at = slice(*forest.linear_offsets[forest.leaf_offsets[tree : tree + 2]].tolist())
        pairs = zip(forest.linear_feature[at].tolist(), forest.linear_category[at].tolist(), strict=True)
        found |= dict.fromkeys(pairs)
    return sorted(found)
