// Error and fitness of a tree from Gram matrices, reading only the rows whose leaf is new.
#pragma once
#include <cstring>
#include <numeric>
#include <vector>

#include "grow/data/limits.h"
#include "grow/search/fitness.h"
#include "grow/search/gram_cache.h"
#include "grow/search/leaf_solver.h"
#include "grow/search/model_selection.h"
#include "grow/sums/row_source.h"

namespace glasswood {

class Evaluator {
 public:
  Evaluator(const GrowData& data, const Fitness& fitness, const GrowLimits& limits, const TrainingRowSource& rows,
            TaskRunner& tasks, bool by_qr)
      : data_(data),
        fitness_(fitness),
        limits_(limits),
        rows_(rows),
        tasks_(tasks),
        by_qr_(by_qr),
        solver_(data, tasks) {}

  const GrowData& data() const { return data_; }
  const Fitness& fitness() const { return fitness_; }
  const GrowLimits& limits() const { return limits_; }
  const LeafSolver& solver() const { return solver_; }
  const TrainingRowSource& rows() const { return rows_; }
  TaskRunner& tasks() const { return tasks_; }

  // Sets row counts, errors and fitness. A leaf with too few rows is dropped first.
  void evaluate(GrowTree& tree, StatsLayer& layer, Scratch& s) const {
    ++s.n_evaluations;
    limit_depth(tree);
    if (by_qr_) return evaluate_by_qr(tree, s);
    for (;;) {
      all_boxes(data_, tree, s.boxes);
      find_stats(tree, layer, s);
      if (tree.hint.node >= 0) shift_rows(tree, layer, s);
      const int top = lowest_above_missing(tree, s);
      if (top >= 0 && !fill(tree, top, layer, s)) continue;
      const int offending = offending_leaf(tree, s);
      if (offending < 0) break;
      drop_leaf(tree, offending);
    }
    sum_upwards(tree, layer, s);
    score(tree, layer, s);
  }

  // Finds the sums of every node in one request, however few rows a leaf has. Evaluation asks again after every leaf
  // that it drops.
  void sum_nodes(GrowTree& tree, StatsLayer& layer, Scratch& s) const {
    limit_depth(tree);
    all_boxes(data_, tree, s.boxes);
    find_stats(tree, layer, s);
    if (const int top = lowest_above_missing(tree, s); top >= 0) fill(tree, top, layer, s, false);
    sum_upwards(tree, layer, s);
  }

  // The same from all rows, as the paper does it.
  void evaluate_by_qr(GrowTree& tree, Scratch& s) const {
    rows_.evaluate_by_qr([&](PaperEvaluation& paper) { evaluate_by(paper, tree, s); }, s);
  }

  // Residual sum of squares of the model of the leaf with this box.
  double residual(const Box& box, const LeafStats& stats, const FeatureSet& model, StatsLayer& layer,
                  Scratch& s) const {
    const uint64_t hash = model.hash();
    if (const double* known = layer.find_residual(stats, hash)) return *known;
    const double value = solver_.residual(box, stats, model, s);
    layer.add_residual(stats, hash, value);
    return value;
  }

  // The best model of a leaf on the path of backward elimination from `start`.
  FeatureSet select_model(const LeafStats& stats, const FeatureSet& start, double price, Scratch& s) const {
    return glasswood::select_model(data_, limits_, solver_.imputed(stats.gram, s), stats.n_rows, start, price,
                                   tasks_.buffers());
  }

  LeafStats* stats_of(const Box& box, StatsLayer& layer, Scratch& s) const {
    if (LeafStats* known = layer.find(box.key())) return known;
    static const GrowTree leaf{{GrowNode()}};
    s.missing.assign(1, 1);
    rows_.sum_leaves({&box, &leaf, 0, &s.missing}, s);
    return add_sums(box, s.sums[0], layer);
  }

 private:
  void evaluate_by(PaperEvaluation& paper, GrowTree& tree, Scratch& s) const {
    for (int offending = 0; offending >= 0;) {
      paper.redistribute(tree);
      offending = -1;
      for (int v = 1; v < int(tree.nodes.size()) && offending < 0; ++v)
        if (tree[v].is_leaf() && paper.count(v) < limits_.least_rows(tree[v].model)) offending = v;
      if (offending >= 0) drop_leaf(tree, offending);
    }
    if (is_overfull_root(tree, 0)) tree.nodes[0].model = FeatureSet(data_.n_features);
    s.rows_read += data_.n_rows;
    LeafColumns columns(tree.nodes.size());
    for (size_t v = 0; v < tree.nodes.size(); ++v)
      if (tree[v].is_leaf()) model_columns(data_, tree[v].model, columns[v]);
    const std::vector<double> errors = paper.errors(columns);
    for (size_t v = 0; v < tree.nodes.size(); ++v) {
      tree.nodes[v].n_rows = paper.count(int(v));
      tree.nodes[v].error = errors[v];
    }
    reduce(tree);
  }

