"""
Millions of rows on a cluster
=============================

If no single machine can hold the data, a *mapper* goes to where the rows are. This tutorial uses Dask with the threads
of one machine. The same lines run on a cluster, and :doc:`/guide/clusters` covers Spark, Ray, polars and DuckDB.
"""

# %%
import dask.dataframe
import numpy as np
import pandas
import pyarrow

import glasswood

X, _ = glasswood.datasets.california()
rows = pandas.concat([X] * 10, ignore_index=True)
frame = dask.dataframe.from_pandas(rows, npartitions=8)

# %%
# Each worker receives the explainer once, and returns a frame of values for each partition.
explainer = glasswood.Explainer(glasswood.datasets.DATA / "california_housing.json")
mapper = explainer.mapper(columns=pyarrow.schema([("Latitude", pyarrow.float64()), ("Longitude", pyarrow.float64())]))
explained = frame.map_partitions(mapper, meta=mapper.meta)
result = explained.compute(scheduler="threads")
print(result.iloc[:3].round(3).T)

# %%
# Aggregate the values. Dask computes the mean without holding all of them in memory.
mean = explained["phi_MedInc"].mean().compute(scheduler="threads")
print(f"mean of phi_MedInc over {len(rows):,} rows: {mean:.4f}")

# %%
# The partitions do not affect the results: the bits are the same as in one call.
assert np.array_equal(result["phi_MedInc"].to_numpy(), explainer(rows).values[:, 0])

# %%
# Large files on one machine do not need a cluster: the command line reads and writes them in chunks.
#
# .. code-block:: console
#
#    glasswood explain model.json rows.parquet -o explanations.parquet
