// The whole forward pass of MiniGPT in one launch, for few short sequences: a cluster of blocks for each sequence.
//
// A block holds a head, 64 hidden columns and a quarter of the words; the stream of 16 tokens is in every block, 16 of
// its columns in each warp. A layer has two exchanges. What attention mixed goes to every block, and each computes the
// whole projection for itself: that is less than the sums of a divided one. What each block's hidden columns add to the
// stream is sent from a warp to the same warp of the others, and summed there. Both go by st.async into the receiver's
// shared memory, whose mbarrier counts the bytes.
//
// Every reader of the stream is a LayerNorm, so nothing reads its mean over the columns: the host has taken it out of
// all that is added to the stream (cluster_packing.py). What is left of LayerNorm is a factor for each row, which is
// applied to a product's result; so the product begins before the factor is known.
//
// A weight is used once. The last warp streams them from L2 through a ring in shared memory, in the order of use; the
// others load them into registers while they wait for what is to be multiplied.
#include "ptx.cuh"
#include "tiles.cuh"

constexpr int BLOCKS = 4, PEERS = BLOCKS - 1;  // of a cluster
constexpr int WARPS = 4;                 // that compute; one more streams the weights
constexpr int STAGES = 4, RELEASES = 3;  // of a layer: weights that arrive together, and that are released together
constexpr int FACTORS = 4;               // before a layer's biases: by what its products are to be multiplied
constexpr int PIECE = 2;                 // the LM head's tiles of a warp that arrive together
constexpr int SHARED_BYTES = 232448;     // that a block may have, on compute capability 9.0

// Stages that are copied at the same time. The copy engine serves all copies in turns: where the whole ring was asked
// for at once, the first stage was there only with the last, 5,100 clocks after the start on an H200; 8 KB alone take
// 650 clocks, 32 KB 1,200. Two stages bring a layer's weights (60 KB) in less time than it computes (4,000 clocks).
constexpr int IN_FLIGHT = 2;
constexpr float LOG2_E = 1.4426950408889634f;

// A chunk of activations in shared memory, two tiles rounded: what a lane gives the tensor cores, 16 bytes a part. The
// parts of float32 are the high halves and the low ones.
template <class Precision>
struct Chunk;

template <>
struct Chunk<Float32> {
  static constexpr int PARTS = 2;

  static __device__ __forceinline__ Float32::Left load(const uint4* from) {
    const uint4 high = from[0], low = from[32];
    return {{high.x, high.y, high.z, high.w}, {low.x, low.y, low.z, low.w}};
  }
  static __device__ __forceinline__ uint4 part(const Float32::Left& chunk, int number) {
    return number ? make_uint4(chunk.low[0], chunk.low[1], chunk.low[2], chunk.low[3])
                  : make_uint4(chunk.high[0], chunk.high[1], chunk.high[2], chunk.high[3]);
  }
  static __device__ __forceinline__ void store(uint4* to, const float (&u)[4], const float (&v)[4]) {
    const Float32::Left made = Float32::left(u, v);
    to[0] = part(made, 0);
    to[32] = part(made, 1);
  }
  static __device__ __forceinline__ void store_tile(uint4* to, int half, const float (&tile)[4]) {
    uint2 high, low;
    Float32::split(tile[0], tile[1], high.x, low.x);
    Float32::split(tile[2], tile[3], high.y, low.y);
    reinterpret_cast<uint2*>(to)[half] = high;
    reinterpret_cast<uint2*>(to + 32)[half] = low;
  }
  static __device__ __forceinline__ uint4 keys(const float (&tile)[4]) {
    uint4 made;
    Float32::split(tile[0], tile[1], made.x, made.z);
    Float32::split(tile[2], tile[3], made.y, made.w);
    return made;
  }
};

template <>
struct Chunk<Bfloat16> {
  static constexpr int PARTS = 1;

  static __device__ __forceinline__ Bfloat16::Left load(const uint4* from) {
    return {{from->x, from->y, from->z, from->w}};
  }
  static __device__ __forceinline__ uint4 part(const Bfloat16::Left& chunk, int) {
    return make_uint4(chunk.pairs[0], chunk.pairs[1], chunk.pairs[2], chunk.pairs[3]);
  }
  static __device__ __forceinline__ void store(uint4* to, const float (&u)[4], const float (&v)[4]) {
    *to = part(Bfloat16::left(u, v), 0);
  }
  static __device__ __forceinline__ void store_tile(uint4* to, int half, const float (&tile)[4]) {
    reinterpret_cast<uint2*>(to)[half] = keys(tile);
  }
  static __device__ __forceinline__ uint2 keys(const float (&tile)[4]) {
    return make_uint2(pack_bfloat16(tile[0], tile[1]), pack_bfloat16(tile[2], tile[3]));
  }
};

