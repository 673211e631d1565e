"""The reader of ONNX's tree ensembles against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles import evaluate
from tests.readers.adversarial import adversarial_rows

import glasswood

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime")
pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install skl2onnx")

from tests.readers import onnx_models as models  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
NUMERIC = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]


@pytest.fixture(scope="module")
def data():
    return models.make_data()


def check(model, data, rows=None, whole_numbers=False):
    """Margins' rounding is the only tolerance; the values of leaves differ, so that a wrong side is seen."""
    forest = glasswood.load(model)
    dtype = forest.ensemble.threshold.dtype
    X = adversarial_rows(forest, data[0] if rows is None else rows, max_rows=6000)
    with np.errstate(over="ignore"):
        X = X.astype(dtype).astype(np.float64)
    if whole_numbers:  # onnxruntime truncates some members of sets and not others
        X = X[(~np.isfinite(X) | (np.floor(X) == X)).all(axis=1)]
    outputs = models.run(model, X)
    unit = 2.0**-53 if forest.ensemble.result_dtype == "float64" else 2.0**-24
    coded = codes(forest, X)
    bound = evaluate.summation_bound(forest, coded, unit).max(axis=1, keepdims=True)
    scores = outputs[-1].reshape(len(X), -1) if not isinstance(outputs[-1], list) else by_label(outputs[-1])
    if forest.classes:
        found = forest.predict(X, output="probability").reshape(len(X), -1)
        margin = evaluate.margins(forest, coded)
        decided = ~is_tied(forest, margin, bound)
        assert decided.mean() > 0.5
        np.testing.assert_array_equal(forest.predict(X)[decided], np.asarray(outputs[0])[decided])
    else:
        found = forest.predict(X).reshape(len(X), -1)
    if found.shape != scores.shape:
        scores = scores[:, 1:]
    finite = np.isfinite(scores).all(axis=1)
    assert finite.mean() > 0.5
    error = 4 * bound + 16 * unit * np.maximum(1, np.abs(scores))
    assert (np.abs(found - scores) <= error * np.maximum(1, np.abs(scores)))[finite].all()
    np.testing.assert_array_equal(evaluate.leaf_ids(forest, coded), forest.predict(X, output="leaf"))
    return forest


def codes(forest, X):
    """Positions of values in the tables of the features that are tested for equality."""
    result = X.copy()
    for feature, table in enumerate(forest.ensemble.categories or ()):
        if table is not None:
            same = X[:, feature, None] == table
            result[:, feature] = np.where(same.any(axis=1), same.argmax(axis=1), np.nan)
    return result


def by_label(rows):
    return np.array([list(row.values()) for row in rows])


def is_tied(forest, margin, bound):
    if forest.ensemble.prediction in {"positive", "second_positive"}:
        return np.abs(margin[:, -1] - forest.ensemble.prediction_offset) <= 2 * bound[:, 0]
    largest = np.sort(margin, axis=1)
    return largest[:, -1] - largest[:, -2] <= 4 * bound[:, 0]


@pytest.mark.parametrize("name", models.SKLEARN)
def test_what_skl2onnx_writes(name, data):
    check(models.from_sklearn(name, data), data)


def test_what_skl2onnx_writes_without_zipmap(data):
    check(models.from_sklearn("forest, three classes", data, options={"zipmap": False}), data)


@pytest.mark.parametrize("kind", ["number", "two", "three"])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_what_onnxmltools_writes(library, kind, data):
    onnxmltools = pytest.importorskip("onnxmltools", reason="onnxmltools is not installed: pip install onnxmltools")
    from onnxmltools.convert.common.data_types import FloatTensorType

    module = pytest.importorskip(library)
    name = {"lightgbm": "LGBM", "xgboost": "XGB"}[library] + ("Regressor" if kind == "number" else "Classifier")
    options = {"verbose": -1} if library == "lightgbm" else {}
    model = getattr(module, name)(n_estimators=6, **options).fit(data[0], models.target(data[1], kind))
    convert = getattr(onnxmltools, f"convert_{library}")
    check(convert(model, initial_types=[("input", FloatTensorType([None, 4]))]), data)


def test_an_exponential_behind_the_trees(data):
    onnxmltools = pytest.importorskip("onnxmltools", reason="onnxmltools is not installed: pip install onnxmltools")
    import lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType

    model = lightgbm.LGBMRegressor(n_estimators=6, objective="poisson", verbose=-1).fit(data[0], np.abs(data[1]))
    converted = onnxmltools.convert_lightgbm(model, initial_types=[("input", FloatTensorType([None, 4]))])
    assert check(converted, data).ensemble.link == "exp"


@pytest.mark.parametrize("kind", ["number", "two", "three"])
def test_what_catboost_writes(kind, data, tmp_path):
    import catboost

    maker = catboost.CatBoostRegressor if kind == "number" else catboost.CatBoostClassifier
    model = maker(iterations=5, depth=3, verbose=0, allow_writing_files=False)
    model.fit(data[0], models.target(data[1], kind)).save_model(str(tmp_path / "model.onnx"), format="onnx")
    check(onnx.load(tmp_path / "model.onnx"), data)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("mode", [*NUMERIC, "all"])
