"""
From shap to glasswood
======================

shap's first example, with one line changed, and each of its plots.
"""

# %%
import matplotlib.pyplot as plt
import pandas
import shap
import sklearn.datasets
import xgboost

import glasswood

cells = sklearn.datasets.load_breast_cancer(as_frame=True)
X, y = cells.data, cells.target
model = xgboost.XGBClassifier(n_estimators=50, max_depth=4).fit(X, y)

# %%
# The line: ``explainer = shap.TreeExplainer(model)``.
explainer = glasswood.TreeExplainer(model)
explanation = explainer(X)
assert isinstance(explanation, shap.Explanation)

# %%
shap.plots.waterfall(explanation[0], show=False)
plt.show()

# %%
shap.plots.force(explanation[0], matplotlib=True, show=False)
plt.show()

# %%
shap.plots.beeswarm(explanation, show=False)
plt.show()

# %%
shap.plots.bar(explanation, show=False)
plt.show()

# %%
shap.plots.scatter(explanation[:, "worst area"], color=explanation, show=False)
plt.show()

# %%
shap.plots.heatmap(explanation[:200], show=False)
plt.show()

# %%
shap.plots.violin(explanation, show=False)
plt.show()

# %%
shap.plots.decision(explainer.expected_value, explanation.values[:20], X[:20], show=False)
plt.show()

# %%
# Arrays alone, one row, and labels as the second argument work as in shap.
frame = pandas.DataFrame(explainer.shap_values(X), columns=X.columns)
one = explainer.shap_values(X.iloc[0])
losses = glasswood.TreeExplainer(model, X, model_output="log_loss").shap_values(X, y)
print(frame.abs().mean().nlargest(3).round(2).to_string(), one.shape, losses.shape, sep="\n")
