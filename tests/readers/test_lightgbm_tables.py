"""LightGBM's tables of categories, whose columns its models do not name; against its own predict on the same frames."""

from __future__ import annotations

import contextlib
import pickle
import sqlite3

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import glasswood
from glasswood.inputs.tables import with_sets
from glasswood.model.facts import forest_facts

N = 300
COMMON = {"verbose": -1, "num_threads": 1, "min_data_per_group": 1, "cat_smooth": 1, "min_data_in_leaf": 3}


def categories(rng, values, **how):
    return pd.Categorical(rng.choice(values, N), **how)


def trained(frame, **how):
    codes = [column.cat.codes if column.dtype == "category" else column for _, column in frame.items()]
    target = sum((code % 3 == 1) * (place + 1.0) + code / 9 for place, code in enumerate(codes))
    return lgb.train(COMMON, lgb.Dataset(frame, target, **how), 15)


def frames():
    rng = np.random.default_rng(0)
    x, store = rng.normal(size=N), rng.integers(0, 3, N)
    listed = {"categorical_feature": ["store"]}
    constant = pd.Categorical([7] * N, categories=[5, 7, 9])
    sizes = pd.Categorical(rng.choice(["S", "M", "L"], N), categories=["S", "M", "L"], ordered=True)
    made = {
        "ordered beside listed integers": (
            {"rating": categories(rng, [10, 20, 30], ordered=True), "store": store, "x": x},
            listed,
        ),
        "unordered that is not listed": ({"zone": categories(rng, [101, 205, 309]), "store": store, "x": x}, listed),
        "one value in training": (
            {"region": constant, "store": store, "x": x},
            {"categorical_feature": ["region", "store"]},
        ),
        "texts": ({"zone": categories(rng, ["a", "b", "c"]), "store": store, "x": x}, listed),
        "ordered texts beside integers": ({"size": sizes, "rooms": store, "x": x}, {}),
        "integers first": ({"store": store, "zone": categories(rng, ["a", "b", "c"]), "x": x}, {}),
        "flags": (
            {"flag": categories(rng, [False, True]), "n": store, "zone": categories(rng, list("pq")), "x": x},
            {},
        ),
    }
    return {name: (pd.DataFrame(columns), how) for name, (columns, how) in made.items()}


CASES = frames()


@pytest.fixture(params=CASES)
def case(request):
    frame, how = CASES[request.param]
    return frame, trained(frame, **how)


def shuffled(frame):
    """The same values with categories in another order, and one that is not used."""
    return frame.assign(
        **{
            name: column.cat.set_categories([*column.cat.categories[::-1], "new"])
            for name, column in frame.items()
            if column.dtype == "category" and isinstance(column.cat.categories[0], str)
        }
    )


def test_d2_tables_go_to_the_columns_of_dtype_category(case):
    frame, booster = case
    forest = glasswood.load(booster)
    for rows in (frame, shuffled(frame), frame.iloc[:7]):
        np.testing.assert_allclose(forest.predict(rows), booster.predict(rows), rtol=1e-12)
    values = glasswood.Explainer(booster, dtype="float64").shap_values(frame)
    np.testing.assert_allclose(values, booster.predict(frame, pred_contrib=True)[:, :-1], atol=1e-9)


def test_columns_in_another_order(case):
    frame, booster = case
    forest = glasswood.load(booster)
    np.testing.assert_array_equal(forest.predict(frame[frame.columns[::-1]]), forest.predict(frame))


def test_arrays_hold_codes(case):
    frame, booster = case
    codes = np.column_stack([c.cat.codes if c.dtype == "category" else c for _, c in frame.items()]).astype(float)
    np.testing.assert_allclose(glasswood.load(booster).predict(codes), booster.predict(codes), rtol=1e-12)


def test_background_is_a_frame(case):
    """Against the mean over pairs of the margin, which values and the base value add up to."""
    frame, booster = case
    explanation = glasswood.Explainer(booster, background=frame.iloc[:20])(frame.iloc[:9])
    np.testing.assert_allclose(explanation.base_values[0], booster.predict(frame.iloc[:20]).mean(), rtol=1e-5)
    total = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(total, booster.predict(frame.iloc[:9]), rtol=1e-5)


