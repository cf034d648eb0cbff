// The first two kernels of a layer of kernels.cu: queries, keys and values; and what a head mixes.
#pragma once

// Grid (blocks, UNITS_OF_QKV / UNITS). packed: the layer's vectors, then its 12 units. stream (PARTS, row_tiles, 8, 32)
// float4 is read, or written where EMBED makes it. qkv (row_tiles, 12) units: queries, then keys, then values of a head.
template <class Precision, int UNITS, int WARPS, int PARTS, bool EMBED, bool TIMED>
__global__ void __launch_bounds__(32 * WARPS)
    project_qkv(const char* packed, float4* stream, char* qkv, const long long* ids, const float* tokens,
                const float* places, int time, int words, int row_tiles, long long* stamps) {
  typedef typename Precision::Right Right;
  constexpr int VECTORS = QKV_VECTORS * sizeof(float), WEIGHTS = UNITS * CHUNKS * UNIT<Precision>;
  extern __shared__ float4 memory[];
  __shared__ unsigned long long barrier;
  const float* const vectors = reinterpret_cast<const float*>(memory);
  const char* const weights = reinterpret_cast<const char*>(memory) + VECTORS;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Timeline<TIMED> timeline(stamps);
  // The weights do not depend on the launch before, so that they are copied while that is still at work.
  if (threadIdx.x == 0) {
    const Prefetch prefetch(shared_address(&barrier), VECTORS + WEIGHTS);
    prefetch.copy(memory, packed, VECTORS);
    prefetch.copy(reinterpret_cast<char*>(memory) + VECTORS, packed + VECTORS + blockIdx.y * WEIGHTS, WEIGHTS);
  }
  let_next_kernel_begin();
  __syncthreads();
  await_kernels_before();
  timeline.ended(WAITING);

  // Persistent: a block keeps its matrix in shared memory for all the tiles of rows that it takes.
  for (int row_tile = blockIdx.x * WARPS + warp; row_tile < row_tiles; row_tile += gridDim.x * WARPS) {
    float x[TILES][4];
    if (EMBED) {
      embed(x, ids, tokens, places, row_tile, time, words, lane);
      // Blocks that share rows have all made them; one writes.
      if (blockIdx.y == 0)
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
          stream[place_of(row_tile, tile, lane)] = make_float4(x[tile][0], x[tile][1], x[tile][2], x[tile][3]);
    } else {
      load_stream<PARTS>(x, stream, row_tile, lane, row_tiles);
    }
    typename Precision::Left normed[CHUNKS];
    layer_norm<Precision>(x, normed);
    timeline.ended(MEMORY);
    // The barrier's only phase: later rounds pass at once.
    await(shared_address(&barrier), 0);
    const float factor = vectors[3 * WIDTH];
#pragma unroll 1
    for (int i = 0; i < UNITS; ++i) {
      const int unit = blockIdx.y * UNITS + i;
      const Right* const own = reinterpret_cast<const Right*>(weights + i * CHUNKS * UNIT<Precision>) + lane;
      float u[4], v[4];
      set_columns(u, vectors, 2 * unit, lane);
      set_columns(v, vectors, 2 * unit + 1, lane);
      // A unit is 16 columns, two tiles: one head's queries, keys or values.
      add_product<Precision>(u, normed, own, factor);
      add_product<Precision>(v, normed, own + CHUNKS * 32, factor);
      char* const to = qkv + (static_cast<size_t>(row_tile) * UNITS_OF_QKV + unit) * UNIT<Precision>;
      // Queries are stored as left operands, scaled; keys and values as right ones, as attention takes them.
      if (unit < HEADS) {
#pragma unroll
        for (int j = 0; j < 4; ++j) u[j] *= SCALE, v[j] *= SCALE;
        store(to, Precision::left(u, v), lane);
      } else {
        const bool keys = unit < 2 * HEADS;
        Right* const place = reinterpret_cast<Right*>(to) + lane;
        place[0] = keys ? Precision::template keys<0>(u, v) : Precision::values(u);
        place[32] = keys ? Precision::template keys<2>(u, v) : Precision::values(v);
      }
    }
    timeline.ended(ARITHMETIC);
  }
}

