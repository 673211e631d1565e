"""
Show a model to a regulator
===========================

An auditor asks what a model does, on whom it was tested, why it decided as it did, and whether its results can be
recomputed. A small tree answers each question with something that the auditor can keep.
"""

# %%
# The model predicts income without the columns that it must not use. Two of these are kept to test it.
import sqlite3

import pandas
from sklearn.model_selection import train_test_split

import glasswood

X, y = glasswood.datasets.adult()
y = (y == ">50K").rename("earns more than $50,000")
protected = X[["gender", "race"]]
unused = ["gender", "race", "relationship", "marital-status", "native-country", "fnlwgt"]
X = X.drop(columns=unused)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
tree = glasswood.ModelTreeClassifier(max_leaves=4, time_limit=10).fit(X_train, y_train)

# %%
# What does it do?
# ----------------
# This is the whole model: four groups of people, and what multiplies the odds in each.
units = {"age": "years", "hours-per-week": "hours"}
print(glasswood.export_text(tree, max_terms=4, units=units))

# %%
# How good is it, and for whom?
# -----------------------------
# Test it on people that it has not seen, grouped by a column that it does not use: the share that earns more, the share
# that the model expects, and how often its decision is right.
probability = pandas.Series(tree.predict_proba(X_test)[:, 1], X_test.index)
right = (probability >= 0.5) == y_test
table = pandas.DataFrame({"true share": y_test, "expected": probability, "right": right})
for column in protected:
    groups = protected.loc[X_test.index, column]
    found = table.groupby(groups).mean().assign(people=groups.value_counts())
    print(found.round(3).to_string(), end="\n\n")

# %%
# Why this decision?
# ------------------
# Explain the probability for one person, compared with a hundred others. The values add up to it exactly.
person, others = X_test.iloc[[3]], X_train.sample(100, random_state=0)
explainer = glasswood.Explainer(tree, others, output="probability", dtype="float64")
values = [f"{name} = {person[name].iloc[0]}" for name in X]
reasons = pandas.Series(explainer.shap_values(person)[0], values)
strongest = reasons[reasons.abs().sort_values(ascending=False).index]
print(f"{'the others':<30} {explainer.expected_value:.3f}")
print(strongest.map("{:+.3f}".format).to_string())
print(f"{'this person':<30} {explainer.expected_value + reasons.sum():.3f}")

# %%
# Can I compute it again?
# -----------------------
# One SQL expression computes the probability from the columns of a table, without glasswood and without Python. Here,
# SQLite computes it for all people of the test.
sql = glasswood.export_sql(tree, dialect="sqlite")
connection = sqlite3.connect(":memory:")
X_test.to_sql("people", connection, index=False)
again = pandas.read_sql_query(f"SELECT {sql} AS p FROM people", connection)["p"]
difference = abs(again.to_numpy() - probability.to_numpy()).max()
print(f"{len(sql):,} characters; largest difference {difference:.1e}")

# %%
# What do they keep?
# ------------------
# One file, which opens offline in any browser: figures for training and test, the tree, and a model card with a hash of
# the data. ``redact=True`` leaves out everything that shows single persons.
test = (X_test, y_test)
glasswood.report(tree, X_train, y_train, "regulator.html", test=test, units=units, redact=True)

# %%
# .. raw:: html
#
#    <iframe src="regulator.html" title="The report" class="report" loading="lazy"></iframe>
