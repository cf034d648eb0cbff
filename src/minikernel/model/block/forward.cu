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
// (units.py): the copy engine fills a slot, all warps read it, and then the unit that comes into that slot next is
// copied.
//
// The head goes over the words twice: for the sum of the exponentials, then to write them; 16 x 600 logits are more than
// a warp's registers. A bound on the logits that the host knows makes their largest unnecessary, as in linear_softmax.cu.
#include "../ptx.cuh"
#include "../tiles.cuh"
#include "ring.cuh"
#include "products.cuh"
#include "attention.cuh"

// Words 4 t to 4 t + 3 of 16, where `word` is the first, of one row.
__device__ __forceinline__ void write_words(float* line, int word, int words, float a, float b, float c, float d) {
  if (words % 4 == 0) {
    // Four words begin on a 16-byte boundary of every row only where a row is a multiple of four words.
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

// A lane's two columns of an embedding's row.
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
  // Members with one number in all teams share heads, units and barriers: `ready` counts the tiles that have written
  // their keys and values of a layer, `done` those that have read all they need.
  const unsigned ready = shared_address(barriers + 2 * member), done = ready + 8;  // of the keys and values
  const int units_of_member = layers * OF_LAYER + units_of_head;
  const int again = probabilities ? units_of_head : 0;  // the head's units are read twice
  const unsigned of_slots = shared_address(barriers + 2 * TEAM + 2 * SLOTS * member);
  // Slots are shared out among the warps that read them, a bit each: one thread for all copies would wait for the
  // slowest reader of each unit.
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
  // The first warp of each ring makes its barriers and starts as
  // many copies as there are slots, before any token is looked at.
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
    // Of several short sequences in a tile, a row sees only keys from the first token of its own to itself.
    const int line = group + 8 * row, first = length < ROWS ? line / length * length : 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = i / 2 * 8 + pair + i % 2;
      hidden |= (key < first || key > line) << (i / 2 * 4 + 2 * row + i % 2);
    }
    // Rows beyond the last token compute on token 0 and are never written: no branch in what follows.
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

  // The unit's number says which layer it is: one counter less to keep in a register.
#pragma unroll 1
  while (ring.current < layers * OF_LAYER) {
    Left normed[CHUNKS];
    layer_norm<Precision>(x, normed);
    if (ring.current) await_here(done, ~(ring.current / OF_LAYER) & 1);  // the layer before has read its keys and values
    timeline.mark(WAITING, KEYS);
#pragma unroll 1
    for (int head = member * OWN_HEADS; head < (member + 1) * OWN_HEADS; ++head) {
      // Keys of 8 dimensions in each of two tiles, then values: a unit's 16 pieces are both. What is written here is
      // the next product's right operand as it stands (tiles.cuh).
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
      // Only before the first head: by then all tiles of the block have written this layer's keys and values.
      if (head == member * OWN_HEADS) {
        timeline.mark(ARITHMETIC, ATTENTION);
        await_here(ready, ring.current / OF_LAYER & 1);
        timeline.mark(WAITING, ATTENTION);
      }
      Attention<Precision> attention;
      const Right* keys = cache + (own_tile<TEAM>() * HEADS + head) * 4 * 32 + lane;
      attention.own(query, keys, *unseen);
      // Tiles before the own one are seen whole; later ones not at all, so that late tiles have more to do (ring.cuh).
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
      // 16 hidden activations are made, activated and at once multiplied into the stream: they never leave registers.
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
  // First time over the words: the sum of their exponentials, and where there is no bound their largest.
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
            // a sum around the old largest, brought to the new one (online softmax)
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
  // Second time over the words: the logits are made anew and leave as probabilities. What says where is worked out
  // again, to keep no registers through all layers.
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
      // The packing has mixed two tiles' words so that a lane's four are neighbours: one 16-byte store a row.
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