// keys of tokens 0 to 7 and 8 to 15, from the tiles of dimensions 0 to 7 and 8 to 15
__device__ __forceinline__ void keys_of(uint4 u, uint4 v, uint4 (&made)[2]) {
  made[0] = make_uint4(u.x, v.x, u.z, v.z);
  made[1] = make_uint4(u.y, v.y, u.w, v.w);
}
__device__ __forceinline__ void keys_of(uint2 u, uint2 v, uint2 (&made)[2]) {
  made[0] = make_uint2(u.x, v.x);
  made[1] = make_uint2(u.y, v.y);
}

__device__ __forceinline__ void send(unsigned to, unsigned barrier, uint4 value) {
  send(to, barrier,
       make_float4(__uint_as_float(value.x), __uint_as_float(value.y), __uint_as_float(value.z),
                   __uint_as_float(value.w)));
}

__device__ __forceinline__ void store_pair(float* to, float first, float second) {
  *reinterpret_cast<float2*>(to) = make_float2(first, second);
}
__device__ __forceinline__ void store_pair(unsigned short* to, float first, float second) {
  *reinterpret_cast<word*>(to) = pack_bfloat16(first, second);
}
__device__ __forceinline__ void store_one(float* to, float value) { *to = value; }
__device__ __forceinline__ void store_one(unsigned short* to, float value) {
  *to = static_cast<unsigned short>(pack_bfloat16(value, 0));
}

// Sums of COUNT tiles. The three products of float32 have sums of their own, and so have even and odd chunks, so that
// a tensor core need not wait for its last result.
template <class Precision, int COUNT>
struct Sums;

template <int COUNT>
struct Sums<Float32, COUNT> {
  float kept[COUNT][3][4] = {};

  __device__ __forceinline__ void add(int tile, int, const Float32::Left& a, const uint4& b) {
    multiply_float16(kept[tile][0], a.low, b.x, b.y);
    multiply_float16(kept[tile][1], a.high, b.z, b.w);
    multiply_float16(kept[tile][2], a.high, b.x, b.y);
  }
  __device__ __forceinline__ float total(int tile, int i) const {
    return kept[tile][0][i] + kept[tile][1][i] + kept[tile][2][i];
  }
};

template <int COUNT>
struct Sums<Bfloat16, COUNT> {
  float kept[COUNT][2][4] = {};

  __device__ __forceinline__ void add(int tile, int chunk, const Bfloat16::Left& a, const uint2& b) {
    multiply_bfloat16(kept[tile][chunk % 2], a.pairs, b.x, b.y);
  }
  __device__ __forceinline__ float total(int tile, int i) const { return kept[tile][0][i] + kept[tile][1][i]; }
};

// What is measured: thread 0 of a block writes when a span of its time ended, and what kind it was.
enum Span { MEMORY = 1, ARITHMETIC = 2, WAITING = 3 };

template <bool TIMED>
struct Stopwatch {
  long long *next, *end;
  __device__ __forceinline__ void begin(long long* rows, int count, int thread) {
    next = nullptr;
    if constexpr (TIMED)
      if (thread == 0) {
        next = rows + 4, end = rows + 2 * count;
        rows[0] = multiprocessor();
        rows[1] = nanoseconds();
        rows[2] = 0;
        rows[3] = clock64();
      }
  }
  __device__ __forceinline__ void mark(Span span) {
    if constexpr (TIMED)
      if (next && next < end) {
        next[0] = span;
        next[1] = clock64();
        next += 2;
      }
  }
};

// The parts of a layer in a block: tiles of 8 outputs and 64 features, then floats.
constexpr int COLUMNS = TILES / WARPS;           // tiles of the stream in a warp
constexpr int QKV = 2;                           // two warps have 8 dimensions of q and of v, and two of k
constexpr int FC = HIDDEN / 8 / BLOCKS / WARPS;  // tiles of a warp's hidden columns
constexpr int QKV_STAGE = 3 * HEAD / 8, PROJ_STAGE = TILES, FC_STAGE = HIDDEN / 8 / BLOCKS;
constexpr int LAYER = QKV_STAGE + PROJ_STAGE + 2 * FC_STAGE;
constexpr int QKV_BIAS = FACTORS, PROJ_BIAS = QKV_BIAS + 3 * HEAD, FC_BIAS = PROJ_BIAS + WIDTH,
              OUT_BIAS = FC_BIAS + HIDDEN / BLOCKS, CONSTANTS = OUT_BIAS + WIDTH;
static_assert(HEADS == BLOCKS && COLUMNS == 2 && FC == 2, "the kernel is written for these");

