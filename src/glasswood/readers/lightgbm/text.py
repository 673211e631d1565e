"""The text in which LightGBM saves models: lines of `key=value`, a block of them a tree."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.typing import Array, Bools, Int64s

VERSIONS = ("v2", "v3", "v4")
WITHOUT_VERSION = "of 2017"
"""What stands for the version of a text of LightGBM 2.0.5 to 2.0.11, which has none but means the same as v2."""

IMPORTANCES = "\nfeature importances:"
"""What follows the trees of a text without a version, which also has no line behind its trees and no sizes."""

LARGEST_INTEGER = 2**31 - 1
TABLES = "pandas_categorical:"
LISTS_OF_LEAVES = ("leaf_features", "leaf_coeff")
"""Lists of lists, with a space more behind each."""


@dataclass(frozen=True, eq=False)
class Document:
    """A model text, taken apart but not understood.

    Attributes
    ----------
    header : dict of str
        Lines before the first tree; a line without ``=`` has an empty value.
    trees : list of dict of str
    pandas_categorical : list of lists, or None
        The category tables of the training DataFrame's categorical columns, in the order of those columns.
    """

    header: dict[str, str]
    trees: list[dict[str, str]]
    pandas_categorical: list[list[Any]] | None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns; LightGBM has replaced spaces in them by underscores."""
        return tuple(self.header.get("feature_names", "").split(" "))

    def integer(self, key: str) -> int:
        """Return a number of the header.

        Raises
        ------
        ValueError
            If it is missing or no integer.
        """
        return _integer(self.header.get(key, ""), f"the header gives {key!r}")

    def tree_integers(self, key: str) -> Int64s:
        """Return one number of each tree: (n_trees,)."""
        values = [_integer(tree.get(key, ""), f"tree {i} gives {key!r}") for i, tree in enumerate(self.trees)]
        return np.array(values, np.int64)

    def tree_flags(self, key: str) -> Bools:
        """Tell of each tree whether a number is not 0; it is 0 where a tree lacks it: (n_trees,)."""
        return np.array([tree.get(key, "0") != "0" for tree in self.trees], np.bool_)

    def tree_arrays(self, key: str, counts: Int64s, dtype: DTypeLike) -> Array:
        """Return an array of each tree, one after the other: (counts.sum(),).

        Raises
        ------
        ValueError
            If a tree lacks the key or holds another number of entries than `counts` says, or an entry is not a number.
        """
        lines = [
            " ".join(tree.get(key, "").split()) if key in LISTS_OF_LEAVES else tree.get(key, "") for tree in self.trees
        ]
        found = np.array([line.count(" ") + 1 if line else 0 for line in lines])
        if (wrong := found != counts).any():
            at = int(np.argmax(wrong))
            raise ValueError(f"tree {at} holds {found[at]} entries of {key!r}, expected {counts[at]}")
        return _numbers(key, lines, dtype)


def parse(text: str) -> Document:
    """Take a model text apart.

    Raises
    ------
    ValueError
        If the text is not a LightGBM model, truncated, or its blocks are not in order.
    """
    if text.startswith("booster["):
        raise ValueError("it is a dump of XGBoost, for people to read; write the model by save_model instead")
    if not text.lstrip().startswith("tree"):
        raise ValueError(f"the text starts with {text[:20]!r}, a LightGBM model starts with 'tree'")
    body, end, tail = text.partition("\nend of trees")
    if not end:
        body, tail = _without_end(text)
    head, *blocks = body.split("\nTree=")
    header = _pairs(head)
    version = header.get("version")
    if version is None and "\nhas_categorical=" in body:
        raise NotImplementedError(
            "the text is of LightGBM of early 2017, whose missing values go other ways; train the model again with a "
            "later version"
        )
    if version is None and header.get("objective", "").startswith("poisson"):
        raise NotImplementedError(
            "LightGBM's objective 'poisson' predicted other numbers before 2.0.6, and the text does not say its "
            "version; save it again with the version that wrote it, or a later one"
        )
    if version not in VERSIONS and (version is not None or end or "tree_sizes" in header):
        raise ValueError(f"the format version is {version!r}, expected one of {', '.join(VERSIONS)}")
    if version not in {"v2", None} and "\nend of parameters" not in tail and _may_lack_tables(header, tail):
        raise ValueError("the text ends before its line 'end of parameters': it is truncated")
    return Document(header, _tree_blocks(blocks, header), _pandas_categorical(tail))


