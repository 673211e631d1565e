"""Forests as code of other languages, equal to `Forest.predict` as far as the language allows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.display.languages import C_SOURCE, C_WORDS, DIALECTS, PYTHON_SOURCE, PYTHON_WORDS, Excel, Language, Python
from silva.ensemble import MISSING, NUMBER
from silva.escapes import comment, python_literal
from silva.facts import feature_names
from silva.loading import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from silva.forest import Forest
    from silva.typing import SqlDialect

DEEPEST = 60
"""Levels of a tree that become nested expressions; parsers stop somewhere above."""

MOST_LETTERS = 8192
"""Of a formula in a spreadsheet."""

SQL_LEVELS = {"duckdb": 1000, "sqlite": 1000}
"""Levels of an expression that a database takes unless told otherwise; each tree of a sum is one."""

OTHER_LEVELS = 16
"""Levels of tests, weights, clips and links, at most."""

LINKS = ("identity", "logistic", "exp")


def export_sql(model: object, dialect: SqlDialect = "duckdb", output: int = 0) -> str:
    """Write a model as one SQL expression over the columns that are its features.

    Parameters
    ----------
    model : ModelTreeRegressor, Forest, or anything `silva.load` reads
        Of scalar leaves, constant or linear; categories are those of the training frame.
    dialect : {"duckdb", "postgresql", "sqlite"}
    output : int
        Which output of several; margins then, otherwise responses.

    Returns
    -------
    str
        An expression of doubles: ``SELECT <expression> FROM table``. Equal to `Forest.predict` to the last bit, but for
        the database's own EXP. NULL and NaN are missing. PostgreSQL may need a larger ``max_stack_depth`` from some
        thousand trees on, SQLite a larger parser stack for trees of more than 20 levels.

    Raises
    ------
    ValueError
        If the dialect or the output is unknown.
    NotImplementedError
        If the forest has no such expression: leaves of vectors, very deep trees, other links, features that are
        computed first, or more trees than the levels of the database's expressions (1,000 in DuckDB and SQLite).
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect is {dialect!r}, expected one of {', '.join(DIALECTS)}")
    forest = load(model)
    if dialect == "sqlite" and forest.threshold.dtype == np.float32:
        raise NotImplementedError("SQLite has no float32, in which this forest compares; use another dialect")
    columns = ['"' + name.replace('"', '""') + '"' for name in feature_names(forest)]
    named = frozenset(i for i, table in enumerate(forest.categories or ()) if table is not None)
    language = DIALECTS[dialect](columns, forest.threshold.dtype == np.float32, named)
    writer = _Writer(forest, language, output)
    _refuse_levels(forest, dialect, output)
    return writer.expression()


def export_python(model: object, name: str = "predict", output: int = 0) -> str:
    """Write a model as the source of a Python function of a row, which needs the standard library alone.

    Parameters
    ----------
    model, output
        As for `export_sql`.
    name : str
        Of the function. It takes a mapping of column names to values; None and NaN are missing.

    Returns
    -------
    str
        Equal to `Forest.predict` to the last bit, but for `math.exp`.

    Raises
    ------
    ValueError, NotImplementedError
        As for `export_sql`, and if the name is none.
    """
    forest = load(model)
    _check_name(name, PYTHON_WORDS)
    columns = [f"row[{python_literal(one)}]" for one in feature_names(forest)]
    writer = _Writer(forest, Python(columns, forest.threshold.dtype == np.float32), output)
    return PYTHON_SOURCE.format(name=name, what=_what(forest), statements=writer.statements("    "))