// Sizes that follow from the model.
template <class Precision, int LAYERS, int VOCABULARY>
struct Plan {
  // shared memory, in bytes; the ring of weights comes after it
  static constexpr int PARTS = Chunk<Precision>::PARTS, PART = 32 * sizeof(uint4), CHUNK = PARTS * PART;
  static constexpr int PIECE_BYTES = 32 * sizeof(typename Precision::Right), WEIGHTS = CHUNKS * PIECE_BYTES;
  static constexpr int STREAM_AT = 0, MIXED_AT = STREAM_AT + CHUNKS * CHUNK, HIDDEN_AT = MIXED_AT + CHUNKS * CHUNK,
                       ADDED_AT = HIDDEN_AT + FC_STAGE / 2 * CHUNK, SQUARES_AT = ADDED_AT + PEERS * TILES * 32 * 16,
                       TOPS_AT = SQUARES_AT + ROWS * WARPS * 4, BARRIERS_AT = TOPS_AT + ROWS * BLOCKS * WARPS * 8;

  // the LM head: tiles of words in a warp
  static constexpr int WORDS = (VOCABULARY + 8 * BLOCKS * WARPS - 1) / (8 * BLOCKS * WARPS);
  static constexpr int HEAD_STAGES = (WORDS + PIECE - 1) / PIECE;

  // barriers: a full one for each stage, an empty one for each release, then those of exchanges
  static constexpr int HEAD_FULL = STAGES * LAYERS, EMPTY = HEAD_FULL + HEAD_STAGES,
                       HEAD_EMPTY = EMPTY + RELEASES * LAYERS, MIXED = HEAD_EMPTY + HEAD_STAGES, TOPS = MIXED + 1,
                       ADDED = TOPS + 1, BARRIERS = ADDED + WARPS;
  static constexpr int KEPT = FACTORS + LAYERS * CONSTANTS + WARPS * WORDS * 8;  // floats: factors and biases
  static constexpr int KEPT_AT = (BARRIERS_AT + 8 * BARRIERS + 15) / 16 * 16;
  static constexpr int RING_AT = (KEPT_AT + 4 * KEPT + 127) / 128 * 128;
  static constexpr int WEIGHTS_OF_BLOCK = LAYERS * LAYER + WORDS * WARPS;  // tiles
  static constexpr int ROOM = (SHARED_BYTES - RING_AT) / WEIGHTS;
  static constexpr int RING = ROOM < WEIGHTS_OF_BLOCK ? ROOM : WEIGHTS_OF_BLOCK;
  static_assert(RING >= FC_STAGE + PROJ_STAGE, "the model does not fit");
};

template <class Precision, int LAYERS, int VOCABULARY>
struct Block {
  typedef Plan<Precision, LAYERS, VOCABULARY> Sizes;
  typedef typename Precision::Right Right;
  typedef typename Precision::Left Left;
  char* memory;
  unsigned barriers;
  int start;  // of the next stage in the ring
  int lane, warp, group, pair;
  unsigned rank;

  __device__ __forceinline__ uint4* chunks(int at) const { return reinterpret_cast<uint4*>(memory + at) + lane; }
  __device__ __forceinline__ float* floats(int at) const { return reinterpret_cast<float*>(memory + at); }
  __device__ __forceinline__ unsigned barrier(int number) const { return barriers + 8 * number; }
  __device__ __forceinline__ float2 biases(const float* of, int tile) const {
    return *reinterpret_cast<const float2*>(of + 8 * tile + 2 * pair);
  }
  __device__ __forceinline__ void everybody() const { named_barrier(1, 32 * WARPS); }

  // a lane's part of a tile of weights of the next stage
  __device__ __forceinline__ void load(int tile, Right (&made)[CHUNKS]) const {
    int at = start + tile;
    if (at >= Sizes::RING) at -= Sizes::RING;
    const Right* const from = reinterpret_cast<const Right*>(memory + Sizes::RING_AT + at * Sizes::WEIGHTS) + lane;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk) made[chunk] = from[32 * chunk];
  }
  __device__ __forceinline__ void loaded(int stage) {
    start += stage;
    if (start >= Sizes::RING) start -= Sizes::RING;
  }

  __device__ __forceinline__ void read(const uint4* from, Left (&made)[CHUNKS]) const {
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk) made[chunk] = Chunk<Precision>::load(from + 32 * Sizes::PARTS * chunk);
  }

  // a warp's columns of the stream, ready to multiply for everybody, and the sum of their squares in each row
  __device__ __forceinline__ void write_stream(const float (&x)[COLUMNS][4]) const {
    float squares[2] = {0, 0};
#pragma unroll
    for (int tile = 0; tile < COLUMNS; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i) squares[i / 2] = fmaf(x[tile][i], x[tile][i], squares[i / 2]);
    Chunk<Precision>::store(chunks(Sizes::STREAM_AT) + 32 * Sizes::PARTS * warp, x[0], x[1]);
    squares[0] = sum_of_row(squares[0]), squares[1] = sum_of_row(squares[1]);
    if (pair < 2) floats(Sizes::SQUARES_AT)[(group + 8 * pair) * WARPS + warp] = pair ? squares[1] : squares[0];
  }

  // LayerNorm's factor for rows g and g + 8
  __device__ __forceinline__ void row_factors(float epsilon, float factor, float (&made)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 squares = reinterpret_cast<const float4*>(floats(Sizes::SQUARES_AT))[group + 8 * half];
      const float sum = squares.x + squares.y + squares.z + squares.w;
      made[half] = inverse_root(sum * (1.0f / WIDTH) + epsilon) * factor;
    }
  }
};

