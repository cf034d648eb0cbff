// The model in 13 launches of four kernels, fused as far as rows allow, for a CUDA graph (captured.py):
//
//   project_qkv   [embedding,] LayerNorm, queries, keys and values      a warp: 16 rows, some of the 12 units
//   attend        causal attention of a head                            a warp: 16 queries of a head
//   feed_forward  projection, residual, LayerNorm, FFN, residual        SPLIT warps share 16 rows
//   predict       LayerNorm, LM head, softmax                           CLUSTER blocks of SPLIT warps share 16 rows
//
// Between launches, rows lie in memory as warps hold them (tiles.cuh): the stream in tiles, queries, keys, values and
// what attention mixed as operands of the next product, so that every access is 16 bytes a lane, side by side. A
// sequence takes whole tiles of 16 rows; rows beyond its end are copies of its last token, and are never written out.
//
// Each launch begins before the one before it ends (programmatic dependent launch): it has its weights copied into
// shared memory, then waits. Only what lies behind that wait depends on other launches.
#include "../ptx.cuh"
#include "../tiles.cuh"
#include "rows.cuh"
#include "attention.cuh"

// Grid (blocks, BLOCKS): blocks that differ in y share rows; each takes some hidden columns and writes a part of the
// stream. GROUPS times SPLIT warps; a group has 16 rows, its warps divide columns. packed: the layer's vectors, the
// projection (8 tiles, 4 chunks), and 16 pieces: 16 hidden columns' weights in (2, 4), then out (8).
template <class Precision, int GROUPS, int SPLIT, int BLOCKS, int PARTS, bool TIMED>
__global__ void __launch_bounds__(32 * GROUPS * SPLIT)
    feed_forward(const char* packed, const char* mixed, const float4* stream, float4* written, int row_tiles,
                 long long* stamps) {
  typedef typename Precision::Right Right;
  // Of a warp: OWN tiles of the projection's 8, and MINE pieces of 16 hidden columns.
  constexpr int OWN = TILES / SPLIT, MINE = PIECES / BLOCKS / SPLIT;
  constexpr int VECTORS = FFN_VECTORS * sizeof(float), PROJ = TILES * CHUNKS * FRAGMENT<Precision>;
  constexpr int WEIGHTS = PIECES / BLOCKS * PIECE<Precision>;
  extern __shared__ float4 memory[];
  __shared__ unsigned long long barrier;
  char* const bytes = reinterpret_cast<char*>(memory);
  const float* const vectors = reinterpret_cast<const float*>(memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = warp / SPLIT, which = warp % SPLIT;
  Timeline<TIMED> timeline(stamps);
  if (threadIdx.x == 0) {
    const Prefetch prefetch(shared_address(&barrier), VECTORS + PROJ + WEIGHTS);
    prefetch.copy(bytes, packed, VECTORS + PROJ);
    prefetch.copy(bytes + VECTORS + PROJ, packed + VECTORS + PROJ + blockIdx.y * WEIGHTS, WEIGHTS);
  }
  let_next_kernel_begin();
  __syncthreads();
  await_kernels_before();
  timeline.ended(WAITING);

  const Right* const proj = reinterpret_cast<const Right*>(bytes + VECTORS) + which * OWN * CHUNKS * 32 + lane;
  const char* const pieces = bytes + VECTORS + PROJ + which * MINE * PIECE<Precision>;
  // [group]: the rows after the projection, then what each warp of the group adds to them
  float4* const shared = reinterpret_cast<float4*>(bytes + VECTORS + PROJ + WEIGHTS) + group * (1 + SPLIT) * TILES * 32;
  // `first` is all threads' and needs no register of each: with 16 groups, none is left
  for (int first = blockIdx.x * GROUPS; first < row_tiles; first += gridDim.x * GROUPS) {
    const int row_tile = first + group;
    if (row_tile >= row_tiles) break;
    // What attention mixed, a chunk for each head, ready to multiply.
    typename Precision::Left operand[CHUNKS];
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk)
      load(mixed + (static_cast<size_t>(row_tile) * HEADS + chunk) * UNIT<Precision>, operand[chunk], lane);
    // The residual: where the launch before left parts, they are added up as they are loaded.
    float x[TILES][4], own[OWN][4];
#pragma unroll
    for (int tile = 0; tile < OWN; ++tile) {
      own[tile][0] = own[tile][1] = own[tile][2] = own[tile][3] = 0;
      add_stream<PARTS>(own[tile], stream, row_tile, which * OWN + tile, lane, row_tiles);
    }
    timeline.ended(MEMORY);
    await(shared_address(&barrier), 0);
    const float proj_factor = vectors[FFN_VECTORS - 4], fc_factor = vectors[FFN_VECTORS - 3];
    const float out_factor = vectors[FFN_VECTORS - 2];
#pragma unroll
    for (int tile = 0; tile < OWN; ++tile) {
      float bias[4];
      set_columns(bias, vectors, which * OWN + tile, lane);
      add_to(own[tile], make_float4(bias[0], bias[1], bias[2], bias[3]));
      add_product<Precision>(own[tile], operand, proj + tile * CHUNKS * 32, proj_factor);
    }
    if (SPLIT > 1) {
#pragma unroll
      for (int tile = 0; tile < OWN; ++tile)
        shared[(which * OWN + tile) * 32 + lane] = make_float4(own[tile][0], own[tile][1], own[tile][2], own[tile][3]);
      // A barrier of the group alone: groups have rows of their own and do not wait for each other.
      named_barrier(1 + group, 32 * SPLIT);
    }
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        x[tile][i] = SPLIT == 1 ? own[tile % OWN][i] : reinterpret_cast<const float*>(&shared[tile * 32 + lane])[i];
    // LayerNorm needs whole rows, so that each warp of the group normalises all of
    // them by itself. Then x becomes what this warp adds: with SPLIT 1 on top of
    // residual and bias, else from nothing, as these come in when the sums are joined.
    layer_norm<Precision>(x, operand);
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
      float bias[4];
      if (SPLIT == 1) set_columns(bias, vectors + WIDTH + HIDDEN, tile, lane);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[tile][i] = SPLIT == 1 ? x[tile][i] + bias[i] : 0;
    }
    // 16 hidden columns at a time: made, activated, and multiplied into all 64 columns of x.
#pragma unroll 1
    for (int i = 0; i < MINE; ++i) {
      const int piece = blockIdx.y * (PIECES / BLOCKS) + which * MINE + i;
      const Right* const in = reinterpret_cast<const Right*>(pieces + i * PIECE<Precision>) + lane;
      const Right* const out = in + 2 * CHUNKS * 32;
      float u[4], v[4];
      set_columns(u, vectors + WIDTH, 2 * piece, lane);
      set_columns(v, vectors + WIDTH, 2 * piece + 1, lane);
      add_product<Precision>(u, operand, in, fc_factor);
      add_product<Precision>(v, operand, in + CHUNKS * 32, fc_factor);
#pragma unroll
      for (int j = 0; j < 4; ++j) u[j] = gelu(u[j]), v[j] = gelu(v[j]);
      const typename Precision::Left hidden = Precision::left(u, v);
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile)
        add_product<Precision>(x[tile], hidden, out[tile * 32], out_factor);
    }
    if (SPLIT > 1) {
      // Partial sums meet in shared memory, behind the rows that may still be read; each warp adds up its own tiles, in
      // the order of the warps, so that the result is the same each time.
      float4* const sums = shared + TILES * 32;
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile)
        sums[(which * TILES + tile) * 32 + lane] = make_float4(x[tile][0], x[tile][1], x[tile][2], x[tile][3]);
      named_barrier(1 + group, 32 * SPLIT);
