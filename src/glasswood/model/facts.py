"""Facts about a forest in words, for `glasswood info`, notebooks and reports."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

import numpy as np

from glasswood.base.escapes import markup, shown
from glasswood.model.ensemble import TreeEnsemble

SHOWN_NAMES = 12


def forest_facts(forest: TreeEnsemble) -> dict[str, str]:
    """Name source, objective and sizes of a forest."""
    names = f" ({_listed(forest.feature_names)})" if forest.feature_names else ""
    return {
        "source": shown(forest.source or "unknown"),
        **_objective(forest),
        "trees": f"{forest.n_trees:,}",
        "leaves": f"{forest.n_leaves:,}",
        "depth": str(forest.depth),
        "features": f"{forest.n_features:,}{names}",
        **_open_tables(forest),
        "outputs": _outputs(forest),
        "row type": forest.threshold.dtype.name,
        "memory": _bytes_text(_n_bytes(forest)),
        **_checked(forest),
        **_metadata(forest),
    }


def _checked(forest: TreeEnsemble) -> dict[str, str]:
    """Say on how many rows the forest was compared with its library; glasswood's own have none to compare with."""
    if forest.source == "glasswood":
        return {}
    if (checked := forest.checked) is None:
        return {"checked": "no, a file or check=False"}
    same = f"{checked.rows} rows as the library, differing by at most {checked.difference:.1e}"
    left_out = f"not: {'; '.join(shown(what) for what in checked.unchecked)}" if checked.unchecked else ""
    return {"checked": "; ".join(filter(None, [same if checked.rows else "", left_out])) or "no"}


def _metadata(forest: TreeEnsemble) -> dict[str, str]:
    """Write what was said of the model when it was saved."""
    if not forest.metadata:
        return {}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in forest.metadata.items()}
    return {"metadata": shown("; ".join(f"{name} = {text}" for name, text in texts.items()))}


def _open_tables(forest: TreeEnsemble) -> dict[str, str]:
    """Name the columns that LightGBM's tables of categories may belong to, where the model leaves it open."""
    if not forest.open_tables:
        return {}
    names = feature_names(forest)
    could = _listed(names[i] for i in np.flatnonzero(forest.table_places.any(axis=0)))
    return {"tables": f"{len(forest.open_tables)} of categories, of columns among {could}"}


def _bytes_text(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:,.1f} MiB" if n_bytes >= 2**20 else f"{n_bytes / 2**10:.1f} KiB"


def _objective(forest: TreeEnsemble) -> dict[str, str]:
    """Name the objective, and apart from it what glasswood's own forests keep to."""
    if held := constraints(forest):
        return {"objective": shown(forest.objective.partition("; ")[0]), "constraints": held}
    return {"objective": shown(forest.objective or "unknown")}


def constraints(forest: TreeEnsemble) -> str:
    """Name what predictions of a forest of glasswood's own keep to: its objective says so behind a semicolon."""
    return shown(forest.objective.partition("; ")[2]) if forest.source == "glasswood" else ""


CUT_SHORT = "the time limit ended the search"
"""What the objective of a tree says whose search had hardly begun."""


def is_cut_short(forest: TreeEnsemble) -> bool:
    """Whether the time limit ended a search that had hardly begun, so that the absence of splits says nothing."""
    return forest.source == "glasswood" and CUT_SHORT in forest.objective


def counts_outliers_less(forest: TreeEnsemble) -> bool:
    """Whether a forest of glasswood's own predicts no means of y, but is drawn less by what is far off."""
    return forest.source == "glasswood" and forest.objective.startswith("Huber")


def feature_name(forest: TreeEnsemble, feature: int) -> str:
    """Name a feature: its own name, or x and its number as in scikit-learn."""
    return forest.feature_names[feature] if forest.feature_names else f"x{feature}"


def feature_names(forest: TreeEnsemble) -> tuple[str, ...]:
    """Names of all features; x0, x1, ... where the model has none."""
    return forest.feature_names or tuple(f"x{i}" for i in range(forest.n_features))


def column_names(forest: TreeEnsemble) -> tuple[str, ...]:
    """Names of the columns that rows have: the features', or those that target statistics are computed from."""
    return feature_names(forest) if forest.transform is None else tuple(forest.transform.columns)


def output_names(forest: TreeEnsemble, n_outputs: int) -> list[str]:
    """Names that the model has for them, class labels where there is one per output, numbers from 0 otherwise."""
    if len(forest.outputs) == n_outputs:
        return list(forest.outputs)
    labels = [str(label) for classes in forest.classes for label in classes.tolist()]
    if len(forest.classes) > 1:
        labels = [f"{i}_{label}" for i, classes in enumerate(forest.classes) for label in classes.tolist()]
    return labels if len(labels) == n_outputs else [str(i) for i in range(n_outputs)]


def as_html(title: str, facts: Mapping[str, str]) -> str:
    """Write facts as a small table for notebooks; all text is escaped."""
    rows = "".join(
        f"<tr><th style='text-align:left;padding-right:1em'>{markup(name)}</th>"
        f"<td style='text-align:left'>{markup(fact)}</td></tr>"
        for name, fact in facts.items()
    )
    return f"<div><strong>{markup(title)}</strong><table>{rows}</table></div>"


def _outputs(forest: TreeEnsemble) -> str:
    classes = [f"{len(labels)} classes ({_listed(map(str, labels.tolist()))})" for labels in forest.classes]
    names = f" ({_listed(forest.outputs)})" if forest.outputs else ""
    return "; ".join([f"{forest.n_outputs:,}{names}", *classes])


def _listed(names: object) -> str:
    listed = [shown(name) for name in names]  # type: ignore[attr-defined]
    more = f" and {len(listed) - SHOWN_NAMES} more" if len(listed) > SHOWN_NAMES else ""
    return ", ".join(listed[:SHOWN_NAMES]) + more


def _n_bytes(forest: TreeEnsemble) -> int:
    values = (getattr(forest, field.name) for field in dataclasses.fields(forest))
    return sum(value.nbytes for value in values if isinstance(value, np.ndarray))
