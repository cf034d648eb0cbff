// Attention of a tile of 16 tokens, forward and backward, on tensor cores: 4 warps for each head.
//
// A sequence's tiles lie in as many blocks. Queries, keys and values of the others come from global memory, through L2;
// the block's own from shared memory. Sums have their order from the tiles' numbers alone.
#pragma once

constexpr float SCORE = 0.25f;  // 1 / sqrt(HEAD)

// What attention reads of a tile: its own block's in shared memory, another's in global memory.
struct Rows {
  const float* at;
  int width;

  __device__ __forceinline__ float4 four(int row, int column) const { return load4(at + row * width + column); }
  __device__ __forceinline__ float one(int row, int column) const { return at[row * width + column]; }
};

__device__ __forceinline__ float most_of_four(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ __forceinline__ float sum_of_four(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// What a lane needs of (16, 16) of `rows`, from `column` on, as a product's right side. All loads of a tile come before
// all products: another block's rows come from L2, and take as long one by one as together.
struct Rights {
  float first[2][2], second[2][2];

  __device__ __forceinline__ Rights(const Rows& rows, int column, Lane lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int row = 8 * i + 2 * lane.pair, of = column + 8 * j + lane.group;
        first[i][j] = rows.one(row, of), second[i][j] = rows.one(row + 1, of);
      }
  }
};

// rows (16, 16) times those; rows are taken as they lie in registers.
template <class Sums>
__device__ __forceinline__ void add_mixed(Sums (&sum)[2], const float (&p)[2][4], const Rights& right) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // Columns 2 pair and 2 pair + 1 of a product are k = pair and pair + 4 of the next: no number changes its lane.
    const Left left = left_of(p[i][0], p[i][2], p[i][1], p[i][3]);
#pragma unroll
    for (int j = 0; j < 2; ++j) sum[j].add(left, right.first[i][j], right.second[i][j]);
  }
}

// What one of a head's four warps makes of its keys: sums of values, weighed with exponentials, their greatest
// exponent and the exponentials' sum. Warp `part` has tiles part, part + 4 and so on up to `member`, the block's own.
template <class TileOf>
__device__ __forceinline__ void attend(TileOf tile_of, const float* queries, int member, int head, int part,
                                       float* partials, float* statistics, Lane lane) {
  const Chunk query = chunk_of(queries + HEAD * head, WIDE, lane);
  Sum mixed[2];
  float most[2] = {-INFINITE, -INFINITE}, total[2] = {0, 0};
  for (int tile = part; tile <= member; tile += 4) {
    const Rows rows = tile_of(tile);
    float4 keys[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) keys[i] = rows.four(8 * i + lane.group, WIDTH + HEAD * head + 4 * lane.pair);
    const Rights values(rows, 2 * WIDTH + HEAD * head, lane);
    __syncwarp();  // so that no load is put off
    Sum score[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) add(score[i], query, keys[i]);
    float p[2][4], greatest[2] = {most[0], most[1]};
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = lane.group + j / 2 * 8, key = 8 * i + 2 * lane.pair + j % 2;
        p[i][j] = tile == member && key > row ? -INFINITE : score[i][j] * SCORE;
        greatest[j / 2] = fmaxf(greatest[j / 2], p[i][j]);
      }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      greatest[half] = most_of_four(greatest[half]);
      const float shrink = expf(most[half] - greatest[half]);
      most[half] = greatest[half];
      total[half] *= shrink;
#pragma unroll
      for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int k = 0; k < 2; ++k) mixed[j].large[2 * half + k] *= shrink, mixed[j].small[2 * half + k] *= shrink;
    }
    float sum[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) p[i][j] = expf(p[i][j] - most[j / 2]), sum[j / 2] += p[i][j];
#pragma unroll
    for (int half = 0; half < 2; ++half) total[half] += sum_of_four(sum[half]);
    add_mixed(mixed, p, values);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane.group + 8 * half;
#pragma unroll
    for (int j = 0; j < 2; ++j)
      put2(partials + (part * ROWS + row) * PARTIAL + HEAD * head + 8 * j + 2 * lane.pair,
           make_float2(mixed[j][2 * half], mixed[j][2 * half + 1]));
    if (lane.pair == 0)
      put2(statistics + 2 * ((part * HEADS + head) * ROWS + row), make_float2(most[half], total[half]));
  }
}

// Columns `column` and the next of a row of what attention mixed, from the four warps' parts; the logarithm of the sum
// of the row's exponentials.
__device__ __forceinline__ float2 mixed_of(const float* partials, const float* statistics, int row, int column,
                                           float& exponent) {
  const int head = column / HEAD;
  float2 of[4];
  float most = -INFINITE, total = 0;
#pragma unroll
  for (int part = 0; part < 4; ++part) {
    of[part] = at2(statistics + 2 * ((part * HEADS + head) * ROWS + row));
    most = fmaxf(most, of[part].x);
  }
  float2 mixed = make_float2(0, 0);
#pragma unroll
  for (int part = 0; part < 4; ++part) {
    const float weight = expf(of[part].x - most);
    const float2 partial = at2(partials + (part * ROWS + row) * PARTIAL + column);
    total += of[part].y * weight;
    mixed.x += partial.x * weight, mixed.y += partial.y * weight;
  }
  exponent = most + logf(total);
  return make_float2(__fdividef(mixed.x, total), __fdividef(mixed.y, total));
}

