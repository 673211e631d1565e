"""How languages write what a tree is made of: tests, sums and choices, all as expressions."""

from __future__ import annotations

import keyword
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from silva.escapes import python_literal

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Language:
    """C, and what other languages write as C does.

    Attributes
    ----------
    columns : sequence of str
        How each feature's value is written.
    single : bool
        Whether numbers are compared in float32.
    named : frozenset of int
        Features whose values are categories, never NaN.
    """

    columns: Sequence[str]
    single: bool = False
    named: frozenset[int] = frozenset()

    def number(self, x: float) -> str:
        """Write a number that reads back as the same double."""
        if math.isinf(x):
            return "INFINITY" if x > 0 else "-INFINITY"
        return repr(float(x))

    def value(self, feature: int) -> str:
        """Write a row's value."""
        return self.columns[feature]

    def compared(self, feature: int) -> str:
        """Write a row's value in the type in which it is compared."""
        return f"(double)(float){self.value(feature)}" if self.single else self.value(feature)

    def is_missing(self, feature: int) -> str:
        """Whether a row lacks the value."""
        return f"{self.value(feature)} != {self.value(feature)}"

    def equals(self, feature: int, category: Any) -> str:
        """Whether a row has the category."""
        return f"{self.value(feature)} == {self.literal(category)}"

    def literal(self, category: Any) -> str:
        """Write a category."""
        return self.number(category)

    def is_in(self, feature: int, categories: Sequence[Any]) -> str:
        """Whether a row's category is one of these."""
        return self.any([self.equals(feature, one) for one in categories])

    def any(self, tests: Sequence[str]) -> str:
        """Whether one of the tests holds."""
        return f"({' || '.join(tests)})" if tests else "0"

    def negated(self, test: str) -> str:
        """Whether a test does not hold."""
        return f"!({test})"

    def choose(self, test: str, yes: str, no: str) -> str:
        """Choose between two values."""
        return f"({test} ? {yes} : {no})"

    def clipped(self, value: str, low: float, high: float) -> str:
        """Confine a value to a range."""
        return f"clip({value}, {self.number(low)}, {self.number(high)})"

    def link(self, name: str, value: str) -> str:
        """Turn a margin into the response."""
        return {"logistic": f"1.0 / (1.0 + exp(-({value})))", "exp": f"exp({value})"}[name]


class Python(Language):
    """Python; a row is a mapping, None and NaN are missing."""

    def number(self, x: float) -> str:  # noqa: D102
        return f"float('{x}')" if math.isinf(x) else repr(float(x))

    def compared(self, feature: int) -> str:  # noqa: D102
        return f"_single({self.value(feature)})" if self.single else self.value(feature)

    def is_missing(self, feature: int) -> str:  # noqa: D102
        return f"({self.value(feature)} is None or {self.value(feature)} != {self.value(feature)})"

    def literal(self, category: Any) -> str:  # noqa: D102
        return python_literal(category) if isinstance(category, str) else repr(category)

    def is_in(self, feature: int, categories: Sequence[Any]) -> str:  # noqa: D102
        return f"{self.value(feature)} in ({''.join(f'{self.literal(one)}, ' for one in categories)})"

    def any(self, tests: Sequence[str]) -> str:  # noqa: D102
        return f"({' or '.join(tests)})" if tests else "False"

    def negated(self, test: str) -> str:  # noqa: D102
        return f"not ({test})"

    def choose(self, test: str, yes: str, no: str) -> str:  # noqa: D102
        return f"({yes} if {test} else {no})"

    def clipped(self, value: str, low: float, high: float) -> str:  # noqa: D102
        return f"_clip({value}, {self.number(low)}, {self.number(high)})"


class Sql(Language):
    """What the dialects of SQL share; NULL is missing."""

    def compared(self, feature: int) -> str:  # noqa: D102
        return f"CAST({self.value(feature)} AS REAL)" if self.single else self.value(feature)

    def is_missing(self, feature: int) -> str:  # noqa: D102
        return f"{self.value(feature)} IS NULL"

    def literal(self, category: Any) -> str:  # noqa: D102
        if isinstance(category, str):
            return "'" + category.replace("'", "''") + "'"
        return str(category).upper() if isinstance(category, bool) else repr(category)

    def is_in(self, feature: int, categories: Sequence[Any]) -> str:  # noqa: D102
        listed = ", ".join(self.literal(one) for one in categories)
        return f"{self.value(feature)} IN ({listed})" if categories else "1 = 0"

    def equals(self, feature: int, category: Any) -> str:  # noqa: D102
        return f"{self.value(feature)} = {self.literal(category)}"

    def any(self, tests: Sequence[str]) -> str:  # noqa: D102
        return f"({' OR '.join(tests)})" if tests else "1 = 0"

    def negated(self, test: str) -> str:  # noqa: D102
        return f"NOT ({test})"

    def choose(self, test: str, yes: str, no: str) -> str:  # noqa: D102
        return f"CASE WHEN {test} THEN {yes} ELSE {no} END"

    def clipped(self, value: str, low: float, high: float) -> str:  # noqa: D102
        low_end, high_end = self.number(low), self.number(high)
        return f"LEAST(GREATEST({value}, {low_end}), {high_end})"

    def link(self, name: str, value: str) -> str:  # noqa: D102
        one = self.number(1.0)
        return {"logistic": f"{one} / ({one} + EXP(-({value})))", "exp": f"EXP({value})"}[name]


