"""The equations of leaves as people read them: the strongest terms first, a feature's categories as one term."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasswood.base.typing import Array
from glasswood.base.wording import Wording
from glasswood.evaluate.linear import term_name
from glasswood.model.ensemble import LOGARITHM, MISSING, OF_NUMBERS, TreeEnsemble
from glasswood.model.facts import feature_name

EXACT = 17
"""Digits that write any number exactly."""

MIDDLE, NODES = 1.2815515655446004, 16
"""Deviations of a normal distribution within which 80 % lie, and nodes of sums over one."""

LEAST, MOST = 1e-300, 1e300
"""Smallest and largest number of a curve."""

DRAWN = 25
"""Points of the picture of a curve."""

SLIGHT = 0.05
"""Part of a curve's way up or down below which the other way is not spoken of."""

HIDING = 3
"""Terms that those left out may not outweigh together."""


ENGLISH = Wording()
"""How texts are written if nobody says otherwise."""


@dataclass(frozen=True, eq=False)
class Curve:
    """What a feature with a logarithm adds over most of a leaf's rows.

    Attributes
    ----------
    low, high : float
        Ends of the middle 80 % of the leaf's rows, as if the logarithm were normal there, within the leaf's conditions.
    change : float
        What the term adds at the high end, less what it adds at the low one.
    turn : float
        Where the curve turns between the ends; NaN if it rises or falls throughout.
    to_turn : float
        What it adds there, less what it adds at the low end.
    points : sequence of (float, float)
        Numbers from one end to the other, and what the term adds there, less what it adds at the low end.
    """

    low: float
    high: float
    change: float
    turn: float = math.nan
    to_turn: float = 0.0
    points: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, eq=False)
class Term:
    """What a feature adds to the values of a leaf.

    Attributes
    ----------
    feature : int
    name : str
        Name of the feature; for a logarithm ``"log area"``, for a single category ``"smoker = yes"``.
    is_number : bool
    coefficient : float
        Coefficient of the number, or of the single category; NaN for several categories.
    effect : float
        Standard deviation of what the term adds over the leaf's training rows, with the coefficient's sign; of numbers
        whose deviation the model does not know the coefficient.
    mean, deviation : float
        Mean and deviation of the number or category over the leaf's rows; the deviation is NaN if the model has none.
    error : float
        Standard error of the coefficient, NaN where it is not known.
    levels : sequence of (str, float)
        Categories that the leaf's rows have, and what each adds against their mean, the highest first.
    curve : Curve or None
        Of a feature with a linear and a logarithmic term, which are one.
    """

    feature: int
    name: str
    is_number: bool
    coefficient: float
    effect: float
    mean: float = 0.0
    deviation: float = float("nan")
    error: float = float("nan")
    levels: Sequence[tuple[str, float]] = ()
    curve: Curve | None = None
    is_logarithm: bool = False

    @property
    def is_centred(self) -> bool:
        """Whether the term is 0 on average over the leaf's rows."""
        return bool(self.levels) or self.curve is not None


@dataclass(frozen=True, eq=False)
class Equation:
    """A leaf's equation as it is shown.

    Attributes
    ----------
    value : float
        At the means of all terms.
    constant : float
        What the shown terms are added to; those left out are at their means.
    terms : list of Term
        Those that are shown, the strongest first.
    n_smaller : int
        Terms that are left out although they count.
    smaller : float
        Standard deviation of what these add, as if they were independent.
    """

    value: float
    constant: float
    terms: list[Term]
    n_smaller: int
    smaller: float


def multiplies(forest: TreeEnsemble) -> bool:
    """Whether leaves of grown trees, or with equations, are logarithms of predictions, or of factors of these.

    Texts then say what the terms multiply: rates and amounts, as people count them.
    """
    is_own = forest.source == "glasswood" or forest.has_linear_leaves
    return forest.link == "exp" and forest.leaf_width == 1 and forest.n_outputs == 1 and is_own