def test_other_number_of_category_columns_is_refused(case):
    frame, booster = case
    forest = glasswood.load(booster)
    more = frame.assign(x=pd.Categorical(np.arange(N) % 4))
    fewer = frame.drop(columns="x").assign(x=frame["x"])
    first = next(name for name, column in frame.items() if column.dtype == "category")
    fewer[first] = frame[first].cat.codes
    for rows in (more, fewer):
        with pytest.raises(ValueError, match="do not match"):
            booster.predict(rows)
    with pytest.raises((TypeError, ValueError), match=r"columns of categories|no table of categories"):
        forest.predict(more)
    if forest.ensemble.open_tables:
        with pytest.raises(ValueError, match=r"X has \d columns of categories.* LightGBM does not record which"):
            forest.predict(fewer)


def test_columns_that_held_other_values_are_refused():
    """LightGBM gives them the table of another column without a word."""
    frame, how = CASES["ordered texts beside integers"]
    forest = glasswood.load(trained(frame, **how))
    other = frame.assign(size=frame["size"].cat.codes, x=pd.Categorical(np.array(list("SML"))[np.arange(N) % 3]))
    with pytest.raises(
        ValueError, match="column 'x' of X holds categories, and in training it held values that are no"
    ):
        forest.predict(other)


@pytest.mark.parametrize("name", ["texts", "ordered texts beside integers", "flags"])
def test_rows_of_other_libraries(name):
    frame, how = CASES[name]
    booster = trained(frame, **how)
    forest, expected = glasswood.load(booster), booster.predict(frame)
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    np.testing.assert_allclose(forest.predict(arrow), expected, rtol=1e-12)
    np.testing.assert_allclose(forest.mapper()(arrow).column("prediction").to_numpy(), expected, rtol=1e-12)
    placed = forest.with_categories(frame.iloc[:1])
    texts = frame.assign(**{n: c.astype(object) for n, c in frame.items() if c.dtype == "category"})
    np.testing.assert_allclose(placed.predict(texts), expected, rtol=1e-12)
    if name != "flags":
        given = pl.from_pandas(frame)
        np.testing.assert_allclose(forest.predict(given), expected, rtol=1e-12)
        np.testing.assert_allclose(forest.predict(texts), expected, rtol=1e-12)


def open_model():
    frame, how = CASES["texts"]
    booster = trained(frame, **how)
    return frame, booster, glasswood.load(booster)


def test_facts_name_the_columns_in_question():
    facts = forest_facts(open_model()[2].ensemble)
    assert facts["tables"] == "1 of categories, of columns among zone, store"
    assert "tables" not in forest_facts(open_model()[2].with_categories(["zone"]).ensemble)


def test_files_keep_open_tables(tmp_path):
    frame, booster, forest = open_model()
    booster.save_model(tmp_path / "model.txt")
    glasswood.load(tmp_path / "model.txt").save(tmp_path / "model.glasswood")
    for one in (glasswood.load(tmp_path / "model.glasswood"), pickle.loads(pickle.dumps(forest))):
        np.testing.assert_array_equal(one.predict(shuffled(frame)), forest.predict(frame))
        with pytest.raises(ValueError, match="X has 0 columns of categories"):
            one.predict(frame.assign(zone=frame["zone"].cat.codes))
    forest.with_categories(frame).save(tmp_path / "model.glasswood")
    placed = glasswood.load(tmp_path / "model.glasswood")
    assert [table is not None for table in placed.ensemble.categories] == [True, False, False]
    np.testing.assert_array_equal(placed.predict(frame), forest.predict(frame))


