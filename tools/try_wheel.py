"""Try an installed wheel: where it came from, how long it takes to import, what it computes, and the demo."""

import os
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

IMPORT = "import time; start = time.process_time(); import glasswood._core; print(1000 * (time.process_time() - start))"


def import_time() -> float:
    """Milliseconds of a processor for an import in a new process beyond NumPy's, the quickest of five."""
    command = [sys.executable, "-c", "import numpy; " + IMPORT]
    return min(float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(5))


def main() -> None:
    """Print a line a fact; raise what goes wrong."""
    import numpy as np
    import pandas

    import glasswood
    from glasswood import _core

    folder = Path(glasswood.__file__).parent
    assert "site-packages" in str(folder), f"glasswood is imported from {folder}"
    wheel = next(
        line for line in (distribution("glasswood").read_text("WHEEL") or "").splitlines() if line.startswith("Tag")
    )
    print(f"Python {sys.version.split()[0]}, {wheel}, instruction set {_core.instruction_set()}")
    print(f"import: {import_time():.1f} ms")
    rows = pandas.read_parquet(folder / "data" / "california_housing.parquet")
    rows.pop("MedHouseVal")
    explainer = glasswood.Explainer(folder / "data" / "california_housing.json")
    total = explainer.expected_value + explainer.shap_values(rows, check_additivity=True).sum(axis=1)
    assert np.abs(total - explainer.forest.predict(rows, output="margin")).max() < 1e-5
    with tempfile.TemporaryDirectory() as out:
        before = os.times()
        subprocess.run([sys.executable, "-m", "glasswood", "demo", "--out", out], check=True, stdout=subprocess.DEVNULL)
        taken = [after - earlier for after, earlier in zip(os.times(), before, strict=True)]
        print(
            f"glasswood demo: {taken[4]:.0f} s, of processors {taken[2] + taken[3]:.0f} s"
        )  # children's, 0 on Windows


if __name__ == "__main__":
    main()
