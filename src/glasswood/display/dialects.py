"""Dialects of SQL: how each database writes numbers, texts and names, and what it calls missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from glasswood.base.escapes import quoted, sql_bracketed, sql_escaped, sql_literal, sql_name
from glasswood.display.languages import EXPONENTS, Language

POSTGRESQL_BYTES = 63
"""Bytes of a name; PostgreSQL drops the others."""

WORD_BITS = 62
"""Categories of a word: bits that all databases have in a signed integer of 64 bits."""


@dataclass(frozen=True)
class Sql(Language):
    """What the dialects of SQL have in common; NULL is a missing value.

    Attributes
    ----------
    words : dict of int to list of str
        In queries, the columns that hold a feature's category as a single bit: bit 0 of the first stands for missing
        values and unknown categories, bit k + 1 for category k.
    """

    words: Mapping[int, Sequence[str]] = field(default_factory=dict)

    row_numbers: ClassVar[frozenset[str]] = frozenset()
    quote: ClassVar[str] = '"'
    once: ClassVar[str] = "AS"
    """How a table of a query is introduced so that its columns are computed once."""

    is_flat: ClassVar[bool] = False
    """Whether choices may not be nested."""

    clips_exponents: ClassVar[bool] = False
    """Whether an overflow of EXP ends a query."""

    @classmethod
    def column(cls, name: str) -> str:
        """Write the name of a column."""
        if name.lower() in cls.row_numbers:
            raise ValueError(f"{quoted(name)} is the row number if a table has no such column; rename the feature")
        return cls.name(name)

    @classmethod
    def name(cls, name: str) -> str:
        """Write the name of a column or a table."""
        return sql_name(name, cls.quote)

    @staticmethod
    def identity(name: str) -> bytes:
        """Tell columns apart as the database does: letters of ASCII have no case."""
        return name.encode(errors="surrogatepass").lower()

    def is_missing(self, feature: int) -> str:  # noqa: D102
        return f"{self.value(feature)} IS NULL"

    def literal(self, category: Any) -> str:  # noqa: D102
        if isinstance(category, str):
            return self.text(category)
        return str(category).upper() if isinstance(category, bool) else repr(category)

    def text(self, category: str) -> str:
        """Write a text, as `compared` makes comparisons exact."""
        return sql_literal(category)

    def compared(self, feature: int, categories: Sequence[Any]) -> str:  # noqa: ARG002
        """Write a row's category so that only the same text is equal."""
        return self.value(feature)

    def is_in(self, feature: int, categories: Sequence[Any]) -> str:  # noqa: D102
        listed = ", ".join(self.literal(one) for one in categories)
        return f"{self.compared(feature, categories)} IN ({listed})" if categories else "1 = 0"

    def equals(self, feature: int, category: Any) -> str:  # noqa: D102
        return f"{self.compared(feature, [category])} = {self.literal(category)}"

    def word(self, feature: int, categories: Sequence[Any], number: int) -> str:
        """Write the bits of a feature's category that a word holds, of a table of all categories."""
        first = number * WORD_BITS - 1
        cases = [
            f"WHEN {self.literal(one)} THEN {1 << (code - first) if 0 <= code - first < WORD_BITS else 0}"
            for code, one in enumerate(categories)
            if number == 0 or 0 <= code - first < WORD_BITS
        ]
        if not cases:
            return str(int(number == 0))
        return f"CASE {self.compared(feature, categories)} {' '.join(cases)} ELSE {int(number == 0)} END"

    def in_words(self, feature: int, codes: Iterable[int], takes_missing: bool) -> str:
        """Whether a row has one of these categories, or lacks the value, by the bits of its words."""
        masks: dict[int, int] = {0: 1} if takes_missing else {}
        for code in codes:
            number, bit = divmod(code + 1, WORD_BITS)
            masks[number] = masks.get(number, 0) | 1 << bit
        tests = [f"{self.common_bits(self.words[feature][number], mask)} <> 0" for number, mask in masks.items()]
        return tests[0] if len(tests) == 1 else self.any(tests)

    def common_bits(self, word: str, mask: int) -> str:
        """Write the bits that two words share."""
        return f"({word} & {mask})"

    def any(self, tests: Sequence[str]) -> str:  # noqa: D102
        return f"({' OR '.join(tests)})" if tests else "1 = 0"

    def negated(self, test: str) -> str:  # noqa: D102
        return f"NOT ({test})"

    def choose(self, test: str, yes: str, no: str) -> str:  # noqa: D102
        return f"CASE WHEN {test} THEN {yes} ELSE {no} END"

    def clipped(self, value: str, low: float, high: float) -> str:  # noqa: D102
        # NaN is the greatest number: LEAST would lose it.
        return f"GREATEST(-GREATEST(-({value}), {self.number(-high)}), {self.number(low)})"

    def link(self, name: str, value: str) -> str:  # noqa: D102
        sign, one = "-" if name == "logistic" else "", self.number(1.0)
        power = f"{sign}({value})" if sign else value
        power = f"EXP({self.clipped(f'{sign}({value})', *EXPONENTS) if self.clips_exponents else power})"
        return f"{one} / ({one} + {power})" if sign else power

    def logarithm(self, value: str) -> str:  # noqa: D102
        return f"LN({value})"


