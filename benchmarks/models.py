"""Train the models of the cases, once per library version."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.data import CACHE, OBJECTIVES, read
from glasswood.base.files import replacing

if TYPE_CHECKING:
    from benchmarks.cases import Model
    from benchmarks.data import Table

SEED = 0


@dataclass(frozen=True)
class Library:
    """How a library trains, keeps and restores a model."""

    package: str
    suffix: str
    train: Callable[[Model, Table], Any]
    save: Callable[[Any, Path], Any]
    restore: Callable[[Path], Any]


def trained(model: Model) -> Any:
    """Restore the model, or train it."""
    library = LIBRARIES[model.library]
    path = _path(model, library)
    if not path.exists():
        print(f"training {model.library}: {model}", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            library.save(library.train(model, read(model.data)), partial)
    return library.restore(path)


def _path(model: Model, library: Library) -> Path:
    """Another setting, seed or version is another file."""
    key = hashlib.sha256(f"{model!r} {SEED} {version(library.package)}".encode()).hexdigest()[:12]
    return CACHE / f"{model.library}-{model.data}-{model.rounds}x{model.depth}-{key}{library.suffix}"


def _train_xgboost(model: Model, table: Table) -> Any:
    import xgboost

    parameters = {"max_depth": model.depth, "learning_rate": model.learning_rate, "seed": SEED}
    objectives: dict[str, dict[str, Any]] = {
        "regression": {"objective": "reg:squarederror"},
        "binary": {"objective": "binary:logistic"},
        "multiclass": {"objective": "multi:softprob", "num_class": int(table.target.max()) + 1},
    }
    objective = objectives[OBJECTIVES[model.data]]
    matrix = xgboost.DMatrix(table.rows, table.target, enable_categorical=True)
    return xgboost.train(parameters | objective, matrix, model.rounds)


def _restore_xgboost(path: Path) -> Any:
    import xgboost

    return xgboost.Booster(model_file=path)


def _train_lightgbm(model: Model, table: Table) -> Any:
    import lightgbm

    parameters = {
        "objective": OBJECTIVES[model.data],
        "max_depth": model.depth,
        "num_leaves": 2**model.depth,
        "learning_rate": model.learning_rate,
        "seed": SEED,
        "verbose": -1,
    }
    return lightgbm.train(parameters, lightgbm.Dataset(table.rows, table.target), model.rounds)


def _restore_lightgbm(path: Path) -> Any:
    import lightgbm

    return lightgbm.Booster(model_file=path)


def _train_catboost(model: Model, table: Table) -> Any:
    """Categories by equality: all that a byte numbers."""
    import catboost

    parameters = {"iterations": model.rounds, "depth": model.depth, "learning_rate": model.learning_rate}
    boosting = catboost.CatBoostClassifier(**parameters, one_hot_max_size=255, random_seed=SEED, verbose=0)
    return boosting.fit(catboost.Pool(table.rows, table.target, cat_features=categories_of(table.rows)))


def categories_of(frame: Any) -> list[str]:
    """Name the columns of categories."""
    return [name for name in frame if frame[name].dtype == "category"]


def _restore_catboost(path: Path) -> Any:
    import catboost

    return catboost.CatBoostClassifier().load_model(path)


def _train_scikit_learn(model: Model, table: Table) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(
        model.rounds, max_depth=model.depth or None, max_features="sqrt", random_state=SEED, n_jobs=-1
    )
    return forest.fit(table.rows, table.target)


def _train_histograms(model: Model, table: Table) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    forest = HistGradientBoostingRegressor(
        max_iter=model.rounds, max_depth=model.depth or None, learning_rate=model.learning_rate, random_state=SEED
    )
    return forest.fit(table.rows, table.target)


def _scikit_learn(train: Callable[[Model, Table], Any]) -> Library:
    return Library(
        "scikit-learn",
        ".pkl",
        train,
        lambda model, path: path.write_bytes(pickle.dumps(model)),
        lambda path: pickle.loads(path.read_bytes()),
    )


LIBRARIES = {
    "xgboost": Library(
        "xgboost-cpu",
        ".ubj",
        _train_xgboost,
        lambda model, path: path.write_bytes(model.save_raw("ubj")),
        _restore_xgboost,
    ),
    "lightgbm": Library(
        "lightgbm", ".txt", _train_lightgbm, lambda model, path: model.save_model(path), _restore_lightgbm
    ),
    "catboost": Library(
        "catboost", ".cbm", _train_catboost, lambda model, path: model.save_model(path), _restore_catboost
    ),
    "scikit-learn": _scikit_learn(_train_scikit_learn),
    "scikit-learn histograms": _scikit_learn(_train_histograms),
}
