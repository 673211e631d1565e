"""Write small files of this version of glasswood, and what they return, beside this file: run once for each release.

From the repository root: PYTHONPATH=. .venv/bin/python tests/readers/data/make_glasswood.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.example_forests import whole_forest
from tests.strategies import Options, random_forest

import glasswood

HERE = Path(__file__).parent
version = glasswood.__version__.removesuffix(".dev0")
rng = np.random.default_rng(0)

forest = glasswood.Forest(whole_forest())
X = rng.normal(size=(40, 5)).astype(np.float32)
forest.save(HERE / f"glasswood-{version}-forest.glasswood")
np.savez_compressed(
    HERE / f"glasswood-{version}-forest.npz", X=X, margin=forest.predict(X, "margin"), leaf=forest.predict(X, "leaf")
)

explainer = glasswood.Explainer(random_forest(1, Options(n_trees=4, n_features=4)), background=rng.normal(size=(20, 4)))
X = rng.normal(size=(40, 4)).astype(np.float32)
explainer.save(HERE / f"glasswood-{version}-explainer.glasswood")
np.savez_compressed(
    HERE / f"glasswood-{version}-explainer.npz",
    X=X,
    values=explainer.shap_values(X),
    expected_value=explainer.expected_value,
)
