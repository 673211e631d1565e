"""The players of an explanation: features, or groups of features that a coalition knows together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasswood.base.escapes import quoted, shown
from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, Int32s
from glasswood.inputs.matching import index_of_feature
from glasswood.inputs.shown import with_source_values
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_name

JOINT = " + "
"""Between the columns that a feature comes from."""

TREES = "tree_offsets", "tree_output", "tree_weight", "base_score"
WALKED = (*TREES, "threshold", "left", "default_left", "cover", "leaf_value", "leaf_id")
"""Fields of a forest of constant leaves that walks of codes read, beside its features."""

MOST_ORDER = 4
"""Players of a set whose index can be asked for."""


@dataclass(frozen=True, eq=False)
class Players:
    """Who plays: the groups in their order, then the features that are in none, in the forest's.

    Attributes
    ----------
    names : tuple of str, or None
        None where features have none and there are no groups.
    of_feature : int32, (F,)
        Player of each feature.
    groups : dict of str to list of int
        Features of each group.
    columns : tuple of tuples of str
        With groups="source": columns that each player stands for.
    """

    names: tuple[str, ...] | None
    of_feature: Int32s
    groups: dict[str, list[int]]
    columns: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def n(self) -> int:
        """How many there are."""
        return int(self.of_feature.max(initial=-1)) + 1

    def data(self, rows: Array, forest: TreeEnsemble, source: Mapping[str, Array]) -> Array:
        """Values of the players for plots: that of the column that one stands for, NaN of a group, which has several.

        Parameters
        ----------
        rows : (n, F)
            What `own_values` made.
        forest : TreeEnsemble
        source : dict of str to array
            What `source_values` made of a pipeline's columns, or of those of target statistics.
        """
        if source:
            rows = with_source_values(rows, forest.transform.shown_columns, source)
        if not self.groups:
            return rows
        result = np.full((len(rows), self.n), np.nan, rows.dtype)
        single = np.bincount(self.of_feature, minlength=self.n)[self.of_feature] == 1
        result[:, self.of_feature[single]] = rows[:, single]
        columns = [part[0] if len(part) == 1 else None for part in self.columns]
        return with_source_values(result, columns, source) if columns else result


def by_column(values: Array, players: Players) -> tuple[Array, tuple[str, ...]]:
    """Divide the values of players that stand for several columns equally among these."""
    if not players.columns:
        raise ValueError('by_column divides the values of players "a + b"; make the explainer with groups="source"')
    columns = tuple(dict.fromkeys(column for part in players.columns for column in part))
    result = np.zeros((len(values), len(columns), *values.shape[2:]), values.dtype)
    for place, part in enumerate(players.columns):
        for column in part:
            result[:, columns.index(column)] += values[:, place] / len(part)
    return result, columns


def over_players(forest: TreeEnsemble, players: Players) -> TreeEnsemble:
    """Return the forest as if players were its features, for walks of rows that are codes of the features.

    Only what such walks read is there: codes stand for categories, missing values and all else that features have.
    """
    if not players.groups:
        return forest
    feature = np.where(forest.feature >= 0, players.of_feature[forest.feature], -1).astype(np.int32)
    return TreeEnsemble(**{name: getattr(forest, name) for name in WALKED}, feature=feature, n_features=players.n)


def make_players(groups: Any, forest: TreeEnsemble) -> Players:
    """Check groups of features.

    Raises
    ------
    TypeError, ValueError
        If groups is not a dict of names to features, a group is empty or has the name of a feature outside of it, or
        a feature is unknown or in two groups.
    """
    n_features, names = forest.n_features, forest.feature_names
    if groups is None:
        return Players(names, np.arange(n_features, dtype=np.int32), {})
    columns: tuple[tuple[str, ...], ...] = ()
    if isinstance(groups, str) and groups == "source":
        if forest.transform is None:  # features are the columns
            columns = tuple((feature_name(forest, feature),) for feature in range(n_features))
            return Players(names, np.arange(n_features, dtype=np.int32), {}, columns)
        groups, columns = _by_source(forest)
    if not isinstance(groups, Mapping) or not groups or not all(isinstance(name, str) for name in groups):
        raise TypeError(f"groups is {quoted(groups)}, expected a dict of a name to a list of features for each group")
    of_feature = np.full(n_features, -1, np.int32)
    members: dict[str, list[int]] = {}
    for number, (name, features) in enumerate(groups.items()):
        members[name] = _members(name, features, forest)
        for feature in members[name]:
            if of_feature[feature] >= 0:
                other = list(groups)[of_feature[feature]]
                where = f"the groups {other!r} and {name!r}" if other != name else f"group {name!r} twice"
                named = feature_name(forest, feature)
                raise ValueError(f"feature {quoted(named)} is in {shown(where)}; a feature can be in only one group")
            of_feature[feature] = number
    rest = np.flatnonzero(of_feature < 0)
    of_feature[rest] = len(members) + np.arange(len(rest))
    alone = [feature_name(forest, feature) for feature in rest.tolist()]
    if same := sorted(set(members) & set(alone)):
        raise ValueError(f"group {quoted(same[0])} has the name of a feature that is not in it; give it another name")
    return Players((*members, *alone), of_feature, members, columns)


def _by_source(forest: TreeEnsemble) -> tuple[dict[str, list[int]], tuple[tuple[str, ...], ...]]:
    """Features that a pipeline's steps have made of the same columns, one-hot columns say, and these columns."""
    sources = getattr(forest.transform, "source_columns", None)
    if sources is None:
        raise ValueError(
            "groups='source' groups the features that a pipeline, or CatBoost, makes from a column; this forest's "
            "transform does not say which columns features come from; pass a dict of groups"
        )
    found: dict[tuple[str, ...], list[int]] = {}
    for feature, source in enumerate(sources):
        found.setdefault(source, []).append(feature)
    named = {JOINT.join(source): features for source, features in found.items()}
    if len(named) < len(found):
        raise ValueError(
            f"a column has the name of several columns joined by {quoted(JOINT)}; rename it for groups='source'"
        )
    return named, tuple(found)


