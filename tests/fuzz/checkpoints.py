"""treelite's checkpoints, changed field by field: their bytes are treelite's to read, their fields glasswood's."""

from __future__ import annotations

import contextlib

import numpy as np

from tests.fuzz.mutators import FLOATS, INTEGERS, TEXTS, pick

OF_MODEL = (
    *("num_feature", "task_type", "average_tree_output", "num_target", "num_class", "leaf_vector_shape", "target_id"),
    *("class_id", "postprocessor", "sigmoid_alpha", "ratio_c", "base_scores"),
)
OF_TREE = (
    *("node_type", "cleft", "cright", "split_index", "default_left", "leaf_value", "threshold", "cmp", "leaf_vector"),
    *("leaf_vector_begin", "leaf_vector_end", "category_list", "category_list_begin", "category_list_end"),
    *("category_list_right_child", "data_count", "data_count_present", "sum_hess", "sum_hess_present"),
)
POSTPROCESSORS = ("sigmoid", "softmax", "multiclass_ova", "exponential_standard_ratio", "hinge", "unknown", *TEXTS[:3])


def mutate(rng, data):
    """Up to four fields changed, of the model or of one of its trees, as far as treelite takes them."""
    import treelite  # tests of a core without other libraries import this module

    model = treelite.Model.deserialize_bytes(data)
    for _ in range(1 + int(rng.integers(4))):
        of_model = rng.random() < 0.25
        fields = model.get_header_accessor() if of_model else _tree(rng, model)
        name = pick(rng, OF_MODEL if of_model else OF_TREE)
        found = fields.get_field(name)
        if isinstance(found, str):
            changed = pick(rng, POSTPROCESSORS)
        elif rng.random() < 0.15:
            other = fields.get_field(pick(rng, OF_MODEL if of_model else OF_TREE))
            changed = found.copy() if isinstance(other, str) else _as(other, found.dtype)  # no view of what is freed
        else:
            changed = _changed(rng, found)
        with contextlib.suppress(treelite.TreeliteError):  # of another number of entries
            fields.set_field(name, changed)
    return bytes(model.serialize_bytes())


def _tree(rng, model):
    return model.get_tree_accessor(int(rng.integers(model.num_tree)))


def _changed(rng, array):
    """Other values in some places, those of other places too; or fewer or more entries."""
    roll = rng.random()
    if roll < 0.1:
        return array[: int(rng.integers(len(array) + 1))].copy()
    if roll < 0.15:
        return np.concatenate([array, array])
    array = array.copy()
    for _ in range(int(rng.integers(1, 4)) if len(array) else 0):
        near = pick(rng, array).item() + int(rng.integers(-1, 3))
        value = pick(rng, (near, near, near, *INTEGERS, *FLOATS)) if rng.random() < 0.7 else pick(rng, array)
        array[int(rng.integers(len(array)))] = _as(np.asarray([value]), array.dtype)[0]
    return array


def _as(array, dtype):
    """Cast to a field's type; whole numbers wrap around, others become small ones."""
    with np.errstate(all="ignore"):
        if dtype.kind in "iu" and array.dtype.kind == "f":
            array = np.nan_to_num(array, posinf=3, neginf=-3).clip(-(2.0**62), 2.0**62).astype(np.int64)
        return array.astype(dtype)