def leaf_equation(forest: TreeEnsemble, leaf: int, wording: Wording, errors: Array | None = None) -> Equation:
    """Choose the terms of a leaf that are shown: none that rounding hides, and the strongest ones of these."""
    value, least, are_factors = float(forest.leaf_value[leaf, 0]), 0.0, multiplies(forest)
    terms = leaf_terms(forest, leaf, errors, wording.digits >= EXACT, wording)
    if wording.digits < EXACT:
        terms = with_curves(forest, leaf, terms, wording.style == "centered" and not are_factors)
    if len(forest.linear_deviation):
        size = 1.0 if are_factors else max(abs(value), math.hypot(*(term.effect for term in terms)), 1e-300)
        least = 0.5 * 10.0 ** (math.floor(math.log10(size)) - wording.digits + 1)
    terms = [term for term in terms if abs(term.effect) >= least]
    shown = terms if wording.max_terms is None else terms[: wording.max_terms]
    while sum(abs(term.effect) < _spread(terms[len(shown) :]) for term in shown) >= HIDING:
        shown = terms[: len(shown) + 1]
    constant = value - sum(term.coefficient * term.mean for term in shown if not term.is_centred)
    rest = _spread(terms[len(shown) :])
    return Equation(value, constant if abs(constant) >= least else 0.0, shown, len(terms) - len(shown), rest)


def _spread(terms: Sequence[Term]) -> float:
    """Estimate the standard deviation of what terms add, as if they were independent."""
    return math.hypot(*(term.effect for term in terms))


def with_curves(forest: TreeEnsemble, leaf: int, terms: list[Term], joins_all: bool) -> list[Term]:
    """Join the linear and the logarithmic term of a feature, with `joins_all` also logarithms alone.

    Both are large where they cancel. Over the rows of the leaf, the logarithm counts as normal with its mean and
    deviation. It is left out where the leaf's conditions let no positive number through, for there it adds nothing.
    """
    terms = [term for term in terms if not term.is_logarithm or _limits_of(forest, leaf, term.feature)[1] > 0]
    numbers: dict[int, dict[bool, Term]] = {}
    for term in terms:
        if term.is_number and term.deviation > 0:
            numbers.setdefault(term.feature, {})[term.is_logarithm] = term
    joined = {
        feature: _curved(forest, leaf, own[True], own.get(False))
        for feature, own in numbers.items()
        if True in own and (joins_all or False in own)
    }
    found = [term for term in terms if not (term.is_number and term.deviation > 0 and term.feature in joined)]
    return sorted([*found, *joined.values()], key=lambda term: -abs(term.effect))


def _curved(forest: TreeEnsemble, leaf: int, logarithm: Term, linear: Term | None) -> Term:
    """Make one term of a feature's logarithm and its linear term."""
    slope = 0.0 if linear is None else linear.coefficient

    def added(x: float) -> float:
        return slope * x + logarithm.coefficient * math.log(x)

    place, weight = np.polynomial.hermite_e.hermegauss(NODES)
    logs = logarithm.mean + logarithm.deviation * np.array([-MIDDLE, MIDDLE, *place])
    numbers = np.exp(np.clip(logs, math.log(LEAST), math.log(MOST)))
    limits = _limits_of(forest, leaf, logarithm.feature)
    low, high = (min(max(end, limits[0]), limits[1]) for end in numbers[:2].tolist())
    values = np.array([added(x) for x in numbers[2:].tolist()])
    weight = weight / weight.sum()
    scale = float(np.abs(values).max()) or 1.0  # squares of large values are infinite
    deviation = scale * math.sqrt(float(weight @ ((values - weight @ values) / scale) ** 2))
    turn = -logarithm.coefficient / slope if slope else math.nan
    points = [(x, added(x) - added(low)) for x in np.linspace(low, high, DRAWN).tolist()]
    curve = Curve(low, high, added(high) - added(low), points=points)
    ways = [abs(added(turn) - added(end)) for end in (low, high)] if low < turn < high else [0.0]
    if min(ways) > SLIGHT * max(ways):
        curve = Curve(low, high, curve.change, turn, added(turn) - added(low), points)
    effect = math.copysign(deviation, curve.change)
    name = feature_name(forest, logarithm.feature)
    return Term(logarithm.feature, name, False, math.nan, effect, curve=curve)


