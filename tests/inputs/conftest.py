"""Kinds of frames."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

FRAMES = {
    "pandas": lambda data: pa.table(data).to_pandas(),
    "pandas-arrow": lambda data: pa.table(data).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
    "table": pa.table,
    "batch": lambda data: pa.table(data).to_batches()[0],
    "chunks": lambda data: pa.concat_tables([pa.table(data).slice(0, 1), pa.table(data).slice(1)]),
}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]
