"""CatBoost's target statistics (CTR) against CatBoost."""

from __future__ import annotations

import contextlib
import itertools
import json
import pickle

import numpy as np
import pytest
from tests.test_storage import rewrite

import glasswood
from glasswood import _core
from glasswood.base.typing import Choice
from glasswood.evaluate.evaluator import evaluator_of
from glasswood.inputs import statistics

catboost = pytest.importorskip("catboost", reason="CatBoost is not installed: pip install catboost")
pandas = pytest.importorskip("pandas")

N_ROWS = 400
COMMON = {"iterations": 25, "depth": 4, "verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 3}
CATEGORICAL = ["city", "kind", "code", "flag"]


def make_frame(seed=0, n=N_ROWS, unseen=False):
    rng = np.random.default_rng(seed)
    cities = [f"city {i}" for i in range(25 + 10 * unseen)]
    frame = pandas.DataFrame(
        {
            "x": rng.normal(size=n),
            "city": rng.choice(cities, n),
            "y": np.round(rng.normal(size=n), 1),
            "kind": rng.choice(["a", "b", "ü", ""], n),
            "code": rng.integers(-3, 40 + 20 * unseen, n),
            "flag": rng.choice(["yes", "no"], n),
        }
    )
    frame.loc[::11, "x"] = np.nan
    return frame


def make_target(frame, kind):
    city = frame["city"].str[5:].astype(int)
    y = np.nan_to_num(frame["x"]) + (city % 3) * (frame["kind"] == "a") + (frame["code"] % 4) + 0.1 * (city > 12)
    return {"real": y, "positive": y - y.min() + 0.1, "two": y > 2, "three": np.digitize(y, [1, 3]),
            "four": np.digitize(y, [1, 2, 3])}[kind]  # fmt: skip


def adversarial(model_or_forest, frame):
    """Unseen categories, and numbers at and one ulp beside the borders that trees and combinations test."""
    rng = np.random.default_rng(1)
    rows = pandas.concat([frame, make_frame(5, 600, unseen=True)], ignore_index=True)
    forest = model_or_forest
    for column, name in enumerate(forest.ensemble.transform.names or ()):
        if name not in {"x", "y"}:
            continue
        splits = np.clip(forest.ensemble.threshold[forest.ensemble.feature == column], -3e38, 3e38).astype(np.float32)
        borders = [b for table in forest.ensemble.transform.tables for c, b in table.projection.borders if c == column]
        values = np.concatenate([splits, np.array(borders, np.float32), np.array([0, -0.0, np.inf, -np.inf, np.nan])])
        near = [np.nextafter(values, np.float32(side)) for side in (-np.inf, np.inf)]
        values = np.concatenate([values, *near]).astype(float)
        chosen = rng.random(len(rows)) < 0.6
        rows.loc[chosen, name] = rng.choice(values, chosen.sum())
    return rows


def ctr(kind, *settings):
    return [":".join([kind, *settings])]


ALL_KINDS = ["Borders", "Buckets", "BinarizedTargetMeanValue", "Counter"]
LOSSES = {
    "squared": ("Regressor", {}, "real"),
    "poisson": ("Regressor", {"loss_function": "Poisson"}, "positive"),
    "uncertainty": ("Regressor", {"loss_function": "RMSEWithUncertainty"}, "real"),
    "two classes": ("Classifier", {}, "two"),
    "three classes": ("Classifier", {}, "three"),
    "one versus all": ("Classifier", {"loss_function": "MultiClassOneVsAll"}, "four"),
}
MODELS = {
    **{f"{loss}, {size} one-hot": (loss, {"one_hot_max_size": size}) for loss in LOSSES for size in (1, 4)},
    **{f"combinations of {n}": ("squared", {"max_ctr_complexity": n, "one_hot_max_size": 2}) for n in (1, 2, 3, 4)},
    **{f"combinations of {n}, classes": ("three classes", {"max_ctr_complexity": n}) for n in (2, 4)},
    **{f"simple {kind}": ("squared", {"simple_ctr": ctr(kind)}) for kind in ALL_KINDS},
    **{f"simple {kind}, classes": ("three classes", {"simple_ctr": ctr(kind)}) for kind in ALL_KINDS},
    **{f"combined {kind}": ("two classes", {"combinations_ctr": ctr(kind)}) for kind in ALL_KINDS},
    "several borders": ("squared", {"simple_ctr": ctr("Borders", "TargetBorderCount=4", "CtrBorderCount=40")}),
    "several borders, buckets": ("squared", {"simple_ctr": ctr("Buckets", "TargetBorderCount=3")}),
    "priors": ("squared", {"simple_ctr": ctr("Borders", "Prior=0.3", "Prior=2/1")}),
    "few borders": ("two classes", {"simple_ctr": ctr("Borders", "CtrBorderCount=3")}),
    "counter of all": ("squared", {"counter_calc_method": "Full", "simple_ctr": ctr("Counter")}),
    "few leaves": ("squared", {"ctr_leaf_count_limit": 5}),
    "depth-wise": ("squared", {"grow_policy": "Depthwise"}),
    "loss-guided": ("three classes", {"grow_policy": "Lossguide"}),
    "plain boosting": ("squared", {"boosting_type": "Plain"}),
    "ordered boosting": ("squared", {"boosting_type": "Ordered"}),
    "missing above": ("squared", {"nan_mode": "Max", "max_ctr_complexity": 3}),
    "deep": ("squared", {"depth": 8, "max_ctr_complexity": 4}),
    "scaled": ("squared", {"learning_rate": 0.7}),
}  # fmt: skip


def test_many_rows_have_the_statistics_of_few(frame):
    """Few are looked up one by one, of many what their categories combine to; codes are places in lists of values."""
    forest = glasswood.load(train("combinations of 3", frame))
    rows = adversarial(forest, frame)[:90]
    few = np.concatenate([forest.predict(rows[at : at + 3], output="margin") for at in range(0, 90, 3)])
    many = forest.predict(pandas.concat([rows] * 300), output="margin")
    np.testing.assert_array_equal(many, np.tile(few, 300))
    tables = statistics._lookup_of(forest.ensemble.transform).tables
    n_parts = len(statistics._lookup_of(forest.ensemble.transform).parts)
    out, values = (
        np.empty((len(forest.ensemble.transform.statistics), 5), np.float32),
        [np.arange(2, dtype=np.int32)] * n_parts,
    )
    for code in (-1, 2):
        with pytest.raises(ValueError, match="a code has no value"):
            _core.StatisticRows(tables, np.full((n_parts, 5), code, np.int32), values)
    with pytest.raises(ValueError, match="values has the wrong length"):
        _core.StatisticRows(tables, np.zeros((n_parts, 5), np.int32), values[1:])
    for first in (-1, 1):
        with pytest.raises(ValueError, match="no such rows"):
            _core.StatisticRows(tables, np.zeros((n_parts, 5), np.int32), values).look_up(first, out, 1)


@pytest.mark.parametrize(
    "name", ["squared, 1 one-hot", "combinations of 3", "combined Counter", "three classes, 1 one-hot"]
)
def test_ranks_of_statistics_give_the_bits_of_their_values(name, frame):
    """`by_node` and `windowed` are given ranks by the tables, row by row and in lanes; missing numbers among them."""
    forest = glasswood.load(train(name, frame))
    rows = adversarial(forest, frame)
    assert rows.isna().any(axis=None)
    cpu = evaluator_of(forest.ensemble).cpu
    for some in (rows, rows[:5], pandas.concat([rows] * 20)):
        values = forest.predict(some, output="margin", algorithm="serial")
        for algorithm in ("by_node", "windowed"):
            placed = statistics.statistic_rows(some, forest.ensemble.transform, "name")
            assert cpu.statistic_margins(placed, Choice(len(some), "cpu", algorithm), 1) is not None
            np.testing.assert_array_equal(forest.predict(some, output="margin", algorithm=algorithm), values)


def test_statistics_that_are_not_numbers_have_no_ranks(frame):
    forest = glasswood.load(train("combinations of 3", frame))
    plan = evaluator_of(forest.ensemble).cpu.node_plan(Choice(1, "cpu", "by_node"))
    feature = int(forest.ensemble.feature.max())
    values = np.array([-np.inf, np.inf], np.float32)
    assert plan.ranks(feature, values)[0] == 0 < plan.ranks(feature, values)[1]
    assert plan.ranks(feature, np.array([0, np.nan], np.float32)) is None
    with pytest.raises(ValueError, match="no such feature"):
        plan.ranks(forest.ensemble.n_features, values)
    own = np.zeros((4, len(forest.ensemble.transform.hashes)), np.float32)
    ranks = np.zeros((forest.ensemble.n_features - own.shape[1], 3), np.uint8)
    with pytest.raises(ValueError, match="another number of rows"):
        plan.margins_of_ranks(own, ranks, np.zeros((4, 1)), 1)


EXPLAINED = ["squared, 1 one-hot", "combinations of 3", "combined Counter", "three classes, 1 one-hot"]


TRAINED = {}


def train(name, frame):
    """Models of the module's frame, each trained once."""
    if name not in TRAINED:
        loss, options = MODELS[name]
        kind, more, target = LOSSES[loss]
        model = getattr(catboost, f"CatBoost{kind}")(**COMMON | more | options)
        TRAINED[name] = model.fit(frame, make_target(frame, target), cat_features=CATEGORICAL)
    return TRAINED[name]


@pytest.fixture(scope="module")
def frame():
    return make_frame()


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_those_of_catboost(name, frame, tmp_path):
    model = train(name, frame)
    forest = glasswood.load(model, check=frame)
    if forest.ensemble.transform is None:
        pytest.skip("the trees test no statistic")
    rows = adversarial(forest, frame)
    expected = model.predict(rows, prediction_type="RawFormulaVal")
    scale = np.abs(expected).max()
    np.testing.assert_array_equal(forest.predict(rows, output="leaf"), model.calc_leaf_indexes(rows))
    np.testing.assert_allclose(forest.predict(rows, output="margin"), expected, rtol=0, atol=1e-14 * scale * 25)
    for suffix in ("cbm", "json"):
        path = str(tmp_path / f"model.{suffix}")
        model.save_model(path, format=suffix)
        np.testing.assert_array_equal(
            glasswood.load(path).predict(rows, output="margin"), forest.predict(rows, output="margin")
        )
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(forest.predict(rows, output="probability"), model.predict_proba(rows), atol=1e-9)


def test_there_are_forty_models_of_all_kinds(frame):
    made = [glasswood.load(train(name, frame)).ensemble.transform for name in MODELS]
    made = [one for one in made if one is not None]
    assert len(made) >= 40
    assert {one.kind for each in made for one in each.statistics} == set(ALL_KINDS)
    projections = [table.projection for each in made for table in each.tables]
    assert max(len(one.columns) for one in projections) >= 3
    assert any(one.borders for one in projections)
    assert any(one.equals for one in projections)


def test_rows_of_other_forms(frame):
    model = train("squared, 4 one-hot", frame)
    forest, expected = glasswood.load(model), model.predict(frame)
    forms = [
        frame[frame.columns[::-1]],
        frame.to_numpy(),
        frame.to_numpy().tolist(),
        frame.astype({"city": "category", "kind": "category"}),
    ]
    for form in forms:
        np.testing.assert_allclose(forest.predict(form), expected, rtol=0, atol=1e-12)
    renamed = frame.rename(columns=dict(zip(frame.columns, "abcdef", strict=True)))
    with pytest.raises(ValueError, match="none named like"):
        forest.predict(renamed)
    np.testing.assert_allclose(
        glasswood.load(forest, columns="position").predict(renamed), expected, rtol=0, atol=1e-12
    )


def test_rows_that_catboost_refuses(frame):
    forest = glasswood.load(train("squared, 1 one-hot", frame))
    lacking = frame.astype({"city": object}).copy()
    lacking.loc[3, "city"] = None
    with pytest.raises(ValueError, match=r"column 'city' of X has no value in row 3, and CatBoost does not accept"):
        forest.predict(lacking)
    with pytest.raises(TypeError, match="CatBoost's categories are text or whole numbers"):
        forest.predict(frame.assign(code=frame["code"] + 0.5))
    with pytest.raises(ValueError, match="lacks 'flag'"):
        forest.predict(frame.drop(columns="flag"))
    explainer = glasswood.Explainer(forest)
    for make in (forest.predictor, explainer.row):
        with pytest.raises(
            NotImplementedError, match=rf"^{make.__name__} expects .* by target statistics of categories"
        ):
            make()


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_many_rows_are_those_of_catboost(name, frame):
    """Half a million rows over all models."""
    model = train(name, frame)
    forest = glasswood.load(model)
    rows = make_frame(7, 12_000, unseen=True)
    if forest.ensemble.transform is not None:
        rows = pandas.concat([rows, adversarial(forest, frame)], ignore_index=True)
    expected = model.predict(rows, prediction_type="RawFormulaVal")
    np.testing.assert_array_equal(forest.predict(rows, output="leaf"), model.calc_leaf_indexes(rows))
    bound = 1e-14 * np.abs(expected).max() * 25
    np.testing.assert_allclose(forest.predict(rows, output="margin"), expected, rtol=0, atol=bound)


@pytest.mark.parametrize(("name", "mmap"), [(name, place % 2 == 1) for place, name in enumerate(MODELS)])
def test_files_keep_the_tables(name, mmap, frame, tmp_path):
    path = tmp_path / "model.glasswood"
    forest = glasswood.load(train(name, frame))
    forest.save(path)
    again, rows = glasswood.load(path, mmap=mmap), adversarial(forest, frame) if forest.ensemble.transform else frame
    for output in ("prediction", "margin"):
        np.testing.assert_array_equal(again.predict(rows, output=output), forest.predict(rows, output=output))
    assert again.feature_names == forest.feature_names
    glasswood.Explainer(forest).save(path)
    explainer = glasswood.Explainer.load(path)
    np.testing.assert_array_equal(explainer.shap_values(frame), glasswood.Explainer(forest).shap_values(frame))
    again.save(tmp_path / "again.glasswood")
    forest.save(path)
    assert path.read_bytes() == (tmp_path / "again.glasswood").read_bytes()


def table(about, **changes):
    return about | {"tables": [about["tables"][0] | changes, *about["tables"][1:]]}


def statistic(about, **changes):
    return about | {"statistics": [about["statistics"][0] | changes, *about["statistics"][1:]]}


DAMAGED = {
    "names": (lambda about: about | {"names": ["a"]}, "have 1 names for 6 columns"),
    "a column": (lambda about: table(about, categories=[7]), "columns beyond the 6 of the model"),
    "a number": (lambda about: table(about, categories=[0]), "has a number in place of a category"),
    "a fraction": (lambda about: table(about, denominator=0.5), "other than whole numbers"),
    "a table": (lambda about: statistic(about, table=99), "looks up table 99"),
    "a kind": (lambda about: statistic(about, kind="Mean"), "of the kind 'Mean'"),
    "a class": (lambda about: statistic(about, kind="Buckets", target_border=7), "of class 7 looks up"),
    "too few": (lambda about: about | {"statistics": about["statistics"][:-1]}, "target statistics for"),
    "no tables": (lambda about: about | {"tables": []}, "looks up table 0"),
    "a list": (lambda _: [], "truncated or corrupt"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_tables_of_files_are_refused(name, frame, tmp_path):
    change, message = DAMAGED[name]
    path = tmp_path / "model.glasswood"
    glasswood.load(train("squared, 1 one-hot", frame)).save(path)
    rewrite(path, lambda header: header | {"statistics": change(header["statistics"])})
    with pytest.raises(ValueError, match=f"model.glasswood is truncated or corrupt.*{message}|{message}"):
        glasswood.load(path)


@pytest.mark.parametrize("name", EXPLAINED)
def test_explanations_are_catboosts(name, frame):
    """Players are columns and sets of columns; CatBoost divides the value of a set equally among its columns."""
    model = train(name, frame)
    rows = frame[:40]
    expected = model.get_feature_importance(catboost.Pool(rows, cat_features=CATEGORICAL), type="ShapValues")
    explainer = glasswood.Explainer(model, groups="source", dtype="float64")
    values = explainer.shap_values(rows, check_additivity=True)
    found, columns = explainer.by_column(values)
    assert set(columns) == set(frame.columns)
    order = [columns.index(column) for column in frame.columns]
    expected = expected[:, :-1] if expected.ndim == 2 else np.moveaxis(expected[:, :, :-1], 1, 2)
    np.testing.assert_allclose(found[:, order], expected, rtol=0, atol=1e-9)


def test_features_are_explained_by_name(frame):
    model = train("squared, 1 one-hot", frame)
    explainer = glasswood.Explainer(model, dtype="float64")
    assert explainer.players[:6] == tuple(frame.columns)
    assert any(name.startswith("Borders(city") for name in explainer.players)
    total = explainer.shap_values(frame).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, model.predict(frame), atol=1e-9)
    with pytest.raises(ValueError, match='groups="source"'):
        explainer.by_column(np.zeros((1, 2)))


def test_mappers_travel_with_the_tables(frame):
    forest = glasswood.load(train("squared, 1 one-hot", frame))
    mapper = pickle.loads(pickle.dumps(forest.mapper(columns=["code"])))
    found = mapper(frame[frame.columns[::-1]].assign(more=1))
    np.testing.assert_array_equal(found["prediction"], forest.predict(frame))
    np.testing.assert_array_equal(found["code"], frame["code"])
    explained = pickle.loads(pickle.dumps(glasswood.Explainer(forest).mapper()))(frame[:20])
    values = glasswood.Explainer(forest).shap_values(frame[:20])
    np.testing.assert_array_equal(explained.filter(like="phi_"), values)


@pytest.mark.parametrize("groups", [None, "source"])
def test_explanations_show_categories_by_value(groups, frame):
    pytest.importorskip("shap")
    explainer = glasswood.Explainer(train("squared, 1 one-hot", frame), groups=groups)
    for rows in (frame[:5], frame[frame.columns[::-1]][:5], frame[:5].to_numpy()):
        data = dict(zip(explainer.players, explainer(rows).data.T, strict=True))
        for column in frame:
            shown = pandas.Series(data[column].tolist(), name=column)
            pandas.testing.assert_series_equal(shown, frame[column][:5], check_dtype=False)


DOCUMENTS = {
    "no tables": (("ctr_data",), None, "'ctr_data' is"),
    "no table": (("ctr_data", 0), "delete", "is missing, expected dict"),
    "stride": (("ctr_data", 0, "hash_stride"), 7, "not a multiple of its stride|counts an entry"),
    "no stride": (("ctr_data", 0, "hash_stride"), 0, "not a multiple of its stride 0"),
    "texts": (("ctr_data", 0, "hash_map"), ["a", "b", "c"], "invalid literal|holds something other|the key 'a'"),
    "negative key": (("ctr_data", 0, "hash_map", 0), "-4", "expected a number of 64 bits"),
    "unknown kind": (("features_info", "ctrs", 0, "ctr_type"), "Tarot", "of the kind 'Tarot' are not supported"),
    "unknown element": (
        ("features_info", "ctrs", 0, "elements", 0, "combination_element"), "moon", "target statistics of 'moon'"),
    "unknown feature": (("features_info", "ctrs", 0, "elements", 0, "cat_feature_index"), 99, "feature 99 of 4"),
    "negative class": (("features_info", "ctrs", 0, "target_border_idx"), -1, "divides 2 classes at -1"),
    "infinite border": (("features_info", "ctrs", 0, "borders"), [1e999], "border that is not finite"),
    "prior": (("features_info", "ctrs", 0, "prior_numerator"), "x", "'prior_numerator' is 'x', expected a number"),
}  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_that_do_not_fit_are_refused(name, frame, tmp_path):
    place, value, message = DOCUMENTS[name]
    path = tmp_path / "model.json"
    train("squared, 1 one-hot", frame).save_model(str(path), format="json")
    document = json.loads(path.read_text())
    parent = document
    for key in place[:-1]:
        parent = parent[key] if not (isinstance(parent, dict) and isinstance(key, int)) else list(parent.values())[key]
    key = list(parent)[place[-1]] if isinstance(parent, dict) and isinstance(place[-1], int) else place[-1]
    if value == "delete":
        del parent[key]
    else:
        parent[key] = value
    path.write_text(json.dumps(document))
    with pytest.raises((ValueError, NotImplementedError), match=message):
        glasswood.load(path)


def test_truncated_files_are_refused(frame, tmp_path):
    path = tmp_path / "model.cbm"
    train("squared, 1 one-hot", frame).save_model(str(path))
    data = path.read_bytes()
    core = 8 + int.from_bytes(data[4:8], "little")
    for end in itertools.chain(range(core, len(data), max(1, (len(data) - core) // 60)), [len(data) - 1]):
        path.write_bytes(data[:end])
        with pytest.raises(ValueError, match=r"model\.cbm"):
            glasswood.load(path)
    for place in range(core, len(data), 37):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x81]) + data[place + 1 :])
        with contextlib.suppress(ValueError, NotImplementedError):
            glasswood.load(path).predict(frame[:20])


def test_numbers_beyond_float32_raise_no_warning(frame, tmp_path):
    """A prior or a count of a damaged file becomes infinity, as in float32 arithmetic."""
    path = tmp_path / "model.json"
    train("priors", frame).save_model(str(path), format="json")
    document = json.loads(path.read_text())
    for one in document["features_info"]["ctrs"]:
        one["prior_numerator"] = 1e300
    path.write_text(json.dumps(document))
    assert np.isfinite(glasswood.load(path).predict(frame)).all()
