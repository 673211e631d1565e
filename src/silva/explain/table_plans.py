"""Plans of tables, which explainers of one forest share: a plan depends on the forest, not on the background."""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from silva import _core
from silva.parallel import n_threads

if TYPE_CHECKING:
    from silva.forest import Forest
    from silva.typing import Int32s

TABLES: dict[str, Any] = {"float32": _core.SubtreeTables32, "float64": _core.SubtreeTables64}

MOST_PLANS, MOST_BYTES = 2, 2**25
"""Plans that a forest keeps for explainers to come, and bytes of each; larger ones live as long as an explainer."""


class SharedPlan:
    """A plan.

    Parameters
    ----------
    planned : SubtreeTables32 or SubtreeTables64
        Not filled.

    Attributes
    ----------
    n_subtrees : int
    n_bytes : int
        Of the plan alone.
    """

    def __init__(self, planned: Any) -> None:
        self._planned = planned
        self.n_subtrees: int = planned.n_subtrees
        self.n_bytes: int = planned.plan_bytes

    def tables(self) -> Any:
        """Tables to be filled."""
        return self._planned.like()


class ForestPlans:
    """Plans of one forest."""

    def __init__(self) -> None:
        self.living: weakref.WeakValueDictionary[tuple[Any, ...], SharedPlan] = weakref.WeakValueDictionary()
        self.kept: deque[SharedPlan] = deque(maxlen=MOST_PLANS)


_plans: weakref.WeakKeyDictionary[Forest, ForestPlans] = weakref.WeakKeyDictionary()


def shared_plan(
    forest: Forest, player_of: Int32s, settings: tuple[str, int, bool, bool, bool], n_jobs: int | None
) -> SharedPlan:
    """Lay tables out, or find a plan of the same forest, players and settings.

    Parameters
    ----------
    forest : Forest
    player_of : (F,)
    settings
        dtype, table_bytes, forced, of_pairs and has_background of `TableRunner`.
    n_jobs : int or None
    """
    plans, key = _plans.setdefault(forest, ForestPlans()), (player_of.tobytes(), *settings)
    found = plans.living.get(key)
    if found is None:
        found = SharedPlan(TABLES[settings[0]](forest, player_of, *settings[1:], n_threads(n_jobs)))
        plans.living[key] = found
    if found.n_bytes <= MOST_BYTES and found not in plans.kept:
        plans.kept.append(found)
    return found
