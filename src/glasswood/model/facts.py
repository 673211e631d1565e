"""Facts about a forest in words, for `glasswood info`, notebooks and reports."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping

import numpy as np

from glasswood.base.escapes import markup, shown
from glasswood.base.phrases import Phrases
from glasswood.base.typing import Array, Checked, Choice
from glasswood.model.ensemble import TreeEnsemble

SHOWN_NAMES = 12


ENGLISH = Phrases("en")
"""How facts are written if nobody says otherwise."""


def forest_facts(forest: TreeEnsemble, phrases: Phrases = ENGLISH) -> dict[str, str]:
    """Name source, objective and sizes of a forest."""
    names = f" ({_listed(forest.feature_names, phrases)})" if forest.feature_names else ""
    facts = {
        "source": shown(forest.source) or phrases.text("unknown"),
        **_objective(forest, phrases),
        "trees": phrases.count(forest.n_trees),
        "leaves": phrases.count(forest.n_leaves),
        "depth": str(forest.depth),
        "features": f"{phrases.count(forest.n_features)}{names}",
        **_open_tables(forest, phrases),
        "outputs": _outputs(forest, phrases),
        "row type": forest.threshold.dtype.name,
        "memory": _bytes_text(_n_bytes(forest)),
        **_checked(forest, phrases),
        **_metadata(forest),
    }
    return {phrases.text(f"fact {name}"): fact for name, fact in facts.items()}


def _checked(forest: TreeEnsemble, phrases: Phrases) -> dict[str, str]:
    """Say on how many rows the forest was compared with its library; glasswood's own have none to compare with."""
    if forest.source == "glasswood":
        return {}
    if (checked := forest.checked) is None:
        return {"checked": phrases.text("not checked")}
    size = phrases.number(f"{checked.difference:.1e}")
    same = phrases.text("checked rows", n=str(checked.rows), size=size) if checked.rows else ""
    what = "; ".join(shown(phrases.translated(what, UNCHECKED)) for what in checked.unchecked)
    left_out = phrases.text("unchecked", what=what) if checked.unchecked else ""
    return {"checked": "; ".join(filter(None, [same, left_out])) or phrases.text("no")}


def _metadata(forest: TreeEnsemble) -> dict[str, str]:
    """Write what was said of the model when it was saved."""
    if not forest.metadata:
        return {}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in forest.metadata.items()}
    return {"metadata": shown("; ".join(f"{name} = {text}" for name, text in texts.items()))}


def _open_tables(forest: TreeEnsemble, phrases: Phrases) -> dict[str, str]:
    """Name the columns that LightGBM's tables of categories may belong to, where the model leaves it open."""
    if not forest.open_tables:
        return {}
    names = feature_names(forest)
    could = _listed((names[i] for i in np.flatnonzero(forest.table_places.any(axis=0))), phrases)
    return {"tables": phrases.text("open tables", n=str(len(forest.open_tables)), names=could)}


def _bytes_text(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:,.1f} MiB" if n_bytes >= 2**20 else f"{n_bytes / 2**10:.1f} KiB"


def _objective(forest: TreeEnsemble, phrases: Phrases) -> dict[str, str]:
    """Name the objective, and apart from it what glasswood's own forests keep to."""
    objective = shown(forest.objective) or phrases.text("unknown")
    if forest.source != "glasswood":
        return {"objective": objective}
    objective = phrases.translated(objective.partition("; ")[0], OBJECTIVES)
    if is_per_exposure(forest):
        objective = f"{objective}, {phrases.text('per exposure')}"
    held = constraints(forest, phrases)
    found = {"objective": objective, "constraints": held, "search": search_text(forest, phrases)}
    return {name: fact for name, fact in found.items() if fact}


OBJECTIVES = ("squared error", "Huber's loss", "log-loss", "quantile")
"""Texts of objectives of glasswood's own forests; other losses have the same name in all languages."""

UNCHECKED = ("hashes", "tables")
"""Texts of what no comparison with a live model can hold."""

CONSTRAINTS = (
    *("rise with", "fall with", "positive coefficients", "negative coefficients"),
    *("act alone", "act in pairs", "act within"),
)
"""Texts of what objectives of glasswood's own forests say behind a semicolon."""


def constraints(forest: TreeEnsemble, phrases: Phrases = ENGLISH) -> str:
    """Name what predictions of a forest of glasswood's own keep to: its objective says so behind a semicolon."""
    if forest.source != "glasswood":
        return ""
    held = shown(forest.objective.partition("; ")[2]).split("; ")
    return "; ".join(phrases.translated(one, CONSTRAINTS) for one in held if not one.startswith((CUT_SHORT, EXPOSED)))


