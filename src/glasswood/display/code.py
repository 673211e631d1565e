"""Forests as code of other languages, in doubles: numbers are `Forest.predict`'s before they become float32."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from glasswood.base.escapes import comment, python_literal
from glasswood.base.files import check_output, replacing
from glasswood.base.typing import SqlDialect
from glasswood.display.code_comments import columns_of_c, origin, returned
from glasswood.display.dialects import DIALECTS, Sql
from glasswood.display.explainer_code import explainer_source
from glasswood.display.languages import (
    C_SOURCE,
    C_SUFFIX,
    C_WORDS,
    PYTHON_SOURCE,
    PYTHON_WORDS,
    Excel,
    Language,
    Python,
)
from glasswood.display.sql_query import words_of, written_query
from glasswood.display.workbook import MOST_LETTERS, input_cell, workbook
from glasswood.explain import Explainer
from glasswood.inputs.tables import refuse_open_tables, with_sets
from glasswood.loading import load
from glasswood.model.ensemble import LOGARITHM, MISSING, NUMBER, OF_NUMBERS, TreeEnsemble
from glasswood.model.facts import feature_names

DEEPEST = 60
"""Levels of a tree that become nested expressions; parsers stop somewhere above."""

SQL_LEVELS = {"duckdb": 1000, "sqlite": 1000}
"""Most levels of an expression by a database's default settings; each tree of a sum is one."""

OTHER_LEVELS = 16
"""Levels of tests, weights, clips and links, at most."""

BEYOND = 2.0**128
"""What follows the largest float32 when numbers round to one."""

LINKS = ("identity", "logistic", "exp")


def export_sql(
    model: object,
    dialect: SqlDialect = "duckdb",
    output: int = 0,
    columns: Mapping[str, str] | None = None,
    table: str | Sequence[str] | None = None,
    keep: Sequence[str] = (),
) -> str:
    """Write a model as SQL: one expression over the columns that are its features, or a query of a table.

    Parameters
    ----------
    model : ModelTreeRegressor, Forest, or anything `glasswood.load` reads
        The model must have scalar leaves, constant or linear. Categories are those of the training frame.
    dialect : {"duckdb", "postgresql", "sqlite", "snowflake", "bigquery", "sqlserver", "mysql", "spark"}
        "mysql" is MariaDB's, too, "spark" that of Databricks.
    output : int
        Which of several outputs; these are then margins. A single output is a response.
    columns : mapping of str to str, optional
        The table's columns by the model's features; others have the names of the features.
    table : str or sequence of str, optional
        Write a query of this table, instead of an expression. A text is divided at its dots ("schema.customers"), a
        sequence has the parts of the name. Names are quoted, so their case counts where the database has it so.
    keep : sequence of str
        Columns of the table that the query's result has before its column ``prediction``, such as a key. SQL tables
        have no order.

    Returns
    -------
    str
        An expression of doubles: ``SELECT <expression> FROM table``; or, with `table`, a query. The margin has the bits
        of ``predict(X, output="margin")`` in float64 (`Forest.predict` rounds float32 results). The database's EXP and
        LN may differ in the last bit. NULL and NaN are missing. SQLite returns NULL for NaN, and reads one of some
        30,000 numbers of 17 digits as its neighbour (version 3.40); it may need a larger parser stack for trees of more
        than 20 levels. PostgreSQL ends a query if a number overflows, and may need a larger ``max_stack_depth`` from
        some thousand trees on.

    Raises
    ------
    ValueError
        If the dialect or the output is unknown, or if the database cannot tell names or categories apart (``x`` and
        ``X`` in DuckDB and SQLite) or cannot write them.
    NotImplementedError
        For explainers; and if the forest has leaves of vectors, very deep trees, other links, features that are
        computed first, or, without `table`, more trees than the levels of the database's expressions (1,000 in DuckDB
        and SQLite).

    Notes
    -----
    A query looks up each category once a row and keeps it as a bit, and has a column for each tree. Databases plan it
    many times as fast as one expression: use it for more than some trees. It needs WITH: MySQL 8, MariaDB 10.2,
    SQLite 3.35, PostgreSQL 12.

    References
    ----------
    The tests run the first three dialects, "mysql" (by MariaDB) and "spark". They parse the others by sqlglot,
    transpile them to DuckDB's, and run that.
    """
    if isinstance(model, Explainer):
        raise NotImplementedError(
            "SHAP values are sums over all paths of all trees, for which SQL has no loop; write them by "
            "export_c(explainer), or into a table by explainer.mapper() or `glasswood explain`, whose --top and "
            "--sentences write the reasons of each row"
        )
    if dialect not in DIALECTS:
        raise ValueError(f"dialect is {dialect!r}, expected one of {', '.join(DIALECTS)}")
    forest = load(model, names=columns).ensemble
    refuse_open_tables(forest, "generated code")
    forest = with_sets(forest)
    kind, names = DIALECTS[dialect], feature_names(forest)
    _refuse_twins(names, kind.identity, dialect)
    named = frozenset(i for i, table in enumerate(forest.categories or ()) if table is not None)
    written = kind([kind.column(name) for name in names], named)
    if table is None:
        if keep:
            raise ValueError("keep names columns of a query; pass table=, or select them beside the expression")
        writer = _Writer(forest, written, output)
        _refuse_levels(forest, dialect, output)
        return writer.expression()
    aliases, words = words_of(forest, [*keep, *names])
    writer = _Writer(forest, kind(aliases, named, words), output)
    parts = table.split(".") if isinstance(table, str) else list(table)
    categories = {feature: writer.table(feature) or [] for feature in words}
    base, *trees = writer.summands()
    return written_query(written, cast("Sql", writer.language), categories, parts, keep, base, trees, writer.response)


