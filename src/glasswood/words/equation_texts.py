"""Texts of equations: sums, factors of odds and rates, levels of categories, curves."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from glasswood.base.wording import Wording, fixed_text, number_text, percent_text, quoted_name, signed_text, step_near
from glasswood.model.ensemble import TreeEnsemble
from glasswood.words.equations import EXACT, Curve, Equation, Term

SHOWN_LEVELS = 3
"""Categories of a term in a text: the highest ones, and the lowest; one less where several terms have many."""


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
