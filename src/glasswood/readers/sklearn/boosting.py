"""Boosted trees: GradientBoosting and AdaBoost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from glasswood.base.typing import Doubles
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers import refuse_own_methods_of
from glasswood.readers.sklearn.trees import Member, check_of_classes, class_fields, forest_of, shares

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

LINKS = {
    "IdentityLink": "identity",
    "LogLink": "exp",
    "LogitLink": "logistic",
    "HalfLogitLink": "exponential",
    "MultinomialLogit": "softmax",
}
"""scikit-learn's link classes."""

CONSTANT_PRIORS = ("prior", "most_frequent", "constant", "uniform")
"""Strategies of DummyClassifier that give all rows the same probabilities."""


def link_of(model: BaseEstimator) -> str:
    """Return the name of the link of a fitted estimator's loss.

    Raises
    ------
    NotImplementedError
        If glasswood does not know it.
    """
    name = type(model._loss.link).__name__
    if name not in LINKS:
        raise NotImplementedError(f"the link {name} of {type(model).__name__}(loss={model.loss!r}) is not supported")
    return LINKS[name]


def read_gradient_boosting(model: BaseEstimator) -> TreeEnsemble:
    """Read a GradientBoostingClassifier or -Regressor."""
    n_stages, n_outputs = model.estimators_.shape
    rate = float(model.learning_rate)
    members = [Member(estimator.tree_, estimator.tree_.value[:, 0, :], rate) for estimator in model.estimators_.flat]
    fields = class_fields(model)
    if fields:
        # labels by margins (for two classes, `margin >= 0`), and leaf ids with an axis of outputs
        fields |= {
            "leaf_shape": (n_stages, n_outputs),
            "prediction": "argmax_margin" if n_outputs > 1 else "nonnegative",
        }
    return forest_of(
        model,
        members,
        tree_output=np.arange(len(members)) % n_outputs,
        base_score=_initial_margins(model, n_outputs),
        link=link_of(model),
        nan_allowed=False,
        **fields,
    )


def _initial_margins(model: BaseEstimator, n_outputs: int) -> Doubles:
    """Return what `init` predicts for every row."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    init = model.init_
    if isinstance(init, str) and init == "zero":
        return np.zeros(n_outputs)
    refuse_own_methods_of([init])
    is_constant = isinstance(init, DummyRegressor) or (
        isinstance(init, DummyClassifier) and init.strategy in CONSTANT_PRIORS
    )
    if not is_constant:
        raise NotImplementedError(
            f"{type(model).__name__}(init={init!r}) starts from other margins for every row; glasswood reads models "
            "with init=None, 'zero' or a constant Dummy estimator"
        )
    row = np.zeros((1, model.n_features_in_), np.float32)
    return np.array(model._raw_predict_init(row)[0], np.float64)


def read_ada_boost(model: BaseEstimator) -> TreeEnsemble:
    """Read an AdaBoostClassifier of trees: weighted votes."""
    n_classes = len(model.classes_)
    vote = _log_votes if getattr(model, "algorithm", "SAMME") == "SAMME.R" else _votes
    total = model.estimator_weights_.sum()
    members = []
    refuse_own_methods_of(model.estimators_)
    for estimator, weight in zip(model.estimators_, model.estimator_weights_, strict=False):
        if not hasattr(estimator, "tree_"):
            raise NotImplementedError(
                f"AdaBoostClassifier of {type(estimator).__name__} is not supported; glasswood reads AdaBoost of trees"
            )
        share = (1.0 if vote is _log_votes else weight) / total
        members.append(Member(estimator.tree_, _decision(vote(shares(estimator.tree_)[:, 0, :n_classes])), share))
    fields = class_fields(model) | check_of_classes([member.tree for member in members])
    if n_classes == 2:
        fields |= {"link": "logistic", "prediction": "positive"}
    else:
        fields |= {"link": "softmax", "link_scale": 1 / max(n_classes - 1, 1)}
    return forest_of(
        model, members, base_score=np.zeros(members[0].value.shape[1]), nan_allowed=False, objective="SAMME", **fields
    )


def _votes(probabilities: Doubles) -> Doubles:
    """1 for the most probable class; the others share -1."""
    n_classes = probabilities.shape[1]
    result = np.full(probabilities.shape, -1 / max(n_classes - 1, 1))
    result[np.arange(len(result)), probabilities.argmax(axis=1)] = 1.0
    return result if n_classes > 1 else np.zeros_like(result)


def _log_votes(probabilities: Doubles) -> Doubles:
    """Centred logarithms of the probabilities: SAMME.R of scikit-learn before 1.6."""
    logs = np.log(np.maximum(probabilities, np.finfo(np.float64).eps))
    return np.asarray((probabilities.shape[1] - 1) * (logs - logs.mean(axis=1, keepdims=True)))


def _decision(votes: Doubles) -> Doubles:
    """Two classes make one margin, the difference."""
    return votes[:, 1:] - votes[:, :1] if votes.shape[1] == 2 else votes