def export_python(model: object, name: str = "predict", output: int = 0) -> str:
    """Write a model as the source of a Python function of a row, which needs only the standard library.

    Parameters
    ----------
    model, output
        As for `export_sql`.
    name : str
        Name of the function. Its argument is a mapping of column names to values; None and NaN are missing.

    Returns
    -------
    str
        The function returns a float: the response of a model with a single output, such as the probability of the
        second of two classes, and the margin of one of several outputs. The margin has the bits of float64, as for
        `export_sql`; `math.exp` and `math.log` may differ in the last bit.

    Raises
    ------
    ValueError, NotImplementedError
        As for `export_sql`, and if the function cannot have the name.
    """
    forest = load(model).ensemble
    refuse_open_tables(forest, "generated code")
    forest = with_sets(forest)
    _check_name(name, name in PYTHON_WORDS)
    names = feature_names(forest)
    _refuse_twins(names, str, "a mapping")
    writer = _Writer(forest, Python([f"row[{python_literal(one)}]" for one in names]), output)
    said = {"what": origin(forest), "returned": returned(forest, output)}
    return PYTHON_SOURCE.format(name=name, **said, statements=writer.statements("    "))


def export_c(model: object, name: str = "predict", output: int = 0) -> str:
    """Write a model, or an explainer, as the source of a C function of a row.

    Parameters
    ----------
    model, output
        As for `export_sql`, or an `Explainer` of margins without background.
    name : str
        Name of the function ``double name(const double *x)``; x holds the features in their order, categories as their
        positions in ``ensemble.categories``, missing values as NAN. For an explainer it is ``double name(const double
        *x, double *phi)``, which writes the SHAP value of each feature (of each of `Explainer.players`) to phi and
        returns the expected value.

    Returns
    -------
    str
        The function returns the response of a model with a single output, such as the probability of the second of two
        classes, and the margin of one of several outputs; a comment says which, and lists the codes of the first 30
        categories of each feature. The margin has the bits of float64, as for `export_sql`, unless the compiler fuses
        products with sums; exp and log may differ in the last bit. SHAP values are those of
        ``Explainer(dtype="float64")`` up to rounding; they add up to the margin.

    Raises
    ------
    ValueError, NotImplementedError
        As for `export_sql`, and if the function cannot have the name: reserved words of C, names that <math.h> or
        compilers declare, names without lower-case letters or with a leading underscore. Also for explainers with a
        background, another output than the margin, or linear leaves.
    """
    forest = model.game.forest if isinstance(model, Explainer) else load(model).ensemble
    refuse_open_tables(forest, "generated code")
    is_macro = name.startswith("_") or name.upper() == name
    _check_name(name, is_macro or name in C_WORDS or C_SUFFIX.sub("", name) in C_WORDS)
    writer = _Writer(forest, Language([f"x[{i}]" for i in range(forest.n_features)]), output, has_codes=True)
    about = {"name": name, "what": origin(forest), "columns": columns_of_c(forest)}
    if isinstance(model, Explainer):
        _refuse_game(model)
        expected, players = float(np.atleast_1d(model.expected_value)[output]), model.game.players
        named = enumerate(model.players if players.groups else ())
        of_phi = "".join(f'   phi[{player}]: "{comment(one)}"\n' for player, one in named)
        about |= {"order": "groups first" if of_phi else "the same order", "players": of_phi}
        return explainer_source(forest, output, expected, writer.numbers(), writer.tests(), about, players.of_feature)
    about["returned"] = returned(forest, output)
    return C_SOURCE.format(**about, statements=writer.statements("  double ", ";"))


