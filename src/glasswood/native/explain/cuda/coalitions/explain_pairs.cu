// Values or indices of sets of responses for pairs of rows (explain/coalitions/cube.h): a team of threads takes one
// pair after the other, whose leaves become signed monomials in shared memory, or in global memory of many players.
// Sums of integers, so that their order does not matter; margins of all coalitions by a transform; responses; values by
// sums over coalitions. Or, instead of values, monomials of the responses' mean over the background.
//
// Macros: REAL, UNIT (integers of as many bytes), MASK, TEAM (threads of a pair), RESPONSE (one of the numbers
// RESPONSE_MARGIN, RESPONSE_LOGISTIC, RESPONSE_SOFTMAX, RESPONSE_EXP, RESPONSE_LOG_LOSS, or that of the loss of the
// softmax), SETS (indices of sets instead of values), AVERAGES (monomials of means instead), IN_GLOBAL (cubes), DIRECT
// (sums of values in global memory), WIDE (differing.cuh).
#include "explain/cuda/coalitions/differing.cuh"

namespace glasswood {

using Unit = UNIT;

// A block of sets or of means is a team: it adds to sums in global memory, as do values that are too many for shared.
constexpr bool IS_TEAM = SETS || AVERAGES || DIRECT;
constexpr int THREADS = TEAM < 128 && !IS_TEAM ? 128 : TEAM, TEAMS = THREADS / TEAM, WARPS = TEAM / 32;
constexpr int QUEUE = 32 + 32 * PER_WORD, MOST = 32;
constexpr int WEIGHTS = 34;  // numbers of a row of the tables of weights
constexpr int ORDERS = 5;    // sets of up to 4 players

__device__ __forceinline__ void sync_team() {
  if (TEAM == 32)
    __syncwarp();
  else
    __syncthreads();
}

__device__ __forceinline__ float exp_of(float x) { return expf(x); }
__device__ __forceinline__ double exp_of(double x) { return exp(x); }
__device__ __forceinline__ float log_of(float x) { return logf(x); }
__device__ __forceinline__ double log_of(double x) { return log(x); }
__device__ __forceinline__ float log1p_of(float x) { return log1pf(x); }
__device__ __forceinline__ double log1p_of(double x) { return log1p(x); }

__device__ __forceinline__ void keep(int* at, float x) { *at = __float_as_int(x); }
__device__ __forceinline__ void keep(long long* at, double x) { *at = __double_as_longlong(x); }
__device__ __forceinline__ float kept(const int* at) { return __uint_as_float(unsigned(*at)); }
__device__ __forceinline__ double kept(const long long* at) { return __longlong_as_double(*at); }

__device__ __forceinline__ void add_to(int* at, int v) { atomicAdd(at, v); }
// Shared memory adds 32 bits at a time: the low half says whether it has overflowed.
__device__ __forceinline__ void add_to(long long* at, long long v) {
#if IN_GLOBAL
  atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(v));
#else
  unsigned* const half = reinterpret_cast<unsigned*>(at);
  const unsigned low = unsigned(v), before = atomicAdd(half, low);
  atomicAdd(half + 1, unsigned(static_cast<unsigned long long>(v) >> 32) + unsigned(before + low < before));
#endif
}

struct Cubes {
  Unit *known, *unknown;
  long long size;  // coalitions

  __device__ __forceinline__ void add(unsigned p, unsigned n, Unit v) const {
    const bool by_known = __popc(n) <= __popc(p);
    Unit* const to = by_known ? known + p : unknown + n;
    const unsigned free = by_known ? n : p;
    for (unsigned t = free;; t = (t - 1) & free) {
      add_to(to + t, __popc(t) & 1 ? Unit(0) - v : v);
      if (!t) break;
    }
  }
};

struct Leaves {
  const MASK *a, *c;
  const Unit* value;
  int width, place;  // numbers of a leaf, and which of them
  Differing differing;

  __device__ __forceinline__ void add(long long leaf, const Cubes& to) const {
    to.add(differing.numbers_of(c[leaf], leaf), differing.numbers_of(a[leaf], leaf), value[leaf * width + place]);
  }
};

