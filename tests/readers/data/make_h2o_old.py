"""Write MOJOs of the installed h2o, of versions before those that `make_h2o.py` runs with, and what it predicts itself.

python tests/readers/data/make_h2o_old.py    (needs Java 8 to 12, and h2o of 3.24 or later; glasswood is not needed)
"""

from __future__ import annotations

import json
from pathlib import Path

import h2o
import numpy as np
from h2o.estimators import H2OGradientBoostingEstimator, H2ORandomForestEstimator

MODELS = {
    "squared": (H2OGradientBoostingEstimator, "y", {}),
    "logistic": (H2OGradientBoostingEstimator, "two", {}),
    "poisson": (H2OGradientBoostingEstimator, "count", {"distribution": "poisson"}),
    "softmax": (H2OGradientBoostingEstimator, "three", {}),
    "forest": (H2ORandomForestEstimator, "y", {}),
}


def text(code):
    """A category, one of them with a backslash."""
    return "p\\q" if code == 2 else f"c{code}"


def main():
    """Fit, save and predict a model of each kind."""
    h2o.init(nthreads=1, max_mem_size="1g")
    rng, n = np.random.RandomState(0), 300
    a, c = np.round(rng.normal(size=n) * 4) / 4, rng.randint(0, 6, n)
    signal = a + c % 3
    columns = {
        "a": a.tolist(),
        "city": [text(code) for code in c],
        "y": signal.tolist(),
        "two": np.where(signal > 1, "yes", "no").tolist(),
        "three": np.array(["x", "y", "z"])[np.digitize(signal, [0.5, 1.5])].tolist(),
        "count": np.round(np.exp(signal / 3)).tolist(),
    }
    kinds = {"a": "real", "city": "enum"}
    trained = h2o.H2OFrame(columns, column_types=dict(kinds, y="real", two="enum", three="enum", count="real"))
    rows = [
        (None if rng.rand() < 0.15 else float(np.round(rng.normal() * 8) / 8), text(code))
        for code in rng.randint(0, 6, 60)
    ]
    given = h2o.H2OFrame({"a": [row[0] for row in rows], "city": [row[1] for row in rows]}, column_types=kinds)
    for name, (kind, target, options) in MODELS.items():
        model = kind(ntrees=3, max_depth=3, min_rows=5, seed=1, **options)
        model.train(x=["a", "city"], y=target, training_frame=trained)
        path = Path(__file__).parent / "versions" / f"h2o-{h2o.__version__}-{name}.zip"
        Path(model.download_mojo(str(path))).rename(path)
        told = model.predict(given).as_data_frame(use_pandas=False)
        Path(f"{path}.told.json").write_text(json.dumps({"columns": ["a", "city"], "rows": rows, "told": told}))
    h2o.cluster().shutdown()


if __name__ == "__main__":
    main()
