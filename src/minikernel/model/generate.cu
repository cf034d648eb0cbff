// A whole text in one launch: MiniGPT token by token, its weights in shared memory from the first token to the last.
//
// A cluster of 8 blocks writes one sequence. Block c holds head c / 2 and an eighth of each feed-forward layer and of the
// LM head; the residual stream is in the registers of every warp, the same in all. A layer then needs two exchanges: each
// block adds up what its share contributes to the 64 elements of the stream, and sends that to every block. It goes by
// st.async into the receiver's shared memory, whose mbarrier counts the bytes: no barrier of the cluster is needed.
// Weights are packed by the host (packing.py) in the order in which threads read them, 16 bytes each, conflict-free.

constexpr int WIDTH = 64, HEADS = 4, HEAD = WIDTH / HEADS, HIDDEN = 4 * WIDTH;
constexpr int BLOCKS = 8, THREADS = 256, WARPS = THREADS / 32, PER_WARP = 16;  // positions that a warp attends to
constexpr float EPSILON = 1e-5f;
#define INFINITY __int_as_float(0x7f800000)
constexpr int QKV = 3 * HEAD * WIDTH, PROJ = WIDTH * HEAD / 2, FC = HIDDEN / BLOCKS * WIDTH;
constexpr int VECTORS = 3 * HEAD + WIDTH + HIDDEN / BLOCKS + WIDTH;  // the biases of a layer
constexpr int LAYER = QKV + PROJ + 2 * FC + VECTORS;  // floats of a layer in a block

__device__ __forceinline__ unsigned address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ unsigned block_of_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ unsigned remote(unsigned local, unsigned block) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(local), "r"(block));
  return there;
}

