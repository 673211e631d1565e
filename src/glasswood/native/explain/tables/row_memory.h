// What explanations of one row keep from call to call.
#pragma once
#include "explain/row_engine.h"
#include "explain/tables/tables.h"

namespace glasswood {

// The steps of all subtrees side by side, and what a row needs on its way. The tables outlive it.
template <class Real>
class RowMemory : public RowEngine<Real> {
 public:
  explicit RowMemory(const SubtreeTables<Real>& tables)
      : RowEngine<Real>({tables.n_features(), tables.n_players(), tables.n_outputs(), tables.row_is_double()}) {
    const TablePlan& plan = tables.plan();
    const int64_t n = int64_t(plan.subtrees.size()), n_blocks = (n + kRowLanes - 1) / kRowLanes;
    const int64_t n_padded = n_blocks * kRowLanes + kRowAhead;
    base_.assign(n_padded, 0);
    first_byte_.assign(n_padded, 0);
    key_bytes_.assign(n_padded, 0);
    first_step_.assign(1, 0);
    for (int64_t block = 0; block < n_blocks; ++block) add_block(plan, block * kRowLanes);
    for (const TableChunk& chunk : plan.chunks)
      std::fill_n(key_bytes_.begin() + chunk.first_subtree, chunk.n_subtrees,
                  uint16_t(chunk.state_vectors * kValueLanes * sizeof(Real) / kKeyScale));
    const TableForest<Real>& forest = tables.kept_->forest();
    const int64_t n_columns = int64_t(forest.columns.size()), n_players = int64_t(forest.players.size());
    encoded_.resize(tables.n_features());
    codes_.resize(std::max<int64_t>(4, (n_columns + kRowLanes) / kRowLanes) * kRowLanes);
    keys_.resize(n_padded);
    total_.resize(n_players);
    task_ = {
        .plan = tables.kept_->arrays(),
        .columns = forest.columns.data(),
        .thresholds = forest.thresholds.data(),
        .category_codes = forest.category_codes.data(),
        .players = forest.players.data(),
        .n_columns = int32_t(n_columns),
        .n_players = int32_t(n_players),
        .n_result_players = tables.n_players(),
        .n_outputs = tables.n_outputs(),
        .coding = forest.coding.view(),
        .steps = steps_.data(),
        .first_step = first_step_.data(),
        .base = base_.data(),
        .first_byte = first_byte_.data(),
        .key_bytes = key_bytes_.data(),
        .n_blocks = int32_t(n_blocks),
        .table = tables.table(),
        .encoded = encoded_.data(),
        .codes = codes_.data(),
        .keys = keys_.data(),
        .total = total_.data(),
        .values = this->values.data(),
    };
  }

  void run(const RowSource& row) override { table_kernels<Real>().row(task_, row); }

 private:
  std::vector<RowStep> steps_;
  std::vector<int32_t> first_step_;
  std::vector<uint16_t> base_, keys_, key_bytes_;
  std::vector<int64_t> first_byte_;
  std::vector<float> encoded_;
  std::vector<int16_t> codes_;
  std::vector<double> total_;
  RowTask<Real> task_;

  void add_block(const TablePlan& plan, int64_t first) {
    const int64_t end = std::min<int64_t>(first + kRowLanes, int64_t(plan.subtrees.size()));
    int32_t most = 0;
    for (int64_t s = first; s < end; ++s) most = std::max(most, plan.subtrees[s].n_steps);
    const size_t at = steps_.size();
    steps_.resize(at + most, RowStep{});
    first_step_.push_back(int32_t(steps_.size()));
    for (int64_t s = first; s < end; ++s) {
      const Subtree& subtree = plan.subtrees[s];
      base_[s] = subtree.base;
      first_byte_[s] = subtree.first_vector * int64_t(kValueLanes * sizeof(Real));
      for (int32_t i = 0; i < subtree.n_steps; ++i) {
        const KeyStep& step = plan.steps[subtree.first_step + i];
        RowStep& to = steps_[at + i];
        to.column[s - first] = step.column, to.bound[s - first] = step.bound, to.weight[s - first] = step.weight;
      }
    }
  }
};

}  // namespace glasswood
