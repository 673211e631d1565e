"""Neighbours by their definitions: all pairs of rows, and leaves computed again without a row."""

from __future__ import annotations

import numpy as np


def similarity(leaves, training, weight):
    """Share of the trees, by weight, in which rows reach the same leaf, (n, m)."""
    weight = np.asarray(weight, np.float64) / np.sum(weight)
    result = np.zeros((len(leaves), len(training)))
    for i, row in enumerate(leaves):
        for j, other in enumerate(training):
            result[i, j] = sum(w for w, a, b in zip(weight, row, other, strict=True) if a == b)
    return result


def nearest(similarity, k, own=False):
    """Places of the k most similar training rows that share a leaf, -1 where there are fewer."""
    result = np.full((len(similarity), k), -1)
    for i, shares in enumerate(similarity):
        order = [j for j in np.lexsort((np.arange(len(shares)), -shares)) if shares[j] > 0 and not (own and j == i)]
        result[i, : min(k, len(order))] = order[:k]
    return result


def weights(leaves, training, counts, tree_weight):
    """Meinshausen's weights of the training rows, (n, m): how often each tree was given a row is `counts`, (m, T)."""
    result = np.zeros((len(leaves), len(training)))
    for i, row in enumerate(leaves):
        for tree, leaf in enumerate(row):
            inside = (training[:, tree] == leaf) * counts[:, tree]
            if inside.sum():
                result[i] += tree_weight[tree] * inside / inside.sum()
    return result / result.sum(axis=1, keepdims=True)


def inverted_cdf(y, weights, q):
    """Smallest y whose cumulated weight reaches q."""
    order = np.argsort(y, kind="stable")
    cumulated = np.cumsum(weights[order])
    return y[order][np.searchsorted(cumulated, q - 1e-12)]


def boosted(y, leaves, rate, penalty, base, kept, loss):
    """Values of the leaves of boosted trees by Newton steps on the kept rows, one array a tree; `leaves` is (n, T)."""
    margin = np.full(len(y), base)
    values = []
    for tree in range(leaves.shape[1]):
        p = margin if loss == "squared" else 1 / (1 + np.exp(-margin))
        gradient, hessian = p - y, np.ones(len(y)) if loss == "squared" else p * (1 - p)
        value = np.zeros(leaves[:, tree].max() + 1)
        for leaf in np.unique(leaves[:, tree]):
            inside = kept & (leaves[:, tree] == leaf)
            if inside.any():
                value[leaf] = -rate * gradient[inside].sum() / (hessian[inside].sum() + penalty)
        values.append(value)
        margin = margin + value[leaves[:, tree]]
    return values
