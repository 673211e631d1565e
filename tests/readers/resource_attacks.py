"""Files of at most a megabyte that ask for much, and the function that reads them."""

from __future__ import annotations

import functools
import io
import json
import re
import struct
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as arrow
from pyarrow import parquet
from tests.fuzz.formats import DATA, FOLDERS, binary_numbers, join_glasswood, repair_sizes, saved, split_glasswood
from tests.fuzz.protobuf import encode
from tests.fuzz.ubjson import encode as encode_ubj
from tests.readers import spark_models
from tests.readers.door_attacks import door_attacks
from tests.readers.pipeline_attacks import pipeline_attacks
from tests.strategies import full_forest

MEGABYTE = 2**20


def varints(values):
    """Bytes of whole numbers behind each other: seven bits a byte, the lowest first, and whether another follows."""
    rest = np.asarray(values, np.int64).astype(np.uint64)[:, None] >> np.arange(0, 70, 7, dtype=np.uint64)
    follows = rest > 127
    written = np.column_stack([np.ones(len(rest), bool), follows[:, :-1]])
    return (rest & 127 | follows.astype(np.uint64) << 7).astype(np.uint8)[written].tobytes()


def attribute(name, value):
    """An attribute of a node: whole numbers, floats, a number or texts, by what `value` is."""
    if isinstance(value, int):
        content = [[3, 0, value % 2**64]]
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        content = [[7, 2, value.astype("<f4").tobytes()]]
    elif isinstance(value, bytes):
        content = [[5, 2, value]]
    elif len(value) and isinstance(value[0], str):
        content = [[9, 2, text.encode()] for text in value]
    else:
        content = [[8, 2, varints(value)]]
    return [5, 2, encode([[1, 2, name.encode()], *content])]


def model(operator, attributes, width=4, nodes=(), more=()):
    """An ONNX model of one operator of trees, and other nodes of the graph."""
    node = [[1, 2, b"X"], [2, 2, b"Y"], [4, 2, operator.encode()], *attributes, [7, 2, b"ai.onnx.ml"]]
    dimensions = encode([[1, 2, encode([])], [1, 2, encode([[1, 0, width]])]])
    kind = encode([[1, 2, encode([[1, 0, 1], [2, 2, dimensions]])]])
    graph = [[1, 2, encode(node)], *([1, 2, encode(one)] for one in nodes)]
    graph.append([11, 2, encode([[1, 2, b"X"], [2, 2, kind]])])
    return encode([[7, 2, encode(graph)], [8, 2, encode([[1, 2, b"ai.onnx.ml"], [2, 0, 5]])], *more])


def ensemble(n=1, roots=(0,), left=None, right=None, to_leaf=(1, 1), feature=None, mode=0, targets=1, leaves=2, **more):
    """Version 5: `n` inner nodes, whose children are leaves unless told otherwise."""
    side = [np.full(n, place) if child is None else child for place, child in enumerate((left, right))]
    fields = {
        "tree_roots": roots,
        "nodes_featureids": np.zeros(n, int) if feature is None else feature,
        "nodes_splits": bytes_of_tensor(np.arange(n)),
        "nodes_modes": bytes_of_tensor(np.full(n, mode), 2, "<u1"),
        "nodes_truenodeids": side[0],
        "nodes_falsenodeids": side[1],
        "nodes_trueleafs": np.broadcast_to(to_leaf[0], n),
        "nodes_falseleafs": np.broadcast_to(to_leaf[1], n),
        "leaf_targetids": np.arange(leaves) % min(targets, 2),
        "leaf_weights": bytes_of_tensor(np.ones(leaves)),
        "n_targets": targets,
    } | more
    return model("TreeEnsemble", [attribute(name, value) for name, value in fields.items()], width=0)


def bytes_of_tensor(values, kind=1, dtype="<f4"):
    """A tensor of floats, as bytes."""
    return encode([[1, 0, len(values)], [2, 0, kind], [9, 2, np.asarray(values, dtype).tobytes()]])


