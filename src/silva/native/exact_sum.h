// Sums of float32 numbers in float64 that know whether they were exact.
#pragma once

namespace silva {

constexpr unsigned WHOLE_WARP = 0xffffffffu;

// A float32 number with the biased exponent e is a multiple of 2^(e - 150) and below 2^(e - 126).
struct ExactSum {
  double sum;
  int least, most;  // biased exponents of the numbers other than 0; subnormal ones count as 1

  __device__ __forceinline__ void add(float value) {
    const int exponent = max(int(__float_as_uint(value) >> 23 & 0xff), 1);
    sum += value;
    if (value != 0) least = min(least, exponent), most = max(most, exponent);
  }

  __device__ __forceinline__ void join(const ExactSum& other) {
    sum += other.sum, least = min(least, other.least), most = max(most, other.most);
  }

  __device__ __forceinline__ void join_warp() {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
      join({__shfl_xor_sync(WHOLE_WARP, sum, offset), __shfl_xor_sync(WHOLE_WARP, least, offset),
            __shfl_xor_sync(WHOLE_WARP, most, offset)});
  }

  // Whether `start` and `count` such numbers can be added in any order without rounding: all partial sums are multiples
  // of the unit of the smallest number, and less than 2^53 of it.
  __device__ __forceinline__ bool is_exact(double start, int count) const {
    if (most == 0) return true;
    if (most == 255) return false;
    const double units = ldexp(start, 150 - least);
    return units == trunc(units) && fabs(units) + ldexp(double(count), most - least + 24) <= 0x1p53;
  }
};

}  // namespace silva
