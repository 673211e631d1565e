// Neighbouring rows of a table that hardly differ, joined.
#pragma once
#include <cstdint>
#include <vector>

namespace glasswood {

// Joins the two neighbours whose weighted squares rise least (Ward 1963), until these would exceed `budget` altogether.
// `values` and `weight` are [n][m]; the result is the group of each row.
inline std::vector<int64_t> join_neighbours(const double* values, const double* weight, int64_t n, int64_t m,
                                            double budget) {
  std::vector<double> sums(values, values + n * m), mass(weight, weight + n * m), cost(n, 0);
  std::vector<int64_t> first(n), group(n);  // first row of each group
  for (int64_t k = 0; k < n * m; ++k) sums[k] *= mass[k];
  for (int64_t k = 0; k < n; ++k) first[k] = k;
  const auto cost_of = [&](int64_t a, int64_t b) {
    double total = 0;
    for (int64_t j = 0; j < m; ++j) {
      const double u = mass[a * m + j], v = mass[b * m + j];
      if (!(u > 0) || !(v > 0)) continue;
      const double apart = sums[a * m + j] / u - sums[b * m + j] / v;
      total += u * v / (u + v) * apart * apart;
    }
    return total;
  };
  for (int64_t g = 0; g + 1 < n; ++g) cost[g] = cost_of(g, g + 1);
  for (double spent = 0; first.size() > 1;) {
    size_t best = 0;
    for (size_t g = 1; g + 1 < first.size(); ++g)
      if (cost[g] < cost[best]) best = g;
    spent += cost[best];
    if (spent > budget) break;
    const int64_t into = first[best], from = first[best + 1];
    for (int64_t j = 0; j < m; ++j) sums[into * m + j] += sums[from * m + j], mass[into * m + j] += mass[from * m + j];
    first.erase(first.begin() + int64_t(best) + 1), cost.erase(cost.begin() + int64_t(best) + 1);
    if (best + 1 < first.size()) cost[best] = cost_of(into, first[best + 1]);
    if (best > 0) cost[best - 1] = cost_of(first[best - 1], into);
  }
  for (int64_t k = 0, g = -1; k < n; ++k) {
    if (size_t(g + 1) < first.size() && first[g + 1] == k) ++g;
    group[k] = g;
  }
  return group;
}

}  // namespace glasswood
