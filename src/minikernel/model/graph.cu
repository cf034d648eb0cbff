// The model in 13 launches of four kernels, fused as far as rows allow, for a CUDA graph (graph.py):
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
#include "ptx.cuh"
#include "tiles.cuh"

constexpr int UNITS_OF_QKV = 3 * HEADS, PIECES = HIDDEN / 16;  // 16 outputs of qkv; 16 hidden columns
constexpr float SCALE = 0.25f;                                 // of the scores: 1 / sqrt(HEAD)
constexpr int EVENTS = 16;                                     // of a block's timeline
#define NOT_A_NUMBER __int_as_float(0x7fffffff)
enum Span { MEMORY = 1, ARITHMETIC = 2, WAITING = 3 };

// The biases of a matrix, or of several, lie before the weights; then comes what each matrix's products are to be
// multiplied by, in four floats.
constexpr int QKV_VECTORS = 3 * WIDTH + 4, FFN_VECTORS = WIDTH + HIDDEN + WIDTH + 4;

template <class Precision>
constexpr int FRAGMENT = 32 * sizeof(typename Precision::Right);  // bytes of 8 outputs by 16 features
template <class Precision>
constexpr int UNIT = 2 * FRAGMENT<Precision>;  // bytes of 16 rows by 16 columns, whichever operand they are
template <class Precision>
constexpr int PIECE = 2 * CHUNKS * FRAGMENT<Precision> + TILES * FRAGMENT<Precision>;  // into 16 hidden columns, and out

// Where a block was when (graph.py: timeline): its first thread's clock at the end of each span.
template <bool TIMED>
struct Timeline {
  long long* next = nullptr;
  int left = 0;

  __device__ __forceinline__ explicit Timeline(long long* stamps) {
    if (!TIMED || threadIdx.x) return;
    next = stamps + (blockIdx.y * static_cast<long long>(gridDim.x) + blockIdx.x) * EVENTS * 2;
    left = EVENTS;
    put(multiprocessor(), nanoseconds());
    put(0, clock64());
  }
  __device__ __forceinline__ void put(long long first, long long second) {
    if (!left) return;
    next[0] = first, next[1] = second;
    next += 2, --left;
  }
  __device__ __forceinline__ void ended(Span span) {
    if (TIMED && threadIdx.x == 0) put(span, clock64());
  }
};

// Begin to copy weights into shared memory; `barrier` counts them. The first thread calls this, at most twice 16 MB.
struct Prefetch {
  unsigned barrier;

  __device__ __forceinline__ Prefetch(unsigned barrier, unsigned bytes) : barrier(barrier) {
    make_barrier(barrier, 1);
    fence_barriers();
    expect(barrier, bytes);
  }
  __device__ __forceinline__ void copy(void* to, const void* from, int bytes) const {
    constexpr int MOST = 16384;
    for (int done = 0; done < bytes; done += MOST)
      bulk_copy(shared_address(to) + done, static_cast<const char*>(from) + done, min(MOST, bytes - done), barrier);
  }
};

// An operand that a warp holds, stored and loaded 16 bytes a lane.
__device__ __forceinline__ void store(char* to, const Float32::Left& a, int lane) {
  reinterpret_cast<uint4*>(to)[lane] = make_uint4(a.high[0], a.high[1], a.high[2], a.high[3]);
  reinterpret_cast<uint4*>(to)[32 + lane] = make_uint4(a.low[0], a.low[1], a.low[2], a.low[3]);
}

__device__ __forceinline__ void store(char* to, const Bfloat16::Left& a, int lane) {
  reinterpret_cast<uint4*>(to)[lane] = make_uint4(a.pairs[0], a.pairs[1], a.pairs[2], a.pairs[3]);
}

__device__ __forceinline__ void load(const char* from, Float32::Left& a, int lane) {
  const uint4 high = reinterpret_cast<const uint4*>(from)[lane], low = reinterpret_cast<const uint4*>(from)[32 + lane];
  a = {{high.x, high.y, high.z, high.w}, {low.x, low.y, low.z, low.w}};
}

