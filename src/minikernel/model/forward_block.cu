// MiniGPT's forward pass in one launch, for many sequences: a block has whole sequences, and runs them through the whole
// network without writing anything but what comes out of it.
//
// A warp holds 16 tokens: the residual stream, 16 x 64, stays in its registers, and so does everything that follows from
// a LayerNorm up to the next sum (tiles.cuh). Only keys and values go through shared memory, for the warps of the later
// tokens of a sequence. Where there are few tokens, TEAM warps share 16 of them: each takes some of the heads, of the
// hidden activations and of the words, and they add up what they contribute to the stream. Sequences shorter than 16
// tokens share a tile.
//
// Weights stream from L2 through a ring in shared memory, in units of 16 pieces that lie in the order of use
// (block_units.py): the copy engine fills a slot, all warps read it, and then the unit that comes into that slot next is
// copied.
//
// The head goes over the words twice: for the sum of the exponentials, then to write them; 16 x 600 logits are more than
// a warp's registers. A bound on the logits that the host knows makes their largest unnecessary, as in linear_softmax.cu.
#include "ptx.cuh"
#include "tiles.cuh"

constexpr int PIECES = 16, WORDS = 32;  // of a unit: 8 outputs and 16 features each; and the words of a unit of the head
constexpr float MUCH = 12.0f;           // by so much, to base 2, may a score exceed the one that others are measured by
#define NOT_A_NUMBER __int_as_float(0x7fffffff)
enum { MEMORY = 1, ARITHMETIC = 2, WAITING = 3 };
enum { START, KEYS, ATTENTION, FEED_FORWARD, SUM_OF_WORDS, WRITING };

template <class Precision>
struct Unit {
  typename Precision::Right pieces[PIECES][32];
  float bias[WORDS];           // of its outputs
  float stream[WIDTH];         // a layer's last unit of a kind: the bias of what is added to the stream;
                               // the head's: [0, 32): the bias to base 2
  float factor, next, unused[2];  // that undo the scaling of its first and second matrix
};

template <bool TIMED>
struct Timeline {
  long long *row, *end;

  __device__ __forceinline__ void start(long long* stamps, int events) {
    if (!TIMED) return;
    row = end = nullptr;
    if (threadIdx.x) return;
    row = stamps + 2ll * events * blockIdx.x;
    end = row + 2ll * events;
    write(multiprocessor(), nanoseconds());
    write(0, clock64());
  }

  __device__ __forceinline__ void mark(int kind, int phase) {
    if (TIMED) write(kind | phase << 8, clock64());
  }

  __device__ __forceinline__ void write(long long code, long long time) {
    if (row == end) return;
    row[0] = code, row[1] = time;
    row += 2;
  }
};

// Which of a block's tiles a warp takes, found anew where it is asked for, to keep no register. Tiles of later tokens have
// more to attend to, so that the warps of a multiprocessor's quarter get early and late ones.
template <int TEAM>
__device__ __forceinline__ int own_tile() {
  const int number = __shfl_sync(~0u, thread_index() / 32, 0) / TEAM;
  if (TEAM > 2 || block_threads() != 32 * TEAM * 8) return number;
  return TEAM == 2 ? number ^ (number >> 1 & 1) : number & 4 ? number ^ 3 : number;
}

// Which of a team's members the thread is in, found anew likewise.
template <int TEAM>
__device__ __forceinline__ int own_member() {
  return thread_index() / 32 % TEAM;
}

// The weights of one member of the teams, unit by unit. Its warps share the slots out among them: whose slot it is has, when
// it comes to that slot, the unit before the last replaced, once all have read it.
template <class Precision, int TEAM, int SLOTS, bool TIMED>
struct Ring {
  static constexpr int LAG = 2;
  const Unit<Precision>* source;  // of all members
  Unit<Precision>* slots;
  unsigned full, empty;  // addresses of an mbarrier for each slot
  int units, again;      // to be read, the last `again` of them for the second time
  const unsigned char* duties;  // a bit for each slot that is this warp's; in a register it would spill
  Timeline<TIMED>& timeline;
  int current = 0, slot = 0, parity = 0;

  __device__ __forceinline__ void make(int readers) const {
    for (int i = 0; i < SLOTS; ++i) make_barrier(full + 8 * i, 1), make_barrier(empty + 8 * i, readers);
  }

