// Distinct sets of a leaf, numbered in the order in which they come: open addressing.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

namespace glasswood {

class SetTable {
 public:
  explicit SetTable(int32_t n_words) : n_words_(n_words), slots_(16, -1) {}

  // The set's words lie `stride` apart.
  int32_t number_of(const uint64_t* set, int64_t stride) {
    if (2 * (n_sets_ + 1) > int32_t(slots_.size())) grow();
    int32_t& slot = slots_[find(set, stride)];
    if (slot < 0) {
      slot = n_sets_++;
      for (int32_t w = 0; w < n_words_; ++w) words_.push_back(set[w * stride]);
    }
    return slot;
  }

  int32_t size() const { return n_sets_; }
  const uint64_t* operator[](int32_t number) const { return words_.data() + int64_t(number) * n_words_; }

  void clear() {
    slots_.assign(slots_.size(), -1);
    words_.clear();
    n_sets_ = 0;
  }

 private:
  int32_t n_words_, n_sets_ = 0;
  std::vector<int32_t> slots_;
  std::vector<uint64_t> words_;

  // The slot of the set, or the free slot that it will take.
  size_t find(const uint64_t* set, int64_t stride) const {
    uint64_t hash = 0;
    for (int32_t w = 0; w < n_words_; ++w) hash = (std::rotl(hash, 5) ^ set[w * stride]) * 0x9E3779B97F4A7C15u;
    const size_t mask = slots_.size() - 1;
    for (size_t slot = (hash >> 32) & mask;; slot = (slot + 1) & mask)
      if (slots_[slot] < 0 || equals((*this)[slots_[slot]], set, stride)) return slot;
  }

  bool equals(const uint64_t* known, const uint64_t* set, int64_t stride) const {
    for (int32_t w = 0; w < n_words_; ++w)
      if (known[w] != set[w * stride]) return false;
    return true;
  }

  void grow() {
    slots_.assign(2 * slots_.size(), -1);
    for (int32_t i = 0; i < n_sets_; ++i) slots_[find((*this)[i], 1)] = i;
  }
};

}  // namespace glasswood
