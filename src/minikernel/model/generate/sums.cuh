// What the warps of write_text.cu compute with: sums over lanes, rows of products, and the memory of a block.
#pragma once

constexpr int WIDTH = 64, HEADS = 4, HEAD = WIDTH / HEADS, HIDDEN = 4 * WIDTH;
constexpr int BLOCKS = 8, THREADS = 256, WARPS = THREADS / 32, PER_WARP = 16;  // positions that a warp attends to
constexpr float EPSILON = 1e-5f;
#undef INFINITY
#define INFINITY __int_as_float(0x7f800000)
constexpr int VALUE = WIDTH / 2;                                     // of a head's values, those of a block
constexpr int QKV_ROWS = (2 * HEAD + VALUE) / WARPS, FC_ROWS = HIDDEN / BLOCKS / WARPS;  // of a warp
constexpr int QKV = QKV_ROWS / 2, FC = FC_ROWS / 2, OUT = 2;  // 16-byte vectors that a thread has of each matrix
constexpr int VECTORS = QKV + FC + OUT;
constexpr int QKV_BIAS = 2 * HEAD + VALUE, FC_BIAS = HIDDEN / BLOCKS, BIASES = QKV_BIAS + FC_BIAS + 2 * WIDTH;
constexpr int HELD_LAYERS = 4, HELD_VECTORS = 40;  // registers hold so many layers, and with the head so many vectors

__device__ __forceinline__ float dot(float4 a, float4 b) {
  return fmaf(a.x, b.x, a.y * b.y) + fmaf(a.z, b.z, a.w * b.w);
}

__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }

// An integer that is ordered as the float is, and back: the largest of a warp's integers takes one instruction.
__device__ __forceinline__ int ordered(float value) {
  const int bits = __float_as_int(value);
  return bits ^ (bits >> 31 & 0x7fffffff);
}

__device__ __forceinline__ float largest(float value) {
  const int bits = __reduce_max_sync(~0u, ordered(value));
  return __int_as_float(bits ^ (bits >> 31 & 0x7fffffff));
}

// COUNT values summed over a warp's lanes, and `squares` besides. Lanes part with half of the values at each step, and
// have one in the end: number `row`, if `left` is positive, as it is unless COUNT is no power of two.
template <int DISTANCE, int COUNT>
__device__ __forceinline__ float sum_of_row(const float (&values)[COUNT], float& squares, int lane, int& row,
                                            int& left) {
  if constexpr (DISTANCE == 0) {
    static_assert(COUNT == 1, "a lane ends with one value");
    return values[0];
  } else {
    constexpr int KEPT = (COUNT + 1) / 2;
    // A lane keeps one half of its values and gives the other to its partner: 32 values take 16 + 8 + 4 + 2 + 1
    // exchanges, where summing each of them over all lanes would take 160.
    const bool upper = COUNT > 1 && lane & DISTANCE;
    float kept[KEPT];
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
      const bool lacks = 2 * KEPT > COUNT && i == KEPT - 1;  // of an odd number: the last value has no other
      const float first = values[i], second = COUNT == 1 ? first : lacks ? 0 : values[lacks ? 0 : KEPT + i];
      kept[i] = (upper ? second : first) + exchanged(upper ? first : second, DISTANCE);
    }
    squares += exchanged(squares, DISTANCE);
    if (upper) row += KEPT, left -= KEPT;
    else left = min(left, KEPT);
    return sum_of_row<DISTANCE / 2>(kept, squares, lane, row, left);
  }
}

// A warp's rows of a matrix times the normalised stream, of which a lane has two elements; a vector of weights has them
// of two rows. A lane has the product of its `row` in the end.
template <int COUNT>
__device__ __forceinline__ float row_product(const float4 (&weights)[COUNT], float2 x, int lane, int& row, int& left) {
  float products[2 * COUNT], squares = fmaf(x.x, x.x, x.y * x.y);
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    products[2 * i] = fmaf(weights[i].x, x.x, weights[i].y * x.y);
    products[2 * i + 1] = fmaf(weights[i].z, x.x, weights[i].w * x.y);
  }
  row = 0, left = 2 * COUNT;
  const float product = sum_of_row<16>(products, squares, lane, row, left);
  // LayerNorm's scale of the row, from the squares that were summed beside the products.
  return product * inverse_root(squares * (1.0f / WIDTH) + EPSILON);
}

// A lane's two elements of a row of 64.
__device__ __forceinline__ float2 two_of(const float* row, int lane) {
  return reinterpret_cast<const float2*>(row)[lane];
}

// x / 2 (1 + tanh u) is x / (1 + exp(-2 u)), without a difference of neighbours
__device__ __forceinline__ float gelu(float x) {
  return x * reciprocal(1.0f + power_of_two(-2.302208198f * x * fmaf(0.044715f * x, x, 1.0f)));
}

struct alignas(16) Shared {
  float mixed_by[HEADS][WIDTH];    // what each head adds to the stream
  float fed_by[BLOCKS][WIDTH];     // what each block's share of a feed-forward layer does
  float likeliest[BLOCKS][WIDTH];  // the embedding of each block's likeliest word
  float2 candidate[BLOCKS];        // its logit, and its number
  float query[HEAD];
  float weights[WARPS][PER_WARP];  // of each warp's positions: exponentials of the scores,
  float mixed[WARPS][VALUE];       // values, weighed,
  float total[WARPS];              // the sum of the weights
  int top[WARPS];                  // and what power of two they are to be multiplied by
  float hidden[HIDDEN / BLOCKS];
  double sum[WARPS];
  float best[WARPS];
  int place[WARPS];
  unsigned long long barriers[4];
  int token;
};
enum { MIXED, FED, LIKELIEST, LOGITS };  // the exchanges, each with a barrier