// Attention of 16 tokens in one head. Scores come as exponents of two.
template <class Precision>
__device__ __forceinline__ void attend(const typename Precision::Left& query,
                                       const typename Precision::Right (&keys)[2],
                                       const typename Precision::Right (&values)[2], int group, int pair,
                                       float (&mixed)[2][4]) {
  Sums<Precision, 2> scores;
  scores.add(0, 0, query, keys[0]);
  scores.add(1, 0, query, keys[1]);
  float near[4], far[4] = {0, 0, 0, 0};  // keys 0 to 7 and 8 to 15, of which rows 0 to 7 see none
#pragma unroll
  for (int i = 0; i < 4; ++i) near[i] = scores.total(0, i);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const bool seen = 2 * pair + i <= group;
    near[i] = seen ? near[i] : -INFINITY;
    far[2 + i] = seen ? scores.total(1, 2 + i) : -INFINITY;
  }
  const float top = largest_of_row(fmaxf(near[0], near[1]));
  const float top_far = largest_of_row(fmaxf(fmaxf(near[2], near[3]), fmaxf(far[2], far[3])));
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    near[i] = power_of_two(near[i] - top);
    near[2 + i] = power_of_two(near[2 + i] - top_far);
    far[2 + i] = power_of_two(far[2 + i] - top_far);
  }
  Sums<Precision, 2> sums;
  const typename Precision::Left weights = Precision::left(near, far);
  sums.add(0, 0, weights, values[0]);
  sums.add(1, 0, weights, values[1]);
  const float inverse = reciprocal(sum_of_row(near[0] + near[1]));
  const float inverse_far = reciprocal(sum_of_row(near[2] + near[3] + far[2] + far[3]));
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) mixed[tile][i] = sums.total(tile, i) * (i < 2 ? inverse : inverse_far);
}

