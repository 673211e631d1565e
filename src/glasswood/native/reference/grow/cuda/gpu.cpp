// The launches of the paper's six procedures, each timed by events.
#include "reference/grow/cuda/gpu.h"

#include <stdexcept>

#include "reference/grow/cuda/records.h"

namespace glasswood {
namespace {

class GpuPaperEvaluation : public PaperEvaluation {
 public:
  GpuPaperEvaluation(const GrowData& data, const GpuPart& part, const StreamHandles& stream, const QrHandles& handles,
                     const CudaDriver& driver)
      : data_(data),
        rows_{address<const void>(part.z), address<const int32_t>(part.ranks), data.n_rows, nullptr},
        stride_(stream.stride),
        h_(handles),
        stream_(driver, stream.stream, stream.gpu),
        packet_(handles.packet) {}

  void redistribute(const GrowTree& tree) override {
    add_nodes(tree);
    if (n_leaves_ > 1 << 2 * kKeyBits)
      throw std::invalid_argument("a tree of more than 65,536 leaves; use device='cpu'");
    packet_.clear();
    const RouteNode* nodes = packet_.add(nodes_);
    auto* counts = const_cast<int32_t*>(packet_.add(std::vector<int32_t>(n_leaves_, 0)));
    begin();
    stream_.launch(h_.redistribute, n_tiles(), kBlockThreads, rows_, nodes, n_leaves_,
                   address<unsigned short>(h_.leaves), counts);
    mark(kRedistribute);
    const size_t bytes = n_leaves_ * sizeof(int32_t);
    if (bytes > h_.results_bytes) throw std::length_error("a tree has more leaves than the buffers on the GPU hold");
    stream_.copy_out(address<void>(h_.results), counts, bytes);
    mark(kTransfer);
    end();
    const auto* found = reinterpret_cast<const int32_t*>(h_.results);
    counts_.assign(tree.nodes.size(), 0);
    for (int slot = 0; slot < n_leaves_; ++slot) counts_[leaf_of_slot_[slot]] = found[slot];
  }

  int64_t count(int leaf) const override { return counts_[leaf]; }

  std::vector<double> errors(const LeafColumns& columns) override {
    packet_.clear();
    const Addresses plan = make_addresses(columns);
    begin();
    separate(plan);
    mark(kSeparate);
    reorganise(plan);
    mark(kReorganise);
    calc_models(plan);
    mark(kCalcModels);
    stream_.launch(h_.estimate_errors, (plan.n_chunks + kChunksOfBlock - 1) / kChunksOfBlock, kBlockThreads,
                   address<const double>(h_.matrices), plan.leaves, n_leaves_, plan.n_chunks,
                   address<const double>(h_.coefficients), address<double>(h_.chunks));
    mark(kEstimateErrors);
    stream_.launch(h_.reduction, n_leaves_, kSumLanes, plan.leaves, address<const double>(h_.chunks),
                   address<double>(h_.results));
    mark(kReduction);
    end();
    const auto* found = reinterpret_cast<const double*>(h_.results);
    std::vector<double> errors(counts_.size(), 0);
    for (int slot = 0; slot < n_leaves_; ++slot) errors[leaf_of_slot_[slot]] = found[slot];
    return errors;
  }

 private:
  static constexpr int kChunksOfBlock = kBlockThreads / kSumLanes;

  // Addresses on the GPU of what the packet brings there.
  struct Addresses {
    const QrLeaf* leaves;
    const QrColumn* columns;
    std::vector<const int64_t*> key_starts;  // by pass
    std::vector<int> n_keys;
    struct Level {
      const QrLevel* records;
      int n_records, n_blocks;
    };
    std::vector<Level> levels;
    const QrTriangle* triangles;
    int n_columns = 0, n_chunks = 0;
    bool has_missing = false;
  };

  int n_tiles() const { return int((data_.n_rows + kKeyTile - 1) / kKeyTile); }