__device__ __forceinline__ void load(const char* from, Bfloat16::Left& a, int lane) {
  const uint4 pairs = reinterpret_cast<const uint4*>(from)[lane];
  a = {{pairs.x, pairs.y, pairs.z, pairs.w}};
}

// sum += factor a b. Tensor cores truncate what they add to, so that each 16 features are summed from zero.
template <class Precision>
__device__ __forceinline__ void add_product(float (&sum)[4], const typename Precision::Left& a,
                                            const typename Precision::Right& b, float factor) {
  float part[4] = {0, 0, 0, 0};
  Precision::multiply(part, a, b);
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i] = fmaf(part[i], factor, sum[i]);
}

// The same over all 64 features; `weights` points to a lane's own.
template <class Precision>
__device__ __forceinline__ void add_product(float (&sum)[4], const typename Precision::Left (&a)[CHUNKS],
                                            const typename Precision::Right* weights, float factor) {
#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; ++chunk)
    add_product<Precision>(sum, a[chunk], weights[chunk * 32], factor);
}

// A lane's columns of a tile, out of a vector that all rows share.
__device__ __forceinline__ void set_columns(float (&sum)[4], const float* vector, int tile, int lane) {
  const float2 both = reinterpret_cast<const float2*>(vector)[tile * 4 + lane % 4];
  sum[0] = sum[2] = both.x;
  sum[1] = sum[3] = both.y;
}

__device__ __forceinline__ void add_to(float (&sum)[4], const float4& part) {
  sum[0] += part.x, sum[1] += part.y, sum[2] += part.z, sum[3] += part.w;
}

// The place of a tile of the stream's, of rows 16 `row_tile` and on; the stream may be the sum of parts.
__device__ __forceinline__ size_t place_of(int row_tile, int tile, int lane, int part = 0, int row_tiles = 0) {
  return ((static_cast<size_t>(part) * row_tiles + row_tile) * TILES + tile) * 32 + lane;
}

template <int PARTS>
__device__ __forceinline__ void add_stream(float (&sum)[4], const float4* stream, int row_tile, int tile, int lane,
                                           int row_tiles) {
  float4 parts[PARTS];
#pragma unroll
  for (int part = 0; part < PARTS; ++part) parts[part] = stream[place_of(row_tile, tile, lane, part, row_tiles)];
#pragma unroll
  for (int part = 0; part < PARTS; ++part) add_to(sum, parts[part]);
}

template <int PARTS>
__device__ __forceinline__ void load_stream(float (&x)[TILES][4], const float4* stream, int row_tile, int lane,
                                            int row_tiles) {
  float4 parts[PARTS][TILES];
#pragma unroll
  for (int part = 0; part < PARTS; ++part)
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
      parts[part][tile] = stream[place_of(row_tile, tile, lane, part, row_tiles)];
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
    x[tile][0] = x[tile][1] = x[tile][2] = x[tile][3] = 0;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) add_to(x[tile], parts[part][tile]);
  }
}

