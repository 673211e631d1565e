"""The equations of leaves as people read them: the strongest terms first, a feature's categories as one term."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasswood.base.typing import Array
from glasswood.base.wording import Wording, fixed_text, number_text, percent_text, quoted_name, signed_text, step_near
from glasswood.evaluate.linear import term_name
from glasswood.model.ensemble import LOGARITHM, MISSING, OF_NUMBERS, TreeEnsemble
from glasswood.model.facts import feature_name

EXACT = 17
"""Digits that write any number exactly."""

SHOWN_LEVELS = 3
"""Categories of a term in a text: the highest ones, and the lowest; one less where several terms have many."""


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


def equation_text(equation: Equation, wording: Wording) -> str:
    """Write an equation as a sum."""
    most = _shown_levels(equation, wording)

    def amount(value: float) -> str:
        return wording.number(signed_text(value, wording.digits - (wording.digits < EXACT)))

    if wording.style == "centered":
        return _centred_text(equation, wording, amount, most)
    constant = wording.number(number_text(equation.constant, wording.digits))
    parts = [constant] if equation.constant or not equation.terms else []
    for term in equation.terms:
        if term.is_centred:
            parts.append(f"+ {_joint_text(term, most, amount, wording)}")
            continue
        size = _signed_size(term, wording)
        parts.append(f"{size} {_said(term)}" if term.is_number else wording.text("if", size=size, name=term.name))
    if equation.n_smaller:
        parts.append(wording.text("and smaller", **_smaller(equation, wording)))
    return " ".join(parts).removeprefix("+ ")


def _signed_size(term: Term, wording: Wording) -> str:
    sign = wording.number("-" if term.coefficient < 0 else "+")
    return f"{sign} {wording.number(number_text(abs(term.coefficient), wording.digits))}"


def _smaller(equation: Equation, wording: Wording) -> dict[str, str]:
    return {"n": str(equation.n_smaller), "size": smaller_text(equation, False, wording)}


def _centred_text(equation: Equation, wording: Wording, amount: Callable[[float], str], most: int) -> str:
    """Write the value at the means of the leaf's rows, and what moves it: 3.28 at income = 7.1: + 0.23 per income."""
    numbers = [term for term in equation.terms if term.is_number]
    means = [_mean_text(term, wording) for term in numbers]
    parts = []
    for term in equation.terms:
        if term.is_centred:
            parts.append(_joint_text(term, most, amount, wording))
        elif term.is_number:
            parts.append(wording.text("per", size=_signed_size(term, wording), name=_said(term)))
        else:
            yes, no = term.coefficient * (1 - term.mean), -term.coefficient * term.mean
            parts.append(wording.text("if else", size=amount(yes), name=term.name, other=amount(no)))
    if equation.n_smaller:
        parts.append(wording.text("smaller", **_smaller(equation, wording)))
    value = wording.number(number_text(equation.value, wording.digits))
    if not parts:
        return value
    at = wording.text("value at", value=value, means=", ".join(means)) if means else value
    return f"{at}: {', '.join(parts)}"


def _mean_text(term: Term, wording: Wording) -> str:
    mean = wording.number(_near(term.mean, term.deviation))
    return f"{_said(term)} = {wording.with_unit(mean, term.name)}"


def _geometric_mean_text(term: Term, wording: Wording) -> str:
    """Write the number whose logarithm is the mean of the logarithms."""
    mean = math.exp(min(term.mean, 700.0))
    name = _number_name(term)
    return f"{name} = {wording.with_unit(wording.number(_near(mean, mean * min(term.deviation, 1.0))), name)}"


def _number_name(term: Term) -> str:
    """Name the number of a logarithm."""
    return quoted_name(term.name.removeprefix("log "))


def _joint_text(term: Term, most: int, write: Callable[[float], str], wording: Wording) -> str:
    """Write categories, or a curve, each against the mean of the leaf's rows."""
    if term.curve is not None:
        return f"{_said(term)} ({curve_text(term.curve, write, wording, term.name)})"
    return f"{_said(term)} ({levels_text(term, most, write)})"


def curve_text(curve: Curve, write: Callable[[float], str], wording: Wording, name: str) -> str:
    """Write where a curve goes, and what it changes over the middle 80 % of the rows."""
    low, turn, high = (
        wording.number(_near(value, curve.high - curve.low)) for value in (curve.low, curve.turn, curve.high)
    )
    high = wording.with_unit(high, name)
    if curve.turn == curve.turn:
        there, back = write(curve.to_turn), write(curve.change - curve.to_turn)
        return wording.text("curve turns", size=there, low=low, turn=turn, back=back, high=high)
    return wording.text("rising" if curve.change > 0 else "falling", size=write(curve.change), low=low, high=high)


def _near(value: float, size: float) -> str:
    """Write a number as exactly as it counts among numbers that are so far apart."""
    if not (0 < size < math.inf and math.isfinite(value)) or not 1e-6 < size < 1e15:
        return number_text(value, 3)
    return fixed_text(value, 1 - math.floor(math.log10(size)))


def _said(term: Term) -> str:
    """Write a term's name, in quotes if it reads like a number."""
    return quoted_name(term.name)