  // Sends the packet. Events stand between the procedures: none waits for another's end on the host.
  void begin() {
    marks_.clear();
    stream_.enter();
    stream_.record(h_.events[0]);
    packet_.send(stream_);
    mark(kTransfer);
  }
  void mark(Procedure procedure) {
    marks_.push_back(procedure);
    stream_.record(h_.events[marks_.size()]);
  }
  void end() {
    stream_.synchronize();
    for (size_t i = 0; i < marks_.size(); ++i)
      if (seconds_) (*seconds_)[marks_[i]] += 1e-3 * stream_.milliseconds_between(h_.events[i], h_.events[i + 1]);
  }

  void add_nodes(const GrowTree& tree) {
    nodes_.clear();
    leaf_of_slot_.clear();
    for (size_t v = 0; v < tree.nodes.size(); ++v) {
      const GrowNode& node = tree.nodes[v];
      if (node.is_leaf())
        nodes_.push_back({-1, int32_t(leaf_of_slot_.size()), 0, 0, 0}), leaf_of_slot_.push_back(int(v));
      else
        nodes_.push_back({node.split.feature, node.split.threshold, node.split.missing_left, node.left, node.right});
    }
    n_leaves_ = int(leaf_of_slot_.size());
  }

  Addresses make_addresses(const LeafColumns& columns) {
    Addresses plan{};
    std::vector<QrLeaf> leaves;
    std::vector<QrColumn> all;
    int64_t first = 0, matrix = 0;
    for (const int v : leaf_of_slot_) {
      const int n_columns = int(columns[v].size());
      leaves.push_back({first, counts_[v], matrix, n_columns, int32_t(all.size()), plan.n_chunks, 0});
      for (const int32_t column : columns[v]) {
        all.push_back({column, column ? data_.indicator_of(column) : -1});
        plan.has_missing |= all.back().indicator >= 0;
      }
      first += counts_[v], matrix += counts_[v] * (n_columns + 1);
      plan.n_chunks += int((counts_[v] + kChunkRows - 1) / kChunkRows);
    }
    plan.n_columns = int(all.size());
    if (all.size() > h_.n_coefficients || leaves.size() * sizeof(double) > h_.results_bytes)
      throw std::length_error("a tree has more leaves than the buffers on the GPU hold");
    plan.leaves = packet_.add(leaves);
    plan.columns = packet_.add(all);
    plan_passes(leaves, plan);
    plan_levels(leaves, plan);
    return plan;
  }

  // Where the rows of each key begin, pass by pass, the low bits first.
  void plan_passes(const std::vector<QrLeaf>& leaves, Addresses& plan) {
    for (int shift = 0; shift == 0 || n_leaves_ - 1 >> shift; shift += kKeyBits) {
      std::vector<int64_t> starts(kKeys + 1, 0);
      for (int leaf = 0; leaf < n_leaves_; ++leaf) starts[(leaf >> shift & (kKeys - 1)) + 1] += leaves[leaf].count;
      for (int key = 0; key < kKeys; ++key) starts[key + 1] += starts[key];
      plan.n_keys.push_back(std::min(kKeys, (n_leaves_ - 1 >> shift) + 1));
      plan.key_starts.push_back(packet_.add(starts));
    }
  }

  // Triangles of all parts of all leaves, level by level until one is left of each leaf, and then room to solve it.
  void plan_levels(const std::vector<QrLeaf>& leaves, Addresses& plan) {
    std::vector<QrLevel> open;
    for (const QrLeaf& leaf : leaves)
      open.push_back(
          {address<const double>(h_.matrices) + leaf.matrix, nullptr, 1, leaf.count, leaf.count, leaf.n_columns, 0});
    std::vector<QrTriangle> triangles(leaves.size());
    std::vector<int> owners(leaves.size());
    for (size_t i = 0; i < owners.size(); ++i) owners[i] = int(i);
    used_doubles_ = 0;
    while (!open.empty()) {
      int n_blocks = 0;
      std::vector<QrLevel> next;
      std::vector<int> next_owners;
      for (size_t i = 0; i < open.size(); ++i) {
        QrLevel& level = open[i];
        const int side = level.n_columns + 1;
        const int64_t parts = n_parts(level.rows, side);
        level.first_block = n_blocks, n_blocks += int(parts);
        level.triangles = take_doubles(parts * level.n_columns * side);
        if (parts > 1) {
          next.push_back({level.triangles, nullptr, side, 1, parts * level.n_columns, level.n_columns, 0});
          next_owners.push_back(owners[i]);
        } else {
          double* coefficients = address<double>(h_.coefficients) + leaves[owners[i]].first_column;
          triangles[owners[i]] = {level.triangles, take_doubles(level.n_columns * side), coefficients, level.n_columns};
        }
      }
      plan.levels.push_back({packet_.add(open), int(open.size()), n_blocks});
      open = std::move(next), owners = std::move(next_owners);
    }
    plan.triangles = packet_.add(triangles);
  }