def by_number(n_trees=1, modes=("BRANCH_LEQ", "LEAF", "LEAF"), operator="TreeEnsembleRegressor", feature=None, **more):
    """Versions 1 and 3: trees of a split, whose leaves add to one output, or as `more` says."""
    n = n_trees * len(modes)
    prefix = "class" if operator.endswith("Classifier") else "target"
    fields = {
        "nodes_treeids": np.repeat(np.arange(n_trees), len(modes)),
        "nodes_nodeids": np.tile(np.arange(len(modes)), n_trees),
        "nodes_modes": list(modes) * n_trees,
        "nodes_featureids": np.zeros(n, int) if feature is None else feature,
        "nodes_values": np.arange(n, dtype=float),
        "nodes_truenodeids": np.tile([1, *[0] * (len(modes) - 1)], n_trees),
        "nodes_falsenodeids": np.tile([2, *[0] * (len(modes) - 1)], n_trees),
        f"{prefix}_treeids": np.repeat(np.arange(n_trees), 2),
        f"{prefix}_nodeids": np.tile([1, 2], n_trees),
        f"{prefix}_ids": np.zeros(2 * n_trees, int),
        f"{prefix}_weights": np.ones(2 * n_trees),
    } | more
    return model(operator, [attribute(name, value) for name, value in fields.items()], width=0)


