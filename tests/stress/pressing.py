"""How long every long call works on after Ctrl-C: python -m tests.stress.pressing prints the table of the docs.

A call that searches returns what it has; any other raises KeyboardInterrupt.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings

import numpy as np
from sklearn.ensemble import RandomForestRegressor

import glasswood
from tests.strategies import full_forest

SECONDS = 1.5
"""Of work before Ctrl-C."""


def calls():
    """The calls by name, each of which takes far longer than `SECONDS`."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + rng.normal(size=3000) / 4
    forest = full_forest(0, 300, 8, 20)
    many = np.broadcast_to(rng.normal(size=20).astype(np.float32), (3_000_000, 20))
    some = rng.normal(size=(20_000, 20)).astype(np.float32)
    long = {"time_limit": None, "n_jobs": 2}
    tree, classes = glasswood.ModelTreeRegressor, glasswood.ModelTreeClassifier
    ensemble, of_classes = glasswood.ModelTreeEnsembleRegressor, glasswood.ModelTreeEnsembleClassifier
    model = RandomForestRegressor(100, random_state=0, n_jobs=2).fit(some[:5000], some[:5000, 0])
    explainer = glasswood.Explainer(forest, device="cpu")
    against = glasswood.Explainer(forest, some[:2000], output="response", device="cpu")
    neighbors = glasswood.Neighbors(model, some[:5000], some[:5000, 0])
    return {
        "ModelTreeRegressor.fit": lambda: tree(**long, generations=10**6, n_iter_no_change=10**6).fit(X, y),
        "ModelTreeClassifier.fit": lambda: classes(**long, generations=10**6, n_iter_no_change=10**6).fit(X, y > 0),
        "ModelTreeEnsembleRegressor.fit, mean": lambda: ensemble(n_estimators=200, **long).fit(X, y),
        "ModelTreeEnsembleRegressor.fit, boosting": lambda: ensemble(method="boosting", **long).fit(X, y),
        "ModelTreeEnsembleClassifier.fit": lambda: of_classes(n_estimators=50, **long).fit(X, y > 0),
        "distill": lambda: glasswood.distill(lambda rows: np.sin(rows[:, 0]), X, sizes=[8, 16, 32, 64], **long),
        "Forest.predict": lambda: forest.predict(many, device="cpu"),
        "Explainer.shap_values": lambda: explainer.shap_values(many),
        "Explainer.shap_interaction_values": lambda: explainer.shap_interaction_values(many[:300_000]),
        "Explainer.shap_values of a response": lambda: against.shap_values(some),
        "Explainer.summary": lambda: explainer.summary(many),
        "compare": lambda: glasswood.compare(some[:10_000], some[10_000:], model=forest),
        "effects": lambda: glasswood.effects(forest, some, pairs="all", output="margin").interactions(5000),
        "partial_dependence": lambda: glasswood.partial_dependence(forest, many[:1_000_000], [0, 1]),
        "permutation_importance": lambda: glasswood.permutation_importance(model, some, some[:, 0], n_repeats=200),
        "Neighbors.kneighbors": lambda: neighbors.kneighbors(np.tile(some, (20, 1))),
        "Neighbors.quantile": lambda: neighbors.quantile(np.tile(some, (20, 1)), np.linspace(0, 1, 101)),
    }


def pressed(call):
    """Seconds from Ctrl-C to the end of a call, and how it ended."""
    sent = []

    def press():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(SECONDS, press)
    timer.start()
    try:
        call()
        how = "returns" if sent else "had ended"
    except KeyboardInterrupt:
        how = "KeyboardInterrupt"
    ended = time.perf_counter()
    timer.cancel()
    timer.join()
    return (ended - sent[0] if sent else np.nan), how


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("| call | ends by | seconds after Ctrl-C |\n|---|---|---|")
    for name, call in calls().items():
        seconds, how = pressed(call)
        print(f"| `{name}` | {how} | {seconds:.2f} |", flush=True)
