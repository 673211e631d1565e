"""What glasswood.load takes, and what it says of everything else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import catboost
import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.exceptions import NotFittedError

import glasswood
from glasswood.readers import library_of
from glasswood.readers.assemble import NodeArrays, assemble

XGBOOST_FILE = Path(__file__).parent / "data" / "xgboost-3.2.0-logistic.json"


CATBOOST_FILES = [path for path in sorted(XGBOOST_FILE.parent.glob("catboost-*")) if path.suffix != ".npz"]


def stump():
    nodes = NodeArrays(
        counts=np.array([3]),
        left=np.array([1, -1, -1]),
        right=np.array([2, -1, -1]),
        feature=np.array([1, 0, 0]),
        threshold=np.array([0.5, 0, 0], np.float32),
        default_left=np.ones(3, bool),
        cover=np.array([3.0, 1, 2]),
        value=np.array([0, -1.0, 1]),
        leaf_id=np.arange(3),
    )
    return glasswood.load(assemble(nodes, n_features=2, base_score=np.zeros(1), tree_weight=np.ones(1)))


def instance(module: str, *bases: type):
    return type("Model", bases, {"__module__": module})()


def test_forest_is_returned_as_it_is():
    forest = stump()
    assert glasswood.load(forest) is forest


def test_glasswood_file(tmp_path):
    forest = stump()
    forest.save(tmp_path / "forest.glasswood")
    loaded = glasswood.load(tmp_path / "forest.glasswood")
    np.testing.assert_array_equal(loaded.ensemble.threshold, forest.ensemble.threshold)
    np.testing.assert_array_equal(
        glasswood.load(str(tmp_path / "forest.glasswood")).ensemble.leaf_value, forest.ensemble.leaf_value
    )


@pytest.mark.parametrize("suffix", [".json", ".ubj"])
def test_suffix_is_not_case_sensitive(tmp_path, suffix):
    name = f"MODEL{suffix.upper()}"
    xgboost_file = XGBOOST_FILE if suffix == ".json" else XGBOOST_FILE.with_name("xgboost-3.2.0-softprob.ubj")
    (tmp_path / name).write_bytes(xgboost_file.read_bytes())
    assert glasswood.load(tmp_path / name).source == "xgboost 3.2.0"


def test_methods_and_classes_are_no_models():
    X = np.arange(40.0)[:, None]
    model = xgboost.XGBRegressor(n_estimators=2).fit(X, X[:, 0])
    with pytest.raises(TypeError, match="the method predict of a XGBRegressor; pass the XGBRegressor itself"):
        glasswood.load(model.predict)
    with pytest.raises(TypeError, match=r"the class XGBRegressor, expected a fitted one"):
        glasswood.load(xgboost.XGBRegressor)


def test_dumps_for_people_are_no_models(tmp_path):
    X = np.arange(80.0)[:, None]
    booster = xgboost.XGBRegressor(n_estimators=2).fit(X, X[:, 0]).get_booster()
    for name, kind in (("dump.json", "json"), ("dump.txt", "text")):
        booster.dump_model(tmp_path / name, dump_format=kind)
        with pytest.raises(ValueError, match="is a dump of XGBoost, for people to read; write the model by save_model"):
            glasswood.load(tmp_path / name)
    booster = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(X, X[:, 0]).booster_
    (tmp_path / "lightgbm.json").write_text(json.dumps(booster.dump_model()))  # which lacks nothing
    np.testing.assert_array_equal(glasswood.load(tmp_path / "lightgbm.json").predict(X), booster.predict(X))


def test_folders_are_no_models(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder, expected a model file"):
        glasswood.load(tmp_path)


@pytest.mark.parametrize("thing", [None, 3, {}, b"{}", np.zeros(3), object(), stump])
def test_other_things(thing):
    with pytest.raises(TypeError, match=r"cannot load a .*expected a Booster or estimator of XGBoost"):
        glasswood.load(thing)


def test_models_of_snapml_are_refused_by_name():
    with pytest.raises(
        NotImplementedError, match=r"a Model of snapml is not supported: its trees .* glasswood\.distill"
    ):
        glasswood.load(instance("snapml.RandomForestRegressor"))


@pytest.mark.parametrize("name", ["model.pkl", "model", "model.bin"])
def test_files_that_hold_nothing_known(name, tmp_path):
    with pytest.raises(FileNotFoundError):
        glasswood.load(tmp_path / name)
    (tmp_path / name).write_bytes(b"\x80\x04\x95pickled")
    with pytest.raises(ValueError, match=r"is a pickle, which glasswood does not open.*joblib\.load"):
        glasswood.load(tmp_path / name)
    starts = {b"nothing known": r"cannot tell from its suffix .* or its first bytes", b"binf": "holds no valid XGBoost"}
    for start, message in starts.items():
        (tmp_path / name).write_bytes(start + bytes(200))
        with pytest.raises(ValueError, match="is a pickle" if (name, start[:1]) == ("model.pkl", b"n") else message):
            glasswood.load(tmp_path / name)


@pytest.mark.parametrize("name", ["model", "model.bin", "model.model", "model.lgb", "MODEL.OLD"])
def test_other_suffixes(name, tmp_path):
    """Files are told by their first bytes, or by a library's name."""
    X, y = np.random.default_rng(0).normal(size=(80, 3)), np.arange(80.0)
    booster = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(X, y).booster_
    xgb = xgboost.XGBRegressor(n_estimators=2).fit(X, y).get_booster()
    cat = catboost.CatBoostRegressor(iterations=2, verbose=0, allow_writing_files=False).fit(X, y)
    writers = {
        "lightgbm": lambda path: path.write_text(booster.model_to_string()),
        "xgboost": lambda path: path.write_bytes(xgb.save_raw("ubj")),
        "XGBoost": lambda path: path.write_bytes(xgb.save_raw("json")),
        "catboost": lambda path: cat.save_model(str(path)),
        "CatBoost": lambda path: cat.save_model(str(path), format="json"),
        "glasswood": lambda path: glasswood.load(booster).save(path),
    }
    path = tmp_path / name
    for library, write in writers.items():
        path.unlink(missing_ok=True)
        write(path)
        forest = glasswood.load(path)
        np.testing.assert_array_equal(glasswood.load(path, format=library.lower()).predict(X), forest.predict(X))
        assert forest.source.lower().startswith(library.lower() if library != "glasswood" else "lightgbm")