def export_excel(
    model: object,
    path: str | os.PathLike[str] | None = None,
    *,
    cells: Sequence[str] | None = None,
    row: Mapping[str, Any] | None = None,
    output: int = 0,
) -> str | None:
    """Write a model as a workbook that computes its predictions, or a small one as a single formula.

    Parameters
    ----------
    model, output
        As for `export_sql`.
    path : path, optional
        A file ``.xlsx`` to write, with three sheets. *Inputs* has a cell for each feature, with a list of the
        categories, and the prediction. *Leaves* has a line for each leaf: its conditions, whether the inputs meet them,
        its value at the means of its rows, and the coefficients and means of its terms. *Formula* looks up the leaf and
        adds up the terms. Without a path, the model is one formula.
    cells : sequence of str, optional
        For a formula, the cell of each feature, in the order of the features; default A2, B2, ... An empty cell is
        missing.
    row : mapping of str to value, optional
        For a workbook, the values that the cells of the features have at first; default empty cells.

    Returns
    -------
    str or None
        Without `path`, the formula: it begins with "=", with English function names and commas. Spreadsheets keep 15
        digits of a number.

    Raises
    ------
    ValueError, NotImplementedError
        As for `export_sql`, and if there are more or fewer cells than features, the formula is too long for a cell, or
        the model too large for a workbook (`glasswood.display.workbook.MOST_LINES`).
    ImportError
        If a workbook is to be written and openpyxl is not installed (``glasswood[excel]``).
    """
    forest = load(model).ensemble
    refuse_open_tables(forest, "generated code")
    forest = with_sets(forest)
    if path is not None:
        if cells is not None:
            raise ValueError("cells places a formula; a workbook has its own cells, leave it out")
        target = check_output(path)
        if target.suffix.lower() != ".xlsx":
            raise ValueError(f"{target} has the suffix {target.suffix!r}, expected .xlsx")
        places = [input_cell(feature) for feature in range(forest.n_features)]
        written = workbook(forest, _Writer(forest, Excel(places), output), output, row or {})
        with replacing(target) as temporary:
            written.save(temporary)
        return None
    if row is not None:
        raise ValueError("row fills in the cells of a workbook; pass path=, too")
    chosen = [f"{_letters(i)}2" for i in range(forest.n_features)] if cells is None else list(cells)
    if len(chosen) != forest.n_features:
        raise ValueError(f"cells has {len(chosen)} entries, expected {forest.n_features}: one for each feature")
    formula = "=" + _Writer(forest, Excel(chosen), output).expression()
    if len(formula) > MOST_LETTERS:
        raise NotImplementedError(
            f"the formula has {len(formula)} characters, more than the {MOST_LETTERS} of a cell; write a workbook "
            "(path='model.xlsx'), or use export_sql"
        )
    return formula


def _plain(category: Any) -> str | bool | int | float:
    """Make a category one of Python's own: how something else describes itself is not code."""
    value = category.item() if isinstance(category, np.generic) else category
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | int):
        return value if isinstance(value, bool) else int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    raise NotImplementedError(
        f"the category {value!r} is not a text, a boolean or a finite number; predict with glasswood"
    )


def _check_name(name: str, is_taken: bool) -> None:
    if not name.isidentifier() or not name.isascii() or is_taken:
        why = ", which the language or its libraries use," if name.isidentifier() and is_taken else ","
        raise ValueError(f"name is {name!r}{why} expected the name of a function, such as 'predict'")


