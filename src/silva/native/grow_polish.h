// Local search on one tree: every move is tried until none improves the fitness.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "grow_operators.h"

namespace silva {

struct PolishMoves {
  bool models = true;    // backward elimination in every leaf
  bool variants = true;  // prune every node, promote its children
  bool sweeps = true;    // best threshold of every test
  bool splits = true;    // best split of every leaf
  bool pull_ups = true;  // a test from below takes the node's place
  bool repairs = true;   // variants followed by sweeps
};

class Polish {
 public:
  Polish(const OperatorContext& context, const PolishMoves& moves, const std::function<bool()>& stopped)
      : c_(context), e_(context.evaluator), moves_(moves), stopped_(stopped) {}

  // The tree must have been evaluated; the result is, and is no worse.
  GrowTree run(GrowTree tree) {
    best_ = std::move(tree);
    for (bool improved = true; improved && !stopped_();) {
      if (moves_.models) thin_models();
      if (moves_.variants && try_variants()) continue;
      improved = moves_.sweeps && try_sweeps();
      improved = (moves_.splits && try_splits()) || improved;
      if (improved) continue;
      improved = moves_.pull_ups && try_pull_ups();
      if (improved) continue;
      improved = moves_.repairs && try_repairs();
    }
    return std::move(best_);
  }

 private:
  static constexpr double kGain = 1e-9;  // smaller differences are rounding

  const GrowData& data() const { return e_.data(); }
  void evaluate(GrowTree& tree) { e_.evaluate(tree, c_.layer, c_.scratch); }
  bool better(const GrowTree& tree) const { return tree.fitness < best_.fitness - kGain * (1 + std::abs(best_.fitness)); }

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

  AttributeSet selected_model(const Box& box, const AttributeSet& start) {
    const LeafStats& stats = *e_.stats_of(box, c_.layer, c_.scratch);
    const int64_t most = std::max<int64_t>(stats.n_rows - 2, 0);
    return select_model(e_, stats, start, price(), int(most), c_.scratch);
  }

  bool thin_models() {
    GrowTree tree = best_;
    all_boxes(data(), tree, c_.scratch.boxes);
    std::vector<Box> boxes = c_.scratch.boxes;
    for (size_t v = 0; v < tree.nodes.size(); ++v)
      if (tree[v].is_leaf()) tree.nodes[v].model = selected_model(boxes[v], all_attributes(data()));
    return evaluate_and_accept(std::move(tree));
  }

  // Prune or promote: the subtree at v gives way to a leaf or to one of its children.
  GrowTree variant(const GrowTree& tree, int v, int kind) {
    if (kind == 0) return with_leaf(tree, v, models_below(tree, v));
    return with_subtree(tree, v, tree, kind == 1 ? tree[v].left : tree[v].right);
  }

  bool try_variants() {
    std::optional<GrowTree> winner;
    for (const int v : nodes_of_kind(best_, false))
      for (int kind = 0; kind < 3; ++kind) {
        GrowTree tree = variant(best_, v, kind);
        evaluate(tree);
        if (better(tree) && (!winner || tree.fitness < winner->fitness)) winner = std::move(tree);
      }
    return winner && accept(std::move(*winner));
  }

  bool try_sweeps() {
    bool improved = false;
    for (int v = 0; v < int(best_.nodes.size()); ++v) {
      if (best_[v].is_leaf()) continue;
      GrowTree tree = sweep_node(c_, best_, v);
      if (tree[v].test == best_[v].test) continue;
      improved = evaluate_and_accept(std::move(tree)) || improved;
    }
    return improved;
  }

  // Attributes tried in the models of a split that is only looked for: all, unless that is too many.
  AttributeSet search_model(const AttributeSet& model, int attribute) const {
    AttributeSet wide = data().n_linear() <= 24 ? all_attributes(data()) : model;
    if (data().column[attribute] >= 0) wide.set(attribute, true);
    return wide;
  }

  FoundTest best_cut(const Box& box, const AttributeSet& model, int attribute, bool missing_left) {
    const Key key = box.key().plus(0x5911, uint64_t(attribute) * 2 + missing_left).plus(0x17, model.hash());
    if (const FoundTest* known = c_.layer.find_test(key)) return *known;
    GrowTree stump;
    push_leaf(stump, model);
    ThresholdSweep sweep(e_, c_.scratch);
    const FoundCut found = sweep.run({&box, attribute, missing_left, &stump, 0, 0, true});
    const FoundTest result{{found.cut < 0 ? -1 : attribute, found.cut, missing_left}, found.error};
    c_.layer.add_test(key, result);
    return result;
  }

  FoundTest best_split(const Box& box, const AttributeSet& model) {
    FoundTest best{{}, std::numeric_limits<double>::infinity()};
    for (int a = 0; a < data().n_attributes && !stopped_(); ++a)
      for (int side = 0; side < (box.interval(data(), a).missing ? 2 : 1); ++side) {
        const FoundTest found = best_cut(box, search_model(model, a), a, side == 1);
        if (found.test.attribute >= 0 && found.score < best.score) best = found;
      }
    return best;
  }

  GrowTree split_leaf(const GrowTree& tree, int v, const Box& box, const Test& test) {
    const AttributeSet all = all_attributes(data());
    const AttributeSet left = selected_model(box.narrowed(data(), test, true), all);
    const AttributeSet right = selected_model(box.narrowed(data(), test, false), all);
    return with_split(tree, v, test, left, right);
  }

