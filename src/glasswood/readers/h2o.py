"""H2O: gradient boosting, random and isolation forests, XGBoost, from MOJO files, without H2O or Java."""

from __future__ import annotations

import io
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base import escapes
from glasswood.base.typing import Array
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.validation import MOST_FEATURES
from glasswood.readers import h2o_xgboost
from glasswood.readers.assemble import NodeArrays, assemble, pack_sets
from glasswood.readers.documents import get_int

if TYPE_CHECKING:
    Tables = tuple[Array | None, ...]

ALGORITHMS = ("gbm", "drf", "isolationforest", "xgboost")
OLDEST, NEWEST = 1.3, 1.4
"""Versions of MOJO files; earlier ones have no weights of nodes."""

LINKS = {"identity": "identity", "log": "exp", "logit": "logistic"}
OF_DISTRIBUTION = {
    "bernoulli": "logit",
    "quasibinomial": "logit",
    "modified_huber": "logit",
    "poisson": "log",
    "gamma": "log",
    "tweedie": "log",
    "negativebinomial": "log",
    "gaussian": "identity",
    "laplace": "identity",
    "huber": "identity",
    "quantile": "identity",
    "multinomial": "identity",
}
"""Link of each distribution, which follows from it in files before 3.26, where no line says it."""

HARMLESS: dict[str, tuple[str, ...]] = {
    "_genmodel_encoding": ("AUTO", "Enum"),
    "balance_classes": ("false",),
    "binomial_double_trees": ("false",),
    "calib_method": (),
    "endianness": ("LITTLE_ENDIAN",),
    "has_offset": ("false",),
    "link_function": tuple(LINKS),
    "offset_column": ("null",),
    "output_anomaly_flag": ("false",),
}
"""Options that change predictions, unless they have one of these values or are not there."""

MOST_CATEGORIES = 2**20
LEAST_ROOM, ROOM_OF_BYTE = 2**25, 16
"""Largest number of entries of all splits' sets: a minimum, and a number per byte of the unpacked archive.

A split of a few bytes may name a large set, and a column a long list, of which a sixteenth is allowed.
"""

MOST_UNPACKED = 16
"""Bytes that a byte of the file may unpack to."""

NA_VS_REST, NA_LEFT = 1, (2, 4)
"""The split that asks only whether the value is missing, and those that send missing values left."""

NO_COLUMN, ROUNDING = 0xFFFF, 1e-12
LEFT, RIGHT = 4, 5  # places of the children in a node
BROKEN = (ValueError, LookupError, ArithmeticError, RuntimeError, EOFError, struct.error, zipfile.error, zlib.error)


class ArchiveError(Exception):
    """An archive is none of H2O's."""


def read(model: Any) -> TreeEnsemble:
    """Refuse a live model, whose trees are in H2O's JVM: raise TypeError."""
    name = type(model).__name__
    raise TypeError(f"the trees of a {name} are in H2O's JVM; save it by model.download_mojo(path) and pass path")


