"""
Classify, with categories
=========================

Who earns more than $50,000? A tree of logistic regressions answers with probabilities, and says what multiplies the
odds. Text columns are categories; nothing has to be encoded.
"""

# %%
import matplotlib.pyplot as plt
import pandas
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

import silva

X, y = silva.datasets.adult()
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
X_train.head()

# %%
# Four leaves, in some seconds.
tree = silva.ModelTreeClassifier(max_leaves=4, time_limit=10).fit(X_train, y_train)
probability = tree.predict_proba(X_test)
print(f"log-loss {log_loss(y_test, probability):.3f}, AUC {roc_auc_score(y_test, probability[:, 1]):.3f}")

# %%
# The bars are the share of people above $50,000 among the training rows of each node. A leaf lists what changes the
# odds most: ``× 1.63 per 10 years of age`` means 1.63 times the odds for ten years more, the leaf's other features held
# fixed. Categories are compared with the mean of the people in the leaf.
print(silva.export_text(tree, max_terms=3, units={"age": "years"}))

# %%
# The picture shows what the splits saw: the share of each group, and which side it goes to.
silva.plot_tree(tree, X_train, y_train, max_terms=4)
plt.show()

# %%
# One person, with exact reasons in log-odds.
person = X_test.iloc[[0]]
reasons = pandas.Series(silva.Explainer(tree).shap_values(person)[0], X.columns)
print(f"probability of {tree.classes_[1]}: {tree.predict_proba(person)[0, 1]:.2f}\n")
print(reasons[reasons.abs().sort_values(ascending=False).index].head().round(2).to_string())

# %%
# A page for others: curves on rows that the tree has not seen, a threshold to move, fields to try values in.
silva.report(tree, X_train, y_train, "adult.html", test=(X_test, y_test), units={"age": "years"})
