"""
Grow a tree and present it
==========================

Grow a readable regression tree, with a linear equation in each of its few leaves. Then check it, draw it and write a
report.
"""

# %%
import matplotlib.pyplot as plt
import pandas
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeRegressor

import glasswood

X, y = glasswood.datasets.california()
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# Grow four leaves. The search optimizes whole trees instead of one split after the other.
tree = glasswood.ModelTreeRegressor(max_leaves=4, time_limit=5).fit(X_train, y_train)
print(glasswood.export_text(tree))

# %%
# Compare the four equations with a single one, and with ordinary trees of four and of fifty leaves.
for name, model in {
    "this tree": tree,
    "one linear regression": LinearRegression().fit(X_train, y_train),
    "ordinary tree, 4 leaves": DecisionTreeRegressor(max_leaf_nodes=4).fit(X_train, y_train),
    "ordinary tree, 50 leaves": DecisionTreeRegressor(max_leaf_nodes=50).fit(X_train, y_train),
}.items():
    print(f"{name:<26} R² {model.score(X_test, y_test):.3f}")

# %%
# Show the tree as a table, one rule per line.
print(pandas.DataFrame(tree.rules_)[["leaf", "rule", "rows", "mean", "rmse"]].to_string(index=False))

# %%
# Draw the tree. On the right: house values over the feature of each split, and the terms of each equation.
glasswood.plot_tree(tree, X_train, y_train)
plt.show()

# %%
# Write an offline page for others: errors on unseen rows, the tree, fields to try values in, and single rows.
glasswood.report(tree, X_train, y_train, "tree.html", test=(X_test, y_test), title="House values in four equations")

# %%
# .. raw:: html
#
#    <iframe src="tree.html" title="The report of the tree" class="report" loading="lazy"></iframe>

# %%
# The tree is a forest like any other: you can predict with it, explain it and save it.
values = glasswood.Explainer(tree)(X_test[:5]).values
tree.forest_.save("tree.glasswood")
print(pandas.DataFrame(values, columns=X.columns).round(3))
