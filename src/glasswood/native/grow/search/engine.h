// The generational loop.
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "grow/search/evaluator.h"
#include "grow/search/met_trees.h"
#include "grow/search/settings.h"

namespace glasswood {

struct GenerationRecord {
  int64_t generation;
  double fitness, error, mean_leaves;
  int leaves;
};

// Who reads the rows, and who runs the tasks that ask for them.
struct SearchMachine {
  std::unique_ptr<TaskRunner> tasks;
  std::unique_ptr<TrainingRowSource> rows;
};

class Engine {
 public:
  Engine(const GrowData& data, const Fitness& fitness, const GrowLimits& limits, const GrowSettings& settings,
         SearchMachine machine);

  const TaskRunner& tasks() const { return *machine_.tasks; }
  const GrowTree& best() const { return best_; }
  const std::vector<GrowTree>& population() const { return population_; }
  // Trees of other splits near the best one, the fittest first, without splits and terms that do not pay.
  std::vector<GrowTree> met(const std::function<bool()>& stopped);
  int64_t generation() const { return generation_; }
  int64_t last_improvement() const { return last_improvement_; }
  // The tally of all threads.
  Tally tally() const;
  // Trees evaluated and rows read, in seconds that they take about on one CPU core of 2020. It is counted, not
  // measured: the same for any machine, its load and the number of threads.
  double work() const;

  // Trees to start from take the first places of the population; the others are grown at random, or are the first one
  // once more where `stopped`.
  void initialise(std::vector<GrowTree> given, const std::function<bool()>& stopped);
  // One generation; `tolerance` is the least gain of fitness that counts as an improvement.
  GenerationRecord step(double tolerance, const std::function<bool()>& stopped);
  // Outside of the loop: evaluates the trees, applies the named operator and evaluates what it leaves.
  void apply(const std::string& name, GrowTree& a, int v, GrowTree& b, int w, uint64_t seed);

 private:
  template <class Task>
  void parallel(int n_tasks, Task task, int purpose);
  int fittest() const;
  bool take_best(double tolerance);
  std::vector<GrowTree> select() const;
  double met_limit() const { return best_.fitness + evaluator_.fitness().margin(best_.error, settings_.margin); }
  void polish(double tolerance, const std::function<bool()>& stopped);
  int n_random_polished() const;
  bool is_new_tree(int k) const;
  GenerationRecord record() const;

  SearchMachine machine_;
  GrowLimits limits_;
  Evaluator evaluator_;
  GrowSettings settings_;
  StatsCache cache_;
  std::vector<Scratch> scratch_;
  ThreadPool pool_;
  std::vector<GrowTree> population_;
  GrowTree best_;
  MetTrees met_;
  int64_t generation_ = 0, last_improvement_ = 0;
  double polished_fitness_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace glasswood
