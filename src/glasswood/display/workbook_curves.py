"""Sheets of a workbook that hold curves and surfaces: tables in which formulas look up what a row gets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from glasswood.base.escapes import shown
from glasswood.base.extras import import_extra
from glasswood.model.facts import feature_name
from glasswood.words.curves import Side, table_of

if TYPE_CHECKING:
    from glasswood.display.expressions import Writer
    from glasswood.model.ensemble import TreeEnsemble

INFINITE = 9.99e307
"""What stands for infinity, which cells cannot hold."""

HEADS = ("feature", "from", "below", "category", "adds")
"""Columns of the sheet of curves. Lines of a curve follow one another, that of missing values last."""

BESIDE = 4
"""Columns and lines of a surface before its cells: features, from, below, category."""


def bold() -> Any:
    """Font of headings."""
    return import_extra("openpyxl.styles", "excel", "workbooks need openpyxl").Font(bold=True)


def put(sheet: Any, place: str, value: Any, is_head: bool = False) -> None:
    """Write a cell; a text is never a formula."""
    cell = sheet[place]
    cell.value = shown(value) if isinstance(value, str) else value
    if isinstance(value, str):
        cell.data_type = "s"
    if is_head:
        cell.font = bold()


class CurveSheets:
    """The sheets of curves and surfaces while they are written; a book without curves has none.

    Attributes
    ----------
    n_lines : int
        Lines of the longer sheet.
    """

    def __init__(self, forest: TreeEnsemble, writer: Writer, book: Any) -> None:
        self._forest, self._writer, self._book = forest, writer, book
        self._letter = import_extra("openpyxl.utils", "excel", "workbooks need openpyxl").get_column_letter
        self._next = {"Curves": 2, "Surfaces": 1}
        self.n_lines: int = 0

    def write(self, tree: int) -> tuple[list[tuple[str, str]], Callable[..., str]]:
        """Write a table; return formulas that find a row's place in it, with titles, and what makes one of their cells.

        The last one takes the names of the cells that have the places.
        """
        sides, values = table_of(self._forest, tree)
        if not sides:
            return [], lambda: self._writer.language.number(float(values))
        if len(sides) == 1:
            return self._write_curve(sides[0], values.tolist())
        if len(sides[0]) < len(sides[1]):  # sheets have more lines than columns
            sides, values = sides[::-1], values.T
        return self._write_surface(sides, values.tolist())

    def _begin(self, name: str, n_lines: int) -> tuple[Any, int]:
        """Return a sheet and the first of so many lines."""
        if name not in self._book.sheetnames:
            sheet = self._book.create_sheet(name, self._book.sheetnames.index("Formula"))
            for letter, head in zip("ABCDE", HEADS, strict=True):
                if name == "Curves":
                    put(sheet, f"{letter}1", head, True)
        first = self._next[name]
        self._next[name] = first + n_lines
        self.n_lines = max(self.n_lines, first + n_lines)
        return self._book[name], first

    def _write_curve(self, side: Side, values: list[float]) -> tuple[list[tuple[str, str]], Callable[..., str]]:
        sheet, first = self._begin("Curves", len(side))
        last = first + len(side) - 1
        for at, value in enumerate(values):
            put(sheet, f"A{first + at}", self._name(side))
            for letter, text in zip("BCD", self._value_texts(side, at), strict=True):
                put(sheet, f"{letter}{first + at}", text)
            put(sheet, f"E{first + at}", value)
        own = f"Curves!${'D' if side.n_categories else 'B'}${first}:${'D' if side.n_categories else 'B'}${last - 1}"
        title = f"line of the curve of {self._name(side)}"
        return [(title, self._place(side, own, f"ROW({own})-{first - 1}"))], (
            lambda cell: f"INDEX(Curves!$E${first}:$E${last},{cell})"
        )

    def _write_surface(
        self, sides: list[Side], values: list[list[float]]
    ) -> tuple[list[tuple[str, str]], Callable[..., str]]:
        """Write a block: the second feature's values above the cells, the first one's at their left."""
        down, across = sides
        sheet, top = self._begin("Surfaces", len(down) + BESIDE + 1)
        first, last = top + BESIDE, top + BESIDE + len(down) - 1
        left, right = self._letter(BESIDE + 1), self._letter(BESIDE + len(across))
        final = self._letter(BESIDE + len(across) - 1)
        put(sheet, f"A{top}", f"{self._name(down)} × {self._name(across)}", True)
        put(sheet, f"{left}{top}", self._name(across), True)
        for at in range(len(across)):
            for k, text in enumerate(self._value_texts(across, at), 1):
                put(sheet, f"{self._letter(BESIDE + 1 + at)}{top + k}", text)
        for at, line in enumerate(values):
            put(sheet, f"A{first + at}", self._name(down))
            for letter, text in zip("BCD", self._value_texts(down, at), strict=True):
                put(sheet, f"{letter}{first + at}", text)
            for k, value in enumerate(line):
                put(sheet, f"{self._letter(BESIDE + 1 + k)}{first + at}", value)
        letter, head = ("D" if down.n_categories else "B"), top + (3 if across.n_categories else 1)
        own = f"Surfaces!${letter}${first}:${letter}${last - 1}", f"Surfaces!${left}${head}:${final}${head}"
        steps = [
            (f"line of the surface, by {self._name(down)}", self._place(down, own[0], f"ROW({own[0]})-{first - 1}")),
            (f"column of it, by {self._name(across)}", self._place(across, own[1], f"COLUMN({own[1]})-{BESIDE}")),
        ]
        cells = f"Surfaces!${left}${first}:${right}${last}"
        return steps, lambda line, column: f"INDEX({cells},{line},{column})"

    def _value_texts(self, side: Side, at: int) -> tuple[float | None, float | None, Any]:
        """Where a line or column of a table is: from, below, and category."""
        if at == len(side) - 1:
            return None, None, "missing"
        if side.n_categories:
            table = self._writer.table(side.feature)
            return None, None, at if table is None else table[at]
        low, high = (self._writer.edge(end) if math.isfinite(end) else end for end in side.interval(at))
        return max(low, -INFINITE), min(high, INFINITE), None

    def _place(self, side: Side, own: str, number: str) -> str:
        """Find the place of an input: `own` has its values, `number` counts these from 1."""
        x, empty, n = self._writer.language.value(side.feature), self._writer.is_empty(side.feature), len(side)
        if not side.n_categories:
            return f"IF({empty},{n},MATCH({x},{own},1))"
        table = self._writer.table(side.feature) or []
        has_texts = any(isinstance(one, str) for one in table)
        found = f"EXACT({x},{own})" if has_texts else f"({x}={own})"  # neither MATCH nor = tells upper from lower case
        return f"IF(OR({empty},SUMPRODUCT({found}*1)=0),{n},SUMPRODUCT({found}*({number})))"

    def _name(self, side: Side) -> str:
        return feature_name(self._forest, side.feature)
