"""Leaves as features."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood


def test_each_row_has_one_leaf_of_each_tree(booster, numbers):
    rows = numbers[2]
    encoder = glasswood.LeafEncoder(booster).fit(rows)
    found = encoder.transform(rows)
    names = encoder.get_feature_names_out()
    leaves = glasswood.load(booster).predict(rows, output="leaf")
    assert found.shape == (100, len(names)) == (100, encoder.forest_.n_leaves)
    assert (found.sum(axis=1) == encoder.forest_.n_trees).all()
    for row in range(0, 100, 9):
        expected = {f"tree{tree}_leaf{leaf}" for tree, leaf in enumerate(leaves[row])}
        assert set(names[found[row].indices]) == expected
    np.testing.assert_array_equal(
        glasswood.LeafEncoder(booster, sparse_output=False).fit_transform(rows), found.toarray()
    )


def test_pipelines_and_searches_train_it_anew(numbers):
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    X, y, rows, targets = numbers
    forest = RandomForestClassifier(5, max_depth=3, random_state=0)
    pipeline = make_pipeline(glasswood.LeafEncoder(forest), LogisticRegression(max_iter=500))
    search = GridSearchCV(pipeline, {"leafencoder__model__max_depth": [2, 4]}, cv=2).fit(X, y > 0.5)
    assert search.score(rows, targets > 0.5) > 0.7
    assert search.best_estimator_[:-1].get_feature_names_out()[0].startswith("tree0_leaf")


def test_frames_come_out_with_names(booster, numbers):
    pytest.importorskip("pandas")
    encoder = glasswood.LeafEncoder(booster, sparse_output=False).set_output(transform="pandas").fit(numbers[0])
    frame = encoder.transform(numbers[2])
    assert list(frame) == list(encoder.get_feature_names_out())
