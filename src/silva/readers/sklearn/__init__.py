"""Trees and tree ensembles of scikit-learn, read from the fitted estimators' own arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from silva.readers.sklearn.boosting import read_ada_boost, read_gradient_boosting
from silva.readers.sklearn.hist import read_hist_gradient_boosting
from silva.readers.sklearn.isolation import read_isolation_forest
from silva.readers.sklearn.trees import read_average

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.base import BaseEstimator

    from silva.ensemble import TreeEnsemble

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
    "best_estimator_": "model.best_estimator_",
    "calibrated_classifiers_": "one of model.calibrated_classifiers_[i].estimator",
    "regressor_": "model.regressor_, which predicts on the transformed scale,",
    "estimators_": "one of model.estimators_",
    "estimator_": "model.estimator_",
}
"""Where meta-estimators keep what they have fitted."""


def read(model: BaseEstimator) -> TreeEnsemble:
    """Read a fitted tree or tree ensemble of scikit-learn.

    Parameters
    ----------
    model : estimator
        One of `READERS`, or of a class derived from them.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    TypeError
        If it is a pipeline, a meta-estimator or no tree; the message says what to pass.
    NotImplementedError
        If its prediction is no sum of trees.
    """
    from sklearn.utils.validation import check_is_fitted

    reader = _reader_of(model)
    check_is_fitted(model)
    return reader(model)


def _reader_of(model: BaseEstimator) -> Callable[[Any], TreeEnsemble]:
    names = [kind.__name__ for kind in type(model).__mro__ if kind.__module__.startswith("sklearn.")]
    if "AdaBoostRegressor" in names:
        raise NotImplementedError(
            "AdaBoostRegressor predicts the weighted median of its trees; silva reads ensembles that add trees up"
        )
    for name in names:
        if name in READERS:
            return READERS[name]
    raise TypeError(f"got {type(model).__name__}, which is no tree ensemble of scikit-learn; {_advice(model)}")


def _advice(model: BaseEstimator) -> str:
    if hasattr(model, "steps"):
        name, last = model.steps[-1]
        return f"pass its last step, model[-1] ({name!r}: {type(last).__name__}), and rows transformed by model[:-1]"
    for attribute, what in WRAPPED.items():
        if hasattr(model, attribute):
            return f"pass {what} instead"
    return f"expected one of {', '.join(READERS)}"