def _limits_of(forest: TreeEnsemble, leaf: int, feature: int) -> tuple[float, float]:
    """Find the ends of a feature's numbers that the tests on the way to a leaf let through."""
    low, high = -math.inf, math.inf
    node = int(np.flatnonzero(forest.feature < 0)[leaf])
    root = int(forest.tree_offsets[np.searchsorted(forest.tree_offsets, node, side="right") - 1])
    while node > root:
        first = forest.left[root:node]
        is_parent = (forest.feature[root:node] >= 0) & ((first == node - root) | (first + 1 == node - root))
        parent = root + int(np.flatnonzero(is_parent)[0])
        is_set = forest.is_categorical and forest.category_set[parent] >= 0
        limit = float(forest.threshold[parent])
        if forest.feature[parent] == feature and not is_set and math.isfinite(limit):
            is_left = node - root == forest.left[parent]
            low, high = (low, min(high, limit)) if is_left else (max(low, limit), high)
        node = parent
    return low, high


def leaf_terms(
    forest: TreeEnsemble,
    leaf: int,
    errors: Array | None = None,
    keeps_unseen: bool = False,
    wording: Wording = ENGLISH,
) -> list[Term]:
    """List the terms of a leaf's equation, the strongest first; `errors` are those of all terms of the forest.

    Categories that no row of the leaf has, such as missing ones, are left out, if not told else.
    """
    if not forest.has_linear_leaves:
        return []
    at = np.arange(*forest.linear_offsets[leaf : leaf + 2])
    found = []
    for feature in dict.fromkeys(forest.linear_feature[at].tolist()):
        own = at[forest.linear_feature[at] == feature]
        is_level = ~np.isin(forest.linear_category[own], OF_NUMBERS)
        found += [_single(forest, int(term), errors, wording) for term in own[~is_level]]
        levels = own[is_level & (keeps_unseen | (forest.linear_mean[own] != 0))]
        if len(levels) == 1:
            found.append(_single(forest, int(levels[0]), errors, wording))
        elif len(levels):
            found.append(_of_levels(forest, feature, levels, wording))
    return sorted(found, key=lambda term: -abs(term.effect))


def _single(forest: TreeEnsemble, at: int, errors: Array | None, wording: Wording) -> Term:
    feature, category = int(forest.linear_feature[at]), int(forest.linear_category[at])
    coefficient, mean = float(forest.linear_coefficient[at]), float(forest.linear_mean[at])
    is_number = category in OF_NUMBERS
    if not is_number and 0 <= mean <= 1:
        deviation = math.sqrt(mean * (1 - mean))
    else:
        deviation = float(forest.linear_deviation[at]) if len(forest.linear_deviation) else float("nan")
    return Term(
        feature,
        term_text(forest, feature, category, wording),
        is_number,
        coefficient,
        coefficient * (1.0 if math.isnan(deviation) else deviation),
        mean,
        deviation,
        float("nan") if errors is None else float(errors[at]),
        is_logarithm=category == LOGARITHM,
    )


def term_text(forest: TreeEnsemble, feature: int, category: int, wording: Wording) -> str:
    """Name what a term takes of its feature, in the language of the text."""
    if category == MISSING:
        return wording.text("is missing", name=feature_name(forest, feature))
    return term_name(forest, feature, category)


def _of_levels(forest: TreeEnsemble, feature: int, terms: Array, wording: Wording) -> Term:
    """Join the categories of a feature, those without a coefficient too, about the mean of the leaf's rows."""
    shares, amounts = forest.linear_mean[terms], forest.linear_coefficient[terms]
    centre, rest = float(shares @ amounts), max(0.0, 1 - float(shares.sum()))
    categories = forest.linear_category[terms].tolist()
    table = forest.categories[feature] if forest.categories else None
    missing = wording.text("missing")
    named = {category: missing if category == MISSING else _category(table, category) for category in categories}
    levels = [
        (named[category], float(amount) - centre)
        for category, amount, share in zip(categories, amounts, shares, strict=True)
        if share > 0
    ]
    if rest > 1e-9:
        others = [] if table is None else [code for code in range(len(table)) if code not in named]
        levels.append((_category(table, others[0]) if len(others) == 1 else wording.text("others"), -centre))
    effect = math.sqrt(float(shares @ (amounts - centre) ** 2) + rest * centre**2)
    ordered = sorted(levels, key=lambda level: -level[1])
    return Term(feature, feature_name(forest, feature), False, float("nan"), effect, levels=ordered)


def _category(table: Any, category: int) -> str:
    return str(category if table is None else table[category])