// A warp for 16 queries of a head, which have KEY_TILES times 16 keys at most. mixed (row_tiles, HEADS) units.
template <class Precision, int KEY_TILES, int WARPS, bool TIMED>
__global__ void __launch_bounds__(32 * WARPS)
    attend(const char* qkv, char* mixed, int tiles_of_sequence, int row_tiles, long long* stamps) {
  typedef typename Precision::Right Right;
  const int lane = threadIdx.x % 32;
  Timeline<TIMED> timeline(stamps);
  let_next_kernel_begin();
  // tiles of a sequence beside each other, so that the warps of a block share keys and values
  const int number = blockIdx.x * WARPS + threadIdx.x / 32, within = number % tiles_of_sequence;
  const int head = number / tiles_of_sequence % HEADS, sequence = number / tiles_of_sequence / HEADS;
  const int first = sequence * tiles_of_sequence;
  await_kernels_before();
  timeline.ended(WAITING);
  if (number >= row_tiles * HEADS) return;
  const auto unit = [&](int row_tile, int which) {
    return qkv + (static_cast<size_t>(first + row_tile) * UNITS_OF_QKV + which * HEADS + head) * UNIT<Precision>;
  };
  // Later tiles of keys are not seen by any of these queries and are not loaded; `within` is the same in all lanes.
  const auto load_all = [&](Right(&operands)[KEY_TILES][2], int which) {
#pragma unroll
    for (int keys = 0; keys < KEY_TILES; ++keys) {
      if (keys > within) continue;
      const Right* const from = reinterpret_cast<const Right*>(unit(keys, which)) + lane;
      operands[keys][0] = from[0];
      operands[keys][1] = from[32];
    }
  };

  constexpr bool AT_ONCE = KEY_TILES <= 4;  // registers for keys and values besides the scores
  typename Precision::Left query;
  Right operands[KEY_TILES][2], values[KEY_TILES][2];
  // All loads first: a warp has no other work that could hide the way to memory.
  load(unit(within, 0), query, lane);
  load_all(operands, 1);
  if (AT_ONCE) load_all(values, 2);
  float scores[KEY_TILES][2][4], top[2] = {-INFINITY, -INFINITY};
#pragma unroll
  for (int keys = 0; keys < KEY_TILES; ++keys) {
    if (keys > within) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[keys][half][i] = 0;
      Precision::multiply(scores[keys][half], query, operands[keys][half]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // Only the tile on the diagonal needs a mask.
        const int key = 8 * half + lane % 4 * 2 + i % 2, row = lane / 4 + i / 2 * 8;
        if (keys == within && key > row) scores[keys][half][i] = -INFINITY;
        top[i / 2] = fmaxf(top[i / 2], scores[keys][half][i]);
      }
    }
  }
  if (!AT_ONCE) load_all(values, 2);
  timeline.ended(MEMORY);
  top[0] = largest_of_row(top[0]);
  top[1] = largest_of_row(top[1]);
  float total[2] = {0, 0}, out[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
#pragma unroll
  for (int keys = 0; keys < KEY_TILES; ++keys) {
    if (keys > within) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[keys][half][i] = __expf(scores[keys][half][i] - top[i / 2]);
        total[i / 2] += scores[keys][half][i];
      }
    // Tiles of scores are the left operand as they lie; the division by the sum waits for the end.
    const typename Precision::Left weights = Precision::left(scores[keys][0], scores[keys][1]);
    add_product<Precision>(out[0], weights, values[keys][0], 1.0f);
    add_product<Precision>(out[1], weights, values[keys][1], 1.0f);
  }
  const float share[2] = {1.0f / sum_of_row(total[0]), 1.0f / sum_of_row(total[1])};
#pragma unroll
  for (int i = 0; i < 4; ++i) out[0][i] *= share[i / 2], out[1][i] *= share[i / 2];
  store(mixed + (static_cast<size_t>(first + within) * HEADS + head) * UNIT<Precision>,
        Precision::left(out[0], out[1]), lane);
  timeline.ended(ARITHMETIC);
}