  bool try_splits() {
    bool improved = false;
    for (int v = 0; v < int(best_.nodes.size()); ++v) {
      if (!best_[v].is_leaf() || best_[v].n_rows < 2 * e_.limits().min_samples_leaf) continue;
      if (best_.n_leaves() >= e_.limits().max_leaves) break;
      all_boxes(data(), best_, c_.scratch.boxes);
      const Box box = c_.scratch.boxes[v];
      const FoundTest found = best_split(box, best_[v].model);
      if (found.test.attribute < 0) continue;
      improved = evaluate_and_accept(split_leaf(best_, v, box, found.test)) || improved;
    }
    return improved;
  }

  static bool is_empty(const GrowData& data, const Box& box, int attribute) {
    const Interval interval = box.interval(data, attribute);
    return interval.low >= interval.high && !interval.missing;
  }

  // The subtree cut back to what rows of the box can reach.
  int push_reachable(GrowTree& out, const GrowTree& tree, int v, const Box& box) const {
    if (tree[v].is_leaf()) return push_leaf(out, tree[v].model);
    const Test& test = tree[v].test;
    const Box left = box.narrowed(data(), test, true), right = box.narrowed(data(), test, false);
    if (is_empty(data(), left, test.attribute)) return push_reachable(out, tree, tree[v].right, box);
    if (is_empty(data(), right, test.attribute)) return push_reachable(out, tree, tree[v].left, box);
    return push_split(out, test, [&] { return push_reachable(out, tree, tree[v].left, left); },
                      [&] { return push_reachable(out, tree, tree[v].right, right); });
  }

  GrowTree pulled_up(const GrowTree& tree, int v, const Test& test) {
    all_boxes(data(), tree, c_.scratch.boxes);
    const Box box = c_.scratch.boxes[v];
    const Box left = box.narrowed(data(), test, true), right = box.narrowed(data(), test, false);
    return replaced(tree, v, [&](GrowTree& out) {
      return push_split(out, test, [&] { return push_reachable(out, tree, v, left); },
                        [&] { return push_reachable(out, tree, v, right); });
    });
  }

  // Prunes bottom-up wherever a leaf costs less than the subtree, the fitness made linear at the best tree's error.
  void cut_back(GrowTree& tree) {
    all_boxes(data(), tree, c_.scratch.boxes);
    const std::vector<Box> boxes = c_.scratch.boxes;
    const double price = this->price(), leaf_price = e_.fitness().bic ? price : 0;
    std::vector<double> cost(tree.nodes.size());
    std::vector<int> cut;
    for (int v = int(tree.nodes.size()) - 1; v >= 0; --v) {
      if (tree[v].is_leaf()) {
        cost[v] = tree[v].error + price * tree[v].model.count() + leaf_price;
        continue;
      }
      cost[v] = cost[tree[v].left] + cost[tree[v].right] + price * e_.fitness().test_weight;
      const LeafStats& stats = *e_.stats_of(boxes[v], c_.layer, c_.scratch);
      const AttributeSet model = selected_model(boxes[v], models_below(tree, v));
      const double as_leaf = e_.residual(stats, model, c_.layer, c_.scratch) + price * model.count() + leaf_price;
      if (as_leaf > cost[v]) continue;
      cost[v] = as_leaf;
      tree = with_leaf(tree, v, model);
      cost.erase(cost.begin() + v + 1, cost.begin() + v + 1 + (int(cost.size()) - int(tree.nodes.size())));
    }
    evaluate(tree);
  }

  std::vector<Test> tests_below(int v) const {
    std::vector<Test> tests;
    for (int u = v + 1; u < subtree_end(best_, v); ++u)
      if (!best_[u].is_leaf() && !(best_[u].test == best_[v].test) &&
          std::find(tests.begin(), tests.end(), best_[u].test) == tests.end())
        tests.push_back(best_[u].test);
    return tests;
  }

  bool try_pull_ups() {
    for (const int v : nodes_of_kind(best_, false))
      for (const Test& test : tests_below(v)) {
        if (stopped_()) return false;
        GrowTree tree = pulled_up(best_, v, test);
        if (tree.n_leaves() > 2 * e_.limits().max_leaves) continue;
        evaluate(tree);
        cut_back(tree);
        if (tree.n_leaves() <= e_.limits().max_leaves && accept(std::move(tree))) return true;
      }
    return false;
  }

  // A variant that only pays once the tests above it and at it have moved.
  bool try_repairs() {
    for (const int v : nodes_of_kind(best_, false))
      for (int kind = 0; kind < 3; ++kind) {
        if (stopped_()) return false;
        GrowTree tree = variant(best_, v, kind);
        evaluate(tree);
        for (int u = 0; u <= v && u < int(tree.nodes.size()); ++u) {
          if (tree[u].is_leaf() || subtree_end(tree, u) <= v) continue;
          tree = sweep_node(c_, tree, u);
          evaluate(tree);
        }
        if (accept(std::move(tree))) return true;
      }
    return false;
  }

  const OperatorContext& c_;
  const Evaluator& e_;
  PolishMoves moves_;
  const std::function<bool()>& stopped_;
  GrowTree best_;
};

}  // namespace silva