def onnx_attacks():
    """Attacks on the reader of ONNX."""
    chain = np.arange(1, 8001)
    yield "one root many times", lambda: ensemble(2000, np.zeros(5000, int), chain[:2000] % 2000, to_leaf=(0, 1))
    yield (
        "a chain every node of which is a root",
        lambda: ensemble(8000, np.arange(8000), np.append(chain[:-1], 0), to_leaf=(np.arange(8000) == 7999, 1)),
    )
    yield "both children the same node", lambda: ensemble(
        60, (0,), np.append(np.arange(1, 60), 0), np.append(np.arange(1, 60), 0),
        to_leaf=(np.arange(60) == 59, np.arange(60) == 59),
    )  # fmt: skip
    yield "a node that is its own child", lambda: ensemble(30_000, (0,), np.zeros(30_000, int), to_leaf=(0, 1))
    yield "one leaf of many nodes", lambda: ensemble(60_000, (0,), np.append(np.arange(1, 60_000), 0),
        to_leaf=(np.arange(60_000) == 59_999, 1))  # fmt: skip
    roots = np.arange(10_000)
    for targets in (2**31, 2**31 - 1, 2**62, -1, 2**16, 2**14):
        yield f"{targets} outputs", partial(ensemble, 10_000, roots, targets=targets)
        numbers = np.tile([0, min(targets, 2**16) - 1], 9000)
        yield f"{targets} outputs by number", partial(by_number, 9000, n_targets=targets, target_ids=numbers)
    yield "labels for many classes", lambda: by_number(
        5000, operator="TreeEnsembleClassifier", classlabels_int64s=np.arange(2**16),
        class_ids=np.tile([0, 9000], 5000),
    )  # fmt: skip
    yield "feature 2^24", lambda: ensemble(1, feature=[2**24 - 1])
    yield "feature 2^31", lambda: ensemble(1, feature=[2**31 - 1])
    yield "equality of feature 2^24", lambda: ensemble(1, feature=[2**24 - 1], mode=4)
    yield "equality of many features", lambda: ensemble(20_000, np.arange(20_000), feature=np.arange(20_000), mode=4)
    yield "equality with many values", lambda: ensemble(30_000, np.arange(30_000), mode=4)
    yield "sets of a large member", lambda: ensemble(
        20_000, np.arange(20_000), mode=6,
        membership_values=bytes_of_tensor(np.tile([2.0**20, np.nan], 20_000)),
    )  # fmt: skip
    yield (
        "one set of many members",
        lambda: ensemble(1, mode=6, membership_values=bytes_of_tensor(np.append(np.arange(2**17) * 8, np.nan))),
    )
    yield "many nodes of a mode", lambda: by_number(12_000)
    yield "tree numbers far apart", lambda: by_number(5000, nodes_treeids=np.repeat(np.arange(5000) * 2**18, 3),
        target_treeids=np.repeat(np.arange(5000) * 2**18, 2))  # fmt: skip
    deep = 20_000
    yield "a deep chain by number", lambda: by_number(
        1, ["BRANCH_LEQ"] * deep + ["LEAF"] * (deep + 1),
        nodes_truenodeids=np.append(np.append(np.arange(1, deep), 2 * deep), np.zeros(deep + 1, int)),
        nodes_falsenodeids=np.append(np.arange(deep) + deep, np.zeros(deep + 1, int)),
        target_treeids=np.zeros(1, int), target_nodeids=[2 * deep], target_ids=[0], target_weights=np.ones(1),
    )  # fmt: skip
    identity = [[1, 2, b"X"], [2, 2, b"X"], [4, 2, b"Identity"]]
    yield "many operators", lambda: model("TreeEnsemble", [], nodes=[identity] * 50_000)
    yield "many attributes", lambda: model("TreeEnsemble", [attribute(f"a{i}", 1) for i in range(50_000)])
    yield "one attribute many times", lambda: model("TreeEnsemble", [attribute("tree_roots", np.arange(9))] * 30_000)
    fields = (bytes([8 * (2 + i) + 5]) + b"\0\0\0\0" for i in range(2))
    yield "fields of four bytes by turns", partial(bytes.__mul__, b"".join(fields), 100_000)
    yield "numbers by turns, two of a kind", lambda: b"\x08\1\x08\1\x10\1\x10\1" * (MEGABYTE // 8)
    yield "numbers by turns", lambda: b"\x08\1\x10\1" * (MEGABYTE // 4)
    yield "empty fields", lambda: b"\x0a\0" * (MEGABYTE // 2)
    yield "texts of a node", lambda: encode([[7, 2, encode([[1, 2, b"\x0a\x01X" * 300_000]])]])
    yield "opsets", lambda: encode([[7, 2, b""], *[[8, 2, b""]] * 200_000])
    yield (
        "dimensions of a tensor",
        lambda: ensemble(1, nodes_splits=encode([[1, 2, varints([2**62] * 9)], [2, 0, 1]])),
    )
    note = {"version": 1, "crc32": 0, "fields": {"classes": [[0]] * 100_000}}
    yield "a long note", lambda: with_note(json.dumps(note).encode())
    yield "a nested note", lambda: with_note(b"[" * 500_000)


def with_note(note):
    """An ONNX model with what glasswood's own files say beside the graph."""
    return model("TreeEnsemble", [], more=[[14, 2, encode([[1, 2, b"glasswood"], [2, 2, note]])]])


def glasswood_attacks():
    """Attacks on the reader of `.glasswood` files."""
    _, header, arrays = split_glasswood(saved(full_forest(0, 3, 3, 4)))
    for name, changed in headers(header):
        yield name, partial(join_glasswood, 1, changed, arrays)


def headers(header):
    """What the files say that they hold."""
    entry = header["arrays"][-1]
    yield "an array many times", header | {"arrays": [*header["arrays"], *[entry] * 10_000]}
    yield "many arrays", header | {"arrays": header["arrays"] + [entry | {"name": f"x{i}"} for i in range(9000)]}
    yield (
        "many attached arrays",
        header
        | {
            "arrays": header["arrays"] + [entry | {"name": f"attached.{i}"} for i in range(9000)],
            "attachment": {"kind": "explainer"},
        },
    )
    wide = {"dtype": "<U60000000", "values": ["a"]}
    for field in ("classes", "categories"):
        yield f"wide labels of {field}", header | {"fields": header["fields"] | {field: [wide] * 4}}
    yield "many features", header | {"fields": header["fields"] | {"n_features": 2**24}}
    yield "too many features", header | {"fields": header["fields"] | {"n_features": 2**40}}


def other_attacks():
    """Attacks on the readers of JSON and UBJSON."""
    yield "brackets", ".json", lambda: b"[" * MEGABYTE
    yield "objects", ".json", lambda: b'{"a":' * 200_000
    yield "a number of many digits", ".json", lambda: b'{"learner":' + b"9" * 900_000 + b"}"
    yield "an array announced long", ".ubj", lambda: b"{L" + struct.pack(">q", 1) + b"a[#L" + struct.pack(">q", 2**40)
    yield "typed arrays of nothing", ".ubj", lambda: b"{L" + struct.pack(">q", 1) + b"a[$Z#L" + struct.pack(">q", 2**40)
    yield "lists of empty objects", ".ubj", lambda: encode_ubj({"learner": [{}] * 200_000})


HUGE = (2**31 - 1, 2**31, 2**62)


def parameter_attacks():
    """Numbers of a model that say how much of something there is, made huge one at a time."""
    for name, suffix, pattern in (
        ("xgboost-3.2.0-logistic.json", ".json", rb'"((?:num|size)_[a-z_]+)": ?"(\d+)"'),
        ("lightgbm-4.7.0-classes.txt", ".txt", rb"(num_[a-z_]+|max_feature_idx)=(\d+)"),
    ):
        data = next(folder / name for folder in FOLDERS if (folder / name).exists()).read_bytes()
        for key in sorted({match[1] for match in re.finditer(pattern, data)}):
            found = next(match for match in re.finditer(pattern, data) if match[1] == key)
            for value in HUGE:
                edited = data[: found.start(2)] + str(value).encode() + data[found.end(2) :]
                yield f"{key.decode()} of {value}", suffix, partial(repaired, edited, suffix)


def repaired(data, suffix):
    """A file whose own sizes of its trees are right."""
    return repair_sizes(data.decode()).encode() if suffix == ".txt" else data


def binary_attacks():
    """Attacks on the reader of XGBoost's binary format."""
    data = (DATA / "versions" / "xgboost-3.0.5-softprob.model").read_bytes()
    learner, parameters, *_ = binary_numbers(data)
    for name, places in (("learner", learner), ("trees", parameters[:16])):
        for number, at in enumerate(places):
            for value in (2**31 - 1, -1):
                edited = data[:at] + struct.pack("<i", value) + data[at + 4 :]
                yield f"{value} as number {number} of the {name}", partial(bytes, edited)
    for length in (2**31, 2**62):
        yield f"a text of {length}", partial(bytes, data[:140] + struct.pack("<Q", length) + data[148:])
    yield (
        "many attributes",
        lambda: data[: data.rindex(b"\4\0\0\0\0\0\0\0note") - 8] + struct.pack("<Q", 60_000) + bytes(16 * 60_000),
    )
    yield "many trees of a leaf", lambda: many_trees(data, 5000)
    yield "many features", lambda: data[: learner[1]] + struct.pack("<I", 2**24 - 1) + data[learner[2] :]


def many_trees(data, n):
    """A binary file of trees that are single leaves."""
    _, parameters, *_ = binary_numbers(data)
    first, at = parameters[0], parameters[8]
    tree = struct.pack("<iiiiIi124x", 1, 1, 0, 0, 4, 1) + struct.pack("<iiiIf", -1, -1, -1, 0, 0.5) + bytes(16)
    return data[:first] + struct.pack("<i", n) + data[first + 4 : at] + tree * n + bytes(4 * n) + bytes(8)


def mojo(domains, texts, n_splits=3, is_set=True, **entries):
    """A MOJO of one chain of splits, of sets or numbers, on its first column."""
    info = {
        "h2o_version": "3.46.0.10", "mojo_version": "1.40", "algo": "gbm", "category": "Regression", "n_features": 2,
        "n_trees": 1, "n_trees_per_class": 1, "init_f": 0.0, "distribution": "gaussian", "link_function": "identity",
    } | entries  # fmt: skip
    lines = [*(f"{key} = {value}" for key, value in info.items()), "", "[columns]", "a", "b", "y", "[domains]"]
    test = (8 if is_set else 0) | 16
    nodes = b"".join(
        struct.pack("<BHB", test | 64 * (i == n_splits - 1), 0, 3) + (b"\1\0\0\0" if is_set else struct.pack("<f", 1e9))
        + struct.pack("<f", 1.0) for i in range(n_splits)
    )  # fmt: skip
    covers = np.zeros((n_splits, 10), "<f4")
    covers[:, 2], covers[:, 3] = 1, n_splits - np.arange(n_splits)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.ini", "[info]\n" + "\n".join(lines + [f"{i}: {n} d.txt" for i, n in domains]) + "\n")
        archive.writestr("domains/d.txt", texts)
        archive.writestr("trees/t00_000.bin", nodes + struct.pack("<f", 2.0))
        archive.writestr("trees/t00_000_aux.bin", covers.tobytes())
    return buffer.getvalue()


def wide_set(first, n_splits):
    """A MOJO whose sets begin far from 0, as their few bytes allow."""
    data = mojo([(0, 2**16)], "\n" * 2**16, n_splits)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    node = struct.pack("<BHB", 12 | 16, 0, 3) + struct.pack("<HI", first, 8) + b"\1" + struct.pack("<f", 1.0)
    last = bytes([12 | 16 | 64]) + node[1:]
    members["trees/t00_000.bin"] = node * (n_splits - 1) + last + struct.pack("<f", 2.0)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def h2o_attacks():
    """Attacks on the reader of MOJOs."""
    yield "5000 splits on a column of 2^20 categories", lambda: mojo([(0, 2**20)], "\n" * 2**20, 5000)
    yield "borders on a column of 2^20 categories", lambda: mojo([(0, 2**20)], "\n" * 2**20, 5000, is_set=False)
    texts = "".join(f"{i % 9999:04d}\n" for i in range(60_000))
    yield "20000 columns with the same 60000 categories", lambda: mojo([(i, 60_000) for i in range(20_000)], texts)
    yield "100 columns with the same 2^20 categories", lambda: mojo([(i, 2**20) for i in range(100)], "\n" * 2**20)
    yield "sets that begin at 65000", lambda: wide_set(65_000, 20_000)
    for key in ("n_features", "n_trees", "n_trees_per_class"):
        for value in (2**31 - 1, 2**62):
            yield f"{key} of {value}", partial(mojo, [], "", 3, False, **{key: value})
    yield "an archive that unpacks to a thousand times its size", lambda: mojo([(0, 2**20)], "a" * 2**29)


def spark_attacks():
    """Attacks on the reader of Spark's folders, packed."""
    for n, n_categories in ((20_001, 2**16), (2001, 2**16), (20_001, 2**31 - 1)):
        yield f"{n} nodes whose splits have {n_categories} categories", partial(spark_folder, n, n_categories)
    yield "many features", lambda: spark_folder(3, 2, numFeatures=2**24 - 1)
    yield "features without number", lambda: spark_folder(3, 2, numFeatures=2**62)


def spark_folder(n, n_categories, **entries):
    """A chain of splits of one category each, packed as `tests.readers.spark_models.pack` does."""
    about = {
        "class": "org.apache.spark.ml.regression.DecisionTreeRegressionModel", "sparkVersion": "4.0.0", "paramMap": {},
        "defaultParamMap": {}, "numFeatures": 1, "uid": "x", "timestamp": 0,
    } | entries  # fmt: skip
    at = np.arange(n, dtype=np.int32)
    left = np.where(at % 2 == 0, at + 1, -1).astype(np.int32)
    left[-1] = -1
    is_split = left >= 0
    split = arrow.StructArray.from_arrays(
        [
            arrow.array(np.where(is_split, 0, -1).astype(np.int32)),
            arrow.array([[0.0] if one else [] for one in is_split], arrow.list_(arrow.float64())),
            arrow.array(np.where(is_split, n_categories, -1).astype(np.int32)),
        ],
        ["featureIndex", "leftCategoriesOrThreshold", "numCategories"],
    )
    columns = {
        "id": at, "prediction": np.zeros(n), "impurity": np.zeros(n), "gain": np.zeros(n),
        "impurityStats": arrow.array([[1.0, 0.0, 0.0]] * n, arrow.list_(arrow.float64())),
        "rawCount": np.ones(n, np.int64), "leftChild": left, "split": split,
        "rightChild": np.where(is_split, left + 1, -1).astype(np.int32),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name in ("metadata", "data"):
            (Path(folder) / name).mkdir()
        (Path(folder) / "metadata" / "part-00000").write_text(json.dumps(about))
        parquet.write_table(arrow.table(columns), Path(folder) / "data" / "part-00000.parquet", compression="zstd")
        return spark_models.pack(folder)


def cbm_attacks():
    """Attacks on the reader of CatBoost's flat buffers: words that are lengths or places made huge."""
    data = (DATA / "catboost-1.2.10-classes.cbm").read_bytes()
    for at in range(4, min(len(data) - 4, 1200), 12):
        for value in (2**31 - 1, 2**24):
            edited = data[:at] + struct.pack("<I", value) + data[at + 4 :]
            yield f"{value} at byte {at}", partial(bytes, edited)


def dump_attacks():
    """Attacks on the reader of LightGBM's dumps."""
    dump = json.loads((DATA / "versions" / "lightgbm-3.3.5-sets.json").read_text())
    text = json.dumps(dump)
    split = re.search(r'"threshold": "([0-9|]+)"', text)[1]
    for member in (2**31 - 1, 2**24, 9_999_999_999):
        yield f"the category {member}", lambda m=member: text.replace(f'"{split}"', f'"{m}"').encode()
    leaf = {"leaf_index": 1, "leaf_value": 0.5, "leaf_count": 1}
    one = {"split_index": 0, "split_feature": 3, "decision_type": "==", "threshold": str(2**20), "missing_type": "None",
           "internal_count": 2, "left_child": leaf | {"leaf_index": 0}, "right_child": leaf}  # fmt: skip
    tree = {"num_leaves": 2, "tree_structure": one}
    yield "many large categories", lambda: json.dumps(dump | {"tree_info": [tree] * 2500}).encode()
    for key in ("max_feature_idx", "num_tree_per_iteration"):
        yield f"{key} of 2^31", lambda k=key: json.dumps(dump | {k: 2**31 - 1}).encode()


class Attack(NamedTuple):
    """What reads a file, by its name in `DOORS`, the file's suffix, and what makes its bytes."""

    door: str
    suffix: str
    build: Callable[[], bytes]


@functools.cache
def attacks():
    """All of them by name; their files are built by who asks for them."""
    found = {f"onnx: {name}": (".onnx", build) for name, build in onnx_attacks()}
    found |= {f"xgboost's binary: {name}": ("", build) for name, build in binary_attacks()}
    found |= {f"h2o: {name}": (".zip", build) for name, build in h2o_attacks()}
    found |= {f"spark: {name}": (".spark", build) for name, build in (*spark_attacks(), *pipeline_attacks())}
    found |= {f"catboost: {name}": (".cbm", build) for name, build in cbm_attacks()}
    found |= {f"lightgbm's dump: {name}": (".json", build) for name, build in dump_attacks()}
    found |= {f"glasswood: {name}": (".glasswood", build) for name, build in glasswood_attacks()}
    others = (*other_attacks(), *parameter_attacks())
    found |= {f"{suffix[1:]}: {name}": (suffix, build) for name, suffix, build in others}
    models = {name: Attack("load", *attack) for name, attack in found.items()}
    return models | {name: Attack(*attack) for name, *attack in door_attacks()}
