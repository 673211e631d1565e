"""LightGBM's ``dump_model``: the same model as JSON, whose nodes are nested, as the document of its text."""

from __future__ import annotations

from typing import Any

from glasswood.readers.documents import get, get_int
from glasswood.readers.lightgbm.nodes import DEFAULT_LEFT, IS_CATEGORICAL
from glasswood.readers.lightgbm.text import VERSIONS, Document

MISSING = {"None": 0, "Zero": 1, "NaN": 2}
WORD_BITS = 32
MOST_WORDS = 2**20
"""Words of 32 bits that all sets of categories may have together: a set has a bit for each number up to its largest."""


def is_dump(document: object) -> bool:
    """Tell a dump from other documents."""
    return isinstance(document, dict) and "tree_info" in document


def document_of(dump: dict[str, Any]) -> Document:
    """Take a dump apart, as `glasswood.readers.lightgbm.text.parse` takes a text apart.

    Raises
    ------
    ValueError
        If members are missing or do not fit together; the message names the tree.
    NotImplementedError
        If it lacks what a model needs, as dumps before 2.2 do.
    """
    if (version := get(dump, "version", str)) not in VERSIONS:
        raise ValueError(f"the format version is {version[:20]!r}, expected one of {', '.join(VERSIONS)}")
    if "average_output" not in dump:
        raise NotImplementedError(
            "a dump of LightGBM before 2.2 lacks the objective and whether trees are averaged; write the model by "
            "save_model"
        )
    names = _texts(dump, "feature_names")
    header = {
        "version": version,
        "max_feature_idx": str(get_int(dump, "max_feature_idx")),
        "num_tree_per_iteration": str(get_int(dump, "num_tree_per_iteration")),
        "feature_infos": _infos(dump.get("feature_infos", {}), names),
        "objective": get(dump, "objective", str) if "objective" in dump else "",
    }
    if any(" " in name for name in names):
        raise ValueError("'feature_names' holds a space, for which LightGBM writes an underscore")
    header["feature_names"] = " ".join(names)
    if dump["average_output"]:
        header["average_output"] = ""
    tables = dump.get("pandas_categorical")
    if tables is not None and not (isinstance(tables, list) and all(isinstance(table, list) for table in tables)):
        raise ValueError("'pandas_categorical' holds no list of lists")
    trees, room = [], MOST_WORDS
    for number, tree in enumerate(get(dump, "tree_info", list)):
        if not isinstance(tree, dict):
            raise ValueError(f"tree {number} is a {type(tree).__name__}, expected an object")
        try:
            trees.append(_tree(tree, room))
        except ValueError as error:
            raise ValueError(f"tree {number}: {error}") from error
        room -= trees[-1]["cat_threshold"].count(" ")
    if not trees:
        raise ValueError("the model holds no trees; train it for at least one iteration")
    return Document(header, trees, tables or None)


def _texts(parent: dict[str, Any], key: str) -> list[str]:
    values = get(parent, key, list)
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"{key!r} holds something other than texts")
    return values


def _infos(infos: Any, names: list[str]) -> str:
    """Describe each feature as a text does: codes, a range, or none."""
    if not isinstance(infos, dict) or not all(isinstance(info, dict) for info in infos.values()):
        raise ValueError("'feature_infos' holds something other than objects")
    found = []
    for name in names:
        info = infos.get(name, {})
        codes = info.get("values")
        if isinstance(codes, list) and codes:
            found.append(":".join(map(_number, codes)))
        else:
            ends = (info.get("min_value"), info.get("max_value"))
            found.append("none" if None in ends else f"[{_number(ends[0])}:{_number(ends[1])}]")
    return " ".join(found)