  // The same sums, of other rows.
  static std::unique_ptr<LeafStats> copy_of(const LeafStats& sums, const Key& key, int64_t n_rows) {
    auto stats = std::make_unique<LeafStats>();
    stats->key = key;
    stats->n_rows = n_rows;
    stats->gram = sums.gram;
    stats->chain = sums.chain;
    return stats;
  }

  static LeafStats* add_sums(const Box& box, LeafSums& sums, StatsLayer& layer) {
    auto stats = std::make_unique<LeafStats>();
    stats->key = box.key();
    stats->n_rows = sums.n_rows;
    stats->gram = std::move(sums.gram);
    return layer.add(std::move(stats));
  }

  static void add_to(LeafStats& sum, const LeafStats& part, double sign) {
    for (size_t i = 0; i < sum.gram.size(); ++i) sum.gram[i] += sign * part.gram[i];
    sum.chain = std::max(sum.chain, part.chain);
  }

  void limit_depth(GrowTree& tree) const {
    if (int(tree.nodes.size()) < 2 * limits_.max_depth + 1) return;
    for (;;) {
      const std::vector<int> depths = node_depths(tree);
      int v = 0;
      while (v < int(tree.nodes.size()) && (tree[v].is_leaf() || depths[v] < limits_.max_depth)) ++v;
      if (v == int(tree.nodes.size())) return;
      tree = with_leaf(tree, v, models_below(tree, v));
    }
  }

  // A tree of one leaf cannot be dropped: with too few rows for its model it keeps a part of it, by QR the constant.
  bool is_overfull_root(const GrowTree& tree, int v) const {
    return v == 0 && tree[0].is_leaf() && tree[0].model.count() > limits_.most_features(data_.n_rows);
  }

  void find_stats(const GrowTree& tree, StatsLayer& layer, Scratch& s) const {
    s.stats.resize(tree.nodes.size());
    for (size_t v = 0; v < tree.nodes.size(); ++v) s.stats[v] = layer.find(s.boxes[v].key());
  }

  static int lowest_above_missing(const GrowTree& tree, const Scratch& s) {
    int first = -1, last = -1;
    for (int v = 0; v < int(tree.nodes.size()); ++v)
      if (tree[v].is_leaf() && !s.stats[v]) {
        if (first < 0) first = v;
        last = v;
      }
    if (first < 0) return -1;
    int v = 0;
    while (!tree[v].is_leaf()) {
      const int right = tree[v].right;
      if (last < right)
        v = tree[v].left;
      else if (first >= right)
        v = right;
      else
        break;
    }
    return v;
  }

  // Sums the leaves below `top` that the cache lacks; false if one of them has too few rows and was dropped.
  bool fill(GrowTree& tree, int top, StatsLayer& layer, Scratch& s, bool limited = true) const {
    const bool known = s.stats[top] && s.stats[top]->chain < kLongestChain;
    const int n_missing = mark_missing(tree, top, s);
    int64_t n_rows = known ? s.stats[top]->n_rows : -1;
    s.least.assign(tree.nodes.size(), 0);
    for (int v = top; v < subtree_end(tree, top); ++v) {
      if (!tree[v].is_leaf()) continue;
      if (s.stats[v] && known) n_rows -= s.stats[v]->n_rows;
      if (!s.stats[v] && v > 0 && limited) s.least[v] = limits_.least_rows(tree[v].model);
    }
    if (n_missing == 1 && known) return fill_last(tree, top, n_rows, layer, s);
    const LeafRequest request{&s.boxes[top], &tree, top, &s.missing, &s.least, nullptr, known, n_rows, &s.boxes};
    const int offending = rows_.sum_leaves(request, s);
    if (offending >= 0) return drop_leaf(tree, offending), false;
    int left_out = -1;
    for (int v = top; v < subtree_end(tree, top); ++v) {
      if (!tree[v].is_leaf() || s.stats[v]) continue;
      if (s.sums[v].gram.empty())
        left_out = v;
      else
        s.stats[v] = add_sums(s.boxes[v], s.sums[v], layer);
    }
    if (left_out >= 0) subtract_others(tree, top, left_out, s.sums[left_out].n_rows, layer, s);
    return true;
  }

