"""Damaged and hostile LightGBM files: a clear error before anything is computed."""

from __future__ import annotations

import re

import lightgbm as lgb
import numpy as np
import pytest
from tests.readers.lightgbm_models import COMMON, make_data, train

from glasswood.readers import lightgbm as reader

CORRUPTIONS = {
    "no model": (r"^tree", "forest", "a LightGBM model starts with 'tree'"),
    "future format": (r"version=v4", "version=v9", "format version is 'v9'"),
    "no format": (r"version=v4\n", "", "format version is None"),
    "no end of trees, which nothing announces": (r"(?s)tree_sizes=[^\n]*\n(.*)end of trees", r"\1", "truncated"),
    "no end of parameters": (r"end of parameters(.|\n)*", "", "truncated"),
    "tables cut off": (r"pandas_categorical:null\s*", 'pandas_categorical:[["a', "truncated"),
    "key of the tables cut off": (r"pandas_categorical:null\s*", "pandas_categ", "truncated"),
    "tables are not lists": (r"pandas_categorical:null", "pandas_categorical:[1]", "no list of lists"),
    "tree count": (r"tree_sizes=\d+", "tree_sizes=", "announces 3 trees, the text holds 4"),
    "tree order": (r"Tree=2", "Tree=5", "tree 2 is called 'Tree=5'"),
    "no trees": (r"tree_sizes=.*(.|\n)*end of trees", "tree_sizes=\n\nend of trees", "holds no trees"),
    "billion leaves": (r"num_leaves=7", "num_leaves=1000000000", "tree 0 holds 7 entries of 'leaf_value', expected 10"),
    "more leaves than counted": (r"num_leaves=7", f"num_leaves={10**30}", "tree 0 gives 'num_leaves'"),
    "no leaves": (r"num_leaves=7", "num_leaves=0", "declares 0 leaves"),
    "negative leaves": (r"num_leaves=7", "num_leaves=-4", "declares -4 leaves"),
    "leaves are text": (r"num_leaves=7", "num_leaves=seven", "tree 0 gives 'num_leaves' = 'seven'"),
    "no leaf count": (r"num_leaves=7\n", "", "tree 0 gives 'num_leaves'"),
    "a threshold less": (r"(Tree=1(?:.|\n)*?threshold=)\S+ ", r"\1", "tree 1 holds 5 entries of 'threshold'"),
    "threshold is text": (r"threshold=\S+", "threshold=x", "tree 0 has an entry of 'threshold' that is not a number"),
    "NaN threshold": (r"threshold=\S+", "threshold=nan", "tree 0 has a threshold that is NaN"),
    "huge threshold": (r"threshold=\S+", "threshold=1.7976931348623157e308", "threshold beyond"),
    "child beyond the splits": (r"left_child=\S+", "left_child=6", "tree 0 has a left_child that does not exist"),
    "leaf beyond the leaves": (r"right_child=\S+", "right_child=-8", "tree 0 has a right_child that does not exist"),
    "child beyond 64 bits": (r"left_child=\S+", f"left_child={10**25}", "left_child that does not exist"),
    "cycle": (r"left_child=\S+", "left_child=0", "tree 0 reaches node 0 twice"),
    "shared child": (r"(left_child=)(\S+)((?:.|\n)*?right_child=)\S+", r"\1\2\3\2", "tree 0 reaches node . twice"),
    "feature beyond the last": (r"split_feature=\S+", "split_feature=5", "tree 0 splits on a feature that does not"),
    "negative feature": (r"split_feature=\S+", "split_feature=-1", "tree 0 splits on a feature that does not"),
    "NaN leaf": (r"leaf_value=\S+", "leaf_value=nan", "tree 0 has a leaf_value that is not finite"),
    "infinite leaf": (r"leaf_value=\S+", "leaf_value=1e999", "tree 0 has a leaf_value that is not finite"),
    "negative cover": (r"leaf_count=\S+", "leaf_count=-3", "tree 0 has a leaf_count"),
    "negative cover of a split": (r"internal_count=\S+", "internal_count=-3", "tree 0 has an internal_count"),
    "decision beyond its bits": (r"decision_type=\S+", "decision_type=13", "tree 0 has an unknown decision_type"),
    "decision beyond 64 bits": (
        r"decision_type=\S+",
        f"decision_type={10**30}",
        "tree 0 has an (entry of 'decision_type' that is not a number|unknown decision_type)",
    ),
    "decision beyond 64 bits beside a text": (
        r"decision_type=\S+ \S+",
        f"decision_type={10**30} x",
        "tree 0 has an entry of 'decision_type' that is not a number",
    ),
    "category without sets": (r"decision_type=\S+(.*)", r"decision_type=1\1", "categorical split without its set"),
    "negative sets": (r"num_cat=\d+", "num_cat=-1", "declares -1 categorical splits"),
    "boundaries fall": (r"cat_boundaries=0 \d+", "cat_boundaries=0 -1", "cat_boundaries that do not rise"),
    "boundaries start late": (r"cat_boundaries=0", "cat_boundaries=1", "cat_boundaries that do not rise"),
    "boundaries reach far": (r"(cat_boundaries=0 .*)\b\d+\n", r"\g<1>999999999\n", "entries of 'cat_threshold'"),
    "word beyond 32 bits": (r"cat_threshold=\S+", "cat_threshold=4294967296", "not a 32-bit word"),
    "features uncounted": (r"max_feature_idx=4", "max_feature_idx=999999999", "there are 5 feature names"),
    "features are text": (r"max_feature_idx=4", "max_feature_idx=", "max_feature_idx"),
    "a billion outputs": (r"num_tree_per_iteration=1", "num_tree_per_iteration=1000000000", "whole iterations"),
    "no outputs": (r"num_tree_per_iteration=1", "num_tree_per_iteration=0", "whole iterations"),
    "uneven outputs": (r"num_tree_per_iteration=1", "num_tree_per_iteration=3", "whole iterations of 3 trees"),
    "classes uncounted": (r"objective=regression", "objective=multiclass num_class:2", "does not match the 1 trees"),
    "no sigmoid": (r"objective=regression", "objective=binary", "no positive sigmoid"),
    "sigmoid is text": (r"objective=regression", "objective=binary sigmoid:x", "no positive sigmoid"),
}


