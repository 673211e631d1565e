"""The code of docs/guide/clusters.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs/guide/clusters.md"


@pytest.mark.filterwarnings("ignore")
def test_the_guide_runs():
    for library in ("dask.dataframe", "polars"):
        pytest.importorskip(library)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(block, names)
    assert names["mapper"].schema.names[0] == "Latitude"
