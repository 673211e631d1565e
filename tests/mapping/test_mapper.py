"""Mappers: what predict and explain return, from any kind of batch, in any process."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glasswood
from glasswood.mapping import carried
from tests.mapping.conftest import N_ROWS
from tests.strategies import forests, random_rows

KINDS = {
    "pandas": lambda frame: frame,
    "table": pa.Table.from_pandas,
    "batch": pa.RecordBatch.from_pandas,
    "polars": pl.from_pandas,
}
ID = pa.schema([("id", pa.string())])


def sent(mapper):
    """The mapper as a worker has it."""
    return pickle.loads(pickle.dumps(mapper))


def column(batch, name):
    return np.asarray(batch[name] if not isinstance(batch, pa.RecordBatch) else batch.column(name))


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_of_every_kind_of_batch(forest, rows, predictions, kind):
    batch = KINDS[kind](rows)
    result = sent(forest.mapper(columns=["count", "id"]))(batch)
    assert type(result) is type(batch)
    assert column(result, "prediction").tobytes() == predictions.tobytes()
    assert column(result, "count").tolist() == list(range(N_ROWS))
    assert list(result.schema.names if kind in {"table", "batch"} else result.columns) == ["count", "id", "prediction"]


@pytest.mark.parametrize("kind", KINDS)
def test_explanations_of_every_kind_of_batch(forest, explainer, rows, values, kind):
    result = sent(explainer.mapper(columns=ID))(KINDS[kind](rows))
    for i, name in enumerate(forest.feature_names):
        assert column(result, f"phi_{name}").tobytes() == np.ascontiguousarray(values[:, i]).tobytes()
    total = sum(column(result, f"phi_{name}").astype(float) for name in forest.feature_names)
    np.testing.assert_allclose(total + column(result, "expected_value"), column(result, "margin"), atol=1e-5)


def test_features_asked_for_in_arrays_and_frames(explainer, rows, values):
    X = rows[list(explainer.forest.feature_names)].to_numpy()
    asked = [3, explainer.forest.feature_names[1], 3]
    mapper = sent(explainer.mapper(features=asked))
    np.testing.assert_array_equal(mapper(X), values[:, [1, 3]])
    names = [f"phi_{explainer.forest.feature_names[i]}" for i in (1, 3)]
    assert list(mapper(rows).columns) == [*names, "expected_value", "margin"]
    np.testing.assert_array_equal(mapper(rows)[names], values[:, [1, 3]])
    pairs = sent(explainer.mapper("interactions", features=asked))(X[:20])
    np.testing.assert_array_equal(pairs, explainer.shap_interaction_values(X[:20], features=[3, 1]))
    assert mapper.n_results == 2


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_strongest_features_of_each_row(explainer, rows, values, kind):
    mapper = sent(explainer.mapper(columns=ID, top=2))
    result = mapper(KINDS[kind](rows))
    names, order = np.array(explainer.forest.feature_names), np.argsort(-np.abs(values), axis=1, kind="stable")
    for place in (0, 1):
        assert column(result, f"feature_{place + 1}").tolist() == names[order[:, place]].tolist()
        np.testing.assert_array_equal(column(result, f"phi_{place + 1}"), values[np.arange(N_ROWS), order[:, place]])
    expected = ["id", "feature_1", "phi_1", "feature_2", "phi_2", "expected_value", "margin"]
    assert mapper.schema.names == expected
    assert mapper.schema.field("feature_1").type == pa.string()
    among = explainer.mapper(features=[3, 1], top=1)(rows)["feature_1"]
    assert set(among) == set(names[[1, 3]])


def test_the_strongest_features_are_not_defined_for_all(explainer, rows):
    n = len(explainer.forest.feature_names)
    for top in (0, n + 1, 1.5):
        with pytest.raises(ValueError, match=f"top is {top}, expected a whole number from 1 to {n}, the features"):
            explainer.mapper(top=top)
    with pytest.raises(ValueError, match="leave it out for output='interactions'"):
        explainer.mapper("interactions", top=2)
    X = rows[list(explainer.forest.feature_names)].to_numpy()
    with pytest.raises(TypeError, match="an array cannot hold names beside values"):
        explainer.mapper(top=2)(X)


def test_the_index_of_a_pandas_frame_stays(forest, rows):
    part = rows[::7]
    assert sent(forest.mapper(columns=["id"]))(part).index.equals(part.index)


def test_arrays_become_the_models_own_results(forest, explainer, rows, predictions, values):
    X = rows[list(forest.feature_names)].to_numpy()
    assert sent(forest.mapper())(X).tobytes() == predictions.tobytes()
    assert sent(explainer.mapper())(X).tobytes() == values.tobytes()
    pairs = sent(explainer.mapper("interactions", features=["MedInc"]))(X[:50])
    assert pairs.tobytes() == explainer.shap_interaction_values(X[:50], features=["MedInc"]).tobytes()


@pytest.mark.parametrize("output", ["prediction", "margin", "probability", "leaf"])
@given(forest=forests(), seed=st.integers(0, 2**16))
def test_any_forest_however_rows_are_divided(output, forest, seed):
    if output == "probability" and not forest.classes:
        return
    X = random_rows(seed, forest, 40)
    mapper = sent(forest.mapper(output, inputs=[f"c{i}" for i in range(forest.n_features)]))
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(forest.n_features)])
    parts = [mapper(frame[start : start + 7]) for start in range(0, 40, 7)]
    pd.testing.assert_frame_equal(pd.concat(parts), mapper(frame))
    assert mapper.meta.dtypes.equals(mapper(frame).dtypes)


def test_schema_meta_and_ddl_are_those_of_results(explainer, rows):
    for mapper in (explainer.mapper(columns=ID), explainer.mapper("margin"), explainer.mapper("interactions")):
        part = rows[:5]
        assert mapper.schema == sent(mapper)(pa.Table.from_pandas(part, preserve_index=False)).schema
        assert mapper.meta.dtypes.equals(mapper(part).dtypes)
        assert len(mapper.meta) == 0
    assert explainer.mapper("margin", columns=ID).ddl == "`id` string, `expected_value` double, `margin` float"


def test_labels_of_text_are_text_also_without_rows(rows):
    from sklearn.ensemble import RandomForestClassifier

    X = rows[["MedInc", "HouseAge"]]
    model = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, np.where(rows["AveRooms"] > 5, "many", "few"))
    mapper = sent(glasswood.load(model).mapper())
    assert mapper.schema == pa.schema([("prediction", pa.string())])
    assert mapper.meta.dtypes.equals(mapper(X).dtypes)
    assert mapper(X)["prediction"].tolist() == model.predict(X).tolist()


def test_batches_without_rows(forest, explainer, rows):
    for mapper in (forest.mapper(columns=["id"]), explainer.mapper(columns=["id"])):
        for kind, make in KINDS.items():
            full, empty = mapper(make(rows)), mapper(make(rows)[:0])
            assert len(empty if kind != "batch" else empty.column(0)) == 0
            if kind in {"table", "batch"}:
                assert empty.schema == full.schema


def test_kept_columns_get_the_types_that_were_given(forest, rows):
    mapper = forest.mapper(columns=pa.schema([("count", pa.int32())]))
    assert mapper.schema.field("count").type == pa.int32()
    assert mapper(pa.Table.from_pandas(rows)).schema == mapper.schema
    assert mapper(pl.from_pandas(rows)).schema == pl.Schema(mapper.schema)
    assert mapper(rows).dtypes.equals(mapper.meta.dtypes)


def test_inputs_are_taken_in_the_models_order(forest, rows, predictions):
    renamed = rows.rename(columns={name: f"x{i}" for i, name in enumerate(forest.feature_names)})
    mapper = sent(forest.mapper(inputs=[f"x{i}" for i in range(forest.n_features)]))
    assert mapper(renamed)["prediction"].to_numpy().tobytes() == predictions.tobytes()


def test_iter_maps_one_batch_after_the_other(forest, rows, predictions):
    batches = pa.Table.from_pandas(rows).to_batches(max_chunksize=700)
    results = list(forest.mapper().iter(iter(batches)))
    assert [batch.num_rows for batch in results] == [batch.num_rows for batch in batches]
    assert np.concatenate([column(batch, "prediction") for batch in results]).tobytes() == predictions.tobytes()


def test_a_process_opens_a_model_once(forest, rows, monkeypatch):
    opened = []
    monkeypatch.setattr(carried, "_OPEN", type(carried._OPEN)())
    text = pickle.dumps(forest.mapper())
    load = glasswood.mapping.predictions.load_attachment
    monkeypatch.setattr(
        "glasswood.mapping.predictions.load_attachment", lambda *a, **k: opened.append(1) or load(*a, **k)
    )
    threads = [threading.Thread(target=lambda: pickle.loads(text)(rows[:10])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened == [1]


def test_a_process_keeps_few_models(rows, monkeypatch):
    monkeypatch.setattr(carried, "_OPEN", type(carried._OPEN)())
    X, y = rows[["MedInc"]], rows["AveRooms"]
    from sklearn.tree import DecisionTreeRegressor

    mappers = [sent(glasswood.load(DecisionTreeRegressor(max_depth=d).fit(X, y)).mapper()) for d in range(1, 8)]
    first = [mapper(X)["prediction"].tolist() for mapper in mappers]
    assert len(carried._OPEN) == carried.MOST_OPEN
    assert [mapper(X)["prediction"].tolist() for mapper in mappers] == first


def test_a_model_may_travel_as_a_path(forest, explainer, rows, predictions, values, tmp_path):
    path = tmp_path / "model.glasswood"
    mapper = forest.mapper(path=path)
    assert len(pickle.dumps(mapper)) < 2000
    assert sent(mapper)(rows)["prediction"].to_numpy().tobytes() == predictions.tobytes()
    with glasswood.config_context(n_jobs=2):
        of_explainer = sent(explainer.mapper(path=tmp_path / "explainer.glasswood"))
    assert of_explainer(rows)["phi_MedInc"].to_numpy().tobytes() == np.ascontiguousarray(values[:, 0]).tobytes()


def test_a_file_that_is_replaced_or_gone_is_refused(forest, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(carried, "_OPEN", type(carried._OPEN)())
    path = tmp_path / "model.glasswood"
    mapper = sent(forest.mapper(path=path))
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ValueError, match=r"is not the mapper's model any more; make another mapper"):
        mapper(rows)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"this worker cannot see the mapper's model .*model\.glasswood"):
        mapper(rows)


def test_explainers_keep_background_and_settings(forest, rows):
    X = rows[list(forest.feature_names)]
    explainer = glasswood.Explainer(forest, X[:30], dtype="float64", n_jobs=1)
    result = sent(explainer.mapper())(X[:50])
    assert result["phi_MedInc"].to_numpy().tobytes() == explainer.shap_values(X[:50])[:, 0].tobytes()
    assert result["expected_value"].unique().tolist() == [explainer.expected_value]


def test_mappers_import_no_engine(forest, rows, tmp_path):
    (tmp_path / "mapper").write_bytes(pickle.dumps(forest.mapper()))
    rows[:20].to_parquet(tmp_path / "rows.parquet")
    script = (
        "import pickle, sys, pyarrow.parquet as pq\n"
        f"mapper = pickle.load(open({str(tmp_path / 'mapper')!r}, 'rb'))\n"
        f"mapper(pq.read_table({str(tmp_path / 'rows.parquet')!r}))\n"
        "print(sorted({'dask', 'distributed', 'pyspark', 'ray', 'polars', 'duckdb'} & set(sys.modules)))\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


class TestErrors:
    def test_another_version_of_glasswood(self, forest, rows, monkeypatch):
        mapper = sent(forest.mapper())
        monkeypatch.setattr(carried, "__version__", "9.9")
        with pytest.raises(
            RuntimeError, match=r"this worker has glasswood 9\.9, the mapper was made by glasswood 0\.1"
        ):
            mapper(rows)

    def test_a_later_format(self, forest, rows, monkeypatch):
        monkeypatch.setattr("glasswood.model.storage.FIRST_VERSION", 99)
        mapper = sent(forest.mapper())
        monkeypatch.setattr("glasswood.model.storage.VERSION", 1)
        with pytest.raises(ValueError, match=r"a model in memory has format version 99, this glasswood reads up to 1"):
            mapper(rows)

    def test_columns_that_differ(self, forest, rows):
        mapper = forest.mapper(columns=["id"])
        with pytest.raises(ValueError, match=r"the batch has no columns 'MedInc'; it has 'MedHouseVal'"):
            mapper(rows.drop(columns="MedInc"))
        with pytest.raises(ValueError, match=r"the batch has no columns 'id'"):
            mapper(rows.drop(columns="id"))
        with pytest.raises(ValueError, match=r"none named like one of the model's 8 features .*by inputs="):
            mapper(rows[["id", "count"]])
        with pytest.raises(ValueError, match=r"inputs= names 2 columns, the model has 8 features"):
            forest.mapper(inputs=["id", "count"])(rows)
        twice = pd.concat([rows, rows[["MedInc"]]], axis=1)
        with pytest.raises(ValueError, match=r"several columns named 'MedInc'"):
            mapper(twice)

    def test_no_batches(self, forest):
        for batch in ({"a": np.zeros(3)}, [[1.0] * 8], None):
            with pytest.raises(TypeError, match=r"the batch is a \w+, expected an Arrow, pandas or polars batch"):
                forest.mapper()(batch)

    def test_choices(self, forest, explainer):
        with pytest.raises(ValueError, match=r"output is 'values', expected one of prediction"):
            forest.mapper("values")
        with pytest.raises(ValueError, match=r"output is 'leaf', expected one of values, interactions, margin"):
            explainer.mapper("leaf")
        with pytest.raises(ValueError, match=r"features names 'x'; the model's features are 'MedInc'"):
            explainer.mapper(features=["x"])
        for features in ("MedInc", 0):
            with pytest.raises(TypeError, match=rf"features is {features!r}, expected a list of indices or names"):
                explainer.mapper(features=features)
        with pytest.raises(ValueError, match=r"features holds 8, expected 0 to 7"):
            explainer.mapper(features=[8])
        with pytest.raises(TypeError, match=r"columns is the text 'id', expected a list of names"):
            forest.mapper(columns="id")
        with pytest.raises(ValueError, match=r"types of the columns 'id' are not known here; pass columns="):
            _ = forest.mapper(columns=["id"]).schema
        with pytest.raises(ValueError, match=r"column 't' is timestamp\[s\], which has no name here"):
            _ = forest.mapper(columns=pa.schema([("t", pa.timestamp("s"))])).ddl

    def test_columns_of_the_same_name(self, forest, rows):
        with pytest.raises(ValueError, match=r"several columns 'prediction'"):
            forest.mapper(columns=["prediction"])(rows.assign(prediction=1))

    def test_losses_need_labels(self, rows):
        from sklearn.ensemble import GradientBoostingClassifier

        X = rows[["MedInc", "HouseAge"]]
        model = GradientBoostingClassifier(n_estimators=3, max_depth=2).fit(X, rows["AveRooms"] > 5)
        with pytest.raises(NotImplementedError, match=r"batches have no labels for output='log_loss'"):
            glasswood.Explainer(model, X[:20], output="log_loss").mapper()
