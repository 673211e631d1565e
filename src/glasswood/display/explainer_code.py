"""An explainer as C: sums over leaves by quadrature, one feature at a time from the leaves to the root.

With t the chance that a feature is known, a leaf counts t for a feature whose tests on the path the row meets, plus
(1 - t) times the cover shares of these tests. A feature's value is the integral over t of the leaf's value times the
other features' factors, times what knowing the feature changes. It is a polynomial, for which Gauss-Legendre quadrature
is exact. Leaves below an edge have its feature's factor in common, or a later one of the same feature, from whose share
the edge above is taken off. A group of features is known together: its tests are those of one feature.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from glasswood.base.typing import Array, Doubles, Int32s, Int64s
from glasswood.model.ensemble import TreeEnsemble

LINE = 12
"""Numbers in a line of a table."""

SOURCE = """\
#include <math.h>

/* {what}
   {name}(x, phi) writes the SHAP values of the row x to phi and returns the expected value; all of them add up to the
   margin. x has these features, NAN where one is missing; phi has {order}. Compile without -ffast-math.
{columns}
{players}*/
enum {{ {name}_n_points = {n_points}, {name}_n_steps = {n_steps} }};
typedef struct {{ int player; double met, share; }} {name}_step;

static const double {name}_point[] = {{{point}}};
static const double {name}_weight[] = {{{weight}}};
/* Of each feature its place in phi. */
static const int {name}_player[] = {{{player}}};
/* Of each node the feature that it tests, -1 of a leaf; its left child, before the right one; the share of its parent's
   rows; of a leaf its value. What goes left: 0 numbers below the threshold, 1 missing values too, 2 as a test says. */
static const int {name}_feature[] = {{{feature}}};
static const int {name}_left[] = {{{left}}};
static const double {name}_share[] = {{{share}}};
static const double {name}_value[] = {{{value}}};
static const int {name}_root[] = {{{root}}};

static const double {name}_threshold[] = {{{threshold}}};
static const signed char {name}_kind[] = {{{kind}}};

static int {name}_goes_left(const double *x, int node) {{
  const double value = x[{name}_feature[node]];
  if ({name}_kind[node] == 0) return value < {name}_threshold[node];
  if ({name}_kind[node] == 1) return !(value >= {name}_threshold[node]);
  switch (node) {{
{tests}
    default: return 0;
  }}
}}

static void {name}_visit(const double *x, int node, {name}_step *path, int n_steps, const double *product, double *sum,
                         double *phi) {{
  if ({name}_feature[node] < 0) {{
    for (int k = 0; k < {name}_n_points; k++) sum[k] += {name}_value[node] * product[k];
    return;
  }}
  const int player = {name}_player[{name}_feature[node]];
  int at = 0;
  while (at < n_steps && path[at].player != player) at++;
  const {name}_step before = at < n_steps ? path[at] : ({name}_step){{player, 1, 1}};
  const int goes_left = {name}_goes_left(x, node);
  double others[{name}_n_points], earlier[{name}_n_points];
  for (int k = 0; k < {name}_n_points; k++) {{
    const double t = {name}_point[k], inverse = 1 / (t * before.met + (1 - t) * before.share);
    others[k] = product[k] * inverse;
    earlier[k] = (before.met - before.share) * inverse;
  }}
  for (int side = 0; side < 2; side++) {{
    const int child = {name}_left[node] + side;
    const {name}_step step = {{player, goes_left != side ? before.met : 0, before.share * {name}_share[child]}};
    if (step.met == 0 && step.share == 0) continue;
    double factor[{name}_n_points], reached[{name}_n_points], below[{name}_n_points] = {{0}}, change = 0;
    for (int k = 0; k < {name}_n_points; k++) {{
      factor[k] = {name}_point[k] * step.met + (1 - {name}_point[k]) * step.share;
      reached[k] = others[k] * factor[k];
    }}
    path[at] = step;
    {name}_visit(x, child, path, at < n_steps ? n_steps : n_steps + 1, reached, below, phi);
    for (int k = 0; k < {name}_n_points; k++) {{
      sum[k] += below[k];
      change += ((step.met - step.share) / factor[k] - earlier[k]) * below[k];
    }}
    phi[player] += change;
  }}
  path[at] = before;
}}

