"""
Explain a model
===============

What drives the predictions of an XGBoost model of California house values: over all rows, for one feature, for one row.
"""

# %%
# The model is a file of XGBoost. A live model works as well, and so do models of LightGBM, CatBoost and scikit-learn.
import matplotlib.pyplot as plt
import numpy as np
import shap

import glasswood

X, y = glasswood.datasets.california()  # in $100,000

explainer = glasswood.Explainer(glasswood.datasets.DATA / "california_housing.json")
print(explainer)

# %%
# Compute the SHAP values of all 20,640 rows. They say how far each feature moves a row's prediction from the mean
# prediction. Together they add up to the prediction, up to rounding.
explanation = explainer(X)
total = explanation.base_values + explanation.values.sum(axis=1)
print("largest difference to the prediction:", np.abs(total - explainer.forest.predict(X)).max())

# %%
# The explanation is a ``shap.Explanation``, so all of shap's plots work with it. Income matters most; the two
# coordinates together matter about as much.
shap.plots.beeswarm(explanation, show=False)
plt.show()

# %%
# One feature: an income above about 3.5 ($35,000) raises the prediction. The effect levels off near 8.
shap.plots.scatter(explanation[:, "MedInc"], color=explanation[:, "AveOccup"], show=False)
plt.show()

# %%
# One row: the district with the highest prediction.
top = int(explainer.forest.predict(X).argmax())
shap.plots.waterfall(explanation[top], show=False)
plt.show()

# %%
# An interaction is the effect of two features together beyond their separate effects. ``top`` finds the strongest pairs
# without keeping matrices of all pairs in memory.
pairs, values = explainer.shap_interaction_values(X[:2000], top=3, overall=True)
for (first, second), of_rows in zip(pairs, values.T, strict=True):
    print(f"{X.columns[first]} x {X.columns[second]}: {2 * np.abs(of_rows).mean():.3f}")

# %%
# To show the model to others, write one offline HTML file (:doc:`/guide/report`).
glasswood.report(
    glasswood.datasets.DATA / "california_housing.json", X, y, "california.html", title="California housing"
)
