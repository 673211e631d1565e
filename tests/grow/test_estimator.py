"""ModelTreeRegressor: trees, parameters, and what ends a search; test_estimator_inputs.py has its inputs."""

import pickle
import signal
import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import glasswood
from glasswood.grow.checks import PARAMETERS
from glasswood.grow.data.rows import prepare
from glasswood.grow.search.engine import Progress, SearchSettings
from glasswood.grow.search.progress import watching
from glasswood.grow.tree.thresholds import shared
from tests.grow.engines import piecewise

FAST = {"n_iter_no_change": 10, "n_jobs": 1}


@pytest.fixture(scope="module")
def data():
    return piecewise(600)


@pytest.fixture(scope="module")
def fitted(data):
    return glasswood.ModelTreeRegressor(**FAST).fit(*data)


def test_finds_the_planes(fitted):
    assert fitted.n_leaves_ == 3
    splits = fitted.forest_.ensemble.feature >= 0
    thresholds = dict(
        zip(fitted.forest_.ensemble.feature[splits], fitted.forest_.ensemble.threshold[splits], strict=True)
    )
    assert thresholds[0] == pytest.approx(2, abs=0.02)
    assert thresholds[1] == pytest.approx(3, abs=0.02)


def test_thresholds_lie_midway(fitted, data):
    X, _ = data
    root = fitted.forest_.ensemble.threshold[0]
    x = np.sort(X[:, fitted.forest_.ensemble.feature[0]])
    at = np.searchsorted(x, root)
    assert root == (x[at - 1] + x[at]) / 2


def test_tests_of_one_gap_share_their_threshold():
    """Two splits on either side of a first one whose gaps overlap: midway in what the gaps have in common."""
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.permutation(400) / 400, rng.permutation(400) / 400])
    sign = np.where((X[:, 0] < 0.4) == (X[:, 1] < 0.6), 1.0, -1.0)
    y = 5 * sign + 0.01 * rng.standard_normal(400)
    tree = glasswood.ModelTreeRegressor(leaf_model="constant", n_iter_no_change=50).fit(X, y)
    forest = tree.forest_
    assert tree.n_leaves_ == 4
    assert forest.ensemble.threshold[1] == forest.ensemble.threshold[2]
    for feature, truth in enumerate([0.4, 0.6]):
        x = np.sort(X[:, feature])
        at = np.searchsorted(x, truth)
        assert set(forest.ensemble.threshold[:3][forest.ensemble.feature[:3] == feature]) == {(x[at - 1] + x[at]) / 2}


@given(st.lists(st.tuples(st.integers(-1, 20), st.integers(1, 5)), max_size=6))
def test_shared_gaps(widths):
    """Every gap contains what it is replaced by; gaps stay apart only where they do not overlap."""
    gaps = {node: (low, low + width) for node, (low, width) in enumerate(widths)}
    found = shared(gaps)
    assert found.keys() == gaps.keys()
    for node, (low, high) in gaps.items():
        assert low <= found[node][0] < found[node][1] <= high
    ends = sorted(set(found.values()))
    assert all(first[1] <= second[0] or first == second for first, second in pairwise(ends))


