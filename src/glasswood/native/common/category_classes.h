// Finds the classes of common/classes.h, and the words of the splits.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <vector>

#include "common/classes.h"
#include "common/forest_view.h"

namespace glasswood {

// A split's words have a bit a class, 1 where it goes right, and are as many as fill whole groups of 16 bytes. What is
// no category has a class too: numbers that no set mentions, fractions in (-1, 0), missing values.
class CategoryClasses {
 public:
  // A group even without sets: where splits of numbers and of categories share a loop, numbers read it and ignore it.
  std::vector<uint32_t> words = std::vector<uint32_t>(4);
  std::vector<int64_t> first_word;  // [node]; -1: no split by categories

  explicit CategoryClasses(const ForestView& forest) : first_word(forest.category_set.size(), -1) {
    if (forest.category_set.empty()) return;
    features_.resize(forest.n_features);
    std::vector<std::vector<int64_t>> nodes(forest.n_features);
    for (size_t node = 0; node < first_word.size(); ++node)
      if (forest.is_categorical(node)) nodes[forest.feature[node]].push_back(node);
    for (int32_t f = 0; f < forest.n_features; ++f)
      if (!nodes[f].empty()) add_feature(forest, f, nodes[f]);
  }

  bool empty() const { return features_.empty(); }
  ClassCoding view() const { return {empty() ? nullptr : features_.data(), class_of_.data()}; }
  int32_t n_classes(int32_t feature) const { return empty() ? 0 : features_[feature].n_classes; }
  // Groups of 16 bytes that hold the bits of a split.
  static int32_t n_groups(int32_t n_classes) { return (n_classes + kGroup - 1) / kGroup; }

 private:
  static constexpr int32_t kGroup = 128;

  // A split by its sides.
  struct Sides {
    CategorySet set;
    std::span<const uint32_t> words;
    bool others, fraction, missing;  // left

    Sides(const ForestView& forest, int64_t node)
        : set(category_set_of(forest, node)),
          words(forest.set_words.subspan(set.first_word, set.n_categories / 32)),
          others(set.others_left),
          fraction(category_goes_left(set, forest.set_words.data(), kFractionBelowZero)),
          missing(forest.default_left[node]) {}
    // The side of a place among the classes of values.
    bool left(int64_t place, int64_t n_categories) const {
      if (place >= n_categories) return place == n_categories ? others : place == n_categories + 1 ? fraction : missing;
      return place < set.n_categories ? words[place / 32] >> (place % 32) & 1 : others;
    }
  };

  std::vector<FeatureClasses> features_;
  std::vector<int32_t> class_of_;

  void add_feature(const ForestView& forest, int32_t feature, const std::vector<int64_t>& nodes) {
    std::map<std::array<int64_t, 3>, std::vector<int64_t>> alike;  // nodes by what decides their sides
    for (const int64_t node : nodes)
      alike[{forest.category_set[node], forest.threshold[node] < 0, forest.default_left[node]}].push_back(node);
    std::vector<Sides> splits;
    int32_t n_categories = 0;
    for (const auto& [key, same] : alike) {
      splits.emplace_back(forest, same[0]);
      n_categories = std::max(n_categories, splits.back().set.n_categories);
    }
    const int64_t first = int64_t(class_of_.size());
    class_of_.resize(first + n_categories + 3, 0);
    const std::span<int32_t> classes(class_of_.data() + first, n_categories + 3);
    int32_t n_classes = 1;
    for (const Sides& split : splits) {
      n_classes = divide(split, classes, n_classes);
      if (n_classes > 2 * int32_t(classes.size())) n_classes = int32_t(renumber(classes, n_classes).size());
    }
    const std::vector<int64_t> member = renumber(classes, n_classes);
    features_[feature] = {int32_t(member.size()), n_categories, first};
    std::map<std::vector<uint32_t>, int64_t> known;
    auto split = splits.begin();
    for (const auto& [key, same] : alike) {
      const int64_t at = add_words(*split++, member, n_categories, known);
      for (const int64_t node : same) first_word[node] = at;
    }
  }

  // What does not go with the other numbers leaves its class for a new one.
  static int32_t divide(const Sides& split, std::span<int32_t> classes, int32_t n_classes) {
    std::vector<int32_t> divided(n_classes, -1);
    const auto move = [&](int64_t place) {
      int32_t& to = divided[classes[place]];
      if (to < 0) to = n_classes++;
      classes[place] = to;
    };
    const uint32_t unmoved = split.others ? ~uint32_t(0) : 0;
    for (size_t word = 0; word < split.words.size(); ++word)
      for (uint32_t bits = split.words[word] ^ unmoved; bits; bits &= bits - 1)
        move(int64_t(word) * 32 + std::countr_zero(bits));
    const int64_t n = int64_t(classes.size()) - 3;
    if (split.fraction != split.others) move(n + 1);
    if (split.missing != split.others) move(n + 2);
    return n_classes;
  }

  // Leaves out classes that all members have left; returns a member of each.
  static std::vector<int64_t> renumber(std::span<int32_t> classes, int32_t n_classes) {
    std::vector<int32_t> number(n_classes, -1);
    std::vector<int64_t> member;
    for (size_t place = 0; place < classes.size(); ++place) {
      int32_t& own = number[classes[place]];
      if (own < 0) {
        own = int32_t(member.size());
        member.push_back(place);
      }
      classes[place] = own;
    }
    return member;
  }

  int64_t add_words(const Sides& split, const std::vector<int64_t>& member, int64_t n_categories,
                    std::map<std::vector<uint32_t>, int64_t>& known) {
    std::vector<uint32_t> bits(n_groups(int32_t(member.size())) * (kGroup / 32), 0);
    for (size_t c = 0; c < member.size(); ++c)
      bits[c / 32] |= uint32_t(!split.left(member[c], n_categories)) << (c % 32);
    const auto [found, is_new] = known.try_emplace(bits, int64_t(words.size()));
    if (is_new) words.insert(words.end(), bits.begin(), bits.end());
    return found->second;
  }
};

}  // namespace glasswood