def test_what_shows_categories_without_rows_needs_them():
    frame, booster, forest = open_model()
    needing = {
        "text": glasswood.export_text,
        "sql": lambda one: glasswood.export_sql(one, "duckdb"),
        "python": glasswood.export_python,
        "c": glasswood.export_c,
        "picture": lambda one: glasswood.plot_tree(one, tree=0),
        "nodes": lambda one: one.trees_to_dataframe(),
        "rows by name": lambda one: one.predictor(names=True),
        "difference": lambda one: glasswood.difference(one, one),
    }
    for call in needing.values():
        with pytest.raises(ValueError, match=r"does not record which .*'zone', 'store'.*forest\.with_categories\(X\)"):
            call(forest)
    for placed in (forest.with_categories(frame), forest.with_categories(["zone"])):
        for call in needing.values():
            call(placed)
        row = frame.iloc[3].to_dict()
        np.testing.assert_allclose(placed.predictor(names=True)(row), booster.predict(frame.iloc[3:4])[0], rtol=1e-12)
    assert "zone" in glasswood.export_text(forest.with_categories(["zone"]))
    with pytest.raises(ValueError, match="no feature is called 'zome'; expected one of 'zone', 'store', 'x'"):
        forest.with_categories(["zome"])
    with pytest.raises(ValueError, match="column 'x' of X holds categories, and in training"):
        forest.with_categories(["x"])


def test_what_has_rows_takes_their_columns(tmp_path):
    frame, booster, forest = open_model()
    y = booster.predict(frame)
    assert list(glasswood.partial_dependence(forest, frame, "zone").grid_values[0]) == ["a", "b", "c"]
    assert list(glasswood.effects(forest, frame).dependence("zone").grid_values[0]) == ["a", "b", "c"]
    glasswood.plot_tree(forest, tree=0, X=frame, y=y)
    assert '"zone"' in glasswood.report(forest, frame, y, tmp_path / "report.html").read_text()
    glasswood.permutation_importance(forest, frame, y, n_repeats=1)
    neighbors = glasswood.Neighbors(forest, frame, y)
    assert neighbors.kneighbors(frame.iloc[:2], 2)[1].shape == (2, 2)
    glasswood.compare(frame.iloc[:50], frame.iloc[50:], model=forest)
    assert glasswood.load(booster, check=frame).ensemble.categories is not None


def test_only_place_is_found_when_the_model_is_read():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"zone": categories(rng, ["a", "b"]), "x": rng.normal(size=N), "n": rng.integers(50, 99, N)})
    forest = glasswood.load(trained(frame))
    assert forest.ensemble.categories[0].tolist() == ["a", "b"]
    assert not forest.ensemble.open_tables
    assert forest.with_categories(frame) is forest
    row = frame.iloc[5].to_dict()
    np.testing.assert_allclose(forest.predictor(names=True)(row), trained(frame).predict(frame.iloc[5:6])[0])


def test_d6b_integer_codes_without_a_table_are_refused():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"code": rng.integers(0, 3, N), "x": rng.normal(size=N)})
    booster = trained(frame, categorical_feature=["code"])
    batch = frame[frame["code"] > 0]
    as_category = batch.assign(code=batch["code"].astype("category"))
    with pytest.raises(ValueError, match="do not match"):
        booster.predict(as_category)
    forest = glasswood.load(booster)
    np.testing.assert_allclose(forest.predict(batch), booster.predict(batch), rtol=1e-12)
    for call in (forest.predict, glasswood.Explainer(forest).shap_values):
        with pytest.raises(TypeError, match="column 'code' of X is of dtype category, and the model has no table"):
            call(as_category)


def test_d6b_category_in_place_of_a_number_is_refused():
    """LightGBM and XGBoost read its codes where the model was trained on an array; its values are as likely meant."""
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"zone": categories(rng, [10, 20, 30]), "x": rng.normal(size=N)})
    rows = np.column_stack([frame["zone"].cat.codes, frame["x"]])
    for model in (lgb.LGBMRegressor(n_estimators=4, verbose=-1), xgboost.XGBRegressor(n_estimators=4, n_jobs=1)):
        forest = glasswood.load(model.fit(rows, rows.sum(axis=1)))
        with pytest.raises(TypeError, match="is of dtype category, and the model has no table"):
            forest.predict(frame)
        np.testing.assert_allclose(forest.predict(rows), model.predict(rows), rtol=1e-6)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    sizes = pd.Categorical(rng.choice(["M", "S", "L", None], N), categories=["S", "M", "L"], ordered=True)
    many = pd.Categorical(rng.choice(np.arange(100, 180), N), categories=np.arange(100, 180), ordered=True)
    return pd.DataFrame({"size": sizes, "many": many, "x": rng.normal(size=N).round(2) + 50})


