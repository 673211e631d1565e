"""The engines themselves: rows of Dask, Spark, Ray, polars and DuckDB, predicted and explained where they are."""

from __future__ import annotations

import os
import shutil
import signal
import time

import numpy as np
import pyarrow as pa
import pytest

import glasswood
import glasswood.dask

pytestmark = pytest.mark.filterwarnings("ignore")
ID = pa.schema([("id", pa.string())])


def by_id(ids, numbers):
    """Numbers in the order of the rows; each row once."""
    places = np.array([int(one.removeprefix("row ")) for one in ids])
    assert sorted(places) == list(range(len(places)))
    return np.asarray(numbers)[np.argsort(places)]


class TestPolars:
    polars = pytest.importorskip("polars")

    def test_lazy_frames(self, forest, explainer, rows, predictions, values):
        lazy = self.polars.from_pandas(rows).lazy()
        for mapper, name, expected in (
            (forest.mapper(columns=ID), "prediction", predictions),
            (explainer.mapper(columns=ID), "phi_MedInc", values[:, 0]),
        ):
            schema = self.polars.Schema(mapper.schema)
            result = lazy.map_batches(mapper, schema=schema).filter(self.polars.col("id") != "row 3").collect()
            assert result.schema == schema
            assert result[name].to_numpy().tobytes() == np.delete(expected, 3).tobytes()

    def test_streams(self, forest, rows, predictions, tmp_path):
        rows.to_parquet(tmp_path / "rows.parquet", row_group_size=500)
        mapper = forest.mapper(columns=ID)
        lazy = self.polars.scan_parquet(tmp_path / "rows.parquet").map_batches(
            mapper, schema=self.polars.Schema(mapper.schema), streamable=True
        )
        lazy.sink_parquet(tmp_path / "predictions.parquet")
        result = self.polars.read_parquet(tmp_path / "predictions.parquet")
        assert by_id(result["id"], result["prediction"]).tobytes() == predictions.tobytes()

    def test_given_to_predict(self, forest, explainer, rows):
        lazy = self.polars.from_pandas(rows).lazy()
        for call in (forest.predict, explainer.shap_values, explainer):
            with pytest.raises(TypeError, match=r"polars\.LazyFrame, which is not computed yet; .* X\.map_batches\("):
                call(lazy)


class TestDuckdb:
    duckdb = pytest.importorskip("duckdb")

    def test_streams_of_batches(self, forest, rows, predictions, tmp_path):
        rows.to_parquet(tmp_path / "rows.parquet")
        mapper = forest.mapper(columns=ID)
        with self.duckdb.connect() as connection, self.duckdb.connect() as other:
            source = connection.sql(f"select * from '{tmp_path / 'rows.parquet'}'").to_arrow_reader(500)
            other.register("mapped", pa.RecordBatchReader.from_batches(mapper.schema, mapper.iter(source)))
            best = other.sql("select id, prediction from mapped order by prediction desc limit 1").fetchall()[0]
        assert best == (f"row {predictions.argmax()}", predictions.max())

    def test_relations_are_rows(self, forest, rows, predictions):
        with self.duckdb.connect() as connection:
            relation = connection.from_df(rows)
            selected = relation.select(*(f'"{name}"' for name in forest.feature_names))
            assert forest.predict(selected).tobytes() == predictions.tobytes()


