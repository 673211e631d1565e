#include "grow/search/engine.h"

#include <cmath>
#include <stdexcept>

#include "grow/search/local_search.h"
#include "grow/search/surrogates.h"
#include "grow/search/variation.h"

namespace glasswood {

// Generations without improvement after which every kOften-th random tree that is polished is a new one, and after
// which every kSeldom-th.
constexpr int64_t kStagnant = 20, kSettled = 200;
constexpr int kOften = 2, kSeldom = 4;
constexpr int kTogether = 4;  // polishes whose random trees come together
// Generations without improvement from which on random trees are polished ever more seldom: a search that still goes on
// then has been told to by its user.
constexpr int64_t kAtRest = 1000;

enum Purpose { kInitialise, kSelect, kVary, kPolish, kApply, kReplace, kThin };

Engine::Engine(const GrowData& data, const Fitness& fitness, const GrowLimits& limits, const GrowSettings& settings,
               SearchMachine machine)
    : machine_(std::move(machine)),
      limits_(limits),
      evaluator_(data, fitness, limits_, *machine_.rows, *machine_.tasks, settings.by_qr),
      settings_(settings),
      cache_(settings.cache_bytes),
      pool_(settings.n_threads),
      met_(data) {
  // One a thread, or one a task of the largest phase where tasks wait beside each other.
  scratch_.resize(std::max({pool_.n_threads(), settings.population, kTogether * settings.polish_random + 1}));
}

Tally Engine::tally() const {
  Tally total;
  for (const Scratch& s : scratch_) total.add(s);
  return total;
}

double Engine::work() const {
  constexpr double kPerTree = 8e-6, kPerValue = 5e-9;
  const Tally total = tally();
  return kPerTree * double(total.n_evaluations) + kPerValue * double(total.rows_read) * double(evaluator_.data().width);
}

// Tasks see the cache as it was before the phase, whatever the number of threads. Where tasks wait beside each other,
// no more of them run at a time than there are scratch buffers.
template <class Task>
void Engine::parallel(int n_tasks, Task task, int purpose) {
  std::vector<StatsLayer> layers;
  layers.reserve(n_tasks);
  for (int i = 0; i < n_tasks; ++i) layers.emplace_back(cache_);
  const int most = machine_.tasks->n_together() > 1 ? int(scratch_.size()) : n_tasks;
  for (int first = 0; first < n_tasks; first += most)
    machine_.tasks->run(pool_, std::min(most, n_tasks - first), [&](int at, int scratch) {
      const int i = first + at;
      Random random(settings_.seed, uint64_t(generation_), uint64_t(i), uint64_t(purpose));
      task(i, OperatorContext{evaluator_, layers[i], scratch_[scratch], random});
    });
  for (StatsLayer& layer : layers) cache_.merge(layer);
}

void Engine::initialise(std::vector<GrowTree> given, const std::function<bool()>& stopped) {
  population_ = std::move(given);
  const int n_given = std::min<int>(int(population_.size()), settings_.population);
  population_.resize(settings_.population);
  std::vector<char> left_out(settings_.population, 0);
  parallel(
      settings_.population,
      [&](int i, const OperatorContext& c) {
        if (i >= n_given) {
          left_out[i] = i > 0 && stopped();
          if (!left_out[i]) population_[i] = new_tree(c);
          return;
        }
        shrink(population_[i], limits_);
        c.evaluator.evaluate(population_[i], c.layer, c.scratch);
      },
      kInitialise);
  for (int i = 1; i < settings_.population; ++i)
    if (left_out[i]) population_[i] = population_[0];
  best_ = population_[fittest()];
}

GenerationRecord Engine::step(double tolerance, const std::function<bool()>& stopped) {
  ++generation_;
  std::vector<GrowTree> parents = select();
  parallel(
      settings_.population / 2,
      [&](int i, const OperatorContext& c) {
        if (!stopped()) vary(parents[2 * i], parents[2 * i + 1], settings_, c);
      },
      kVary);
  population_ = std::move(parents);
  population_[0] = best_;
  take_best(tolerance);
  if (settings_.polish_interval && generation_ % settings_.polish_interval == 1 % settings_.polish_interval)
    polish(tolerance, stopped);
  if (settings_.margin > 0) met_.add(population_, met_limit());
  cache_.trim();
  return record();
}

static void apply_named(const std::string& name, GrowTree& a, int v, GrowTree& b, int w, const PolishMoves& moves,
                        const OperatorContext& c) {
  if (name == "evaluate") return;
  if (name == "evaluate_by_qr") return c.evaluator.evaluate_by_qr(a, c.scratch);
  if (name == "swap_subtrees") return swap_subtrees(a, v, b, w);
  if (name == "swap_splits") return swap_splits(a, v, b, w);
  if (name == "swap_branches") return swap_branches(a, v, b, w, c.random);
  if (name == "copy_better") return copy_better(a, v, b, w);
  const std::function<bool()> never = [] { return false; };
  if (name == "new_split")
    a = new_split(c, a, v);
  else if (name == "shift_threshold")
    a = shift_threshold(c, a, v);
  else if (name == "prune")
    a = prune(c, a, v);
  else if (name == "search_threshold")
    a = search_threshold(c, a, v);
  else if (name == "expand")
    a = expand(c, a, v);
  else if (name == "change_model")
    a = change_model(c, a, v);
  else if (name == "polish")
    a = Polish(c, moves, kThorough, never).run(a);
  else
    throw std::invalid_argument("unknown operator " + name);
}

void Engine::apply(const std::string& name, GrowTree& a, int v, GrowTree& b, int w, uint64_t seed) {
  StatsLayer layer(cache_);
  Random random(seed, 0, 0, kApply);
  const OperatorContext c{evaluator_, layer, scratch_[0], random};
  for (GrowTree* tree : {&a, &b}) evaluator_.evaluate(*tree, layer, c.scratch);
  apply_named(name, a, v, b, w, settings_.moves, c);
  for (GrowTree* tree : {&a, &b})
    if (name != "evaluate_by_qr") evaluator_.evaluate(*tree, layer, c.scratch);
  cache_.merge(layer);
}

int Engine::fittest() const {
  int best = 0;
  for (int i = 1; i < int(population_.size()); ++i)
    if (population_[i].fitness < population_[best].fitness) best = i;
  return best;
}

bool Engine::take_best(double tolerance) {
  const GrowTree& candidate = population_[fittest()];
  if (!(candidate.fitness < best_.fitness)) return false;
  const bool counts = candidate.fitness < best_.fitness - tolerance * (1 + std::abs(best_.fitness));
  best_ = candidate;
  if (counts) last_improvement_ = generation_;
  return counts;
}

std::vector<GrowTree> Engine::select() const {
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

// The best tree, if it is new, and now and then random ones. A search that has come to rest polishes newly grown
// trees among them: the population is then made of relatives of the best tree, and many of them lead back to it.
void Engine::polish(double tolerance, const std::function<bool()>& stopped) {
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
        GrowTree tree = random && is_new_tree(i - first) ? new_tree(c) : population_[chosen[i]];
        results[i] = Polish(c, settings_.moves, random ? kBrief : kThorough, stopped).run(std::move(tree));
      },
      kPolish);
  for (size_t i = 0; i < chosen.size(); ++i) population_[chosen[i]] = std::move(results[i]);
  if (!chosen.empty() && chosen[0] == 0) polished_fitness_ = population_[0].fitness;
  take_best(tolerance);
}