def search_text(forest: TreeEnsemble, phrases: Phrases = ENGLISH) -> str:
    """Say it if the time limit ended a search that had hardly begun, so that the absence of splits says nothing."""
    return phrases.text("cut short") if is_cut_short(forest) else ""


CUT_SHORT = "the time limit ended the search"
"""What the objective of a tree says whose search had hardly begun."""


def is_cut_short(forest: TreeEnsemble) -> bool:
    """Whether the time limit ended a search that had hardly begun, so that the absence of splits says nothing."""
    return forest.source == "glasswood" and CUT_SHORT in forest.objective


EXPOSED = "per unit of exposure"
"""What the objective of a forest says that was fitted with exposures: predictions are rates."""


def is_per_exposure(forest: TreeEnsemble) -> bool:
    """Whether a forest of glasswood's own was fitted with exposures, so that it predicts for one unit of these."""
    return forest.source == "glasswood" and EXPOSED in forest.objective.split("; ")


def exposure_text(forest: TreeEnsemble, phrases: Phrases = ENGLISH) -> str:
    """Say it if predictions are for one unit of exposure; empty otherwise."""
    return phrases.text("rates") if is_per_exposure(forest) else ""


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


def _outputs(forest: TreeEnsemble, phrases: Phrases) -> str:
    classes = [
        phrases.text("classes named", n=str(len(labels)), names=_listed(map(str, labels.tolist()), phrases))
        for labels in forest.classes
    ]
    names = f" ({_listed(forest.outputs, phrases)})" if forest.outputs else ""
    return "; ".join([f"{phrases.count(forest.n_outputs)}{names}", *classes])


def _listed(names: Iterable[str], phrases: Phrases) -> str:
    listed = [shown(name) for name in names]
    said = ", ".join(listed[:SHOWN_NAMES])
    n_more = len(listed) - SHOWN_NAMES
    return phrases.text("and more", names=said, n=str(n_more)) if n_more > 0 else said


def _n_bytes(forest: TreeEnsemble) -> int:
    values = (getattr(forest, field.name) for field in dataclasses.fields(forest))
    return sum(value.nbytes for value in values if isinstance(value, np.ndarray))


class OfEnsemble:
    """What is known of an ensemble, as attributes of what holds it."""

    ensemble: TreeEnsemble

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.ensemble.n_trees

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees, leaves included."""
        return self.ensemble.n_nodes

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return self.ensemble.n_leaves

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return self.ensemble.n_features

    @property
    def n_outputs(self) -> int:
        """Number of margins of a row."""
        return self.ensemble.n_outputs

    @property
    def depth(self) -> int:
        """Largest number of splits above a leaf."""
        return self.ensemble.depth

    @property
    def source(self) -> str:
        """Library (and version) that trained the forest."""
        return self.ensemble.source

    @property
    def objective(self) -> str:
        """Objective of the training."""
        return self.ensemble.objective

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, None if the model has none."""
        return self.ensemble.feature_names

    @property
    def classes(self) -> tuple[Array, ...]:
        """Class labels of each classification output; empty for regression."""
        return self.ensemble.classes

    @property
    def checked(self) -> Checked | None:
        """Rows compared with the live model, and the largest difference; None if the forest was not compared."""
        return self.ensemble.checked

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What `tune` has measured; empty if it was not called."""
        return self.ensemble.choices


def units_of(forest: TreeEnsemble, output: str, n_outputs: int) -> list[str]:
    """Say of each output what its numbers are."""
    if not forest.classes:
        is_log = output == "margin" and forest.link == "exp"
        is_other = output == "margin" and forest.link not in {"identity", "exp"}
        what = "logarithm of the prediction" if is_log else "margin" if is_other else "prediction"
        return [f"{what} {ENGLISH.text('per exposure')}" if is_per_exposure(forest) else what] * n_outputs
    if output == "prediction":
        return ["predicted class"] * n_outputs
    what = "probability" if output == "probability" or forest.link in {"identity", "shares"} else "margin"
    what = "log-odds" if what == "margin" and forest.link in {"logistic", "softmax"} else what
    classes = [str(label) for label in forest.classes[0].tolist()]
    names = classes[1:2] if n_outputs == 1 and len(classes) == 2 else output_names(forest, n_outputs)
    return [f"{what} of {shown(name)}" for name in names]
