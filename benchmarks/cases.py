"""What is measured: models, cases and targets, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Model:
    """A model to train, by which library on which data set (benchmarks.data). Depth 0 is no bound."""

    library: str
    data: str
    rounds: int
    depth: int
    learning_rate: float = 0.01

    def __str__(self) -> str:
        return f"{self.data}, {self.rounds} × {f'depth {self.depth}' if self.depth else 'full depth'}"


@dataclass(frozen=True)
class Target:
    """A bound of a quantity (benchmarks.targets), of glasswood or of glasswood beside a rival."""

    quantity: str
    bound: float
    rival: str = "XGBoost"


@dataclass(frozen=True)
class Case:
    """A task (benchmarks.rivals) for several libraries, the first of which is the reference of results and ratios."""

    title: str
    task: str
    libraries: tuple[str, ...]
    model: Model | None = None
    n_rows: int = 0
    n_threads: int = 1
    target: Target | None = None
    reading: Literal["time", "result"] = "time"
    n_background: int = 0


@dataclass(frozen=True)
class Group:
    """Cases that share a table."""

    cases: tuple[Case, ...]
    is_long: bool = False


CALIFORNIA_8 = Model("xgboost", "california_housing", rounds=100, depth=8)
CALIFORNIA_16 = Model("xgboost", "california_housing", rounds=60, depth=16)
ADULT_8 = Model("xgboost", "adult", rounds=100, depth=8)
ADULT_16 = Model("xgboost", "adult", rounds=60, depth=16)
ADULT_CATEGORIES = Model("xgboost", "adult with categories", rounds=100, depth=8, learning_rate=0.1)
COVTYPE_8 = Model("xgboost", "covtype", rounds=10, depth=8)
FASHION_8 = Model("xgboost", "fashion_mnist", rounds=20, depth=8)
CALIFORNIA_FOREST = Model("scikit-learn", "california_housing", rounds=100, depth=8)
CALIFORNIA_DEEP = Model("scikit-learn", "california_housing", rounds=100, depth=0)
LEAVES_31, FOREST_LEAVES_31 = (
    Model(library, "california_housing", rounds=500, depth=5, learning_rate=0.1)
    for library in ("lightgbm", "scikit-learn")
)
CALIFORNIA_1000 = Model("xgboost", "california_housing", rounds=1000, depth=8, learning_rate=0.1)
CALIFORNIA_HISTOGRAMS = Model("scikit-learn histograms", "california_housing", rounds=100, depth=0, learning_rate=0.1)
CALIFORNIA_LIGHTGBM, ADULT_LIGHTGBM = (
    Model("lightgbm", data, rounds=100, depth=8) for data in ("california_housing", "adult")
)
CALIFORNIA_SMALL = Model("xgboost", "california_housing", rounds=100, depth=3)
LARGE, LARGE_LIGHTGBM, LARGE_FOREST = (
    Model(library, "synthetic", rounds=1000, depth=8, learning_rate=0.1)
    for library in ("xgboost", "lightgbm", "scikit-learn")
)
TREE, TREE_SCIKIT_LEARN = (
    Model(library, "synthetic", rounds=1, depth=4, learning_rate=1.0) for library in ("xgboost", "scikit-learn")
)

CATEGORICAL = {
    ("LightGBM",): ("lightgbm", 8, 6.0),
    ("XGBoost", "XGBoost, DMatrix"): ("xgboost", 8, 4.0),
    ("CatBoost, Pool", "CatBoost, Pool made before", "CatBoost"): ("catboost", 6, 1.5),
}
"""Library, depth, and how many times as fast as the first of its calls glasswood should be on Adult."""

OWN = ("glasswood", "glasswood float64")
BOTH_TYPES = (*OWN, "XGBoost")
EXPLAINED = ((CALIFORNIA_8, 300), (CALIFORNIA_16, 200), (ADULT_8, 200), (COVTYPE_8, 80), (FASHION_8, 40))
"""Model, and how many times as fast as XGBoost its values should be."""


def _prediction(model: Model, rivals: tuple[str, ...], n_rows: int, n_threads: int, target: Target | None) -> Case:
    task = "row" if n_rows == 1 else "margin"
    return Case(f"{model.library}: {model}", task, ("glasswood", *rivals), model, n_rows, n_threads, target)


def _categorical(data: str, rivals: tuple[str, ...]) -> tuple[Case, ...]:
    """20,000 rows of a frame, one by name, and the values of 2,000."""
    library, depth, bound = CATEGORICAL[rivals]
    model = Model(library, data, rounds=100, depth=depth, learning_rate=0.1)
    of_frame = next(rival for rival in rivals if "," not in rival)
    explains = rivals[0]
    is_adult = data.startswith("adult")
    return (
        Case(f"{library}: {model}", "margin", ("glasswood", *rivals), model, 20_000, 2,
             Target("speed-up", bound, rivals[0]) if is_adult else None),
        Case(f"{library}: {model}", "row by name", ("glasswood", of_frame), model, 1, 1,
             Target("µs", 40) if is_adult else None),
        Case(f"{library}: {model}", "values", ("glasswood", explains), model, 2000, 2),
    )  # fmt: skip


def _against(
    model: Model,
    n_background: int,
    n_rows: int,
    rivals: tuple[str, ...] = ("woodelf",),
    target: Target | None = None,
    task: str = "background values",
    n_threads: int = 1,
) -> Case:
    """Tables or whatever a library makes of the background, and the values of the rows."""
    weighted = "weighted " if task.startswith("weighted") else ""
    title = f"{model}, {n_background:,} {weighted}background rows"
    return Case(title, task, ("glasswood", *rivals), model, n_rows, n_threads, target, n_background=n_background)


def _large(model: Model, task: str, rivals: tuple[str, ...], n_rows: int, target: Target | None = None) -> Case:
    what = ", one row" if task == "explain row" else ""
    return Case(f"{model.library}: {model}{what}", task, ("glasswood", *rivals), model, n_rows, 2, target)


GROUPS = {
    "values": Group(
        tuple(
            Case(str(model), "values", BOTH_TYPES, model, n_rows, 2, target)
            for n_rows in (2000, 20_000)
            for model, bound in EXPLAINED
            # its tables are built anew by each call, so nothing was asked of 2,000 rows
            for target in (None if n_rows == 2000 and model is CALIFORNIA_16 else Target("speed-up", bound),)
        )
    ),
    "few rows": Group(
        (
            Case(str(CALIFORNIA_8), "explain row", ("glasswood", "XGBoost"), CALIFORNIA_8, 1, 1, Target("µs", 15)),
            Case(str(CALIFORNIA_8), "values", ("glasswood", "XGBoost"), CALIFORNIA_8, 100, 2, Target("µs", 500)),
            Case(f"tables of {CALIFORNIA_8}", "prepare", ("glasswood",), CALIFORNIA_8, 0, 2, Target("s", 0.05)),
            Case(f"predictions of {CALIFORNIA_8}", "margin", ("glasswood", "XGBoost"), CALIFORNIA_8, 20_000, 2),
        )
    ),
    "libraries": Group(
        (
            Case(f"scikit-learn: {CALIFORNIA_FOREST}", "values", (*OWN, "shap", "shapiq"), CALIFORNIA_FOREST, 200, 1),
            *(
                Case(f"{model.library}: {model}", "values", (*OWN, *rivals), model, 2000, 2)
                for model, rivals in (
                    (CALIFORNIA_LIGHTGBM, ("LightGBM", "shap", "woodelf")),
                    (ADULT_LIGHTGBM, ("LightGBM", "shap", "woodelf")),
                    (CALIFORNIA_8, ("shap", "woodelf")),
                )
            ),
        )
    ),
    "interactions": Group(
        tuple(
            Case(str(model), "interactions", BOTH_TYPES, model, n_rows, 2, Target("speed-up", bound))
            for n_rows, models in ((100, EXPLAINED[:4]), (1000, EXPLAINED[:1]))
            for model, bound in ((model, 100 if model == CALIFORNIA_8 else 60) for model, _ in models)
        )
    ),
    "large forests": Group(
        (
            _large(CALIFORNIA_DEEP, "values", ("shap",), 20),
            _large(CALIFORNIA_DEEP, "values", (), 100),
            _large(CALIFORNIA_DEEP, "values", (), 2000, Target("s", 0.8)),
            _large(CALIFORNIA_DEEP, "explain row", ("shap",), 1, Target("µs", 10_000)),
            _large(CALIFORNIA_16, "explain row", ("XGBoost", "shap"), 1, Target("µs", 5000)),
            _large(CALIFORNIA_1000, "explain row", ("XGBoost", "shap"), 1),
            _large(CALIFORNIA_1000, "values", ("XGBoost",), 2000),
            _large(LEAVES_31, "values", ("LightGBM",), 2000),
            _large(LEAVES_31, "explain row", ("LightGBM", "shap"), 1),
            _large(FOREST_LEAVES_31, "values", ("shap",), 2000),
            _large(FOREST_LEAVES_31, "explain row", ("shap",), 1),
            _against(CALIFORNIA_DEEP, 1000, 100, (), Target("s", 2), n_threads=2),
        )
    ),
    "background": Group(
        (
            _against(CALIFORNIA_8, 100, 200, ("shap", "shapiq", "woodelf"), Target("speed-up", 50, "shap")),
            _against(CALIFORNIA_8, 10_000, 200, ("shapiq", "woodelf")),
            _against(CALIFORNIA_8, 10_000, 10_000, target=Target("speed-up", 15, "woodelf")),
            _against(CALIFORNIA_8, 10_000, 10_000, (), task="weighted background"),
            _against(ADULT_8, 10_000, 10_000),
            _against(CALIFORNIA_16, 10_000, 1000),
            _against(
                CALIFORNIA_8, 1000, 1000, target=Target("speed-up", 10, "woodelf"), task="background interactions"
            ),
        )
    ),
    "prediction": Group(
        (
            _prediction(LARGE, ("XGBoost", "oneDAL"), 100_000, 2, Target("rows/s", 250_000)),
            _prediction(LARGE, ("XGBoost", "oneDAL"), 20_000, 2, Target("speed-up", 1.5, "oneDAL")),
            _prediction(LARGE, ("XGBoost", "oneDAL"), 1, 1, Target("µs", 15)),
            _prediction(LARGE_LIGHTGBM, ("LightGBM", "oneDAL"), 20_000, 2, None),
            _prediction(LARGE_LIGHTGBM, ("LightGBM", "oneDAL"), 1, 1, None),
            _prediction(LARGE_FOREST, ("scikit-learn",), 20_000, 2, None),
            _prediction(LARGE_FOREST, ("scikit-learn",), 1, 1, None),
            _prediction(CALIFORNIA_DEEP, ("scikit-learn",), 100_000, 2, None),
            _prediction(TREE, ("XGBoost", "oneDAL"), 65_536, 1, Target("rows/s", 1e8)),
            _prediction(TREE, ("XGBoost", "oneDAL"), 1, 1, Target("µs", 2)),
            _prediction(TREE_SCIKIT_LEARN, ("scikit-learn",), 65_536, 1, Target("rows/s", 1e8)),
            _prediction(TREE_SCIKIT_LEARN, ("scikit-learn",), 1, 1, Target("µs", 2)),
        )
    ),
    "categories": Group(
        (
            *(
                case
                for rivals in CATEGORICAL
                for data in ("adult with categories", "airlines", "cities")
                if "CatBoost" not in rivals or data.startswith("adult")  # of many categories it makes statistics
                for case in _categorical(data, rivals)
            ),
            _against(ADULT_CATEGORIES, 1000, 1000, (), n_threads=2),
        )
    ),
    "effects": Group(
        tuple(
            Case(str(model.library), "partial dependence", ("glasswood", "scikit-learn"), model, 100_000, 2, target)
            for model in (CALIFORNIA_HISTOGRAMS, CALIFORNIA_DEEP)
            for target in (Target("speed-up", 20, "scikit-learn"),)
        )
    ),
    "importance": Group(
        tuple(
            Case(f"{model.library}: {model}", "importance", ("glasswood", "scikit-learn"), model, 20_000, 2, target)
            for model, bound in (
                (ADULT_CATEGORIES, 20),
                (Model("catboost", "adult with categories", rounds=100, depth=6, learning_rate=0.1), None),
                (CALIFORNIA_HISTOGRAMS, None),
            )
            for target in (Target("speed-up", bound, "scikit-learn") if bound else None,)
        )
    ),
    "reports": Group(
        tuple(
            Case(f"{what} of {CALIFORNIA_8}", what, ("glasswood",), CALIFORNIA_8, n_rows, 2, target, reading)
            for what, reading, n_rows, target in (
                ("report", "time", 20_640, Target("s", 10)),
                ("size of the report", "result", 20_640, Target("MiB", 2)),
                ("report", "time", 1_000_000, Target("s", 60)),
            )
        )
    ),
    "loading": Group(
        tuple(
            Case(f"{kind} of {LARGE}", f"load {kind}", ("glasswood", *rivals), LARGE, target=Target("s", 0.5))
            for kind, rivals in (("Booster", ()), (".ubj", ("XGBoost",)), (".json", ("XGBoost",)), (".glasswood", ()))
        )
    ),
    "import": Group((Case("process", "import", ("glasswood", "NumPy", "XGBoost", "shap"), target=Target("s", 0.3)),)),
    "memory": Group(
        (
            Case(
                f"glasswood explain of a Parquet file, {CALIFORNIA_SMALL}",
                "explain file",
                ("glasswood",),
                CALIFORNIA_SMALL,
                n_rows=10_000_000,
                n_threads=2,
                target=Target("MiB", 1024),
                reading="result",
            ),
            Case(
                f"beyond the forest, {ADULT_16}, 10,000 background rows",
                "background memory",
                ("glasswood",),
                ADULT_16,
                n_rows=10_000,
                n_threads=2,
                target=Target("MiB", 286),
                reading="result",
                n_background=10_000,
            ),
        ),
        is_long=True,
    ),
}