def export_c(model: object, name: str = "predict", output: int = 0) -> str:
    """Write a model as the source of a C function of a row.

    Parameters
    ----------
    model, output
        As for `export_sql`.
    name : str
        Of the function ``double name(const double *x)``; x holds the features in their order, categories as their
        positions in `Forest.categories`, NAN where one is missing.

    Returns
    -------
    str
        Equal to `Forest.predict` to the last bit where the compiler fuses no products with sums, but for exp.

    Raises
    ------
    ValueError, NotImplementedError
        As for `export_sql`, and if the name is none.
    """
    forest = load(model)
    _check_name(name, C_WORDS)
    columns = [f"x[{feature}]" for feature in range(forest.n_features)]
    writer = _Writer(forest, Language(columns, forest.threshold.dtype == np.float32), output, has_codes=True)
    listed = "\n".join(f'   x[{feature}]: "{comment(one)}"' for feature, one in enumerate(feature_names(forest)))
    return C_SOURCE.format(
        name=name, what=_what(forest), columns=listed, statements=writer.statements("  double ", ";")
    )


def export_excel(model: object, cells: Sequence[str] | None = None, output: int = 0) -> str:
    """Write a small model as a formula of a spreadsheet.

    Parameters
    ----------
    model, output
        As for `export_sql`.
    cells : sequence of str, optional
        Cell of each feature, in their order; default A2, B2, ... An empty cell is missing.

    Returns
    -------
    str
        Begins with "="; functions in English, separated by commas. Spreadsheets keep 15 digits of a number.

    Raises
    ------
    ValueError, NotImplementedError
        As for `export_sql`, and if there are more or fewer cells than features, or the formula is longer than a cell
        takes.
    """
    forest = load(model)
    if forest.threshold.dtype == np.float32:
        raise NotImplementedError("spreadsheets have no float32, in which this forest compares")
    chosen = [f"{_letters(i)}2" for i in range(forest.n_features)] if cells is None else list(cells)
    if len(chosen) != forest.n_features:
        raise ValueError(f"cells has {len(chosen)} entries, expected {forest.n_features}: one a feature")
    formula = "=" + _Writer(forest, Excel(chosen), output).expression()
    if len(formula) > MOST_LETTERS:
        raise NotImplementedError(
            f"the formula has {len(formula)} letters, a cell takes {MOST_LETTERS}; use export_sql"
        )
    return formula


def _plain(category: Any) -> str | bool | int | float:
    """Refuse categories that are not text or a number: how such a thing describes itself is not code."""
    value = category.item() if isinstance(category, np.generic) else category
    if isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise NotImplementedError(
        f"the category {value!r} has no literal in code, expected text, booleans or finite numbers"
    )


def _what(forest: Forest) -> str:
    return (
        f"{forest.n_trees} tree{'s' * (forest.n_trees > 1)} of {comment(forest.source or 'silva')}, written by silva."
    )


def _check_name(name: str, taken: frozenset[str]) -> None:
    if not name.isidentifier() or not name.isascii() or name in taken:
        why = " which the language has a meaning for already," if name in taken else ""
        raise ValueError(f"name is {name!r},{why} expected the name of a function, as 'predict'")


def _letters(column: int) -> str:
    """Name a column of a spreadsheet: A, ..., Z, AA, ..."""
    text = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