  // One leaf lacks its sums: what the others leave of the known ones.
  static bool fill_last(GrowTree& tree, int top, int64_t n_rows, StatsLayer& layer, Scratch& s) {
    int v = top;
    while (!tree[v].is_leaf()) v = s.missing[tree[v].left] ? tree[v].left : tree[v].right;
    if (n_rows < s.least[v]) return drop_leaf(tree, v), false;
    subtract_others(tree, top, v, n_rows, layer, s);
    return true;
  }

  // Marks the nodes above missing leaves and counts those leaves.
  static int mark_missing(const GrowTree& tree, int top, Scratch& s) {
    int count = 0;
    s.missing.assign(tree.nodes.size(), 0);
    for (int v = subtree_end(tree, top) - 1; v >= top; --v) {
      s.missing[v] = tree[v].is_leaf() ? !s.stats[v] : s.missing[tree[v].left] || s.missing[tree[v].right];
      count += tree[v].is_leaf() && s.missing[v];
    }
    return count;
  }

  static void subtract_others(const GrowTree& tree, int top, int largest, int64_t n_rows, StatsLayer& layer,
                              Scratch& s) {
    auto stats = copy_of(*s.stats[top], s.boxes[largest].key(), n_rows);
    for (int v = top; v < subtree_end(tree, top); ++v)
      if (tree[v].is_leaf() && v != largest) add_to(*stats, *s.stats[v], -1);
    ++stats->chain;
    s.stats[largest] = layer.add(std::move(stats));
  }

  // The threshold of one node has moved: its leaves take over or hand on the rows between the old and the new one.
  void shift_rows(GrowTree& tree, StatsLayer& layer, Scratch& s) const {
    const int top = tree.hint.node;
    const GrowSplit before = tree.hint.before, after = tree[top].split;
    tree.hint.node = -1;
    if (before.feature != after.feature || before.missing_left != after.missing_left) return;
    GrowTree old = tree;
    old.nodes[top].split = before;
    s.shifted = s.boxes;
    narrow_below(data_, old, top, s.shifted);
    Interval between = s.boxes[top].interval(data_, after.feature);
    between.low = std::max(between.low, std::min(before.threshold, after.threshold));
    between.high = std::max(between.low, std::min(between.high, std::max(before.threshold, after.threshold)));
    between.missing = false;
    const Box moved = s.boxes[top].with(between);
    const int sign = after.threshold > before.threshold ? 1 : -1;
    MovedRows sides[2] = {moved_rows(tree, tree[top].left, sign, layer, s),
                          moved_rows(tree, tree[top].right, -sign, layer, s)};
    tasks_.fork(2, s, [&](int i, Scratch& own) {
      MovedRows& side = sides[i];
      if (!side.wanted[side.top]) return;
      rows_.sum_leaves({&moved, &tree, side.top, &side.wanted, nullptr, &side.most}, own);
      side.sums = std::move(own.sums);
    });
    for (const MovedRows& side : sides) add_moved(tree, side, layer, s);
  }

  // What the leaves below `top` take over, or, with a negative sign, hand on.
  struct MovedRows {
    int top, sign;
    std::vector<char> wanted;
    std::vector<int64_t> most;  // by node: with more rows the leaf is summed anew
    std::vector<LeafSums> sums;
  };

  const LeafStats* before_shift(const GrowTree& tree, int v, const StatsLayer& layer, const Scratch& s) const {
    const LeafStats* old = tree[v].is_leaf() && !s.stats[v] ? layer.find(s.shifted[v].key()) : nullptr;
    return old && old->chain < kLongestChain ? old : nullptr;
  }

  // Leaves that keep at least half of their rows are exact enough.
  MovedRows moved_rows(const GrowTree& tree, int top, int sign, const StatsLayer& layer, const Scratch& s) const {
    MovedRows side{top,
                   sign,
                   std::vector<char>(tree.nodes.size(), 0),
                   std::vector<int64_t>(tree.nodes.size(), std::numeric_limits<int64_t>::max()),
                   {}};
    for (int v = subtree_end(tree, top) - 1; v >= top; --v) {
      const LeafStats* old = before_shift(tree, v, layer, s);
      side.wanted[v] = tree[v].is_leaf() ? old != nullptr : side.wanted[tree[v].left] || side.wanted[tree[v].right];
      if (old && sign < 0) side.most[v] = old->n_rows / 2;
    }
    return side;
  }

