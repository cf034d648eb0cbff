// Products on the tensor cores, with sums of float32. Operands are float32: three TF32 products for each, x = high + low,
// of 11 significant bits each, and a b = high high + high low + low high, all but a part in 2^22. Or, where
// OPERANDS_BFLOAT16 is defined, they are rounded to bfloat16 as they are read.
//
// Which feature of a matrix is called which k is free, as long as both operands agree: a lane has four features side by
// side, so that it reads them with one 16-byte load. Lanes are told by `group`, lane / 4, and `pair`, lane % 4.
#pragma once

struct Lane {
  int group, pair;
};

#ifdef OPERANDS_BFLOAT16

// The two features of a lane are neighbours, k = 2 pair and 2 pair + 1.
struct Left {
  unsigned pairs[2];
};
struct Right {
  unsigned pair;
};

__device__ __forceinline__ Left left_of(float a0, float a1, float a2, float a3) {
  return {{pair_of_bfloat16(a0, a2), pair_of_bfloat16(a1, a3)}};
}
__device__ __forceinline__ Right right_of(float first, float second) { return {pair_of_bfloat16(first, second)}; }

__device__ __forceinline__ void multiply(float (&large)[4], float (&)[4], const Left& a, const Right& b) {
  multiply_bfloat16(large, a.pairs, b.pair);
}

#else

struct Split {
  unsigned high, low;
};

// The high half is rounded to nearest, by an addition; the rest is exact. The tensor core cuts what it reads: were the
// low half rounded too, the gradients' errors would be a fortieth smaller, and the splitting a third dearer.
__device__ __forceinline__ Split split(float x) {
  const unsigned high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
  return {high, __float_as_uint(x - __uint_as_float(high))};
}

struct Left {
  unsigned high[4], low[4];
};
struct Right {
  Split first, second;
};

__device__ __forceinline__ Left left_of(float a0, float a1, float a2, float a3) {
  const Split s[4] = {split(a0), split(a1), split(a2), split(a3)};
  Left left;
#pragma unroll
  for (int i = 0; i < 4; ++i) left.high[i] = s[i].high, left.low[i] = s[i].low;
  return left;
}
__device__ __forceinline__ Right right_of(float first, float second) { return {split(first), split(second)}; }

__device__ __forceinline__ void multiply(float (&large)[4], float (&small)[4], const Left& a, const Right& b) {
  multiply_tf32(small, a.low, b.first.high, b.second.high);
  multiply_tf32(small, a.high, b.first.low, b.second.low);
  multiply_tf32(large, a.high, b.first.high, b.second.high);
}

#endif

// The small products have sums of their own: one chain less to wait for, and they are added to each other first.
struct Sum {
  float large[4] = {0, 0, 0, 0}, small[4] = {0, 0, 0, 0};

  __device__ __forceinline__ void add(const Left& a, float first, float second) {
    multiply(large, small, a, right_of(first, second));
  }
  __device__ __forceinline__ float operator[](int i) const { return large[i] + small[i]; }
};

// One sum for all three, where registers are few.
struct ShortSum {
  float large[4] = {0, 0, 0, 0};

  __device__ __forceinline__ void add(const Left& a, float first, float second) {
    multiply(large, large, a, right_of(first, second));
  }
  __device__ __forceinline__ float operator[](int i) const { return large[i]; }
};

// 16 features of 16 rows.
struct Chunk {
  Left first, second;

  __device__ __forceinline__ Chunk(float4 upper, float4 lower)
      : first(left_of(upper.x, lower.x, upper.y, lower.y)), second(left_of(upper.z, lower.z, upper.w, lower.w)) {}
};

// `rows` in shared memory, its rows `width` numbers apart.
__device__ __forceinline__ Chunk chunk_of(const float* rows, int width, Lane lane) {
  const float* const upper = rows + lane.group * width + 4 * lane.pair;
  return Chunk(*reinterpret_cast<const float4*>(upper), *reinterpret_cast<const float4*>(upper + 8 * width));
}

template <class Sums> __device__ __forceinline__ void add(Sums& sum, const Chunk& a, float4 b) {
  sum.add(a.first, b.x, b.y);
  sum.add(a.second, b.z, b.w);
}

// Plain loads, also of what other blocks write: the fences of the grid's barrier empty the L1 cache.
__device__ __forceinline__ float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ __forceinline__ float2 load2(const float* from) { return *reinterpret_cast<const float2*>(from); }

// in W^T: 16 rows by 8 outputs a tile, over 16 CHUNKS features.
template <int TILES, int CHUNKS>
__device__ __forceinline__ void forward_product(Sum (&sum)[TILES], const float* in, int width,
                                                const float4 (&weights)[TILES * CHUNKS], Lane lane) {
#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    const Chunk a = chunk_of(in + 16 * chunk, width, lane);
#pragma unroll
    for (int i = 0; i < TILES; ++i) add(sum[i], a, weights[i * CHUNKS + chunk]);
  }
}

// in W: 16 rows by 16 columns, over 16 CHUNKS outputs of W. sum[i][j] has column 2 (2 pair + j % 2) + i.
template <int CHUNKS>
__device__ __forceinline__ void backward_product(Sum (&sum)[2], const float* in, int width,
                                                 const float4 (&weights)[2 * CHUNKS], Lane lane) {
#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    const Chunk a = chunk_of(in + 16 * chunk, width, lane);
    const float4 upper = weights[2 * chunk], lower = weights[2 * chunk + 1];
    add(sum[0], a, make_float4(upper.x, upper.z, lower.x, lower.z));
    add(sum[1], a, make_float4(upper.y, upper.w, lower.y, lower.w));
  }
}
