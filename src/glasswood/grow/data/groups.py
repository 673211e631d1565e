"""Features that may act together: groups, of which a tree uses one.

Everything that a tree computes is then a function of one group: the splits on a path, the terms of its leaf, and what
they are clipped to. Trees that are added up keep to the groups as each of them does.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.typing import Doubles, Int64s

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingData

KINDS = ("pairwise", "no_interactions")

CANDIDATES = 2
"""Groups whose trees are searched for; a regression ranks them."""

BINS = 8
"""Bins of a feature in this regression."""

MOST_CROSSED = 6
"""Most features of a group whose products are in it."""

MOST_ROWS = 20_000
"""Most rows of the regression; of more rows, it uses an even sample."""

Groups = tuple[tuple[int, ...], ...]


def groups_of(interaction_cst: Any, names: list[str]) -> Groups:
    """Read the groups of `interaction_cst`; features in none of them are another group.

    Raises
    ------
    ValueError
        If it is another text, or names an unknown feature.
    TypeError
        If it is not a sequence of groups.
    """
    n_features = len(names)
    if interaction_cst is None:
        return ()
    if isinstance(interaction_cst, str):
        if interaction_cst not in KINDS:
            raise ValueError(f"interaction_cst is {quoted(interaction_cst)}, expected {' or '.join(KINDS)}, or groups")
        size = min(2 if interaction_cst == "pairwise" else 1, n_features)
        return tuple(itertools.combinations(range(n_features), size))
    try:
        given = [tuple(group) for group in interaction_cst if not isinstance(group, str)]
    except TypeError:
        given = []
    if not given or len(given) != len(interaction_cst):
        raise TypeError(
            f"interaction_cst is {quoted(interaction_cst)}, expected groups of features such as [[0, 1], [2]]"
        )
    places: dict[Any, int] = {**dict(enumerate(range(n_features))), **{name: k for k, name in enumerate(names)}}
    for feature in itertools.chain(*given):
        if feature not in places:
            raise ValueError(
                f"interaction_cst names {quoted(feature)}, expected columns of X: 0 to {n_features - 1} or names"
            )
    groups = [tuple(sorted({places[feature] for feature in group})) for group in given]
    rest = tuple(sorted(set(range(n_features)).difference(*groups)))
    distinct = dict.fromkeys([*groups, *([rest] if rest else [])])
    largest = tuple(group for group in distinct if not any(set(group) < set(other) for other in distinct))
    return () if len(largest[0]) == n_features else largest


def constraints_text(
    signs: Int64s | None, term_signs: Int64s | None, interaction_cst: Any, groups: Groups, names: list[str]
) -> str:
    """Say what predictions and equations keep to, as it follows an objective; empty without constraints."""
    told = []
    for sign, text in ((1, "predictions rise with {}"), (-1, "predictions fall with {}")):
        told += _told(text, signs, sign, names)
    for sign, text in ((1, "coefficients of {} are positive"), (-1, "coefficients of {} are negative")):
        told += _told(text, term_signs, sign, names)
    if interaction_cst == "no_interactions":
        told.append("no features act together")
    elif interaction_cst == "pairwise":
        told.append("at most two features act together")
    elif groups:
        told.append(f"features act together within {', '.join(f'({_joined(group, names)})' for group in groups)} only")
    return "".join(f"; {text}" for text in told)


def _told(text: str, signs: Int64s | None, sign: int, names: list[str]) -> list[str]:
    own = [] if signs is None else [names[k] for k in np.flatnonzero(signs == sign)]
    return [text.format(" and ".join(own))] if own else []


def _joined(group: tuple[int, ...], names: list[str]) -> str:
    return ", ".join(names[k] for k in group)


def most_promising(data: TrainingData) -> Groups:
    """Choose the groups of which steps of features, and products of pairs, leave least of the target's squares."""
    columns, target, weight = data
    step = -(-len(target) // MOST_ROWS)
    X, y, root = columns.X[::step], target[::step], np.sqrt(weight[::step])
    y = (y - y[0]) / (np.abs(y - y[0]).max() or 1.0)
    steps = [_steps(x) for x in X.T]
    places = np.column_stack([_places(x) for x in X.T])
    left = [_left(_design(group, steps, places), y, root) for group in columns.groups]
    return tuple(columns.groups[k] for k in np.argsort(left, kind="stable")[:CANDIDATES])


def _design(group: tuple[int, ...], steps: list[Doubles], places: Doubles) -> Doubles:
    products = [places[:, a] * places[:, b] for a, b in itertools.combinations(group, 2) if len(group) <= MOST_CROSSED]
    return np.column_stack([np.ones(len(places)), *(steps[feature] for feature in group), *products])


def _left(design: Doubles, y: Doubles, root: Doubles) -> float:
    """Squares that a regression leaves, each parameter priced as one row in n."""
    solution, _, rank, _ = np.linalg.lstsq(design * root[:, None], y * root, rcond=1e-8)
    squares = float(np.sum(((y - design @ solution) * root) ** 2))
    return squares / max(len(y) - int(rank), 1) ** 2


def _places(x: Doubles) -> Doubles:
    """Ranks from -1 to 1, 0 where missing."""
    present = ~np.isnan(x)
    result = np.zeros(len(x))
    result[present] = 2 * np.searchsorted(np.sort(x[present]), x[present]) / max(int(present.sum()), 1) - 1
    return result


def _steps(x: Doubles) -> Doubles:
    """Columns that are 1 from each of a feature's quantiles on, and one for its number."""
    present = ~np.isnan(x)
    if not present.any():
        return np.zeros((len(x), 0))
    cuts = np.unique(np.quantile(x[present], np.arange(1, BINS) / BINS, method="higher"))
    number = np.where(present, x, np.mean(x[present]))
    spread = float(np.std(number)) or 1.0
    return np.column_stack([(x[:, None] >= cuts).astype(np.float64), (number - number.mean()) / spread, ~present])