def sets_of(sets: Any, players: Players) -> Int32s:
    """Look up sets of 1 to 4 players each: (n_sets, 4), padded with -1."""
    if isinstance(sets, str) or not hasattr(sets, "__iter__"):
        raise TypeError(f"sets is {quoted(sets)}, expected a list of sets of features")
    rows = [_set_of(one, players) for one in sets]
    return np.array(rows, np.int32).reshape(len(rows), MOST_ORDER)


def _set_of(one: Any, players: Players) -> list[int]:
    if isinstance(one, str) or not hasattr(one, "__iter__"):
        raise TypeError(f"sets holds {quoted(one)}, expected sets of 1 to {MOST_ORDER} features, a tuple each")
    chosen = tuple(one)
    if not 1 <= len(chosen) <= MOST_ORDER:
        raise ValueError(f"sets holds {quoted(chosen)} of {len(chosen)} features, expected 1 to {MOST_ORDER}")
    found = [index_of_feature(feature, players.n, players.names, "sets") for feature in chosen]
    if len(set(found)) < len(found):
        raise ValueError(f"sets holds {quoted(chosen)}, which names a feature twice; name it once")
    return found + [-1] * (MOST_ORDER - len(found))


def _members(name: str, features: Sequence[int | str], forest: TreeEnsemble) -> list[int]:
    if isinstance(features, str) or not hasattr(features, "__iter__"):
        raise TypeError(f"group {quoted(name)} is {quoted(features)}, expected a list of features")
    known = forest.n_features, forest.feature_names, f"group {name!r}"
    found = [index_of_feature(feature, *known) for feature in features]
    if not found:
        raise ValueError(f"group {quoted(name)} has no features; name at least one")
    return found
