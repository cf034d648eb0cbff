// A whole text in one launch: MiniGPT token by token, its weights in shared memory from the first token to the last.
//
// A cluster of 8 blocks writes one sequence. Block c holds head c / 2 and an eighth of each feed-forward layer and of the
// LM head; the residual stream is in the registers of every warp, the same in all. A layer then needs two exchanges: each
// block adds up what its share contributes to the 64 elements of the stream, and sends that to every block. It goes by
// st.async into the receiver's shared memory, whose mbarrier counts the bytes: no barrier of the cluster is needed.
// No block can be two exchanges ahead: for the next one it needs what every warp of every block sends after reading this.
// Weights are packed by the host (packing.py) in the order in which threads read them, free of bank conflicts.

#include "ptx.cuh"

constexpr int WIDTH = 64, HEADS = 4, HEAD = WIDTH / HEADS, HIDDEN = 4 * WIDTH;
constexpr int BLOCKS = 8, THREADS = 256, WARPS = THREADS / 32, PER_WARP = 16;  // positions that a warp attends to
constexpr float EPSILON = 1e-5f;
#define INFINITY __int_as_float(0x7f800000)
constexpr int QKV = 3 * HEAD * WIDTH, PROJ = WIDTH * HEAD / 2, FC = HIDDEN / BLOCKS * WIDTH;
constexpr int VECTORS = 3 * HEAD + WIDTH + HIDDEN / BLOCKS + WIDTH;  // the biases of a layer
constexpr int LAYER = QKV + PROJ + 2 * FC + VECTORS;  // floats of a layer in a block

__device__ __forceinline__ float dot(float4 a, float4 b) {
  return fmaf(a.x, b.x, a.y * b.y) + fmaf(a.z, b.z, a.w * b.w);
}

// Each of COUNT values summed over LANES neighbouring lanes, in all of them; the values' shuffles overlap.
template <int LANES, int COUNT>
__device__ __forceinline__ void add_up(float (&values)[COUNT]) {
#pragma unroll
  for (int lane = 1; lane < LANES; lane *= 2)
#pragma unroll
    for (int i = 0; i < COUNT; ++i) values[i] += __shfl_xor_sync(~0u, values[i], lane);
}

// An integer that is ordered as the float is, and back: the largest of a warp's integers takes one instruction.
__device__ __forceinline__ int ordered(float value) {
  const int bits = __float_as_int(value);
  return bits ^ (bits >> 31 & 0x7fffffff);
}

__device__ __forceinline__ float largest(float value) {
  const int bits = __reduce_max_sync(~0u, ordered(value));
  return __int_as_float(bits ^ (bits >> 31 & 0x7fffffff));
}

// Rows of a matrix times a vector of 64, of which a lane has four elements: each half of a warp takes ROWS rows, and all
// of its lanes have the products in the end.
template <int ROWS>
__device__ __forceinline__ void row_products(const float4* weights, int thread, float4 vector, float (&products)[ROWS]) {
#pragma unroll
  for (int row = 0; row < ROWS; ++row) products[row] = dot(weights[row * THREADS + thread], vector);
  add_up<16>(products);
}

// Of an array's elements the one at a lane's own index.
template <int COUNT>
__device__ __forceinline__ float own_of(const float (&values)[COUNT], int index) {
  float own = values[0];
#pragma unroll
  for (int i = 1; i < COUNT; ++i) own = index == i ? values[i] : own;
  return own;
}

// A lane's two elements of a row of 64.
__device__ __forceinline__ float2 two_of(const float* row, int lane) { return reinterpret_cast<const float2*>(row)[lane]; }

__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }

// LayerNorm of the stream: elements 4 i to 4 i + 3, where i is the lane modulo 16. Its weight and bias are in the matrix
// that follows (packing.py).
__device__ __forceinline__ float4 layer_norm(float2 x, int lane) {
  float sums[2] = {x.x + x.y, fmaf(x.x, x.x, x.y * x.y)};
  add_up<32>(sums);
  const float mean = sums[0] / WIDTH, variance = fmaxf(fmaf(-mean, mean, sums[1] / WIDTH), 0.0f);
  const float scale = rsqrtf(variance + EPSILON);
  x = make_float2((x.x - mean) * scale, (x.y - mean) * scale);
  const int from = 2 * lane % 32;
  return make_float4(__shfl_sync(~0u, x.x, from), __shfl_sync(~0u, x.y, from), __shfl_sync(~0u, x.x, from + 1),
                     __shfl_sync(~0u, x.y, from + 1));
}

