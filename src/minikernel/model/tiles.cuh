// What a warp holds of MiniGPT: 16 tokens, in the layout of the tensor cores' results, from LayerNorm to LayerNorm.
//
// A tile is 16 rows by 8 columns. Lane 4 g + t has of it row g, columns 2 t and 2 t + 1, then the same columns of row
// g + 8. Two neighbouring tiles, once rounded, are what the next product takes as its left operand: nothing moves
// between lanes. Weights come packed for the right operand (fragments.py): for 8 outputs and 16 features, a chunk, a
// lane's four are weight[output g][2 t, 2 t + 1, 8 + 2 t, 9 + 2 t].
//
// Needs ptx.cuh before it.
#pragma once

constexpr int WIDTH = 64, HEADS = 4, HEAD = WIDTH / HEADS, HIDDEN = 4 * WIDTH;
constexpr int ROWS = 16, TILES = WIDTH / 8, CHUNKS = WIDTH / 16;
constexpr float EPSILON = 1e-5f;
#undef INFINITY
#define INFINITY __int_as_float(0x7f800000)

// float32 as two float16, x = high + low, 22 bits; three products keep all but 2^-22 of the largest. What goes in must
// stay below float16's 65504: the packing sees to that.
struct Float32 {
  struct Left {
    word high[4], low[4];
  };
  typedef uint4 Right;  // high of both pairs of features, low of both
  typedef float Number;

  // The second number is what the first one's rounding lost, rounded in its turn.
  static __device__ __forceinline__ void split(float first, float second, word& high, word& low) {
    high = pack_float16(first, second);
    const float2 kept = unpack_float16(high);
    low = pack_float16(first - kept.x, second - kept.y);
  }

  static __device__ __forceinline__ Left left(const float (&u)[4], const float (&v)[4]) {
    // Words of the left operand: rows g and g + 8 of features 2 t, 2 t + 1, then of features 8 + 2 t, 9 + 2 t. That is
    // just what a lane has of two neighbouring result tiles.
    Left made;
    split(u[0], u[1], made.high[0], made.low[0]);
    split(u[2], u[3], made.high[1], made.low[1]);
    split(v[0], v[1], made.high[2], made.low[2]);
    split(v[2], v[3], made.high[3], made.low[3]);
    return made;
  }

  static __device__ __forceinline__ void multiply(float (&sum)[4], const Left& a, const Right& b) {
    // Small products first, while the sum is small: what is truncated
    // is relative to it. low x low, 2^-22 of it, is left out.
    multiply_float16(sum, a.low, b.x, b.y);
    multiply_float16(sum, a.high, b.z, b.w);
    multiply_float16(sum, a.high, b.x, b.y);
  }

  // A sum over several chunks. Tensor cores truncate what they add: the small products, added up apart, lose nothing.
  struct Sum {
    float large[4], small[4];

    __device__ __forceinline__ void add(const Left& a, const Right& b) {
      multiply_float16(small, a.low, b.x, b.y);
      multiply_float16(large, a.high, b.x, b.y);
      multiply_float16(small, a.high, b.z, b.w);
    }

    __device__ __forceinline__ float total(int i) const { return large[i] + small[i]; }
  };

  // keys of 8 tokens, rows g (`lower` 0) or g + 8 (`lower` 2) of the tiles of dimensions 0 to 7 and 8 to 15
  template <int LOWER>
  static __device__ __forceinline__ Right keys(const float (&u)[4], const float (&v)[4]) {
    Right made;
    split(u[LOWER], u[LOWER + 1], made.x, made.z);
    split(v[LOWER], v[LOWER + 1], made.y, made.w);
    return made;
  }

  // values of 16 tokens for the 8 dimensions of a tile
  static __device__ __forceinline__ Right values(const float (&u)[4]) {
    Right made;
    split(u[0], u[1], made.x, made.z);
    split(u[2], u[3], made.y, made.w);
    // In weights x values the sum is over tokens, so that two tokens have to share a word where the result tile has two
    // dimensions there: `movmatrix` turns 8 x 8 within the warp, without shared memory.
    return Right{transposed(made.x), transposed(made.y), transposed(made.z), transposed(made.w)};
  }
};

// bfloat16 as it is; sums are float32.
struct Bfloat16 {
  struct Left {
    word pairs[4];
  };
  typedef uint2 Right;
  typedef unsigned short Number;

  static __device__ __forceinline__ Left left(const float (&u)[4], const float (&v)[4]) {
    return Left{{pack_bfloat16(u[0], u[1]), pack_bfloat16(u[2], u[3]), pack_bfloat16(v[0], v[1]),
                 pack_bfloat16(v[2], v[3])}};
  }

  static __device__ __forceinline__ void multiply(float (&sum)[4], const Left& a, const Right& b) {
    multiply_bfloat16(sum, a.pairs, b.x, b.y);
  }

  struct Sum {
    float all[4];

    // one sum: what a tensor core truncates is far below what rounding to bfloat16 has lost already
    __device__ __forceinline__ void add(const Left& a, const Right& b) { multiply(all, a, b); }
    __device__ __forceinline__ float total(int i) const { return all[i]; }
  };

  template <int LOWER>
  static __device__ __forceinline__ Right keys(const float (&u)[4], const float (&v)[4]) {
    return Right{pack_bfloat16(u[LOWER], u[LOWER + 1]), pack_bfloat16(v[LOWER], v[LOWER + 1])};
  }

  static __device__ __forceinline__ Right values(const float (&u)[4]) {
    return Right{transposed(pack_bfloat16(u[0], u[1])), transposed(pack_bfloat16(u[2], u[3]))};
  }
};

// Summed over, or the largest of, the four lanes that share a row.
__device__ __forceinline__ float sum_of_row(float value) {
  value += __shfl_xor_sync(~0u, value, 1);
  return value + __shfl_xor_sync(~0u, value, 2);
}

__device__ __forceinline__ float largest_of_row(float value) {
  value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
  return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
}

// x / 2 (1 + tanh u) is x / (1 + exp(-2 u)), without a difference of neighbours
__device__ __forceinline__ float gelu(float x) {
  const float square = x * x;
  return x * reciprocal(1.0f + power_of_two(x * fmaf(square, -0.10294324f, -2.3022082f)));
}

// LayerNorm of 16 rows, ready to multiply. Its weight and bias are in the matrix that follows (fragments.py).
template <class Precision>
__device__ __forceinline__ void layer_norm(const float (&x)[TILES][4], typename Precision::Left (&made)[CHUNKS]) {
  // Two passes over registers: the variance from squares of differences, which loses nothing where the mean is large. A
  // lane has a quarter of two rows, and two shuffles join the four lanes.
  float total[2] = {0, 0}, squares[2] = {0, 0};
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
    for (int i = 0; i < 4; ++i) total[i / 2] += x[tile][i];
  const float mean[2] = {sum_of_row(total[0]) / WIDTH, sum_of_row(total[1]) / WIDTH};
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float centred = x[tile][i] - mean[i / 2];
      squares[i / 2] = fmaf(centred, centred, squares[i / 2]);
    }
  const float scale[2] = {rsqrtf(sum_of_row(squares[0]) / WIDTH + EPSILON),
                          rsqrtf(sum_of_row(squares[1]) / WIDTH + EPSILON)};
#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    float normed[2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) normed[half][i] = (x[2 * chunk + half][i] - mean[i / 2]) * scale[i / 2];
    made[chunk] = Precision::left(normed[0], normed[1]);
  }
}
