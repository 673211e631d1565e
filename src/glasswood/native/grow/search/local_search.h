// Local search on one tree: every move is tried until none improves the fitness. Where subtasks run beside each other,
// several moves are tried on the same tree at once; the first that improves it is taken, as if they had been tried in
// turn.
#pragma once
#include <functional>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "grow/search/leaf_changes.h"
#include "grow/search/move_keys.h"
#include "grow/search/operators.h"
#include "grow/search/rebuilding.h"
#include "grow/search/settings.h"

namespace glasswood {

// Levels from a split that is pulled up to its new place. Far ones take most of the time and seldom gain: trees other
// than the best one go without. Those that come to beat it are polished thoroughly in their turn.
constexpr int kThorough = std::numeric_limits<int>::max(), kBrief = 3;

class Polish {
 public:
  Polish(const OperatorContext& context, const PolishMoves& moves, int reach, const std::function<bool()>& stopped)
      : c_(context), e_(context.evaluator), moves_(moves), reach_(reach), stopped_(stopped) {}

  // The tree must have been evaluated; the result is, and is no worse.
  GrowTree run(GrowTree tree) {
    best_ = std::move(tree);
    for (bool improved = true; improved && !stopped_();) {
      if (moves_.models) thin_models();
      if (moves_.variants && try_variants()) continue;
      improved = moves_.thresholds && try_thresholds();
      if (improved) continue;
      improved = moves_.splits && (try_splits() || try_exchanges());
      if (improved) continue;
      improved = moves_.pull_ups && try_pull_ups(false);
      if (improved) continue;
      improved = moves_.rotations && try_pull_ups(true);
    }
    return std::move(best_);
  }

 private:
  static constexpr double kGain = 1e-9;     // smaller differences are rounding
  static constexpr double kNotable = 0.2;   // of a parameter's price: smaller gains are taken, not followed up
  static constexpr double kTogether = 0.5;  // of the largest gain: splits that are made at once
  enum MoveKind : uint64_t {
    kVariantMove = 0,
    kThresholdMove = 4,
    kSplitMove = 5,
    kExchangeMove = 6,
    kPullUpMove = 16,
    kRotateMove = 32
  };
  static constexpr int kRotatedLeaves = 20;  // of a subtree; settling larger ones takes longer than it helps

  const GrowData& data() const { return e_.data(); }
  void evaluate(GrowTree& tree) { e_.evaluate(tree, c_.layer, c_.scratch); }
  double least_gain() const { return kGain * (1 + std::abs(best_.fitness)); }
  bool better(const GrowTree& tree) const { return tree.fitness < best_.fitness - least_gain(); }

  bool is_notable(double before) const { return best_.fitness < before - kNotable * e_.fitness().parameter_price(); }

  bool accept(GrowTree&& tree) {
    if (!better(tree)) return false;
    best_ = std::move(tree);
    return true;
  }

  bool evaluate_and_accept(GrowTree&& tree) {
    evaluate(tree);
    return accept(std::move(tree));
  }

  double price() const { return e_.fitness().price(best_.error); }

  bool thin_models() {
    GrowTree tree = best_;
    all_boxes(data(), tree, c_.scratch.boxes);
    const std::vector<Box> boxes = c_.scratch.boxes;
    const std::vector<int> leaves = nodes_of_kind(tree, true);
    std::vector<const LeafStats*> stats;
    for (const int v : leaves) stats.push_back(e_.stats_of(boxes[v], c_.layer, c_.scratch));
    e_.tasks().fork(int(leaves.size()), c_.scratch, [&](int i, Scratch& s) {
      tree.nodes[leaves[i]].model = e_.select_model(*stats[i], all_features(data()), price(), s);
    });
    return evaluate_and_accept(std::move(tree));
  }

  // A move on the best tree.
  struct Move {
    int v;
    uint64_t kind;
    GrowSplit split{};  // that is pulled up
    Key key{};
  };
  struct Attempt {
    GrowTree tree;
    bool improves = false;
  };

  // Every move on the best tree, none of them taken. `run` takes the move on the Polish that it is given.
  template <class Run>
  std::vector<Attempt> attempt(const std::vector<Move>& moves, Run run) {
    std::vector<Attempt> attempts(moves.size());
    run_apart(c_, int(moves.size()), [&](int i, const OperatorContext& context) {
      if (stopped_()) return;
      Polish apart(context, moves_, reach_, stopped_);
      apart.best_ = best_;
      attempts[i].improves = run(apart, moves[i]);
      attempts[i].tree = std::move(apart.best_);
    });
    return attempts;
  }