  __device__ __forceinline__ void copy(int unit, int into) const {
    const int of_member = units - again, place = unit < of_member ? unit : unit - again;
    expect(full + 8 * into, sizeof(Unit<Precision>));
    bulk_copy(shared_address(slots + into), source + own_member<TEAM>() * of_member + place, sizeof(Unit<Precision>), full + 8 * into);
  }

  __device__ __forceinline__ void fill() const {
    for (int unit = 0; unit < min(SLOTS, units); ++unit) copy(unit, unit);
  }

  __device__ __forceinline__ const Unit<Precision>& next(int phase) {
    timeline.mark(ARITHMETIC, phase);
    if (*duties >> slot & 1 && current >= LAG && current - LAG + SLOTS < units) {
      if (threadIdx.x % 32 == 0) {
        const bool wrapped = slot < LAG;
        const int into = wrapped ? slot - LAG + SLOTS : slot - LAG;
        await_here(empty + 8 * into, parity ^ wrapped);
        copy(current - LAG + SLOTS, into);
      }
      __syncwarp();
    }
    await_here(full + 8 * slot, parity);
    timeline.mark(MEMORY, phase);
    return slots[slot];
  }

  __device__ __forceinline__ void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(empty + 8 * slot);
    ++current;
    if (++slot == SLOTS) slot = 0, parity ^= 1;
  }
};

// COUNT tiles of 8 outputs from the 64 features.
template <class Precision, int COUNT>
__device__ __forceinline__ void product(const typename Precision::Left (&a)[CHUNKS],
                                        const typename Precision::Right (*pieces)[32], int lane,
                                        typename Precision::Sum (&sums)[COUNT]) {
#pragma unroll
  for (int tile = 0; tile < COUNT; ++tile) sums[tile] = {};
#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; ++chunk)
#pragma unroll
    for (int tile = 0; tile < COUNT; ++tile) sums[tile].add(a[chunk], pieces[tile * CHUNKS + chunk][lane]);
}

// The same with the scaling undone and the bias added; `bias` is that of the lane's first column.
template <class Precision, int COUNT>
__device__ __forceinline__ void linear(const typename Precision::Left (&a)[CHUNKS],
                                       const typename Precision::Right (*pieces)[32], int lane, const float* bias,
                                       float factor, float (&made)[COUNT][4]) {
  typename Precision::Sum sums[COUNT];
  product<Precision>(a, pieces, lane, sums);
#pragma unroll
  for (int tile = 0; tile < COUNT; ++tile) {
    const float2 two = *reinterpret_cast<const float2*>(bias + 8 * tile);
#pragma unroll
    for (int i = 0; i < 4; ++i) made[tile][i] = fmaf(sums[tile].total(i), factor, i % 2 ? two.y : two.x);
  }
}

// What 16 features contribute to the stream.
template <class Precision>
__device__ __forceinline__ void contribute(const typename Precision::Left& a,
                                           const typename Precision::Right (*pieces)[32], int lane, float factor,
                                           float (&x)[TILES][4]) {
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
    float sum[4] = {};
    Precision::multiply(sum, a, pieces[tile][lane]);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[tile][i] = fmaf(sum[i], factor, x[tile][i]);
  }
}

__device__ __forceinline__ void add_bias(float (&x)[TILES][4], const float* bias) {
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
    const float2 two = *reinterpret_cast<const float2*>(bias + 8 * tile);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[tile][i] += i % 2 ? two.y : two.x;
  }
}

__device__ __forceinline__ void clear(float (&x)[TILES][4]) {
#pragma unroll
  for (int i = 0; i < 4 * TILES; ++i) x[i / 4][i % 4] = 0;
}

// Add up what the warps of a team have of the stream, one half of its features after the other: who writes the first
// half the next time has seen everybody pass the second barrier of this time. `sent`: [half][TEAM][TILES / 2][32].
template <int TEAM>
__device__ __forceinline__ void exchange(float (&x)[TILES][4], float4* sent, int tile, int member, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float4* const here = sent + (2 * tile + half) * TEAM * TILES / 2 * 32 + lane;
#pragma unroll
    for (int i = 0; i < TILES / 2; ++i) {
      const float(&own)[4] = x[half * TILES / 2 + i];
      here[(member * TILES / 2 + i) * 32] = make_float4(own[0], own[1], own[2], own[3]);
    }
    named_barrier(1 + tile, 32 * TEAM);
#pragma unroll
    for (int i = 0; i < TILES / 2; ++i) {
      float4 sum = here[i * 32];
#pragma unroll
      for (int from = 1; from < TEAM; ++from) {  // in the same order in all of them
        const float4 part = here[(from * TILES / 2 + i) * 32];
        sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
      }
      float(&own)[4] = x[half * TILES / 2 + i];
      own[0] = sum.x, own[1] = sum.y, own[2] = sum.z, own[3] = sum.w;
    }
  }
}

