"""The tutorials run as they are, and so does the code of the guides, the README and the questions."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
ENGINES = sorted((ROOT / "examples" / "engines").glob("*.py"))
GUIDES = [ROOT / "README.md", ROOT / "docs" / "faq.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
GUIDES.remove(ROOT / "docs" / "guide" / "failed.md")  # test_failed_elsewhere runs it, each section on models of its own
NEEDED = {
    "batch_with_ray": ["ray.data", "pyarrow"],
    "batch_with_spark": ["pyspark", "pyarrow"],
    "score_in_a_warehouse": ["duckdb", "pandas"],
    "explain_survival": ["sksurv"],
    "millions_of_rows": ["dask.dataframe"],
    "faq": ["xgboost"],
    "from_shap": ["shap", "xgboost"],
    "models": ["sksurv"],
    "serve_with_fastapi": ["fastapi", "httpx2", "xgboost"],
    "tasks": ["openpyxl"],
}

PRELUDE = """import matplotlib, warnings
matplotlib.use("Agg")
warnings.simplefilter("ignore")
from matplotlib import pyplot
pyplot.show = lambda: pyplot.close("all")
"""
"""Without a display a picture is closed where it would be shown, as notebooks do."""


def run(code: str, folder: Path) -> None:
    """Run code in a process of its own, in a folder of its own, without a display."""
    script = folder / "script.py"
    script.write_text(PRELUDE + code)
    done = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_tutorials(path, tmp_path):
    for module in ["matplotlib", "pandas", "shap", "sklearn", *NEEDED.get(path.stem, [])]:
        pytest.importorskip(module)
    run(path.read_text(), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("path", ENGINES, ids=lambda path: path.stem)
def test_engines(path, tmp_path):
    for module in NEEDED[path.stem]:
        pytest.importorskip(module)
    if "pyspark" in NEEDED[path.stem] and shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install default-jre-headless")
    run(path.read_text(), tmp_path)


def blocks(path: Path) -> list[str]:
    """Python code of a guide, in order; what needs a GPU says so in its first line."""
    found = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.S | re.M)
    return [code for code in found if not code.startswith("# needs an NVIDIA GPU")]


@pytest.mark.slow
@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_guides(path, tmp_path):
    needed = NEEDED.get(path.stem, [])
    for module in ("matplotlib", "pandas", "polars", "pyarrow", "shap", "sklearn", "dask.dataframe", *needed):
        pytest.importorskip(module)
    if blocks(path):
        run("\n".join(blocks(path)), tmp_path)
