// Writes trees as tapes for the walk of explain/cuda/walk.h. Host code; the format is in explain/cuda/tape_format.h.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/bindings.h"
#include "explain/cuda/tape_format.h"
#include "explain/leaves.h"

namespace glasswood {

struct TapeForest : ForestView {
  std::span<const int32_t> column, rank;  // the test: code(column) < rank goes left

  // Leaves are numbered in node order; each tree has one more of them than splits.
  int64_t first_leaf(int64_t tree) const { return (tree_offsets[tree] + tree) / 2; }
};

// A glasswood.Forest beside the ranks of its tests (glasswood.cuda.codes.Codes).
inline TapeForest tape_forest(nb::handle forest, nb::handle codes) {
  return {view_of(forest), field<int32_t>(codes, "node_column"), field<int32_t>(codes, "node_rank")};
}

// Walks: a tree's leaves `begin` to `end` - 1 in depth-first order, the leaf component and the output that they add to;
// in chunks of one output each.
struct TapePlan {
  std::span<const int32_t> tree, component, output, begin, end;
  std::span<const int64_t> chunk_offsets;
  std::span<const double> t, w;  // n_passes times n_points
  int64_t n_points;
  bool pairs;
  std::span<const uint8_t> selected;  // interactions of these features only; empty: of all
};

struct Tape {
  std::vector<int32_t> words;
  std::vector<int64_t> chunk_starts;  // in quads
  std::vector<int64_t> slot_offsets;  // accumulators of each chunk
  std::vector<int64_t> slot_keys;     // (output * n_features + i) * n_features + j, i <= j; i = j without pairs
  int64_t n_levels = 0, n_tracks = 0, n_slots = 0;  // largest of any chunk or tree
};

// What the paths of each tree need: distinct features on a path, levels of splits.
struct TreeShape {
  std::vector<int32_t> distinct, height;
};

namespace detail {

// Occurrence of a feature on the current path.
struct Above {
  int32_t level = -1, track = 0, node = -1;
  double z = 1;
};

// Heights of the nodes of one tree, and which splits are repeated below. With some of the leaves only, subtrees
// without any of them are cut off: their roots count as leaves.
struct TreeMarks {
  std::vector<int32_t> height;
  std::vector<uint8_t> tracked, alive;  // alive: holds one of the leaves
  int32_t distinct = 0;

  TreeMarks(const TapeForest& forest, int64_t tree, std::vector<int32_t>& last, int32_t begin = 0,
            int32_t end = std::numeric_limits<int32_t>::max())
      : first_(forest.tree_offsets[tree]), forest_(forest), last_(last) {
    const int64_t n_nodes = forest.tree_offsets[tree + 1] - first_;
    height.assign(n_nodes, 0);
    tracked.assign(n_nodes, 0);
    find_alive(n_nodes, begin, end);
    for (int64_t node = n_nodes - 1; node >= 0; --node)
      if (const int32_t left = forest.left[first_ + node]; left && alive[node])
        height[node] = 1 + std::max(height[left], height[left + 1]);
    mark(0, 0);
  }

 private:
  void find_alive(int64_t n_nodes, int32_t begin, int32_t end) {
    std::vector<int32_t> n_leaves(n_nodes, 1), first_leaf(n_nodes, 0);
    for (int64_t node = n_nodes - 1; node >= 0; --node)
      if (const int32_t left = forest_.left[first_ + node]) n_leaves[node] = n_leaves[left] + n_leaves[left + 1];
    alive.resize(n_nodes);
    for (int64_t node = 0; node < n_nodes; ++node) {
      alive[node] = first_leaf[node] < end && first_leaf[node] + n_leaves[node] > begin;
      if (const int32_t left = forest_.left[first_ + node]) {
        first_leaf[left] = first_leaf[node];
        first_leaf[left + 1] = first_leaf[node] + n_leaves[left];
      }
    }
  }

  void mark(int32_t node, int32_t above) {
    const int32_t left = forest_.left[first_ + node];
    if (!height[node]) {
      distinct = std::max(distinct, above);
      return;
    }
    int32_t& last = last_[forest_.feature[first_ + node]];
    const int32_t before = last;
    if (before >= 0) tracked[before] = 1;
    last = node;
    for (int side = 0; side < 2; ++side) mark(left + side, above + (before < 0));
    last = before;
  }