def test_leaves_are_least_squares_with_standard_errors(fitted, data):
    """Against the normal equations in the user's units."""
    X, y = data
    leaf = fitted.apply(X)
    for number in range(3):
        terms = fitted.leaves_["leaf"] == number
        used = [int(name[1:]) for name in fitted.leaves_["feature"][terms][1:]]
        A = np.column_stack([np.ones((leaf == number).sum()), X[leaf == number][:, used]])
        target = y[leaf == number]
        inverse = np.linalg.inv(A.T @ A)
        coefficients = inverse @ A.T @ target
        variance = np.sum((target - A @ coefficients) ** 2) / (len(A) - A.shape[1])
        np.testing.assert_allclose(fitted.leaves_["coefficient"][terms], coefficients, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(
            fitted.leaves_["standard_error"][terms], np.sqrt(variance * np.diag(inverse)), rtol=1e-8
        )


def test_prediction_is_the_leaf_equation(fitted, data):
    X, y = data
    leaf = fitted.apply(X)
    expected = np.zeros(len(y))
    names = fitted.leaves_["feature"]
    for number, name, coefficient in zip(fitted.leaves_["leaf"], names, fitted.leaves_["coefficient"], strict=True):
        rows = leaf == number
        expected[rows] += coefficient * (1 if name == "(intercept)" else X[rows, int(name[1:])])
    summary = fitted.leaf_summary_
    expected = np.clip(expected, summary["lowest"][leaf], summary["highest"][leaf])
    np.testing.assert_allclose(fitted.predict(X), expected, rtol=1e-10)


def test_same_tree_for_any_number_of_threads(data):
    one, two = (glasswood.ModelTreeRegressor(n_iter_no_change=10, n_jobs=n).fit(*data) for n in (1, 3))
    np.testing.assert_array_equal(one.history_["fitness"], two.history_["fitness"])
    np.testing.assert_array_equal(one.history_["mean_leaves"], two.history_["mean_leaves"])
    np.testing.assert_array_equal(one.forest_.ensemble.threshold, two.forest_.ensemble.threshold)


def test_clipping_and_extrapolation(data):
    X, y = data
    far = np.full((1, 3), 100.0)
    leaf, target, free = (
        glasswood.ModelTreeRegressor(**FAST, clip=clip).fit(X, y) for clip in ("leaf", "target", "none")
    )
    reached = leaf.apply(far)[0]
    assert leaf.predict(far)[0] in {leaf.leaf_summary_[name][reached] for name in ("low", "high")}
    margin = 0.05 * np.ptp(y)
    assert target.predict(far)[0] in {y.min() - margin, y.max() + margin}
    assert abs(free.predict(far)[0]) > 50
    for tree in (leaf, target):
        summary = tree.leaf_summary_
        np.testing.assert_array_equal(tree.forest_.ensemble.leaf_range.T, [summary["lowest"], summary["highest"]])
    assert np.isinf(free.leaf_summary_["highest"]).all()


@pytest.mark.parametrize("settings", [{}, {"loss": "huber"}, {"loss": "quantile", "quantile": 0.1}])
def test_amounts_keep_their_sign(settings):
    """A line through amounts that are mostly small falls below 0, by less than a twentieth of the range."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 1))
    y = np.where(rng.random(1000) < 0.3, 0, np.exp(2 * X[:, 0] + rng.normal(size=1000)))
    for sign in (1, -1) if not settings else (1,):
        tree = glasswood.ModelTreeRegressor(**FAST, max_leaves=1, **settings).fit(X, sign * y)
        assert (sign * tree.predict(X)).min() >= 0
        assert 0 in {tree.leaf_summary_["lowest"][0], tree.leaf_summary_["highest"][0]}
    mixed = glasswood.ModelTreeRegressor(**FAST, max_leaves=1).fit(X, y - 0.01)
    assert mixed.predict(X).min() < -1


def test_logarithms_of_counts_have_no_sign():
    rng = np.random.default_rng(0)
    X = rng.random((500, 1))
    tree = glasswood.ModelTreeRegressor(**FAST, loss="poisson", max_leaves=1).fit(X, rng.poisson(200 * (1 + X[:, 0])))
    low, high = tree.leaf_summary_["lowest"][0], tree.leaf_summary_["highest"][0]
    assert low > 1 or low < 0
    assert high > np.log(400)


def test_rows_that_are_clipped_are_counted():
    X = np.linspace(0, 4, 100)[:, None]
    y = np.minimum(X[:, 0], 1)
    free, leaf = (glasswood.ModelTreeRegressor(**FAST, max_leaves=1, clip=clip).fit(X, y) for clip in ("none", "leaf"))
    n_changed = (free.predict(X) != leaf.predict(X)).sum()
    assert n_changed > 20
    assert leaf.leaf_summary_["n_clipped"] == n_changed
    assert not free.leaf_summary_["n_clipped"].any()


def test_save_load_pickle_clone(fitted, data, tmp_path):
    X, _ = data
    fitted.forest_.save(tmp_path / "tree.glasswood")
    np.testing.assert_array_equal(glasswood.load(tmp_path / "tree.glasswood").predict(X), fitted.predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))
    assert clone(fitted).get_params() == fitted.get_params()


def test_in_a_pipeline(data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), glasswood.ModelTreeRegressor(**FAST)).fit(X, y)
    assert pipeline.score(X, y) > 0.99


def test_explanations_add_up_to_the_prediction(fitted, data):
    X, _ = data
    explainer = glasswood.Explainer(fitted, dtype="float64")
    total = explainer.expected_value + explainer.shap_values(X).sum(axis=1)
    np.testing.assert_allclose(total, fitted.predict(X), rtol=1e-9, atol=1e-9)


def test_weights_decide():
    X, y = piecewise(600)
    lying = np.arange(600) % 3 == 0
    y = np.where(lying, 100.0, y)
    tree = glasswood.ModelTreeRegressor(**FAST).fit(X, y, sample_weight=np.where(lying, 0.0, 2.0))
    direct = glasswood.ModelTreeRegressor(**FAST).fit(X[~lying], y[~lying])
    np.testing.assert_array_equal(tree.predict(X), direct.predict(X))


def test_constant_leaves(data):
    tree = glasswood.ModelTreeRegressor(**FAST, leaf_model="constant").fit(*data)
    assert not tree.forest_.ensemble.has_linear_leaves
    assert glasswood.Explainer(tree.forest_).shap_values(data[0][:3]).shape == (3, 3)


def with_search(**settings):
    """Make a class of trees with other settings of the search."""
    return type("Searched", (glasswood.ModelTreeRegressor,), {"search_settings": SearchSettings(**settings)})


def test_warm_start_goes_on(data):
    tree = with_search(polish=())(generations=3, warm_start=True, n_jobs=1)
    first = tree.fit(*data).fitness_
    assert tree.fit(*data).history_["fitness"][0] <= first


def test_callbacks_stop_the_search(data):
    seen = []
    tree = glasswood.ModelTreeRegressor(n_jobs=1, callbacks=[lambda progress: seen.append(progress) or len(seen) == 2])
    tree.fit(*data)
    assert len(seen) == 2
    assert tree.interrupted_
    assert seen[-1].n_leaves == tree.n_leaves_


def test_interrupt_keeps_the_best_tree(data):
    ended = threading.Event()

    def interrupt():
        # Again after a while: a signal that comes during a callback of the garbage collector is lost.
        pause = 0.5
        while not ended.wait(pause):
            signal.raise_signal(signal.SIGINT)
            pause = 20

    thread = threading.Thread(target=interrupt)
    tree = glasswood.ModelTreeRegressor(n_iter_no_change=10**6, generations=10**6, n_jobs=1)
    thread.start()
    tree.fit(*data)
    ended.set()
    thread.join()
    assert tree.interrupted_
    assert tree.n_leaves_ == 3


@pytest.mark.filterwarnings("ignore:the time limit ended the search")
def test_time_limit(data):
    tree = glasswood.ModelTreeRegressor(n_iter_no_change=10**6, generations=10**6, time_limit=0.3, n_jobs=1).fit(*data)
    assert tree.history_["seconds"][-1] < 30
    assert tree.n_leaves_ == 3


@pytest.mark.usefixtures("unjudged")
def test_small_data_are_searched_for_a_counted_time(data):
    """The same generations for any number of threads, and after a hundred without gain only what is missing of it."""
    trees = [glasswood.ModelTreeRegressor(n_jobs=n).fit(*data) for n in (1, 2)]
    np.testing.assert_array_equal(trees[0].history_["fitness"], trees[1].history_["fitness"])
    idle = trees[0].n_iter_ - np.argmin(trees[0].history_["fitness"])
    assert idle > 300
    assert glasswood.ModelTreeRegressor(n_iter_no_change=100, n_jobs=1).fit(*data).n_iter_ < trees[0].n_iter_ / 2


def test_progress_bar(data, capsys):
    glasswood.ModelTreeRegressor(generations=3, verbose=True, n_jobs=1).fit(*data)
    shown = capsys.readouterr().err
    for word in ("fitness", "leaves", "rmse", "ends in"):
        assert word in shown
    for verbose in (False, "auto"):
        glasswood.ModelTreeRegressor(generations=3, verbose=verbose, n_jobs=1).fit(*data)
        assert not capsys.readouterr().err


def test_a_long_search_says_when_it_ends(capsys):
    """At the latest after ten seconds, sooner where it is expected to take as long, and then every half minute."""

    def progress(generation, seconds, least):
        return Progress(generation, 1.0, 1.0, 3, 3.0, seconds, least, 50.0)

    with watching((), "auto") as (bar,):
        bar(progress(2, 1.0, 30.0))
        bar(progress(6, 2.0, 3.0))
        assert not capsys.readouterr().err
        bar(progress(9, 3.0, 30.0))
        assert "ends in 30 s to 50 s" in capsys.readouterr().err
        bar(progress(12, 11.0, 20.0))
        assert not capsys.readouterr().err
        bar(progress(40, 33.0, 17.0))
        assert "grow 33 s: 3 leaves" in capsys.readouterr().err


def test_estimates_follow_the_rules_that_end_a_search(data):
    seen = []
    glasswood.ModelTreeRegressor(n_jobs=1, n_iter_no_change=300, time_limit=1000, callbacks=[seen.append]).fit(*data)
    assert all(0 <= p.least_seconds_left <= p.most_seconds_left <= 1000 for p in seen)
    assert seen[-1].least_seconds_left == 0
    assert max(p.least_seconds_left for p in seen) > 0


def test_importances_are_shares_of_the_explained_variance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = np.where(X[:, 0] > 0, 4, 0) + 2 * X[:, 1] + X[:, 2]
    importances = glasswood.ModelTreeRegressor(**FAST).fit(X, y).feature_importances_
    np.testing.assert_allclose(importances, np.array([4, 4, 1, 0]) / 9, atol=0.02)
    assert not glasswood.ModelTreeRegressor(**FAST).fit(X, np.ones(2000)).feature_importances_.any()


@pytest.mark.parametrize("fitness", ["bic", "weighted"])
def test_fitness_formulas(data, fitness):
    X, y = data
    tree = glasswood.ModelTreeRegressor(**FAST, fitness=fitness, noise="uniform").fit(X, y)
    free = glasswood.ModelTreeRegressor(**FAST, fitness=fitness, noise="uniform", clip="none").fit(X, y)
    error = np.sum((free.predict(X) - y) ** 2) / np.var(y)
    n, tests = len(y), tree.n_leaves_ - 1
    attributes = len(tree.forest_.ensemble.linear_feature)
    expected = (
        n * np.log(error / n) + np.log(n) * (2 * tests + attributes + tree.n_leaves_)
        if fitness == "bic"
        else 1 - 1 / (1 + error / n) + 0.001 * (tests + attributes)
    )
    assert tree.fitness_ == pytest.approx(expected, rel=1e-9)


def test_operators_can_be_switched_off(data):
    off = dict.fromkeys(["new_split", "shift_threshold", "prune", "search_threshold", "expand"], 0.0)
    tree = with_search(operator_rates=off, polish=())(generations=5, n_jobs=1)
    assert tree.fit(*data).n_iter_ == 5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"fitness": "aic"}, "fitness is 'aic', expected one of bic, weighted"),
        ({"chunks": 0}, "chunks is 0, expected at least 1 row, 'auto' or None"),
        ({"max_depth": 19}, "max_depth is 19, expected 0 to 18"),
        ({"min_samples_leaf": 0}, "min_samples_leaf is 0, expected at least 1$"),
        ({"smoothing": np.inf}, "smoothing is inf, expected a finite number of at least 0 or 'auto'$"),
        ({"time_limit": 0}, "time_limit is 0"),
        ({"categorical_features": [7]}, "categorical_features names 7"),
    ],
)
def test_wrong_parameters(data, parameters, message):
    with pytest.raises(ValueError, match=message):
        glasswood.ModelTreeRegressor(**FAST, **parameters).fit(*data)


def test_the_table_checks_what_estimators_have():
    kinds = glasswood.ModelTreeRegressor, glasswood.ModelTreeClassifier, glasswood.ModelTreeEnsembleRegressor
    kinds = *kinds, glasswood.ModelTreeEnsembleClassifier
    kinds = *kinds, glasswood.AdditiveRegressor, glasswood.AdditiveClassifier
    names = {name for kind in kinds for name in kind().get_params(deep=False)}
    assert set(PARAMETERS) <= names
    assert names - set(PARAMETERS) == {
        "callbacks", "categorical_features", "class_weight", "coefficient_signs", "estimator", "interaction_cst",
        "interactions", "method", "monotonic_cst", "n_jobs", "random_state", "warm_start",
    }  # fmt: skip


@pytest.mark.parametrize("chunks", ["all", 0.5, True])
def test_chunks_of_no_kind(data, chunks):
    with pytest.raises(TypeError, match=r"chunks is .*, expected an integer, 'auto' or None"):
        glasswood.ModelTreeRegressor(chunks=chunks, **FAST).fit(*data)


def test_the_paper_evaluation_takes_one_gpu(data):
    with pytest.raises(NotImplementedError, match=r"algorithm='qr' uses one GPU.* pass device='cuda' or 'cuda:1'"):
        glasswood.ModelTreeRegressor(device="cuda:all", algorithm="qr", **FAST).fit(*data)


def test_constant_target(data):
    tree = glasswood.ModelTreeRegressor(**FAST).fit(data[0], np.full(600, 7.5))
    assert tree.n_leaves_ == 1
    np.testing.assert_array_equal(tree.predict(data[0][:5]), 7.5)


def test_the_seconds_of_the_paper_procedures():
    X, y = piecewise(500, 2)
    tree = glasswood.ModelTreeRegressor(generations=3, algorithm="qr", device="cpu").fit(X, y)
    assert list(tree.procedure_seconds_) == [
        "transfer", "redistribute", "separate", "reorganise", "calc_models", "estimate_errors", "reduction"
    ]  # fmt: skip
    assert tree.procedure_seconds_["transfer"] == 0
    assert min(seconds for name, seconds in tree.procedure_seconds_.items() if name != "transfer") > 0
    assert not hasattr(glasswood.ModelTreeRegressor(generations=3).fit(X, y), "procedure_seconds_")


@pytest.mark.parametrize("n_threads", [2, 5])
def test_attributes_ranked_side_by_side_are_the_same(limits, n_threads):
    limits(few_values=0)
    X, y = piecewise(300, 7)
    X[::5, 3], X[:, 4] = np.nan, 2.0
    rows = [prepare(X, y, np.ones(300), np.ones(7, bool), n) for n in (1, n_threads)]
    for name in ("z", "y", "ranks", "order", "values", "starts", "offsets", "column", "indicator"):
        np.testing.assert_array_equal(getattr(rows[1], name), getattr(rows[0], name))


def test_rows_go_down_a_tree_block_by_block(limits):
    X, y = piecewise(1000, 3)
    X[::9, 1] = np.nan
    whole = glasswood.ModelTreeRegressor(generations=5, device="cpu").fit(X, y)
    limits(routed_rows=37, few_values=0, block_values=64)
    blocks = glasswood.ModelTreeRegressor(generations=5, device="cpu").fit(X, y)
    assert whole.n_leaves_ > 1
    for name in ("feature", "threshold", "cover", "linear_coefficient", "linear_mean"):
        np.testing.assert_array_equal(getattr(blocks.forest_.ensemble, name), getattr(whole.forest_.ensemble, name))
    for name, values in whole.leaf_summary_.items():
        np.testing.assert_array_equal(blocks.leaf_summary_[name], values)
