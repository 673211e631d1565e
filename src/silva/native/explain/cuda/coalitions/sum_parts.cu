// Adds up the sums of parts of the background, for each number of players of its own, in one order.
//
// Macros: REAL.
namespace silva {

constexpr int THREADS = 128;

}  // namespace silva

// sums: [kind][row][part][player with a bit][response]; bit: [player], -1 of those that no leaf asks for; result: [row]
// [player][response].
extern "C" __global__ void __launch_bounds__(silva::THREADS)
    sum_parts_kernel(const double* __restrict__ sums, int n_kinds, long long n_rows, int n_parts, int n_bits,
                     const int* __restrict__ bit, int n_players, int n_responses, REAL* __restrict__ result) {
  using namespace silva;
  const long long at = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (at >= n_rows * n_players * n_responses) return;
  const int response = int(at % n_responses), player = int(at / n_responses % n_players);
  const long long row = at / n_responses / n_players;
  double sum = 0;
  if (bit[player] >= 0)
    for (int kind = 0; kind < n_kinds; ++kind)
      for (int part = 0; part < n_parts; ++part)
        sum += sums[(((kind * n_rows + row) * n_parts + part) * n_bits + bit[player]) * n_responses + response];
  result[at] = REAL(sum);
}
