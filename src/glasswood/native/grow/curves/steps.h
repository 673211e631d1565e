// One step of a term: from sums of gradients and curvatures by bin to what is added in each bin.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace glasswood {

// Bins of a curve: the first `n_ordered` follow one another, the others (categories, missing values) stand for
// themselves. Bins of a surface: [first feature][second feature], all of them ordered.
struct CurveTerm {
  const uint16_t* bins;  // [row]
  int32_t n_first, n_second;
  int32_t n_ordered;
  int32_t sign;   // of a curve's slope; 0: any
  int64_t begin;  // of its bins among those of all terms

  int32_t n_bins() const { return n_first * n_second; }
  bool is_surface() const { return n_second > 1; }
};

struct StepSettings {
  double rate, ridge, category_ridge, most;  // ridges in rows of mean curvature; `most`: the largest change
  int32_t max_leaves, min_rows;
};

// Sums of rows.
struct BinSums {
  double gradient = 0, curvature = 0, count = 0;

  BinSums& operator+=(const BinSums& other) {
    gradient += other.gradient, curvature += other.curvature, count += other.count;
    return *this;
  }
  friend BinSums operator-(BinSums a, const BinSums& b) {
    return {a.gradient - b.gradient, a.curvature - b.curvature, a.count - b.count};
  }
  double gain(double ridge) const { return gradient * gradient / (curvature + ridge); }
  double value(double ridge) const { return gradient / (curvature + ridge); }
};

// Numbers at random (Steele, Lea and Flood 2014).
struct Random {
  uint64_t state;

  // From 0 to n - 1; a bias of n in 2^64.
  int32_t below(int32_t n) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9, z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return int32_t((z ^ (z >> 31)) % uint64_t(n));
  }
};

class StepFinder {
 public:
  StepFinder(const StepSettings& settings, double mean_curvature)
      : settings_(settings),
        ridge_(settings.ridge * mean_curvature),
        category_ridge_(settings.category_ridge * mean_curvature) {}

  // Writes what is added in each bin, and returns what the loss would fall by with whole steps; 0: nothing. With
  // `random`, curves are cut there.
  double find(const CurveTerm& term, const BinSums* sums, double* change, Random* random) {
    std::fill(change, change + term.n_bins(), 0.0);
    if (term.is_surface()) {
      cut_surface(term, sums, change);
    } else {
      random ? cut_anywhere(term, sums, *random) : cut_curve(term, sums);
      if (parts_.size() > 1)
        for (const Part& one : parts_) std::fill(change + one.from, change + one.to, limited(one.all.value(ridge_)));
      for (int32_t b = term.n_ordered; b < term.n_first; ++b)
        if (sums[b].curvature > 0) change[b] = limited(sums[b].value(category_ridge_));
    }
    double gain = 0;
    for (int32_t b = 0; b < term.n_bins(); ++b) {
      const double step = change[b] / settings_.rate;
      gain += step * (sums[b].gradient - step * sums[b].curvature / 2);
    }
    return gain;
  }

 private:
  struct Cut {
    double gain = 0;
    int32_t at = 0;
  };
  struct Part {
    int32_t from, to;
    BinSums all;
    Cut cut;
  };

  double limited(double value) const { return settings_.rate * std::clamp(value, -settings_.most, settings_.most); }
  bool allowed(const BinSums& part) const { return part.count >= settings_.min_rows && part.curvature > 0; }

  // Gains are relative to the part as it is; below rounding there are none.
  Cut best_cut(const BinSums* sums, int32_t from, int32_t to, const BinSums& all, int32_t sign) const {
    Cut best;
    const double least = all.gain(ridge_) * (1 + 1e-9) + 1e-300;
    BinSums left;
    for (int32_t b = from; b + 1 < to; ++b) {
      left += sums[b];
      if (!allowed(left) || sums[b].count == 0) continue;
      const BinSums right = all - left;
      if (right.count < settings_.min_rows) break;
      if (!(right.curvature > 0)) continue;
      if (sign && sign * (right.value(ridge_) - left.value(ridge_)) < 0) continue;
      const double gain = left.gain(ridge_) + right.gain(ridge_) - least;
      if (gain > best.gain) best = {gain, b + 1};
    }
    return best;
  }

  Part part(const BinSums* sums, int32_t from, int32_t to, int32_t sign) const {
    Part found{from, to, {}, {}};
    for (int32_t b = from; b < to; ++b) found.all += sums[b];
    found.cut = best_cut(sums, from, to, found.all, sign);
    return found;
  }

