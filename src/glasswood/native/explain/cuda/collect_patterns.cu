// The patterns of a background at leaves: distinct sets of conditions that its rows do not meet, and their shares of
// all rows. A block takes a leaf. It sorts the sets of as many rows as shared memory holds, gives equal ones one place
// with the sum of their weights, and lets the next rows join them. If most of the room is taken, the patterns so far
// are done with: equal ones of later rows become patterns of their own.
//
// Sums of weights are those of integers, in any order. Sorting makes the order of patterns that of their words.
//
// Macros: those of explain/cuda/pattern_set.cuh, CAPACITY (sets in shared memory, a power of two), WRITES (0: patterns
// are counted only).
#include "explain/cuda/pattern_set.cuh"

namespace glasswood {

constexpr int THREADS = 128, WARP = 32;

// Sets [word][place] and weights, 0 where a place is free.
struct PatternList {
  unsigned* words;
  unsigned long long* weight;

  __device__ __forceinline__ PatternSet set(int place) const {
    PatternSet result;
#pragma unroll UNROLLED
    for (int w = 0; w < WORDS; ++w) result.word[w] = words[w * CAPACITY + place];
    return result;
  }
  __device__ __forceinline__ void put(int place, const PatternSet& set) {
#pragma unroll UNROLLED
    for (int w = 0; w < WORDS; ++w) words[w * CAPACITY + place] = set.word[w];
  }
  // Free places come last.
  __device__ __forceinline__ bool is_before(int a, int b) const {
    if (!weight[a] || !weight[b]) return weight[a] && !weight[b];
#pragma unroll UNROLLED
    for (int w = 0; w < WORDS; ++w)
      if (words[w * CAPACITY + a] != words[w * CAPACITY + b]) return words[w * CAPACITY + a] < words[w * CAPACITY + b];
    return false;
  }
  __device__ __forceinline__ void exchange(int a, int b) {
    const PatternSet set_a = set(a), set_b = set(b);
    const unsigned long long weight_a = weight[a];
    put(a, set_b), put(b, set_a);
    weight[a] = weight[b], weight[b] = weight_a;
  }
};

// A bitonic network.
__device__ __forceinline__ void sort(PatternList& list) {
  for (int size = 2; size <= CAPACITY; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      for (int i = threadIdx.x; i < CAPACITY / 2; i += THREADS) {
        const int a = 2 * i - (i & (step - 1)), b = a + step;
        const bool rises = !(a & size);
        if (rises ? list.is_before(b, a) : list.is_before(a, b)) list.exchange(a, b);
      }
      __syncthreads();
    }
  }
}

// Writes the distinct sets of a sorted list; how many there are.
__device__ __forceinline__ int merge(const PatternList& list, PatternList& to) {
  __shared__ int n_of_warp[THREADS / WARP];
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  for (int i = threadIdx.x; i < CAPACITY; i += THREADS) to.weight[i] = 0;
  int n_distinct = 0;
  for (int first = 0; first < CAPACITY; first += THREADS) {
    const int i = first + threadIdx.x;
    const bool is_taken = i < CAPACITY && list.weight[i], is_new = is_taken && (i == 0 || list.is_before(i - 1, i));
    const unsigned news = __ballot_sync(0xffffffffu, is_new);
    if (lane == 0) n_of_warp[warp] = __popc(news);
    __syncthreads();
    int place = n_distinct - 1 + __popc(news & (2u << lane) - 1);
    for (int w = 0; w < THREADS / WARP; ++w) {
      if (w < warp) place += n_of_warp[w];
      n_distinct += n_of_warp[w];
    }
    if (is_new) to.put(place, list.set(i));
    if (is_taken) atomicAdd(&to.weight[place], list.weight[i]);
    __syncthreads();
  }
  return n_distinct;
}

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(glasswood::THREADS, WORDS <= 4 ? 8 : 1)
    collect_patterns_kernel(const glasswood::PatternLeaf* __restrict__ leaves,
                            const glasswood::PatternTest* __restrict__ tests, const CODE* __restrict__ codes,
                            long long stride, long long n_rows, const long long* __restrict__ weight, double total,
                            const long long* __restrict__ pattern_starts, long long first_pattern,
                            int* __restrict__ n_patterns, unsigned* __restrict__ sets, double* __restrict__ shares) {
  using namespace glasswood;
  extern __shared__ unsigned long long memory[];
  unsigned* const words = reinterpret_cast<unsigned*>(memory + 2 * CAPACITY);
  PatternList list = {words, memory}, other = {words + WORDS * CAPACITY, memory + CAPACITY};
  const PatternLeaf leaf = leaves[blockIdx.x];
  int n_kept = 0, n_done = 0;
  for (long long next = 0; next < n_rows;) {
    const int room = CAPACITY - n_kept, n_new = int(min(static_cast<long long>(room), n_rows - next));
    for (int i = threadIdx.x; i < room; i += THREADS) {
      list.weight[n_kept + i] = i >= n_new ? 0 : weight ? static_cast<unsigned long long>(weight[next + i]) : 1;
      list.put(n_kept + i, i < n_new ? find_set(leaf, tests, codes + next + i, stride) : PatternSet{});
    }
    next += n_new;
    __syncthreads();
    sort(list);
    n_kept = merge(list, other);
    const PatternList sorted = list;
    list = other, other = sorted;
    if (n_kept <= CAPACITY / 2 && next < n_rows) continue;
#if WRITES
    const long long begin = pattern_starts[blockIdx.x] - first_pattern;
    const long long n_of_leaf = pattern_starts[blockIdx.x + 1] - first_pattern - begin;
    for (int i = threadIdx.x; i < n_kept; i += THREADS) {
      const PatternSet set = list.set(i);
#pragma unroll UNROLLED
      for (int w = 0; w < WORDS; ++w) sets[begin * WORDS + w * n_of_leaf + n_done + i] = set.word[w];
      shares[begin + n_done + i] = double(static_cast<long long>(list.weight[i])) / total;
    }
    __syncthreads();
#endif
    n_done += n_kept, n_kept = 0;
  }
#if !WRITES
  if (threadIdx.x == 0) n_patterns[blockIdx.x] = n_done;
#endif
}
