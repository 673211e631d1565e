import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

import silva

TREE = silva.ModelTreeRegressor(n_iter_no_change=5, n_jobs=1)
CLASSES = silva.ModelTreeClassifier(n_iter_no_change=5, n_jobs=1)


@parametrize_with_checks(
    [
        TREE,
        silva.ModelTreeEnsembleRegressor(TREE, n_estimators=2, n_jobs=1),
        silva.ModelTreeEnsembleRegressor(
            TREE, n_estimators=2, method="boosting", learning_rate=0.5, max_trees=4, n_jobs=1
        ),
        CLASSES,
        silva.ModelTreeEnsembleClassifier(CLASSES, n_estimators=2, n_jobs=1),
        silva.ModelTreeEnsembleClassifier(
            TREE, n_estimators=2, method="boosting", learning_rate=0.5, max_trees=4, n_jobs=1
        ),
    ]
)
def test_estimator(estimator, check):
    check(estimator)