def read_file(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read the MOJO of a GBM, a DRF, an IsolationForest or an XGBoost.

    Raises
    ------
    ValueError, NotImplementedError
        If it is corrupt or no MOJO; if it is another model, of another version, or has an unsupported option.
    """
    data = io.BytesIO(Path(path).read_bytes())
    try:
        with zipfile.ZipFile(data) as archive:
            sizes = [(one.file_size, one.compress_size) for one in archive.infolist()]
            if sum(size for size, _ in sizes) > MOST_UNPACKED * sum(64 + packed for _, packed in sizes):
                raise ValueError(f"it unpacks to more than {MOST_UNPACKED} times its size")
            if "model.ini" not in archive.namelist():
                raise ArchiveError(f"{path} is an archive {_of_what(archive.namelist())}")
            return _read(archive.read, LEAST_ROOM + ROOM_OF_BYTE * sum(size for size, _ in sizes))
    except ArchiveError as error:
        raise ValueError(str(error)) from None
    except NotImplementedError as error:
        raise NotImplementedError(f"{path}: {error}") from error
    except BROKEN as error:
        raise ValueError(f"{path} holds no valid MOJO of H2O: {error}; download it again") from error


def _of_what(names: list[str]) -> str:
    """Say what an archive without a model of H2O may be."""
    if any(name.endswith("data.pkl") for name in names):
        return "of PyTorch, which holds no trees that glasswood reads"
    if any(name.startswith("metadata/") or "/metadata/part-" in name for name in names):
        return "of a folder, of a model of Spark perhaps; unpack it, and pass the folder"
    first = escapes.shown(names[0][:60]) if names else "nothing"
    return f"that holds {first}, and no model.ini as the MOJOs of H2O do; unpack it, and pass a model file in it"


def _read(content: Callable[[str], bytes], room: int) -> TreeEnsemble:
    info, columns, domains = _header(content, room)
    is_xgboost = info["algo"] == "xgboost"
    oldest, newest = (h2o_xgboost.OLDEST, h2o_xgboost.NEWEST) if is_xgboost else (OLDEST, NEWEST)
    if info["algo"] not in ALGORITHMS or not oldest <= float(info["mojo_version"]) <= newest:
        about, expected = f"{info['algo'][:40]}, version {info['mojo_version'][:20]}", ", ".join(ALGORITHMS)
        raise NotImplementedError(
            f"a MOJO of {about} is not supported; expected {expected}, {oldest:.2f} to {newest:.2f}"
        )
    for option, values in HARMLESS.items():
        if option in info and info[option] not in values:
            raise NotImplementedError(f"{option} = {info[option][:40]} is not supported; train the model without it")
    if is_xgboost:
        return h2o_xgboost.read_boosted(content, info, columns, domains, Room(room).take)
    n_features, n_trees, n_groups = (get_int(info, key) for key in ("n_features", "n_trees", "n_trees_per_class"))
    if not 0 < n_features <= min(len(columns), MOST_FEATURES) or min(n_trees, n_groups) < 1:
        raise ValueError(f"it declares {n_features} features and {n_groups} times {n_trees} trees")
    tables, trees, spare = tuple(domains.get(feature) for feature in range(n_features)), [], Room(room)
    for place in range(n_groups * n_trees):
        name = f"trees/t{place // n_trees:02d}_{place % n_trees:03d}"
        trees.append(_tree(content(f"{name}.bin"), content(f"{name}_aux.bin"), tables, spare))
    left_sets, *nodes = ([node[field] for tree in trees for node in tree] for field in range(7))
    feature, value, default_left, left, right, cover = map(np.array, nodes)
    is_set = np.array([one is not None for one in left_sets])
    offsets, words = pack_sets([one for one in left_sets if one is not None], default_left[is_set])
    sets = {"set_offsets": offsets, "set_words": words, "set_others_left": default_left[is_set], "categories": tables}
    counts, places = np.array([len(tree) for tree in trees]), np.concatenate([np.arange(len(tree)) for tree in trees])
    threshold, category_set = np.where(is_set, 0.0, value), np.where(is_set, np.cumsum(is_set) - 1, -1)
    return assemble(
        NodeArrays(counts, left, right, feature, threshold, default_left, cover, value, places, category_set),
        n_features=n_features,
        feature_names=tuple(columns[:n_features]),
        tree_output=np.repeat(np.arange(n_groups), n_trees),
        source=f"H2O {info.get('h2o_version', '')[:20]}",
        objective=info.get("distribution", info["algo"])[:40],
        **(sets if domains else {}),
        **_meaning(info, domains.get(len(columns) - 1), n_trees, n_groups),
    )


class Room:
    """Entries that are left for the sets of all splits."""

    entries: int

    def __init__(self, entries: int) -> None:
        self.entries = entries

    def take(self, n: int) -> None:
        """Count `n` entries, if there is room for them."""
        self.entries -= n
        if self.entries < 0:
            raise ValueError("its splits name more categories than its size allows")


def _header(content: Callable[[str], bytes], room: int) -> tuple[dict[str, str], list[str], dict[int, Array]]:
    """Read model.ini: its entries, the names of columns, and the categories of those that have some."""
    _, entries, columns, files = re.split(r"^\[(?:info|columns|domains)\]$", content("model.ini").decode(), flags=re.M)
    info = dict(re.findall(r"^(\S+) = (.*)$", entries, re.M))
    is_escaped = info.get("escape_domain_values") == "true"
    domains: dict[int, Array] = {}
    of_file: dict[str, Array] = {}
    total = 0
    for column, count, file in re.findall(r"^(\d+): (\d+) (\S+)$", files, re.M):
        if file not in of_file:
            of_file[file] = _categories(content(f"domains/{file}").decode(), is_escaped)
        found = domains[int(column)] = of_file[file]
        if len(found) != int(count) or len(found) > MOST_CATEGORIES:
            raise ValueError(f"{file} has {len(found)} categories, expected {count}, at most {MOST_CATEGORIES}")
        total += len(found)
        if total > room // MOST_UNPACKED:
            raise ValueError(f"its columns have more than {total - 1} categories, more than its size allows")
    return info, columns.strip("\n").split("\n"), domains


def _categories(text: str, is_escaped: bool) -> Array:
    """Categories, one a line; files of newer versions escape line ends and backslashes."""
    lines = text.split("\n")[:-1]
    if is_escaped and "\\" in text:
        lines = [re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], line) for line in lines]
    return np.array(lines, object)


def _tree(data: bytes, auxiliary: bytes, tables: Tables, room: Room) -> list[list[Any]]:
    """Read a tree, whose nodes stand before those below them, left ones first.

    A node is the set of categories that go left, feature, threshold or value, default_left, children and cover.
    """
    covers = np.frombuffer(auxiliary, "<f4").reshape(-1, 10)[:, 2:4].tolist()
    nodes: list[list[Any]] = []
    at, n_splits, waiting = 0, 0, [(-1, LEFT, 0, False, sum(covers[0]) if covers else 0.0)]
    while waiting:
        parent, side, skipped, is_leaf, cover = waiting.pop()
        at += skipped
        if parent >= 0:
            nodes[parent][side] = len(nodes)
        kind, feature = (0, NO_COLUMN) if is_leaf else struct.unpack_from("<BH", data, at)
        at += 0 if is_leaf else 3
        if feature == NO_COLUMN:
            nodes.append([None, -1, *struct.unpack_from("<f", data, at), False, -1, -1, cover])
            at += 4
            continue
        left_set, threshold, default_left, at = _split(data, at, kind & 12, tables[feature], room)
        left_cover, right_cover = covers[n_splits]
        waiting.append((len(nodes), RIGHT, 0, bool(kind & 64), right_cover))
        waiting.append((len(nodes), LEFT, 0 if kind & 16 else 1 + (kind & 3), bool(kind & 16), left_cover))
        nodes.append([left_set, feature, threshold, default_left, -1, -1, cover])
        n_splits += 1
    if (at, n_splits) != (len(data), len(covers)):
        raise ValueError(f"a tree of {n_splits} splits ends before its data")
    return nodes


def _split(data: bytes, at: int, test: int, table: Array | None, room: Room) -> tuple[Array | None, float, bool, int]:
    """Read a split behind its column: what goes left, threshold, default_left, and where its children begin.

    A set ends where all further categories go the way of missing values.
    """
    missing, at = data[at], at + 1
    default_left, threshold = missing in NA_LEFT, math.inf
    if missing != NA_VS_REST and test:
        first, n_bits, at = (0, 32, at) if test == 8 else (*struct.unpack_from("<HI", data, at), at + 6)
        bits = np.unpackbits(np.frombuffer(data, np.uint8, -(-n_bits // 8), at), count=n_bits, bitorder="little")
        if table is None:
            raise ValueError("a split asks a number for its category")
        n = min(first + n_bits, len(table))
        room.take(n)
        left_set = np.full(n, default_left)
        left_set[first:] = bits[: max(n - first, 0)] == 0
        return left_set, threshold, default_left, at + -(-n_bits // 8)
    if missing != NA_VS_REST:
        threshold, at = struct.unpack_from("<f", data, at)[0], at + 4
    if table is None:
        return None, threshold, default_left, at
    below = (
        int(min(max(math.ceil(threshold), 0), len(table))) if math.isfinite(threshold) else len(table) * (threshold > 0)
    )
    n = len(table) if default_left else below
    room.take(n)
    return np.arange(n) < below, threshold, default_left, at


def _link(info: dict[str, str]) -> str:
    """Name the link; files before 3.26 do not, where it follows from the distribution."""
    if "link_function" in info or info["algo"] != "gbm":
        return info.get("link_function", "identity")
    if (distribution := info.get("distribution", "")) not in OF_DISTRIBUTION:
        raise NotImplementedError(f"distribution = {distribution[:40]} without a link_function is not supported")
    return OF_DISTRIBUTION[distribution]


def _meaning(info: dict[str, str], labels: Array | None, n_trees: int, n_groups: int) -> dict[str, Any]:
    """Say what sums of trees mean: a number, a score of the second of two classes, or one of each class."""
    kind, is_mean, base = info["category"], info["algo"] == "drf", float(info.get("init_f", 0))
    weight, link = (1 / n_trees, "identity") if is_mean else (1.0, LINKS[_link(info)])
    n_classes, fields = 0 if labels is None else len(labels), {}
    classes = {"classes": (labels,), "is_estimator": True, "prediction": "argmax"}
    if kind == "AnomalyDetection" and n_groups == 1:
        least, most = float(info["min_path_length"]), float(info["max_path_length"])
        weight, base = (-1 / (most - least), most / (most - least)) if most > least else (0.0, 1.0)
    elif kind == "Multinomial" and n_classes == n_groups:
        base, link, fields = 0.0, "shares" if is_mean else "softmax", classes
    elif kind == "Binomial" and n_classes == 2 and n_groups == 1:  # forests predict shares of the first class
        border = min(max(float(info["default_threshold"]), ROUNDING), 1 - ROUNDING)
        weight, base, border = (-weight, 1.0, border) if is_mean else (weight, base, math.log(border / (1 - border)))
        fields = classes | {"prediction": "positive", "prediction_offset": border - ROUNDING}
    elif kind != "Regression" or n_groups != 1:
        raise ValueError(f"it declares {n_groups} trees a round for {kind[:40]} and {n_classes} classes")
    weights = {"tree_weight": np.full(n_trees * n_groups, weight), "base_score": np.full(n_groups, base)}
    return fields | weights | {"link": link}
