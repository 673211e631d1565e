// What the walk of one row keeps from call to call.
#pragma once
#include "common/threads/borrowed_team.h"
#include "explain/cpu/kernel_tables.h"
#include "explain/cpu/row_trees.h"
#include "explain/row_engine.h"

namespace glasswood {

// The trees outlive it.
template <class Real>
class RowWalkMemory : public RowEngine<Real> {
 public:
  explicit RowWalkMemory(const RowTrees<Real>& trees)
      : RowEngine<Real>({trees.n_features, trees.n_players, trees.n_outputs, trees.coding.ranked}),
        trees_(trees),
        encoded_(trees.n_features),
        total_(n_groups() * this->values.size()),
        threads_(std::min<int64_t>(trees.n_threads, n_groups())) {
    for (Thread& thread : threads_) thread.reserve(trees);
    task_ = {
        .nodes = trees.nodes.data(),
        .trees = trees.trees.data(),
        .slot_player = trees.slot_player.data(),
        .points = trees.points.data(),
        .means = trees.means.data(),
        .upper = trees.blocks.upper.data(),
        .blocks = trees.blocks.blocks.data(),
        .parts = trees.blocks.parts.data(),
        .block_splits = trees.blocks.splits.data(),
        .part_z = trees.blocks.z.data(),
        .block_value = trees.blocks.values.data(),
        .sets = trees.sets.data(),
        .words = trees.words.data(),
        .n_outputs = trees.n_outputs,
        .width = trees.width,
        .encoded = encoded_.data(),
    };
  }

  void run(const RowSource& row) override {
    encode_rows<float>(trees_.coding.view(), row, 0, 1, 1, 1, encoded_.data());
    std::fill(total_.begin(), total_.end(), 0.0);
    if (threads_.size() == 1) {
      for (int64_t group = 0; group < n_groups(); ++group) explain(group, 0);
    } else {
      const BorrowedTeam threads(int(threads_.size()));
      share_out(threads.team(), n_groups(), [&](int64_t group, int32_t thread) { explain(group, thread); });
    }
    for (size_t i = 0; i < this->values.size(); ++i) {
      double sum = 0;
      for (int64_t group = 0; group < n_groups(); ++group) sum += total_[group * this->values.size() + i];
      this->values[i] = Real(sum);
    }
  }

 private:
  struct alignas(128) Block {  // as the vectors of the most lanes
    char bytes[128];
  };
  struct Thread {
    std::vector<Real> z;
    std::vector<Block> frames, phi;
    std::vector<uint16_t> met;

    void reserve(const RowTrees<Real>& trees) {
      const auto n_blocks = [](int64_t n_bytes) { return n_bytes / int64_t(sizeof(Block)) + 1; };
      z.resize(trees.most_slots);
      frames.resize(n_blocks((trees.most_depth + 1) * kRowFrameBytes));
      phi.resize(n_blocks(int64_t(trees.most_slots) * trees.width * kMostRowLanes * int64_t(sizeof(Real))));
      met.resize(trees.blocks.most_edges);
    }
    RowSpace<Real> space() { return {z.data(), frames.data()->bytes, phi.data()->bytes, met.data()}; }
  };

  const RowTrees<Real>& trees_;
  std::vector<float> encoded_;
  std::vector<double> total_;  // [group][player][output]
  std::vector<Thread> threads_;
  RowWalkTask<Real> task_;

  int64_t n_groups() const { return int64_t(trees_.first_tree.size()) - 1; }
  void explain(int64_t group, int32_t thread) {
    const RowTree* trees = trees_.trees.data();
    explain_kernels<Real>().row(task_, threads_[thread].space(), trees + trees_.first_tree[group],
                                trees + trees_.first_tree[group + 1], total_.data() + group * this->values.size());
  }
};

}  // namespace glasswood
