"""
Explain survival over time
==========================

A random survival forest predicts a curve: the probability that a patient is alive after each number of days. This
tutorial finds what moves the curve, and when.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sksurv.datasets import load_whas500
from sksurv.ensemble import RandomSurvivalForest

import glasswood

X, y = load_whas500()  # 500 patients after a heart attack, of whom 215 died
X = X.astype(float)
model = RandomSurvivalForest(n_estimators=200, min_samples_leaf=10, random_state=0).fit(X, y)

# %%
# ``glasswood.load(model)`` is a forest of risk scores, as ``model.predict`` returns. With ``survival_at`` the forest
# has an output for each time, and ``check=X`` compares it with the model's own curves.
days = np.arange(10, 2000, 30)
forest = glasswood.load(model, survival_at=days, check=X)
print(forest)

# %%
# The leaves of a survival forest contain curves, and its prediction is their mean. So the SHAP values of each output
# are exact. Together they are known as SurvSHAP(t).
explanation = glasswood.Explainer(forest)(X)
print(explanation.values.shape)

# %%
# The mean magnitude over all patients: age matters most, and more over the years. Complications of the heart (``chf``)
# come second, and matter most in the third year.
glasswood.plot_over_time(explanation)
plt.show()

# %%
# One patient: each line says how far a feature raises or lowers the probability to be alive at that time, compared with
# the mean over all patients. The lines and the mean curve add up to the patient's own curve, which the next plot shows.
patient = 3
glasswood.plot_over_time(explanation, row=patient)
plt.show()

# %%
mean, own = explanation.base_values[patient], forest.predict(X[patient : patient + 1])[0]
assert np.allclose(explanation.values[patient].sum(axis=0) + mean, own, atol=1e-5)
plt.step(days, mean, where="post", label="mean over all patients")
plt.step(days, own, where="post", label="this patient")
plt.xlabel("days")
plt.ylabel("probability to be alive")
plt.legend(frameon=False)
plt.show()

# %%
# Boosted hazards (``GradientBoostingSurvivalAnalysis``) have one margin, the log-hazard, and their curves are functions
# of it. With background rows, ``output="response"`` explains these curves exactly.
#
# Next: `which models glasswood reads <../guide/models.html>`_.