  // Tries moves from the last node to the first and takes one a node that improves the tree. `moves_at` tells those of
  // a node.
  template <class MovesAt, class Run>
  bool try_upwards(MovesAt moves_at, Run run) {
    const size_t most = std::min<size_t>(32, e_.tasks().n_together()), first = std::min<size_t>(4, most);
    bool improved = false;
    size_t together = first;
    for (Place place{int(best_.nodes.size()) - 1, 0};;) {
      std::vector<Place> places;
      const std::vector<Move> moves = untried(place, -1, together, moves_at, places);
      if (moves.empty()) return improved;
      std::vector<Attempt> attempts = attempt(moves, run);
      size_t i = 0;
      for (; i < moves.size() && !attempts[i].improves; ++i) {
        if (stopped_()) return false;
        remember_failure(moves[i].key);
      }
      together = i < moves.size() ? first : std::min(2 * together, most);
      if (i == moves.size()) continue;
      best_ = std::move(attempts[i].tree);
      improved = true;
      place = {places[i].v - 1, 0};
    }
  }

  // Which of a node's moves.
  struct Place {
    int v;
    size_t option;
  };

  // The next moves, `most` at most, that have not failed; `place` moves on.
  template <class MovesAt>
  std::vector<Move> untried(Place& place, int step, size_t most, MovesAt moves_at, std::vector<Place>& places) {
    std::vector<Move> moves;
    place.v = std::min(place.v, int(best_.nodes.size()) - (step < 0));
    all_boxes(data(), best_, boxes_);
    for (; place.v >= 0 && place.v < int(best_.nodes.size()); place = {place.v + step, 0}) {
      std::vector<Move> all = moves_at(place.v);
      for (; place.option < all.size(); ++place.option) {
        if (moves.size() == most) return moves;
        Move& move = all[place.option];
        move.key = move_key(move);
        if (has_failed(move.key)) continue;
        moves.push_back(move);
        places.push_back(place);
      }
    }
    return moves;
  }

  bool try_variants() {
    const auto moves_at = [this](int v) {
      std::vector<Move> moves;
      for (uint64_t kind = 0; kind < 3 && !best_[v].is_leaf(); ++kind) moves.push_back({v, kVariantMove + kind});
      return moves;
    };
    std::vector<Place> places;
    Place place{0, 0};
    const std::vector<Move> moves = untried(place, 1, std::numeric_limits<size_t>::max(), moves_at, places);
    std::vector<Attempt> attempts = attempt(moves, [](Polish& p, const Move& move) {
      return p.evaluate_and_accept(variant(p.best_, move.v, int(move.kind - kVariantMove)));
    });
    int winner = -1;
    for (int i = 0; i < int(moves.size()) && !stopped_(); ++i) {
      if (!attempts[i].improves)
        remember_failure(moves[i].key);
      else if (winner < 0 || attempts[i].tree.fitness < attempts[winner].tree.fitness)
        winner = i;
    }
    return winner >= 0 && accept(std::move(attempts[winner].tree));
  }

  // Level by level: the thresholds of one level do not depend on each other.
  bool try_thresholds() {
    const double before = best_.fitness;
    const auto attempt_threshold = [](Polish& p, const Move& move) {
      GrowTree tree = search_threshold(p.c_, p.best_, move.v);
      return !(tree[move.v].split == p.best_[move.v].split) && p.evaluate_and_accept(std::move(tree));
    };
    for (int depth = 0, n_inner = 1; n_inner > 0; ++depth) {
      std::vector<Move> moves;
      n_inner = 0;
      const std::vector<int> depths = node_depths(best_);
      all_boxes(data(), best_, boxes_);
      for (int v = 0; v < int(best_.nodes.size()); ++v) {
        if (depths[v] != depth || best_[v].is_leaf()) continue;
        ++n_inner;
        if (const Move move{v, kThresholdMove}; !has_failed(move_key(move))) moves.push_back(move);
      }
      // Afterwards all thresholds and sums are known.
      if (e_.tasks().n_together() > 1 && moves.size() > 1) attempt(moves, attempt_threshold);
      for (const Move& move : moves) {
        if (move.v >= int(best_.nodes.size()) || best_[move.v].is_leaf()) continue;
        all_boxes(data(), best_, boxes_);
        const Key key = move_key(move);
        const double fitness = best_.fitness;
        attempt_threshold(*this, move);
        if (!is_notable(fitness)) remember_failure(key);
      }
    }
    return is_notable(before);
  }

  // Leaves that may be split and have not failed. boxes_ become those of the best tree.
  std::vector<int> splittable(const std::vector<int>& leaves) {
    all_boxes(data(), best_, boxes_);
    const std::vector<int> depths = node_depths(best_);
    std::vector<int> chosen;
    for (const int v : leaves)
      if (best_[v].n_rows >= 2 * e_.limits().min_samples_leaf && depths[v] < e_.limits().max_depth &&
          !has_failed(move_key({v, kSplitMove})))
        chosen.push_back(v);
    return chosen;
  }

  // The best splits of these leaves that gain, the others are remembered.
  std::vector<LeafChange> gaining_splits(const std::vector<int>& leaves) {
    std::vector<LeafChange> splits = LeafChanges(c_, stopped_).best(best_, leaves, boxes_);
    if (stopped_()) return {};
    std::erase_if(splits, [this](const LeafChange& split) {
      if (split.gain > least_gain()) return false;
      remember_failure(move_key({split.v, kSplitMove}));
      return true;
    });
    return splits;
  }