  // Cuts the best part first. Of a constrained curve there is one cut: the parts of a second one might cross.
  void cut_curve(const CurveTerm& term, const BinSums* sums) {
    const int32_t most = term.sign ? 2 : settings_.max_leaves;
    parts_.assign(1, part(sums, 0, term.n_ordered, term.sign));
    while (int32_t(parts_.size()) < most) {
      size_t best = 0;
      for (size_t k = 1; k < parts_.size(); ++k)
        if (parts_[k].cut.gain > parts_[best].cut.gain) best = k;
      const Part whole = parts_[best];
      if (!whole.cut.at) break;
      parts_[best] = part(sums, whole.from, whole.cut.at, term.sign);
      parts_.push_back(part(sums, whole.cut.at, whole.to, term.sign));
    }
  }

  // Cuts at random places; parts with too few rows get nothing.
  void cut_anywhere(const CurveTerm& term, const BinSums* sums, Random& random) {
    parts_.clear();
    if (term.n_ordered < 2) return;
    cuts_.assign({0, term.n_ordered});
    for (int32_t k = 1; k < (term.sign ? 2 : settings_.max_leaves); ++k)
      cuts_.push_back(1 + random.below(term.n_ordered - 1));
    std::sort(cuts_.begin(), cuts_.end());
    for (size_t k = 0; k + 1 < cuts_.size(); ++k) {
      Part one{cuts_[k], cuts_[k + 1], {}, {}};
      for (int32_t b = one.from; b < one.to; ++b) one.all += sums[b];
      if (allowed(one.all)) parts_.push_back(one);
    }
    const auto slope = [&] { return parts_[1].all.value(ridge_) - parts_[0].all.value(ridge_); };
    if (term.sign && (parts_.size() < 2 || term.sign * slope() < 0)) parts_.clear();
  }

  // A cut of one feature, and on each side of it one of the other: the better of both orders.
  void cut_surface(const CurveTerm& term, const BinSums* sums, double* change) {
    const int32_t n[2] = {term.n_first, term.n_second};
    Corner best;
    for (int axis = 0; axis < 2; ++axis) {
      const int32_t along = n[axis], across = n[1 - axis];
      below_.assign(across, {}), above_.assign(across, {});
      const auto at = [&](int32_t i, int32_t j) -> const BinSums& {
        return axis == 0 ? sums[i * n[1] + j] : sums[j * n[1] + i];
      };
      for (int32_t j = 0; j < across; ++j)
        for (int32_t i = 0; i < along; ++i) above_[j] += at(i, j);
      for (int32_t i = 0; i + 1 < along; ++i) {
        BinSums low, high;
        for (int32_t j = 0; j < across; ++j) {
          below_[j] += at(i, j), above_[j] = above_[j] - at(i, j);
          low += below_[j], high += above_[j];
        }
        if (!allowed(low) || !allowed(high)) continue;
        const Cut of_low = best_cut(below_.data(), 0, across, low, 0),
                  of_high = best_cut(above_.data(), 0, across, high, 0);
        const double gain = of_low.gain + of_high.gain + low.gain(ridge_) + high.gain(ridge_);
        if ((of_low.at || of_high.at) && gain > best.gain) best = {gain, axis, i + 1, of_low.at, of_high.at};
      }
    }
    if (best.cut) fill(term, sums, best, change);
  }

  struct Corner {
    double gain = 0;
    int axis = 0;
    int32_t cut = 0, low = 0, high = 0;
  };

  void fill(const CurveTerm& term, const BinSums* sums, const Corner& corner, double* change) const {
    BinSums parts[2][2];
    const auto place = [&](int32_t i, int32_t j) -> std::pair<int, int> {
      const int32_t along = corner.axis ? j : i, across = corner.axis ? i : j;
      const int side = along >= corner.cut;
      return {side, across >= (side ? corner.high : corner.low)};
    };
    for (int32_t i = 0; i < term.n_first; ++i)
      for (int32_t j = 0; j < term.n_second; ++j) {
        const auto [side, part] = place(i, j);
        parts[side][part] += sums[i * term.n_second + j];
      }
    for (int32_t i = 0; i < term.n_first; ++i)
      for (int32_t j = 0; j < term.n_second; ++j) {
        const auto [side, part] = place(i, j);
        change[i * term.n_second + j] = limited(parts[side][part].value(ridge_));
      }
  }

  StepSettings settings_;
  double ridge_, category_ridge_;
  std::vector<Part> parts_;
  std::vector<int32_t> cuts_;
  std::vector<BinSums> below_, above_;
};

}  // namespace glasswood
