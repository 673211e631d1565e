"""Generalized random forests of econml: effects of treatments, as means of the trees' own estimates."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.sklearn.trees import Member, check_layout, forest_of


def read(model: Any) -> TreeEnsemble:
    """Read a CausalForest, CausalIVForest, RegressionForest, MultiOutputGRF or CausalForestDML.

    The forest predicts ``predict_tree_average``, the mean of what the trees estimate, which is a sum of trees. econml's
    ``predict`` and ``effect`` solve one equation for all trees together; a forest's means then differ a little, except
    for a RegressionForest.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    TypeError
        If it holds no such forest.
    NotImplementedError
        If a featurizer makes other features of X, or leaves have another layout.
    """
    names = {kind.__name__ for kind in type(model).__mro__}
    if "CausalForestDML" in names:
        return _read_estimator(model)
    return _read_forests(_forests(model))


def predict(model: Any, X: Any) -> Any:
    """Means of the trees' estimates of the live model: (n,) or (n, n_outputs)."""
    forests = _forests(_final(model) if hasattr(model, "const_marginal_effect") else model)
    found = np.concatenate([forest.predict_tree_average(X) for forest in forests], axis=1)
    return found[:, 0] if found.shape[1] == 1 else found


def _final(model: Any) -> Any:
    """Forests behind a CausalForestDML.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    """
    if not hasattr(model, "_ortho_learner_model_final") and not hasattr(model, "ortho_learner_model_final_"):
        _refuse_unfitted(model)
    return model.model_cate


def _read_estimator(model: Any) -> TreeEnsemble:
    final = _final(model)
    if model.featurizer is not None:
        raise NotImplementedError(
            f"{type(model).__name__}(featurizer={type(model.featurizer).__name__}) grows trees on other features than "
            "those of X; load model.model_cate, whose rows are the featurizer's"
        )
    names = model.cate_feature_names()
    treatments, outcomes = model.cate_treatment_names(), model.cate_output_names()
    one = len(outcomes) == 1
    outputs = [t if one else f"{outcome}_{t}" for outcome in outcomes for t in treatments]
    return _read_forests(
        _forests(final),
        feature_names=None if _are_made_up(names) else tuple(str(name) for name in names),
        outputs=tuple(str(name) for name in outputs) if len(outputs) > 1 else (),
    )


def _are_made_up(names: list[str] | None) -> bool:
    """Say whether econml has numbered the features itself, as it does with arrays."""
    return names is None or list(names) == [f"X{i}" for i in range(len(names))]


def _forests(model: Any) -> list[Any]:
    """List the forests, one an outcome."""
    forests = list(getattr(model, "estimators_", [])) if type(model).__name__ == "MultiOutputGRF" else [model]
    if not forests:
        _refuse_unfitted(model)
    for forest in forests:
        if not hasattr(forest, "predict_tree_average"):
            raise TypeError(
                f"got {type(forest).__name__} of econml, expected a CausalForestDML, a CausalForest, CausalIVForest or "
                "RegressionForest, or a MultiOutputGRF of them"
            )
        if not hasattr(forest, "estimators_"):
            _refuse_unfitted(forest)
    return forests


def _refuse_unfitted(model: Any) -> None:
    from sklearn.exceptions import NotFittedError

    raise NotFittedError(f"this {type(model).__name__} is not fitted; train it first")


def _read_forests(forests: list[Any], **meaning: Any) -> TreeEnsemble:
    import econml

    counts = [int(forest.n_relevant_outputs_) for forest in forests]
    ends = np.cumsum(counts)
    source = f"econml {econml.__version__}"
    for forest, count in zip(forests, counts, strict=True):
        value = forest.estimators_[0].tree_.value
        check_layout(source, "the number of estimates in a leaf", min(value.shape[1], count), count)
    members = [
        Member(tree.tree_, _spread(tree.tree_.value[:, :count, 0], end - count, ends[-1]), 1 / len(forest.estimators_))
        for forest, count, end in zip(forests, counts, ends, strict=True)
        for tree in forest.estimators_
    ]
    return forest_of(
        forests[0],
        members,
        np.float64,
        base_score=np.zeros(ends[-1]),
        nan_allowed=False,
        source=source,
        objective="effect" if "Causal" in type(forests[0]).__name__ else "mean",
        **meaning,
    )


def _spread(value: Array, first: int, n: int) -> Doubles:
    """Put the effects of a forest in their places among those of all."""
    result = np.zeros((len(value), n))
    result[:, first : first + value.shape[1]] = value
    return result