// packed: (BLOCKS, tiles of a block, CHUNKS, 32) pieces of weights; constants: (BLOCKS, floats): epsilon, the head's
// factor, 2 unused, each layer's factors and biases, the head's biases; tokens (vocabulary, WIDTH), places (positions,
// WIDTH) float32, all as cluster_packing.py makes them; ids (sequences, time) int64; out (sequences, time, vocabulary).
// A token outside the vocabulary makes its results and those of later tokens NaN.
template <class Precision, int LAYERS, int VOCABULARY, bool PROBABILITIES, bool TIMED>
__global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(32 * (WARPS + 1), 1)
    forward_cluster(const uint4* packed, const float* constants, const float* tokens, const float* places,
                    const long long* ids, typename Precision::Number* out, int time, long long* stamps,
                    int events) {
  typedef Plan<Precision, LAYERS, VOCABULARY> Sizes;
  typedef typename Precision::Right Right;
  typedef typename Precision::Left Left;
  constexpr int WORDS = Sizes::WORDS;
  extern __shared__ uint4 shared[];

  Block<Precision, LAYERS, VOCABULARY> block;
  block.memory = reinterpret_cast<char*>(shared);
  block.lane = threadIdx.x % 32, block.warp = threadIdx.x / 32;
  block.group = block.lane / 4, block.pair = block.lane % 4;
  block.rank = block_of_cluster();
  block.barriers = shared_address(block.memory + Sizes::BARRIERS_AT);
  block.start = 0;
  const int lane = block.lane, warp = block.warp, group = block.group, pair = block.pair;
  const unsigned rank = block.rank, sequence = blockIdx.x / BLOCKS;
  const float* const kept = reinterpret_cast<const float*>(block.memory + Sizes::KEPT_AT);
  Stopwatch<TIMED> watch;
  watch.begin(stamps + static_cast<size_t>(blockIdx.x) * events * 2, events, threadIdx.x);

  if (warp == WARPS) {  // the weights
    int stage = 0, at = 0, room = Sizes::RING, released = 0;
    const char* from =
        reinterpret_cast<const char*>(packed) + static_cast<size_t>(rank) * Sizes::WEIGHTS_OF_BLOCK * Sizes::WEIGHTS;
    auto copy_until = [&](int end) {
      const unsigned to = shared_address(block.memory + Sizes::RING_AT);
      for (; stage < end; ++stage) {
        const int part = stage % STAGES, piece = stage - Sizes::HEAD_FULL;
        int count = part == 0 ? QKV_STAGE : part == 1 ? PROJ_STAGE : FC_STAGE;
        if (piece >= 0) count = min(PIECE, WORDS - PIECE * piece) * WARPS;
        while (room < count) {
          const int step = released % RELEASES, of_head = released - RELEASES * LAYERS;
          await_here(block.barrier(Sizes::EMPTY + released), 0);
          if (of_head >= 0) room += PIECE * WARPS;
          else room += step == 0 ? QKV_STAGE : step == 1 ? PROJ_STAGE + FC_STAGE : FC_STAGE;
          ++released;
        }
        room -= count;
        if (stage >= IN_FLIGHT) await_here(block.barrier(stage - IN_FLIGHT), 0);
        const unsigned barrier = block.barrier(stage);
        const int before_end = min(count, Sizes::RING - at);
        expect(barrier, count * Sizes::WEIGHTS + (stage == 0 ? 4 * Sizes::KEPT : 0));
        bulk_copy(to + at * Sizes::WEIGHTS, from, before_end * Sizes::WEIGHTS, barrier);
        if (before_end < count)
          bulk_copy(to, from + before_end * Sizes::WEIGHTS, (count - before_end) * Sizes::WEIGHTS, barrier);
        if (stage == 0)
          bulk_copy(shared_address(kept), constants + rank * Sizes::KEPT, 4 * Sizes::KEPT, barrier);
        from += count * Sizes::WEIGHTS;
        at += count;
        if (at >= Sizes::RING) at -= Sizes::RING;
      }
    };
    if (lane == 0) {  // before the other barriers are there, and before anybody's ids
#pragma unroll
      for (int i = 0; i < IN_FLIGHT; ++i) make_barrier(block.barrier(i), 1);
      fence_barriers();
      copy_until(IN_FLIGHT);
    }
    __syncwarp();
    cluster_arrive_relaxed();
    __syncthreads();
    if (lane == 0) copy_until(Sizes::EMPTY);
    __syncwarp();
    cluster_wait();
    return;
  }

  float x[COLUMNS][4];  // the stream
  long long row_ids[2];
#pragma unroll
  for (int half = 0; half < 2; ++half)
    row_ids[half] = group + 8 * half < time ? ids[sequence * time + group + 8 * half] : 0;
  // An instruction makes one barrier, and where lanes make several, they take turns in a loop of 17 instructions. A
  // thread that knows all addresses and arrivals when it is compiled needs no loop; its ids are on their way meanwhile.
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = IN_FLIGHT; i < Sizes::BARRIERS; ++i)
      make_barrier(block.barrier(i), i >= Sizes::HEAD_EMPTY && i < Sizes::MIXED ? WARPS : 1);
    fence_barriers();
  }
  __syncwarp();
  cluster_arrive_relaxed();
  __syncthreads();
  unsigned unknown[2];  // lanes, four of a row
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = group + 8 * half;
    const bool known = row_ids[half] >= 0 && row_ids[half] < VOCABULARY;
    unknown[half] = __ballot_sync(0xffffffffu, !known);
    const float* const of_token = tokens + (known ? row_ids[half] : 0) * WIDTH;