#pragma unroll
      for (int tile = 0; tile < OWN; ++tile) {
        float bias[4];
        set_columns(bias, vectors + WIDTH + HIDDEN, which * OWN + tile, lane);
#pragma unroll
        for (int i = 0; i < 4; ++i) x[tile][i] = blockIdx.y == 0 ? own[tile][i] + bias[i] : 0;
#pragma unroll
        for (int from = 0; from < SPLIT; ++from) add_to(x[tile], sums[(from * TILES + which * OWN + tile) * 32 + lane]);
      }
    }
    timeline.ended(ARITHMETIC);
#pragma unroll
    for (int tile = 0; tile < OWN; ++tile)
      written[place_of(row_tile, which * OWN + tile, lane, blockIdx.y, row_tiles)] =
          make_float4(x[tile][0], x[tile][1], x[tile][2], x[tile][3]);
    timeline.ended(MEMORY);
  }
}

// Four neighbouring words of a row; `left` of them are in the vocabulary.
template <bool ALIGNED>
__device__ __forceinline__ void write_words(float* to, const float4& words, int left) {
  if (ALIGNED) {
    if (left > 0) *reinterpret_cast<float4*>(to) = words;
    return;
  }
  if (left > 0) to[0] = words.x;
  if (left > 1) to[1] = words.y;
  if (left > 2) to[2] = words.z;
  if (left > 3) to[3] = words.w;
}