  // Splits leaves, those that gain most first, until the tree is full: several at once, as they do not depend on each
  // other and their sums are known.
  bool try_splits() {
    bool improved = false;
    std::vector<LeafChange> open;
    for (std::vector<int> leaves = nodes_of_kind(best_, true); !stopped_();) {
      const int room = e_.limits().max_leaves - best_.n_leaves();
      if (room <= 0) return improved;
      for (LeafChange& split : gaining_splits(splittable(leaves))) open.push_back(std::move(split));
      if (open.empty()) return improved;
      std::stable_sort(open.begin(), open.end(), [](const auto& a, const auto& b) { return a.gain > b.gain; });
      size_t n = 1;
      while (n < std::min<size_t>(room, open.size()) && open[n].gain >= kTogether * open[0].gain) ++n;
      const std::vector<LeafChange> taken(open.begin(), open.begin() + n);
      const size_t size = best_.nodes.size() + 2 * n;
      if (!evaluate_and_accept(with_changes(best_, taken))) return improved;
      improved = true;
      if (best_.nodes.size() != size) return improved;
      open.erase(open.begin(), open.begin() + n);
      leaves = renumber_behind(taken, open);
    }
    return improved;
  }

  // In a full tree: splits leaves in exchange for pairs of leaves that lose less when they are joined.
  bool try_exchanges() {
    if (best_.n_leaves() < e_.limits().max_leaves) return false;
    const std::vector<int> leaves = splittable(nodes_of_kind(best_, true));
    const Key key = move_key({0, kExchangeMove});
    if (has_failed(key)) return false;
    const std::vector<LeafChange> changes = exchanges(gaining_splits(leaves), joined_pairs(), least_gain());
    if (stopped_()) return false;
    if (!changes.empty() && evaluate_and_accept(with_changes(best_, changes))) return true;
    if (changes.size() > 2 && evaluate_and_accept(with_changes(best_, {changes[0], changes[1]}))) return true;
    remember_failure(key);
    return false;
  }

  std::vector<LeafChange> joined_pairs() {
    std::vector<LeafChange> joined;
    for (int v = 0; v < int(best_.nodes.size()); ++v)
      if (!best_[v].is_leaf() && best_[best_[v].left].is_leaf() && best_[best_[v].right].is_leaf())
        joined.push_back(LeafChanges(c_, stopped_).pruned(best_, v, boxes_[v]));
    return joined;
  }

  // boxes_ must be those of the best tree.
  Key move_key(const Move& move) const {
    return glasswood::move_key(data(), best_, move.v, boxes_[move.v], move.kind, price());
  }

  bool has_failed(const Key& move) const { return c_.layer.find_split(move) != nullptr; }
  void remember_failure(const Key& move) { c_.layer.add_split(move, {}); }

  // Within reach.
  std::vector<GrowSplit> splits_below(int v, const std::vector<int>& depths) const {
    std::vector<GrowSplit> splits;
    for (int u = v + 1; u < subtree_end(best_, v); ++u)
      if (!best_[u].is_leaf() && depths[u] - depths[v] <= reach_ && !(best_[u].split == best_[v].split) &&
          std::find(splits.begin(), splits.end(), best_[u].split) == splits.end())
        splits.push_back(best_[u].split);
    return splits;
  }

  bool try_pull_ups(bool settled) {
    const auto moves_at = [&](int v) {
      std::vector<Move> moves;
      if (best_[v].is_leaf() || (settled && subtree_end(best_, v) - v > 2 * kRotatedLeaves - 1)) return moves;
      for (const GrowSplit& split : splits_below(v, node_depths(best_)))
        moves.push_back({v, (settled ? kRotateMove : kPullUpMove) + hash_of(split), split});
      return moves;
    };
    return try_upwards(moves_at,
                       [settled](Polish& p, const Move& move) { return p.pull_up(move.v, move.split, settled); });
  }

  bool pull_up(int v, const GrowSplit& split, bool settled) {
    all_boxes(data(), best_, c_.scratch.boxes);
    GrowTree tree = pulled_up(data(), best_, v, c_.scratch.boxes[v], split);
    if (tree.n_leaves() > 2 * e_.limits().max_leaves) return false;
    e_.sum_nodes(tree, c_.layer, c_.scratch);  // many leaves are too small
    evaluate(tree);
    if (v < int(tree.nodes.size())) prune_back(c_, tree, v, price());
    if (settled && v < int(tree.nodes.size())) {
      settle(c_, tree, v);
      prune_back(c_, tree, v, price());
    }
    return tree.n_leaves() <= e_.limits().max_leaves && accept(std::move(tree));
  }

  const OperatorContext& c_;
  const Evaluator& e_;
  PolishMoves moves_;
  int reach_;
  const std::function<bool()>& stopped_;
  GrowTree best_;
  std::vector<Box> boxes_;
};

}  // namespace glasswood