// x / 2 (1 + tanh u) is x / (1 + exp(-2 u)), without a difference of neighbours
__device__ __forceinline__ float gelu(float x) {
  return __fdividef(x, 1.0f + __expf(-1.5957691216057308f * x * fmaf(0.044715f * x, x, 1.0f)));
}

struct Shared {
  float sent[2][BLOCKS][WIDTH];      // what each block contributes to the stream, by turns
  float mixed[WARPS][HEAD];          // of each warp's positions: values, weighed
  float top[WARPS], weight[WARPS];   // the largest score there, and the sum of the exponentials
  float query[HEAD];
  float hidden[HIDDEN / BLOCKS];
  double total[WARPS];
  float best[WARPS];
  int place[WARPS];
  unsigned long long barriers[3];  // two for the stream, by turns, and one for the logits
  int token;
};

// The exchange: blocks' contributions to the stream, summed in the blocks' order.
struct Stream {
  Shared& shared;
  unsigned block;
  unsigned turn = 0;

  // eight neighbouring threads have what this block adds to two elements of the stream: 2 * (thread / 8) and the next
  __device__ __forceinline__ float2 exchange(float2 x, const float (&made)[2], int thread, const float* bias) {
    const unsigned side = turn & 1, to = thread % BLOCKS;
    const int lane = thread % 32;
    unsigned long long* const barrier = &shared.barriers[side];
    if (thread == 0) expect(shared_address(barrier), BLOCKS * WIDTH * sizeof(float));
    send(remote(shared_address(&shared.sent[side][block][thread / 8 * 2]), to), remote(shared_address(barrier), to),
         make_float2(made[0], made[1]));
    x = x + two_of(bias, lane);
    await(shared_address(barrier), turn / 2 & 1);
    ++turn;
    float2 parts[BLOCKS];
#pragma unroll
    for (int from = 0; from < BLOCKS; ++from) parts[from] = two_of(shared.sent[side][from], lane);
#pragma unroll
    for (int half = BLOCKS / 2; half; half /= 2)
      for (int from = 0; from < half; ++from) parts[from] = parts[from] + parts[from + half];
    return x + parts[0];
  }
};

// Philox4x32-10 (Salmon et al. 2011): the first word for a counter (position, sequence, 0, 0).
__device__ unsigned philox(unsigned position, unsigned sequence, unsigned long long seed) {
  unsigned a = position, b = sequence, c = 0, d = 0;
  unsigned key = static_cast<unsigned>(seed), other = static_cast<unsigned>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned high = __umulhi(0xD2511F53u, a), low = 0xD2511F53u * a;
    const unsigned next = __umulhi(0xCD9E8D57u, c), lower = 0xCD9E8D57u * c;
    a = next ^ b ^ key;
    b = lower;
    c = high ^ d ^ other;
    d = low;
    key += 0x9E3779B9u;
    other += 0xBB67AE85u;
  }
  return a;
}

// The token that comes next, of logits that every block has; every block chooses the same.
template <int VOCABULARY>
__device__ int choose(Shared& shared, const float* logits, float temperature, int top_k, unsigned position,
                      unsigned sequence, unsigned long long seed) {
  constexpr int EACH = (VOCABULARY + THREADS - 1) / THREADS;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  float best = -INFINITY;
  int place = VOCABULARY;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int word = thread * EACH + i;
    if (word < VOCABULARY && logits[word] > best) best = logits[word], place = word;
  }
  const float own_best = best;
  best = largest(best);
  place = __reduce_min_sync(~0u, own_best == best ? place : VOCABULARY);
  if (lane == 0) shared.best[warp] = best, shared.place[warp] = place;
  __syncthreads();
  const float theirs = shared.best[lane % WARPS];
  best = largest(theirs);
  place = __reduce_min_sync(~0u, theirs == best ? shared.place[lane % WARPS] : VOCABULARY);
  place = min(place, VOCABULARY - 1);  // where no logit is a number
  if (temperature == 0) return place;

  double own[EACH], sum = 0;
  for (int i = 0; i < EACH; ++i) {
    const int word = thread * EACH + i;
    own[i] = 0;
    if (word < VOCABULARY) {
      int before = 0;  // words that are likelier, or as likely and of lower id
      if (top_k < VOCABULARY)
        for (int j = 0; j < VOCABULARY; ++j) before += logits[j] > logits[word] || (logits[j] == logits[word] && j < word);
      if (before < top_k) own[i] = exp((double)logits[word] / temperature - (double)best / temperature);
    }
    sum += own[i];
    own[i] = sum;
  }
  double reached = sum;  // up to and with this lane
  for (int other = 1; other < 32; other *= 2) {
    const double theirs = __shfl_up_sync(~0u, reached, other);
    if (lane >= other) reached += theirs;
  }
  if (lane == 31) shared.total[warp] = reached;
  if (thread == 0) shared.token = VOCABULARY - 1;
  __syncthreads();
  double before = reached - sum, total = 0;
  for (int i = 0; i < WARPS; ++i) {
    if (i < warp) before += shared.total[i];
    total += shared.total[i];
  }
  const double aim = (philox(position, sequence, seed) >> 8) * 0x1p-24 * total;
  for (int i = 0; i < EACH; ++i)
    if (before + own[i] > aim && (i ? before + own[i - 1] : before) <= aim && thread * EACH + i < VOCABULARY)
      shared.token = thread * EACH + i;
  __syncthreads();
  return shared.token;
}