  int64_t first_;
  const TapeForest& forest_;
  std::vector<int32_t>& last_;
};

}  // namespace detail

inline TreeShape tree_shapes(const TapeForest& forest) {
  TreeShape shape;
  std::vector<int32_t> last(forest.n_features, -1);
  for (int64_t tree = 0; tree < forest.n_trees(); ++tree) {
    const detail::TreeMarks marks(forest, tree, last);
    shape.distinct.push_back(marks.distinct);
    shape.height.push_back(marks.height[0]);
  }
  return shape;
}

template <class Real>
class TapeWriter {
 public:
  TapeWriter(const TapeForest& forest, const TapePlan& plan)
      : forest_(forest),
        plan_(plan),
        leaves_(forest, sizeof(Real) == sizeof(float)),
        above_(forest.n_features),
        last_(forest.n_features, -1) {}

  Tape write() {
    tape_.slot_offsets.push_back(0);
    const int64_t n_passes = int64_t(plan_.t.size()) / plan_.n_points;
    for (int64_t pass = 0; pass < n_passes; ++pass)
      for (size_t chunk = 0; chunk + 1 < plan_.chunk_offsets.size(); ++chunk) write_chunk(pass, chunk);
    return std::move(tape_);
  }

 private:
  struct Split {
    int32_t node, level, track;
    detail::Above before;
    double z[2], rho[2];  // of the first and the second child
    int32_t child[2];
    int packed;
  };

  void write_chunk(int64_t pass, size_t chunk) {
    t_ = plan_.t.subspan(pass * plan_.n_points, plan_.n_points);
    tape_.chunk_starts.push_back(int64_t(tape_.words.size()) / 4);
    slots_.clear(), filled_.clear();
    const int64_t begin = plan_.chunk_offsets[chunk], end = plan_.chunk_offsets[chunk + 1];
    put(Chunk{int(end - begin), {}});
    fetched_ = tape_.words.size();
    put_points([&](int64_t k) { return t_[k]; });
    put_points([&](int64_t k) { return plan_.w[pass * plan_.n_points + k]; });
    for (int64_t item = begin; item < end; ++item) write_tree(item);
    put(Quad{});
    tape_.slot_offsets.push_back(int64_t(tape_.slot_keys.size()));
    tape_.n_slots = std::max(tape_.n_slots, int64_t(slots_.size()));
  }

  void write_tree(int64_t item) {
    const int64_t tree = plan_.tree[item];
    first_ = forest_.tree_offsets[tree];
    output_ = plan_.output[item];
    const detail::TreeMarks marks(forest_, tree, last_, plan_.begin[item], plan_.end[item]);
    marks_ = &marks;
    tape_.n_levels = std::max(tape_.n_levels, int64_t(marks.height[0]));
    gather_values(tree, plan_.component[item]);
    close_head(put_head(0, 0, 0), 0);
    subtree(0, 0, 0);
  }

  // Leaves of other segments are 0: the game of a tree is the sum of its leaves' games.
  void gather_values(int64_t tree, int64_t component) {
    value_.assign(marks_->height.size(), 0);
    int64_t leaf = forest_.first_leaf(tree);
    for (size_t node = 0; node < value_.size(); ++node) {
      if (forest_.left[first_ + node]) continue;
      const double value = leaves_.values[leaf++ * forest_.width + component];
      if (marks_->alive[node]) value_[node] = value;
    }
  }

