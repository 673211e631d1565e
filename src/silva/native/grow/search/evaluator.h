// Error and fitness of a tree from Gram matrices, reading only the rows whose leaf is new.
#pragma once
#include <cstring>
#include <numeric>
#include <vector>

#include "grow/search/fitness.h"
#include "grow/sums/row_source.h"

namespace silva {

struct GrowLimits {
  int min_samples_leaf = 5;
  int max_leaves = 64;
  int max_depth = kMaxDepth;
  double rows_per_parameter = 1;  // of a leaf's model, intercept included
};

class Evaluator {
 public:
  Evaluator(const GrowData& data, const Fitness& fitness, const GrowLimits& limits, const RowReader& reader,
            bool by_qr = false)
      : data_(data),
        fitness_(fitness),
        limits_(limits),
        reader_(reader),
        by_qr_(by_qr),
        kernels_(grow_kernels()),
        all_columns_(data, all_attributes(data)) {}

  const GrowData& data() const { return data_; }
  const Fitness& fitness() const { return fitness_; }
  const GrowLimits& limits() const { return limits_; }
  const GrowKernels& kernels() const { return kernels_; }
  const RowReader& reader() const { return reader_; }

  // Sets row counts, errors and fitness. A leaf with too few rows is cut off first.
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
      cut_off(tree, offending);
    }
    limit_root(tree);
    sum_upwards(tree, layer, s);
    score(tree, layer, s);
  }

  // Finds the sums of every node in one request, however few rows a leaf has. Evaluation asks again after every leaf
  // that it cuts off.
  void sum_nodes(GrowTree& tree, StatsLayer& layer, Scratch& s) const {
    limit_depth(tree);
    all_boxes(data_, tree, s.boxes);
    find_stats(tree, layer, s);
    if (const int top = lowest_above_missing(tree, s); top >= 0) fill(tree, top, layer, s, false);
    sum_upwards(tree, layer, s);
  }

  // The same from all rows, as the paper does it.
  void evaluate_by_qr(GrowTree& tree, Scratch& s) const {
    reader_.evaluate_by_qr([&](PaperEvaluation& paper) { evaluate_by(paper, tree, s); }, s);
  }

  // Residual sum of squares of the model of the leaf with this box.
  double residual(const Box& box, const LeafStats& stats, const AttributeSet& model, StatsLayer& layer,
                  Scratch& s) const {
    const uint64_t hash = model.hash();
    if (const double* known = layer.find_residual(stats, hash)) return *known;
    const double value = solve(box, stats, model, s);
    layer.add_residual(stats, hash, value);
    return value;
  }

  void model_columns(const AttributeSet& model, std::vector<int32_t>& columns) const {
    columns.assign(1, 0);
    for (int a = 0; a < data_.n_attributes; ++a)
      if (data_.column[a] >= 0 && model.has(a)) columns.push_back(data_.column[a]);
  }

  const double* imputed(const std::vector<double>& gram, Scratch& s) const {
    if (all_columns_.imputed().empty()) return gram.data();
    s.gram = gram;
    impute(all_columns_.imputed(), data_.width, s.gram.data());
    return s.gram.data();
  }

  FoundCut best_cut(const SweepRequest& request, Scratch& s) const { return reader_.best_cut(*this, request, s); }

  int least_rows(const AttributeSet& model) const {
    const int by_model = int(std::ceil(limits_.rows_per_parameter * (model.count() + 1)));
    return std::max({limits_.min_samples_leaf, model.count() + 2, by_model});
  }
  int most_attributes(int64_t n_rows) const {
    return int(std::min<double>(double(n_rows - 2), double(n_rows) / std::max(limits_.rows_per_parameter, 1.0) - 1));
  }

  LeafStats* stats_of(const Box& box, StatsLayer& layer, Scratch& s) const {
    if (LeafStats* known = layer.find(box.key())) return known;
    static const GrowTree leaf{{GrowNode()}};
    s.missing.assign(1, 1);
    reader_.sum_leaves({&box, &leaf, 0, &s.missing}, s);
    return add_sums(box, s.sums[0], layer);
  }

 private:
  // The same, nowhere looked up or noted down.
  double solve(const Box& box, const LeafStats& stats, const AttributeSet& model, Scratch& s) const {
    const double* gram = imputed(stats.gram, s);
    model_columns(model, s.columns);
    if (is_narrow(gram, s.columns)) {
      collect_rows(data_, box, s.rows);
      drop_constant(gram, s);
      if (is_narrow(gram, s.columns)) gram = recentred(gram, s);
    }
    Buffers::Room work(reader_.buffers(), work_size(int(s.columns.size())));
    return kernels_.residual(gram, data_.width, s.columns.data(), int(s.columns.size()), work.data());
  }

  void evaluate_by(PaperEvaluation& paper, GrowTree& tree, Scratch& s) const {
    for (int offending = 0; offending >= 0;) {
      paper.redistribute(tree);
      offending = -1;
      for (int v = 1; v < int(tree.nodes.size()) && offending < 0; ++v)
        if (tree[v].is_leaf() && paper.count(v) < least_rows(tree[v].model)) offending = v;
      if (offending >= 0) cut_off(tree, offending);
    }
    limit_root(tree);
    s.rows_read += data_.n_rows;
    LeafColumns columns(tree.nodes.size());
    for (size_t v = 0; v < tree.nodes.size(); ++v)
      if (tree[v].is_leaf()) model_columns(tree[v].model, columns[v]);
    const std::vector<double> errors = paper.errors(columns);
    for (size_t v = 0; v < tree.nodes.size(); ++v) {
      tree.nodes[v].n_rows = paper.count(int(v));
      tree.nodes[v].error = errors[v];
    }
    reduce(tree);
  }

  double centred_square(const double* gram, int column) const {
    const double sum = gram[packed(0, column, data_.width)];
    return gram[packed(column, column, data_.width)] - sum * sum / gram[0];
  }

  // Whether a column varies so little beside its distance from the mean of all rows that centring cancels the digits
  // that the residual needs. Columns that do not vary at all are left out of it.
  bool is_narrow(const double* gram, int column) const {
    const double centred = centred_square(gram, column), raw = gram[packed(column, column, data_.width)];
    return centred < kNarrow * raw && (centred > kConstant * raw || column == data_.width - 1);
  }
  bool is_narrow(const double* gram, const std::vector<int32_t>& columns) const {
    const auto is_one = [&](int column) { return is_narrow(gram, column); };
    return is_one(data_.width - 1) || std::any_of(columns.begin() + 1, columns.end(), is_one);
  }

  // Of the narrow columns of s.columns those that are constant in s.rows go: what sums found by subtraction say of them
  // is rounding. A look at their ranks costs a hundredth of the sums about the leaf's own means.
  void drop_constant(const double* gram, Scratch& s) const {
    for (int a = 0; a < data_.n_attributes; ++a) {
      const auto at = std::find(s.columns.begin() + 1, s.columns.end(), data_.column[a]);
      if (data_.column[a] < 0 || at == s.columns.end() || !is_narrow(gram, *at)) continue;
      const int32_t* ranks = data_.ranks_of(a);
      int32_t first = -1;
      const auto differs = [&](int32_t row) {
        if (first < 0) first = ranks[row];
        return ranks[row] >= 0 && ranks[row] != first;
      };
      if (std::none_of(s.rows.begin(), s.rows.end(), differs)) s.columns.erase(at);
    }
  }

  // The sums about the leaf's own means from its rows, s.rows, without the columns that are constant up to rounding.
  const double* recentred(const double* gram, Scratch& s) const {
    const int width = data_.width;
    std::erase_if(s.columns,
                  [&](int32_t c) { return c > 0 && centred_square(gram, c) <= kConstant * gram[packed(c, c, width)]; });
    std::vector<double> means(width, 0);
    for (int c = 1; c < width; ++c) means[c] = gram[packed(0, c, width)] / gram[0];
    std::vector<double> z(width * kLanes + kLanes);
    std::vector<int32_t> lanes(kLanes);
    std::iota(lanes.begin(), lanes.end(), 0);
    s.recentred.assign(packed_size(width), 0);
    for (size_t first = 0; first < s.rows.size(); first += kLanes) {
      const size_t count = std::min<size_t>(kLanes, s.rows.size() - first);
      for (size_t i = 0; i < count; ++i) recentre_row(s.rows[first + i], means, z.data() + i * width);
      kernels_.accumulate({z.data(), nullptr, size_t(width)}, width, lanes.data(), count, s.recentred.data());
    }
    s.rows_read += int64_t(s.rows.size());
    return s.recentred.data();
  }

  // Missing values stand at the mean, so at 0.
  void recentre_row(int32_t row, const std::vector<double>& means, double* out) const {
    const StoredRows& z = data_.z;
    out[0] = z.at(row, 0);
    for (int c = 1; c < data_.width; ++c) out[c] = z.at(row, c) - means[c] * out[0];
    for (int a = 0; a < data_.n_attributes; ++a)
      if (data_.indicator[a] >= 0 && z.at(row, data_.indicator[a]) != 0) out[data_.column[a]] = 0;
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

  // A tree of one leaf cannot be cut off: with too few rows for its model it becomes a constant.
  void limit_root(GrowTree& tree) const {
    GrowNode& root = tree.nodes[0];
    if (root.is_leaf() && root.model.count() + 2 > data_.n_rows) root.model = AttributeSet(data_.n_attributes);
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

  // Sums the leaves below `top` that the cache lacks; false if one of them has too few rows and was cut off.
  bool fill(GrowTree& tree, int top, StatsLayer& layer, Scratch& s, bool limited = true) const {
    const bool known = s.stats[top] && s.stats[top]->chain < kLongestChain;
    const int n_missing = mark_missing(tree, top, s);
    int64_t n_rows = known ? s.stats[top]->n_rows : -1;
    s.least.assign(tree.nodes.size(), 0);
    for (int v = top; v < subtree_end(tree, top); ++v) {
      if (!tree[v].is_leaf()) continue;
      if (s.stats[v] && known) n_rows -= s.stats[v]->n_rows;
      if (!s.stats[v] && v > 0 && limited) s.least[v] = least_rows(tree[v].model);
    }
    if (n_missing == 1 && known) return fill_last(tree, top, n_rows, layer, s);
    const LeafRequest request{&s.boxes[top], &tree, top, &s.missing, &s.least, nullptr, known, n_rows, &s.boxes};
    const int offending = reader_.sum_leaves(request, s);
    if (offending >= 0) return cut_off(tree, offending), false;
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
    if (n_rows < s.least[v]) return cut_off(tree, v), false;
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
    const Test before = tree.hint.before, after = tree[top].test;
    tree.hint.node = -1;
    if (before.attribute != after.attribute || before.missing_left != after.missing_left) return;
    GrowTree old = tree;
    old.nodes[top].test = before;
    s.shifted = s.boxes;
    narrow_below(data_, old, top, s.shifted);
    Interval between = s.boxes[top].interval(data_, after.attribute);
    between.low = std::max(between.low, std::min(before.cut, after.cut));
    between.high = std::max(between.low, std::min(between.high, std::max(before.cut, after.cut)));
    between.missing = false;
    const Box moved = s.boxes[top].with(between);
    const int sign = after.cut > before.cut ? 1 : -1;
    MovedRows sides[2] = {moved_rows(tree, tree[top].left, sign, layer, s),
                          moved_rows(tree, tree[top].right, -sign, layer, s)};
    reader_.fork(2, s, [&](int i, Scratch& own) {
      MovedRows& side = sides[i];
      if (!side.wanted[side.top]) return;
      reader_.sum_leaves({&moved, &tree, side.top, &side.wanted, nullptr, &side.most}, own);
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
      if (tree[v].is_leaf() && s.stats[v]->n_rows < least_rows(tree[v].model)) return v;
    return -1;
  }

  // The parent of a leaf with too few rows becomes its other child, or a leaf if that is one too.
  static void cut_off(GrowTree& tree, int leaf) {
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
      const double* known = node.is_leaf() ? layer.find_residual(*s.stats[v], node.model.hash()) : nullptr;
      node.error = known ? *known : 0;
      if (node.is_leaf() && !known) unknown.push_back(int(v));
    }
    const auto work = [&](int i) {
      constexpr double kAlone = 3;  // times what it takes of several matrices side by side
      const double k = tree[unknown[i]].model.count() + 1;
      return kAlone * (k * k * (k + 20) / 6 + 50);
    };
    reader_.share(int(unknown.size()), s, work, [&](int i, Scratch& own) {
      const int v = unknown[i];
      tree.nodes[v].error = solve(s.boxes[v], *s.stats[v], tree[v].model, own);
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
    tree.fitness = fitness_(tree.error, size_of(tree));
  }

  static constexpr int kLongestChain = 8;
  static constexpr double kNarrow = 1e-5;
  const GrowData& data_;
  Fitness fitness_;
  GrowLimits limits_;
  const RowReader& reader_;
  bool by_qr_;
  const GrowKernels& kernels_;
  const ModelColumns all_columns_;
};

}  // namespace silva