// The text of a sequence for each cluster: `prompt` (sequences, given) int64, `written` (sequences, wanted) int64.
// packed: (BLOCKS, floats of a block); tokens (VOCABULARY, WIDTH) and places (POSITIONS, WIDTH): the embeddings.
template <int LAYERS, int VOCABULARY, int POSITIONS>
__global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS)
    write_text(const float* packed, const float* tokens, const float* places, const long long* prompt,
               long long* written, float* last_logits, int given, int wanted, float temperature, int top_k,
               unsigned long long seed) {
  constexpr int ROWS = (VOCABULARY + 16 * BLOCKS - 1) / (16 * BLOCKS), WORDS = 16 * ROWS;  // of the LM head: of a half
  // warp, and of a block
  constexpr int ROOM = (POSITIONS + PER_WARP - 1) / PER_WARP * PER_WARP;
  constexpr int OWN = LAYERS * LAYER + WORDS * WIDTH + WORDS;  // floats of a block
  static_assert(ROWS <= 16 && POSITIONS <= WARPS * PER_WARP, "the model does not fit");
  extern __shared__ float4 memory[];
  float* const own = reinterpret_cast<float*>(memory);
  float* const keys = own + OWN;                          // (LAYERS, HEAD / 4, ROOM, 4)
  float* const values = keys + LAYERS * ROOM * HEAD;  // (LAYERS, ROOM, HEAD)
  float* const logits = values + LAYERS * ROOM * HEAD;
  Shared& shared = *reinterpret_cast<Shared*>(logits + BLOCKS * WORDS + WORDS);

  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const unsigned block = block_of_cluster(), sequence = blockIdx.x / BLOCKS;
  for (int i = thread; i < OWN / 4; i += THREADS)
    memory[i] = reinterpret_cast<const float4*>(packed + static_cast<size_t>(block) * OWN)[i];
  for (int i = thread; i < 2 * LAYERS * ROOM * HEAD; i += THREADS) keys[i] = 0;  // and values: 0 times garbage is garbage
  if (lane < HEAD) shared.mixed[warp][lane] = 0;
  if (lane == 0) shared.top[warp] = -INFINITY, shared.weight[warp] = 0;
  if (thread < 3) make_barrier(shared_address(&shared.barriers[thread]), 1);
  fence_barriers();
  __syncthreads();
  cluster_barrier();

  Stream stream{shared, block};
  unsigned chosen = 0;
  long long token = prompt[sequence * given];
  for (int position = 0; position < given + wanted - 1; ++position) {
    float2 x = two_of(tokens + token * WIDTH, lane) + two_of(places + position * WIDTH, lane);
#pragma unroll 1
    for (int layer = 0; layer < LAYERS; ++layer) {
      const float* const weights = own + layer * LAYER;
      const float4* const qkv = reinterpret_cast<const float4*>(weights);
      const float* const proj = weights + QKV;
      const float4* const fc = qkv + (QKV + PROJ) / 4;
      const float4* const out = fc + FC / 4;
      const float* const qkv_bias = reinterpret_cast<const float*>(out + FC / 4);
      const float* const proj_bias = qkv_bias + 3 * HEAD;
      const float* const fc_bias = proj_bias + WIDTH;
      const float* const out_bias = fc_bias + HIDDEN / BLOCKS;
      float* const own_keys = keys + layer * ROOM * HEAD;
      float* const own_values = values + layer * ROOM * HEAD;

      float of_head[3];  // rows of query, key and value
      row_products(qkv, thread, layer_norm(x, lane), of_head);
      if (lane % 16 < 3) {
        const int row = thread / 16 * 3 + lane % 16, element = row % HEAD;
        const float made = own_of(of_head, lane % 16) + qkv_bias[row];
        if (row < HEAD) shared.query[element] = made;
        else if (row < 2 * HEAD) own_keys[(element / 4 * ROOM + position) * 4 + element % 4] = made;
        else own_values[position * HEAD + element] = made;
      }
      __syncthreads();

      if (warp <= position / PER_WARP) {  // two lanes for a position, then a lane for an element of every other position
        const int place = warp * PER_WARP + lane % 16, half = lane / 16;
        const float4* const key = reinterpret_cast<const float4*>(own_keys) + 2 * half * ROOM + place;
        const float4* const query = reinterpret_cast<const float4*>(shared.query) + 2 * half;
        const float* const value = own_values + (warp * PER_WARP + lane / HEAD) * HEAD + lane % HEAD;
        float column[PER_WARP / 2];
#pragma unroll
        for (int i = 0; i < PER_WARP / 2; ++i) column[i] = value[2 * i * HEAD];
        float product = dot(query[0], key[0]) + dot(query[1], key[ROOM]);
        product += __shfl_xor_sync(~0u, product, 16);
        const float score = place <= position ? product * 0.25f : -INFINITY;  // 1 / sqrt(HEAD)
        const float top = largest(score), weight = __expf(score - top);
        float mixed = 0, total = 0;
#pragma unroll
        for (int i = 0; i < PER_WARP / 2; ++i) {
          const float share = __shfl_sync(~0u, weight, 2 * i + lane / HEAD);
          mixed = fmaf(share, column[i], mixed);
          total += share;
        }
        mixed += __shfl_xor_sync(~0u, mixed, HEAD);
        total += __shfl_xor_sync(~0u, total, HEAD);
        if (lane < HEAD) shared.mixed[warp][lane] = mixed;
        if (lane == 0) shared.top[warp] = top, shared.weight[warp] = total;
      }
      __syncthreads();

      float made[2];
      {  // a lane for an element of this block's half of its head; the warps' sums are brought to one largest score
        const int i = lane % WARPS;
        const float own_top = shared.top[i], scale = __expf(own_top - largest(own_top));
        float mixed = 0, total = 0;
#pragma unroll
        for (int from = 0; from < WARPS; ++from) {
          const float share = __shfl_sync(~0u, scale, from);
          mixed = fmaf(share, shared.mixed[from][block % 2 * (HEAD / 2) + i], mixed);
          total = fmaf(share, shared.weight[from], total);
        }
        mixed = __fdividef(mixed, total);
        made[0] = proj[thread] * mixed;
        made[1] = proj[THREADS + thread] * mixed;
        add_up<8>(made);
      }
      x = stream.exchange(x, made, thread, proj_bias);

      float hidden[2];
      row_products(fc, thread, layer_norm(x, lane), hidden);
      if (lane % 16 < 2) {
        const int row = thread / 16 * 2 + lane % 16;
        shared.hidden[row] = gelu(own_of(hidden, lane % 16) + fc_bias[row]);
      }
      __syncthreads();
      const float4 activated = reinterpret_cast<const float4*>(shared.hidden)[lane % 8];
      made[0] = dot(out[thread], activated);
      made[1] = dot(out[THREADS + thread], activated);
      add_up<8>(made);
      x = stream.exchange(x, made, thread, out_bias);
    }
    if (position + 1 < given) {
      token = prompt[sequence * given + position + 1];
      continue;
    }
    const float4* const head = reinterpret_cast<const float4*>(own + LAYERS * LAYER);
    const float* const bias = reinterpret_cast<const float*>(head) + WORDS * WIDTH;
    const unsigned barrier = shared_address(&shared.barriers[2]);
    if (thread == 0) expect(barrier, BLOCKS * WORDS * sizeof(float));
    float of_words[ROWS];
    row_products(head, thread, layer_norm(x, lane), of_words);
    float* const own_logits = logits + BLOCKS * WORDS;  // before they are sent, to this block too
    if (lane % 16 < ROWS) {
      const int row = thread / 16 * ROWS + lane % 16;
      own_logits[row] = own_of(of_words, lane % 16) + bias[row];
    }
    __syncthreads();
    for (int i = thread; i < BLOCKS * WORDS / 4; i += THREADS) {
      const int four = i / BLOCKS, to = i % BLOCKS;
      send(remote(shared_address(logits + block * WORDS + 4 * four), to), remote(barrier, to),
           reinterpret_cast<const float4*>(own_logits)[four]);
    }
    await(barrier, chosen & 1);
    ++chosen;
    if (last_logits && block == 0 && position == given + wanted - 2)
      for (int i = thread; i < VOCABULARY; i += THREADS) last_logits[sequence * VOCABULARY + i] = logits[i];
    token = choose<VOCABULARY>(shared, logits, temperature, top_k, position + 1, sequence, seed);
    if (block == 0 && thread == 0) written[sequence * wanted + position + 1 - given] = token;
  }
  cluster_barrier();  // none ends while another may still write into it
}