  void subtree(int32_t node, int32_t level, int32_t track) {
    const Split split = describe(node, level, track);
    const bool repeated = split.packed & REPEATED;
    const int32_t feature = forest_.feature[first_ + node];
    tape_.words[next_column_] = forest_.column[first_ + node];
    const size_t head = put_head(forest_.rank[first_ + node], slot(node), split.packed);
    if (split.packed & TWO_LEAVES) {
      mark_first(head);
      put_leaves(split, repeated);
      close_head(head, count_pairs(feature));
      put_pairs(feature);
      return;
    }
    const bool one_leaf = split.packed & ONE_LEAF;
    put_reals(split.z[0], split.z[1], one_leaf ? value_[split.child[1]] : 0, 0);
    if (plan_.pairs || split.packed & (REPEATED | TRACKED)) put_links(split);
    if (plan_.pairs) put_ratios(split, 0);
    if (repeated) {
      put_reals(split.rho[0], split.rho[1], split.before.z, 0);
      put_points([&](int64_t k) { return 1 / height_at(split, k); });
    }
    close_head(head, 0);
    tape_.n_tracks = std::max(tape_.n_tracks, int64_t(track) + 1);
    for (int side = 0; side < (one_leaf ? 1 : 2); ++side) put_child(split, side, one_leaf);
    put_pairs(feature);
  }

  void put_child(const Split& split, int side, bool one_leaf) {
    const int32_t feature = forest_.feature[first_ + split.node];
    const bool tracked = split.packed & TRACKED, last = one_leaf || side == 1;
    if (split.before.level < 0) path_.push_back(feature);
    above_[feature] = {split.level, split.track, split.node, split.z[side]};
    subtree(split.child[side], split.level + 1, split.track + tracked);
    above_[feature] = split.before;
    if (split.before.level < 0) path_.pop_back();
    const size_t head = put_head(0, slot(split.node), split.packed | (side ? SECOND_CHILD : 0));
    put_ratios(split, side);
    if (last) mark_first(head);
    if (!last) {
      put_reals(split.z[1], split.rho[1], 0, 0);
      if (plan_.pairs || split.packed & TRACKED) put_links(split);
      if (plan_.pairs) put_ratios(split, 1);
    }
    close_head(head, last ? count_pairs(feature) : 0);
  }

  // The first value of an accumulator is written where others add: nobody fills it with zeros before. Interactions of
  // its feature may come first.
  void mark_first(size_t head) {
    int32_t& slot = tape_.words[head + 2];
    if (!plan_.pairs && filled_.insert(slot).second) slot = ~slot;
  }

  size_t put_head(int threshold, int slot, int packed) {
    const size_t head = tape_.words.size();
    put(Head{0, threshold, slot, packed});
    next_column_ = head;
    return head;
  }
  void close_head(size_t head, int n_pairs) {
    const size_t n_bytes = (tape_.words.size() - head) * sizeof(int32_t);
    if (n_bytes > SIZE || n_pairs > MOST_PAIRS)
      throw std::invalid_argument("a path of the forest holds more than 65,535 features; explain it on the CPU");
    unsigned packed = unsigned(n_bytes) | unsigned(n_pairs) << PAIRS_SHIFT;
    const size_t end = tape_.words.size() + size_t(n_pairs + 1) / 2 * 4;
    if ((end - fetched_) * sizeof(int32_t) >= WINDOW) {
      packed |= FETCH;
      fetched_ = end;
    }
    tape_.words[head + 3] |= int(packed);
  }

  Split describe(int32_t node, int32_t level, int32_t track) {
    const int32_t left = forest_.left[first_ + node];
    Split split{node, level, track, above_[forest_.feature[first_ + node]], {}, {}, {left, left + 1}, 0};
    const bool leaf[2] = {!marks_->height[left], !marks_->height[left + 1]};
    if (leaf[0] && leaf[1])
      split.packed |= TWO_LEAVES;
    else if (leaf[0] || leaf[1])
      split.packed |= ONE_LEAF;
    if (leaf[0] && !leaf[1]) {
      std::swap(split.child[0], split.child[1]);
      split.packed |= SWAPPED;
    }
    if (split.before.level >= 0) split.packed |= REPEATED;
    if (marks_->tracked[node]) split.packed |= TRACKED;
    split.packed |= std::min(marks_->height[node], TALLEST) << HEIGHT_SHIFT;
    for (int side = 0; side < 2; ++side) {
      split.rho[side] = cover_ratio(forest_, first_ + node, first_ + split.child[side]);
      split.z[side] = split.before.z * split.rho[side];
    }
    return split;
  }

  double height_at(const Split& split, int64_t k) const { return split.before.z + (1 - split.before.z) * t_[k]; }