@pytest.fixture(scope="module")
def text():
    return train(make_data(), {}, n_trees=4).model_to_string()


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corrupt_text_is_refused(name, text, tmp_path):
    pattern, replacement, message = CORRUPTIONS[name]
    edited, n_changes = re.subn(pattern, replacement, text, count=1)
    assert n_changes == 1
    path = tmp_path / "model.txt"
    path.write_text(edited)
    with pytest.raises(ValueError, match=message) as caught:
        reader.read_file(path)
    assert str(path) in str(caught.value)


def test_unknown_objective_is_refused(text, tmp_path):
    path = tmp_path / "model.txt"
    path.write_text(text.replace("objective=regression", "objective=astrology"))
    with pytest.raises(NotImplementedError, match="objective 'astrology' is not supported"):
        reader.read_file(path)


def test_truncated_text_is_refused(text, tmp_path):
    path = tmp_path / "model.txt"
    last_line = text.index("pandas_categorical")
    without_last_line = range(text.index("end of parameters") + len("end of parameters"), last_line + 1)
    for end in [*range(0, last_line, 97), *range(last_line - 20, len(text.rstrip()))]:
        if end in without_last_line:  # complete: only the Python package writes that line
            continue
        path.write_text(text[:end])
        with pytest.raises(ValueError, match="cannot read"):
            reader.read_file(path)


@pytest.mark.parametrize("pattern", [r"end of trees", r"(?s)end of trees.*", r"(?s)feature_importances.*"])
def test_ends_that_lightgbm_does_without(pattern, tmp_path):
    """A text of complete trees, without the lines behind them: LightGBM loads it, and nothing can be missing."""
    X, y = make_data()
    booster = lgb.train(COMMON, lgb.Dataset(X, y), 4)
    text = re.sub(pattern, "", booster.model_to_string())
    path = tmp_path / "model.txt"
    path.write_text(text)
    np.testing.assert_array_equal(reader.read_file(path).leaf_value, reader.read(booster).leaf_value)
    assert lgb.Booster(model_str=text).num_trees() == 4


def test_binary_file_is_refused(tmp_path):
    path = tmp_path / "model.txt"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(ValueError, match="cannot read"):
        reader.read_file(path)


def test_random_edits_never_crash(text, tmp_path):
    """A digit more or less, swapped or doubled lines: a forest, or one of the two errors."""
    rng = np.random.default_rng(3)
    path = tmp_path / "model.txt"
    body = text[: text.index("end of trees")]
    rest = text[len(body) :]
    refused = 0
    for _ in range(300):
        at = int(rng.integers(len(body)))
        edits = [str(rng.integers(10)), "-", " ", "", "\n", "=", body[at : at + 40] * 2]
        path.write_text(body[:at] + edits[rng.integers(len(edits))] + body[at + rng.integers(3) :] + rest)
        try:
            reader.read_file(path)
        except (ValueError, NotImplementedError):
            refused += 1
    assert 100 < refused < 300
