"""Forests as code of other languages, in doubles: numbers are `Forest.predict`'s before they become float32."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from glasswood.base.escapes import comment, python_literal, quoted, shown
from glasswood.base.files import check_output, replacing
from glasswood.base.typing import SqlDialect
from glasswood.display.code_comments import columns_of_c, origin, returned
from glasswood.display.dialects import DIALECTS, Sql
from glasswood.display.explainer_code import explainer_source
from glasswood.display.expressions import Writer
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
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import exposure_text, feature_names

SQL_LEVELS = {"duckdb": 1000, "sqlite": 1000}
"""Most levels of an expression by a database's default settings; each tree of a sum is one."""

OTHER_LEVELS = 16
"""Levels of tests, weights, clips and links, at most."""


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
        sequence has the parts of the name. Names are quoted, so their case counts if the database compares quoted names
        by case.
    keep : sequence of str
        Columns of the table that the query's result has before its column ``prediction``, such as a key. SQL tables
        have no order.

    Returns
    -------
    str
        An expression of doubles: ``SELECT <expression> FROM table``; or, with `table`, a query. Predictions of a model
        that was fitted with `exposure` are for one unit of it; a comment says so, as in other code. The margin has the
        bits of ``predict(X, output="margin")`` in float64 (`Forest.predict` rounds float32 results). The database's EXP
        and LN may differ in the last bit. NULL and NaN are missing. SQLite returns NULL for NaN, and reads one of some
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
    A query looks up each category once per row and keeps it as a bit, and has a column for each tree. Databases plan it
    many times as fast as one expression, so use it for more than a few trees. It needs WITH: MySQL 8, MariaDB 10.2,
    SQLite 3.35, PostgreSQL 12.

    References
    ----------
    The tests run the first three dialects, "mysql" (by MariaDB) and "spark". sqlglot parses the others and translates
    them to DuckDB's, which the tests run.
    """
    if isinstance(model, Explainer):
        raise NotImplementedError(
            "SHAP values are sums over all paths of all trees, for which SQL has no loop; write them by "
            "export_c(explainer), or into a table by explainer.mapper() or `glasswood explain`, whose --top and "
            "--sentences write the reasons of each row"
        )
    if dialect not in DIALECTS:
        raise ValueError(f"dialect is {quoted(dialect)}, expected one of {', '.join(DIALECTS)}")
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
        writer = Writer(forest, written, output)
        _refuse_levels(forest, dialect, output)
        return f"{_said_of(forest)}{writer.expression()}"
    aliases, words = words_of(forest, [*keep, *names])
    writer = Writer(forest, kind(aliases, named, words), output)
    parts = table.split(".") if isinstance(table, str) else list(table)
    categories = {feature: writer.table(feature) or [] for feature in words}
    base, *trees = writer.summands()
    query = written_query(written, cast("Sql", writer.language), categories, parts, keep, base, trees, writer.response)
    return f"{_said_of(forest)}{query}"


def _said_of(forest: TreeEnsemble) -> str:
    """Write a comment of SQL where predictions are for one unit of exposure."""
    said = exposure_text(forest)
    return f"/* {said} */ " if said else ""


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
    writer = Writer(forest, Python([f"row[{python_literal(one)}]" for one in names]), output)
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
    writer = Writer(forest, Language([f"x[{i}]" for i in range(forest.n_features)]), output, has_codes=True)
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
        A file ``.xlsx`` to write. Its sheet *Inputs* has a cell for each feature, with a list of the
        categories, and the prediction. *Leaves* has a line for each leaf: its conditions, whether the inputs meet them,
        its value at the means of its rows, and the coefficients and means of its terms. *Formula* looks up the leaf and
        adds up the terms. Curves and surfaces (`ModelTreeRegressor` with `curves`, `AdditiveRegressor`) are on sheets
        of their own: *Curves* has a line for each step, *Surfaces* a table for each pair. Without a path, the model is
        one formula.
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
            raise ValueError(f"{shown(target)} has the suffix {quoted(target.suffix)}, expected .xlsx")
        places = [input_cell(feature) for feature in range(forest.n_features)]
        written = workbook(forest, Writer(forest, Excel(places), output), output, row or {})
        with replacing(target) as temporary:
            written.save(temporary)
        return None
    if row is not None:
        raise ValueError("row fills in the cells of a workbook; pass path=, too")
    chosen = [f"{_letters(i)}2" for i in range(forest.n_features)] if cells is None else list(cells)
    if len(chosen) != forest.n_features:
        raise ValueError(f"cells has {len(chosen)} entries, expected {forest.n_features}: one for each feature")
    formula = "=" + Writer(forest, Excel(chosen), output).expression()
    if len(formula) > MOST_LETTERS:
        raise NotImplementedError(
            f"the formula has {len(formula)} characters, more than the {MOST_LETTERS} of a cell; write a workbook "
            "(path='model.xlsx'), or use export_sql"
        )
    return formula


def _check_name(name: str, is_taken: bool) -> None:
    if not isinstance(name, str):
        raise TypeError(f"name is {quoted(name)}, expected the name of a function, such as 'predict'")
    if not name.isidentifier() or not name.isascii() or is_taken:
        why = ", which the language or its libraries use," if name.isidentifier() and is_taken else ","
        raise ValueError(f"name is {quoted(name)}{why} expected the name of a function, such as 'predict'")


def _refuse_twins(names: Sequence[str], identity: Callable[[str], object], where: str) -> None:
    """Refuse names that are one and the same column where they are read."""
    first: dict[object, int] = {}
    for feature, name in enumerate(names):
        other = first.setdefault(identity(name), feature)
        if other != feature:
            raise ValueError(
                f"features {other} and {feature} are called {quoted(names[other])} and {quoted(name)}, which "
                f"{where} does not tell "
                f"apart; rename one of them: glasswood.load(model, names={{{quoted(names[feature])}: ...}})"
            )


def _letters(column: int) -> str:
    """Name a column of a spreadsheet: A, ..., Z, AA, ..."""
    text = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


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
            raise NotImplementedError(f"glasswood cannot write explainers with {shown(what)} as code; {shown(instead)}")


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
