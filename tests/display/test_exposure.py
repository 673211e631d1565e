"""Where targets are compared with rates, what they were counted over is asked for, and weighs the rows."""

import json
import re

import numpy as np
import pytest

import glasswood
from tests.cli.files import run
from tests.display.browser import Page
from tests.display.test_rates import FAST, contracts

metrics = pytest.importorskip("sklearn.metrics")
pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def insured():
    X, years, rate = contracts(600)
    counts = np.random.default_rng(5).poisson(years * rate).astype(float)
    model = glasswood.ModelTreeRegressor(loss="poisson", max_leaves=3, **FAST).fit(X, counts, exposure=years)
    return model, X, counts, years


def content_of(path):
    [found] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    return json.loads(found)


def test_reports_measure_rates_by_exposure(insured, tmp_path):
    model, X, counts, years = insured
    path = glasswood.report(
        model,
        X[:400],
        counts[:400],
        tmp_path / "r.html",
        exposure=years[:400],
        test=(X[400:], counts[400:], years[400:]),
    )
    content = content_of(path)
    for name, part in (("training", slice(400)), ("test", slice(400, None))):
        rates, predicted, weight = counts[part] / years[part], model.predict(X[part]), years[part]
        told = content["figures"][name]
        assert float(told["R²"].replace("−", "-")) == pytest.approx(
            metrics.r2_score(rates, predicted, sample_weight=weight), abs=6e-5
        )
        [rmse] = [value for key, value in told.items() if "square" in key]
        [mae] = [value for key, value in told.items() if "absolute" in key]
        assert float(rmse) == pytest.approx(
            metrics.mean_squared_error(rates, predicted, sample_weight=weight) ** 0.5, rel=1e-3
        )
        assert float(mae) == pytest.approx(
            metrics.mean_absolute_error(rates, predicted, sample_weight=weight), rel=1e-3
        )
    [tree] = content["trees"][:1]
    root = tree["nodes"][0]
    assert root["mean"] == pytest.approx(counts[:400].sum() / years[:400].sum(), rel=1e-5)
    assert any("count by their exposure" in sentence for sentence in content["sentences"]["what"])
    assert content["intervals"] is None


def test_pictures_show_rates_by_exposure(insured):
    pytest.importorskip("matplotlib")
    from glasswood.base.wording import Wording
    from glasswood.display.tree_plot import _picture

    model, X, counts, years = insured
    picture = _picture(model, model.forest_.ensemble, 0, Wording(style="centered"), X, counts, None, years)
    leaves = np.asarray(model.apply(X))
    of_leaves = [counts[leaves == leaf].sum() / years[leaves == leaf].sum() for leaf in range(model.n_leaves_)]
    at = model.forest_.ensemble.feature < 0
    np.testing.assert_allclose(picture.means[at], of_leaves)
    assert picture.means[0] == pytest.approx(counts.sum() / years.sum())


def test_the_page_names_the_call_with_test_rows(insured, tmp_path, browser):
    model, X, counts, years = insured
    page = Page(browser, glasswood.report(model, X, counts, tmp_path / "r.html", exposure=years))
    told = page.page.evaluate("[...document.querySelectorAll('.note code')].map(one => one.textContent).join(' ')")
    page.close()
    assert "report(model, X, y, exposure=exposure, test=(X_test, y_test, exposure_test))" in told


def test_curves_of_splits_are_weighted_means():
    from glasswood.display.curves import mean_curve

    rng = np.random.default_rng(0)
    values, target, weight = rng.integers(0, 4, 300).astype(float), rng.normal(size=300), rng.uniform(0.1, 3, 300)
    values[:30] = np.nan
    found = mean_curve(values, target, weight=weight)
    inside = [values == value for value in range(4)]
    np.testing.assert_allclose(found["y"], [np.average(target[one], weights=weight[one]) for one in inside])
    assert found["n"].tolist() == [one.sum() for one in inside]
    assert found["missing"] == (pytest.approx(np.average(target[:30], weights=weight[:30])), 30)


