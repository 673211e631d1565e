"""Categories of CatBoost: texts and whole numbers, known by their hashes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.oracles.cityhash import category_hash
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees
from tests.readers.catboost_models import (
    COMMON,
    MODELS,
    N_ROWS,
    UNSEEN,
    make_frame,
    make_rows,
    make_target,
    to_codes,
    to_values,
    train_on_frame,
)

import glasswood
from glasswood.cuda.rows import check_gpu_rows

catboost = pytest.importorskip("catboost", reason="CatBoost is not installed: pip install catboost")
pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module", params=["SymmetricTree", "Depthwise", "Lossguide"])
def model(request):
    return train_on_frame(grow_policy=request.param)


def test_hashes_are_those_of_catboost(tmp_path):
    """Texts of every length, also beyond the blocks of 64 bytes, negative numbers and other alphabets."""
    rng = np.random.default_rng(0)
    texts = ["".join(map(chr, rng.integers(97, 123, n))) for n in range(300)]
    texts = list(dict.fromkeys([*texts, "ä", "蓝色", "a b", *map(str, range(-3, 30))]))
    X = np.array([[text] for text in texts], object)
    pool = catboost.Pool(X, np.arange(len(X)), cat_features=[0])
    model = catboost.CatBoost({**COMMON, "iterations": 1, "one_hot_max_size": 255}).fit(pool)
    model.save_model(str(tmp_path / "model.json"), format="json", pool=pool)
    known = json.loads((tmp_path / "model.json").read_text())["features_info"]["cat_features_hash"]
    assert {entry["value"] for entry in known} == set(texts)
    for entry in known:
        assert category_hash(entry["value"]) == entry["hash"]


def test_rows(model):
    forest = glasswood.load(model)
    codes = adversarial_rows(forest, to_codes(forest, make_frame()), max_rows=4000)
    values, codes = to_values(forest, codes)
    given = pandas.DataFrame(values, columns=forest.feature_names).astype({"size": float})
    assert_agrees(
        forest,
        codes,
        leaves=model.calc_leaf_indexes(given),
        margins=model.predict(given),
        predictions=model.predict(given),
        given=values,
        sums="float64",
    )
    assert (values[:, 1:] == UNSEEN).any(axis=0).all()


def test_frames(model):
    """Columns of numbers, texts and categories, of pandas and polars."""
    polars = pytest.importorskip("polars")
    frame = make_frame()
    expected = model.predict(frame)
    forest = glasswood.load(model, check=frame)
    others = [
        frame.astype({"color": "category", "code": "int8", "kind": str}),
        frame.astype({"code": "Int64", "kind": object}),
        frame.astype({"code": str}),
        polars.DataFrame(frame.astype({"kind": str}).to_dict("list")),
        polars.DataFrame(frame.astype({"kind": str}).to_dict("list")).to_arrow(),
        frame.astype(object).to_numpy(),
        frame.to_numpy().tolist(),
    ]
    for other in others:
        np.testing.assert_allclose(forest.predict(other), expected, rtol=0, atol=1e-13)


def test_arrays_of_whole_numbers():
    X = np.random.default_rng(1).integers(-3, 5, (N_ROWS, 2))
    model = catboost.CatBoostRegressor(**COMMON, one_hot_max_size=20, cat_features=[1])
    model.fit(X.copy(), X[:, 0] + 3 * (X[:, 1] == -3) + 2 * (X[:, 1] == 4))
    forest = glasswood.load(model, check=X)
    np.testing.assert_allclose(forest.predict(X.astype(np.int8)), model.predict(X.copy()), rtol=0, atol=1e-13)
    np.testing.assert_allclose(forest.predict(X.tolist()), model.predict(X.copy()), rtol=0, atol=1e-13)
    with pytest.raises(TypeError, match=r"column 1 of X holds .* \(float\); CatBoost's categories are text or whole"):
        forest.predict(X.astype(float))


def test_flags(model):
    """CatBoost takes True for the number 1."""
    frame = make_frame()
    frame["code"] = frame["code"] < 0
    forest = glasswood.load(model)
    for flags in (frame, frame.astype({"code": object}), frame.astype({"code": "boolean"})):
        expected = model.predict(flags.astype({"code": bool}))
        np.testing.assert_allclose(forest.predict(flags), expected, rtol=0, atol=1e-13)
    assert len(np.unique(forest.predict(frame[frame["code"]]))) > 1


REFUSED = {
    "float": (1.0, TypeError, r"column 'code' of X holds 1\.0 \(float\); CatBoost's categories are text or whole"),
    "NaN": (np.nan, (TypeError, ValueError), "column 'code' of X"),
    "None": (
        None,
        ValueError,
        "column 'code' of X has no value in row 0, and CatBoost does not accept missing",
    ),
    "tuple": ((1, 2), TypeError, "column 'code' of X holds"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_catboost_refuses(name, model):
    value, error, message = REFUSED[name]
    frame = make_frame()[:3].astype({"code": object})
    frame["code"] = [value, 0, 1]
    frame["code"] = frame["code"].astype(object)
    with pytest.raises((catboost.CatBoostError, TypeError)):
        model.predict(frame)
    with pytest.raises(error, match=message):
        glasswood.load(model).predict(frame)


def test_missing_values_of_frames(model):
    forest = glasswood.load(model)
    for column, dtype in (("color", "str"), ("kind", "category"), ("code", "Int64")):
        frame = make_frame()
        frame[column] = pandas.Series([None if i == 4 else x for i, x in enumerate(frame[column])], dtype=dtype)
        with pytest.raises(ValueError, match=f"column '{column}' of X has no value in row 4"):
            forest.predict(frame)


def test_columns_that_no_split_tests(model):
    forest = glasswood.load(model)
    spare = forest.feature_names.index("spare")
    assert len(forest.ensemble.categories[spare]) == 0
    assert (forest.ensemble.feature != spare).all()


@pytest.mark.parametrize("suffix", ["cbm", "json"])
def test_files(suffix, model, tmp_path):
    path = tmp_path / f"model.{suffix}"
    model.save_model(str(path), format=suffix)
    np.testing.assert_allclose(
        glasswood.load(path).predict(make_frame()), model.predict(make_frame()), rtol=0, atol=1e-13
    )
    glasswood.load(path).save(tmp_path / "model.glasswood")
    loaded = glasswood.load(tmp_path / "model.glasswood")
    assert loaded.ensemble.category_hash == "city64"
    np.testing.assert_array_equal(loaded.predict(make_frame()), glasswood.load(path).predict(make_frame()))


def test_shap_values():
    model, frame = train_on_frame(), make_frame()
    pool = catboost.Pool(frame, cat_features=list(frame.columns[1:]))
    expected = model.get_feature_importance(pool, type="ShapValues")
    explainer = glasswood.Explainer(model, dtype="float64")
    np.testing.assert_allclose(explainer.shap_values(frame), expected[:, :-1], rtol=0, atol=1e-12)


def test_command_line(tmp_path):
    """CSV files hold whole numbers that are categories."""
    from glasswood.cli import main

    pyarrow = pytest.importorskip("pyarrow")
    model, frame = train_on_frame(), make_frame()
    frame = frame[frame["color"] != ""]  # an empty cell of a CSV file is not text
    model.save_model(str(tmp_path / "model.cbm"))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    main(["predict", str(tmp_path / "model.cbm"), str(tmp_path / "rows.csv"), "-o", str(tmp_path / "out.parquet")])
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    read = pandas.read_csv(tmp_path / "rows.csv", keep_default_na=False)
    np.testing.assert_allclose(table["prediction"].to_numpy(), model.predict(read), rtol=0, atol=1e-13)


def test_texts_and_embeddings_are_refused():
    frame = pandas.DataFrame(make_rows()[:, :1], columns=["a"])
    frame["words"] = [f"some words {i % 7}" for i in range(N_ROWS)]
    frame["place"] = [[i % 5, i % 3] for i in range(N_ROWS)]
    for name in ("words", "place"):
        kind = "text_features" if name == "words" else "embedding_features"
        model = catboost.CatBoostRegressor(**COMMON).fit(frame[["a", name]], make_target(), **{kind: [name]})
        with pytest.raises(NotImplementedError, match=r"computes features from (text|embeddings)"):
            glasswood.load(model)


def test_text_names_hashes():
    """A test for one category sends it right, and whatever else there is left."""
    text = glasswood.export_text(train_on_frame(depth=2, iterations=1))
    hashes = {f"#{category_hash(str(value)):08x}" for value in make_frame().to_numpy()[:, 1:].ravel()}
    lines = [line.strip("| ") for line in text.splitlines() if "#" in line]
    assert len(lines) >= 2
    for line in lines:
        name, test, category, *rest = line.split()
        assert (name, category, rest) == ("code", category, [] if test == "=" else ["or", "missing"])
        assert category in hashes
    assert [line.split()[1] for line in lines[:2]] == ["!=", "="]


def test_rows_on_a_gpu_cannot_be_translated(model):
    with pytest.raises(NotImplementedError, match="CatBoost translates categories by value"):
        check_gpu_rows(None, glasswood.load(model).ensemble, 0)


def test_numbers_need_no_hashes():
    assert glasswood.load(MODELS["rmse"]().model).ensemble.category_hash == ""
