// The emulated kernels of a sweep whose sums stay on the GPU, and the cores' arithmetic beside them.
#include <vector>

#include "cuda.h"
//
#include "grow/cuda/kernels/advance_sums.cu"
#include "grow/cuda/kernels/solve_candidates.cu"
#include "grow/sums/gram.h"

using namespace glasswood;

EMULATE(solve_candidates_kernel)
EMULATE(advance_sums_kernel)

extern "C" {

static void advance(const std::vector<AdvanceRecord>& requests) {
  const AdvanceRecord* first = requests.data();
  int blocks = (requests[0].n_entries + kBlockThreads - 1) / kBlockThreads;
  void* arguments[] = {&first, &blocks};
  const unsigned n_blocks = unsigned(requests.size()) * unsigned(blocks);
  emulator::run({n_blocks, 1, 1}, {kBlockThreads, 1, 1}, 0, emulate_advance_sums_kernel, arguments);
}

// Sums up to every eighth candidate stand behind one another in `sums`, those of all records.
void solve_candidates(const double* base, const double* bins, int64_t step, int n_candidates, const int32_t* columns,
                      int n_solved, int width, int least_rows, int n_records, double* sums, double* answers) {
  std::vector<SolveRecord> requests;
  std::vector<AdvanceRecord> summed;
  const int n_entries = 1 + int(packed_size(width)), n_sums = n_candidates / kSummedBins;
  for (int i = 0; i < n_records; ++i) {
    double* to = sums + int64_t(i) * n_sums * n_entries;
    summed.push_back({base, bins, to, step, n_entries, kSummedBins, n_sums, 0});
    requests.push_back({base, bins, to, step, n_candidates, n_solved, width, 0, least_rows, 2 * n_candidates * i,
                        n_candidates * i, 0});
  }
  if (n_sums) advance(summed);
  const SolveRecord* first = requests.data();
  const int side = (n_solved + kSolveTile) / kSolveTile;
  void* arguments[] = {&first, &n_records, &columns, &answers};
  const unsigned n_threads = unsigned(n_tiles(side) + 31) / 32 * 32;
  emulator::run({unsigned(n_candidates * n_records), 1, 1}, {n_threads, 1, 1}, 0, emulate_solve_candidates_kernel,
                arguments);
}

void advance_sums(const double* base, double* sums, const double* bins, int64_t step, int n_entries, int n_bins) {
  advance({{base, bins, sums, step, n_entries, n_bins, 1, 0}});
}

double residual_of(const double* gram, int width, const int32_t* columns, int n_columns, double* work) {
  return residual<double>([gram](size_t entry) { return gram[entry]; }, width, columns, n_columns, work);
}
}