CALLS = {
    "report": lambda model, X, y, path: glasswood.report(model, X, y, path),
    "report, test": lambda model, X, y, path: glasswood.report(model, X, y, path, exposure=y + 1, test=(X, y)),
    "plot_tree": lambda model, X, y, _: glasswood.plot_tree(model, X, y),
    "score_values": lambda model, X, y, _: glasswood.score_values(model, X, y, background=X[:20]),
    "permutation_importance": lambda model, X, y, _: glasswood.permutation_importance(model, X, y),
    "Neighbors": lambda model, X, y, _: glasswood.Neighbors(model, X, y, check=False),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["estimator", "file"])
def test_counts_are_not_compared_with_rates(name, kind, insured, tmp_path):
    model, X, counts, _ = insured
    if kind == "file":
        model.forest_.save(tmp_path / "m.glasswood")
        model = glasswood.load(tmp_path / "m.glasswood")
    if name == "plot_tree":
        pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match="exposure"):
        CALLS[name](model, X, counts, tmp_path / "r.html")


def test_rates_with_weights_are_taken(insured):
    model, X, counts, years = insured
    rates = counts / years
    score = glasswood.score_values(model, X[:50], rates[:50], background=X[50:70], sample_weight=years[:50])
    mean = model.predict(X[50:70]).mean()
    deviance = metrics.mean_poisson_deviance(rates[:50], np.full(50, mean), sample_weight=years[:50])
    assert score.baseline == pytest.approx(deviance)
    found = glasswood.permutation_importance(model, X, rates, sample_weight=years, n_repeats=1, random_state=0)
    assert found.importances_mean.max() > 0
    neighbors = glasswood.Neighbors(model, X, rates, sample_weight=years, check=False)
    assert neighbors.n_rows == len(X)
    with pytest.raises(ValueError, match="errors depend on the exposure of each row"):
        neighbors.conformalize(X, rates)


@pytest.mark.parametrize(
    ("exposure", "match"),
    [
        ([1.0, 2.0], r"exposure has shape \(2,\)"),
        ("zeros", "expected numbers above 0"),
        ("no targets", "or pass y"),
    ],
)
def test_exposures_that_do_not_fit(exposure, match, insured, tmp_path):
    model, X, counts, _ = insured
    y = counts
    if exposure == "zeros":
        exposure = np.zeros(len(X))
    elif exposure == "no targets":
        y, exposure = None, np.ones(len(X))
    with pytest.raises(ValueError, match=match):
        glasswood.report(model, X, y, tmp_path / "r.html", exposure=exposure)


def test_commands_take_a_column_of_exposures(insured, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    model, X, counts, years = insured
    model.forest_.save(tmp_path / "m.glasswood")
    X.assign(claims=counts, years=years).to_csv(tmp_path / "rows.csv", index=False)
    source = [tmp_path / "m.glasswood", tmp_path / "rows.csv", "--target", "claims"]
    assert run("report", *source, "-o", tmp_path / "r.html") != 0
    assert "--exposure" in capsys.readouterr().err
    assert run("report", *source, "--exposure", "years", "-o", tmp_path / "r.html") == 0
    told = content_of(tmp_path / "r.html")["trees"][0]["nodes"][0]["mean"]
    assert told == pytest.approx(counts.sum() / years.sum(), rel=1e-5)
    assert run("score", *source, "--exposure", "years", "--background", source[1], "--rows", "30") == 0
    assert run("plot", *source, "--exposure", "years", "-o", tmp_path / "t.svg") == 0
    assert run("plot", *source[:2], "--exposure", "years", "-o", tmp_path / "t.svg") != 0
    assert "--target" in capsys.readouterr().err
    found = ["--training", source[1], "--exposure", "years", "--no-check", "--quantiles", "0.5"]
    assert run("neighbors", *source[:2], *source[2:], *found, "-o", tmp_path / "n.csv") == 0
