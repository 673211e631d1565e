// The walk of native/explain/cuda/walk.h as a host program sees it, for test_walk.py.
#include <vector>

#define GLASSWOOD_DEVICE inline
#define PAIRS 1
#define HOT_WORDS 8
using Real = double;
#include "explain/cuda/walk.h"

namespace {

constexpr int POINTS = 8, LEVELS = 300;

struct HostRow {
  const int* codes;
  Real *sums, *deltas;
  int code(int column) const { return codes[column]; }
  void put(int slot, Real value) const { sums[slot] = value; }
  void add(int slot, Real value) const { sums[slot] += value; }
  Real* delta(int level) const { return deltas + level * POINTS; }
};

}  // namespace

extern "C" void walk(const int* tape, const long long* starts, const long long* slots, long long n_chunks,
                     const int* codes, double* sums) {
  std::vector<Real> deltas(LEVELS * POINTS);
  for (long long chunk = 0; chunk < n_chunks; ++chunk) {
    glasswood::Walk<POINTS, HostRow> walker;
    walker.row = {codes, sums + slots[chunk], deltas.data()};
    walker.chunk<3, LEVELS>(reinterpret_cast<const glasswood::Quad*>(tape) + starts[chunk]);
  }
}