  void put_leaves(const Split& split, bool repeated) {
    const double v[2] = {value_[split.child[0]], value_[split.child[1]]};
    const double mean = split.z[0] * v[0] + split.z[1] * v[1];
    put_reals(mean, v[0] - mean, v[1] - mean, split.rho[0] * v[0] + split.rho[1] * v[1]);
    if (!repeated) return;
    put_links(split);
    put_reals(split.before.z * v[0] - mean, split.before.z * v[1] - mean, 0, 0);
    put_points([&](int64_t k) { return 1 / height_at(split, k); });
  }

  // r of an edge that the row takes, and of one that it does not take.
  void put_ratios(const Split& split, int side) {
    const double z = split.z[side], above = split.before.z;
    put_points([&](int64_t k) { return (above - z) / ((z + (1 - z) * t_[k]) * height_at(split, k)); });
    put_points([&](int64_t k) { return -1 / ((1 - t_[k]) * height_at(split, k)); });
  }

  void put_links(const Split& split) {
    const auto mask = [](int32_t track) { return 1u << (track & 31); };
    const auto word = [](int32_t track) { return static_cast<unsigned short>(track >> 5); };
    put(Links{mask(split.before.track), mask(split.track), static_cast<unsigned short>(split.level), word(split.track),
              static_cast<unsigned short>(std::max(split.before.level, 0)), word(split.before.track)});
  }

  bool wants(int32_t i, int32_t j) const { return plan_.selected.empty() || plan_.selected[i] || plan_.selected[j]; }
  int count_pairs(int32_t feature) const {
    if (!plan_.pairs) return 0;
    return int(std::count_if(path_.begin(), path_.end(), [&](int32_t i) { return i != feature && wants(i, feature); }));
  }
  void put_pairs(int32_t feature) {
    if (!plan_.pairs) return;
    Pairs pairs{};
    int filled = 0;
    for (const int32_t i : path_) {
      if (i == feature || !wants(i, feature)) continue;
      pairs.slot[filled] = slot_of(std::min(i, feature), std::max(i, feature));
      pairs.level[filled] = above_[i].level;
      if (++filled == 2) {
        put(pairs);
        filled = 0;
      }
    }
    if (filled) put(pairs);
  }
  int slot(int32_t node) {
    const int32_t feature = forest_.feature[first_ + node];
    return slot_of(feature, feature);
  }
  int slot_of(int32_t i, int32_t j) {
    const int64_t key = (output_ * forest_.n_features + i) * forest_.n_features + j;
    const auto [found, is_new] = slots_.try_emplace(key, int(slots_.size()));
    if (is_new) tape_.slot_keys.push_back(key);
    return found->second;
  }

  template <class Record>
  void put(const Record& record) {
    const size_t at = tape_.words.size();
    tape_.words.resize(at + sizeof(Record) / sizeof(int32_t));
    std::memcpy(&tape_.words[at], &record, sizeof(Record));
  }
  void put_reals(double a, double b, double c, double d) {
    struct {
      Real values[4];
    } four{{Real(a), Real(b), Real(c), Real(d)}};
    put(four);
  }
  template <class Value>
  void put_points(Value value) {
    const int64_t n = plan_.n_points;
    for (int64_t k = 0; k < n; k += 4)
      put_reals(value(k), k + 1 < n ? value(k + 1) : 0, k + 2 < n ? value(k + 2) : 0, k + 3 < n ? value(k + 3) : 0);
  }

  const TapeForest& forest_;
  const TapePlan& plan_;
  const WeightedLeaves leaves_;
  Tape tape_;
  std::vector<detail::Above> above_;
  std::vector<int32_t> last_, path_;
  std::unordered_map<int64_t, int> slots_;
  std::unordered_set<int32_t> filled_;  // slots that have got a value
  std::vector<double> value_;
  std::span<const double> t_;
  const detail::TreeMarks* marks_ = nullptr;
  int64_t first_ = 0, output_ = 0;
  size_t next_column_ = 0;  // word that takes the column of the next split
  size_t fetched_ = 0;      // end of the last record with FETCH
};

}  // namespace glasswood
