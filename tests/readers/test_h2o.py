"""MOJOs of H2O, read without it; those of `data` say what H2O's own scoring, in Java, made of their rows."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.oracles import coalitions

import glasswood

STORED = sorted((Path(__file__).parent / "data").glob("h2o-*.zip"))
SQUARED, LOGISTIC, ISOLATION = (
    next(path for path in STORED if path.stem.endswith(name)) for name in ("-squared", "-logistic", "-isolation")
)
ROUNDING = 1e-14
"""H2O adds float64 up, glasswood too, in another order."""

SINGLE = 4e-6
"""H2O's contributions are sums in float32."""


def stored(path):
    """A forest, the rows that H2O was given (categories as codes), and what it made of them."""
    forest = glasswood.load(path)
    with np.load(f"{path}.npz") as file:
        results = dict(file)
    return forest, as_values(forest, results["rows"]), results


def as_values(forest, rows):
    """Codes as texts; those beyond the table as a text that it lacks."""
    values = rows.astype(object)
    for feature, table in enumerate(forest.ensemble.categories):
        if table is not None:
            column = rows[:, feature]
            is_code = (column >= 0) & (column < len(table))
            values[:, feature] = np.where(np.isnan(column), None, "other")
            values[is_code, feature] = table[column[is_code].astype(int)]
    return values


def test_all_kinds_are_there():
    assert len(STORED) == 9
    trees = [glasswood.load(path).ensemble for path in STORED]
    assert sum(np.isinf(one.threshold).sum() for one in trees) > 5  # splits that ask only whether a value is missing
    assert any(np.diff(one.set_offsets).max() > 1 for one in trees)  # sets of more than 32 categories


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_predictions_are_those_of_h2o(path):
    forest, X, results = stored(path)
    assert forest.source == "H2O 3.46.0.7"
    assert forest.feature_names == ("a", "b", "short", "long", "odd")
    assert not forest.ensemble.classes or set(forest.ensemble.classes[0]) >= set(results["labels"])
    if len(results["labels"]):
        np.testing.assert_allclose(forest.predict(X, output="probability"), results["numbers"], atol=ROUNDING)
        np.testing.assert_array_equal(forest.predict(X), results["labels"])
    else:
        np.testing.assert_allclose(forest.predict(X), results["numbers"][:, 0], rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("name", ["squared", "laplace", "poisson", "logistic"])
def test_values_are_those_of_h2o(name):
    forest, X, results = stored(next(path for path in STORED if path.stem.endswith(f"-{name}")))
    explanation = glasswood.Explainer(forest, dtype="float64")(X)
    np.testing.assert_allclose(explanation.values, results["contributions"][:, :-1], atol=SINGLE)
    np.testing.assert_allclose(explanation.base_values, results["contributions"][:, -1], atol=SINGLE)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_values_are_sums_over_coalitions(path):
    forest, X, _ = stored(path)
    X, background = X[:4], X[4:10]
    output = "probability" if forest.classes else "response"

    def respond(hybrids, _):
        found = forest.predict(hybrids, output="probability" if forest.classes else "prediction")
        return found.reshape(len(hybrids), -1)[:, -forest.n_outputs :]

    expected = coalitions.values(coalitions.game(respond, X, background, np.arange(5)))
    found = glasswood.Explainer(forest, background, dtype="float64", output=output).shap_values(X)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-9)


def test_covers_add_up():
    trees = glasswood.load(SQUARED).ensemble
    splits = np.flatnonzero(trees.feature >= 0)
    first = np.repeat(trees.tree_offsets[:-1], np.diff(trees.tree_offsets))[splits]
    children = first + trees.left[splits]
    np.testing.assert_array_equal(trees.cover[children] + trees.cover[children + 1], trees.cover[splits])
    assert trees.cover[trees.tree_offsets[:-1]].tolist() == [400.0] * 5


def test_files_are_known_by_their_start(tmp_path):
    (tmp_path / "model").write_bytes(SQUARED.read_bytes())
    assert glasswood.load(tmp_path / "model").n_trees == 5
    assert glasswood.load(tmp_path / "model", format="h2o").n_trees == 5


def changed(path, change, name="model.ini"):
    """The bytes of a MOJO with one member changed, or without it."""
    result = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as copy:
        for entry in archive.namelist():
            data = archive.read(entry)
            data = change(data) if entry == name else data
            if data is not None:
                copy.writestr(entry, data)
    return result.getvalue()


def setting(**options):
    """Set entries of model.ini."""

    def change(data):
        text = data.decode()
        for key, value in options.items():
            text = re.sub(rf"^{key} = .*\n", "", text, flags=re.M)
            text = text.replace("[info]\n", f"[info]\n{key} = {value}\n")
        return text.encode()

    return change


