"""`glasswood plot`: a picture of a tree."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from glasswood.base.escapes import shown
from glasswood.cli.values import (
    DATA,
    POSITIVE,
    REPLACED,
    add_command,
    add_model,
    add_reading,
    add_target,
    file_of,
    load_model,
    positive,
    rows_source,
)

if TYPE_CHECKING:
    import argparse

    from glasswood.cli.parser import Parser

DESCRIPTION = """Draw a tree of MODEL: its splits, its leaves and their equations.

With DATA, splits show the target over their feature: the column --target, or the model's predictions.

Example: glasswood plot tree.glasswood houses.csv --target price -o tree.svg"""

picture: Callable[[str], Path] = file_of(".svg", ".png", ".pdf")


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Add the command to those of the command line."""
    parser = add_command(subparsers, "plot", run, "draw a tree of a model", DESCRIPTION)
    add_model(parser)
    parser.add_argument("data", type=rows_source, nargs="?", metavar="DATA", help=DATA)
    parser.add_argument(
        "-o", dest="out", type=picture, required=True, metavar="OUT", help=f".svg, .png or .pdf file to write{REPLACED}"
    )
    parser.add_argument("--tree", type=int, default=0, metavar="N", help="number of the tree (default: 0)")
    add_target(parser, "column of DATA that the model predicts")
    parser.add_argument(
        "--max-terms", type=positive, default=5, metavar="N", help="terms to show of a leaf (default: 5)"
    )
    parser.add_argument("--positive", metavar="CLASS", help=POSITIVE)
    add_reading(parser)


def run(options: argparse.Namespace) -> None:
    """Run `glasswood plot`."""
    import glasswood
    from glasswood.base.extras import import_extra
    from glasswood.base.pictures import save_picture
    from glasswood.cli.commands import read_features_and_target

    if options.target is not None and options.data is None:
        raise ValueError("--target names a column of DATA; pass DATA too")
    pyplot = import_extra("matplotlib.pyplot", "plot", "pictures need matplotlib")
    pyplot.switch_backend("Agg")
    forest, most = load_model(options), options.rows or sys.maxsize
    X, y, exposure = None, None, None
    if options.data is not None:
        X, y, exposure = read_features_and_target(options.data, options, forest.ensemble, most)
    settings = {"tree": options.tree, "max_terms": options.max_terms, "positive": options.positive}
    figure = glasswood.plot_tree(forest, X, y, exposure=exposure, **settings).figure
    assert figure is not None
    save_picture(figure, options.out, options.out.suffix[1:].lower(), dpi=150)
    print(f"{shown(str(options.out))}: tree {options.tree}")