  void add_moved(const GrowTree& tree, const MovedRows& side, StatsLayer& layer, Scratch& s) const {
    for (int v = side.top; v < subtree_end(tree, side.top); ++v) {
      if (!tree[v].is_leaf() || !side.wanted[v] || side.sums[v].n_rows > side.most[v]) continue;
      const LeafStats& old = *before_shift(tree, v, layer, s);
      auto stats = copy_of(old, s.boxes[v].key(), old.n_rows + side.sign * side.sums[v].n_rows);
      for (size_t i = 0; i < stats->gram.size(); ++i) stats->gram[i] += side.sign * side.sums[v].gram[i];
      stats->chain += side.sign < 0;
      s.stats[v] = layer.add(std::move(stats));
    }
  }

  int offending_leaf(const GrowTree& tree, const Scratch& s) const {
    if (tree.nodes.size() == 1) return -1;
    for (int v = 0; v < int(tree.nodes.size()); ++v)
      if (tree[v].is_leaf() && s.stats[v]->n_rows < limits_.least_rows(tree[v].model)) return v;
    return -1;
  }

  // The parent of a leaf with too few rows becomes its other child, or a leaf if that is one too.
  static void drop_leaf(GrowTree& tree, int leaf) {
    int parent = 0;
    while (tree[parent].left != leaf && tree[parent].right != leaf) ++parent;
    const int sibling = tree[parent].left == leaf ? tree[parent].right : tree[parent].left;
    tree.hint.node = -1;
    if (tree[sibling].is_leaf())
      tree = with_leaf(tree, parent, models_below(tree, parent));
    else
      tree = with_subtree(tree, parent, GrowTree(tree), sibling);
  }

  void sum_upwards(GrowTree& tree, StatsLayer& layer, Scratch& s) const {
    for (int v = int(tree.nodes.size()) - 1; v >= 0; --v) {
      if (!s.stats[v]) {
        const LeafStats &left = *s.stats[tree[v].left], &right = *s.stats[tree[v].right];
        auto stats = copy_of(left, s.boxes[v].key(), left.n_rows + right.n_rows);
        add_to(*stats, right, 1);
        s.stats[v] = layer.add(std::move(stats));
      }
      tree.nodes[v].n_rows = s.stats[v]->n_rows;
    }
  }

  void score(GrowTree& tree, StatsLayer& layer, Scratch& s) const {
    std::vector<int>& unknown = s.unknown;
    unknown.clear();
    for (size_t v = 0; v < tree.nodes.size(); ++v) {
      GrowNode& node = tree.nodes[v];
      if (node.is_leaf() && (!limits_.has_room(node.model) || is_overfull_root(tree, int(v))))
        node.model = select_model(*s.stats[v], node.model, 0, s);
      const double* known = node.is_leaf() ? layer.find_residual(*s.stats[v], node.model.hash()) : nullptr;
      node.error = known ? *known : 0;
      if (node.is_leaf() && !known) unknown.push_back(int(v));
    }
    const auto work = [&](int i) {
      constexpr double kAlone = 3;  // times what it takes of several matrices side by side
      const double k = tree[unknown[i]].model.count() + 1;
      return kAlone * (k * k * (k + 20) / 6 + 50);
    };
    tasks_.fork_by_work(int(unknown.size()), s, work, [&](int i, Scratch& own) {
      const int v = unknown[i];
      tree.nodes[v].error = solver_.residual(s.boxes[v], *s.stats[v], tree[v].model, own);
    });
    for (const int v : unknown) layer.add_residual(*s.stats[v], tree[v].model.hash(), tree[v].error);
    reduce(tree);
  }

  // Errors and rows of the splits from those of the leaves, and the fitness.
  void reduce(GrowTree& tree) const {
    for (int v = int(tree.nodes.size()) - 1; v >= 0; --v) {
      if (tree[v].is_leaf()) continue;
      const GrowNode &left = tree[tree[v].left], &right = tree[tree[v].right];
      tree.nodes[v].error = left.error + right.error;
      tree.nodes[v].n_rows = left.n_rows + right.n_rows;
    }
    tree.error = tree[0].error;
    tree.fitness = fitness_(tree.error, fitness_.size_of(tree));
  }

  static constexpr int kLongestChain = 8;
  const GrowData& data_;
  Fitness fitness_;
  const GrowLimits& limits_;
  const TrainingRowSource& rows_;
  TaskRunner& tasks_;
  bool by_qr_;
  LeafSolver solver_;
};

}  // namespace glasswood
