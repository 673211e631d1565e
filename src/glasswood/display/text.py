"""A tree as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from glasswood.base.escapes import quoted, shown
from glasswood.base.wording import Wording, bar_text, checked_wording, count_text, counted, number_text, percent_text
from glasswood.inputs.tables import refuse_open_tables, with_sets
from glasswood.loading import load
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.events import of_event
from glasswood.model.facts import (
    constraints,
    counts_outliers_less,
    exposure_text,
    feature_names,
    is_cut_short,
    search_text,
)
from glasswood.words.curves import curve_lines, curve_trees
from glasswood.words.equation_texts import probability_text
from glasswood.words.equations import EXACT, leaf_equation, multiplies
from glasswood.words.rules import (
    class_of,
    class_shares,
    common_range,
    cover_texts,
    leaf_of_node,
    node_tests,
    range_text,
    share_of_second,
    speaks_of_odds,
    sum_note,
    turned_facts,
    value_text,
)

if TYPE_CHECKING:
    from glasswood.words.rules import ClassShares

NO_MEAN = "Fitted by Huber's loss: rows that are far off count less, so that predictions are no means of y."

WIDEST = 60
"""Characters of a line before the shares of classes, which stand below each other up to there."""


def export_text(
    model: object,
    tree: int = 0,
    digits: int = 4,
    *,
    max_terms: int | None = 5,
    units: Mapping[str, str] | None = None,
    log_odds: bool = False,
    positive: object = None,
    style: Literal["auto", "centered", "equation"] = "auto",
) -> str:
    """Write a tree as indented rules, with one line for each test or leaf, and the limits of its predictions.

    For one of several trees, or where the model adds a constant, a line below says how predictions follow from leaves.

    Leaves have the numbers of ``apply``, ``leaves_`` and ``leaf_summary_`` or, in other forests, those of
    ``predict(X, output="leaf")``. If training rows had missing values, or may have had some, the text names the sides
    that these take.

    Equations begin with their strongest terms: those whose standard deviation over the leaf's rows is largest. The
    categories of a feature are one term, each relative to the mean of the leaf's rows. So is a feature with a linear
    and a logarithmic term: where it rises or falls, and how much from one end of the middle 80 % of the leaf's rows to
    the other, as if its logarithm were normal there. The trees of a classifier show
    the share of their class among the training rows of every node, and factors of the odds of the class.

    Trees of rates and amounts (``loss="poisson"``, ``"gamma"``) show the predicted value if numbers are at their means
    and none of the single categories applies, and the factors that multiply it. A term with a logarithm multiplies it
    for every doubling.

    Parameters
    ----------
    model : ModelTreeRegressor, Forest, or anything `glasswood.load` reads
        A fitted `ModelTreeRegressor` also shows the error of each leaf, and how many of its rows are clipped.
    tree : int, default=0
        Which tree.
    digits : int, default=4
        Significant digits of numbers; thresholds of a feature that would look alike get more. The default is for
        reading, not for computing, because a large intercept and large terms of opposite signs cancel. With 17
        digits, ``max_terms=None`` and, for classifiers, ``log_odds=True``, the text has every term and category with
        all its digits; odds factors and shares are rounded.
    max_terms : int or None, default=5
        Number of terms of an equation to show; None shows all. The line says how many more there are, and the standard
        deviation of their sum. Terms that rounding hides are never shown. If the other terms together outweigh three of
        those shown, they are shown too.
    units : mapping of str to str, optional
        Units by the name of the feature: ``{"age": "years"}``.
    log_odds : bool, default=False
        Write equations of classifiers as sums of log-odds.
    style : {"auto", "centered", "equation"}, default="auto"
        "centered" begins with the value at the means of the leaf's rows, and says what moves it. "equation" is a sum
        that begins with the intercept, the value where all features are 0; of rates and amounts it is ``exp(...)`` of
        the sum. "auto" is "centered", and "equation" with 17 digits. Factors of odds have no intercept in either.
    positive : object, optional
        Which of two classes is the event, of which the text speaks. Default: the rarer one, where the model knows which
        one that is, otherwise the second one.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the forest has no such tree, a unit belongs to no feature, or `positive` is none of two classes.
    """
    forest = load(model).ensemble
    refuse_open_tables(forest, "export_text")
    forest = with_sets(forest)
    check_tree(forest, tree)
    if style not in ("auto", "centered", "equation"):
        raise ValueError(f"style is {quoted(style)}, expected 'auto', 'centered' or 'equation'")
    chosen = ("equation" if digits >= EXACT else "centered") if style == "auto" else style
    wording = Wording(digits, max_terms, units or {}, log_odds, chosen)
    wording = checked_wording(wording, feature_names(forest))
    summary = facts_of(model)
    forest, is_turned = of_event(forest, positive, share_of_second(forest, summary))
    lines = _Lines(forest, tree, wording, turned_facts(summary) if is_turned else summary)
    clipped = "Log-odds" if speaks_of_odds(forest) else "Predictions"
    common = "" if speaks_of_odds(forest) and not log_odds else common_range(forest, tree, wording)
    added = sum_note(forest, tree, wording)
    is_part = bool(added) or (forest.link == "exp" and not multiplies(forest))
    clipped = "Leaves" if is_part and not speaks_of_odds(forest) else clipped
    notes = [*filter(None, [added]), *([f"{clipped} are clipped to {common}."] if common else [])]
    if (
        forest.source == "glasswood"
        and not forest.n_curves
        and np.diff(forest.tree_offsets)[tree] == 1
        and not is_cut_short(forest)
    ):
        notes.append("No split paid off: this holds for all rows.")
    if counts_outliers_less(forest):
        notes.append(NO_MEAN)
    if said := exposure_text(forest):
        notes.append(said)
    if held := constraints(forest):
        notes.append(f"{held[0].upper()}{held[1:]}.")
    if cut := search_text(forest):
        notes.append(f"{cut[0].upper()}{cut[1:]}.")
    curves = [] if tree in curve_trees(forest) else curve_lines(forest, int(forest.tree_output[tree]), digits)
    said = "Curves and surfaces multiply by:" if multiplies(forest) else "Curves and surfaces add:"
    curves = [said, *curves] if curves else []
    title = shown(heading(forest, tree, lines.shares, log_odds))
    return "\n".join([*filter(None, [title]), lines.text(), *notes, *curves])


def check_tree(forest: TreeEnsemble, tree: int) -> None:
    """Raise ValueError unless the forest has a tree of this number."""
    if not 0 <= tree < forest.n_trees:
        raise ValueError(
            f"tree is {tree}, the forest has {counted(forest.n_trees, 'tree')}: expected 0 to {forest.n_trees - 1}"
        )


def facts_of(model: object) -> Any:
    """Table of the leaves, None if the model does not know it."""
    summary = getattr(model, "leaf_summary_", None)
    if summary is None:
        return None
    name = "rmse" if "rmse" in summary else "log_loss"
    is_weighted = getattr(model, "loss", "") == "huber"  # outliers count less
    return summary | {
        "error": summary[name],
        "error_name": f"weighted {name}" if is_weighted else name.replace("_", "-"),
    }


def leaf_facts(forest: TreeEnsemble, leaf: int, summary: Any, digits: int) -> list[str]:
    """Name the mean and the error of a leaf and the rows that are clipped, if the model has them."""
    if summary is None:
        return []
    mean = "centre" if counts_outliers_less(forest) else "mean"
    facts = [f"{summary['error_name']} {number_text(summary['error'][leaf], 3)}"]
    facts = [f"{mean} {number_text(summary['mean'][leaf], digits)}", *facts] if "rmse" in summary else facts
    n_clipped = int(summary["n_clipped"][leaf])
    return [*facts, f"{count_text(n_clipped)} clipped"] if n_clipped else facts


def leaf_number(forest: TreeEnsemble, leaf: int, summary: Any) -> int:
    """Give the number of a leaf that users know."""
    return leaf if summary is not None else int(forest.leaf_id[leaf])


def heading(forest: TreeEnsemble, tree: int, shares: ClassShares | None, log_odds: bool) -> str:
    """Say what the leaves of a classifier's tree speak of; empty for numbers."""
    name = class_of(forest, tree)
    if not name and multiplies(forest):
        return ""
    if not name:
        return "Leaves add to the logarithm of the prediction." if forest.link == "exp" else ""
    if not speaks_of_odds(forest):
        return f"Leaves add to the log-odds of {name}." if forest.link in {"logistic", "softmax"} else ""
    share = "" if shares is None else f" ({percent_text(float(shares.shares[0, shares.explained]))} of all rows)"
    return f"Probability of {name}{share}, {'log-odds' if log_odds else 'odds factors'} in leaves."