// Attention of one head, online: exponentials are of what a score exceeds `top` by, which is the largest score of the
// first keys that were looked at, and is moved only when another exceeds it by much.
template <class Precision>
struct Attention {
  typedef typename Precision::Right Right;
  float mixed[2][4] = {}, sum[2] = {0, 0}, top[2];

  __device__ __forceinline__ void scores(const typename Precision::Left& query, const Right* keys,
                                         float (&score)[2][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[half][i] = 0;
      Precision::multiply(score[half], query, keys[half * 32]);
    }
  }

  __device__ __forceinline__ void mix(float (&score)[2][4], const Right* values) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        score[half][i] = power_of_two(score[half][i] - top[i / 2]);
        sum[i / 2] += score[half][i];
      }
    const typename Precision::Left share = Precision::left(score[0], score[1]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float part[4] = {};
      Precision::multiply(part, share, values[half * 32]);
#pragma unroll
      for (int i = 0; i < 4; ++i) mixed[half][i] += part[i];
    }
  }

  // The 16 keys that begin with the tile's own first token. `unseen`, a bit for each of the lane's scores: the keys that
  // a row may not attend to.
  __device__ __forceinline__ void own(const typename Precision::Left& query, const Right* keys, int unseen) {
    float score[2][4];
    scores(query, keys, score);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float best = -INFINITY;
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& value = score[half][2 * row + i];
          if (unseen >> (4 * half + 2 * row + i) & 1) value = -INFINITY;
          best = fmaxf(best, value);
        }
      top[row] = largest_of_row(best);
    }
    mix(score, keys + 64);
  }

  // 16 keys before those.
  __device__ __forceinline__ void earlier(const typename Precision::Left& query, const Right* keys) {
    float score[2][4];
    scores(query, keys, score);
    float best[2];
#pragma unroll
    for (int row = 0; row < 2; ++row)
      best[row] = fmaxf(fmaxf(score[0][2 * row], score[0][2 * row + 1]), fmaxf(score[1][2 * row], score[1][2 * row + 1]));
    if (__any_sync(~0u, fmaxf(best[0] - top[0], best[1] - top[1]) > MUCH)) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float higher = fmaxf(top[row], largest_of_row(best[row])), scale = power_of_two(top[row] - higher);
        top[row] = higher;
        sum[row] *= scale;
#pragma unroll
        for (int half = 0; half < 2; ++half) mixed[half][2 * row] *= scale, mixed[half][2 * row + 1] *= scale;
      }
    }
    mix(score, keys + 64);
  }

  __device__ __forceinline__ typename Precision::Left result() {
    const float scale[2] = {reciprocal(sum_of_row(sum[0])), reciprocal(sum_of_row(sum[1]))};
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) mixed[half][i] *= scale[i / 2];
    return Precision::left(mixed[0], mixed[1]);
  }
};

// Words 4 t to 4 t + 3 of 16, where `word` is the first, of one row.
__device__ __forceinline__ void write_words(float* line, int word, int words, float a, float b, float c, float d) {
  if (words % 4 == 0) {
    if (word < words) *reinterpret_cast<float4*>(line + word) = make_float4(a, b, c, d);
  } else {
    if (word < words) line[word] = a;
    if (word + 1 < words) line[word + 1] = b;
    if (word + 2 < words) line[word + 2] = c;
    if (word + 3 < words) line[word + 3] = d;
  }
}

__device__ __forceinline__ void write_words(unsigned short* line, int word, int words, float a, float b, float c,
                                            float d) {
  const uint2 packed = make_uint2(pack_bfloat16(a, b), pack_bfloat16(c, d));
  if (words % 4 == 0) {
    if (word < words) *reinterpret_cast<uint2*>(line + word) = packed;
  } else {
    if (word < words) line[word] = packed.x & 0xffff;
    if (word + 1 < words) line[word + 1] = packed.x >> 16;
    if (word + 2 < words) line[word + 2] = packed.y & 0xffff;
    if (word + 3 < words) line[word + 3] = packed.y >> 16;
  }
}

__device__ __forceinline__ float2 two_numbers(const float* from) { return *reinterpret_cast<const float2*>(from); }
__device__ __forceinline__ float2 two_numbers(const unsigned short* from) {
  const word both = *reinterpret_cast<const word*>(from);
  return make_float2(__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u));
}

