// The generational loop.
#pragma once
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "common/threads/thread_pool.h"
#include "grow/search/local_search.h"

namespace silva {

// Rates of the operators within their group: crossovers; mutations of a test; mutations of a leaf.
struct OperatorRates {
  double swap_subtrees = 1, swap_tests = 1, swap_branches = 1, copy_better = 1;
  double new_test = 1, shift_threshold = 1, prune = 0.5, sweep = 0.1;
  double expand = 1, change_model = 1;
};

struct GrowSettings {
  uint64_t seed = 0;
  int population = 64;
  double crossover = 0.2, mutation = 0.8;
  int polish_interval = 5;  // generations; 0: never
  int polish_random = 1;    // random trees polished beside the best one
  int n_threads = 1;
  bool by_qr = false;  // the paper's evaluation
  OperatorRates rates;
  PolishMoves moves;
};

// Generations without improvement after which every kOften-th random tree that is polished is a new one, and after
// which every kSeldom-th.
constexpr int64_t kStagnant = 20, kSettled = 200;
constexpr int kOften = 2, kSeldom = 4;
constexpr int kTogether = 4;  // polishes whose random trees come together
// Generations without improvement from which on random trees are polished ever more seldom: a search that still goes on
// then has been told to by its user.
constexpr int64_t kAtRest = 1000;

enum Purpose : uint64_t { kInitialise, kSelect, kVary, kPolish, kTest };

struct GenerationRecord {
  int64_t generation;
  double fitness, error, mean_leaves;
  int leaves;
};

class Engine {
 public:
  Engine(const GrowData& data, const Fitness& fitness, const GrowLimits& limits, const GrowSettings& settings,
         size_t cache_bytes, std::unique_ptr<RowReader> reader)
      : reader_(std::move(reader)),
        evaluator_(data, fitness, limits, *reader_, settings.by_qr),
        settings_(settings),
        cache_(cache_bytes),
        pool_(settings.n_threads) {
    // One a thread on the cores, one a task of the largest phase on a GPU.
    scratch_.resize(std::max({pool_.n_threads(), settings.population, kTogether * settings.polish_random + 1}));
  }

  const Evaluator& evaluator() const { return evaluator_; }
  const GrowTree& best() const { return best_; }
  const std::vector<GrowTree>& population() const { return population_; }
  int64_t generation() const { return generation_; }
  int64_t last_improvement() const { return last_improvement_; }
  int64_t n_evaluations() const {
    int64_t total = 0;
    for (const Scratch& s : scratch_) total += s.n_evaluations;
    return total;
  }
  int64_t rows_read() const {
    int64_t total = 0;
    for (const Scratch& s : scratch_) total += s.rows_read;
    return total;
  }

  // Of the paper's evaluation, summed over threads.
  ProcedureSeconds procedure_seconds() const {
    ProcedureSeconds total{};
    for (const Scratch& s : scratch_)
      for (int p = 0; p < kProcedures; ++p) total[p] += s.procedures[p];
    return total;
  }

  // Trees to start from take the first places of the population; the others are grown at random.
  void initialise(std::vector<GrowTree> given) {
    population_ = std::move(given);
    const int n_given = std::min<int>(int(population_.size()), settings_.population);
    population_.resize(settings_.population);
    parallel(
        settings_.population,
        [&](int i, const OperatorContext& c) {
          if (i >= n_given) {
            population_[i] = new_tree(c);
            return;
          }
          shrink(population_[i]);
          c.evaluator.evaluate(population_[i], c.layer, c.scratch);
        },
        kInitialise);
    best_ = population_[fittest()];
  }

  // One generation; `tolerance` is the least gain of fitness that counts as an improvement.
  GenerationRecord step(double tolerance, const std::function<bool()>& stopped) {
    ++generation_;
    std::vector<GrowTree> parents = select();
    parallel(
        settings_.population / 2,
        [&](int i, const OperatorContext& c) {
          if (!stopped()) vary(parents[2 * i], parents[2 * i + 1], c);
        },
        kVary);
    population_ = std::move(parents);
    population_[0] = best_;
    take_best(tolerance);
    if (settings_.polish_interval && generation_ % settings_.polish_interval == 1 % settings_.polish_interval)
      polish(tolerance, stopped);
    cache_.trim();
    return record();
  }

  // Random numbers of one operator call outside the loop, for tests.
  template <class Apply>
  void apply_alone(uint64_t seed, Apply apply) {
    StatsLayer layer(cache_);
    Random random(seed, 0, 0, kTest);
    apply(OperatorContext{evaluator_, layer, scratch_[0], random});
    cache_.merge(layer);
  }

  GrowTree polished(const GrowTree& tree, const PolishEffort& effort, const OperatorContext& c,
                    const std::function<bool()>& stopped) const {
    return Polish(c, settings_.moves, effort, stopped).run(tree);
  }