def _without_end(text: str) -> tuple[str, str]:
    """Divide a text that lacks the line behind its trees, which LightGBM can do without, behind its last tree.

    The last line of a tree is ``shrinkage``, and the header announces how many trees there are.
    """
    if "\nversion=" not in text[: max(text.find("\nTree="), 0)] and IMPORTANCES in text:
        body, _, tail = text.partition(IMPORTANCES)
        return body, IMPORTANCES + tail
    last = text.rfind("\nTree=")
    start = text.find("\nshrinkage=", max(last, 0))
    line = text.find("\n", start + 1)
    if last < 0 or start < 0 or line < 0 or "\ntree_sizes=" not in text[:last]:
        raise ValueError("the text ends before its line 'end of trees': it is truncated")
    return text[:line], text[line:]


def _may_lack_tables(header: dict[str, str], tail: str) -> bool:
    """Whether a text without a line behind its parameters may have lost something: parameters, tables of categories."""
    has_categories = any(not info.startswith(("[", "none")) for info in header.get("feature_infos", "").split())
    return "\nparameters:" in tail or (has_categories and "\npandas_categorical:" not in tail)


def _pairs(block: str) -> dict[str, str]:
    # Names of features may hold every kind of space but these two.
    lines = (line.partition("=") for line in block.split("\n"))
    return {key: value.rstrip(" ") for key, _, value in lines if key}


def _tree_blocks(blocks: list[str], header: dict[str, str]) -> list[dict[str, str]]:
    declared = len(header.get("tree_sizes", "").split())
    if "tree_sizes" in header and declared != len(blocks):
        raise ValueError(f"the header announces {declared} trees, the text holds {len(blocks)}")
    if not blocks:
        raise ValueError("the model holds no trees; train it for at least one iteration")
    for position, block in enumerate(blocks):
        if (number := block.split("\n", 1)[0].strip()) != str(position):
            raise ValueError(f"tree {position} is called 'Tree={number}'; a block is missing or out of place")
    return [_with_leaf_count(_pairs(block)) for block in blocks]


def _with_leaf_count(tree: dict[str, str]) -> dict[str, str]:
    """Add the count of a tree's only leaf, which old versions left out."""
    if tree.get("num_leaves") == "1" and not tree.get("leaf_count"):
        tree["leaf_count"] = "0"
    return tree


def _pandas_categorical(tail: str) -> list[list[Any]] | None:
    """Read the tables of the last line, which only LightGBM's Python package writes."""
    rest = tail.rpartition("\nend of parameters")[2].strip()
    rest = rest if "\nend of parameters" in tail else rest[max(rest.find(TABLES), 0) :]
    if not rest.startswith(TABLES):
        if rest and TABLES.startswith(rest):
            raise ValueError(f"the text ends with {rest!r}: it is truncated")
        return None
    try:
        tables = json.loads(rest.removeprefix(TABLES))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the line {TABLES!r} is not valid JSON ({error}): the text is truncated") from error
    if tables is not None and not (isinstance(tables, list) and all(isinstance(table, list) for table in tables)):
        raise ValueError(f"the line {TABLES!r} holds no list of lists")
    return tables or None


def _integer(value: str, where: str) -> int:
    """Read an integer of a size that a count or an index can have."""
    try:
        number = int(value)
    except ValueError:
        number = LARGEST_INTEGER + 1
    if abs(number) > LARGEST_INTEGER:
        raise ValueError(f"{where} = {value[:40]!r}, expected an integer below 2^31")
    return number


def _numbers(key: str, lines: list[str], dtype: DTypeLike) -> Array:
    """Read all numbers of the lines; numpy's reader rounds to nearest, as LightGBM's own does."""
    expected = sum(line.count(" ") + 1 for line in lines if line)
    try:
        values = np.fromstring(" ".join(line for line in lines if line), dtype=dtype, sep=" ")
    except (ValueError, OverflowError, DeprecationWarning):
        values = np.zeros(0, dtype)
    if len(values) != expected:
        raise ValueError(f"tree {_first_unreadable(lines, dtype)} has an entry of {key!r} that is not a number")
    return values


def _first_unreadable(lines: list[str], dtype: Any) -> int:
    for tree, line in enumerate(lines):
        for entry in line.split(" ") if line else ():
            try:
                np.array(dtype(entry))
            except (ValueError, OverflowError):
                return tree
    return 0