@pytest.fixture(scope="module", params=[False, True])
def booster(request, frame):
    target = frame["size"].cat.codes * 2.0 + frame["many"].cat.codes / 7 + frame["x"]
    settings = COMMON | {"zero_as_missing": request.param}
    return lgb.train(settings, lgb.Dataset(frame, target, categorical_feature=[]), 12)


@pytest.fixture(scope="module")
def forest(frame, booster):
    return glasswood.load(booster).with_categories(frame)


class TestSplitsOfCodes:
    """LightGBM splits ordered categories by thresholds on their codes; what has values in place of codes needs sets."""

    def test_sets_reach_the_same_leaves(self, frame, booster, forest):
        sets = glasswood.Forest(with_sets(forest.ensemble))
        assert (sets.ensemble.category_set[sets.ensemble.feature == 0] >= 0).all()
        rows = pd.concat([frame, frame.assign(size="new").iloc[:3], frame.assign(many=7).iloc[:3]])
        rows = rows.astype({"size": "category", "many": "category"})
        np.testing.assert_array_equal(sets.predict(rows, "leaf"), booster.predict(rows, pred_leaf=True))
        np.testing.assert_array_equal(sets.predict(rows), forest.predict(rows))

    @pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
    def test_sql(self, dialect, frame, booster, forest):
        if len(forest.ensemble.zero_missing):
            pytest.skip("code has no zeros that are missing")
        expression = glasswood.export_sql(forest, dialect)
        plain = pd.DataFrame(
            {"size": frame["size"].astype(object), "many": frame["many"].astype(int), "x": frame["x"]}
        ).where(frame["size"].notna(), None)
        plain["many"], plain["x"] = frame["many"].astype(int), frame["x"]
        if dialect == "duckdb":
            found = pytest.importorskip("duckdb").sql(f"SELECT {expression} AS p FROM plain").df()["p"]
        else:
            with contextlib.closing(sqlite3.connect(":memory:")) as connection:
                plain.to_sql("rows", connection, index=False)
                found = [p for (p,) in connection.execute(f"SELECT {expression} FROM rows")]
        np.testing.assert_allclose(found, booster.predict(frame), rtol=1e-9)

    def test_python(self, frame, booster, forest):
        if len(forest.ensemble.zero_missing):
            pytest.skip("code has no zeros that are missing")
        names = {}
        exec(glasswood.export_python(forest), names)
        rows = frame.astype({"size": object, "many": int}).to_dict("records")
        rows = [row | {"size": row["size"] if isinstance(row["size"], str) else None} for row in rows]
        np.testing.assert_allclose([names["predict"](row) for row in rows], booster.predict(frame), rtol=1e-9)

    def test_words(self, frame, forest, tmp_path):
        text = glasswood.export_text(forest)
        assert "size = S" in text or "size in {" in text
        assert "size <" not in text
        nodes = forest.trees_to_dataframe()
        assert nodes.loc[nodes["Feature"] == "size", "Category"].map(set).isin([{"S"}, {"S", "M"}]).any()
        glasswood.plot_tree(forest, tree=0, X=frame, y=frame["x"])
        glasswood.report(forest, frame, frame["x"], tmp_path / "r.html")


def test_equations_of_codes_are_refused():
    rng = np.random.default_rng(0)
    sizes = pd.Categorical(rng.choice(list("SML"), N), categories=list("SML"), ordered=True)
    frame = pd.DataFrame({"size": sizes, "x": rng.normal(size=N)})
    settings = COMMON | {"linear_tree": True}
    booster = lgb.train(settings, lgb.Dataset(frame, 2.0 * frame["size"].cat.codes + frame["x"]), 3)
    forest = glasswood.load(booster)
    np.testing.assert_allclose(forest.predict(frame), booster.predict(frame), rtol=1e-6)
    if (forest.ensemble.linear_feature == 0).any():
        with pytest.raises(NotImplementedError, match="multiply the codes of the categories of 'size'"):
            glasswood.export_sql(forest)
