"""Explainers in `.silva` files: forest, settings, and of a background only what the forest's splits ask of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from silva.explain.background import Background, mean_margin
from silva.explain.condensed import condense, expand
from silva.explain.stored_schema import ARRAYS, KIND, SETTINGS, VERSION, check_version, validate_stored
from silva.storage import Attachment, forest_bytes, load_attachment, name_of, naming, read_attachment_note

if TYPE_CHECKING:
    from silva.ensemble import TreeEnsemble
    from silva.explain.game import Game, Settings


def holds_explainer(model: object) -> bool:
    """Whether this is the path of a file that `Explainer.save` wrote."""
    if not isinstance(model, str | os.PathLike):
        return False
    return (read_attachment_note(model) or {}).get("kind") == KIND


def refuse_explainer(model: object) -> None:
    """Raise ValueError where a forest is expected and this is the path of an explainer's file."""
    if holds_explainer(model):
        raise ValueError(
            f"{model} holds an explainer, with its background and settings; silva.Explainer.load reads it, "
            "silva.load its forest alone"
        )


def explainer_bytes(game: Game, settings: Settings) -> bytes:
    """Content of the file that `Explainer.save` would write."""
    return forest_bytes(game.forest, attachment_of(game, settings))


def attachment_of(game: Game, settings: Settings) -> Attachment:
    """Collect the settings of an explainer and what is left of its background."""
    if not isinstance(settings.output, str):
        raise TypeError("output is a callable, which files do not hold; explain an output of silva's, or pickle it")
    groups = game.players.groups or None
    kept = {name: groups if name == "groups" else getattr(settings, name) for name in SETTINGS}
    arrays = {} if game.background is None else condense(game.background, game.forest)
    held = next(kind for kind, names in ARRAYS.items() if set(names) == arrays.keys())
    return Attachment({"kind": KIND, "version": VERSION, "settings": kept, "background": held}, arrays)


def load_explainer(
    path: str | os.PathLike[str] | bytes, n_jobs: int | None
) -> tuple[TreeEnsemble, dict[str, Any], Background | None]:
    """Read forest, settings and background, whose expected value follows from its rows.

    Raises
    ------
    ValueError
        If the file holds no explainer, one of a later version, or is truncated or corrupt.
    """
    ensemble, attachment = load_attachment(path)
    if attachment is None or attachment.about["kind"] != KIND:
        raise ValueError(f"{name_of(path)} holds a forest and no explainer; pass it to silva.Explainer")
    check_version(attachment, name_of(path))
    forest = ensemble
    with naming(path, ValueError):
        validate_stored(attachment, forest)
        settings = attachment.about["settings"]
        if attachment.about["background"] is None:
            return forest, settings, None
        rows, weight = expand(attachment.arrays)
        expected = mean_margin(forest, rows, weight, n_jobs)
    return forest, settings, Background(rows, weight, int(weight.sum()), expected)