// How many of a head's four warps have gradients of queries; the others have those of keys and values. A tile of the
// former costs three products, one of the latter four.
__device__ __forceinline__ int parts_of_queries(int member, int tiles) {
  int best = 1, least = 1 << 30;
#pragma unroll
  for (int parts = 1; parts < 4; ++parts) {
    const int cost = max(3 * ((member + parts) / parts), 4 * ((tiles - member + 3 - parts) / (4 - parts)));
    if (cost < least) least = cost, best = parts;
  }
  return best;
}

// Where a warp's part of attention's gradients lies: two in the place of other partial sums, two in that of
// activations.
__device__ __forceinline__ float* gradients_of_part(float* rest, int part) {
  return rest + (part < 2 ? PARTIALS + part * ROWS * PART : UNION + BIG + (part - 2) * ROWS * PART);
}

// Gradients of a tile's queries, over the keys up to its own, and of its keys and values, over the queries from its own
// on. A head's warps take their tiles in turn. Of each query `exponents` is the logarithm above, and `along` the sum of
// gradient times mixed value; both (row, head).
template <class TileOf, class GradientOf, class OfRow>
__device__ __forceinline__ void attend_backward(TileOf tile_of, GradientOf gradient_of, OfRow of_row, const float* own,
                                                const float* own_gradient, int member, int tiles, int head, int part,
                                                float* out, Lane lane) {
  out += HEAD * head;
  const int column = HEAD * head, for_queries = parts_of_queries(member, tiles);
  if (part < for_queries) {
    const Chunk query = chunk_of(own + column, WIDE, lane), gradient = chunk_of(own_gradient + column, NARROW, lane);
    float2 of[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) of[half] = of_row(member, lane.group + 8 * half, head);
    ShortSum d_query[2];
    for (int tile = part; tile <= member; tile += for_queries) {
      const Rows rows = tile_of(tile);
      float4 keys[2], values[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        keys[i] = rows.four(8 * i + lane.group, WIDTH + column + 4 * lane.pair);
        values[i] = rows.four(8 * i + lane.group, 2 * WIDTH + column + 4 * lane.pair);
      }
      const Rights right(rows, WIDTH + column, lane);
      __syncwarp();
      float d_score[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        ShortSum score, d_p;
        add(score, query, keys[i]);
        add(d_p, gradient, values[i]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int row = lane.group + j / 2 * 8, key = 8 * i + 2 * lane.pair + j % 2;
          const float p = expf(tile == member && key > row ? -INFINITE : score[j] * SCORE - of[j / 2].x);
          d_score[i][j] = p * (d_p[j] - of[j / 2].y) * SCORE;
        }
      }
      add_mixed(d_query, d_score, right);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        put2(out + (lane.group + 8 * half) * PART + 8 * j + 2 * lane.pair,
             make_float2(d_query[j][2 * half], d_query[j][2 * half + 1]));
    return;
  }
  // the transposed: a row is a key, a column a query
  const Chunk key = chunk_of(own + WIDTH + column, WIDE, lane), value = chunk_of(own + 2 * WIDTH + column, WIDE, lane);
  ShortSum d_key[2], d_value[2];
  for (int tile = member + part - for_queries; tile < tiles; tile += 4 - for_queries) {
    const Rows rows = tile_of(tile), gradients = gradient_of(tile);
    float4 queries[2], of_values[2];
    float2 of[2][2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      queries[i] = rows.four(8 * i + lane.group, column + 4 * lane.pair);
      of_values[i] = gradients.four(8 * i + lane.group, column + 4 * lane.pair);
#pragma unroll
      for (int j = 0; j < 2; ++j) of[i][j] = of_row(tile, 8 * i + 2 * lane.pair + j, head);
    }
    const Rights right_gradients(gradients, column, lane), right_queries(rows, column, lane);
    __syncwarp();
    float p[2][4], d_score[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      ShortSum score, d_p;
      add(score, key, queries[i]);
      add(d_p, value, of_values[i]);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = lane.group + j / 2 * 8, query = 8 * i + 2 * lane.pair + j % 2;
        p[i][j] = expf(tile == member && row > query ? -INFINITE : score[j] * SCORE - of[i][j % 2].x);
        d_score[i][j] = p[i][j] * (d_p[j] - of[i][j % 2].y) * SCORE;
      }
    }
    add_mixed(d_value, p, right_gradients);
    add_mixed(d_key, d_score, right_queries);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float* const to = out + (lane.group + 8 * half) * PART + 8 * j + 2 * lane.pair;
      put2(to, make_float2(d_key[j][2 * half], d_key[j][2 * half + 1]));
      put2(to + WIDTH, make_float2(d_value[j][2 * half], d_value[j][2 * half + 1]));
    }
}