class _Writer:
    """A forest in one language."""

    def __init__(self, forest: Forest, language: Language, output: int, has_codes: bool = False) -> None:
        _refuse(forest, output)
        self._forest, self._language, self._output, self._has_codes = forest, language, output, has_codes

    def expression(self) -> str:
        """Add the trees to the base score in their order; through the link if there is one output."""
        return self._response(" + ".join(self._summands()))

    def statements(self, begin: str, end: str = "") -> str:
        """As `expression`, with a statement for each tree: parsers nest sums, and stop somewhere."""
        base, *trees = self._summands()
        indent = " " * (len(begin) - len(begin.lstrip()))
        lines = [f"{begin}total = {base}", *(f"{indent}total += {tree}" for tree in trees)]
        return "\n".join(f"{line}{end}" for line in [*lines, f"{indent}return {self._response('total')}"])

    def _summands(self) -> Iterator[str]:
        forest = self._forest
        yield self._language.number(forest.base_score[self._output])
        for tree in np.flatnonzero(forest.tree_output == self._output).tolist():
            weight = "" if forest.tree_weight[tree] == 1 else f"{self._language.number(forest.tree_weight[tree])} * "
            root = int(forest.tree_offsets[tree])
            yield f"{weight}{self._node(root, root)}"

    def _response(self, text: str) -> str:
        forest = self._forest
        if forest.n_outputs > 1 or forest.link == "identity":
            return text
        if forest.link_scale != 1:
            text = f"{self._language.number(forest.link_scale)} * ({text})"
        return self._language.link(forest.link, text)

    def _node(self, root: int, node: int) -> str:
        forest = self._forest
        if forest.feature[node] < 0:
            return self._leaf(int((forest.feature[:node] < 0).sum()))
        left = root + int(forest.left[node])
        return self._language.choose(self._test(node), self._node(root, left), self._node(root, left + 1))

    def _test(self, node: int) -> str:
        """Whether a row goes left."""
        forest, feature = self._forest, int(self._forest.feature[node])
        missing = self._is_missing(feature)
        if forest.is_categorical and forest.category_set[node] >= 0:
            return self._set_test(node, feature, missing)
        threshold = _effective(forest, float(forest.threshold[node]))
        is_left = f"{self._language.compared(feature)} < {self._language.number(threshold)}"
        if math.isinf(threshold) and threshold > 0:  # every number goes left
            return self._language.negated(missing) if not forest.default_left[node] else self._always()
        if forest.default_left[node]:
            return self._language.any([missing, is_left])
        return self._present(feature, is_left)

    def _present(self, feature: int, test: str) -> str:
        """Write a test that no missing value passes; some languages cannot compare None or empty cells."""
        language = self._language
        if isinstance(language, Python):
            return f"(not {self._is_missing(feature)} and {test})"
        if isinstance(language, Excel):
            return f"AND(NOT({self._is_missing(feature)}),{test})"
        marked = not math.isnan(self._forest.missing)
        return language.negated(language.any([self._is_missing(feature), language.negated(test)])) if marked else test

    def _always(self) -> str:
        return self._language.negated(self._language.any([]))

    def _is_missing(self, feature: int) -> str:
        """Whether a row lacks a value; a category that training did not see counts as missing."""
        language, tests = self._language, [self._language.is_missing(feature)]
        if not math.isnan(self._forest.missing):
            tests.append(language.equals(feature, self._forest.missing))
        table = self._table(feature)
        if table is not None:
            tests.append(language.negated(language.is_in(feature, table)))
        return language.any(tests) if len(tests) > 1 else tests[0]

    def _table(self, feature: int) -> list[Any] | None:
        """Values of a feature's categories, as rows of the language have them."""
        forest = self._forest
        table = forest.categories[feature] if forest.categories else None
        if table is None:
            return None
        return list(range(len(table))) if self._has_codes else [_plain(one) for one in table.tolist()]

    def _set_test(self, node: int, feature: int, missing: str) -> str:
        forest, language = self._forest, self._language
        which, table = int(forest.category_set[node]), self._table(feature)
        words = forest.set_words[forest.set_offsets[which] : forest.set_offsets[which + 1]]
        bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").astype(bool).tolist()
        others = bool(forest.set_others_left[which])
        codes = range(len(table) if table is not None else len(bits))
        lefts = [bits[code] if code < len(bits) else others for code in codes]
        named = [code if table is None else table[code] for code in codes]
        if table is not None or not others:
            is_left = language.is_in(feature, [one for one, left in zip(named, lefts, strict=True) if left])
            return language.any([missing, is_left]) if forest.default_left[node] else is_left
        is_right = language.is_in(feature, [one for one, left in zip(named, lefts, strict=True) if not left])
        if forest.default_left[node]:
            return language.any([missing, language.negated(is_right)])
        return language.negated(language.any([missing, is_right]))

    def _leaf(self, leaf: int) -> str:
        forest, language = self._forest, self._language
        value = language.number(float(forest.leaf_value[leaf, 0]))
        terms = range(*forest.linear_offsets[leaf : leaf + 2].tolist()) if forest.has_linear_leaves else ()
        if not len(terms):
            if not forest.has_linear_leaves:
                return value
            return language.number(float(np.clip(forest.leaf_value[leaf, 0], *forest.leaf_range[leaf])))
        text = f"({value} + ({' + '.join(self._term(term) for term in terms)}))"
        low, high = forest.leaf_range[leaf].tolist()
        if math.isfinite(low) or math.isfinite(high):
            text = language.clipped(text, low, high)
        if not len(forest.leaf_missing):
            return text
        numbers = {int(forest.linear_feature[term]) for term in terms if forest.linear_category[term] == NUMBER}
        lacks = language.any([self._is_missing(feature) for feature in sorted(numbers)])
        return language.choose(lacks, language.number(float(forest.leaf_missing[leaf])), text)

    def _term(self, term: int) -> str:
        forest, language = self._forest, self._language
        feature, category = int(forest.linear_feature[term]), int(forest.linear_category[term])
        coefficient = language.number(float(forest.linear_coefficient[term]))
        mean, zero, one = (language.number(float(x)) for x in (forest.linear_mean[term], 0, 1))
        if category == NUMBER:
            deviation = language.choose(self._is_missing(feature), zero, f"{language.value(feature)} - {mean}")
        else:
            table = self._table(feature)
            named = category if table is None or category == MISSING else table[category]
            test = self._is_missing(feature) if category == MISSING else self._has(feature, named)
            deviation = f"({language.choose(test, one, zero)} - {mean})"
        return f"{coefficient} * {deviation}"

    def _has(self, feature: int, category: Any) -> str:
        return self._language.equals(feature, category)