#pragma unroll
    for (int tile = 0; tile < COLUMNS; ++tile) {
      const int column = (warp * COLUMNS + tile) * 8 + 2 * pair;
      float2 sum = make_float2(0, 0);
      if (row < time) {
        const float2 token = *reinterpret_cast<const float2*>(of_token + column);
        const float2 place = *reinterpret_cast<const float2*>(places + row * WIDTH + column);
        sum = make_float2(token.x + place.x, token.y + place.y);
      }
      x[tile][2 * half] = sum.x, x[tile][2 * half + 1] = sum.y;
    }
  }
  const unsigned rows_before = 0xffffffffu >> (28 - 4 * group);  // and the own
  const bool spoiled[2] = {(unknown[0] & rows_before) != 0, (unknown[0] | (unknown[1] & rows_before)) != 0};

  const int half = warp % 2;  // of the head's dimensions
  const bool has_keys = warp >= 2;
  const float* layer_kept = kept + FACTORS;
  uint4* const stream_chunks = block.chunks(Sizes::STREAM_AT);
  uint4* const mixed_chunks = block.chunks(Sizes::MIXED_AT);
  uint4* const hidden_chunks = block.chunks(Sizes::HIDDEN_AT);
  uint4* const queries = hidden_chunks;  // where hidden activations are not yet
  Right* const head_keys = reinterpret_cast<Right*>(queries - lane + 32 * Sizes::PARTS) + lane;  // two tiles, and then
  Right* const head_values = head_keys + 64;                                                     // two of values
  float4* const added_tiles = reinterpret_cast<float4*>(block.memory + Sizes::ADDED_AT) + warp * COLUMNS * 32 + lane;
  float added[COLUMNS][4];  // by this block's hidden columns, to the stream

  // What all blocks add to the stream, once a layer. The sum is the same in each to the last bit: it is that of blocks
  // 0 and 1 plus that of blocks 2 and 3, for peer number i is block rank ^ (i + 1).
  auto receive = [&](int layer) {
    const float* const of_layer = layer_kept - CONSTANTS;  // layer_kept has gone on to the next
    const float factor = of_layer[3];
    await(block.barrier(Sizes::ADDED + warp), layer & 1);
#pragma unroll
    for (int tile = 0; tile < COLUMNS; ++tile) {
      float4 theirs[PEERS];
#pragma unroll
      for (int peer = 0; peer < PEERS; ++peer) theirs[peer] = added_tiles[32 * (peer * TILES + tile)];
      float sum[4];
      sum[0] = added[tile][0] + theirs[0].x + (theirs[1].x + theirs[2].x);
      sum[1] = added[tile][1] + theirs[0].y + (theirs[1].y + theirs[2].y);
      sum[2] = added[tile][2] + theirs[0].z + (theirs[1].z + theirs[2].z);
      sum[3] = added[tile][3] + theirs[0].w + (theirs[1].w + theirs[2].w);
      const float2 constant = block.biases(of_layer + OUT_BIAS, warp * COLUMNS + tile);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[tile][i] += fmaf(sum[i], factor, i % 2 ? constant.y : constant.x);
    }
  };
  // the stream after `layer` layers, in every block, ready to multiply
  auto renew_stream = [&](int layer) {
    if (layer > 0) receive(layer - 1);
    watch.mark(WAITING);
    if (lane == 0 && layer < LAYERS) {
      expect(block.barrier(Sizes::ADDED + warp), PEERS * COLUMNS * 32 * sizeof(float4));
      if (warp == 0) expect(block.barrier(Sizes::MIXED), PEERS * Sizes::CHUNK);
    }
    block.write_stream(x);
    block.everybody();
    if (threadIdx.x == 0 && layer < LAYERS) arrive(block.barrier(Sizes::EMPTY + RELEASES * layer));
    watch.mark(WAITING);
  };

#pragma unroll 1
  for (int layer = 0; layer < LAYERS; ++layer) {
    // ---- q, k and v
    Right of_head[QKV][CHUNKS];
    await_here(block.barrier(STAGES * layer), 0);
#pragma unroll
    for (int i = 0; i < QKV; ++i) block.load(2 * (has_keys ? 1 : 2 * i) + half, of_head[i]);
    block.loaded(QKV_STAGE);
    watch.mark(MEMORY);
    renew_stream(layer);

    Left normed[CHUNKS];
    block.read(stream_chunks, normed);
    float made[QKV][4], factors[2];
    {
      Sums<Precision, QKV> sums;
#pragma unroll
      for (int chunk = 0; chunk < CHUNKS; ++chunk)
#pragma unroll
        for (int i = 0; i < QKV; ++i)
          if (i == 0 || !has_keys) sums.add(i, chunk, normed[chunk], of_head[i][chunk]);
      block.row_factors(kept[0], layer_kept[0], factors);
#pragma unroll
      for (int i = 0; i < QKV; ++i) {
        const float2 bias = block.biases(layer_kept + QKV_BIAS, 2 * (has_keys ? 1 : 2 * i) + half);
#pragma unroll
        for (int j = 0; j < 4; ++j) made[i][j] = fmaf(sums.total(i, j), factors[j / 2], j % 2 ? bias.y : bias.x);
      }
    }
    if (has_keys) {
      head_keys[32 * half] = Chunk<Precision>::keys(made[0]);
    } else {
      Chunk<Precision>::store_tile(queries, half, made[0]);
      head_values[32 * half] = Precision::values(made[1]);
    }
    block.everybody();
    watch.mark(ARITHMETIC);

    // ---- attention
    if (!has_keys) {
      Right keys[2];
      keys_of(head_keys[0], head_keys[32], keys);
      const Right values[2] = {head_values[0], head_values[32]};
      float mixed[2][4];
      attend<Precision>(Chunk<Precision>::load(queries), keys, values, group, pair, mixed);
      const uint4 part = Chunk<Precision>::part(Precision::left(mixed[0], mixed[1]), half);  // both warps have all
      uint4* const own = mixed_chunks + 32 * (rank * Sizes::PARTS + half % Sizes::PARTS);
      if (half < Sizes::PARTS) *own = part;
      if (layer == 0) cluster_wait();  // until the others' barriers are there
#pragma unroll
      for (int peer = 1; peer < BLOCKS; ++peer)
        if (half < Sizes::PARTS)
          send(remote(shared_address(own), rank ^ peer), remote(block.barrier(Sizes::MIXED), rank ^ peer), part);
    } else if (layer == 0) {
      cluster_wait();
    }
    watch.mark(ARITHMETIC);

    // ---- projection: the own head first
    {
      Sums<Precision, COLUMNS> sums;
      Right of_stream[COLUMNS][CHUNKS];
      await_here(block.barrier(STAGES * layer + 1), 0);
#pragma unroll
      for (int i = 0; i < COLUMNS; ++i) block.load(warp * COLUMNS + i, of_stream[i]);
      block.loaded(PROJ_STAGE);
      block.everybody();
      auto add = [&](int step) {  // weights are packed in the order of the steps
        const Left mixed = Chunk<Precision>::load(mixed_chunks + 32 * Sizes::PARTS * (rank ^ step));
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) sums.add(i, step, mixed, of_stream[i][step]);
      };
      add(0);
      watch.mark(ARITHMETIC);
      await(block.barrier(Sizes::MIXED), layer & 1);
      watch.mark(WAITING);
#pragma unroll
      for (int step = 1; step < CHUNKS; ++step) add(step);
      const float factor = layer_kept[1];
#pragma unroll
      for (int i = 0; i < COLUMNS; ++i) {
        const float2 bias = block.biases(layer_kept + PROJ_BIAS, warp * COLUMNS + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) x[i][j] += fmaf(sums.total(i, j), factor, j % 2 ? bias.y : bias.x);
      }
    }

    // ---- the feed-forward network
    Right of_hidden[FC][CHUNKS];
    await_here(block.barrier(STAGES * layer + 2), 0);
