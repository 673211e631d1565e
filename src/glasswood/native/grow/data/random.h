// Counter-based random numbers: a stream is named by its key, not by who draws first.
#pragma once
#include <cmath>
#include <cstdint>

namespace glasswood {

inline uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// SplitMix64 (Steele, Lea, Flood 2014) started at a hash of (seed, generation, individual, purpose).
class Random {
 public:
  Random(uint64_t seed, uint64_t generation, uint64_t individual, uint64_t purpose)
      : state_(mix64(mix64(mix64(mix64(seed + kStep) + generation * kStep) + individual * kStep) + purpose * kStep)) {}

  uint64_t bits() { return mix64(state_ += kStep); }
  double uniform() { return double(bits() >> 11) * 0x1p-53; }
  bool chance(double probability) { return uniform() < probability; }
  int64_t below(int64_t n) { return int64_t((static_cast<unsigned __int128>(bits()) * uint64_t(n)) >> 64); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  double normal() { return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(2 * M_PI * uniform()); }

  // Linear ranking with s = 2 over ranks 0 (worst) to n - 1 (best): the larger of two uniform draws.
  int64_t ranked(int64_t n) {
    const int64_t a = below(n), b = below(n);
    return a > b ? a : b;
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15ull;
  uint64_t state_;
};

}  // namespace glasswood