def _number(value: Any) -> str:
    """Write a number so that the same one is read; JSON of Python knows NaN and infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{str(value)[:40]!r} stands where a number is expected")
    return repr(value)


def _tree(tree: dict[str, Any], room: int) -> dict[str, str]:
    """Write a tree as the lines of a text: splits and leaves by their numbers."""
    splits, leaves = _nodes(get(tree, "tree_structure", dict))
    if (declared := get_int(tree, "num_leaves")) != len(leaves):
        raise ValueError(f"it declares {declared} leaves and holds {len(leaves)}")
    sets = [_categories(split, room) for split in splits if split.get("decision_type") == "=="]
    bounds, words = [0], []
    for members in sets:
        words += members
        bounds.append(len(words))
        if len(words) > room:
            raise NotImplementedError("its sets of categories have too large numbers; write the model by save_model")
    place = iter(range(len(sets)))
    thresholds = [
        str(next(place)) if split.get("decision_type") == "==" else _number(split.get("threshold")) for split in splits
    ]
    lines: dict[str, Any] = {
        "num_leaves": [str(len(leaves))],
        "num_cat": [str(len(sets))],
        "split_feature": [str(get_int(split, "split_feature")) for split in splits],
        "threshold": thresholds,
        "decision_type": [str(_kind(split)) for split in splits],
        "left_child": [str(_child(split, "left_child")) for split in splits],
        "right_child": [str(_child(split, "right_child")) for split in splits],
        "leaf_value": [_number(leaf.get("leaf_value")) for leaf in leaves],
        "leaf_count": [str(get_int(leaf, "leaf_count", 0)) for leaf in leaves],
        "internal_count": [str(get_int(split, "internal_count")) for split in splits],
        "cat_boundaries": [str(bound) for bound in bounds] if sets else [],
        "cat_threshold": [str(word) for word in words],
    }
    if any("leaf_const" in leaf for leaf in leaves):
        lines |= _equations(leaves)
    return {key: " ".join(values) for key, values in lines.items()}


def _nodes(root: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Find splits and leaves, each by its number, which must count from 0."""
    found: dict[str, dict[int, dict[str, Any]]] = {"split_index": {}, "leaf_index": {}}
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            raise ValueError(f"a node is a {type(node).__name__}, expected an object")
        kind = "split_index" if "split_index" in node else "leaf_index"
        number = get_int(node, kind, None if node is not root or kind == "split_index" else 0)
        if number in found[kind]:
            raise ValueError(f"{kind!r} {number} is there twice")
        found[kind][number] = node
        if kind == "split_index":
            waiting += [node.get("left_child"), node.get("right_child")]
    for kind, nodes in found.items():
        if sorted(nodes) != list(range(len(nodes))):
            raise ValueError(f"{kind!r} does not count from 0")
    return tuple([nodes[number] for number in range(len(nodes))] for nodes in found.values())  # type: ignore[return-value]


def _child(split: dict[str, Any], side: str) -> int:
    """Return the number of a child as a text has it, leaves from -1 down."""
    child: dict[str, Any] = split[side]
    return get_int(child, "split_index") if "split_index" in child else ~get_int(child, "leaf_index")


def _kind(split: dict[str, Any]) -> int:
    """Decision type of a text: bits for categories, the side of missing values, and what is missing."""
    kind, missing = split.get("decision_type"), split.get("missing_type")
    if kind not in {"<=", "=="} or missing not in MISSING:
        raise ValueError(f"a split has decision_type {str(kind)[:20]!r} and missing_type {str(missing)[:20]!r}")
    return IS_CATEGORICAL * int(kind == "==") + DEFAULT_LEFT * bool(split.get("default_left")) + 4 * MISSING[missing]


def _categories(split: dict[str, Any], room: int) -> list[int]:
    """Words of 32 bits that hold the categories of a split, which are written as 1||3||8."""
    words: dict[int, int] = {}
    for text in get(split, "threshold", str).split("||"):
        if not (text.isascii() and text.isdecimal() and len(text) < 11):
            raise ValueError(f"a split has the category {text[:40]!r}, expected a number")
        place, bit = divmod(int(text), WORD_BITS)
        words[place] = words.get(place, 0) | 1 << bit
    if max(words) >= room:
        raise NotImplementedError("its sets of categories have too large numbers; write the model by save_model")
    return [words.get(place, 0) for place in range(max(words) + 1)]


def _equations(leaves: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Lines of the leaves of a linear tree; a leaf without features has a constant alone."""
    features = [get(leaf, "leaf_features", list) if "leaf_features" in leaf else [] for leaf in leaves]
    coefficients = [get(leaf, "leaf_coeff", list) if "leaf_coeff" in leaf else [] for leaf in leaves]
    return {
        "is_linear": ["1"],
        "leaf_const": [_number(leaf.get("leaf_const")) for leaf in leaves],
        "num_features": [str(len(of_leaf)) for of_leaf in features],
        "leaf_features": [_number(feature) for of_leaf in features for feature in of_leaf],
        "leaf_coeff": [_number(one) for of_leaf in coefficients for one in of_leaf],
    }
