// Products of forward.cu, and what the warps of a team add up.
#pragma once

// COUNT tiles of 8 outputs from the 64 features.
template <class Precision, int COUNT>
__device__ __forceinline__ void product(const typename Precision::Left (&a)[CHUNKS],
                                        const typename Precision::Right (*pieces)[32], int lane,
                                        typename Precision::Sum (&sums)[COUNT]) {
#pragma unroll
  for (int tile = 0; tile < COUNT; ++tile) sums[tile] = {};
  // Chunks outside, tiles inside: neighbouring products have different sums and need not wait for each other.
#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; ++chunk)
#pragma unroll
    for (int tile = 0; tile < COUNT; ++tile) sums[tile].add(a[chunk], pieces[tile * CHUNKS + chunk][lane]);
}

// The same with the scaling undone and the bias added; `bias` is that of the lane's first column.
template <class Precision, int COUNT>
__device__ __forceinline__ void linear(const typename Precision::Left (&a)[CHUNKS],
                                       const typename Precision::Right (*pieces)[32], int lane, const float* bias,
                                       float factor, float (&made)[COUNT][4]) {
  typename Precision::Sum sums[COUNT];
  product<Precision>(a, pieces, lane, sums);
#pragma unroll
  for (int tile = 0; tile < COUNT; ++tile) {
    const float2 two = *reinterpret_cast<const float2*>(bias + 8 * tile);
#pragma unroll
    for (int i = 0; i < 4; ++i) made[tile][i] = fmaf(sums[tile].total(i), factor, i % 2 ? two.y : two.x);
  }
}

// What 16 features contribute to the stream.
template <class Precision>
__device__ __forceinline__ void contribute(const typename Precision::Left& a,
                                           const typename Precision::Right (*pieces)[32], int lane, float factor,
                                           float (&x)[TILES][4]) {
  // From zero, and added by a rounded fma: tensor cores would truncate the stream's last bits.
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
    float sum[4] = {};
    Precision::multiply(sum, a, pieces[tile][lane]);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[tile][i] = fmaf(sum[i], factor, x[tile][i]);
  }
}

__device__ __forceinline__ void add_bias(float (&x)[TILES][4], const float* bias) {
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
    const float2 two = *reinterpret_cast<const float2*>(bias + 8 * tile);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[tile][i] += i % 2 ? two.y : two.x;
  }
}

__device__ __forceinline__ void clear(float (&x)[TILES][4]) {
#pragma unroll
  for (int i = 0; i < 4 * TILES; ++i) x[i / 4][i % 4] = 0;
}

// Add up what the warps of a team have of the stream, one half of its features after the other: who writes the first
// half the next time has seen everybody pass the second barrier of this time. `sent`: [half][TEAM][TILES / 2][32].
template <int TEAM>
__device__ __forceinline__ void exchange(float (&x)[TILES][4], float4* sent, int tile, int member, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float4* const here = sent + (2 * tile + half) * TEAM * TILES / 2 * 32 + lane;
#pragma unroll
    for (int i = 0; i < TILES / 2; ++i) {
      const float(&own)[4] = x[half * TILES / 2 + i];
      here[(member * TILES / 2 + i) * 32] = make_float4(own[0], own[1], own[2], own[3]);
    }
    named_barrier(1 + tile, 32 * TEAM);
#pragma unroll
    for (int i = 0; i < TILES / 2; ++i) {
      float4 sum = here[i * 32];
#pragma unroll
      for (int from = 1; from < TEAM; ++from) {  // in the same order in all of them
        const float4 part = here[(from * TILES / 2 + i) * 32];
        sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
      }
      float(&own)[4] = x[half * TILES / 2 + i];
      own[0] = sum.x, own[1] = sum.y, own[2] = sum.z, own[3] = sum.w;
    }
  }
}