def _effective(forest: Forest, threshold: float) -> float:
    """Threshold for rows whose tiny numbers have not become 0 (LightGBM)."""
    if forest.zero_threshold == 0:
        return threshold
    if threshold > 0:
        return max(threshold, float(np.nextafter(forest.zero_threshold, np.inf)))
    return min(threshold, -forest.zero_threshold)


def _refuse(forest: Forest, output: int) -> None:
    """Refuse what no expression says."""
    if not 0 <= output < forest.n_outputs:
        raise ValueError(f"output is {output}, the forest has {forest.n_outputs}: expected 0 to {forest.n_outputs - 1}")
    what = ""
    if forest.transform is not None:
        what = "features that are computed from others"
    elif forest.leaf_width > 1:
        what = "leaves of several values"
    elif any(table is not None and table.dtype.kind in "mM" for table in forest.categories or ()):
        what = "categories that are times"
    elif forest.category_hash:
        what = "categories known by their hashes alone"
    elif len(forest.zero_missing):
        what = "zeros that are missing"
    elif forest.depth > DEEPEST:
        what = f"trees of {forest.depth} levels (at most {DEEPEST})"
    elif forest.n_outputs == 1 and forest.link not in LINKS:
        what = f"the link {forest.link!r}"
    if what:
        raise NotImplementedError(f"forests with {what} are not written as code; predict with silva")


def _refuse_levels(forest: Forest, dialect: SqlDialect, output: int) -> None:
    """Refuse sums that the database would not: trees, added from the left, and what is inside one of them."""
    n_trees = int((forest.tree_output == output).sum())
    n_terms = int(np.diff(forest.linear_offsets).max(initial=0)) if forest.has_linear_leaves else 0
    most = SQL_LEVELS.get(dialect)
    levels = n_trees + forest.depth + 2 * n_terms + OTHER_LEVELS
    if most is not None and levels > most:
        raise NotImplementedError(
            f"{n_trees} trees of {forest.depth} levels are an expression of about {levels} levels, {dialect} takes "
            f"{most}; use export_python, export_c or Forest.predict"
        )