class DuckDb(Sql):
    """DuckDB, whose decimal points make decimals."""

    def number(self, x: float) -> str:  # noqa: D102
        if math.isinf(x):
            return f"'{x}'::DOUBLE"
        text = repr(float(x))
        return text if "e" in text else f"{text}e0"

    def is_missing(self, feature: int) -> str:  # noqa: D102
        if feature in self.named:
            return super().is_missing(feature)
        return f"({self.value(feature)} IS NULL OR {self.value(feature)} = 'NaN'::DOUBLE)"


class PostgreSql(Sql):
    """PostgreSQL, whose decimal points make numerics."""

    def number(self, x: float) -> str:  # noqa: D102
        return f"'{x}'::float8" if math.isinf(x) else f"'{float(x)!r}'::float8"

    def is_missing(self, feature: int) -> str:  # noqa: D102
        if feature in self.named:
            return super().is_missing(feature)
        return f"({self.value(feature)} IS NULL OR {self.value(feature)} = 'NaN'::float8)"


class Sqlite(Sql):
    """SQLite, which has no NaN."""

    def number(self, x: float) -> str:  # noqa: D102
        return ("9e999" if x > 0 else "-9e999") if math.isinf(x) else repr(float(x))

    def clipped(self, value: str, low: float, high: float) -> str:  # noqa: D102
        return f"MIN(MAX({value}, {self.number(low)}), {self.number(high)})"


class Excel(Language):
    """Formulas of spreadsheets; empty cells are missing."""

    def number(self, x: float) -> str:  # noqa: D102
        return ("9.99E+307" if x > 0 else "-9.99E+307") if math.isinf(x) else repr(float(x)).upper()

    def is_missing(self, feature: int) -> str:  # noqa: D102
        return f"ISBLANK({self.value(feature)})"

    def literal(self, category: Any) -> str:  # noqa: D102
        return '"' + category.replace('"', '""') + '"' if isinstance(category, str) else str(category).upper()

    def equals(self, feature: int, category: Any) -> str:  # noqa: D102
        if isinstance(category, str):  # = does not tell upper from lower case
            return f"EXACT({self.value(feature)},{self.literal(category)})"
        return f"{self.value(feature)}={self.literal(category)}"

    def any(self, tests: Sequence[str]) -> str:  # noqa: D102
        return f"OR({','.join(tests)})" if tests else "FALSE"

    def negated(self, test: str) -> str:  # noqa: D102
        return f"NOT({test})"

    def choose(self, test: str, yes: str, no: str) -> str:  # noqa: D102
        return f"IF({test},{yes},{no})"

    def clipped(self, value: str, low: float, high: float) -> str:  # noqa: D102
        return f"MIN(MAX({value},{self.number(low)}),{self.number(high)})"

    def link(self, name: str, value: str) -> str:  # noqa: D102
        return {"logistic": f"1/(1+EXP(-({value})))", "exp": f"EXP({value})"}[name]


DIALECTS = {"duckdb": DuckDb, "postgresql": PostgreSql, "sqlite": Sqlite}

C_SOURCE = """\
#include <math.h>

/* {what}
   x has these features, NAN where one is missing; compile without -ffast-math, and with -ffp-contract=off for the last
   bit.
{columns}
*/
static double clip(double value, double low, double high) {{
  return value < low ? low : value > high ? high : value;
}}

double {name}(const double *x) {{
  (void)clip;
{statements}
}}
"""

PYTHON_SOURCE = '''\
import ctypes
from math import exp


def _clip(value, low, high):
    return low if value < low else high if value > high else value


def _single(value):
    return ctypes.c_float(value).value


def {name}(row):
    """{what}

    row maps the names of the columns to values; None and NaN are missing.
    """
{statements}
'''

PYTHON_WORDS = frozenset({*keyword.kwlist, "ctypes", "exp", "float", "_clip", "_single"})
"""Names that no function can have: the language's, and those that the source uses itself."""

C_TEXT = (
    "alignas alignof auto bool break case char const constexpr continue default do double else enum extern false float "
    "for goto if inline int long nullptr register restrict return short signed sizeof static static_assert struct "
    "switch thread_local true typedef typeof typeof_unqual union unsigned void volatile while "
    "clip exp main NAN INFINITY"
)
C_WORDS = frozenset(C_TEXT.split())