def test_comparisons_and_missing_values(mode, double, data):
    modes = NUMERIC if mode == "all" else [mode]
    check(models.by_number("Regressor", models.random_trees(1), modes, double=double), data)
    numbers = [0, 1, 2, 3] if mode == "all" else [{"LEQ": 0, "LT": 1, "GTE": 2, "GT": 3}[mode.split("_")[1]]]
    check(models.by_position(models.random_trees(2), numbers, double=double), data)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
def test_post_transforms(transform, data):
    trees = models.random_trees(3)
    weights = (lambda rng, n: rng.uniform(0.16, 0.2, n)) if transform == "PROBIT" else None
    arguments = {"weights": weights, "post_transform": transform}
    check(models.by_number("Regressor", trees, NUMERIC, n_outputs=3, **arguments), data)
    labels = {"classlabels_int64s": [5, 3, 9]}
    check(models.by_number("Classifier", trees, NUMERIC, n_outputs=3, **arguments, **labels), data)
    number = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"].index(transform)
    fifth = models.by_position(trees, [0, 1, 2, 3], n_outputs=3, post_transform=number)
    if transform in {"SOFTMAX", "LOGISTIC"}:
        with pytest.raises(NotImplementedError, match=f"post_transform {transform} of a TreeEnsemble is not supported"):
            glasswood.load(fifth)
    elif transform != "PROBIT":
        check(fifth, data)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("weights", ["positive", "any"])
@pytest.mark.parametrize("ids", [[0], [1], [0, 1]])
def test_two_classes(ids, weights, transform, data):
    draw = {"positive": lambda rng, n: rng.uniform(0, 0.25, n), "any": None}[weights]
    model = models.by_number(
        "Classifier",
        models.random_trees(4),
        NUMERIC,
        ids=ids,
        weights=draw,
        post_transform=transform,
        classlabels_int64s=[0, 1] if len(ids) == 2 else [7, 2],
    )
    check(model, data)
    if len(ids) == 2:
        with pytest.raises(NotImplementedError, match=r"labels 0 and 1, not \[7, 2\]"):
            glasswood.load(edited(model, classlabels_int64s=[7, 2]))


def test_base_values_and_averages(data):
    trees = models.random_trees(5)
    check(models.by_number("Regressor", trees, NUMERIC, n_outputs=2, base_values=[0.5, -2.0]), data)
    check(models.by_number("Regressor", trees, NUMERIC, base_values=[3.0], aggregate_function="AVERAGE"), data)
    check(models.by_number("Classifier", trees, NUMERIC, ids=[0], base_values=[0.3], classlabels_int64s=[0, 1]), data)
    check(models.by_position(trees, [0], aggregate_function=0), data)


VALUES = [-3.5, 0.0, 1.0, 2.0, 2.5, 7.0, 40.0]


def rows_of_values():
    rng = np.random.default_rng(0)
    return rng.choice([*VALUES, np.nan, 1.0, -1.0, 1e6], size=(300, 4))


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("modes", [[4], [4, 5], [6]])
def test_equality_and_membership(modes, double, data):
    trees = models.random_trees(6, values=VALUES)
    model = models.by_position(
        trees,
        modes,
        double=double,
        members=[value for value in VALUES if value == int(value)],
        tracks=lambda inner: [0] * len(inner),
    )
    assert check(model, data, rows_of_values(), whole_numbers=modes == [6]).ensemble.is_categorical


def test_chains_of_equalities(data):
    trees = models.random_trees(7, depth=12, values=VALUES, one_sided=True)
    model = models.by_number("Regressor", trees, ["BRANCH_EQ"])
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "nodes_missing_value_tracks_true":
            attribute.ints[:] = [0] * len(attribute.ints)
    check(model, data, rows_of_values())


