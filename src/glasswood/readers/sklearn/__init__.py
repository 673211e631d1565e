"""Trees and tree ensembles of scikit-learn, read from the fitted estimators' own arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers import read_model
from glasswood.readers.sklearn.boosting import read_ada_boost, read_gradient_boosting
from glasswood.readers.sklearn.hist import read_hist_gradient_boosting
from glasswood.readers.sklearn.isolation import read_isolation_forest
from glasswood.readers.sklearn.pipelines import read_pipeline
from glasswood.readers.sklearn.thresholds import WITH_THRESHOLD, read_threshold
from glasswood.readers.sklearn.trees import is_bag_of_trees, read_average
from glasswood.readers.sklearn.voting import read_bagging, read_voting

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from glasswood.readers.curve import Curve

READERS: dict[str, Callable[[Any], TreeEnsemble]] = {
    "DecisionTreeClassifier": read_average,
    "DecisionTreeRegressor": read_average,
    "RandomForestClassifier": read_average,
    "RandomForestRegressor": read_average,
    "ExtraTreesClassifier": read_average,
    "ExtraTreesRegressor": read_average,
    "BaggingClassifier": read_average,
    "BaggingRegressor": read_average,
    "IsolationForest": read_isolation_forest,
    "GradientBoostingClassifier": read_gradient_boosting,
    "GradientBoostingRegressor": read_gradient_boosting,
    "HistGradientBoostingClassifier": read_hist_gradient_boosting,
    "HistGradientBoostingRegressor": read_hist_gradient_boosting,
    "AdaBoostClassifier": read_ada_boost,
}
"""By class name; classes derived from these are read as them."""

WRAPPED = {
    "calibrated_classifiers_": "one of model.calibrated_classifiers_[i].estimator",
    "regressor_": "model.regressor_, which predicts on the transformed scale,",
    "estimators_": "one of model.estimators_",
    "estimator_": "model.estimator_",
}
"""Where meta-estimators keep what they have fitted."""


def read(model: BaseEstimator, curve: Curve | None = None) -> TreeEnsemble:
    """Read a fitted tree or tree ensemble of scikit-learn.

    Parameters
    ----------
    model : estimator
        One of `READERS`, or of a class derived from them; a Pipeline that ends in trees of any library; a search over
        parameters, as its ``best_estimator_``; a FrozenEstimator; a VotingRegressor, a VotingClassifier of
        probabilities, or bagging.
    curve : Curve, optional
        For pipelines and searches whose model is a survival forest.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    TypeError
        If it is a meta-estimator that is not read, or no tree; the message says what to pass.
    NotImplementedError
        If its prediction is not a sum of trees.
    """
    from sklearn.utils.validation import check_is_fitted

    if hasattr(model, "steps"):
        return read_pipeline(model, partial(read_model, curve=curve))
    names = _names_of(model)
    if "FrozenEstimator" in names:
        return read_model(model.estimator, curve)
    if names & set(WITH_THRESHOLD):
        check_is_fitted(model)
        return read_threshold(model, read_model)
    if hasattr(model, "refit") and hasattr(model, "cv"):
        return _read_search(model, curve)
    if curve is not None:
        raise TypeError(
            f"{curve.kind}_at is for survival forests, {type(model).__name__} does not predict curves over time"
        )
    if names & {"VotingRegressor", "VotingClassifier"}:
        check_is_fitted(model)
        return read_voting(model, read_model)
    reader = _reader_of(model)
    check_is_fitted(model)
    if names & {"BaggingRegressor", "BaggingClassifier"} and not is_bag_of_trees(model):
        return read_bagging(model, read_model)
    return reader(model)


def _read_search(model: Any, curve: Curve | None) -> TreeEnsemble:
    """Read what a search (GridSearchCV and others) has chosen."""
    if not hasattr(model, "best_estimator_"):
        why = "with refit=False it keeps no model" if not model.refit else "it is not fitted"
        raise ValueError(f"this {type(model).__name__} has no best_estimator_: {why}; fit it with refit=True")
    return read_model(model.best_estimator_, curve)


def _names_of(model: Any) -> set[str]:
    return {kind.__name__ for kind in type(model).__mro__ if kind.__module__.startswith("sklearn.")}


def _reader_of(model: BaseEstimator) -> Callable[[Any], TreeEnsemble]:
    names = [kind.__name__ for kind in type(model).__mro__ if kind.__module__.startswith("sklearn.")]
    if "AdaBoostRegressor" in names:
        raise NotImplementedError(
            "AdaBoostRegressor predicts the weighted median of its trees; glasswood reads ensembles that add trees up"
        )
    for name in names:
        if name in READERS:
            return READERS[name]
    raise TypeError(f"got {type(model).__name__}, which is not a tree ensemble of scikit-learn; {_advice(model)}")


def _advice(model: BaseEstimator) -> str:
    for attribute, what in WRAPPED.items():
        if hasattr(model, attribute):
            return f"pass {what} instead"
    return f"expected one of {', '.join(READERS)}"