// Adds the leaves first ... end - 1 that hybrids reach, 32 at a time.
__device__ __forceinline__ void add_leaves(const Leaves& leaves, long long first, long long end, const Cubes& to,
                                           int* queue, int thread) {
  const Word *a = reinterpret_cast<const Word*>(leaves.a), *c = reinterpret_cast<const Word*>(leaves.c);
  const int lane = thread % 32;
  const long long end_word = end / PER_WORD;
  int waiting = 0;
  for (long long start = first / PER_WORD + thread / 32 * 32; start < end_word; start += TEAM) {
    const long long word = start + lane;
    const Word empty = word < end_word ? empty_masks(a[word] & c[word]) : 0;
    if (!__any_sync(ALL, empty != 0)) continue;
#pragma unroll
    for (int i = 0; i < PER_WORD; ++i) {
      const bool reached = empty >> (MASK_BITS * (i + 1) - 1) & 1;
      const unsigned all = __ballot_sync(ALL, reached);
      if (reached) queue[waiting + __popc(all & ((1u << lane) - 1))] = int(word) * PER_WORD + i;
      waiting += __popc(all);
    }
    __syncwarp();
    while (waiting >= 32) {
      waiting -= 32;
      leaves.add(queue[waiting + lane], to);
    }
    __syncwarp();
  }
  if (lane < waiting) leaves.add(queue[lane], to);
}

// Units of the margins of all coalitions, in the place of `known`.
__device__ __forceinline__ void transform(const Cubes& cubes, int thread) {
  for (long long h = 1; h < cubes.size; h *= 2) {
    sync_team();
    for (long long i = thread; i < cubes.size / 2; i += TEAM) {
      const long long low = (i & ~(h - 1)) * 2 | (i & (h - 1));
      cubes.known[low + h] += cubes.known[low];
      cubes.unknown[low + h] += cubes.unknown[low];
    }
  }
  sync_team();
  for (long long s = thread; s < cubes.size; s += TEAM) cubes.known[s] += cubes.unknown[cubes.size - 1 - s];
}

struct Margins {
  const double* base;  // [output]
  double unit, scale;
  int n_outputs;

  __device__ __forceinline__ REAL of(const Unit* cube, int output) const {
    return REAL(scale * (base[output] + unit * double(*cube)));
  }
};

// Replaces the units of a coalition, `size` apart, by its responses.
__device__ __forceinline__ void respond(Unit* at, long long size, const Margins& margins, int label) {
  const int k = margins.n_outputs;
  if constexpr (RESPONSE == RESPONSE_MARGIN) {
    for (int o = 0; o < k; ++o) keep(at + o * size, margins.of(at + o * size, o));
  } else if constexpr (RESPONSE == RESPONSE_LOGISTIC) {
    for (int o = 0; o < k; ++o) keep(at + o * size, 1 / (1 + exp_of(-margins.of(at + o * size, o))));
  } else if constexpr (RESPONSE == RESPONSE_EXP) {
    for (int o = 0; o < k; ++o) keep(at + o * size, exp_of(margins.of(at + o * size, o)));
  } else if constexpr (RESPONSE == RESPONSE_LOG_LOSS) {
    const REAL m = margins.of(at, 0), zero = 0;
    keep(at, (m > 0 ? m : zero) + log1p_of(exp_of(m > 0 ? -m : m)) - (label ? m : zero));
  } else {
    REAL most = margins.of(at, 0), sum = 0;
    for (int o = 1; o < k; ++o) {
      const REAL m = margins.of(at + o * size, o);
      most = m > most ? m : most;
    }
    const REAL mine = margins.of(at + label * size, label);
    for (int o = 0; o < k; ++o) {
      const REAL term = exp_of(margins.of(at + o * size, o) - most);
      sum += term;
      if constexpr (RESPONSE == RESPONSE_SOFTMAX) keep(at + o * size, term);
    }
    if constexpr (RESPONSE == RESPONSE_SOFTMAX)
      for (int o = 0; o < k; ++o) keep(at + o * size, kept(at + o * size) / sum);
    else
      keep(at, log_of(sum) + most - mine);
  }
}

// Sum over the team, for all of its threads.
template <class Real>
__device__ __forceinline__ Real sum_team(Real x, Real* of_warp, int thread) {
#pragma unroll
  for (int step = 16; step; step /= 2) x += __shfl_xor_sync(ALL, x, step);
  if (WARPS == 1) return x;
  __syncthreads();
  if (thread % 32 == 0) of_warp[thread / 32] = x;
  __syncthreads();
  x = 0;
  for (int warp = 0; warp < WARPS; ++warp) x += of_warp[warp];
  return x;
}