std::vector<GrowTree> Engine::met(const std::function<bool()>& stopped) {
  std::vector<GrowTree> trees = met_.within(met_limit());
  std::vector<std::vector<GrowTree>> others(best_.nodes.size());
  parallel(
      int(others.size()),
      [&](int v, const OperatorContext& c) {
        if (best_[v].is_leaf()) return;
        for (const Surrogate& surrogate : surrogates_of(c, best_, v))
          if (!stopped()) others[v].push_back(with_surrogate(c, best_, v, surrogate));
      },
      kReplace);
  for (std::vector<GrowTree>& of_node : others)
    for (GrowTree& tree : of_node)
      if (tree.fitness <= met_limit()) trees.push_back(std::move(tree));
  PolishMoves thinning{true, true, false, false, false, false};
  thinning.models &= settings_.moves.models, thinning.variants &= settings_.moves.variants;
  parallel(
      int(trees.size()),
      [&](int i, const OperatorContext& c) {
        trees[i] = Polish(c, thinning, kBrief, stopped).run(std::move(trees[i]));
      },
      kThin);
  MetTrees thin(evaluator_.data());
  thin.add(trees, met_limit());
  return thin.within(met_limit());
}

// Those of several polishes come together: beside each other they take little longer than one, on threads and on a
// GPU. The first polish, which every search waits for, takes those of one.
int Engine::n_random_polished() const {
  const int64_t polish = (generation_ - 1) / settings_.polish_interval;
  if (polish == 0) return settings_.polish_random;
  const int64_t apart = 1 + std::max<int64_t>(generation_ - last_improvement_ - kAtRest, 0) / kSettled;
  return polish % kTogether == 1 && polish / kTogether % apart == 0 ? kTogether * settings_.polish_random : 0;
}

// Whether the k-th of them is grown for it.
bool Engine::is_new_tree(int k) const {
  const int64_t at_rest = generation_ - last_improvement_;
  return at_rest >= kStagnant && k % (at_rest < kSettled ? kOften : kSeldom) == 0;
}

GenerationRecord Engine::record() const {
  double leaves = 0;
  for (const GrowTree& tree : population_) leaves += tree.n_leaves();
  return {generation_, best_.fitness, best_.error, leaves / double(population_.size()), best_.n_leaves()};
}

}  // namespace glasswood