def _refuse_twins(names: Sequence[str], identity: Callable[[str], object], where: str) -> None:
    """Refuse names that are one and the same column where they are read."""
    first: dict[object, int] = {}
    for feature, name in enumerate(names):
        other = first.setdefault(identity(name), feature)
        if other != feature:
            raise ValueError(
                f"features {other} and {feature} are called {names[other]!r} and {name!r}, which {where} does not tell "
                f"apart; rename one of them: glasswood.load(model, names={{{names[feature]!r}: ...}})"
            )


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

    def __init__(self, forest: TreeEnsemble, language: Language, output: int, has_codes: bool = False) -> None:
        _refuse(forest, output)
        self._forest, self.language, self._output, self._has_codes = forest, language, output, has_codes
        self._leaves = np.cumsum(forest.feature < 0) - 1

    def expression(self) -> str:
        """Add the trees to the base score in their order; through the link if there is one output."""
        return self.response(" + ".join(self.summands()))

    def statements(self, begin: str, end: str = "") -> str:
        """As `expression`, with a statement for each tree: parsers nest sums, and stop somewhere."""
        base, *trees = self.summands()
        indent = " " * (len(begin) - len(begin.lstrip()))
        lines = [f"{begin}total = {base}", *(f"{indent}total += {tree}" for tree in trees)]
        return "\n".join(f"{line}{end}" for line in [*lines, f"{indent}return {self.response('total')}"])

    def numbers(self) -> Iterator[tuple[int, float, bool]]:
        """List splits that compare a number, where only NaN is missing: threshold, and whether missing ones go left."""
        forest = self._forest
        for node in np.flatnonzero(forest.feature >= 0).tolist():
            if self._is_number(node):
                yield node, _effective(forest, forest.threshold[node]), bool(forest.default_left[node])

    def tests(self) -> Iterator[tuple[int, str]]:
        """List the tests of the other splits, whether a row goes left."""
        for node in np.flatnonzero(self._forest.feature >= 0).tolist():
            if not self._is_number(node):
                yield node, self.test(node)

    def _is_number(self, node: int) -> bool:
        forest = self._forest
        is_set = forest.is_categorical and forest.category_set[node] >= 0
        is_plain = math.isnan(forest.missing) and self.table(int(forest.feature[node])) is None
        return is_plain and not is_set and math.isfinite(forest.threshold[node])

    def summands(self) -> Iterator[str]:
        """List the base score and the trees."""
        forest = self._forest
        yield self.language.number(forest.base_score[self._output])
        for tree in np.flatnonzero(forest.tree_output == self._output).tolist():
            weight = "" if forest.tree_weight[tree] == 1 else f"{self.language.number(forest.tree_weight[tree])} * "
            root = int(forest.tree_offsets[tree])
            yield f"{weight}{self._node(root, root)}"

    def response(self, text: str) -> str:
        """Write the response of a margin where there is one output."""
        forest = self._forest
        if forest.n_outputs > 1 or forest.link == "identity":
            return text
        if forest.link == "logistic" and forest.link_scale != 1:
            text = f"{self.language.number(forest.link_scale)} * ({text})"
        return self.language.link(forest.link, text)

    def _node(self, root: int, node: int) -> str:
        forest = self._forest
        if forest.feature[node] < 0:
            return self._leaf(int(self._leaves[node]))
        if isinstance(self.language, Sql) and self.language.is_flat:
            return self._flat(root, node)
        left = root + int(forest.left[node])
        return self.language.choose(self.test(node), self._node(root, left), self._node(root, left + 1))

    def _flat(self, root: int, node: int) -> str:
        """List the leaves from the left: a row is at the first one all of whose tests to the left it passes."""
        forest, cases = self._forest, []
        pending: list[tuple[int, tuple[str, ...]]] = [(node, ())]
        while pending:
            at, tests = pending.pop()
            if forest.feature[at] < 0:
                cases.append((tests, self._leaf(int(self._leaves[at]))))
                continue
            left = root + int(forest.left[at])
            pending += [(left + 1, tests), (left, (*tests, self.test(at)))]
        whens = " ".join(f"WHEN {' AND '.join(tests)} THEN {leaf}" for tests, leaf in cases[:-1])
        return f"CASE {whens} ELSE {cases[-1][1]} END"

    def test(self, node: int) -> str:
        """Whether a row goes left."""
        forest, feature = self._forest, int(self._forest.feature[node])
        missing = self.is_missing(feature)
        if forest.is_categorical and forest.category_set[node] >= 0:
            return self._set_test(node, feature, missing)
        if forest.threshold[node] == np.inf:  # every number goes left
            return self.language.negated(missing) if not forest.default_left[node] else self._always()
        is_left = self._is_less(feature, _effective(forest, forest.threshold[node]))
        if forest.default_left[node]:
            return self.language.any([missing, is_left])
        return self._present(feature, is_left)

    def _is_less(self, feature: int, threshold: float) -> str:
        return f"{self.language.value(feature)} < {self.language.number(threshold)}"

    def _present(self, feature: int, test: str) -> str:
        """Write a test that no missing value passes; some languages cannot compare None or empty cells."""
        language = self.language
        if isinstance(language, Python):
            return f"(not {self.is_missing(feature)} and {test})"
        if isinstance(language, Excel):
            return f"AND(NOT({self.is_missing(feature)}),{test})"
        marked = not math.isnan(self._forest.missing)
        return language.negated(language.any([self.is_missing(feature), language.negated(test)])) if marked else test

    def _always(self) -> str:
        return self.language.negated(self.language.any([]))

    def is_missing(self, feature: int) -> str:
        """Whether a row lacks a value; a category that training did not see counts as missing, but for YDF."""
        if self._has_words(feature):
            return cast("Sql", self.language).in_words(feature, (), True)
        language, tests = self.language, [self.language.is_missing(feature)]
        if not math.isnan(self._forest.missing):
            tests.append(self._is_marker(feature))
        table = None if self._forest.unseen_apart else self.table(feature)
        if table is not None:
            tests.append(language.negated(language.is_in(feature, table)))
        if self._forest.empty_missing and self.table(feature) is not None and not self._has_codes:
            tests.append(language.equals(feature, ""))
        return language.any(tests) if len(tests) > 1 else tests[0]

    def _is_marker(self, feature: int) -> str:
        """Whether a number is the one that marks missing values; it may become so in float32."""
        marker, language = self._forest.threshold.dtype.type(self._forest.missing), self.language
        if marker.dtype != np.float32:
            return language.equals(feature, float(marker))
        first, beyond = least_rounded(marker), least_rounded(np.nextafter(marker, np.float32(np.inf)))
        return language.negated(
            language.any([self._is_less(feature, first), language.negated(self._is_less(feature, beyond))])
        )

    def table(self, feature: int) -> list[Any] | None:
        """Values of a feature's categories, as rows of the language have them."""
        forest = self._forest
        table = forest.categories[feature] if forest.categories else None
        if table is None:
            return None
        return list(range(len(table))) if self._has_codes else [_plain(one) for one in table.tolist()]

    def _set_test(self, node: int, feature: int, missing: str) -> str:
        forest, language = self._forest, self.language
        which, table = int(forest.category_set[node]), self.table(feature)
        words = forest.set_words[forest.set_offsets[which] : forest.set_offsets[which + 1]]
        bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").astype(bool).tolist()
        others = bool(forest.set_others_left[which])
        codes = range(len(table) if table is not None else len(bits))
        lefts = [bits[code] if code < len(bits) else others for code in codes]
        if self._has_words(feature):
            coded = [code for code, left in zip(codes, lefts, strict=True) if left]
            return cast("Sql", language).in_words(feature, coded, bool(forest.default_left[node]))
        named = [code if table is None else table[code] for code in codes]
        if not others or (table is not None and not forest.unseen_apart):
            is_left = language.is_in(feature, [one for one, left in zip(named, lefts, strict=True) if left])
            return language.any([missing, is_left]) if forest.default_left[node] else is_left
        is_right = language.is_in(feature, [one for one, left in zip(named, lefts, strict=True) if not left])
        if forest.default_left[node]:
            return language.any([missing, language.negated(is_right)])
        return language.negated(language.any([missing, is_right]))

    def _leaf(self, leaf: int) -> str:
        forest, language = self._forest, self.language
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
        numbers = {(int(forest.linear_feature[t]), int(forest.linear_category[t])) for t in terms}
        lacks = language.any([self.lacks(*number) for number in sorted(numbers) if number[1] in OF_NUMBERS])
        return language.choose(lacks, language.number(float(forest.leaf_missing[leaf])), text)

    def _term(self, term: int) -> str:
        forest, language = self._forest, self.language
        feature, category = int(forest.linear_feature[term]), int(forest.linear_category[term])
        coefficient = language.number(float(forest.linear_coefficient[term]))
        mean, zero, one = (language.number(float(x)) for x in (forest.linear_mean[term], 0, 1))
        if category in OF_NUMBERS:
            x = language.value(feature)
            x = x if category == NUMBER else language.logarithm(x)
            deviation = language.choose(self.lacks(feature, category), zero, f"{x} - {mean}")
        else:
            test = self.is_missing(feature) if category == MISSING else self.has(feature, category)
            deviation = f"({language.choose(test, one, zero)} - {mean})"
        return f"{coefficient} * {deviation}"

    def lacks(self, feature: int, category: int) -> str:
        """Whether a row lacks the number of a term."""
        language, missing = self.language, self.is_missing(feature)
        if category != LOGARITHM:
            return missing
        return language.any([missing, f"{language.value(feature)} <= {language.number(0.0)}"])

    def has(self, feature: int, category: int) -> str:
        """Whether a row has the category of this code."""
        if self._has_words(feature):
            return cast("Sql", self.language).in_words(feature, (category,), False)
        table = self.table(feature)
        return self.language.equals(feature, category if table is None else table[category])

    def _has_words(self, feature: int) -> bool:
        """Whether a feature's categories are bits of columns."""
        return isinstance(self.language, Sql) and feature in self.language.words