double {name}(const double *x, double *phi) {{
  {name}_step path[{name}_n_steps];
  for (int i = 0; i < {n_players}; i++) phi[i] = 0;
  for (int tree = 0; tree < {n_trees}; tree++) {{
    double sum[{name}_n_points] = {{0}};
    {name}_visit(x, {name}_root[tree], path, 0, {name}_weight, sum, phi);
  }}
  return {expected};
}}
"""


def explainer_source(
    forest: TreeEnsemble,
    output: int,
    expected_value: float,
    numbers: Iterable[tuple[int, float, bool]],
    tests: Iterable[tuple[int, str]],
    about: dict[str, str],
    player: Int32s,
) -> str:
    """Write the path-dependent values of one output as the source of a C function.

    Parameters
    ----------
    forest : TreeEnsemble
        Its leaves are scalar constants.
    output : int
    expected_value : float
    numbers : iterable of (node, threshold, missing_left)
        Splits at which numbers below a threshold go left, and whether missing ones do.
    tests : iterable of (node, test)
        The other splits: expressions of C, whether x goes left.
    about : dict
        Name of the function, and comments: what, columns, order and players.
    player : int32, (F,)
        Place of each feature's value, or that of its group.
    """
    trees = np.flatnonzero(forest.tree_output == output)
    first = forest.tree_offsets[:-1].repeat(np.diff(forest.tree_offsets))
    is_leaf = forest.feature < 0
    kind = np.full(forest.n_nodes, 2)
    threshold = np.zeros(forest.n_nodes)
    for node, at, missing_left in numbers:
        kind[node], threshold[node] = missing_left, at
    value = np.zeros(forest.n_nodes)
    weight = forest.tree_weight.repeat(np.diff(forest.tree_offsets))
    value[is_leaf] = forest.leaf_value[:, 0] * weight[is_leaf]
    n_steps = max(forest.depth, 1)
    point, weights = np.polynomial.legendre.leggauss((n_steps + 1) // 2)
    return SOURCE.format(
        **about,
        n_points=len(point),
        n_steps=n_steps + 1,
        point=_listed((point + 1) / 2),
        weight=_listed(weights / 2),
        player=_listed(player),
        feature=_listed(forest.feature),
        left=_listed(np.where(is_leaf, 0, first + forest.left)),
        share=_listed(_shares(forest, np.where(is_leaf, 0, first + forest.left))),
        value=_listed(value),
        threshold=_listed(threshold),
        kind=_listed(kind),
        root=_listed(forest.tree_offsets[trees]) or "0",
        tests="\n".join(f"    case {node}: return {test};" for node, test in tests),
        n_players=int(player.max(initial=-1)) + 1,
        n_trees=len(trees),
        expected=repr(float(expected_value)),
    )


def _shares(forest: TreeEnsemble, left: Int64s) -> Doubles:
    """Share of its parent's rows that each node gets, half where the parent has none; 1 of roots."""
    share = np.ones(forest.n_nodes)
    nodes = np.flatnonzero(forest.feature >= 0)
    for child in (left[nodes], left[nodes] + 1):
        covered = forest.cover[nodes] > 0
        share[child] = np.where(covered, forest.cover[child] / np.where(covered, forest.cover[nodes], 1), 0.5)
    return share


def _listed(numbers: Array) -> str:
    """Write numbers as an initialiser, in lines."""
    texts = [repr(number) for number in numbers.tolist()]
    return ",\n  ".join(", ".join(texts[start : start + LINE]) for start in range(0, len(texts), LINE))