def test_packed_lists_of_numbers():
    """Some writers pack them."""
    from glasswood.readers.protobuf import Message

    values = np.array([0, 1, 127, 128, 300, 2**31, 2**62, -1, -(2**40)])
    text = bytes(byte for value in values.tolist() for byte in varint(value))
    packed = bytes([8 << 3 | 2, len(text)]) + text
    single = b"".join(bytes([8 << 3]) + bytes(varint(value)) for value in values.tolist())
    for data_ in (packed, single, single + packed):
        found = Message(data_).integers(8)
        np.testing.assert_array_equal(found, np.tile(values, len(found) // len(values)))


def varint(value):
    value %= 2**64
    while value > 127:
        yield value & 127 | 128
        value >>= 7
    yield value


def test_files_need_no_library(data, tmp_path):
    model = models.from_sklearn("gradient boosting", data)
    onnx.save(model, tmp_path / "model.onnx")
    X = data[0]
    np.testing.assert_array_equal(glasswood.load(tmp_path / "model.onnx").predict(X), glasswood.load(model).predict(X))
    glasswood.load(model, check=X)


def test_explanations_need_a_background(data):
    forest = glasswood.load(models.from_sklearn("gradient boosting", data))
    with pytest.raises(ValueError, match="ONNX has no weights of training rows"):
        glasswood.Explainer(forest)
    X = data[0]
    explainer = glasswood.Explainer(forest, background=X[:50], dtype="float64")
    total = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, forest.predict(X, output="margin"), rtol=1e-5)


def edited(model, **fields):
    """Replace or drop attributes of the trees."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    node = copy.graph.node[0]
    for name, value in fields.items():
        kept = [one for one in node.attribute if one.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
        if value is not None and len(value if hasattr(value, "__len__") else [0]):
            node.attribute.append(onnx.helper.make_attribute(name, value))
    return copy


REGRESSOR = models.by_number("Regressor", models.random_trees(1), NUMERIC)
FIFTH = models.by_position(models.random_trees(1), [0])
N_NODES = next(len(a.ints) for a in REGRESSOR.graph.node[0].attribute if a.name == "nodes_treeids")
SPLITS = next(list(a.strings) for a in REGRESSOR.graph.node[0].attribute if a.name == "nodes_modes")
ONE_EQUALITY = [b"BRANCH_EQ" if i == 0 else mode for i, mode in enumerate(SPLITS)]
REFUSED = {
    "minimum": (REGRESSOR, {"aggregate_function": "MIN"}, NotImplementedError, "aggregate_function MIN"),
    "unknown transform": (REGRESSOR, {"post_transform": "CAUCHY"}, NotImplementedError, "post_transform 'CAUCHY'"),
    "transform of one": (REGRESSOR, {"post_transform": "LOGISTIC"}, NotImplementedError, "of a single output"),
    "unknown mode": (REGRESSOR, {"nodes_modes": ["BRANCH_X"] * N_NODES}, NotImplementedError, "mode 'BRANCH_X'"),
    "equality and order": (
        REGRESSOR,
        {"nodes_modes": ONE_EQUALITY, "nodes_featureids": [0] * N_NODES},
        (NotImplementedError, ValueError),
        "both by size and by equality or membership",
    ),
    "no nodes": (REGRESSOR, {"nodes_modes": None}, ValueError, "holds no nodes"),
    "fewer features": (REGRESSOR, {"nodes_featureids": [0]}, ValueError, "'nodes_featureids' has 1 entries"),
    "unknown child": (REGRESSOR, {"nodes_truenodeids": [77] * N_NODES}, ValueError, "which does not exist"),
    "same numbers": (REGRESSOR, {"nodes_nodeids": [1] * N_NODES}, ValueError, "have the same number"),
    "negative tree": (REGRESSOR, {"nodes_treeids": [-1] * N_NODES}, ValueError, "expected numbers of 0"),
    "feature beyond": (REGRESSOR, {"nodes_featureids": [99] * N_NODES}, ValueError, "the input has 4"),
    "no weights": (REGRESSOR, {"target_weights": None}, ValueError, "different lengths, or none"),
    "unknown target": (REGRESSOR, {"n_targets": 0}, ValueError, "declares 0 outputs"),
    "two base values": (REGRESSOR, {"base_values": [1.0, 2.0]}, ValueError, "'base_values' has 2 entries"),
    "no roots": (FIFTH, {"tree_roots": None}, ValueError, "holds no trees"),
    "roots beyond": (FIFTH, {"tree_roots": [999]}, ValueError, "'tree_roots' holds 999"),
    "cycle": (FIFTH, {"nodes_trueleafs": [0] * 100, "nodes_truenodeids": [0] * 100}, ValueError, "entries|cyclic"),
    "maximum": (FIFTH, {"aggregate_function": 3}, NotImplementedError, "aggregate_function MAX"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name):
    model, change, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        glasswood.load(edited(model, **change))


def test_operators_beside_the_trees_are_refused(data):
    from skl2onnx import to_onnx
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeRegressor

    X, y = data
    pipeline = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=2)).fit(X, y)
    with pytest.raises(NotImplementedError, match="rows come from"):
        glasswood.load(to_onnx(pipeline, X[:1]))
    with pytest.raises(NotImplementedError, match=r"0 operators of trees .*MatMul"):
        glasswood.load(to_onnx(LinearRegression().fit(X, y), X[:1]))


def test_files_that_are_no_models(tmp_path):
    path = tmp_path / "model.onnx"
    for content in (b"", b"\x93GLASS\r\n", b"{}", bytes(range(256)), REGRESSOR.SerializeToString()[:-40]):
        path.write_bytes(content)
        with pytest.raises((ValueError, NotImplementedError), match=r"model\.onnx"):
            glasswood.load(path)
    with pytest.raises(TypeError, match=r"expected an onnx\.ModelProto"):
        glasswood.load(REGRESSOR.graph)
