// The steps of keys (explain/tables/plan.h) as explain/cuda/tables/find_keys.cu takes them.
#pragma once
#include <bit>

#include "explain/cuda/tables/format.h"
#include "explain/tables/codes.h"
#include "explain/tables/plan.h"

namespace glasswood {

class KeyWriter {
 public:
  bool is_packed = false;  // two rows side by side, except for subtrees by points
  int32_t missing_code = 0;
  std::vector<KeyHead> heads;
  std::vector<KeyEntry> entries;

  KeyWriter(const ForestCodes& codes, const TablePlan& plan)
      : is_packed(can_pack(codes, plan)),
        missing_code(is_packed ? kInfiniteHalf : kMissingCode),
        codes_(codes),
        plan_(plan) {}

  void add(const Subtree& subtree) {
    packs_ = is_packed && !subtree.by_points;
    KeyHead head{int32_t(entries.size()), 0, 0, 0};
    int32_t base = weight_of(subtree.base);
    for (int64_t i = subtree.first_step, end = i + subtree.n_steps; i < end;) {
      const int32_t column = plan_.steps[i].column;
      std::vector<Step> steps;
      for (; i < end && plan_.steps[i].column == column; ++i)
        steps.push_back({plan_.steps[i].bound + 1 + kCodeBias, weight_of(plan_.steps[i].weight)});
      if (codes_.columns[column].categories) base += rank_categories(codes_.columns[column].categories, steps);
      add_entries(column, steps);
    }
    head.n = int32_t(entries.size()) - head.first;
    head.base = packs_ ? half_of(kPackedStates + base) : uint32_t(base) & 0xffff;
    heads.push_back(head);
  }

 private:
  static constexpr int32_t kInfiniteHalf = 0x7c00, kPackedStates = 1024;

  struct Step {
    int32_t code, weight;
  };

  const ForestCodes& codes_;
  const TablePlan& plan_;
  bool packs_ = false;  // the subtree at work

  static bool can_pack(const ForestCodes& codes, const TablePlan& plan) {
    for (const CodeColumn& column : codes.columns)
      if (n_thresholds(column) + 1 >= kInfiniteHalf) return false;
    for (const Subtree& subtree : plan.subtrees)
      if (!subtree.by_points && subtree.n_states > kPackedStates) return false;
    return true;
  }

  static int32_t n_thresholds(const CodeColumn& column) {
    return column.categories ? column.categories + 2 : column.n_codes - 1;
  }

  // Without the scale, modulo 2^14: as good as the number itself where keys are below.
  static int32_t weight_of(uint16_t weight) { return int16_t(weight) / kKeyScale; }

  // From codes of categories to ranks among the thresholds of write_columns; returns what all rows add.
  static int32_t rank_categories(int32_t n, std::vector<Step>& steps) {
    const std::vector<Step> by_code = std::move(steps);
    const auto at = [&](int32_t code) {
      int32_t sum = 0;
      for (const Step& step : by_code) sum += step.code <= code ? step.weight : 0;
      return sum;
    };
    steps.clear();
    const int32_t others = at(n);
    int32_t last = others;
    const auto arrive = [&](int32_t rank, int32_t now) {
      if (now != last) steps.push_back({rank, now - last});
      last = now;
    };
    arrive(1, at(n + 1));
    for (int32_t category = 0; category < n; ++category) arrive(category + 2, at(category));
    arrive(n + 2, others);
    arrive(kMissingCode, at(kMissingCode));
    return others;
  }

  void add_entries(int32_t column, const std::vector<Step>& steps) {
    for (size_t i = 0; i < steps.size(); i += 2) {
      KeyEntry entry{column, 0, 0, 0};
      for (size_t half = 0; half < 2 && i + half < steps.size(); ++half) {
        const Step& step = steps[i + half];
        const uint32_t bound = step.code == kMissingCode ? missing_code : step.code;
        const uint32_t weight = packs_ ? half_of(step.weight) : uint32_t(step.weight) & 0xffff;
        entry.bounds |= bound << 16 * half;
        entry.weights |= weight << 16 * half;
      }
      entries.push_back(entry);
    }
  }

  // The bits of an integer below 2^11 as a half.
  static uint32_t half_of(int32_t number) {
    const uint32_t magnitude = uint32_t(std::abs(number));
    if (magnitude == 0) return 0;
    const uint32_t exponent = uint32_t(std::bit_width(magnitude)) - 1;
    return (number < 0 ? 0x8000u : 0u) | (exponent + 15) << 10 | (magnitude << (10 - exponent) & 0x3ff);
  }
};

}  // namespace glasswood
