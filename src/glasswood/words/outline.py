"""A tree as a small outline in HTML, for notebooks: static, without scripts, all text escaped."""

from __future__ import annotations

import dataclasses
from typing import Any

from glasswood.base.escapes import markup
from glasswood.base.wording import leaves_text, percent_text
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.events import of_event
from glasswood.model.facts import exposure_text
from glasswood.words.rules import (
    class_of,
    class_shares,
    cover_texts,
    leaf_of_node,
    node_tests,
    share_of_second,
    sum_note,
    turned_facts,
    value_text,
    wording_of,
)

MOST_LEAVES = 40
"""Trees with more leaves are not shown; the notebook then has only the facts."""

OPEN_LEVELS = 3
"""Levels of the outline that are open at first."""

BAR = (
    "<span style='display:inline-block;width:4em;height:.6em;margin-right:.4em;border-radius:2px;"
    "background:linear-gradient(90deg,#d1495b {share:.1f}%,rgba(128,128,128,.25) {share:.1f}%)'></span>"
)


def tree_html(forest: TreeEnsemble, tree: int, summary: Any) -> str:
    """Write a tree as nested lists that open; empty if it is large."""
    first, last = forest.tree_offsets[tree : tree + 2].tolist()
    if int((forest.feature[first:last] < 0).sum()) > MOST_LEAVES:
        return ""
    forest, is_turned = of_event(forest, None, share_of_second(forest, summary))
    summary = turned_facts(summary) if is_turned else summary
    wording = dataclasses.replace(wording_of(forest), max_terms=3)
    tests, sizes = node_tests(forest, tree, wording), cover_texts(forest, tree, summary)
    shares = class_shares(forest, tree, summary)

    def facts(node: int) -> str:
        if shares is None or shares.explained < 0:
            return f"<small style='opacity:.7'>{markup(sizes[node])}</small>"
        share = float(shares.shares[node, shares.explained])
        bar = BAR.format(share=100 * share)
        return f"{bar}<small style='opacity:.7'>{percent_text(share)} of {markup(sizes[node])}</small>"

    def below(node: int, depth: int) -> str:
        if forest.feature[first + node] < 0:
            leaf = leaf_of_node(forest, first + node)
            value = markup(value_text(forest, leaf, wording))
            return f"<div style='margin-left:1.2em'>leaf {leaf}: <code>{value}</code></div>"
        left, parts = int(forest.left[first + node]), []
        for side, test in enumerate(tests[node]):
            is_open = " open" if depth < OPEN_LEVELS else ""
            parts.append(
                f"<details{is_open} style='margin-left:1.2em'><summary>{markup(test)} &ensp;{facts(left + side)}"
                f"</summary>{below(left + side, depth + 1)}</details>"
            )
        return "".join(parts)

    name = class_of(forest, tree)
    title = f"<div>Probability of <b>{markup(name)}</b> &ensp;{facts(0)}</div>" if name else ""
    added = " ".join(filter(None, [sum_note(forest, tree, wording), exposure_text(forest)]))
    note = f"<div><small>{markup(added)}</small></div>" if added else ""
    return f"<div style='font-size:90%;line-height:1.6'>{title}{below(0, 0)}{note}</div>"


def estimator_html(estimator: Any) -> str:
    """Write a fitted tree: what it is, and its outline, for several trees that of the first."""
    forest, summary = estimator.forest_.ensemble, getattr(estimator, "leaf_summary_", None)
    n_trees = forest.n_trees - forest.n_curves
    n_leaves = int(forest.leaf_offsets[n_trees])
    curves = f"{forest.n_curves} curves and surfaces, " if forest.n_curves else ""
    many = f"{n_trees} trees, " if n_trees > 1 else ""
    said = f"{curves}{many}{leaves_text(n_leaves)}{'' if summary is None else _training_error(summary)}"
    first = "" if n_trees == 1 else "<div><i>The first of the trees:</i></div>"
    head = f"<strong>{markup(type(estimator).__name__)}</strong> ({said})"
    return f"<div>{head}{first}{tree_html(forest, 0, summary)}</div>"


def _training_error(summary: Any) -> str:
    """Name the error over the training rows, after a comma."""
    error = "rmse" if "rmse" in summary else "log_loss"
    mean = float(summary["n_rows"] @ summary[error] ** 2 / summary["n_rows"].sum()) ** 0.5
    if error == "log_loss":
        mean = float(summary["n_rows"] @ summary[error] / summary["n_rows"].sum())
    return f", training {error.replace('_', '-')} {mean:.4g}"
