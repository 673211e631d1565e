"""Shapley values of a score by their definition: all coalitions, predictions by a library's own predict."""

from __future__ import annotations

import math

import numpy as np


def shapley(v, n):
    """Values of a game given for all coalitions, by number."""
    phi = np.zeros(n)
    for i in range(n):
        for s in range(1 << n):
            if not s >> i & 1:
                size = bin(s).count("1")
                weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
                phi[i] += weight * (v[s | 1 << i] - v[s])
    return phi


def marginal_outputs(predict, x, background, players, weights=None):
    """Mean outputs of hybrids of x and background rows, for all coalitions of players (lists of columns)."""
    found = []
    for s in range(1 << len(players)):
        hybrids = background.copy()
        for player, columns in enumerate(players):
            if s >> player & 1:
                hybrids[:, columns] = x[columns]
        found.append(np.average(predict(hybrids), axis=0, weights=weights))
    return np.array(found)


def path_margin(tree, x, known, node=0):
    """Mean of a scikit-learn tree where unknown features follow both sides by the training rows' shares."""
    t = tree.tree_
    if t.children_left[node] < 0:
        return t.value[node, 0, 0]
    left, right = t.children_left[node], t.children_right[node]
    if t.feature[node] in known:
        goes_left = np.float32(x[t.feature[node]]) <= t.threshold[node]
        return path_margin(tree, x, known, left if goes_left else right)
    n = t.weighted_n_node_samples
    parts = (n[side] * path_margin(tree, x, known, side) for side in (left, right))
    return sum(parts) / n[node]
