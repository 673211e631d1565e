"""`glasswood score`: how much of a model's score each feature is worth."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from glasswood.base.escapes import shown
from glasswood.cli.values import (
    DATA,
    REPLACED,
    add_command,
    add_model,
    add_reading,
    add_target,
    add_threads,
    file_of,
    load_model,
    rows_source,
)

if TYPE_CHECKING:
    import argparse

    from glasswood.cli.parser import Parser

LOSSES = ("auto", "squared", "absolute", "log_loss", "poisson")

DESCRIPTION = """Divide the score of MODEL on the rows of DATA among its features: Shapley values of the loss.

Values add up to the loss without features minus the model's, with standard errors over the rows. With --background, an
unknown feature has the values of these rows; without, both sides of its splits are weighted by the training rows.

Example: glasswood score model.json test.parquet --target price -o score.json"""


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Add the command to those of the command line."""
    parser = add_command(subparsers, "score", run, "divide the score of a model among its features", DESCRIPTION)
    add_model(parser)
    parser.add_argument("data", type=rows_source, metavar="DATA", help=DATA)
    add_target(parser, "column of DATA that the model predicts", required=True)
    parser.add_argument("-o", dest="out", type=file_of(".json"), metavar="OUT", help=f".json file of values{REPLACED}")
    parser.add_argument("--loss", choices=LOSSES, default="auto", help="default: auto, by the model's objective")
    parser.add_argument("--background", type=rows_source, metavar="ROWS", help="background rows (default: none)")
    add_reading(parser)
    add_threads(parser)


def run(options: argparse.Namespace) -> None:
    """Run `glasswood score`."""
    import glasswood
    from glasswood.cli.commands import as_weighted_rates, read_features, read_features_and_target

    forest, most = load_model(options), options.rows or sys.maxsize
    X, y, exposure = read_features_and_target(options.data, options, forest.ensemble, most)
    y, weight = as_weighted_rates(y, exposure)
    background = None
    if options.background is not None:
        background = read_features(options.background, options, forest.ensemble, sys.maxsize)
    settings = {"loss": options.loss, "background": background, "sample_weight": weight}
    found = glasswood.score_values(forest, X, np.asarray(y), **settings)
    if options.out:
        found.save(options.out)
    width = max(len(shown(name)) for name in found.names)
    print(found)
    for place in np.argsort(-found.values, kind="stable").tolist():
        error = found.standard_error[place]
        share = f"{found.shares[place]:8.1%}" if found.baseline else ""
        print(f"{shown(found.names[place]):<{width}}  {found.values[place]:12.6g} ± {error:<10.2g}{share}")