def test_formats_that_are_none(tmp_path):
    with pytest.raises(ValueError, match=r"format is 'pickle' .*expected one of xgboost, lightgbm"):
        glasswood.load(tmp_path / "model.txt", format="pickle")
    with pytest.raises(ValueError, match="format is 'xgboost' for dict"):
        glasswood.load({}, format="xgboost")


@pytest.mark.parametrize(
    ("format", "library"), [("onnx", "xgboost"), ("glasswood", "xgboost"), ("xgboost", "glasswood")]
)
def test_a_file_of_another_library_than_the_format_says_is_refused(tmp_path, format, library):  # noqa: A002
    path = tmp_path / f"model.{'glasswood' if library == 'glasswood' else 'json'}"
    forest = glasswood.load(Path(glasswood.__file__).parent / "data" / "california_housing.json")
    if library == "glasswood":
        forest.save(path)
    else:
        path.write_bytes((Path(glasswood.__file__).parent / "data" / "california_housing.json").read_bytes())
    with pytest.raises(ValueError, match=f"holds a model of {library}, format says '{format}'"):
        glasswood.load(path, format=format)


@pytest.mark.parametrize("suffix", ["json", "ubj", "cbm", "glasswood"])
def test_missing_file(tmp_path, suffix):
    with pytest.raises(FileNotFoundError):
        glasswood.load(tmp_path / f"none.{suffix}")


def test_library_by_the_bases_of_a_class():
    base = type(instance("xgboost.sklearn", type(instance("sklearn.base"))))
    assert library_of(instance("my.module", base)) == "xgboost"
    assert library_of(instance("xgboost_extension.core")) is None


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_loads_numpy_and_the_core_only():
    known = "numpy", "glasswood"
    heavy = run(
        "import sys, glasswood\n"
        "tops = {name.partition('.')[0] for name, module in sys.modules.items()\n"
        "        if 'site-packages' in (getattr(module, '__file__', None) or '')}\n"
        "print(*sorted(tops))"
    )
    assert set(heavy.split()) <= {*known, *run(SITE_STARTUP).split()}
    assert run("import sys, glasswood; print('glasswood.readers' in sys.modules)") == "False"


SITE_STARTUP = (
    "import sys\n"
    "print(*{name.partition('.')[0] for name, module in sys.modules.items()\n"
    "        if 'site-packages' in (getattr(module, '__file__', None) or '')})"
)


def test_files_load_without_their_library():
    files = [str(XGBOOST_FILE), *(str(path) for path in CATBOOST_FILES)]
    loaded = run(
        f"import sys, glasswood\nfor path in {files!r}: glasswood.load(path)\n"
        "print([name for name in ('xgboost', 'lightgbm', 'sklearn', 'catboost') if name in sys.modules])"
    )
    assert loaded == "[]"


def test_lazy_names():
    assert "load" in dir(glasswood)
    with pytest.raises(AttributeError, match="no attribute 'loads'"):
        _ = glasswood.loads


def test_a_model_tree():
    X = np.random.default_rng(0).normal(size=(200, 3))
    tree = glasswood.ModelTreeRegressor(generations=20, random_state=0).fit(X, np.abs(X[:, 0]))
    assert glasswood.load(tree, check=X).ensemble is tree.forest_.ensemble


def test_a_model_tree_that_is_not_fitted():
    with pytest.raises(NotFittedError, match="not fitted"):
        glasswood.load(glasswood.ModelTreeRegressor())
