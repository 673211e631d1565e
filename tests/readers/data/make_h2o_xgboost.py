"""Write MOJOs of XGBoost as the installed h2o trains it, and what H2O predicts itself.

python tests/readers/data/make_h2o_xgboost.py    (needs Java and h2o on Linux; glasswood is not needed)
"""

from __future__ import annotations

import json
from pathlib import Path

import h2o
import numpy as np
from h2o.estimators import H2OXGBoostEstimator

MODELS = {
    "squared": ("y", {"dmatrix_type": "dense"}),
    "sparse": ("y", {"dmatrix_type": "sparse"}),
    "dart": ("y", {"booster": "dart", "rate_drop": 0.5, "one_drop": True}),
    "poisson": ("count", {"distribution": "poisson"}),
    "logistic": ("two", {"dmatrix_type": "dense"}),
    "softmax": ("three", {}),
    "numbers": ("y", {"ignored_columns": ["city", "part"]}),
}
ADDITIVE = ("squared", "sparse", "poisson", "logistic", "numbers")
"""Models whose contributions are stored: those that H2O gives for DART leave the weights of trees out."""


GONE = "gone"
"""Uploaded in place of categories that are missing: an empty text would be a category."""


def make_columns(n, seed, unseen=0.0):
    """Numbers with zeros and without some values, few categories, and more than 32; some that training lacks."""
    rng = np.random.RandomState(seed)
    numbers = np.round(rng.normal(size=(n, 2)) * 4) / 4
    numbers[rng.rand(n, 2) < 0.2] = 0
    columns = {"a": numbers[:, 0].tolist(), "b": numbers[:, 1].tolist()}
    columns["city"] = [f"c{code}" for code in rng.randint(0, 6, n)]
    columns["part"] = [f"p{code:02d}" for code in rng.randint(0, 40, n)]
    signal = numbers[:, 0] + rng.normal(size=n) / 9
    signal += np.array([int(text[1:]) % 3 for text in columns["city"]]) - (np.array(columns["part"]) > "p20") * 2
    for name in ("city", "part"):
        columns[name] = ["unseen" if other else value for value, other in zip(columns[name], rng.rand(n) < unseen)]  # noqa: B905
    for name in columns:
        columns[name] = [None if gone else value for value, gone in zip(columns[name], rng.rand(n) < 0.1)]  # noqa: B905
    return columns, signal


def uploaded(columns, kinds):
    """A frame of H2O."""
    given = {
        name: [GONE if value is None and kinds[name] == "enum" else value for value in columns[name]]
        for name in columns
    }
    return h2o.H2OFrame(given, column_types=kinds, na_strings=[GONE])


def main():
    """Fit, save and predict a model of each kind."""
    h2o.init(nthreads=1, max_mem_size="1g")
    kinds = {"a": "real", "b": "real", "city": "enum", "part": "enum"}
    columns, signal = make_columns(500, 0)
    trained = dict(columns, y=signal.tolist(), two=np.where(signal > 0, "yes", "no").tolist())
    trained["three"] = np.array(["low", "mid", "top"])[np.digitize(signal, [-1, 1])].tolist()
    trained["count"] = np.round(np.exp(signal / 3)).tolist()
    targets = {"y": "real", "two": "enum", "three": "enum", "count": "real"}
    trained = uploaded(trained, dict(kinds, **targets))
    rows, _ = make_columns(60, 1, 0.1)
    given = uploaded(rows, kinds)
    for name, (target, options) in MODELS.items():
        options = dict(options)
        left_out = options.pop("ignored_columns", [])
        names = [column for column in kinds if column not in left_out]
        model = H2OXGBoostEstimator(ntrees=4, max_depth=4, seed=1, **options)
        model.train(x=names, y=target, training_frame=trained)
        path = Path(__file__).parent / "versions" / f"h2o-{h2o.__version__}-xgboost-{name}.zip"
        Path(model.download_mojo(str(path))).rename(path)
        said = {"columns": list(kinds), "rows": list(zip(*rows.values()))}  # noqa: B905
        said["told"] = model.predict(given).as_data_frame(use_pandas=False)
        if name in ADDITIVE:
            said["contributions"] = model.predict_contributions(given).as_data_frame(use_pandas=False)
        Path(f"{path}.told.json").write_text(json.dumps(said))
    h2o.cluster().shutdown()


if __name__ == "__main__":
    main()