#pragma unroll
    for (int i = 0; i < FC; ++i) block.load(warp * FC + i, of_hidden[i]);
    block.loaded(FC_STAGE);
    block.write_stream(x);
    watch.mark(ARITHMETIC);
    block.everybody();
    if (threadIdx.x == 0) arrive(block.barrier(Sizes::EMPTY + RELEASES * layer + 1));
    watch.mark(WAITING);
    block.read(stream_chunks, normed);
    block.row_factors(kept[0], layer_kept[2], factors);
    {
      Sums<Precision, FC> sums;
      auto multiply = [&](int tile) {
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; ++chunk) sums.add(tile, chunk, normed[chunk], of_hidden[tile][chunk]);
      };
      multiply(0);
      await_here(block.barrier(STAGES * layer + 3), 0);  // and the compiler keeps the order of the halves
      multiply(1);
      float activated[FC][4];
#pragma unroll
      for (int i = 0; i < FC; ++i) {
        const float2 bias = block.biases(layer_kept + FC_BIAS, warp * FC + i);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          activated[i][j] = gelu(fmaf(sums.total(i, j), factors[j / 2], j % 2 ? bias.y : bias.x));
      }
      Chunk<Precision>::store(hidden_chunks + 32 * Sizes::PARTS * warp, activated[0], activated[1]);
    }
    watch.mark(ARITHMETIC);
    Right of_out[COLUMNS][CHUNKS];
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) block.load(warp * COLUMNS + i, of_out[i]);
    block.loaded(FC_STAGE);
    block.everybody();
    if (threadIdx.x == 0) arrive(block.barrier(Sizes::EMPTY + RELEASES * layer + 2));
    watch.mark(WAITING);
    {
      Sums<Precision, COLUMNS> sums;
      Left hidden[CHUNKS];
      block.read(hidden_chunks, hidden);
#pragma unroll
      for (int chunk = 0; chunk < CHUNKS; ++chunk)
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) sums.add(i, chunk, hidden[chunk], of_out[i][chunk]);
#pragma unroll
      for (int i = 0; i < COLUMNS; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) added[i][j] = sums.total(i, j);
#pragma unroll
        for (int peer = 1; peer < BLOCKS; ++peer)
          send(remote(shared_address(added_tiles + 32 * ((peer - 1) * TILES + i)), rank ^ peer),
               remote(block.barrier(Sizes::ADDED + warp), rank ^ peer),
               make_float4(added[i][0], added[i][1], added[i][2], added[i][3]));
      }
    }
    watch.mark(ARITHMETIC);
    layer_kept += CONSTANTS;
  }

  // ---- the LM head: tile after tile of this block's words
  Right of_words[2][PIECE][CHUNKS];
  auto load_words = [&](int piece, Right (&words)[PIECE][CHUNKS]) {
    await_here(block.barrier(Sizes::HEAD_FULL + piece), 0);
#pragma unroll
    for (int i = 0; i < PIECE; ++i)
      if (piece * PIECE + i < WORDS) block.load(i * WARPS + warp, words[i]);
    block.loaded(min(PIECE, WORDS - piece * PIECE) * WARPS);
    __syncwarp();
    if (lane == 0) arrive(block.barrier(Sizes::HEAD_EMPTY + piece));
  };
  load_words(0, of_words[0]);
  watch.mark(MEMORY);
  if (PROBABILITIES && threadIdx.x == 0)
    expect(block.barrier(Sizes::TOPS), PEERS * WARPS * ROWS * sizeof(float2));
  renew_stream(LAYERS);
  Left normed[CHUNKS];
  block.read(stream_chunks, normed);
  float factors[2];
  block.row_factors(kept[0], kept[1], factors);