  double* take_doubles(int64_t count) {
    double* taken = address<double>(h_.triangles) + used_doubles_;
    used_doubles_ += count;
    if (used_doubles_ > h_.n_triangle_doubles)
      throw std::length_error("a tree has more leaves than the buffers on the GPU hold");
    return taken;
  }

  // Sorts (leaf, row) pairs by leaf.
  void separate(const Addresses& plan) {
    uint64_t from = h_.leaves, to = h_.sorted_leaves, list = 0, rows = h_.sorted_rows, other = h_.spare_rows;
    auto* counts = address<int32_t>(h_.tile_counts);
    for (size_t pass = 0; pass < plan.n_keys.size(); ++pass) {
      const int shift = int(pass) * kKeyBits, n_keys = plan.n_keys[pass];
      stream_.launch(h_.count_keys, n_tiles(), kBlockThreads, address<const unsigned short>(from), data_.n_rows, shift,
                     n_keys, n_tiles(), counts);
      stream_.launch(h_.scan_keys, n_keys, kBlockThreads, plan.key_starts[pass], n_tiles(), counts);
      stream_.launch(h_.separate, n_tiles(), kBlockThreads, address<const unsigned short>(from),
                     address<const int32_t>(list), data_.n_rows, shift, n_keys, n_tiles(),
                     address<const int32_t>(h_.tile_counts), address<unsigned short>(to), address<int32_t>(rows));
      sorted_ = {to, rows};
      std::swap(from, to);
      list = rows;
      std::swap(rows, other);
    }
  }

  void reorganise(const Addresses& plan) {
    const auto* means = address<const double>(h_.means);
    const auto* sorted_rows = address<const int32_t>(sorted_.rows);
    if (plan.has_missing)
      stream_.launch(h_.average_columns, plan.n_columns, kAverageThreads, rows_.z, stride_, sorted_rows, plan.leaves,
                     n_leaves_, plan.columns, address<double>(h_.means));
    stream_.launch(h_.reorganise, unsigned((data_.n_rows + kBlockThreads - 1) / kBlockThreads), kBlockThreads, rows_.z,
                   stride_, data_.width, data_.n_rows, address<const unsigned short>(sorted_.leaves), sorted_rows,
                   plan.leaves, plan.columns, means, address<double>(h_.matrices));
  }

  void calc_models(const Addresses& plan) {
    for (const Addresses::Level& level : plan.levels)
      stream_.launch(h_.factorise, level.n_blocks, kBlockThreads, level.records, level.n_records);
    stream_.launch(h_.calc_models, n_leaves_, kBlockThreads, plan.triangles);
  }

  struct Sorted {
    uint64_t leaves = 0, rows = 0;
  };

  const GrowData& data_;
  const GpuRows rows_;
  const int stride_;
  QrHandles h_;
  CudaStream stream_;
  Packet packet_;
  std::vector<RouteNode> nodes_;
  std::vector<int> leaf_of_slot_;
  std::vector<int64_t> counts_;  // by node
  std::vector<Procedure> marks_;
  Sorted sorted_;
  size_t used_doubles_ = 0;
  int n_leaves_ = 0;
};

}  // namespace

std::unique_ptr<PaperEvaluation> make_gpu_evaluation(const GrowData& data, const GpuPart& part,
                                                     const StreamHandles& stream, const QrHandles& handles,
                                                     const CudaDriver& driver) {
  return std::make_unique<GpuPaperEvaluation>(data, part, stream, handles, driver);
}

}  // namespace glasswood
