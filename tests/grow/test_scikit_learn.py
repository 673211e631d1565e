import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

import glasswood

# Some hundred fits each: the checks are of the interface, and small trees have all of it.
TREE = glasswood.ModelTreeRegressor(generations=3, population_size=8, max_leaves=4, n_jobs=1)
CLASSES = glasswood.ModelTreeClassifier(n_iter_no_change=2, rounds=1, max_leaves=4, n_jobs=1)
BOOSTING = {"method": "boosting", "n_estimators": 2, "learning_rate": 0.5, "max_trees": 2, "n_jobs": 1}


QUICK = [
    TREE,
    CLASSES,
    glasswood.AdditiveRegressor(interactions=1, n_jobs=1),
    glasswood.ModelTreeEnsembleRegressor(TREE, n_estimators=2, n_jobs=1),
]
SLOW = [
    glasswood.AdditiveClassifier(interactions=1, n_jobs=1),
    glasswood.ModelTreeRegressor(**TREE.get_params() | {"curves": True}),
    glasswood.ModelTreeEnsembleRegressor(TREE, **BOOSTING),
    glasswood.ModelTreeEnsembleClassifier(CLASSES, n_estimators=1, n_jobs=1),  # twice as many take twice as long
    glasswood.ModelTreeEnsembleClassifier(TREE, **BOOSTING),
]


@parametrize_with_checks(QUICK)
def test_estimator(estimator, check):
    check(estimator)


# Some checks have amounts as targets, of which sums of trees say that they have no limits.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* training rows are predicted below 0:UserWarning")
@parametrize_with_checks(SLOW)
def test_other_ensembles(estimator, check):
    """Of a class and a method that are each among those above."""
    check(estimator)
