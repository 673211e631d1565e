// The emulated kernels of a sweep whose sums stay on the GPU, and the cores' arithmetic beside them.
#include "grow_host.cpp"
//
#include "grow/sums/gram.h"

using namespace silva;

extern "C" {

void solve_cuts(const double* base, const double* parts, int64_t step, int n_cuts, const int32_t* columns, int n_solved,
                int width, int least_rows, int n_records, double* answers) {
  std::vector<SolveRecord> requests;
  for (int i = 0; i < n_records; ++i)
    requests.push_back({base, parts, step, n_cuts, n_solved, width, 0, least_rows, 2 * n_cuts * i, n_cuts * i, 0});
  const SolveRecord* first = requests.data();
  const int side = (n_solved + kSolveTile) / kSolveTile;
  void* arguments[] = {&first, &n_records, &columns, &answers};
  run_kernel(solve_cuts_kernel, unsigned(n_cuts * n_records), unsigned(n_tiles(side) + 31) / 32 * 32, arguments);
}

void advance_sums(double* sums, const double* parts, int64_t step, int n_entries, int n_parts, int is_first) {
  const AdvanceRecord requests[] = {{sums, parts, step, n_entries, n_parts, is_first, 0}};
  const AdvanceRecord* first = requests;
  void* arguments[] = {&first};
  run_kernel(advance_sums_kernel, kAdvanceBlocks, kBlockThreads, arguments);
}

double residual_of(const double* gram, int width, const int32_t* columns, int n_columns, double* work) {
  return residual<double>([gram](size_t entry) { return gram[entry]; }, width, columns, n_columns, work);
}
}
