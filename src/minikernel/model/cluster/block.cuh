// A block of the cluster of forward.cu: what it holds where, the weights that it takes in the order of use, and
// its times.
#pragma once

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

// What is measured: thread 0 of a block writes when a span of its time ended, and what kind it was.
enum Span { MEMORY = 1, ARITHMETIC = 2, WAITING = 3 };

template <bool TIMED>
struct Stopwatch {
  long long *next, *end;
  // Of a kernel that is not timed nothing of this is left: TIMED is known when it is compiled.
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
  // stream: LayerNorm's input of 16 rows, 4 chunks of 16 columns; mixed: the same
  // of attention's output, a chunk a head; hidden: this block's 64 hidden columns;
  // added: what peers add to the stream; squares: each warp's part of a row's sum.
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
  // The copy engine asks for 16 bytes; the ring begins on a line of 128.
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
  // The four warps that compute; the copying warp never waits here, or it could not run ahead.
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
    // Of the four lanes that share a row's sum, one writes row g and one row g + 8.
    if (pair < 2) floats(Sizes::SQUARES_AT)[(group + 8 * pair) * WARPS + warp] = pair ? squares[1] : squares[0];
  }

  // LayerNorm's factor for rows g and g + 8
  __device__ __forceinline__ void row_factors(float epsilon, float factor, float (&made)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Four warps, 16 columns each. The stream has mean 0, so that its squares alone are the variance.
      const float4 squares = reinterpret_cast<const float4*>(floats(Sizes::SQUARES_AT))[group + 8 * half];
      const float sum = squares.x + squares.y + squares.z + squares.w;
      made[half] = inverse_root(sum * (1.0f / WIDTH) + epsilon) * factor;
    }
  }
};
