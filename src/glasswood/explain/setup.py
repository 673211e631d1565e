"""From the arguments of an explainer to the game that it explains, checked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from glasswood.base.device import find_gpus, is_cuda_usable
from glasswood.explain.background import make_background
from glasswood.explain.checks import (
    check_background,
    check_groups,
    check_range,
    checked_names,
    refuse_linear_leaves,
    refuse_negative_covers,
    refuse_unknown_means,
)
from glasswood.explain.game import Game
from glasswood.explain.players import make_players
from glasswood.explain.responses.response import is_margin, n_results
from glasswood.explain.shap_arguments import checked_outputs, translated
from glasswood.explain.stored import refuse_explainer
from glasswood.inputs import with_tables
from glasswood.loading import load

if TYPE_CHECKING:
    from glasswood.explain.game import Settings


def set_up(
    model: Any,
    settings: Settings,
    background: Any,
    weight: Any,
    groups: Any,
    names: Any,
    shap_arguments: dict[str, Any],
) -> tuple[Game, Settings]:
    """Make the game of an explainer's arguments, and settings with the names that explanations show.

    Parameters
    ----------
    model, background, groups, shap_arguments
        As `Explainer` takes them.
    settings : Settings
    weight, names
        Weights of the background rows, and names of the features.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        As for `Explainer`.
    """
    forest, algorithm = load(model).ensemble, settings.algorithm
    refuse_explainer(model)
    given = background, weight, settings.output, shap_arguments
    forest, background, weight, output = translated(*given, forest)
    if settings.rule == "exact" and is_margin(output, forest):
        output = "margin"
    check_background(weight, background is not None, algorithm, output)
    if algorithm == "tables" and settings.rule == "exact" and output != "margin":
        raise ValueError("algorithm='tables' does not support exact values of responses; pass algorithm='auto'")
    if background is None:
        refuse_negative_covers(forest)
        refuse_unknown_means(forest)
    if algorithm in {"paths", "tables"}:
        refuse_linear_leaves(forest, f"algorithm={algorithm!r}", "leave algorithm='auto'")
    players = make_players(groups, forest)
    n_outputs = n_results(forest, output, settings.rule)
    shown = checked_names(names, players.n), checked_outputs(shap_arguments.get("output_names"), n_outputs)
    check_groups(players.groups, algorithm)
    check_range(forest, settings.dtype)
    if background is not None:
        forest = with_tables(background, forest)
        gpu = find_gpus(settings.device)[0] if settings.is_for_gpus and is_cuda_usable() else None
        background = make_background(background, weight, forest, settings.n_jobs, gpu)
    settings = replace(settings, output=output, feature_names=shown[0], output_names=shown[1])
    return Game(forest, players, background), settings