 private:
  // Tasks see the cache as it was before the phase, whatever the number of threads.
  template <class Task>
  void parallel(int n_tasks, Task task, Purpose purpose) {
    std::vector<StatsLayer> layers;
    layers.reserve(n_tasks);
    for (int i = 0; i < n_tasks; ++i) layers.emplace_back(cache_);
    reader_->run(pool_, n_tasks, [&](int i, int scratch) {
      Random random(settings_.seed, uint64_t(generation_), uint64_t(i), purpose);
      task(i, OperatorContext{evaluator_, layers[i], scratch_[scratch], random});
    });
    for (StatsLayer& layer : layers) cache_.merge(layer);
  }

  int fittest() const {
    int best = 0;
    for (int i = 1; i < int(population_.size()); ++i)
      if (population_[i].fitness < population_[best].fitness) best = i;
    return best;
  }

  bool take_best(double tolerance) {
    const GrowTree& candidate = population_[fittest()];
    if (!(candidate.fitness < best_.fitness)) return false;
    const bool counts = candidate.fitness < best_.fitness - tolerance * (1 + std::abs(best_.fitness));
    best_ = candidate;
    if (counts) last_improvement_ = generation_;
    return counts;
  }

  std::vector<GrowTree> select() const {
    std::vector<int> order(population_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return population_[a].fitness > population_[b].fitness; });
    Random random(settings_.seed, uint64_t(generation_), 0, kSelect);
    std::vector<GrowTree> parents;
    for (size_t i = 0; i < population_.size(); ++i)
      parents.push_back(population_[order[random.ranked(int64_t(order.size()))]]);
    return parents;
  }

  void vary(GrowTree& a, GrowTree& b, const OperatorContext& c) const {
    const bool crossed = c.random.chance(settings_.crossover);
    if (crossed) {
      cross(a, b, c);
      run_apart(c, 2, [&](int i, const OperatorContext& apart) {
        GrowTree& tree = i ? b : a;
        shrink(tree);
        apart.evaluator.evaluate(tree, apart.layer, apart.scratch);
      });
    }
    std::vector<GrowTree*> changed;
    for (GrowTree* tree : {&a, &b}) {
      if (!c.random.chance(settings_.mutation)) continue;
      *tree = mutated(*tree, c);
      changed.push_back(tree);
    }
    run_apart(c, int(changed.size()), [&](int i, const OperatorContext& apart) {
      apart.evaluator.evaluate(*changed[i], apart.layer, apart.scratch);
    });
  }

  // Offspring beyond the largest size lose their deepest splits.
  void shrink(GrowTree& tree) const {
    while (tree.n_leaves() > evaluator_.limits().max_leaves) {
      const std::vector<int> depths = node_depths(tree);
      int deepest = -1;
      for (const int v : nodes_of_kind(tree, false))
        if (deepest < 0 || depths[v] > depths[deepest]) deepest = v;
      tree = with_leaf(tree, deepest, models_below(tree, deepest));
    }
  }

  template <size_t n>
  static int drawn(const std::array<double, n>& rates, Random& random) {
    double total = 0;
    for (const double rate : rates) total += rate;
    double u = random.uniform() * total;
    for (int i = 0; i < int(n); ++i)
      if ((u -= rates[i]) < 0) return i;
    return total > 0 ? int(n) - 1 : -1;
  }

  void cross(GrowTree& a, GrowTree& b, const OperatorContext& c) const {
    const OperatorRates& r = settings_.rates;
    const bool splits = a.nodes.size() > 1 && b.nodes.size() > 1;
    const std::array<double, 4> rates = {r.swap_subtrees, splits ? r.swap_tests : 0, splits ? r.swap_branches : 0,
                                         r.copy_better};
    const int kind = drawn(rates, c.random);
    const auto pick = [&](const GrowTree& tree) {
      const bool inner = kind == 1 || kind == 2;
      const std::vector<int> nodes = nodes_of_kind(tree, false);
      return inner ? nodes[c.random.below(int64_t(nodes.size()))] : int(c.random.below(int64_t(tree.nodes.size())));
    };
    if (kind < 0) return;
    const int v = pick(a), w = pick(b);
    if (kind == 0) swap_subtrees(a, v, b, w);
    if (kind == 1) swap_tests(a, v, b, w);
    if (kind == 2) swap_branches(a, v, b, w, c.random);
    if (kind == 3) copy_better(a, v, b, w);
  }