def _effective(forest: TreeEnsemble, threshold: Any) -> float:
    """Smallest double that goes right: tiny numbers become 0 (LightGBM), all become the type of the rows."""
    if forest.zero_threshold != 0:
        zero = threshold.dtype.type(forest.zero_threshold)
        threshold = max(threshold, np.nextafter(zero, threshold.dtype.type(np.inf))) if threshold > 0 else threshold
        threshold = min(threshold, -zero) if threshold <= 0 else threshold
    return least_rounded(threshold) if threshold.dtype == np.float32 else float(threshold)


def least_rounded(limit: np.float32) -> float:
    """Smallest double that rounds to a float32 of at least the limit."""
    below = np.nextafter(limit, np.float32(-np.inf))
    if below == limit:
        return float(limit)
    low, high = (math.copysign(BEYOND, one) if np.isinf(one) else float(one) for one in (below, limit))
    middle = (low + high) / 2
    with np.errstate(over="ignore"):
        return middle if np.float32(middle) >= limit else math.nextafter(middle, math.inf)


def _refuse(forest: TreeEnsemble, output: int) -> None:
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
    elif forest.has_linear_leaves and forest.threshold.dtype == np.float32:
        what = "equations of float32 in their leaves"
    elif len(forest.zero_missing):
        what = "zeros that are missing"
    elif forest.depth > DEEPEST:
        what = f"trees of {forest.depth} levels (at most {DEEPEST})"
    elif forest.n_outputs == 1 and forest.link not in LINKS:
        what = f"the link {forest.link!r}"
    if what:
        raise NotImplementedError(f"glasswood cannot write forests with {what} as code; predict with glasswood")


