"""
Serve by name
=============

A service receives records of names and values, some of them missing. It answers with a prediction and its reasons, by
name as well. The model is one file. The service needs neither the training code nor scikit-learn.
"""

# %%
import json
from pathlib import Path

import numpy as np
import pandas

import glasswood

X, y = glasswood.datasets.adult()
tree = glasswood.ModelTreeClassifier(max_leaves=4, time_limit=5).fit(X, y)
tree.forest_.save("income.glasswood")
print(f"{Path('income.glasswood').stat().st_size / 1000:.0f} kB")

# %%
# This is the service. It finds columns by name, in any order. Values that a record lacks count as missing, and so do
# categories that the model has not seen.
forest = glasswood.load("income.glasswood")
explainer = glasswood.Explainer(forest)
[labels] = forest.classes


def answer(records, n_reasons=3):
    """Return the probabilities of the classes, and the strongest reasons, for each record."""
    rows = pandas.DataFrame(records).reindex(columns=forest.feature_names)
    probabilities = forest.predict(rows, output="probability")
    reasons = explainer.shap_values(rows)
    strongest = np.argsort(-np.abs(reasons), axis=1)[:, :n_reasons]
    return [
        {
            "probability": dict(zip(labels.tolist(), probability.round(4).tolist(), strict=True)),
            "reasons": {forest.feature_names[k]: round(float(values[k]), 3) for k in order},
        }
        for probability, values, order in zip(probabilities, reasons, strongest, strict=True)
    ]


# %%
# Ask for a complete record, and for one with two values only.
known = X.iloc[0].to_dict()
print(json.dumps(answer([known, {"age": 52, "education": "Doctorate"}]), indent=1))
