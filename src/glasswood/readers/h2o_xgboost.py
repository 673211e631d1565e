"""XGBoost trained by H2O: its MOJO holds XGBoost's own file, over columns of 0 and 1 for each category.

Such a column is 1 where the row has the category, or where the row has none: the last of each feature. A split on it
becomes a split of the feature's categories. Where the matrix was sparse, XGBoost read all zeros as missing.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.escapes import shown
from glasswood.readers.assemble import pack_sets
from glasswood.readers.documents import get_int
from glasswood.readers.ubjson import decode
from glasswood.readers.xgboost import read_document
from glasswood.readers.xgboost.binary import START, document_of, is_binary

if TYPE_CHECKING:
    from collections.abc import Callable

    from glasswood.base.typing import Array, Int64s
    from glasswood.model.ensemble import TreeEnsemble

OLDEST, NEWEST = 1.0, 1.1
"""Versions of MOJO files."""

SINGLE = 2.0**-23
"""H2O compares the probability with the threshold in float32, whose rounding at least this allows for."""


def read_boosted(
    content: Callable[[str], bytes],
    info: dict[str, str],
    columns: list[str],
    domains: dict[int, Array],
    take: Callable[[int], None],
) -> TreeEnsemble:
    """Read the booster over the columns of H2O's frame.

    Parameters
    ----------
    content : callable
        Bytes of a file of the archive.
    info : dict
        Entries of model.ini.
    columns : list of str
    domains : dict
        Categories by column.
    take : callable
        Counts the entries of the splits' sets; raises ValueError where they are too many.
    """
    n_features, n_categorical, n_numbers = (get_int(info, key) for key in ("n_features", "cats", "nums"))
    offsets = np.array(json.loads(info["cat_offsets"]), np.int64)
    sizes = [len(domains.get(column, ())) + 1 for column in range(n_categorical)]
    is_known = info["use_all_factor_levels"] == "true" and set(domains) <= {*range(n_categorical), len(columns) - 1}
    if not is_known or n_features != n_categorical + n_numbers or offsets.tolist() != [0, *np.cumsum(sizes).tolist()]:
        raise ValueError(f"its {n_features} features and cat_offsets = {info['cat_offsets'][:60]} do not go together")
    data = content("boosterBytes")
    forest = read_document(document_of(data) if is_binary(data[:START]) else decode(data), "boosterBytes")
    if forest.n_features != offsets[-1] + n_numbers or forest.is_categorical:
        raise ValueError(f"its booster has {forest.n_features} features, expected {offsets[-1] + n_numbers}")
    is_sparse = info["sparse"] == "true"
    fields = _splits(forest, offsets, is_sparse, take) | _meaning(info, domains.get(len(columns) - 1), forest)
    if n_categorical:
        fields["categories"] = tuple(domains.get(feature) for feature in range(n_features))
    if is_sparse:
        fields["zero_missing"] = np.arange(n_features) >= n_categorical
    source, names = f"H2O {info.get('h2o_version', '')[:20]}", tuple(columns[:n_features])
    return dataclasses.replace(forest, n_features=n_features, feature_names=names, source=source, **fields)


def _splits(forest: TreeEnsemble, offsets: Int64s, is_sparse: bool, take: Callable[[int], None]) -> dict[str, Any]:
    """Make of splits on a category's column splits of the categories of its feature."""
    entry, is_split = forest.feature.astype(np.int64), forest.feature >= 0
    is_set = is_split & (entry < offsets[-1])
    feature = np.where(is_split, entry - offsets[-1] + len(offsets) - 1, -1)
    feature[is_set] = np.searchsorted(offsets, entry[is_set], "right") - 1
    if not is_set.any():
        return {"feature": feature.astype(np.int32)}
    default_left, threshold = forest.default_left.copy(), forest.threshold.copy()
    sets = []
    for node in np.flatnonzero(is_set):
        n_categories = int(offsets[feature[node] + 1] - offsets[feature[node]]) - 1
        take(n_categories + 1)
        others_left = default_left[node] if is_sparse else threshold[node] > 0
        left = np.full(n_categories + 1, others_left)
        left[entry[node] - offsets[feature[node]]] = threshold[node] > 1
        sets.append(left[:-1])
        default_left[node], threshold[node] = left[-1], 0
    offsets_of_sets, words = pack_sets(sets, default_left[is_set])
    return {
        "feature": feature.astype(np.int32),
        "default_left": default_left,
        "threshold": threshold,
        "category_set": np.where(is_set, np.cumsum(is_set) - 1, -1).astype(np.int32),
        "set_offsets": offsets_of_sets,
        "set_words": words,
        "set_others_left": default_left[is_set],
    }


def _meaning(info: dict[str, str], labels: Array | None, forest: TreeEnsemble) -> dict[str, Any]:
    """Name the classes; of two, H2O predicts the second from its threshold on."""
    kind, n_classes = info["category"], 0 if labels is None else len(labels)
    if kind == "Regression" and labels is None and forest.n_outputs == 1:
        return {}
    classes = {"classes": (labels,), "is_estimator": True}
    if kind == "Multinomial" and n_classes == forest.n_outputs and forest.link == "softmax":
        return classes | {"prediction": "argmax"}
    if kind != "Binomial" or n_classes != 2 or forest.n_outputs != 1 or forest.link != "logistic":
        raise ValueError(
            f"it declares {kind[:40]} and {n_classes} classes for {forest.n_outputs} outputs of "
            f"{shown(forest.objective[:40])}"
        )
    border = min(max(float(info["default_threshold"]) - SINGLE, SINGLE), 1 - SINGLE)
    return classes | {"prediction": "positive", "prediction_offset": math.log(border / (1 - border))}