def _refuse_game(explainer: Explainer) -> None:
    """Refuse explainers whose values the C function does not compute."""
    game = explainer.game
    without = "make one of the forest without it, or explain with glasswood"
    for what, is_so, instead in (
        ("a background", game.has_background, without),
        (f"output={explainer.settings.output!r}", explainer.settings.output != "margin", without),
        ("linear leaves", game.forest.has_linear_leaves, "explain with glasswood"),
    ):
        if is_so:
            raise NotImplementedError(f"glasswood cannot write explainers with {what} as code; {instead}")


def _refuse_levels(forest: TreeEnsemble, dialect: SqlDialect, output: int) -> None:
    """Refuse sums that the database would not: trees, added from the left, and what is inside one of them."""
    n_trees = int((forest.tree_output == output).sum())
    n_terms = int(np.diff(forest.linear_offsets).max(initial=0)) if forest.has_linear_leaves else 0
    most = SQL_LEVELS.get(dialect)
    levels = n_trees + forest.depth + 2 * n_terms + OTHER_LEVELS
    if most is not None and levels > most:
        raise NotImplementedError(
            f"{n_trees} trees of {forest.depth} levels need an expression of about {levels} levels, {dialect} supports "
            f"{most}; use export_python, export_c or Forest.predict"
        )
