// What the kernels of kernels.cu share: how rows and weights lie in memory, how they are copied, and a block's times.
#pragma once

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

// Where a block was when (captured.py: timeline): its first thread's clock at the end of each span.
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
    // One arrival, the `expect` below, and all bytes: every thread that waits for it may read everything.
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
  // All loads before the first addition, so that they are under way together.
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
  // Rows beyond the end take the last token's place: they compute something finite, and nobody writes it.
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
