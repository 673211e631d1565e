// Section 6 of Spencer (2011): the lanes of a record group test the next LEVELS levels below the current node at once,
// the path through them is reduced in a register, and its end is the next window; so trees of any size are evaluated.
// Position s of a window has its children at 2s and 2s + 1; position 0 is idle. Exits below zero are leaves, inverted.
//
// Macros: CODE, LEVELS (of a window, 1 to 5).
using Code = CODE;

namespace glasswood {

constexpr int POSITIONS = 1 << LEVELS, N_GROUPS = 128 / POSITIONS;
constexpr unsigned ALL = 0xffffffffu;

}  // namespace glasswood

// `tests` holds column and rank of each position, `exits` what follows each end of a window, `entries` that of each
// tree.
extern "C" __global__ void __launch_bounds__(128)
    test_windows_kernel(const int2* __restrict__ tests, const int* __restrict__ exits, const int* __restrict__ entries,
                        int n_trees, int trees_per_block, const Code* __restrict__ codes, int n_rows, long long stride,
                        int* __restrict__ leaves) {
  using namespace glasswood;
  const int position = threadIdx.x % POSITIONS, first_lane = threadIdx.x % 32 / POSITIONS * POSITIONS;
  const int row = blockIdx.x * N_GROUPS + threadIdx.x / POSITIONS, read_row = min(row, n_rows - 1);
  const int first = blockIdx.y * trees_per_block, end = min(n_trees, first + trees_per_block);
  for (int tree = first; tree < end; ++tree) {
    int window = entries[tree];
    while (__any_sync(ALL, window >= 0)) {
      bool right = false;
      if (window >= 0) {
        const int2 test = __ldg(tests + static_cast<long long>(window) * POSITIONS + position);
        right = codes[test.x * stride + read_row] >= test.y;
      }
      const unsigned outcomes = __ballot_sync(ALL, right) >> first_lane;
      unsigned at = 1;
#pragma unroll
      for (int level = 0; level < LEVELS; ++level) at = 2 * at + (outcomes >> at & 1);
      if (window >= 0) window = __ldg(exits + static_cast<long long>(window) * POSITIONS + (at - POSITIONS));
    }
    if (position == 0 && row < n_rows) leaves[tree * stride + row] = ~window;
  }
}
