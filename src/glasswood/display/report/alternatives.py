"""Other trees that fit as well as the one that a report is about."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from glasswood.model.facts import feature_name, output_names
from glasswood.words.rules import node_tests, paths, value_text

if TYPE_CHECKING:
    from glasswood.base.wording import Wording
    from glasswood.model.ensemble import TreeEnsemble

SHOWN = 15
"""Splits that are listed."""


def other_trees(model: object, forest: TreeEnsemble, wording: Wording) -> list[dict[str, Any]] | None:
    """Describe `alternatives_` of a grown tree, of each class where there are several; None where it has none."""
    found = getattr(model, "alternatives_", None)
    if found is None:
        return None
    if isinstance(found, tuple):
        wording = dataclasses.replace(wording, log_odds=True)  # the odds of one class beside the others say little
    several = found if isinstance(found, tuple) else (found,)
    names = output_names(forest, len(several)) if len(several) > 1 else [""]
    is_rmse = "squared" in forest.objective or "Huber" in forest.objective
    kind = "RMSE" if is_rmse else "log-loss" if forest.classes else "deviance"
    entries = [
        _entry(one, tree, name, kind, wording) for tree, (one, name) in enumerate(zip(several, names, strict=True))
    ]
    entries = [entry for entry in entries if entry["met"] > 1]
    return entries or None


def _entry(found: Any, tree: int, name: str, kind: str, wording: Wording) -> dict[str, Any]:
    shares, chosen = found.splits["share"][:SHOWN], found.splits["chosen"][:SHOWN]
    tests = [] if found.stumps is None else [node_tests(found.stumps, at, wording)[0][0] for at in range(len(shares))]
    return {
        "name": name,
        "kind": kind,
        "error": found.error,
        "met": found.n_met,
        "splits": [
            {"name": test, "value": share, "chosen": bool(is_chosen)}
            for test, share, is_chosen in zip(tests, shares.tolist(), chosen.tolist(), strict=True)
        ],
        "left": len(found.splits["share"]) - len(shares),
        "trees": [
            _tree(one.ensemble, tree, error, wording)
            for one, error in zip(found.forests, found.errors.tolist(), strict=True)
        ],
    }


def _tree(forest: TreeEnsemble, tree: int, error: float, wording: Wording) -> dict[str, Any]:
    """Leaves of a tree as rules, and the features of its splits in the order in which rows meet them."""
    first, last = forest.tree_offsets[tree : tree + 2].tolist()
    tested = forest.feature[first:last]
    features = list(dict.fromkeys(tested[tested >= 0].tolist()))
    rules = paths(forest, tree, wording).items()
    leaves = [[wording.text("and").join(tests), value_text(forest, leaf, wording)] for leaf, tests in rules]
    return {"error": error, "features": [feature_name(forest, feature) for feature in features], "leaves": leaves}