template <bool ALIGNED>
__device__ __forceinline__ void write_words(unsigned short* to, const float4& words, int left) {
  const uint2 packed = make_uint2(pack_bfloat16(words.x, words.y), pack_bfloat16(words.z, words.w));
  if (ALIGNED) {
    if (left > 0) *reinterpret_cast<uint2*>(to) = packed;
    return;
  }
  if (left > 0) to[0] = packed.x;
  if (left > 1) to[1] = packed.x >> 16;
  if (left > 2) to[2] = packed.y;
  if (left > 3) to[3] = packed.y >> 16;
}

// A cluster of CLUSTER blocks; GROUPS times SPLIT warps a block; a group of each block shares 16 rows, its warps have PAIRS
// times 16 words each. packed: the factor in four floats, biases of `room` words, -1e30 where there is none, then weights
// (word tiles, 4 chunks). Of 16 words a lane's four, two of either tile, are neighbours (packing.py).
template <class Precision, int GROUPS, int SPLIT, int CLUSTER, int PAIRS, int PARTS, bool SOFTMAX, bool ALIGNED,
          bool TIMED>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(32 * GROUPS * SPLIT)
    predict(const char* packed, const float4* stream, typename Precision::Number* written, int time, int words, int room,
            int row_tiles, long long* stamps) {
  typedef typename Precision::Right Right;
  constexpr int OWN = SPLIT * PAIRS * 16, VECTORS = (4 + OWN) * sizeof(float);  // words of a block; factor and biases
  constexpr int WEIGHTS = OWN / 8 * CHUNKS * FRAGMENT<Precision>;
  extern __shared__ float4 memory[];
  __shared__ unsigned long long barrier, arrivals[GROUPS][2];
  __shared__ float2 exchanged[GROUPS][2][CLUSTER * SPLIT][ROWS];  // the largest logit, and the sum; by turns
  char* const bytes = reinterpret_cast<char*>(memory);
  const float* const vectors = reinterpret_cast<const float*>(memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = warp / SPLIT, which = warp % SPLIT;
  const int block = CLUSTER == 1 ? 0 : block_of_cluster();
  Timeline<TIMED> timeline(stamps);
  if (threadIdx.x == 0) {
    // A barrier for each group and for each side of `exchanged`, which turns use in alternation.
    if (CLUSTER > 1)
      for (int i = 0; i < 2 * GROUPS; ++i) make_barrier(shared_address(&arrivals[i / 2][i % 2]), 1);
    const Prefetch prefetch(shared_address(&barrier), VECTORS + WEIGHTS);
    prefetch.copy(bytes, packed, 16);
    prefetch.copy(bytes + 16, packed + 16 + block * OWN * sizeof(float), OWN * sizeof(float));
    prefetch.copy(bytes + VECTORS, packed + (4 + room) * sizeof(float) + block * WEIGHTS, WEIGHTS);
  }
  __syncthreads();
  // No store to another block before its barriers are there.
  if (CLUSTER > 1) cluster_barrier();
  await_kernels_before();
  timeline.ended(WAITING);

  const Right* const weights =
      reinterpret_cast<const Right*>(bytes + VECTORS) + which * PAIRS * 2 * CHUNKS * 32 + lane;
  unsigned turn = 0;
  for (int row_tile = blockIdx.x / CLUSTER * GROUPS + group; row_tile < row_tiles;
       row_tile += gridDim.x / CLUSTER * GROUPS, ++turn) {
    float x[TILES][4];
    load_stream<PARTS>(x, stream, row_tile, lane, row_tiles);
    typename Precision::Left normed[CHUNKS];
    layer_norm<Precision>(x, normed);
    timeline.ended(MEMORY);
    await(shared_address(&barrier), 0);
    const float factor = vectors[0];
    // All of a warp's words stay in registers, as logits and then as exponentials.
    float logits[PAIRS][2][4], top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair) {
      // The sums begin as the biases: of a lane's four words, the first two stand in one tile, the others in the next.
      const float4 bias = reinterpret_cast<const float4*>(vectors)[1 + (which * PAIRS + pair) * 4 + lane % 4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float(&sum)[4] = logits[pair][half];
        sum[0] = sum[2] = half ? bias.z : bias.x;
        sum[1] = sum[3] = half ? bias.w : bias.y;
        add_product<Precision>(sum, normed, weights + (2 * pair + half) * CHUNKS * 32, factor);
        if (SOFTMAX)
#pragma unroll
          for (int i = 0; i < 4; ++i) top[i / 2] = fmaxf(top[i / 2], sum[i]);
      }
    }
    if (SOFTMAX) {
      // Softmax over the warps of all blocks: each has its largest logit and a sum of exponentials around it.
      top[0] = largest_of_row(top[0]);
      top[1] = largest_of_row(top[1]);
#pragma unroll
      for (int pair = 0; pair < PAIRS; ++pair)
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          float& logit = logits[pair][i / 4][i % 4];
          logit = __expf(logit - top[i / 2 % 2]);
          total[i / 2 % 2] += logit;
        }
      total[0] = sum_of_row(total[0]);
      total[1] = sum_of_row(total[1]);
      timeline.ended(ARITHMETIC);
      const int side = turn & 1;
      float2(&all)[CLUSTER * SPLIT][ROWS] = exchanged[group][side];
      float2* const mine = &all[block * SPLIT + which][lane / 4];
      if (CLUSTER == 1) {
        if (lane % 4 < 2) mine[8 * (lane % 4)] = make_float2(lane % 4 ? top[1] : top[0], lane % 4 ? total[1] : total[0]);
        named_barrier(1 + group, 32 * SPLIT);
      } else {
        const unsigned arrived = shared_address(&arrivals[group][side]);
        if (which == 0 && lane == 0) expect(arrived, sizeof all);
        // The four lanes of a row send to a quarter of the blocks each.
        for (unsigned to = lane % 4; to < CLUSTER; to += 4)
#pragma unroll
          for (int half = 0; half < 2; ++half)
            send(remote(shared_address(mine + 8 * half), to), remote(arrived, to), make_float2(top[half], total[half]));
        await(arrived, turn / 2 & 1);
      }
      timeline.ended(WAITING);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float most = -INFINITY, sum = 0;
#pragma unroll
        for (int from = 0; from < CLUSTER * SPLIT; ++from) most = fmaxf(most, all[from][lane / 4 + 8 * half].x);
#pragma unroll
        for (int from = 0; from < CLUSTER * SPLIT; ++from) {
          const float2 part = all[from][lane / 4 + 8 * half];
          sum = fmaf(part.y, __expf(part.x - most), sum);
        }
        // from here on: what this warp's exponentials are multiplied by
        total[half] = __expf(top[half] - most) / sum;
      }
    }
    timeline.ended(ARITHMETIC);
    const int tiles_of_sequence = (time + ROWS - 1) / ROWS, sequence = row_tile / tiles_of_sequence;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int place = row_tile % tiles_of_sequence * ROWS + lane / 4 + 8 * half;
      if (place >= time) continue;
      const size_t row = (static_cast<size_t>(sequence) * time + place) * words;
      const float share = SOFTMAX ? total[half] : 1.0f;
#pragma unroll
      for (int pair = 0; pair < PAIRS; ++pair) {
        const int word = block * OWN + (which * PAIRS + pair) * 16 + lane % 4 * 4;
        const float* const u = logits[pair][0] + 2 * half;
        const float* const v = logits[pair][1] + 2 * half;
        write_words<ALIGNED>(written + row + word, make_float4(u[0] * share, u[1] * share, v[0] * share, v[1] * share),
                             words - word);
      }
    }
    timeline.ended(MEMORY);
  }
}