class DuckDb(Sql):
    """DuckDB, whose decimal points make decimals."""

    row_numbers = frozenset({"rowid"})
    once = "AS MATERIALIZED"

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
    """PostgreSQL, whose decimal points make numerics, and whose overflows end a query."""

    once = "AS MATERIALIZED"
    clips_exponents = True

    @staticmethod
    def identity(name: str) -> bytes:  # noqa: D102
        kept = name.encode(errors="surrogatepass")[:POSTGRESQL_BYTES]
        return kept.decode(errors="ignore").encode()

    def text(self, category: str) -> str:  # noqa: D102
        return sql_literal(category, escapes="E")

    def number(self, x: float) -> str:  # noqa: D102
        return f"'{x}'::float8" if math.isinf(x) else f"'{float(x)!r}'::float8"

    def is_missing(self, feature: int) -> str:  # noqa: D102
        if feature in self.named:
            return super().is_missing(feature)
        return f"({self.value(feature)} IS NULL OR {self.value(feature)} = 'NaN'::float8)"


NEARLY_HALF = Fraction(49, 100)
"""Part of the distance of neighbouring doubles."""


class Sqlite(Sql):
    """SQLite, which has no NaN, and reads names in double quotes as text if there is no such column."""

    row_numbers = frozenset({"rowid", "oid", "_rowid_"})
    quote = "`"
    once = "AS MATERIALIZED"

    def number(self, x: float) -> str:  # noqa: D102
        if math.isinf(x):
            return "9e999" if x > 0 else "-9e999"
        # It rounds twice: the fewest digits, where they are nearly halfway to the next number, may become that one.
        text, far = repr(float(x)), Fraction(math.ulp(x)) * NEARLY_HALF
        return text if abs(Fraction(text) - Fraction(x)) < far else f"{x:.17e}"

    def clipped(self, value: str, low: float, high: float) -> str:  # noqa: D102
        return f"MIN(MAX({value}, {self.number(low)}), {self.number(high)})"


class Snowflake(Sql):
    """Snowflake, which tells names apart by case, and where a backslash escapes."""

    clips_exponents = True

    @staticmethod
    def identity(name: str) -> bytes:  # noqa: D102
        return name.encode(errors="surrogatepass")

    def text(self, category: str) -> str:  # noqa: D102
        return sql_escaped(category)

    def number(self, x: float) -> str:  # noqa: D102
        return f"CAST('{float(x)!r}' AS DOUBLE)"

    def is_missing(self, feature: int) -> str:  # noqa: D102
        if feature in self.named:
            return super().is_missing(feature)
        return f"({self.value(feature)} IS NULL OR {self.value(feature)} = CAST('nan' AS DOUBLE))"

    def common_bits(self, word: str, mask: int) -> str:  # noqa: D102
        return f"BITAND({word}, {mask})"


class BigQuery(Sql):
    """BigQuery, where a backslash escapes, in names too."""

    clips_exponents = True

    @classmethod
    def name(cls, name: str) -> str:  # noqa: D102
        return sql_escaped(name or sql_name(name), "`")

    def text(self, category: str) -> str:  # noqa: D102
        return sql_escaped(category)

    def number(self, x: float) -> str:  # noqa: D102
        text = repr(float(x))
        return f"CAST('{text}' AS FLOAT64)" if math.isinf(x) else text if "e" in text else f"{text}e0"

    def is_missing(self, feature: int) -> str:  # noqa: D102
        if feature in self.named:
            return super().is_missing(feature)
        return f"({self.value(feature)} IS NULL OR IS_NAN({self.value(feature)}))"