__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Write four floats into another block's shared memory; that block's mbarrier counts their bytes.
__device__ __forceinline__ void send(unsigned to, unsigned barrier, float4 value) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
               "r"(__float_as_uint(value.x)), "r"(__float_as_uint(value.y)), "r"(__float_as_uint(value.z)),
               "r"(__float_as_uint(value.w)), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void await(unsigned barrier, unsigned parity) {
  unsigned done = 0;
  while (!done) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

__device__ __forceinline__ float dot(float4 a, float4 b) {
  return fmaf(a.x, b.x, a.y * b.y) + fmaf(a.z, b.z, a.w * b.w);
}

// The sum over LANES neighbouring lanes, in all of them.
template <int LANES>
__device__ __forceinline__ float added(float value) {
#pragma unroll
  for (int lane = 1; lane < LANES; lane *= 2) value += __shfl_xor_sync(~0u, value, lane);
  return value;
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

// What a row's PARTS lanes have made, sent to every block: four rows together, by 8 of their 4 * PARTS lanes.
template <int PARTS>
__device__ __forceinline__ void send_to_all(const float* rows, unsigned long long* barrier, float made, int thread,
                                            bool sends) {
  const int lane = thread % 32, group = 4 * PARTS, first = lane / group * group, to = lane % group;
  const float4 four =
      make_float4(__shfl_sync(~0u, made, first), __shfl_sync(~0u, made, first + PARTS),
                  __shfl_sync(~0u, made, first + 2 * PARTS), __shfl_sync(~0u, made, first + 3 * PARTS));
  if (sends && to < BLOCKS)
    send(remote(address(rows + thread / group * 4), to), remote(address(barrier), to), four);
}

// A row of a matrix times a vector, by PARTS neighbouring threads; all of them return the product.
template <int PARTS, int STEPS>
__device__ __forceinline__ float row_product(const float4* weights, int stride, int thread, const float* vector) {
  float sums[STEPS];
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
    sums[step] = dot(weights[step * stride + thread],
                     reinterpret_cast<const float4*>(vector)[step * PARTS + thread % PARTS]);
#pragma unroll
  for (int half = STEPS / 2; half; half /= 2)
    for (int step = 0; step < half; ++step) sums[step] += sums[step + half];
  return added<PARTS>(sums[0]);
}

// A lane's two elements of a row of 64.
__device__ __forceinline__ float2 two_of(const float* row, int lane) { return reinterpret_cast<const float2*>(row)[lane]; }

__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }

// LayerNorm of the stream into the warp's own copy. Its weight and bias are in the matrix that follows (packing.py).
__device__ __forceinline__ void layer_norm(float2 x, float* normed, int lane) {
  const float mean = added<32>(x.x + x.y) / WIDTH;
  x = x + make_float2(-mean, -mean);
  const float scale = rsqrtf(added<32>(fmaf(x.x, x.x, x.y * x.y)) / WIDTH + EPSILON);
  reinterpret_cast<float2*>(normed)[lane] = make_float2(x.x * scale, x.y * scale);
  __syncwarp();
}

// x / 2 (1 + tanh u) is x / (1 + exp(-2 u)), without a difference of neighbours
__device__ __forceinline__ float gelu(float x) {
  return __fdividef(x, 1.0f + __expf(-1.5957691216057308f * x * fmaf(0.044715f * x, x, 1.0f)));
}

struct Shared {
  float sent[2][BLOCKS][WIDTH];      // what each block contributes to the stream, by turns
  float normed[WARPS][WIDTH];        // each warp's copy
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

  template <int PARTS>  // `thread` holds the contribution to element thread / PARTS, as its neighbours do
  __device__ __forceinline__ float2 exchange(float2 x, float contribution, int thread, const float* bias) {
    const unsigned side = turn & 1;
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) expect(address(&shared.barriers[side]), BLOCKS * WIDTH * sizeof(float));
    send_to_all<PARTS>(shared.sent[side][block], &shared.barriers[side], contribution, thread, thread < WIDTH * PARTS);
    x = x + two_of(bias, lane);
    await(address(&shared.barriers[side]), turn / 2 & 1);
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
  constexpr int WORDS = (VOCABULARY + 4 * BLOCKS - 1) / (4 * BLOCKS) * 4;  // of the LM head in a block
  constexpr int HEAD_THREADS = 2 * WORDS, HEAD_FLOATS = WORDS * WIDTH;
  constexpr int ROOM = (POSITIONS + PER_WARP - 1) / PER_WARP * PER_WARP;
  constexpr int OWN = LAYERS * LAYER + HEAD_FLOATS + WORDS;  // floats of a block
  static_assert(HEAD_THREADS <= THREADS && POSITIONS <= WARPS * PER_WARP, "the model does not fit");
  extern __shared__ float4 memory[];
  float* const own = reinterpret_cast<float*>(memory);
  float* const keys = own + OWN;                          // (LAYERS, HEAD / 4, ROOM, 4)
  float* const values = keys + LAYERS * ROOM * HEAD;  // (LAYERS, ROOM, HEAD)
  float* const logits = values + LAYERS * ROOM * HEAD;
  Shared& shared = *reinterpret_cast<Shared*>(logits + BLOCKS * WORDS);

  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const unsigned block = block_of_cluster(), sequence = blockIdx.x / BLOCKS;
  for (int i = thread; i < OWN / 4; i += THREADS)
    memory[i] = reinterpret_cast<const float4*>(packed + static_cast<size_t>(block) * OWN)[i];
  for (int i = thread; i < 2 * LAYERS * ROOM * HEAD; i += THREADS) keys[i] = 0;  // and values: 0 times garbage is garbage
  if (lane < HEAD) shared.mixed[warp][lane] = 0;
  if (lane == 0) shared.top[warp] = -INFINITY, shared.weight[warp] = 0;
  if (thread < 3) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&shared.barriers[thread])) : "memory");
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  cluster_barrier();

  Stream stream{shared, block};
  float* const normed = shared.normed[warp];
  unsigned chosen = 0;
  long long token = prompt[sequence * given];
  for (int position = 0; position < given + wanted - 1; ++position) {
    float2 x = two_of(tokens + token * WIDTH, lane) + two_of(places + position * WIDTH, lane);
#pragma unroll 1
    for (int layer = 0; layer < LAYERS; ++layer) {
      const float* const weights = own + layer * LAYER;
      const float4* const qkv = reinterpret_cast<const float4*>(weights);
      const float4* const proj = qkv + QKV / 4;
      const float4* const fc = proj + PROJ / 4;
      const float4* const out = fc + FC / 4;
      const float* const qkv_bias = reinterpret_cast<const float*>(out + FC / 4);
      const float* const proj_bias = qkv_bias + 3 * HEAD;
      const float* const fc_bias = proj_bias + WIDTH;
      const float* const out_bias = fc_bias + HIDDEN / BLOCKS;
      float* const own_keys = keys + layer * ROOM * HEAD;
      float* const own_values = values + layer * ROOM * HEAD;

      layer_norm(x, normed, lane);
      if (thread < 3 * HEAD * 4) {
        const float made = row_product<4, WIDTH / 16>(qkv, 3 * HEAD * 4, thread, normed) + qkv_bias[thread / 4];
        const int row = thread / 4, element = row % HEAD;
        if (thread % 4 == 0) {
          if (row < HEAD) shared.query[element] = made;
          else if (row < 2 * HEAD) own_keys[(element / 4 * ROOM + position) * 4 + element % 4] = made;
          else own_values[position * HEAD + element] = made;
        }
      }
      __syncthreads();

      if (warp <= position / PER_WARP) {  // two lanes for a position, then a lane for an element of every other position
        const int place = warp * PER_WARP + lane / 2, half = lane % 2;
        const float4* const key = reinterpret_cast<const float4*>(own_keys) + 2 * half * ROOM + place;
        const float4* const query = reinterpret_cast<const float4*>(shared.query) + 2 * half;
        const float* const value = own_values + (warp * PER_WARP + lane / HEAD) * HEAD + lane % HEAD;
        float column[PER_WARP / 2];
#pragma unroll
        for (int i = 0; i < PER_WARP / 2; ++i) column[i] = value[2 * i * HEAD];
        const float product = added<2>(dot(query[0], key[0]) + dot(query[1], key[ROOM]));
        const float score = place <= position ? product * 0.25f : -INFINITY;  // 1 / sqrt(HEAD)
        const float top = largest(score), weight = __expf(score - top);
        float mixed = 0, total = 0;
#pragma unroll
        for (int i = 0; i < PER_WARP / 2; ++i) {
          const float share = __shfl_sync(~0u, weight, 4 * i + 2 * (lane / HEAD));
          mixed = fmaf(share, column[i], mixed);
          total += share;
        }
        mixed += __shfl_xor_sync(~0u, mixed, HEAD);
        total += __shfl_xor_sync(~0u, total, HEAD);
        if (lane < HEAD) shared.mixed[warp][lane] = mixed;
        if (lane == 0) shared.top[warp] = top, shared.weight[warp] = total;
      }
      __syncthreads();

      float contribution = 0;
      if (thread < 2 * WIDTH) {  // this block's half of its head's elements, for each element of the stream
        const int first = block % 2 * (HEAD / 2) + thread % 2 * 4;
        float tops[WARPS], top = -INFINITY, total = 0, product = 0;
        const float4 own_weights = proj[thread];
#pragma unroll
        for (int i = 0; i < WARPS; ++i) top = fmaxf(top, tops[i] = shared.top[i]);
#pragma unroll
        for (int i = 0; i < WARPS; ++i) {
          const float scale = __expf(tops[i] - top);
          total = fmaf(scale, shared.weight[i], total);
          product = fmaf(scale, dot(own_weights, *reinterpret_cast<const float4*>(&shared.mixed[i][first])), product);
        }
        contribution = added<2>(__fdividef(product, total));
      }
      x = stream.exchange<2>(x, contribution, thread, proj_bias);

      layer_norm(x, normed, lane);
      const float made = row_product<8, WIDTH / 32>(fc, THREADS, thread, normed) + fc_bias[thread / 8];
      if (thread % 8 == 0) shared.hidden[thread / 8] = gelu(made);
      __syncthreads();
      contribution = row_product<4, HIDDEN / BLOCKS / 16>(out, THREADS, thread, shared.hidden);
      x = stream.exchange<4>(x, contribution, thread, out_bias);
    }
    if (position + 1 < given) {
      token = prompt[sequence * given + position + 1];
      continue;
    }
    const float4* const head = reinterpret_cast<const float4*>(own + LAYERS * LAYER);
    const float* const bias = reinterpret_cast<const float*>(head) + HEAD_FLOATS;
    const unsigned barrier = address(&shared.barriers[2]);
    layer_norm(x, normed, lane);
    if (thread == 0) expect(barrier, BLOCKS * WORDS * sizeof(float));
    // all threads, for the shuffle; those beyond the last word read what is there and send nothing
    const int reading = thread < HEAD_THREADS ? thread : thread % 2;
    const float logit = row_product<2, WIDTH / 8>(head, HEAD_THREADS, reading, normed) + bias[reading / 2];
    send_to_all<2>(logits + block * WORDS, &shared.barriers[2], logit, thread, thread < HEAD_THREADS);
    await(barrier, chosen & 1);
    ++chosen;
    if (last_logits && block == 0 && position == given + wanted - 2)
      for (int i = thread; i < VOCABULARY; i += THREADS) last_logits[sequence * VOCABULARY + i] = logits[i];
    token = choose<VOCABULARY>(shared, logits, temperature, top_k, position + 1, sequence, seed);
    if (block == 0 && thread == 0) written[sequence * wanted + position + 1 - given] = token;
  }
  cluster_barrier();  // none ends while another may still write into it
}
