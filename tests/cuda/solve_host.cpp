// The emulated kernels of a sweep whose sums stay on the GPU, and the cores' arithmetic beside them.
#include <vector>

#include "cuda.h"
//
#include "grow/cuda/kernels/advance_sums.cu"
#include "grow/cuda/kernels/solve_candidates.cu"
#include "grow/sums/gram.h"

using namespace silva;

EMULATE(solve_candidates_kernel)
EMULATE(advance_sums_kernel)

extern "C" {

void solve_candidates(const double* base, const double* bins, int64_t step, int n_candidates, const int32_t* columns,
                      int n_solved, int width, int least_rows, int n_records, double* answers) {
  std::vector<SolveRecord> requests;
  for (int i = 0; i < n_records; ++i)
    requests.push_back(
        {base, bins, step, n_candidates, n_solved, width, 0, least_rows, 2 * n_candidates * i, n_candidates * i, 0});
  const SolveRecord* first = requests.data();
  const int side = (n_solved + kSolveTile) / kSolveTile;
  void* arguments[] = {&first, &n_records, &columns, &answers};
  const unsigned n_threads = unsigned(n_tiles(side) + 31) / 32 * 32;
  emulator::run({unsigned(n_candidates * n_records), 1, 1}, {n_threads, 1, 1}, 0, emulate_solve_candidates_kernel,
                arguments);
}

void advance_sums(double* sums, const double* bins, int64_t step, int n_entries, int n_bins, int is_first) {
  const AdvanceRecord requests[] = {{sums, bins, step, n_entries, n_bins, is_first, 0}};
  const AdvanceRecord* first = requests;
  void* arguments[] = {&first};
  emulator::run({kAdvanceBlocks, 1, 1}, {kBlockThreads, 1, 1}, 0, emulate_advance_sums_kernel, arguments);
}

double residual_of(const double* gram, int width, const int32_t* columns, int n_columns, double* work) {
  return residual<double>([gram](size_t entry) { return gram[entry]; }, width, columns, n_columns, work);
}
}
