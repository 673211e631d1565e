"""Models of two classes that speak of one of them: the same model, whichever it is."""

from __future__ import annotations

import re

import numpy as np
import pytest

import glasswood
from glasswood.model.events import of_event

ensemble = pytest.importorskip("sklearn.ensemble")
FITS = {
    "one log-odds": lambda: ensemble.GradientBoostingClassifier(n_estimators=5),
    "two shares": lambda: ensemble.RandomForestClassifier(5, max_depth=4, random_state=0),
    "AdaBoost": lambda: ensemble.AdaBoostClassifier(n_estimators=4),
    "equations": lambda: glasswood.ModelTreeClassifier(max_leaves=3, n_iter_no_change=5, n_jobs=1),
    "lightgbm": lambda: pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=5, verbose=-1),
    "catboost": lambda: pytest.importorskip("catboost").CatBoostClassifier(iterations=5, verbose=0),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)).astype(np.float32)
    return X, np.where(X[:, 0] + rng.normal(size=500) > -1, "yes", "no")


@pytest.mark.parametrize("name", FITS)
def test_the_turned_model_is_the_same(name, data):
    X, y = data
    forest = glasswood.load(FITS[name]().fit(X, y))
    turned, is_turned = of_event(forest.ensemble, None, np.mean(y == "yes"))
    assert is_turned
    assert turned.classes[0].tolist() == ["yes", "no"]
    other = glasswood.Forest(turned)
    expected = forest.predict(X, output="probability")[:, ::-1]
    np.testing.assert_allclose(other.predict(X, output="probability"), expected, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(other.predict(X), forest.predict(X))
    first, second = (glasswood.Explainer(one).shap_values(X[:20]) for one in (forest, other))
    flipped = -first if first.ndim == 2 else first[:, :, ::-1]
    np.testing.assert_allclose(second, flipped, atol=1e-6)


def test_equations_and_constraints_turn(data):
    X, y = data
    model = glasswood.ModelTreeClassifier(max_leaves=1, n_iter_no_change=5, n_jobs=1, monotonic_cst=[1, 0, 0]).fit(X, y)
    texts = {
        name: glasswood.export_text(model, positive=name, log_odds=True, digits=6, style="equation")
        for name in ("yes", "no")
    }
    amounts = {name: re.search(r"([+-]) ([\d.]+) (?:per )?x0", text).groups() for name, text in texts.items()}
    assert amounts["yes"] == ("+", amounts["no"][1])
    assert amounts["no"][0] == "-"
    assert "rise" in texts["yes"]
    assert "fall" in texts["no"]
    shares = {name: float(re.search(r"\(([\d.]+) % of all rows\)", text)[1]) for name, text in texts.items()}
    assert shares["yes"] + shares["no"] == pytest.approx(100, abs=1)
    assert glasswood.export_text(model).startswith("Probability of no")  # the rarer one


def test_pictures_speak_of_the_event(data):
    pytest.importorskip("matplotlib").use("agg")
    X, y = data
    tree = pytest.importorskip("sklearn.tree").DecisionTreeClassifier(max_depth=2).fit(X, y)
    for positive, name in ((None, "no"), ("yes", "yes")):
        texts = " ".join(text.get_text() for text in glasswood.plot_tree(tree, X, y, positive=positive).texts)
        assert f"share of {name}" in texts


def test_places_of_classes_are_the_models_own(data, tmp_path):
    """XGBoost's labels are 0 and 1, whatever the classes are called and whichever is the event."""
    xgboost = pytest.importorskip("xgboost")
    X, y = data
    codes = (y == "yes").astype(int)
    model = xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(X, codes)
    model.save_model(tmp_path / "model.json")
    forest = glasswood.load(tmp_path / "model.json", class_names=["no", "yes"])
    pytest.importorskip("matplotlib").use("agg")
    texts = [text.get_text() for text in glasswood.plot_tree(forest, X, codes).texts]
    root = next(text for text in texts if re.search(r" %$", text))
    assert root.endswith(f"{100 * np.mean(codes == 0):.0f} %")