def rate_text(equation: Equation, wording: Wording) -> str:
    """Write a leaf of logarithms: its prediction at the means, without single categories, and what multiplies it.

    As an equation it is the exponential function of a sum.
    """
    if wording.style == "equation":
        return f"exp({equation_text(equation, wording)})"
    is_single = [not (term.is_centred or term.is_number) for term in equation.terms]
    apart = sum(term.coefficient * term.mean for term, own in zip(equation.terms, is_single, strict=True) if own)
    value = wording.number(exponential_text(equation.value - apart, wording.digits))
    means = [
        _geometric_mean_text(term, wording) if term.is_logarithm else _mean_text(term, wording)
        for term in equation.terms
        if term.is_number
    ]
    factors = odds_text(equation, wording, wording.digits)
    at = wording.text("value at", value=value, means=", ".join(means)) if means else value
    return f"{at}: {factors}" if factors else at


def exponential_text(logarithm: float, digits: int) -> str:
    """Write a number by its logarithm."""
    return number_text(math.exp(min(logarithm, 700.0)), digits)


def odds_text(equation: Equation, wording: Wording, digits: int | None = None) -> str:
    """Write what multiplies the odds, or a rate: a step of a number, a category, categories against the leaf's mean.

    A logarithm multiplies for every doubling of its number.
    """
    parts, most = [], _shown_levels(equation, wording)

    def factor(value: float) -> str:
        return wording.number(factor_text(value, digits))

    for term in equation.terms:
        if term.is_centred:
            parts.append(_joint_text(term, most, factor, wording))
        elif term.is_logarithm and digits is not None:
            size = factor(term.coefficient * math.log(2))
            parts.append(wording.text("per doubling", size=size, name=_number_name(term)))
        elif term.is_number:
            step = step_of(term)
            of = "per of" if term.name in wording.units else "per step"
            size = wording.with_unit(wording.number(number_text(step, 3)), term.name)
            parts.append(wording.text(of, size=factor(term.coefficient * step), step=size, name=term.name))
        else:
            parts.append(wording.text("if", size=factor(term.coefficient), name=term.name))
    if equation.n_smaller:
        size = smaller_text(equation, True, wording)
        parts.append(wording.text("smaller", n=str(equation.n_smaller), size=size))
    return ", ".join(parts)


def smaller_text(equation: Equation, are_factors: bool, wording: Wording) -> str:
    """Write how much the terms that are left out move the value, or odds and rates in percent."""
    if not are_factors:
        return wording.number(number_text(equation.smaller, 2))
    change = math.expm1(min(equation.smaller, 700.0))
    return f"{wording.number(number_text(100 * change, 2))} %"


def described(term: Term, are_factors: bool, wording: Wording) -> tuple[str, str, float, float]:
    """Name a term, write what is drawn beside it, and give the effect of one standard deviation and its error.

    The text is this effect; of categories what each of them adds, of curves what they change.
    """

    def write(amount: float) -> str:
        return wording.number(factor_text(amount) if are_factors else signed_text(amount, 3))

    if term.curve is not None:
        return term.name, curve_text(term.curve, write, wording, term.name), term.effect, math.nan
    if term.levels:
        text = levels_text(term, 2, write)
        return term.name, text.replace(", ...,", " …"), term.effect, math.nan
    error = term.error * (term.deviation if term.deviation == term.deviation else 1.0)
    return term.name, write(term.effect), term.effect, error


def step_of(term: Term) -> float:
    """Choose a round step of a number near its standard deviation in the leaf; 1 where that is not known, or for 0/1.

    Numbers that are 0 or 1 are known by their deviation, the largest that numbers between have at their mean.
    """
    is_binary = 0 < term.mean < 1 and abs(term.deviation**2 - term.mean * (1 - term.mean)) < 1e-9
    return step_near(term.deviation) if term.deviation > 0 and not is_binary else 1.0


def factor_text(log_odds: float, digits: int | None = None) -> str:
    """Write the factor of the odds, a very small one as a divisor; of a rate with `digits`."""
    if log_odds < math.log(0.01):
        return f"÷ {exponential_text(-log_odds, digits or 2)}"
    factor = math.exp(min(log_odds, 700.0))
    if digits is not None:
        return f"× {number_text(factor, digits)}"
    return f"× {factor:.2f}" if 0.5 <= factor < 2 else f"× {number_text(factor, 2)}"


def levels_text(term: Term, most: int, write: Callable[[float], str]) -> str:
    """List the categories of a term, the first and the last ones of many."""
    written = [f"{name} {write(amount)}" for name, amount in term.levels]
    if len(written) > most:
        written = [*written[: most - 1], "...", written[-1]]
    return ", ".join(written)


def _shown_levels(equation: Equation, wording: Wording) -> int:
    if wording.max_terms is None:
        return max((len(term.levels) for term in equation.terms), default=0)
    return SHOWN_LEVELS - (sum(len(term.levels) >= SHOWN_LEVELS for term in equation.terms) > 1)


def probability_text(forest: TreeEnsemble, leaf: int) -> str:
    """Write the probability of a leaf's class at the means of its terms; empty where a leaf tells no probability."""
    if forest.link != "logistic":
        return ""
    return percent_text(1 / (1 + math.exp(-float(np.clip(forest.leaf_value[leaf, 0], -700, 700)))))
