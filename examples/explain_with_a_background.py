"""
Explain with a background
=========================

"Why is this district more expensive than those in the north?" compares a row with rows that you choose. Interventional
values answer it (in shap: ``feature_perturbation="interventional"``).
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas
import shap

import glasswood

X, y = glasswood.datasets.california()

# %%
# The background: all districts north of the 39th parallel. There is no need to sample a few of them, because their
# number does not affect the cost of a row.
north = X[X.Latitude > 39]
against = glasswood.TreeExplainer(glasswood.datasets.DATA / "california_housing.json", data=north)
print(f"{len(north)} background rows, mean prediction {against.expected_value:.3f}")

# %%
# A district near San Francisco, compared with the north and, path-dependent, with the model's training rows.
row = X[(X.Latitude.between(37.7, 37.8)) & (X.Longitude < -122.4)].iloc[[0]]
shap.plots.waterfall(against(row)[0], show=False)
plt.show()

plain = glasswood.TreeExplainer(glasswood.datasets.DATA / "california_housing.json")
table = pandas.DataFrame(
    {"against the north": against.shap_values(row)[0], "path-dependent": plain.shap_values(row)[0]}, index=X.columns
)
print(table.round(3))

# %%
# Both add up, but to different sums: the prediction minus the mean prediction of the rows that it is compared with
# (``expected_value``).
prediction = plain.forest.predict(row)[0]
for explainer in (against, plain):
    assert np.isclose(explainer.expected_value + explainer.shap_values(row).sum(), prediction, atol=1e-5)

# %%
# For serving, save the explainer. The file holds a summary of the background, not its rows.
against.save("against_the_north.glasswood")
again = glasswood.Explainer.load("against_the_north.glasswood")
assert np.array_equal(again.shap_values(row), against.shap_values(row))