// The rows of a tile that are tokens: `count`, from number `token` of the batch on, of one sequence, which has `before`
// tiles before this one, or of several shorter ones.
struct Rows {
  int before, token, count;

  __device__ __forceinline__ Rows(int tile, int sequences, int length, int per_block) {
    const bool several = length < ROWS;
    const int together = several ? ROWS / length : 1, each = several ? 1 : (length + ROWS - 1) / ROWS;
    const int inside = tile / each * together, sequence = blockIdx.x * per_block + inside;
    const int here = min(together, min(per_block - inside, sequences - sequence));  // sequences of this tile
    before = tile % each;
    token = sequence * length + before * ROWS;
    count = several ? here * length : here > 0 ? length - before * ROWS : 0;
  }
};

// Probabilities, or logits. units: [member][unit], the last `units_of_head` of them the head's; tokens (words, WIDTH) and
// places (length or more, WIDTH): the embeddings; ids (sequences, length); out (sequences, length, words). A block has
// `per_block` sequences, and 32 TEAM threads for each of their tiles. `bounded`: no logit's exponential leaves float32's
// range.
template <class Precision, int TEAM, int SLOTS, int THREADS, int BLOCKS, bool TIMED>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    forward_block(const Unit<Precision>* units, const typename Precision::Number* tokens,
                  const typename Precision::Number* places, const long long* ids, typename Precision::Number* out,
                  long long* stamps, int events, int sequences, int length, int layers, int words, int per_block,
                  int units_of_head, int probabilities, int bounded) {
  typedef typename Precision::Right Right;
  typedef typename Precision::Left Left;
  constexpr int OWN_HEADS = HEADS / TEAM, OWN_HIDDEN = HIDDEN / ROWS / TEAM, OF_LAYER = 2 * OWN_HEADS + OWN_HIDDEN;
  extern __shared__ uint4 memory[];
  Timeline<TIMED> timeline;
  timeline.start(stamps, events);

  const int tiles = blockDim.x / 32 / TEAM, lane = threadIdx.x % 32;
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);  // so that the compiler sees that it is the same in all lanes
  const int member = warp % TEAM, group = lane / 4, pair = 2 * (lane % 4);
  // the ring's slots, the barriers of slots, keys and values, two bytes for each thread, then keys and values,
  // [tile][head][keys, keys, values, values][lane], and what teams exchange, [tile][half][member][TILES / 2][lane]
  Unit<Precision>* const slots = reinterpret_cast<Unit<Precision>*>(memory);
  unsigned long long* const barriers = reinterpret_cast<unsigned long long*>(slots + TEAM * SLOTS);
  unsigned char* const unseen = reinterpret_cast<unsigned char*>(barriers + TEAM * (2 * SLOTS + 2)) + 2 * threadIdx.x;
  Right* const cache = reinterpret_cast<Right*>(unseen + 2 * (blockDim.x - threadIdx.x));
  float4* const sent = reinterpret_cast<float4*>(cache + tiles * HEADS * 4 * 32);
  const unsigned ready = shared_address(barriers + 2 * member), done = ready + 8;  // of the keys and values
  const int units_of_member = layers * OF_LAYER + units_of_head;
  const int again = probabilities ? units_of_head : 0;  // the head's units are read twice
  const unsigned of_slots = shared_address(barriers + 2 * TEAM + 2 * SLOTS * member);
  unsigned duties = 0;
  for (int slot = warp / TEAM; slot < SLOTS; slot += tiles) duties |= 1u << slot;
  Ring<Precision, TEAM, SLOTS, TIMED> ring{units,
                                     slots + member * SLOTS,
                                     of_slots,
                                     of_slots + 8 * SLOTS,
                                     units_of_member + again,
                                     again,
                                     unseen + 1,
                                     timeline};
  if (warp < TEAM && lane == 0) {
    ring.make(tiles);
    make_barrier(ready, tiles);
    make_barrier(done, tiles);
    fence_barriers();
    ring.fill();
  }

  const Rows tokens_here(own_tile<TEAM>(), sequences, length, per_block);
  const int before = tokens_here.before;
  int hidden = 0;  // a bit for each of a lane's scores of the tile's own keys
  float x[TILES][4];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int line = group + 8 * row, first = length < ROWS ? line / length * length : 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = i / 2 * 8 + pair + i % 2;
      hidden |= (key < first || key > line) << (i / 2 * 4 + 2 * row + i % 2);
    }
    const bool is_token = line < tokens_here.count;
    const long long id = is_token ? ids[tokens_here.token + line] : 0;
    const bool known = 0 <= id && id < words;
    const typename Precision::Number* const from = tokens + (known ? id : 0) * WIDTH + pair;
    const typename Precision::Number* const place = places + (is_token ? before * ROWS + line - first : 0) * WIDTH + pair;
