"""
Millions of rows on a cluster
=============================

Data that no single machine holds: a *mapper* goes to where the rows are. Here with Dask on this machine's threads; the
same lines run on a cluster, and :doc:`/guide/clusters` has Spark, Ray, polars and DuckDB.
"""

# %%
from pathlib import Path

import dask.dataframe
import numpy as np
import pandas
import pyarrow

import silva

data = Path(silva.__file__).parent / "data"
X = pandas.read_parquet(data / "california_housing.parquet").drop(columns="MedHouseVal")
rows = pandas.concat([X] * 10, ignore_index=True)
frame = dask.dataframe.from_pandas(rows, npartitions=8)

# %%
# The explainer travels to the workers once; each partition comes back as a frame of values.
explainer = silva.Explainer(data / "california_housing.json")
mapper = explainer.mapper(columns=pyarrow.schema([("Latitude", pyarrow.float64()), ("Longitude", pyarrow.float64())]))
explained = frame.map_partitions(mapper, meta=mapper.meta)
result = explained.compute(scheduler="threads")
print(result.iloc[:3].round(3).T)

# %%
# Where income lowers the value most, on average: an aggregate that Dask computes without holding all values.
mean = explained["phi_MedInc"].mean().compute(scheduler="threads")
print(f"mean of phi_MedInc over {len(rows):,} rows: {mean:.4f}")

# %%
# Any split into partitions gives the same bits.
assert np.array_equal(result["phi_MedInc"].to_numpy(), explainer(rows).values[:, 0])

# %%
# On one machine, files need no cluster either: the command line reads and writes them in chunks, in constant memory.
#
# .. code-block:: console
#
#    silva explain model.json rows.parquet -o explanations.parquet
