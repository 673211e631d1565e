"""Write the MOJOs of this folder, and what H2O's own scoring of them, in Java, says of adversarial rows.

python tests/readers/data/make_h2o.py [folder] [seed]    (needs Java, h2o and pandas)
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.readers.adversarial import adversarial_rows

import glasswood

MODELS = {
    "squared": ("gbm", "y", {}),
    "poisson": ("gbm", "count", {"distribution": "poisson"}),
    "laplace": ("gbm", "y", {"distribution": "laplace", "nbins_cats": 8}),
    "logistic": ("gbm", "two", {"learn_rate": 0.5}),
    "softmax": ("gbm", "three", {"ntrees": 3}),
    "forest": ("drf", "y", {"nbins_cats": 4}),
    "forest-two": ("drf", "two", {}),
    "forest-three": ("drf", "three", {"ntrees": 3}),
    "isolation": ("isolationforest", None, {"max_depth": 6, "sample_size": 64}),
}
FEATURES = ["a", "b", "short", "long", "odd"]
ODD = ("p q", 'r"s', "t\\u", "v\nw", "é")


def make_frame(seed):
    """Numbers with missing values that matter, and categories: few, more than 32, and ones with odd characters."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    n = 400
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 9, n) * 1.0})
    short, long, odd = rng.integers(0, 6, n), rng.integers(0, 45, n), rng.integers(0, len(ODD), n)
    frame["short"], frame["long"] = [f"s{k}" for k in short], [f"l{k:02d}" for k in long]
    frame["odd"] = [ODD[k] for k in odd]
    y = frame.a * (odd < 3) + np.sin(short) + (long % 7) / 3 + rng.normal(size=n) / 9
    for name, shift in (("a", 4.0), ("short", -3.0), ("b", 0.5)):
        gone = rng.random(n) < 0.15
        frame.loc[gone, name] = None if name == "short" else np.nan
        y = y + shift * gone
    edges = np.quantile(y, [1 / 3, 2 / 3])
    return frame.assign(
        y=y,
        count=rng.poisson(np.exp(y / 4)) * 1.0,
        two=np.where(y > edges[1], "yes", "no"),
        three=np.array(["low", "mid", "top"])[np.searchsorted(edges, y)],
    )


def scored(jar, mojo, rows, *options):
    """Score rows by H2O's command, whose CSV has escapes; categories are texts, missing values empty."""
    import pandas as pd

    with tempfile.TemporaryDirectory() as work:
        rows.replace(r"\\", r"\\\\", regex=True).to_csv(f"{work}/in.csv", index=False)
        command = ["java", "-cp", jar, "hex.genmodel.tools.PredictCsv", "--mojo", mojo]
        subprocess.run(
            [*command, "--input", f"{work}/in.csv", "--output", f"{work}/out.csv", "--decimal", *options],
            check=True,
            capture_output=True,
        )
        return pd.read_csv(f"{work}/out.csv")


def as_texts(forest, rows):
    """Codes as the categories' texts; one that no code has for codes beyond."""
    import pandas as pd

    columns = {}
    for name, table, column in zip(forest.feature_names, forest.ensemble.categories, rows.T, strict=True):
        if table is None:
            columns[name] = [repr(float(x)).replace("inf", "Infinity").replace("nan", "") for x in column]
        else:
            inside = (column >= 0) & (column < len(table))
            columns[name] = [
                "" if np.isnan(x) else table[int(x)] if ok else "other" for x, ok in zip(column, inside, strict=True)
            ]
    return pd.DataFrame(columns)


def main(folder: Path, seed: int = 0) -> None:
    """Fit, save and score a model of each kind."""
    import h2o
    from h2o import estimators

    kinds = {
        "gbm": estimators.H2OGradientBoostingEstimator,
        "drf": estimators.H2ORandomForestEstimator,
        "isolationforest": estimators.H2OIsolationForestEstimator,
    }
    h2o.init(nthreads=1)
    frame = make_frame(seed)
    jar = str(Path(h2o.__file__).parent / "backend" / "bin" / "h2o.jar")
    texts = [*FEATURES[2:], "two", "three"]
    rows = h2o.H2OFrame(frame.fillna({"short": "gone"}), column_types=dict.fromkeys(texts, "enum"), na_strings=["gone"])
    for name, (kind, target, options) in MODELS.items():
        model = kinds[kind](**({"ntrees": 5, "max_depth": 4, "min_rows": 3, "seed": seed + 1} | options))
        model.train(x=FEATURES, y=target, training_frame=rows)
        path = folder / f"h2o-{h2o.__version__}-{name}.zip"
        Path(model.download_mojo(str(folder))).rename(path)
        forest = glasswood.load(path)
        tables = forest.ensemble.categories
        codes = [
            frame[name] if table is None else frame[name].map({text: code for code, text in enumerate(table)})
            for name, table in zip(FEATURES, tables, strict=True)
        ]
        hard = adversarial_rows(forest, np.column_stack(codes).astype(float), seed, max_rows=600)
        given = as_texts(forest, hard)
        results = {"predicted": scored(jar, str(path), given)}
        if kind == "gbm" and target != "three":
            results["contributions"] = scored(jar, str(path), given, "--predictContributions")
        stored = {key: value.to_numpy() for key, value in results.items()}
        labels = (
            stored["predicted"][:, 0].astype(str) if kind != "isolationforest" and target in {"two", "three"} else None
        )
        np.savez_compressed(
            f"{path}.npz",
            rows=hard,
            labels=np.array([] if labels is None else labels),
            numbers=stored["predicted"][:, labels is not None :].astype(float),
            contributions=stored.get("contributions", np.zeros((0, 0))).astype(float),
        )
    h2o.cluster().shutdown()


if __name__ == "__main__":
    main(
        Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent, int(sys.argv[2]) if len(sys.argv) > 2 else 0
    )