// Token and position embeddings of 16 rows of a sequence; a token that is not in the vocabulary is no number.
__device__ __forceinline__ void embed(float (&x)[TILES][4], const long long* ids, const float* tokens,
                                      const float* places, int row_tile, int time, int words, int lane) {
  const int tiles_of_sequence = (time + ROWS - 1) / ROWS, sequence = row_tile / tiles_of_sequence;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int place = min(row_tile % tiles_of_sequence * ROWS + 8 * half + lane / 4, time - 1);
    const long long token = ids[static_cast<long long>(sequence) * time + place];
    const bool known = 0 <= token && token < words;
    const float2* const from = reinterpret_cast<const float2*>(tokens + (known ? token : 0) * WIDTH) + lane % 4;
    const float2* const at = reinterpret_cast<const float2*>(places + place * WIDTH) + lane % 4;
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
      const float2 a = from[tile * 4], b = at[tile * 4];
      x[tile][2 * half] = known ? a.x + b.x : NOT_A_NUMBER;
      x[tile][2 * half + 1] = known ? a.y + b.y : NOT_A_NUMBER;
    }
  }
}

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
  if (threadIdx.x == 0) {
    const Prefetch prefetch(shared_address(&barrier), VECTORS + WEIGHTS);
    prefetch.copy(memory, packed, VECTORS);
    prefetch.copy(reinterpret_cast<char*>(memory) + VECTORS, packed + VECTORS + blockIdx.y * WEIGHTS, WEIGHTS);
  }
  let_next_kernel_begin();
  __syncthreads();
  await_kernels_before();
  timeline.ended(WAITING);

  for (int row_tile = blockIdx.x * WARPS + warp; row_tile < row_tiles; row_tile += gridDim.x * WARPS) {
    float x[TILES][4];
    if (EMBED) {
      embed(x, ids, tokens, places, row_tile, time, words, lane);
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
    await(shared_address(&barrier), 0);
    const float factor = vectors[3 * WIDTH];
#pragma unroll 1
    for (int i = 0; i < UNITS; ++i) {
      const int unit = blockIdx.y * UNITS + i;
      const Right* const own = reinterpret_cast<const Right*>(weights + i * CHUNKS * UNIT<Precision>) + lane;
      float u[4], v[4];
      set_columns(u, vectors, 2 * unit, lane);
      set_columns(v, vectors, 2 * unit + 1, lane);
      add_product<Precision>(u, normed, own, factor);
      add_product<Precision>(v, normed, own + CHUNKS * 32, factor);
      char* const to = qkv + (static_cast<size_t>(row_tile) * UNITS_OF_QKV + unit) * UNIT<Precision>;
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

// Grid (blocks, BLOCKS): blocks that differ in y share rows; each takes some hidden columns and writes a part of the
// stream. GROUPS times SPLIT warps; a group has 16 rows, its warps divide columns. packed: the layer's vectors, the
// projection (8 tiles, 4 chunks), and 16 pieces: 16 hidden columns' weights in (2, 4), then out (8).
template <class Precision, int GROUPS, int SPLIT, int BLOCKS, int PARTS, bool TIMED>
__global__ void __launch_bounds__(32 * GROUPS * SPLIT)
    feed_forward(const char* packed, const char* mixed, const float4* stream, float4* written, int row_tiles,
                 long long* stamps) {
  typedef typename Precision::Right Right;
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
    typename Precision::Left operand[CHUNKS];
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk)
      load(mixed + (static_cast<size_t>(row_tile) * HEADS + chunk) * UNIT<Precision>, operand[chunk], lane);
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
      named_barrier(1 + group, 32 * SPLIT);
    }
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        x[tile][i] = SPLIT == 1 ? own[tile % OWN][i] : reinterpret_cast<const float*>(&shared[tile * 32 + lane])[i];
    layer_norm<Precision>(x, operand);
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
      float bias[4];
      if (SPLIT == 1) set_columns(bias, vectors + WIDTH + HIDDEN, tile, lane);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[tile][i] = SPLIT == 1 ? x[tile][i] + bias[i] : 0;
    }
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
// (word tiles, 4 chunks). Of 16 words a lane's four, two of either tile, are neighbours (graph.py).
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
    if (CLUSTER > 1)
      for (int i = 0; i < 2 * GROUPS; ++i) make_barrier(shared_address(&arrivals[i / 2][i % 2]), 1);
    const Prefetch prefetch(shared_address(&barrier), VECTORS + WEIGHTS);
    prefetch.copy(bytes, packed, 16);
    prefetch.copy(bytes + 16, packed + 16 + block * OWN * sizeof(float), OWN * sizeof(float));
    prefetch.copy(bytes + VECTORS, packed + (4 + room) * sizeof(float) + block * WEIGHTS, WEIGHTS);
  }
  __syncthreads();
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
    float logits[PAIRS][2][4], top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair) {
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