#pragma unroll
    for (int i = 0; i < TILES; ++i) {
      const float2 a = two_numbers(from + 8 * i), b = two_numbers(place + 8 * i);
      x[i][2 * row] = known ? a.x + b.x : NOT_A_NUMBER, x[i][2 * row + 1] = known ? a.y + b.y : NOT_A_NUMBER;
    }
  }
  unseen[0] = hidden, unseen[1] = duties;
  __syncthreads();
  timeline.mark(MEMORY, START);

#pragma unroll 1
  while (ring.current < layers * OF_LAYER) {
    Left normed[CHUNKS];
    layer_norm<Precision>(x, normed);
    if (ring.current) await_here(done, ~(ring.current / OF_LAYER) & 1);  // the layer before has read its keys and values
    timeline.mark(WAITING, KEYS);
#pragma unroll 1
    for (int head = member * OWN_HEADS; head < (member + 1) * OWN_HEADS; ++head) {
      const Unit<Precision>& unit = ring.next(KEYS);
      Right* const own = cache + (own_tile<TEAM>() * HEADS + head) * 4 * 32 + lane;
      float made[2][4];
      linear<Precision>(normed, unit.pieces, lane, unit.bias + pair, unit.factor, made);
      own[0] = Precision::template keys<0>(made[0], made[1]);
      own[32] = Precision::template keys<2>(made[0], made[1]);
      linear<Precision>(normed, unit.pieces + 8, lane, unit.bias + 16 + pair, unit.factor, made);
      // a NaN, of an id outside the vocabulary, reaches by its key those who attend to it; as a value, it would by a
      // share of 0 reach the rest of its tile
#pragma unroll
      for (int i = 0; i < 8; ++i) made[i / 4][i % 4] = fmaxf(made[i / 4][i % 4], sizeof(*tokens) == 4 ? -6e4f : -3e38f);
      own[64] = Precision::values(made[0]);
      own[96] = Precision::values(made[1]);
      ring.release();
    }
    if (lane == 0) arrive(ready);  // after the warp's barrier in `release`

    if (member) clear(x);  // what the team adds up is the stream as its first member has it, and contributions
#pragma unroll 1
    for (int head = member * OWN_HEADS; head < (member + 1) * OWN_HEADS; ++head) {
      const Unit<Precision>& unit = ring.next(ATTENTION);
      float made[2][4];
      linear<Precision>(normed, unit.pieces, lane, unit.bias + pair, unit.factor, made);
      const Left query = Precision::left(made[0], made[1]);
      if (head == member * OWN_HEADS) {
        timeline.mark(ARITHMETIC, ATTENTION);
        await_here(ready, ring.current / OF_LAYER & 1);
        timeline.mark(WAITING, ATTENTION);
      }
      Attention<Precision> attention;
      const Right* keys = cache + (own_tile<TEAM>() * HEADS + head) * 4 * 32 + lane;
      attention.own(query, keys, *unseen);
#pragma unroll 1
      for (int earlier = 0; earlier < before; ++earlier) {
        keys -= HEADS * 4 * 32;
        attention.earlier(query, keys);
      }
      contribute<Precision>(attention.result(), unit.pieces + 8, lane, unit.next, x);
      if (head == OWN_HEADS - 1) add_bias(x, unit.stream + pair);  // the first member only
      ring.release();
    }
    if (lane == 0) arrive(done);
    if (TEAM > 1) {
      timeline.mark(ARITHMETIC, ATTENTION);
      exchange<TEAM>(x, sent, own_tile<TEAM>(), member, lane);
      timeline.mark(WAITING, ATTENTION);
    }

    layer_norm<Precision>(x, normed);
    if (member) clear(x);
#pragma unroll 1
    for (int step = 0; step < OWN_HIDDEN; ++step) {
      const Unit<Precision>& unit = ring.next(FEED_FORWARD);
      float hidden[2][4];
      linear<Precision>(normed, unit.pieces, lane, unit.bias + pair, unit.factor, hidden);
#pragma unroll
      for (int i = 0; i < 8; ++i) hidden[i / 4][i % 4] = gelu(hidden[i / 4][i % 4]);
      contribute<Precision>(Precision::left(hidden[0], hidden[1]), unit.pieces + 8, lane, unit.next, x);
      if (step == OWN_HIDDEN - 1 && member == 0) add_bias(x, unit.stream + pair);
      ring.release();
    }
    if (TEAM > 1) {
      timeline.mark(ARITHMETIC, FEED_FORWARD);
      exchange<TEAM>(x, sent, own_tile<TEAM>(), member, lane);
      timeline.mark(WAITING, FEED_FORWARD);
    }
  }

  Left normed[CHUNKS];
  layer_norm<Precision>(x, normed);
  float top[2] = {0, 0}, scale[2] = {1, 1};
  if (probabilities) {
    float sum[2] = {0, 0};
    if (!bounded) top[0] = top[1] = -3e38f;
#pragma unroll 1
    for (int step = 0; step < units_of_head; ++step) {
      const Unit<Precision>& unit = ring.next(SUM_OF_WORDS);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float logit[2][4];  // to base 2
        linear<Precision>(normed, unit.pieces + 8 * half, lane, unit.stream + 16 * half + pair, unit.next, logit);
        if (!bounded) {
#pragma unroll
          for (int row = 0; row < 2; ++row) {
            const float higher = fmaxf(fmaxf(fmaxf(logit[0][2 * row], logit[0][2 * row + 1]),
                                             fmaxf(logit[1][2 * row], logit[1][2 * row + 1])),
                                       top[row]);
            sum[row] *= power_of_two(top[row] - higher);
            top[row] = higher;
          }
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i % 4 / 2] += power_of_two(logit[i / 4][i % 4] - top[i % 4 / 2]);
      }
      ring.release();
    }
    // the four lanes of a row, then the warps of a team
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float higher = largest_of_row(top[row]);
      sum[row] = sum_of_row(sum[row] * power_of_two(top[row] - higher));
      top[row] = higher;
    }
    if (TEAM > 1) {
      timeline.mark(ARITHMETIC, SUM_OF_WORDS);
      const int tile = own_tile<TEAM>();
      float4* const here = sent + tile * TEAM * TILES * 32 + group;  // [member][8]
      if (lane % 4 == 0) here[member * 8] = make_float4(sum[0], sum[1], top[0], top[1]);
      named_barrier(1 + tile, 32 * TEAM);
      float4 parts[TEAM];
      float higher[2] = {-INFINITY, -INFINITY};
#pragma unroll
      for (int from = 0; from < TEAM; ++from) {
        parts[from] = here[from * 8];
        higher[0] = fmaxf(higher[0], parts[from].z), higher[1] = fmaxf(higher[1], parts[from].w);
      }
      sum[0] = sum[1] = 0;
#pragma unroll
      for (int from = 0; from < TEAM; ++from) {
        sum[0] = fmaf(parts[from].x, power_of_two(parts[from].z - higher[0]), sum[0]);
        sum[1] = fmaf(parts[from].y, power_of_two(parts[from].w - higher[1]), sum[1]);
      }
      top[0] = higher[0], top[1] = higher[1];
      timeline.mark(WAITING, SUM_OF_WORDS);
    }
    scale[0] = reciprocal(sum[0]), scale[1] = reciprocal(sum[1]);
  }
  const Rows written(own_tile<TEAM>(), sequences, length, per_block);
#pragma unroll 1
  for (int step = 0; step < units_of_head; ++step) {
    const Unit<Precision>& unit = ring.next(WRITING);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float value[2][4];
      const float* const bias = (probabilities ? unit.stream : unit.bias) + 16 * half + pair;
      linear<Precision>(normed, unit.pieces + 8 * half, lane, bias, probabilities ? unit.next : unit.factor, value);
      if (probabilities) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
          value[i / 4][i % 4] = power_of_two(value[i / 4][i % 4] - top[i % 4 / 2]) * scale[i % 4 / 2];
      }
      const int word = (step * TEAM + member) * WORDS + 16 * half + 2 * pair;
#pragma unroll
      for (int row = 0; row < 2; ++row)
        if (group + 8 * row < written.count)
          write_words(out + static_cast<size_t>(written.token + group + 8 * row) * words, word, words, value[0][2 * row],
                      value[0][2 * row + 1], value[1][2 * row], value[1][2 * row + 1]);
    }
    ring.release();
  }
  timeline.mark(MEMORY, WRITING);
}
