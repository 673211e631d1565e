// Gram matrices by box. During a parallel phase the cache is frozen and every task writes to its own layer; layers are
// merged in the order of the tasks, so that what a task sees does not depend on the number of threads. In the same way
// attempts of a task that run beside each other write to layers over the task's own.
#pragma once
#include <atomic>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grow/data/box.h"
#include "grow/sums/gram.h"

namespace glasswood {

struct LeafStats {
  Key key;
  int64_t n_rows = 0;
  int chain = 0;                                       // subtractions since the rows were last summed
  std::vector<double> gram;                            // packed
  std::vector<std::pair<uint64_t, double>> residuals;  // by hash of the feature set
  std::atomic<uint32_t> stamp = 0;

  const double* find_residual(uint64_t model) const {
    for (const auto& [hash, value] : residuals)
      if (hash == model) return &value;
    return nullptr;
  }
};

struct FoundSplit {
  GrowSplit split;
  double score = 0;
};

class StatsLayer;

class StatsCache {
 public:
  explicit StatsCache(size_t limit_bytes) : limit_(limit_bytes) {}

  LeafStats* find(const Key& key) const {
    const auto found = stats_.find(key);
    if (found == stats_.end()) return nullptr;
    found->second->stamp.store(now_, std::memory_order_relaxed);
    return found->second.get();
  }
  const FoundSplit* find_split(const Key& key) const {
    const auto found = splits_.find(key);
    return found == splits_.end() ? nullptr : &found->second;
  }
  void merge(StatsLayer& layer);
  void trim();

 private:
  static size_t bytes(const LeafStats& stats) { return stats.gram.size() * sizeof(double) + 160; }
  void recount() {
    bytes_ = 0;
    for (const auto& [key, stats] : stats_) bytes_ += bytes(*stats);
  }

  std::unordered_map<Key, std::unique_ptr<LeafStats>, KeyHash> stats_;
  std::unordered_map<Key, FoundSplit, KeyHash> splits_;
  size_t limit_, bytes_ = 0;
  uint32_t now_ = 0;
};

class StatsLayer {
 public:
  explicit StatsLayer(const StatsCache& below) : below_(&below) {}
  // Over a layer that nobody writes to meanwhile.
  explicit StatsLayer(const StatsLayer* outer) : below_(outer->below_), outer_(outer) {}

  LeafStats* find(const Key& key) const {
    if (LeafStats* stats = outer_ ? outer_->find(key) : below_->find(key)) return stats;
    const auto found = fresh_.find(key);
    return found == fresh_.end() ? nullptr : found->second.get();
  }
  LeafStats* add(std::unique_ptr<LeafStats> stats) {
    order_.push_back(stats->key);
    return (fresh_[stats->key] = std::move(stats)).get();
  }
  // Stats of the frozen cache are shared: their new residuals wait here for the merge.
  const double* find_residual(const LeafStats& stats, uint64_t model) const {
    if (const double* known = stats.find_residual(model)) return known;
    const auto found = residuals_.find(stats.key.plus(model, 1));
    if (found != residuals_.end()) return &found->second.value;
    return outer_ ? outer_->find_residual(stats, model) : nullptr;
  }
  void add_residual(const LeafStats& stats, uint64_t model, double value) {
    residuals_[stats.key.plus(model, 1)] = {stats.key, model, value};
  }
  const FoundSplit* find_split(const Key& key) const {
    if (const FoundSplit* known = outer_ ? outer_->find_split(key) : below_->find_split(key)) return known;
    const auto found = splits_.find(key);
    return found == splits_.end() ? nullptr : &found->second;
  }
  void add_split(const Key& key, const FoundSplit& split) { splits_[key] = split; }
  // Takes over what a layer over this one has found. What is known stays.
  void absorb(StatsLayer& inner) {
    for (const Key& key : inner.order_)
      if (auto& fresh = inner.fresh_[key]; fresh && !find(key)) add(std::move(fresh));
    residuals_.insert(inner.residuals_.begin(), inner.residuals_.end());
    splits_.insert(inner.splits_.begin(), inner.splits_.end());
  }

 private:
  friend class StatsCache;
  struct Residual {
    Key key;
    uint64_t model;
    double value;
  };
  const StatsCache* below_;
  const StatsLayer* outer_ = nullptr;
  std::unordered_map<Key, std::unique_ptr<LeafStats>, KeyHash> fresh_;
  std::vector<Key> order_;
  std::unordered_map<Key, Residual, KeyHash> residuals_;
  std::unordered_map<Key, FoundSplit, KeyHash> splits_;
};

// What an earlier task of the phase has added stays; the later copy may differ in its last bits only.
inline void StatsCache::merge(StatsLayer& layer) {
  for (const Key& key : layer.order_) {
    auto& fresh = layer.fresh_[key];
    if (!fresh || stats_.contains(key)) continue;
    fresh->stamp = now_;
    bytes_ += bytes(*fresh);
    stats_.emplace(key, std::move(fresh));
  }
  for (auto& [key, residual] : layer.residuals_) {
    const auto found = stats_.find(residual.key);
    if (found == stats_.end() || found->second->find_residual(residual.model)) continue;
    found->second->residuals.emplace_back(residual.model, residual.value);
  }
  for (auto& [key, split] : layer.splits_) splits_.emplace(key, split);
}

// Called between phases: forgets what no tree has asked for in a while once the limit is passed.
inline void StatsCache::trim() {
  ++now_;
  if (splits_.size() > 200000) splits_.clear();
  for (uint32_t keep = 32; bytes_ > limit_; keep /= 4) {
    std::erase_if(stats_, [&](const auto& entry) { return keep == 0 || entry.second->stamp + keep < now_; });
    recount();
    if (keep == 0) break;
  }
}

}  // namespace glasswood
