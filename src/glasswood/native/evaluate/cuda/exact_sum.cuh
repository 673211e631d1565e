// Sums of float32 numbers in float64 that know whether the order of the additions matters.
#pragma once

namespace glasswood {

constexpr unsigned WHOLE_WARP = 0xffffffffu;

// A float32 number with the biased exponent e is a multiple of 2^(e - 150) and below 2^(e - 126).
struct alignas(8) ExactSum {
  double sum;
  float size;         // sum of the magnitudes, rounded
  short least, most;  // biased exponents of the numbers other than 0; subnormal ones count as 1

  __device__ __forceinline__ void add(float value) {
    const short exponent = short(max(int(__float_as_uint(value) >> 23 & 0xff), 1));
    sum += value;
    size += fabsf(value);
    if (value != 0) least = min(least, exponent), most = max(most, exponent);
  }

  __device__ __forceinline__ void join(const ExactSum& other) {
    sum += other.sum, size += other.size, least = min(least, other.least), most = max(most, other.most);
  }

  __device__ __forceinline__ void join_warp() {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
      join({__shfl_xor_sync(WHOLE_WARP, sum, offset), __shfl_xor_sync(WHOLE_WARP, size, offset),
            short(__shfl_xor_sync(WHOLE_WARP, int(least), offset)),
            short(__shfl_xor_sync(WHOLE_WARP, int(most), offset))});
  }

  // Whether `start` and `count` such numbers can be added in any order without rounding: all partial sums are multiples
  // of the unit of the smallest number, and less than 2^53 of it.
  __device__ __forceinline__ bool is_exact(double start, int count) const {
    if (most == 0) return true;
    if (most == 255) return false;
    const double units = ldexp(start, 150 - least);
    return units == trunc(units) && fabs(units) + ldexp(double(count), most - least + 24) <= 0x1p53;
  }

  // Whether the total is the same in any order once it is rounded: no sum of count + 1 numbers is further than
  // count * 2^-53 of their magnitudes from the exact one, so two are not further than twice that from each other.
  __device__ __forceinline__ bool rounds_alike(double start, int count, float) const {
    const double total = start + sum;
    const double bound = 1.001 * count * 0x1p-52 * (fabs(start) + (1 + count * 0x1p-23) * double(size));
    return count < 1 << 20 && float(total - bound) == float(total + bound) || is_exact(start, count);
  }

  __device__ __forceinline__ bool rounds_alike(double start, int count, double) const { return is_exact(start, count); }
};

}  // namespace glasswood
