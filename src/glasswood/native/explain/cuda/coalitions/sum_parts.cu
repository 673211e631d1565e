// Adds up the sums of parts of the background, for each number of players of its own, in one order. Entries of a result
// are players, pairs or sets of them.
//
// Macros: REAL.
namespace glasswood {

constexpr int THREADS = 128;

}  // namespace glasswood

// sums: [kind][row][part][number][response]; number: [entry], -1 of those with players that no leaf asks for; result:
// [row][entry][response].
extern "C" __global__ void __launch_bounds__(glasswood::THREADS)
    sum_parts_kernel(const double* __restrict__ sums, int n_kinds, long long n_rows, int n_parts, int n_numbers,
                     const int* __restrict__ number, int n_entries, int n_responses, REAL* __restrict__ result) {
  using namespace glasswood;
  const long long at = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (at >= n_rows * n_entries * n_responses) return;
  const int response = int(at % n_responses), mine = number[at / n_responses % n_entries];
  const long long row = at / n_responses / n_entries;
  double sum = 0;
  if (mine >= 0)
    for (int kind = 0; kind < n_kinds; ++kind)
      for (int part = 0; part < n_parts; ++part)
        sum += sums[(((kind * n_rows + row) * n_parts + part) * n_numbers + mine) * n_responses + response];
  result[at] = REAL(sum);
}
