"""Write small pickles of the installed scikit-learn, and what it says of rows itself.

Old versions run in environments of their own, without glasswood:

    python3.9 -m venv old && old/bin/pip install scikit-learn==1.0.2 'numpy<2'
    old/bin/python tests/readers/data/make_sklearn.py
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import sklearn
from sklearn import ensemble, tree

SMALL = {"n_estimators": 4, "max_depth": 3, "random_state": 0}
MODELS = {
    "tree": (tree.DecisionTreeClassifier, "three", {"max_depth": 3, "random_state": 0}),
    "forest": (ensemble.RandomForestRegressor, "number", SMALL),
    "classes": (ensemble.RandomForestClassifier, "three", SMALL),
    "boosted": (ensemble.GradientBoostingClassifier, "two", SMALL),
    "histogram": (ensemble.HistGradientBoostingRegressor, "number", {"max_iter": 4, "max_leaf_nodes": 6}),
    "isolation": (ensemble.IsolationForest, None, {"n_estimators": 4, "max_samples": 32, "random_state": 0}),
}


def make_rows(n, seed):
    """Rows on a grid of 1/8, where thresholds of training rows on 1/4 lie."""
    rng = np.random.RandomState(seed)
    return np.round(rng.normal(size=(n, 3)) * 4) / (4 if seed == 0 else 8)


def main():
    """Fit, pickle and predict a model of each kind."""
    X, rows = make_rows(200, 0), make_rows(50, 1)
    signal = X[:, 0] * 2 + X[:, 1] * X[:, 2]
    targets = {"number": signal, "two": signal > 0, "three": np.array(["a", "b", "c"])[np.digitize(signal, [-1, 1])]}
    for name, (kind, target, options) in MODELS.items():
        model = kind(**options)
        model.fit(X, targets.get(target))
        path = Path(__file__).parent / "versions" / f"sklearn-{sklearn.__version__}-{name}.pickle"
        path.write_bytes(pickle.dumps(model, protocol=4))
        told = {"predictions": model.predict(rows)}
        if hasattr(model, "predict_proba"):
            told["probabilities"] = model.predict_proba(rows)
        np.savez_compressed(f"{path}.npz", X=rows, **told)


if __name__ == "__main__":
    main()
