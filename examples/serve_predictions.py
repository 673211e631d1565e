"""
Serve predictions
=================

Predict and explain single rows in microseconds, and batches by the algorithm that is the fastest on this machine.
"""

# %%
import timeit

import numpy as np

import glasswood

X, _ = glasswood.datasets.california()

# %%
# Load once. A ``.glasswood`` file loads in milliseconds, and processes can share it (``mmap=True``).
forest = glasswood.load(glasswood.datasets.DATA / "california_housing.json")
forest = forest.tune(X, seconds=1)
forest.save("model.glasswood")
forest = glasswood.load("model.glasswood", mmap=True)

# %%
# Predict one row at a time. The checks of a call are done once, in advance.
predict_row = forest.predictor()
reasons = glasswood.Explainer(forest).prepare().row(top=3)
row = np.ascontiguousarray(X.to_numpy(np.float32)[0])
seconds = timeit.timeit(lambda: predict_row(row), number=10_000) / 10_000
print(f"prediction {predict_row(row):.3f} in {1e6 * seconds:.1f} microseconds")

# %%
# Explain a row by its three strongest reasons.
features, values = reasons(row)
for feature, value in zip(features, values, strict=True):
    print(f"{forest.feature_names[feature]}: {value:+.3f}")

# %%
# Predict batches. The bits of the results do not depend on the algorithm, the number of threads or the batches.
rows = X.to_numpy(np.float32)
assert np.array_equal(forest.predict(rows), np.concatenate([forest.predict(rows[:77]), forest.predict(rows[77:])]))
seconds = timeit.timeit(lambda: forest.predict(rows), number=10) / 10
print(f"{len(rows) / seconds / 1e6:.1f} million rows a second")
