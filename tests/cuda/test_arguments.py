"""Arguments of kernels go by the names that their sources give them."""

from __future__ import annotations

import numpy as np
import pytest

from glasswood.cuda.compiler import parameters
from glasswood.cuda.launches import NOWHERE, PreparedLaunch
from glasswood.explain.cuda.leaf_tapes import ENTRY, LEAF, PART, TERM
from glasswood.explain.cuda.tables import keys_variant

KEYS = {"codes": 1, "stride": 2, "heads": 3, "entries": 4, "n_subtrees": 5, "run": 6, "keys": 7}


def test_types_and_order_come_from_the_source():
    types = parameters("explain/cuda/tables/find_keys")
    assert list(types) == list(KEYS)
    assert [types[name] for name in ("codes", "stride", "run")] == ["uint64", "int64", "int32"]
    assert parameters("explain/cuda/weigh_parts")["nodes"] is None


def test_a_macro_stands_for_several():
    names = list(parameters("common/cuda/encode_rows"))
    assert names[:2] + names[7:9] + names[-3:] == [
        *("X", "row_stride", "feature", "category_set"),
        *("zero_threshold", "missing_value", "codes"),
    ]


@pytest.mark.usefixtures("gpu")
def test_the_order_of_the_names_does_not_matter():
    launch = PreparedLaunch(keys_variant(True), (1, 1), 128, dict(reversed(KEYS.items())))
    assert [int(launch.cell(name)[0]) for name in KEYS] == list(KEYS.values())


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("args", [{**KEYS, "key": NOWHERE}, {"codes": NOWHERE}])
def test_names_that_the_kernel_does_not_know_are_refused(args):
    with pytest.raises(TypeError, match="arguments of find_keys_kernel are codes, stride"):
        PreparedLaunch(keys_variant(True), (1, 1), 128, args)


def test_structs_are_the_compilers():
    assert [kind.itemsize for kind in (PART, LEAF, ENTRY, TERM)] == [16, 88, 32, 24]
    assert LEAF.fields["first_pair"] == (np.dtype(np.int64), 56)
    assert ENTRY.fields["slot"] == (np.dtype(np.int32), 12)