// Adds the values of a response, share times, to those of the players; weights: (w(s - 1) + w(s), w(s)) by size s.
__device__ __forceinline__ void add_values(const Unit* v, int d, Differing differing, const double* weights,
                                           double share, double* sums, int n_responses, REAL* of_warp, int thread) {
  const long long size = 1ll << d;
  const REAL empty = kept(v);
  REAL all = 0, total = 0, of_bit[MOST] = {};
  constexpr int LOW = TEAM == 32 ? 5 : TEAM == 128 ? 7 : TEAM == 512 ? 9 : 10;
  for (long long s = thread; s < size; s += TEAM) {
    const REAL x = kept(v + s) - empty;
    const int n = __popc(unsigned(s));
    const REAL both = x * REAL(weights[2 * n]);
    total += x * REAL(weights[2 * n + 1]);
    all += both;
#pragma unroll
    for (int bit = LOW; bit < 20; ++bit) of_bit[bit] += s >> bit & 1 ? both : REAL(0);
  }
  total = sum_team(total, of_warp, thread);
#pragma unroll
  for (int bit = 0; bit < 20; ++bit) {
    if (bit >= d) break;
    const REAL mine = bit < LOW ? (thread >> bit & 1 ? all : REAL(0)) : of_bit[bit];
    const REAL sum = sum_team(mine, of_warp, thread);
    const int player = differing.next();
    if (thread == 0) sums[player * n_responses] += share * double(sum - total);
  }
}

// Adds the indices of sets of players, share times: of a set of r, Σ_S v(S) (-1)^(r - |S ∩ set|) w(r, |S \ set|).
// weights: [order][size]. The index of a set with a player on which the rows do not differ is 0.
__device__ __forceinline__ void add_sets(const Unit* v, int d, const Differing& differing, const Set* sets, int n_sets,
                                         const double* weights, double share, double* sums, int n_responses,
                                         double* of_warp, int thread) {
  const long long size = 1ll << d;
  const REAL empty = kept(v);
  const auto add = [&](int i) {
    const unsigned set = differing.numbers_of_set(sets[i]);
    const int r = __popc(set);
    const double* const w = weights + r * WEIGHTS;
    double sum = 0;
    for (long long s = thread; s < size; s += TEAM) {
      const int inside = __popc(unsigned(s) & set);
      const double x = double(kept(v + s) - empty) * w[__popc(unsigned(s)) - inside];
      sum += (r - inside) & 1 ? -x : x;
    }
    sum = sum_team(sum, of_warp, thread);
    if (thread == 0) sums[i * n_responses] += share * sum;
  };
#if WIDE
  // Most sets have such a player: lanes look at 32 at a time.
  for (int first = 0; first < n_sets; first += 32) {
    const int mine = first + thread % 32;
    unsigned rest = __ballot_sync(ALL, mine < n_sets && differing.has(sets[mine]));
    for (; rest; rest &= rest - 1) add(first + lowest(rest));
  }
#else
  for (int i = 0; i < n_sets; ++i)
    if (differing.has(sets[i])) add(i);
#endif
}

#if AVERAGES
// Adds the monomials of a response, share times, to those of its mean over all background rows: [coalition of all
// players]. A thread a coalition, so that each sum has the order of the background rows.
__device__ __forceinline__ void add_monomials(Unit* v, int d, const Differing& differing, double share, double* sums,
                                              int thread) {
  const long long size = 1ll << d;
  for (long long h = 1; h < size; h *= 2) {
    sync_team();
    for (long long i = thread; i < size / 2; i += TEAM) {
      const long long low = (i & ~(h - 1)) * 2 | (i & (h - 1));
      keep(v + low + h, kept(v + low + h) - kept(v + low));
    }
  }
  sync_team();
  for (long long s = thread; s < size; s += TEAM) {
    unsigned set = 0, rest = differing.bits;
    for (unsigned left = unsigned(s); left; left >>= 1, rest &= rest - 1) set |= left & 1 ? rest & (0u - rest) : 0;
    sums[set] += share * double(kept(v + s));
  }
}
#endif

}  // namespace glasswood

