// What is done for each token by one warp, 2 of the 64 columns in a lane: embeddings, sums, LayerNorm, the loss.
#pragma once

__device__ __forceinline__ float sum_of_warp(float x) {
#pragma unroll
  for (int distance = 16; distance; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
  return x;
}

__device__ __forceinline__ float most_of_warp(float x) {
#pragma unroll
  for (int distance = 16; distance; distance /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, distance));
  return x;
}

__device__ __forceinline__ float2 at2(const float* from) { return *reinterpret_cast<const float2*>(from); }
__device__ __forceinline__ void put2(float* to, float2 x) { *reinterpret_cast<float2*>(to) = x; }
__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ float2 operator*(float2 a, float2 b) { return make_float2(a.x * b.x, a.y * b.y); }

// The sum of four warps' partial products, always in the same order.
__device__ __forceinline__ float2 sum_of_partials(const float* partials, int row, int column) {
  const float* const from = partials + row * PARTIAL + column;
  constexpr int NEXT = ROWS * PARTIAL;
  return (at2(from) + at2(from + NEXT)) + (at2(from + 2 * NEXT) + at2(from + 3 * NEXT));
}

// w n + b, n the row with mean 0 and variance 1; the result is 1 / sigma.
__device__ __forceinline__ float layer_norm(float2 x, float2 weight, float2 bias, float2& n, float2& y) {
  const float mean = sum_of_warp(x.x + x.y) / WIDTH;
  const float2 centred = make_float2(x.x - mean, x.y - mean);
  const float variance = sum_of_warp(centred.x * centred.x + centred.y * centred.y) / WIDTH;
  const float inverse = rsqrtf(variance + 1e-5f);
  n = make_float2(centred.x * inverse, centred.y * inverse);
  y = weight * n + bias;
  return inverse;
}

// The gradient of what a LayerNorm read. `sums` receives dy n and dy, of which the sums over rows are the gradients of
// its weights and biases.
__device__ __forceinline__ float2 layer_norm_backward(float2 dy, float2 weight, float2 n, float inverse,
                                                      float* sums) {
  const float2 g = dy * weight;
  put2(sums, dy * n);
  put2(sums + WIDTH, dy);
  const float mean = sum_of_warp(g.x + g.y) / WIDTH, along = sum_of_warp(g.x * n.x + g.y * n.y) / WIDTH;
  return make_float2((g.x - mean - n.x * along) * inverse, (g.y - mean - n.y * along) * inverse);
}

// u = c (x + 0.044715 x^3) and GELU = x (1 + tanh u) / 2, which is x s with s = 1 / (1 + exp(-2 u)).
constexpr float GELU_SCALE = 0.7978845608028654f, GELU_CUBIC = 0.044715f;

__device__ __forceinline__ float gelu_share(float x) {
  return __fdividef(1, 1 + expf(-2 * x * (GELU_SCALE * GELU_CUBIC * x * x + GELU_SCALE)));
}

// s + 2 x s (1 - s) u'
__device__ __forceinline__ float gelu_slope(float x) {
  const float share = gelu_share(x);
  return share * (1 + 2 * x * (1 - share) * (3 * GELU_SCALE * GELU_CUBIC * x * x + GELU_SCALE));
}