class TestDask:
    dask = pytest.importorskip("dask")
    frames = pytest.importorskip("dask.dataframe")
    arrays = pytest.importorskip("dask.array")

    @pytest.fixture
    def frame(self, rows):
        return self.frames.from_pandas(rows, npartitions=5)

    def test_frames(self, forest, explainer, frame, predictions, values):
        with self.dask.config.set(scheduler="threads", num_workers=2):
            predicted = glasswood.dask.predict(forest, frame, columns=["id"])
            explained = glasswood.dask.explain(explainer, frame)
            assert list(predicted.columns) == ["id", "prediction"]
            assert predicted.compute()["prediction"].to_numpy().tobytes() == predictions.tobytes()
            result = explained.compute()
        assert result.dtypes.equals(explained.dtypes)
        assert result["phi_MedInc"].to_numpy().tobytes() == np.ascontiguousarray(values[:, 0]).tobytes()

    def test_map_partitions(self, forest, frame, predictions):
        mapper = forest.mapper(columns=ID)
        result = frame.map_partitions(mapper, meta=mapper.meta).compute(scheduler="synchronous")
        assert result["prediction"].to_numpy().tobytes() == predictions.tobytes()

    def test_partitions_without_rows(self, forest, frame, predictions, rows):
        some = glasswood.dask.predict(forest, frame[frame["count"] >= len(rows) - 100]).compute(scheduler="synchronous")
        assert some["prediction"].to_numpy().tobytes() == predictions[-100:].tobytes()

    def test_arrays(self, forest, explainer, rows, predictions, values):
        X = rows[list(forest.feature_names)].to_numpy()
        array = self.arrays.from_array(X, chunks=(700, -1))
        with self.dask.config.set(scheduler="synchronous"):
            predicted, explained = glasswood.dask.predict(forest, array), glasswood.dask.explain(explainer, array)
            pairs = glasswood.dask.explain(explainer, array[:90], "interactions")
            assert (predicted.shape, explained.shape, pairs.shape) == (predictions.shape, values.shape, (90, 8, 8))
            assert predicted.compute().tobytes() == predictions.tobytes()
            assert explained.compute().tobytes() == values.tobytes()
            assert pairs.compute().tobytes() == explainer.shap_interaction_values(X[:90]).tobytes()

    def test_delayed_objects(self, forest, frame, predictions):
        parts = glasswood.dask.predict(forest, frame.to_delayed())
        found = self.dask.compute(*parts, scheduler="synchronous")
        assert np.concatenate([part["prediction"] for part in found]).tobytes() == predictions.tobytes()

    def test_errors(self, forest, explainer, frame, rows):
        for call in (forest.predict, explainer.shap_values, explainer):
            with pytest.raises(
                TypeError, match=r"dask\.DataFrame, .*; pass it to glasswood\.dask\.predict\(forest, X\) or"
            ):
                call(frame)
        with pytest.raises(TypeError, match=r"data is a DataFrame, expected a DataFrame or an Array of Dask"):
            glasswood.dask.predict(forest, rows)
        with pytest.raises(ValueError, match=r"has no columns 'MedInc'"):
            glasswood.dask.predict(forest, frame.drop(columns="MedInc"))
        with pytest.raises(ValueError, match=r"rechunk it by data\.rechunk\(\{1: -1\}\)"):
            glasswood.dask.predict(forest, self.arrays.zeros((10, 8), chunks=(5, 4)))
        with pytest.raises(ValueError, match=r"futures need an open client of dask\.distributed"):
            glasswood.dask.predict(forest, [object()])


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
class TestDistributed:
    def test_frames_and_futures(self, cluster, forest, explainer, rows, predictions, values):
        import dask.dataframe

        frame = dask.dataframe.from_pandas(rows, npartitions=6)
        assert (
            glasswood.dask.predict(forest, frame).compute()["prediction"].to_numpy().tobytes() == predictions.tobytes()
        )
        futures = glasswood.dask.explain(explainer, cluster.scatter([rows[:1000], rows[1000:]]))
        found = np.concatenate([part["phi_MedInc"] for part in cluster.gather(futures)])
        assert found.tobytes() == np.ascontiguousarray(values[:, 0]).tobytes()

    def test_a_killed_worker_loses_nothing_and_repeats_nothing(self, cluster, forest, rows, predictions):
        import dask.dataframe

        frame = dask.dataframe.from_pandas(rows, npartitions=30).map_partitions(slowly, meta=rows)
        future = cluster.compute(glasswood.dask.predict(forest, frame, columns=["id"]))
        time.sleep(1.0)
        before = cluster.run(os.getpid)
        victim = next(iter(before.values()))
        os.kill(victim, signal.SIGKILL)
        result = future.result(timeout=120)
        assert victim not in cluster.run(os.getpid).values()
        assert result["id"].tolist() == rows["id"].tolist()
        assert result["prediction"].to_numpy().tobytes() == predictions.tobytes()

    def test_a_worker_with_another_version_says_so(self, cluster, forest, rows):
        import dask.dataframe

        cluster.run(pretend, "9.9")
        try:
            with pytest.raises(
                RuntimeError, match=r"this worker has glasswood 9\.9, the mapper was made by glasswood 0\.1"
            ):
                glasswood.dask.predict(forest, dask.dataframe.from_pandas(rows, npartitions=2)).compute()
        finally:
            cluster.run(pretend, glasswood.__version__)

    @pytest.mark.usefixtures("cluster")
    def test_partitions_whose_columns_differ_are_named(self, forest, rows):
        import dask
        import dask.dataframe

        parts = [dask.delayed(part) for part in (rows[:100], rows[100:200].drop(columns="AveRooms"))]
        frame = dask.dataframe.from_delayed(parts, meta=rows[:0], verify_meta=False)
        with pytest.raises(ValueError, match=r"has no columns 'AveRooms'"):
            glasswood.dask.predict(forest, frame).compute()


def slowly(part):
    time.sleep(0.15)
    return part


def pretend(version):
    from glasswood.mapping import carried

    carried.__version__ = version


@pytest.fixture(scope="module")
def session():
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install default-jre-headless")
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
    builder = sql.SparkSession.builder.master("local[2]").appName("glasswood")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.mark.slow
class TestSpark:
    def test_map_in_arrow_and_in_pandas(self, session, forest, explainer, rows, predictions, values):
        frame = session.createDataFrame(rows).repartition(3)
        mapper = explainer.mapper(columns=ID)
        explained = frame.mapInArrow(mapper.iter, mapper.ddl).toPandas()
        assert by_id(explained["id"], explained["phi_MedInc"]).tobytes() == np.ascontiguousarray(values[:, 0]).tobytes()
        mapper = forest.mapper(columns=ID)
        predicted = frame.mapInPandas(mapper.iter, mapper.ddl).toPandas()
        assert by_id(predicted["id"], predicted["prediction"]).tobytes() == predictions.tobytes()

    def test_given_to_predict(self, session, forest, explainer, rows):
        frame = session.createDataFrame(rows[:10])
        for call in (forest.predict, explainer.shap_values, explainer):
            with pytest.raises(TypeError, match=r"of Spark, whose rows are on .*;.* X\.mapInArrow\(mapper\.iter"):
                call(frame)


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=2**27)
    yield ray
    ray.shutdown()


@pytest.mark.slow
class TestRay:
    def test_map_batches(self, ray, forest, rows, predictions):
        frame = ray.data.from_pandas(rows)
        mapper = forest.mapper(columns=ID)
        result = frame.map_batches(mapper, batch_format="pyarrow", batch_size=500).to_pandas()
        assert by_id(result["id"], result["prediction"]).tobytes() == predictions.tobytes()

    def test_given_to_predict(self, ray, forest, rows):
        with pytest.raises(TypeError, match=r"of Ray, whose rows are on its workers; .* X\.map_batches\("):
            forest.predict(ray.data.from_pandas(rows[:10]))
