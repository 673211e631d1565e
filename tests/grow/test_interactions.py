"""interaction_cst: features that act together within groups only, for all rows."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

import glasswood
from glasswood.model.facts import forest_facts

GROUPS = [[0, 1], [2]]
SMALL = glasswood.ModelTreeRegressor(max_leaves=6, generations=3, population_size=8, noise="uniform", clip="leaf")


def crossed(n_rows, seed=0):
    """The first two features act together, and so do features of different groups."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows, 5))
    y = 4 * X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X[:, 3] * (X[:, 4] > 0) + 2 * X[:, 1] * X[:, 2]
    return X, y + 0.1 * rng.standard_normal(n_rows)


def mixed_differences(predict, n_features, pairs, n_rows=400, seed=1):
    """Largest difference of differences along two features, of rows far outside the data too."""
    rng = np.random.default_rng(seed)
    worst = 0.0
    for a, b in pairs:
        rows = rng.standard_normal((4, n_rows, n_features)) * rng.choice([0.5, 30.0], (n_rows, 1))
        rows[1:] = rows[0]
        rows[1, :, a] = rows[3, :, a] = rng.standard_normal(n_rows)
        rows[2, :, b] = rows[3, :, b] = rng.standard_normal(n_rows)
        first, along_a, along_b, both = (predict(part) for part in rows)
        worst = max(worst, float(np.abs(both - along_a - along_b + first).max()))
    return worst


APART = [(0, 2), (0, 3), (1, 2), (1, 4), (2, 3), (2, 4)]


def boosted(**parameters):
    tree = SMALL.__class__(**{**SMALL.get_params(deep=False), **parameters})
    return glasswood.ModelTreeEnsembleRegressor(tree, 2, method="boosting", learning_rate=0.3, max_trees=12, n_jobs=1)


@pytest.fixture(scope="module")
def fitted():
    return boosted(interaction_cst=GROUPS).fit(*crossed(800))


def test_sums_have_no_effects_across_groups(fitted):
    assert mixed_differences(fitted.predict, 5, APART) < 1e-12
    assert mixed_differences(fitted.predict, 5, [(0, 1)]) > 1
    free = boosted().fit(*crossed(800))
    assert mixed_differences(free.predict, 5, APART) > 0.1


def test_trees_use_the_features_of_one_group(fitted):
    groups = [{0, 1}, {2}, {3, 4}]
    used = []
    for tree in fitted.estimators_:
        ensemble = tree.forest_.ensemble
        used.append({*ensemble.feature[ensemble.feature >= 0].tolist(), *ensemble.linear_feature.tolist()})
    assert all(any(features <= group for group in groups) for features in used)
    assert {0, 1} in used
    assert {2} in used


def test_classes_by_name_and_with_categories():
    X, y = crossed(600)
    frame = pd.DataFrame(X, columns=list("abcde")).assign(f=np.where(X[:, 2] > 0, "high", "low"))
    tree = glasswood.ModelTreeClassifier(
        interaction_cst=[["a", "b"], ["c", "f"]], n_iter_no_change=5, n_jobs=1, rounds=1
    )
    tree.fit(frame, y > 0)
    ensemble = tree.forest_.ensemble
    used = {*ensemble.feature[ensemble.feature >= 0].tolist(), *ensemble.linear_feature.tolist()}
    assert used <= {0, 1} or used <= {2, 5} or used <= {3, 4}
    assert tree.forest_.objective == "log-loss; features act together within (a, b), (c, f), (d, e) only"


@pytest.mark.parametrize(("kind", "most", "told"), [
    ("no_interactions", 1, "No features act together."), ("pairwise", 2, "At most two features act together."),
])  # fmt: skip
def test_kinds(kind, most, told):
    X, y = crossed(400)
    tree = glasswood.ModelTreeRegressor(interaction_cst=kind, n_iter_no_change=5, n_jobs=1).fit(X, y)
    ensemble = tree.forest_.ensemble
    used = {*ensemble.feature[ensemble.feature >= 0].tolist(), *ensemble.linear_feature.tolist()}
    assert 1 <= len(used) <= most
    assert told in glasswood.export_text(tree)
    if kind == "pairwise":
        assert used == {0, 1}  # a product, which neither of the two shows alone


def test_one_group_of_all_is_no_constraint():
    X, y = crossed(300)
    free = glasswood.ModelTreeRegressor(n_iter_no_change=5, n_jobs=1).fit(X, y)
    same = glasswood.ModelTreeRegressor(interaction_cst=[range(5)], n_iter_no_change=5, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(same.predict(X), free.predict(X))


def test_constraints_hold_together_and_are_named(tmp_path):
    X, y = crossed(600)
    tree = boosted(interaction_cst=GROUPS, monotonic_cst=[0, 0, 1, 0, -1]).fit(X, y)
    assert mixed_differences(tree.predict, 5, APART) < 1e-12
    steps = np.repeat(X[:1], 50, axis=0)
    steps[:, 2] = np.linspace(-3, 3, 50)
    assert (np.diff(tree.predict(steps)) >= 0).all()
    told = (
        "predictions rise with x2; predictions fall with x4; features act together within (x0, x1), (x2), (x3, x4) only"
    )
    assert tree.forest_.objective == f"squared error; {told}"
    tree.forest_.save(tmp_path / "forest.glasswood")
    forest = glasswood.load(tmp_path / "forest.glasswood")
    assert told[1:] in glasswood.export_text(forest)
    facts = forest_facts(forest.ensemble)
    assert (facts["objective"], facts["constraints"]) == ("squared error", told)


@pytest.mark.parametrize(("given", "error", "message"), [
    ("none", ValueError, "interaction_cst is 'none', expected pairwise or no_interactions, or groups"),
    ([0, 1], TypeError, r"interaction_cst is \[0, 1\], expected groups of features"),
    (["ab"], TypeError, "expected groups of features"),
    ([[0, 5]], ValueError, "interaction_cst names 5, expected columns of X: 0 to 4 or names"),
    ([["z"]], ValueError, "interaction_cst names 'z'"),
])  # fmt: skip
def test_refuses(given, error, message):
    with pytest.raises(error, match=message):
        glasswood.ModelTreeRegressor(interaction_cst=given).fit(*crossed(50))