class Spark(Sql):
    """Spark SQL and Databricks, where a backslash escapes."""

    quote = "`"

    def text(self, category: str) -> str:  # noqa: D102
        return sql_escaped(category)

    def number(self, x: float) -> str:  # noqa: D102
        return f"CAST('{float(x)!r}' AS DOUBLE)" if math.isinf(x) else f"{float(x)!r}D"

    def is_missing(self, feature: int) -> str:  # noqa: D102
        if feature in self.named:
            return super().is_missing(feature)
        return f"({self.value(feature)} IS NULL OR ISNAN({self.value(feature)}))"


class MySql(Sql):
    """MySQL and MariaDB, whose texts are equal regardless of case and of spaces behind them unless they are bytes."""

    quote = "`"
    clips_exponents = True

    def text(self, category: str) -> str:  # noqa: D102
        if "\\" in category:  # which escapes, or not, by a setting of the server
            return f"X'{category.encode().hex()}'"
        return f"CAST(_utf8mb4{sql_literal(category)} AS BINARY)"

    def compared(self, feature: int, categories: Sequence[Any]) -> str:  # noqa: D102
        has_text = any(isinstance(one, str) for one in categories)
        return f"CAST(CONVERT({self.value(feature)} USING utf8mb4) AS BINARY)" if has_text else self.value(feature)

    def number(self, x: float) -> str:  # noqa: D102
        return _finite(x)

    def clipped(self, value: str, low: float, high: float) -> str:  # noqa: D102
        value = f"LEAST({value}, {self.number(high)})" if math.isfinite(high) else value
        return f"GREATEST({value}, {self.number(low)})" if math.isfinite(low) else value


class SqlServer(Sql):
    """SQL Server, whose choices nest to ten levels, and whose texts are compared as those of MySQL."""

    is_flat = True
    clips_exponents = True

    @classmethod
    def name(cls, name: str) -> str:  # noqa: D102
        return sql_bracketed(name)

    def literal(self, category: Any) -> str:  # noqa: D102
        return str(int(category)) if isinstance(category, bool) else super().literal(category)

    def text(self, category: str) -> str:  # noqa: D102
        return f"CAST(N{sql_literal(category)} AS VARBINARY(MAX))"

    def compared(self, feature: int, categories: Sequence[Any]) -> str:  # noqa: D102
        has_text = any(isinstance(one, str) for one in categories)
        as_bytes = f"CAST(CAST({self.value(feature)} AS NVARCHAR(MAX)) AS VARBINARY(MAX))"
        return as_bytes if has_text else self.value(feature)

    def number(self, x: float) -> str:  # noqa: D102
        return _finite(x)

    def common_bits(self, word: str, mask: int) -> str:  # noqa: D102
        return f"({word} & CAST({mask} AS BIGINT))"

    def clipped(self, value: str, low: float, high: float) -> str:  # noqa: D102
        ends = [(f"{value} < {self.number(low)}", low), (f"{value} > {self.number(high)}", high)]
        cases = [f"WHEN {test} THEN {self.number(end)}" for test, end in ends if math.isfinite(end)]
        return f"CASE {' '.join(cases)} ELSE {value} END" if cases else value

    def logarithm(self, value: str) -> str:  # noqa: D102
        return f"LOG({value})"


def _finite(x: float) -> str:
    """Write a number as a double, where decimal points make decimals, and nothing is infinite."""
    if not math.isfinite(x):
        raise NotImplementedError(f"the model compares with {x}, which this database does not have; use another one")
    text = repr(float(x))
    return text.replace("e", "E") if "e" in text else f"{text}E0"


DIALECTS: dict[str, type[Sql]] = {
    "duckdb": DuckDb,
    "postgresql": PostgreSql,
    "sqlite": Sqlite,
    "snowflake": Snowflake,
    "bigquery": BigQuery,
    "sqlserver": SqlServer,
    "mysql": MySql,
    "spark": Spark,
}
