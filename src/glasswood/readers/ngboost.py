"""NGBoost: boosted trees for each parameter of a distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasswood.base.typing import Array
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers import refuse_own_methods_of
from glasswood.readers.sklearn.trees import Member, accepts_nan, check_layout, forest_of

PARAMETERS = {
    "Normal": ("loc", "log_scale"),
    "NormalFixedVar": ("loc",),
    "LogNormal": ("loc", "log_scale"),
    "Laplace": ("loc", "log_scale"),
    "Cauchy": ("loc", "log_scale"),
    "T": ("loc", "log_scale", "log_df"),
    "Exponential": ("log_scale",),
    "Gamma": ("log_alpha", "log_beta"),
    "Poisson": ("log_rate",),
    "Weibull": ("log_shape", "log_scale"),
    "HalfNormal": ("log_scale",),
}
"""Names of what the trees add up to, by distribution; others are numbered."""


def read(model: Any) -> TreeEnsemble:
    """Read an NGBRegressor, NGBSurvival or NGBClassifier: the parameters of the distribution, one output each.

    Regressors predict the parameters as NGBoost's ``pred_param`` does, on the scale on which trees add up; classifiers
    labels and probabilities.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    NotImplementedError
        If it boosts other learners than scikit-learn's trees, its probabilities are not a softmax, or its layout is of
        another version.
    """
    if not getattr(model, "base_models", None):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"this {type(model).__name__} is not fitted; train it first")
    start = np.ravel(np.asarray(model.init_params, np.float64))
    learners = [learner for learners in model.base_models for learner in learners]
    refuse_own_methods_of(learners)
    for learner in learners:
        if not hasattr(learner, "tree_"):
            raise NotImplementedError(
                f"{type(model).__name__}(Base={type(learner).__name__}) is not supported; glasswood reads NGBoost of "
                "scikit-learn's trees"
            )
    check_layout(_source(), "the number of scalings", len(model.scalings), len(model.base_models))
    rates = -model.learning_rate * np.repeat(np.asarray(model.scalings, np.float64), len(start))
    columns = [np.asarray(columns) for columns in model.col_idxs for _ in start]
    members = [
        Member(learner.tree_, learner.tree_.value[:, 0], float(rate), of_tree)
        for learner, rate, of_tree in zip(learners, rates, columns, strict=True)
    ]
    output = np.tile(np.arange(len(start)), len(model.base_models))
    return forest_of(
        model,
        members,
        nan_allowed=all(accepts_nan(learner) for learner in learners[: len(start)]),
        source=_source(),
        objective=_distribution(model),
        **_meaning(model, start, output),
    )


def predict(model: Any, X: Any) -> Any:
    """Predict labels, or parameters, with the live model itself."""
    if hasattr(model, "predict_proba"):
        return model.predict(X)
    found = model.pred_param(np.asarray(X))
    return found[:, 0] if found.shape[1] == 1 else found


def _source() -> str:
    from importlib.metadata import version

    return f"NGBoost {version('ngboost')}"


def _distribution(model: Any) -> str:
    """Name the distribution; NGBoost derives classes from it where times are censored."""
    names: list[str] = [kind.__name__ for kind in model.Dist.__mro__]
    return next((name for name in names if name in PARAMETERS), names[0])


def _meaning(model: Any, start: Array, output: Array) -> dict[str, Any]:
    """Say what the outputs of a regression are, or those of a classification, whose first class has the logit 0."""
    if not hasattr(model, "predict_proba"):
        names = PARAMETERS.get(_distribution(model), ())
        outputs = names if len(names) == len(start) else tuple(f"parameter_{i}" for i in range(len(start)))
        return {"base_score": start, "tree_output": output, "outputs": outputs}
    if not hasattr(model.Dist, "K_"):
        raise NotImplementedError(
            f"NGBClassifier(Dist={model.Dist.__name__}) is not supported; glasswood reads Bernoulli and k_categorical"
        )
    fields: dict[str, Any] = {"classes": (np.asarray(model.classes_),)}
    if len(start) == 1:
        return fields | {"base_score": start, "tree_output": output, "link": "logistic", "prediction": "half"}
    base = np.concatenate([[0.0], start])
    return fields | {"base_score": base, "tree_output": output + 1, "link": "softmax", "prediction": "argmax_margin"}