REFUSED = {
    "another model": (setting(algo="glm"), "a MOJO of glm, version 1.40 is not supported; expected gbm, drf"),
    "a later layout": (setting(mojo_version="1.50"), "version 1.50 is not supported"),
    "an older layout": (setting(mojo_version="1.20"), "version 1.20 is not supported"),
    "an offset": (setting(offset_column="o"), "offset_column = o is not supported; train the model without it"),
    "balanced classes": (setting(balance_classes="true"), "balance_classes = true"),
    "trees of both classes": (setting(binomial_double_trees="true"), "binomial_double_trees = true"),
    "one column a category": (setting(_genmodel_encoding="OneHotExplicit"), "_genmodel_encoding = OneHotExplicit"),
    "calibration": (setting(calib_method="platt"), "calib_method = platt"),
    "flags of anomalies": (setting(output_anomaly_flag="true"), "output_anomaly_flag = true"),
    "another link": (setting(link_function="ologit"), "link_function = ologit"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_refused_by_name(name, tmp_path):
    change, message = REFUSED[name]
    path = tmp_path / "model.zip"
    path.write_bytes(changed(LOGISTIC, change))
    with pytest.raises(NotImplementedError, match=message) as caught:
        glasswood.load(path)
    assert str(path) in str(caught.value)


TREE, WEIGHTS, TEXTS = "trees/t00_000.bin", "trees/t00_000_aux.bin", "domains/d001.txt"
CORRUPT = {
    "no algorithm": (lambda data: data.replace(b"algo = ", b"kind = "), "model.ini", "'algo'"),
    "no tree": (lambda _: None, TREE, TREE),
    "no weights": (lambda _: None, WEIGHTS, WEIGHTS),
    "an empty tree": (lambda _: b"", TREE, "unpack"),
    "half a tree": (lambda data: data[: len(data) // 2], TREE, ""),
    "a longer tree": (lambda data: data + b"\0", TREE, "ends before its data"),
    "fewer weights": (lambda data: data[:-40], WEIGHTS, "range"),
    "more weights": (lambda data: data + data[-40:], WEIGHTS, "ends before its data"),
    "weights cut": (lambda data: data[:-3], WEIGHTS, "multiple"),
    "a column beyond": (lambda data: data[:1] + b"\x09\x00" + data[3:], TREE, "range"),
    "a category less": (lambda data: data[4:], TEXTS, "has 44 categories, expected 45"),
    "no features": (setting(n_features=0), "model.ini", "declares 0 features"),
    "many trees": (setting(n_trees=10**12), "model.ini", "trees/t00_005.bin"),
    "three classes": (setting(category="Multinomial"), "model.ini", "declares 1 trees a round for Multinomial"),
    "text for a number": (setting(init_f="x"), "model.ini", "could not convert"),
    "a threshold that is no number": (setting(default_threshold="nan"), "model.ini", "prediction_offset"),
}


BOOSTED = Path(__file__).parent / "data" / "versions" / "h2o-3.46.0.7-xgboost-logistic.zip"
"""Of XGBoost; what H2O says of it is compared in test_versions.py."""

CORRUPT_BOOSTED = {
    "no booster": (lambda _: None, "boosterBytes", "boosterBytes"),
    "half a booster": (lambda data: data[: len(data) // 2], "boosterBytes", "bytes"),
    "a column less": (setting(nums=1), "model.ini", "do not go together"),
    "other places": (setting(cat_offsets="[0, 40, 48]"), "model.ini", "do not go together"),
    "no list of places": (setting(cat_offsets="[0, 41"), "model.ini", ""),
    "a category less": (lambda data: data[4:], "domains/d000.txt", "categories, expected 40"),
    "three classes": (setting(category="Multinomial"), "model.ini", "declares Multinomial and 2 classes for 1 outputs"),
    "a threshold that is no number": (setting(default_threshold="nan"), "model.ini", "prediction_offset"),
}


def test_xgboost_with_offsets_and_linear_boosters_are_refused(tmp_path):
    path = tmp_path / "model.zip"
    linear = changed(
        BOOSTED,
        lambda data: data.replace(b"gbtree", b"gblinear").replace(b"\x06\0\0\0\0\0\0\0gbl", b"\x08\0\0\0\0\0\0\0gbl"),
        "boosterBytes",
    )
    for data, message in ((changed(BOOSTED, setting(has_offset="true")), "has_offset = true"), (linear, "gblinear")):
        path.write_bytes(data)
        with pytest.raises(NotImplementedError, match=message):
            glasswood.load(path)


@pytest.mark.parametrize(
    ("whole", "change", "member", "message"),
    [pytest.param(LOGISTIC, *what, id=name) for name, what in CORRUPT.items()]
    + [pytest.param(BOOSTED, *what, id=f"boosted, {name}") for name, what in CORRUPT_BOOSTED.items()],
)
def test_corrupt_files_are_refused(whole, change, member, message, tmp_path):
    path = tmp_path / "model.zip"
    path.write_bytes(changed(whole, change, member))
    with pytest.raises(ValueError, match=f"holds no valid MOJO of H2O: .*{re.escape(message)}.*; download it again"):
        glasswood.load(path)


def test_other_archives_and_bombs_are_refused(tmp_path):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.ini", bytes(10**7))
    with pytest.raises(ValueError, match="unpacks to more than 16 times its size"):
        glasswood.load(path)
    path.write_bytes(SQUARED.read_bytes()[:-100])
    with pytest.raises(ValueError, match="not a zip file"):
        glasswood.load(path)


def test_live_models_are_refused():
    class H2OGradientBoostingEstimator:
        __module__ = "h2o.estimators.gbm"

    with pytest.raises(TypeError, match=r"are in H2O's JVM; save it by model\.download_mojo\(path\) and pass path"):
        glasswood.load(H2OGradientBoostingEstimator())


def test_isolation_forests_of_equal_paths(tmp_path):
    path = tmp_path / "model.zip"
    path.write_bytes(changed(ISOLATION, setting(max_path_length=4, min_path_length=4)))
    assert glasswood.load(path).predict(np.array([[0.0, 0.0, "s0", "l00", "p q"]], object)).tolist() == [1.0]
