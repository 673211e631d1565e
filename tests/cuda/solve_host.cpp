// The emulated kernels of a sweep whose sums stay on the GPU, and the cores' arithmetic beside them.
#include <vector>

#include "cuda.h"
//
#include "grow/cuda/kernels/advance_sums.cu"
#include "grow/cuda/kernels/solve_cuts.cu"
#include "grow/sums/gram.h"

using namespace silva;

EMULATE(solve_cuts_kernel)
EMULATE(advance_sums_kernel)

extern "C" {

void solve_cuts(const double* base, const double* parts, int64_t step, int n_cuts, const int32_t* columns, int n_solved,
                int width, int least_rows, int n_requests, double* answers) {
  std::vector<SolveRequest> requests;
  for (int i = 0; i < n_requests; ++i)
    requests.push_back({base, parts, step, n_cuts, n_solved, width, 0, least_rows, 2 * n_cuts * i, n_cuts * i, 0});
  const SolveRequest* first = requests.data();
  const int side = (n_solved + kSolveTile) / kSolveTile;
  void* arguments[] = {&first, &n_requests, &columns, &answers};
  const unsigned n_threads = unsigned(n_tiles(side) + 31) / 32 * 32;
  emulator::run({unsigned(n_cuts * n_requests), 1, 1}, {n_threads, 1, 1}, 0, emulate_solve_cuts_kernel, arguments);
}

void advance_sums(double* sums, const double* parts, int64_t step, int n_entries, int n_parts, int is_first) {
  const AdvanceRequest requests[] = {{sums, parts, step, n_entries, n_parts, is_first, 0}};
  const AdvanceRequest* first = requests;
  void* arguments[] = {&first};
  emulator::run({kAdvanceBlocks, 1, 1}, {kBlockThreads, 1, 1}, 0, emulate_advance_sums_kernel, arguments);
}

double residual_of(const double* gram, int width, const int32_t* columns, int n_columns, double* work) {
  return residual<double>([gram](size_t entry) { return gram[entry]; }, width, columns, n_columns, work);
}
}
