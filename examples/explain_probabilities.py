"""
Explain a probability
=====================

"Why does the model give this district 57 %?" has two answers: the Shapley values of the probability, and those of the
margin, multiplied so that they add up to the probability. glasswood computes the first, shap the second.
"""

# %%
# A classifier that tells whether a district is more expensive than the median.
import matplotlib.pyplot as plt
import numpy as np
import pandas
from sklearn.ensemble import HistGradientBoostingClassifier

import glasswood

X, y = glasswood.datasets.california()
model = HistGradientBoostingClassifier(max_iter=100, random_state=0).fit(X, y > y.median())

# %%
# Explain by both rules, with a hundred districts as background.
background = X.sample(100, random_state=1)
settings = {"background": background, "output": "probability"}
exact = glasswood.Explainer(model, **settings)
rescaled = glasswood.Explainer(model, **settings, rule="rescale")

rows = X.sample(500, random_state=2)
phi, scaled = exact.shap_values(rows), rescaled.shap_values(rows)
probability = model.predict_proba(rows)[:, 1]
for explainer, values in ((exact, phi), (rescaled, scaled)):  # both add up to the probability
    assert np.allclose(explainer.expected_value + values.sum(axis=1), probability, atol=1e-5)

# %%
# The two differ. In some rows another feature is the strongest, and over all rows the difference is a considerable part
# of the values' size.
other_first = np.abs(phi).argmax(axis=1) != np.abs(scaled).argmax(axis=1)
print(f"another strongest feature in {other_first.mean():.0%} of the rows")
print(f"mean difference, relative to the exact values: {np.abs(phi - scaled).sum() / np.abs(phi).sum():.0%}")

# %%
# Plot the row that changes most. The rescale rule keeps the proportions that the features have in log-odds. Near
# certainty, log-odds still grow but the probability does not: a feature that becomes known when the class is already
# certain adds nothing.
row = np.abs(phi - scaled).sum(axis=1).argmax()
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
places = np.arange(X.shape[1])
axes.barh(places - 0.2, phi[row], 0.4, label='rule="exact": the Shapley value of the probability', color="#1f5f8b")
axes.barh(places + 0.2, scaled[row], 0.4, label='rule="rescale": the margin\'s value, rescaled', color="#e8a33d")
axes.set_yticks(places, [f"{name} = {value:.4g}" for name, value in rows.iloc[row].items()])
axes.invert_yaxis()
axes.axvline(0, color="black", linewidth=0.8)
axes.set_xlabel(f"change of the probability, from {exact.expected_value:.0%} to {probability[row]:.0%}")
axes.legend(loc="upper center", bbox_to_anchor=(0.4, 1.2), ncols=2, frameon=False, fontsize=8)
plt.show()

# %%
# The exact values are the definition: the mean effect of learning a feature, over all orders in which features become
# known. Means over sampled orders come close to them, and not to the rescaled values.
orders = np.random.default_rng(3)
x, sampled = rows.iloc[row].to_numpy(), np.zeros(X.shape[1])
for _ in range(200):
    hybrid = background.to_numpy()[orders.integers(100, size=50)]
    for feature in orders.permutation(X.shape[1]):
        before = exact.forest.predict(hybrid, output="probability")[:, 1].mean()
        hybrid[:, feature] = x[feature]
        sampled[feature] += (exact.forest.predict(hybrid, output="probability")[:, 1].mean() - before) / 200
print(pandas.DataFrame({"exact": phi[row], "rescaled": scaled[row], "sampled": sampled}, index=X.columns).round(3))
assert np.abs(sampled - phi[row]).max() < np.abs(scaled[row] - phi[row]).max() / 2
