"""Predictions and the three strongest reasons of each row of a folder, by Ray: needs ray[data]."""

import ray

import glasswood

ray.init(num_cpus=2, include_dashboard=False)
table = ray.data.read_parquet(str(glasswood.datasets.DATA / "california_housing.parquet"))
forest = glasswood.load(glasswood.datasets.DATA / "california_housing.json")
predict = forest.mapper(columns=["Latitude", "Longitude"])
explain = glasswood.Explainer(forest).mapper(columns=["Latitude", "Longitude"], top=3)

# batch_format: without it, Ray passes a dict of arrays, which has no types of columns.
table.map_batches(predict, batch_format="pyarrow").write_parquet("predictions")
table.map_batches(explain, batch_format="pyarrow").write_parquet("reasons")

# A summary of all rows: each task adds up its batch, and the results add up.
explainer = glasswood.Explainer(forest)
summarise = ray.remote(lambda rows: explainer.summary(rows))
batches = table.select_columns(list(forest.feature_names)).iter_batches(batch_format="pyarrow", batch_size=5000)
summary = sum(ray.get([summarise.remote(batch) for batch in batches]))

print(ray.data.read_parquet("reasons").take(1), summary.rows()[0]["feature"])
assert summary.n_rows == ray.data.read_parquet("predictions").count() == table.count()
ray.shutdown()
