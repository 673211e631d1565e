"""Effects beside scikit-learn, woodelf, PyALE and a loop: seconds of processors, and how far results differ.

`python -m benchmarks.effects` writes benchmarks/results/effects-<machine>.json and tables of docs/benchmarks.md. Rivals
that are not installed are left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import silva
from benchmarks.data import ROOT
from benchmarks.machine import conditions, machine_name
from benchmarks.responses import seconds_of
from benchmarks.tables import between

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).parent / "results"
N_FEATURES, GRID = 14, 50


def rows_and_target(n_rows: int) -> tuple[Any, Any]:
    """Friedman's function of five of 14 features, with one more product."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n_rows, N_FEATURES)).astype(np.float32)
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + 5 * X[:, 5] * X[:, 6] + rng.normal(size=n_rows)


def model_of(X: Any, y: Any, n_trees: int = 100) -> Any:
    """LightGBM's trees of 31 leaves."""
    import lightgbm
    import pandas

    frame = pandas.DataFrame(X[:50_000], columns=[f"f{i}" for i in range(X.shape[1])])
    return lightgbm.LGBMRegressor(n_estimators=n_trees, num_leaves=31, n_jobs=2, verbose=-1).fit(frame, y[:50_000])


def line(name: str, own: Callable[[], Any], rivals: dict[str, Callable[[], Any]], runs: int = 3) -> dict[str, Any]:
    """Measure one call beside others, which run once."""
    found: dict[str, Any] = {"case": name, "silva": seconds_of(own, runs)}
    for rival, call in rivals.items():
        try:
            found[rival] = seconds_of(call, 1)
        except ImportError as error:
            print(f"{rival}: {error}")
    return found


def scikit_learn(model: Any, X: Any, features: list[int]) -> Callable[[], Any]:
    """One curve after the other, each a prediction of all rows a point."""
    from sklearn.inspection import partial_dependence

    rows = X.astype(np.float64)
    return lambda: [partial_dependence(model, rows, [f], method="brute", grid_resolution=GRID) for f in features]


def woodelf(model: Any, X: Any, points: int) -> Callable[[], Any]:
    """Curves of all features and surfaces of all pairs at quantiles."""

    def call() -> Any:
        import pandas
        from woodelf.pdp import woodelf_pdp, woodelf_pdp_joint

        frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
        return woodelf_pdp(model, frame, k=points, verbose=False), woodelf_pdp_joint(
            model, frame, k=points, verbose=False
        )

    return call


def python_ale(model: Any, X: Any, bins: int) -> Callable[[], Any]:
    """PyALE's curve of each feature."""

    def call() -> Any:
        import pandas
        from PyALE import ale

        frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
        return [ale(frame, model, [name], grid_size=bins, include_CI=False, plot=False) for name in frame.columns]

    return call


def loop_of_h(model: Any, X: Any, points: Any) -> Callable[[], Any]:
    """H of one pair by its formula: each point predicted for all rows."""

    def dependence(features: list[int]) -> Any:
        means = []
        for point in points:
            rows = X.copy()
            rows[:, features] = X[point, features]
            means.append(model.predict(rows).mean())
        return np.array(means) - np.mean(means)

    def call() -> Any:
        both, one, other = dependence([0, 1]), dependence([0]), dependence([1])
        return np.sqrt(((both - one - other) ** 2).sum() / (both**2).sum())

    return call


def measure() -> list[dict[str, Any]]:
    """All cases."""
    X, y = rows_and_target(400_000)
    model = model_of(X, y)
    some = X[:100_000]
    forest, one = silva.load(model), [0]
    sklearn_one = scikit_learn(model, some, one)
    effects = silva.effects(forest, some)
    few = X[:2000]
    on_few = silva.effects(forest, few)
    points = np.linspace(0, len(few) - 1, 100).astype(int)
    return [
        line("one curve, 100,000 rows", lambda: silva.effects(forest, some, features=one), {"sklearn": sklearn_one}),
        line(
            "14 curves, 100,000 rows",
            lambda: silva.effects(forest, some, pairs=()),
            {"sklearn": scikit_learn(model, some, list(range(N_FEATURES)))},
        ),
        line("14 curves and 91 pairs, 100,000 rows", lambda: silva.effects(forest, some), {}),
        line(
            "14 curves and 91 pairs, 400,000 rows",
            lambda: silva.effects(forest, X),
            {"woodelf": woodelf(model, X, GRID)},
        ),
        line(
            "ALE of 14 features, 100,000 rows",
            lambda: [effects.ale(feature) for feature in range(N_FEATURES)],
            {"PyALE": python_ale(model, some, 40)},
        ),
        line("ALE of a pair, 100,000 rows", lambda: effects.ale(0, 1, bins=20), {}),
        line("H of 91 pairs and 14 features, 500 of 100,000 rows", effects.interactions, {}),
        line(
            "H of a pair, 100 of 2,000 rows (silva: of all)",
            lambda: on_few.interactions(100),
            {"loop": loop_of_h(model, few, points)},
        ),
    ]


def table(lines: list[dict[str, Any]]) -> str:
    """Lines of Markdown."""
    rivals = ["sklearn", "woodelf", "PyALE", "loop"]
    text = ["| case | silva | scikit-learn | woodelf | PyALE | loop |", "| --- | --- | --- | --- | --- | --- |"]
    for one in lines:
        cells = [f"{one[r]:.3g} s ({one[r] / one['silva']:.0f}×)" if r in one else "" for r in rivals]
        text.append(f"| {one['case']} | {one['silva']:.3g} s | {' | '.join(cells)} |")
    return "\n".join(text)


def main() -> None:
    """Measure, keep the readings and write the table."""
    found = {"conditions": conditions(), "lines": measure()}
    (RESULTS / f"effects-{machine_name()}.json").write_text(json.dumps(found, indent=1) + "\n")
    print(table(found["lines"]))
    path = ROOT / "docs" / "benchmarks.md"
    about = ", ".join(str(found["conditions"][key]) for key in ("date", "commit", "cpu"))
    shown = f"{about}, load average {found['conditions']['load']}: seconds of processors.\n\n{table(found['lines'])}"
    path.write_text(between(path.read_text(), "all effects", shown))


if __name__ == "__main__":
    main()