  GrowTree mutated(const GrowTree& tree, const OperatorContext& c) const {
    const OperatorRates& r = settings_.rates;
    const bool leaf = c.random.chance(0.5) || tree.nodes.size() == 1;
    const int v = ranked_node(tree, leaf, c.random);
    if (leaf) {
      const double models = evaluator_.data().n_linear() ? r.change_model : 0;
      const int kind = drawn(std::array<double, 2>{r.expand, models}, c.random);
      return kind < 0 ? tree : kind == 0 ? expand(c, tree, v) : change_model(c, tree, v);
    }
    switch (drawn(std::array<double, 4>{r.new_test, r.shift_threshold, r.prune, r.sweep}, c.random)) {
      case 0:
        return new_test(c, tree, v);
      case 1:
        return shift_threshold(c, tree, v);
      case 2:
        return prune(c, tree, v);
      case 3:
        return sweep_node(c, tree, v);
      default:
        return tree;
    }
  }

  GrowTree new_tree(const OperatorContext& c) const {
    GrowTree tree = random_tree(c);
    shrink(tree);
    c.evaluator.evaluate(tree, c.layer, c.scratch);
    return tree;
  }

  // Top-down on a sub-sample, tests by dipoles, to a random depth (paper, section 3.2).
  GrowTree random_tree(const OperatorContext& c) const {
    const GrowData& data = evaluator_.data();
    const int64_t wanted = std::min<int64_t>(500, std::max<int64_t>(data.n_rows / 10, 20));
    RowList rows;
    for (int64_t i = 0; i < wanted; ++i) rows.push_back(int32_t(c.random.below(data.n_rows)));
    GrowTree tree;
    const int depth = int(c.random.between(1, 5));
    AttributeSet all = all_attributes(data);
    if (data.n_rows < all.count() + 2) all = AttributeSet(data.n_attributes);
    push_random(tree, rows, depth, all, c);
    return tree;
  }

  int push_random(GrowTree& tree, const RowList& rows, int depth, const AttributeSet& model,
                  const OperatorContext& c) const {
    Test test;
    const bool small = int64_t(rows.size()) < 2 * evaluator_.limits().min_samples_leaf;
    if (depth == 0 || small || !dipole_test(evaluator_.data(), rows, c.random, test)) return push_leaf(tree, model);
    RowList left, right;
    for (const int32_t row : rows)
      (test.left(evaluator_.data().rank(row, test.attribute)) ? left : right).push_back(row);
    return push_split(
        tree, test, [&] { return push_random(tree, left, depth - 1, model, c); },
        [&] { return push_random(tree, right, depth - 1, model, c); });
  }

  // The best tree, if it is new, and now and then random ones. A search that has come to rest polishes newly grown
  // trees among them: the population is then made of relatives of the best tree, and many of them lead back to it.
  void polish(double tolerance, const std::function<bool()>& stopped) {
    std::vector<int> chosen;
    if (!(best_.fitness == polished_fitness_)) chosen.push_back(0);
    Random random(settings_.seed, uint64_t(generation_), 0, kPolish);
    const int first = int(chosen.size());
    for (int k = 0; k < n_random_polished(); ++k)
      chosen.push_back(int(random.between(1, int64_t(population_.size()) - 1)));
    std::vector<GrowTree> results(chosen.size());
    parallel(
        int(chosen.size()),
        [&](int i, const OperatorContext& c) {
          const bool random = i >= first;
          results[i] = polished(random && is_new_tree(i - first) ? new_tree(c) : population_[chosen[i]],
                                random ? kBrief : kThorough, c, stopped);
        },
        kPolish);
    for (size_t i = 0; i < chosen.size(); ++i) population_[chosen[i]] = std::move(results[i]);
    if (!chosen.empty() && chosen[0] == 0) polished_fitness_ = population_[0].fitness;
    take_best(tolerance);
  }

  // Those of several polishes come together: beside each other they take little longer than one, on threads and on a
  // GPU. The first polish, which every search waits for, takes those of one.
  int n_random_polished() const {
    const int64_t polish = (generation_ - 1) / settings_.polish_interval;
    if (polish == 0) return settings_.polish_random;
    const int64_t apart = 1 + std::max<int64_t>(generation_ - last_improvement_ - kAtRest, 0) / kSettled;
    return polish % kTogether == 1 && polish / kTogether % apart == 0 ? kTogether * settings_.polish_random : 0;
  }

  // Whether the k-th of them is grown for it.
  bool is_new_tree(int k) const {
    const int64_t at_rest = generation_ - last_improvement_;
    return at_rest >= kStagnant && k % (at_rest < kSettled ? kOften : kSeldom) == 0;
  }

  GenerationRecord record() const {
    double leaves = 0;
    for (const GrowTree& tree : population_) leaves += tree.n_leaves();
    return {generation_, best_.fitness, best_.error, leaves / double(population_.size()), best_.n_leaves()};
  }

  std::unique_ptr<RowReader> reader_;
  Evaluator evaluator_;
  GrowSettings settings_;
  StatsCache cache_;
  std::vector<Scratch> scratch_;
  ThreadPool pool_;
  std::vector<GrowTree> population_;
  GrowTree best_;
  int64_t generation_ = 0, last_improvement_ = 0;
  double polished_fitness_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace silva
