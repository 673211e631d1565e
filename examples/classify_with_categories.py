"""
Classify, with categories
=========================

Who earns more than $50,000? A tree of logistic regressions predicts the probability, and shows by which factor each
feature multiplies the odds. Text columns are categories and need no encoding.
"""

# %%
import matplotlib.pyplot as plt
import pandas
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

import glasswood

X, y = glasswood.datasets.adult()
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
X_train.head()

# %%
# Grow a tree of four leaves.
tree = glasswood.ModelTreeClassifier(max_leaves=4, time_limit=10).fit(X_train, y_train)
probability = tree.predict_proba(X_test)
print(f"log-loss {log_loss(y_test, probability):.3f}, AUC {roc_auc_score(y_test, probability[:, 1]):.3f}")

# %%
# The bars show the share of people above $50,000 among the training rows of each node. A leaf lists what changes the
# odds most: ``× 1.63 per 10 years of age`` means that ten more years multiply the odds by 1.63 if the other features
# stay the same. Categories are compared with the mean of the people in the leaf.
print(glasswood.export_text(tree, max_terms=3, units={"age": "years"}))

# %%
# The picture shows the data behind each split: the share in each group, and the side to which the group goes.
glasswood.plot_tree(tree, X_train, y_train, max_terms=4)
plt.show()

# %%
# Explain the prediction for one person, exactly, in log-odds.
person = X_test.iloc[[0]]
reasons = pandas.Series(glasswood.Explainer(tree).shap_values(person)[0], X.columns)
print(f"probability of {tree.classes_[1]}: {tree.predict_proba(person)[0, 1]:.2f}\n")
print(reasons[reasons.abs().sort_values(ascending=False).index].head().round(2).to_string())

# %%
# Write a page for others: curves on unseen rows, a threshold to move, and fields to try values in.
glasswood.report(tree, X_train, y_train, "adult.html", test=(X_test, y_test), units={"age": "years"})