// Pairs of row blockIdx.x and `together` background rows from blockIdx.y on that differ on fewest ... most players.
// rows, others: masks [row][leaf]; first: leaves of each output, of vectors all; value: [leaf][width]; pairs: [row]
// [other]; weights: [players][size][2], of sets [players][order][size]; sets: bits of players; sums: [row][part][player
// or set][response], 0 for sets and DIRECT; of means [row][response][coalition], 0; cubes: room for each block in
// global memory. Of WIDE, first_place and place as in find_players.cu; `pairs` have room for `listed` players.
extern "C" __global__ void __launch_bounds__(glasswood::THREADS)
    explain_pairs_kernel(const MASK* __restrict__ rows, const MASK* __restrict__ others, long long n_leaves,
                         const long long* __restrict__ first, const glasswood::Unit* __restrict__ value, int width,
                         int n_outputs, const double* __restrict__ base, double unit, double scale,
                         const int* __restrict__ labels, const glasswood::Pair* __restrict__ pairs,
                         const double* __restrict__ share, int n_others, int together, int fewest, int most,
                         const double* __restrict__ weights, const glasswood::Set* __restrict__ sets, int n_numbers,
                         int n_responses, double* __restrict__ sums, glasswood::Unit* __restrict__ cubes,
                         const int* __restrict__ first_place, const unsigned short* __restrict__ place, int n_players,
                         int listed) {
  using namespace glasswood;
  extern __shared__ uint4 shared[];
  const int team = threadIdx.x / TEAM, thread = threadIdx.x % TEAM, n_sums = n_numbers * n_responses;
  const long long row = blockIdx.x, part = blockIdx.y, most_size = 1ll << most;
  double* const to = sums + (row * gridDim.y + part) * n_sums;
#if SETS || AVERAGES
  double* const of_warps = reinterpret_cast<double*>(shared);
#elif DIRECT
  double* const of_team = to;
  REAL* const of_warps = reinterpret_cast<REAL*>(shared);
#else
  double* const of_teams = reinterpret_cast<double*>(shared);
  double* const of_team = of_teams + team * n_sums;
  REAL* const of_warps = reinterpret_cast<REAL*>(of_teams + TEAMS * n_sums);
  for (int i = thread; i < n_sums; i += TEAM) of_team[i] = 0;
#endif
  int* const queues = reinterpret_cast<int*>(of_warps + THREADS / 32 * 2);
  int* const queue = queues + threadIdx.x / 32 * QUEUE;
  int* end_of_queues = queues + THREADS / 32 * QUEUE;
#if WIDE
  const int stride = (n_players + 7) / 8 * 8;
  unsigned char* const number = reinterpret_cast<unsigned char*>(end_of_queues) + team * stride;
  for (int player = thread; player < n_players; player += TEAM) number[player] = ABSENT;
  end_of_queues += TEAMS * stride / 4;
#endif
#if IN_GLOBAL
  Unit* const room = cubes + ((row * gridDim.y + part) * TEAMS + team) * ((n_outputs + 1) * most_size);
#else
  Unit* const room = reinterpret_cast<Unit*>(end_of_queues) + team * ((n_outputs + 1) * most_size);
#endif
  const Margins margins{base, unit, scale, n_outputs};
  const int begin = int(part) * together, end = begin + together < n_others ? begin + together : n_others;
  for (int other = begin + team; other < end; other += TEAMS) {
#if WIDE
    const Pair* const pair = pairs + (row * n_others + other) * (1 + listed);
    const Differing players{first_place, place, number, pair + 1};
    const int d = pair[0];
#else
    const Differing players{pairs[row * n_others + other]};
    const int d = __popc(players.bits);
#endif
    if (d < fewest || d > most) continue;
#if WIDE
    sync_team();
    if (thread < d) number[pair[1 + thread]] = (unsigned char)thread;
#endif
    const long long size = 1ll << d;
    const MASK *a = rows + row * n_leaves, *c = others + other * n_leaves;
    Unit* const unknown = room + n_outputs * size;
    for (int o = 0; o < n_outputs; ++o) {
      const Cubes own{room + o * size, unknown, size};
      sync_team();
      for (long long s = thread; s < size; s += TEAM) own.known[s] = own.unknown[s] = 0;
      sync_team();
      const Leaves leaves{a, c, value, width, width > 1 ? o : 0, players};
      add_leaves(leaves, width > 1 ? 0 : first[o], width > 1 ? n_leaves : first[o + 1], own, queue, thread);
      transform(own, thread);
    }
    sync_team();
    for (long long s = thread; s < size; s += TEAM) respond(room + s, size, margins, labels ? labels[row] : 0);
    sync_team();
    for (int r = 0; r < n_responses; ++r) {
#if AVERAGES
      add_monomials(room + r * size, d, players, share[other], to + (long long)r * n_numbers, thread);
#elif SETS
      add_sets(room + r * size, d, players, sets, n_numbers, weights + d * ORDERS * WEIGHTS, share[other], to + r,
               n_responses, of_warps, thread);
#else
      add_values(room + r * size, d, players, weights + d * 2 * WEIGHTS, share[other], of_team + r, n_responses,
                 of_warps, thread);
#endif
    }
#if WIDE
    sync_team();
    if (thread < d) number[pair[1 + thread]] = ABSENT;
#endif
  }
#if !SETS && !AVERAGES && !DIRECT
  __syncthreads();
  for (int i = threadIdx.x; i < n_sums; i += THREADS) {
    double sum = 0;
    for (int of = 0; of < TEAMS; ++of) sum += of_teams[of * n_sums + i];
    to[i] = sum;
  }
#endif
}