class _Lines:
    """Lines of a tree, each with what stands beside it."""

    def __init__(self, forest: TreeEnsemble, tree: int, wording: Wording, summary: Any) -> None:
        self.forest, self.tree, self.wording, self.summary = forest, tree, wording, summary
        self.first = int(forest.tree_offsets[tree])
        self.tests, self.sizes = node_tests(forest, tree, wording), cover_texts(forest, tree, summary)
        self.shares = class_shares(forest, tree, summary)
        self.range = common_range(forest, tree, wording)

    def text(self) -> str:
        """Join the lines; what stands beside them begins in one column."""
        lines = [(shown(text), facts) for text, facts in self._all()]
        width = max((len(text) for text, facts in lines if facts and len(text) <= WIDEST), default=0)
        return "\n".join(f"{text:<{width}}  {facts}" if facts else text for text, facts in lines)

    def _all(self) -> Iterator[tuple[str, str]]:
        """Children follow their test; trees may be deeper than Python's stack."""
        pending = [(0, "", 0)]
        while pending:
            node, test, depth = pending.pop()
            if test:
                yield (depth - 1) * "|   " + test, self._facts(node)
            if self.forest.feature[self.first + node] < 0:
                yield depth * "|   " + self._leaf(node), ""
                continue
            left = int(self.forest.left[self.first + node])
            pending += [(left + side, self.tests[node][side], depth + 1) for side in (1, 0)]

    def _facts(self, node: int) -> str:
        """Write the rows of a node and the share of its class."""
        if self.shares is None:
            return ""
        share = float(self.shares.shares[node, self.shares.explained])
        return f"{bar_text(share)} {percent_text(share)} of {self.sizes[node]}"

    def _leaf(self, node: int) -> str:
        forest, wording = self.forest, self.wording
        leaf = leaf_of_node(forest, self.first + node)
        facts = [self.sizes[node]] if self.sizes[node] else []
        if self.summary is not None:
            n_rows = f"{count_text(self.summary['n_rows'][leaf])} rows"
            weight = f"weight {number_text(forest.cover[self.first + node], wording.digits)}"
            facts = [n_rows] if facts == [n_rows] else [n_rows, weight]
            facts = [] if self.shares is not None and node and facts == [n_rows] else facts
        facts += leaf_facts(forest, leaf, self.summary, wording.digits)
        if forest.has_linear_leaves and np.isfinite(forest.leaf_range[leaf]).all() and not self.range:
            facts.append(f"clipped to {range_text(forest, leaf, wording)}")
        known = f"   ({', '.join(facts)})" if facts else ""
        return f"leaf {leaf_number(forest, leaf, self.summary)}: {self._value(node, leaf)}{known}"

    def _value(self, node: int, leaf: int) -> str:
        if not speaks_of_odds(self.forest):
            return value_text(self.forest, leaf, self.wording)
        share = None if self.shares is None else float(self.shares.shares[node, self.shares.explained])
        probability = probability_text(self.forest, leaf) if share is None else percent_text(share)
        if not self.wording.log_odds and not leaf_equation(self.forest, leaf, self.wording).terms:
            return probability or value_text(self.forest, leaf, self.wording)
        return ", ".join(part for part in (probability, value_text(self.forest, leaf, self.wording)) if part)