#pragma unroll
  for (int j = 0; j < 2; ++j)
    if (spoiled[j]) factors[j] = INFINITY - INFINITY;
  float logits[WORDS][4];
#pragma unroll
  for (int piece = 0; piece < Sizes::HEAD_STAGES; ++piece) {
    if (piece + 1 < Sizes::HEAD_STAGES) load_words(piece + 1, of_words[(piece + 1) % 2]);
    Sums<Precision, PIECE> sums;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk)
#pragma unroll
      for (int i = 0; i < PIECE; ++i)
        if (piece * PIECE + i < WORDS) sums.add(i, chunk, normed[chunk], of_words[piece % 2][i][chunk]);
#pragma unroll
    for (int i = 0; i < PIECE; ++i)
      if (piece * PIECE + i < WORDS) {
        const float2 bias = block.biases(layer_kept, (piece * PIECE + i) * WARPS + warp);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          logits[piece * PIECE + i][j] = fmaf(sums.total(i, j), factors[j / 2], j % 2 ? bias.y : bias.x);
      }
  }
  watch.mark(ARITHMETIC);

  if constexpr (PROBABILITIES) {  // words past the vocabulary have a logit of minus infinity
    float top[2] = {-1e38f, -1e38f}, sum[2] = {0, 0};  // finite, also times log2(e): a warp may have no word at all
#pragma unroll
    for (int word = 0; word < WORDS; ++word)
#pragma unroll
      for (int j = 0; j < 4; ++j) top[j / 2] = fmaxf(top[j / 2], logits[word][j]);
#pragma unroll
    for (int j = 0; j < 2; ++j) top[j] = largest_of_row(top[j]) * LOG2_E;
#pragma unroll
    for (int word = 0; word < WORDS; ++word)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        logits[word][j] = power_of_two(fmaf(logits[word][j], LOG2_E, -top[j / 2]));
        sum[j / 2] += logits[word][j];
      }
    sum[0] = sum_of_row(sum[0]), sum[1] = sum_of_row(sum[1]);
    float2* const tops = reinterpret_cast<float2*>(block.memory + Sizes::TOPS_AT);
    if (pair < 2) {
      float2* const own = tops + (group + 8 * pair) * BLOCKS * WARPS + rank * WARPS + warp;
      const float2 value = pair ? make_float2(top[1], sum[1]) : make_float2(top[0], sum[0]);
      *own = value;
#pragma unroll
      for (int peer = 1; peer < BLOCKS; ++peer)
        send(remote(shared_address(own), rank ^ peer), remote(block.barrier(Sizes::TOPS), rank ^ peer), value);
    }
    block.everybody();
    watch.mark(ARITHMETIC);
    await(block.barrier(Sizes::TOPS), 0);
    watch.mark(WAITING);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float4* const of_row = reinterpret_cast<const float4*>(tops + (group + 8 * j) * BLOCKS * WARPS);
      float4 parts[BLOCKS * WARPS / 2];
      float highest = -3e38f, total = 0;
#pragma unroll
      for (int i = 0; i < BLOCKS * WARPS / 2; ++i) {
        parts[i] = of_row[i];
        highest = fmaxf(highest, fmaxf(parts[i].x, parts[i].z));
      }
#pragma unroll
      for (int i = 0; i < BLOCKS * WARPS / 2; ++i)
        total += parts[i].y * power_of_two(parts[i].x - highest) + parts[i].w * power_of_two(parts[i].z - highest);
      factors[j] = power_of_two(top[j] - highest) * reciprocal(total);
    }
  }
  const int first_column = (rank * WORDS * WARPS + warp) * 8 + 2 * pair;
  typename Precision::Number* const to =
      out + (static_cast<size_t>(sequence) * time + group) * VOCABULARY + first_column;
  auto write = [&](auto store) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float scale = PROBABILITIES ? factors[j] : 1.0f;
      const int columns = group + 8 * j < time ? VOCABULARY - first_column : 0;
#pragma unroll
      for (int word = 0; word < WORDS; ++word)
        store(to + static_cast<size_t>(8 * j) * VOCABULARY + 8 * WARPS * word, logits[word][2 * j] * scale,
              logits[word][2 * j + 1] * scale, columns - 8 * WARPS * word);
    }
  };
  typedef typename Precision::Number Number;
  if constexpr (VOCABULARY % 2 == 0) {
    write([](Number* at, float first, float second, int columns) {
      if (columns > 0) store_pair(at, first, second);
    });
  } else {
    write([](Number* at, float first, float second, int columns) {
      if (columns > 0) store_one(at, first);
      if (columns > 1) store_one(at + 1, second);
    });
  }
  watch.mark(MEMORY);
}
