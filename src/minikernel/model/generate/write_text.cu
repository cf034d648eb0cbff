// A whole text in one launch: MiniGPT token by token, its weights in registers from the first token to the last.
//
// A cluster of 8 blocks writes one sequence. Block c holds head c / 2 of the attention, an eighth of each feed-forward
// layer and an eighth of the LM head; the residual stream is in the registers of every warp, the same in all. A layer
// takes two exchanges, in which each block sends every block what its share adds to the stream: by st.async, into memory
// whose mbarrier counts the bytes, so that no barrier of the cluster is needed. Between two exchanges of a kind lies one
// of another, for which a block needs what every warp of every block sends after reading the first: none is overwritten.
//
// What the host has done to the weights (packing.py), so that less is left to do here:
// - All that is added to the stream has mean 0, so that LayerNorm needs no mean; its weight and bias are in the matrix
//   that follows, and its scale is applied to the products, which need not wait for it.
// - A head's values have been through the projection: what attention mixes is what the head adds to the stream. A block
//   has half of these 64 numbers, and the block beside it the other half.
// - Scores are exponents of two, and keys have no bias, which softmax would not notice.
// Registers hold the model (the lab's own: 148 of a thread's), as far as there are enough; shared memory holds the rest,
// keys and values. Chosen greedily, a token costs one exchange more: each block sends its likeliest word, with the
// embedding of that word.

#include "../ptx.cuh"
#include "sums.cuh"
#include "choice.cuh"

// The text of a sequence for each cluster: `prompt` (sequences, given) int64, `written` (sequences, wanted) int64.
// packed: (BLOCKS, floats of a block); tokens (VOCABULARY, WIDTH) and places (POSITIONS, WIDTH): the embeddings, each
// without its mean.
template <int LAYERS, int VOCABULARY, int POSITIONS>
__global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS, 1)
    write_text(const float4* packed, const float* tokens, const float* places, const long long* prompt,
               long long* written, float* last_logits, int given, int wanted, float temperature, int top_k,
               unsigned long long seed) {
  constexpr int PAIRS = (VOCABULARY + 2 * BLOCKS * WARPS - 1) / (2 * BLOCKS * WARPS);  // a warp's words, by twos
  constexpr int WORDS = 2 * PAIRS * WARPS;                                              // a block's
  constexpr int ROOM = (POSITIONS + PER_WARP - 1) / PER_WARP * PER_WARP;
  constexpr int HELD = LAYERS < HELD_LAYERS ? LAYERS : HELD_LAYERS;
  constexpr bool HEAD_HELD = HELD * VECTORS + PAIRS <= HELD_VECTORS;
  constexpr int KEPT_LAYERS = LAYERS - HELD;  // in shared memory, as the head is where registers do not hold it
  constexpr int KEPT = KEPT_LAYERS * VECTORS + (HEAD_HELD ? 0 : PAIRS);
  constexpr int REST = LAYERS * BIASES + WORDS + WORDS * WIDTH;  // floats: biases, the head's, the words' embeddings
  constexpr int OWN = (LAYERS * VECTORS + PAIRS) * THREADS + REST / 4;  // vectors of a block
  static_assert(PAIRS <= 16 && POSITIONS <= WARPS * PER_WARP, "the model does not fit");
  extern __shared__ float4 memory[];
  float* const biases = reinterpret_cast<float*>(memory + KEPT * THREADS);
  float* const head_bias = biases + LAYERS * BIASES;
  float* const embeddings = head_bias + WORDS;
  float* const keys = embeddings + WORDS * WIDTH;     // (LAYERS, HEAD / 4, ROOM, 4)
  float* const values = keys + LAYERS * ROOM * HEAD;  // (LAYERS, ROOM, VALUE)
  float* const logits = values + LAYERS * ROOM * VALUE;
  Shared& shared = *reinterpret_cast<Shared*>(logits + BLOCKS * WORDS + WORDS);
  int* const given_tokens = reinterpret_cast<int*>(&shared + 1);

  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const unsigned block = block_of_cluster(), sequence = blockIdx.x / BLOCKS;
  packed += static_cast<size_t>(block) * OWN;
  // 16-byte vectors, in the order of threads: neighbours read side by side. With constant indices, after unrolling,
  // these arrays are registers.
  float4 held[HELD][VECTORS], head_held[PAIRS];
#pragma unroll
  for (int layer = 0; layer < HELD; ++layer)
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) held[layer][i] = packed[(layer * VECTORS + i) * THREADS + thread];
#pragma unroll
  for (int i = 0; i < PAIRS; ++i)
    if (HEAD_HELD) head_held[i] = packed[(LAYERS * VECTORS + i) * THREADS + thread];
  const auto keep = [&](int at, int from, int count) {
    for (int i = thread; i < count; i += THREADS) memory[at + i] = packed[from + i];
  };
  keep(0, HELD * VECTORS * THREADS, KEPT_LAYERS * VECTORS * THREADS);
  if (!HEAD_HELD) keep(KEPT_LAYERS * VECTORS * THREADS, LAYERS * VECTORS * THREADS, PAIRS * THREADS);
  keep(KEPT * THREADS, (LAYERS * VECTORS + PAIRS) * THREADS, REST / 4);
  for (int i = thread; i < LAYERS * ROOM * (HEAD + VALUE); i += THREADS) keys[i] = 0;  // and values: 0 times NaN is NaN
  for (int i = thread; i < given; i += THREADS) given_tokens[i] = prompt[sequence * given + i];
  shared.mixed[warp][lane] = 0;
  // Warps that have no position yet: a sum of 0 around a power of two so low that it counts for nothing.
  if (lane == 0) shared.top[warp] = -0x40000000, shared.total[warp] = 0;
  if (thread < 4) make_barrier(shared_address(&shared.barriers[thread]), 1);
  fence_barriers();
  __syncthreads();
  cluster_barrier();

  // where a lane's product goes: the query, or a position of the keys or of the values
  const int own_row = warp * QKV_ROWS + lane / (32 / QKV_ROWS), element = own_row % HEAD;
  float* const product_to = own_row < HEAD       ? shared.query + element
                            : own_row < 2 * HEAD ? keys + element / 4 * ROOM * 4 + element % 4
                                                 : values + own_row - 2 * HEAD;
  // The query is overwritten by each token (stride 0); keys and values keep a place for each position.
  const int position_stride = own_row < HEAD ? 0 : own_row < 2 * HEAD ? 4 : VALUE;
  const int layer_stride = own_row < HEAD ? 0 : own_row < 2 * HEAD ? ROOM * HEAD : ROOM * VALUE;

  unsigned turn = 0, chosen = 0;  // exchanges of layers, and of words
  const auto barrier = [&](int exchange) { return shared_address(&shared.barriers[exchange]); };
  // The stream: 64 numbers, two in each lane, the same in all warps of all blocks.
  float2 x = two_of(tokens + given_tokens[0] * WIDTH, lane) + two_of(places, lane);
  for (int position = 0;; ++position) {
    const int next = position + 1;
    const bool is_given = next < given;
    float2 upcoming = make_float2(0, 0);  // of the next token's embedding what is known by now
    if (next < POSITIONS) upcoming = two_of(places + next * WIDTH, lane);
    // What is known of the next token is loaded a whole token ahead.
    float2 given_token = make_float2(0, 0);
    if (is_given) given_token = two_of(tokens + given_tokens[next] * WIDTH, lane);
#pragma unroll
    for (int layer = 0; layer < LAYERS; ++layer) {
      const float* const qkv_bias = biases + layer * BIASES;
      const float* const fc_bias = qkv_bias + QKV_BIAS;
      const float* const proj_bias = fc_bias + FC_BIAS;
      const float* const out_bias = proj_bias + WIDTH;
      float* const own_keys = keys + layer * ROOM * HEAD;
      float* const own_values = values + layer * ROOM * VALUE;
      float4 qkv[QKV], fc[FC], out[OUT];
#pragma unroll
      for (int i = 0; i < VECTORS; ++i) {
        const float4 vector = layer < HELD ? held[layer < HELD ? layer : 0][i]
                                           : memory[((layer - HELD) * VECTORS + i) * THREADS + thread];
        if (i < QKV) qkv[i] = vector;
        else if (i < QKV + FC) fc[i - QKV] = vector;
        else out[i - QKV - FC] = vector;
      }

      int row, left;
      {
        const float bias = qkv_bias[own_row];
        // A warp has 8 of the 64 rows (query, key, values) of this
        // block; a sum over lanes leaves a row's product in 4 lanes.
        const float product = row_product(qkv, x, lane, row, left) + bias;
        if (lane % (32 / QKV_ROWS) == 0) product_to[position * position_stride + layer * layer_stride] = product;
      }
      __syncthreads();

      if (warp <= position / PER_WARP) {  // two lanes for a position, then a lane for an element of all
        const int place = warp * PER_WARP + lane % PER_WARP, half = lane / PER_WARP;
        const float4* const key = reinterpret_cast<const float4*>(own_keys) + 2 * half * ROOM + place;
        const float4* const query = reinterpret_cast<const float4*>(shared.query) + 2 * half;
        float score = dot(query[0], key[0]) + dot(query[1], key[ROOM]);
        score += exchanged(score, PER_WARP);
        float column[PER_WARP];
#pragma unroll
        for (int i = 0; i < PER_WARP; ++i) column[i] = own_values[(warp * PER_WARP + i) * VALUE + lane];
        score = place <= position ? fminf(fmaxf(score, -1e9f), 1e9f) : -INFINITY;  // an integer can hold it
        // An integer power of two is exact to scale by, and warps can later be brought to one without an exponential.
        const int top = __float2int_ru(largest(score));
        if (half == 0) shared.weights[warp][place % PER_WARP] = power_of_two(score - top);
        __syncwarp();
        float mixed[2] = {0, 0}, total[2] = {0, 0};
#pragma unroll
        for (int i = 0; i < PER_WARP; i += 4) {
          const float4 weight = *reinterpret_cast<const float4*>(&shared.weights[warp][i]);
          // Two chains for each sum, so that an addition need not wait for the one before.
          mixed[0] = fmaf(weight.x, column[i], fmaf(weight.y, column[i + 1], mixed[0]));
          mixed[1] = fmaf(weight.z, column[i + 2], fmaf(weight.w, column[i + 3], mixed[1]));
          total[0] += weight.x + weight.y;
          total[1] += weight.z + weight.w;
        }
        shared.mixed[warp][lane] = mixed[0] + mixed[1];
        if (lane == 0) shared.top[warp] = top, shared.total[warp] = total[0] + total[1];
      }
      __syncthreads();

      if (thread == 0) expect(barrier(MIXED), BLOCKS * VALUE * sizeof(float));
      {  // the warps' sums, brought to one power of two: a lane for an element, a warp for the block that it is sent to
        int tops[WARPS], top;
        float totals[WARPS], mixed = 0, total = 0;
#pragma unroll
        for (int i = 0; i < WARPS; i += 4) {
          *reinterpret_cast<int4*>(tops + i) = *reinterpret_cast<const int4*>(shared.top + i);
          *reinterpret_cast<float4*>(totals + i) = *reinterpret_cast<const float4*>(shared.total + i);
        }
        top = max(max(max(tops[0], tops[1]), max(tops[2], tops[3])), max(max(tops[4], tops[5]), max(tops[6], tops[7])));
        // The exponent's bits are put together from the difference:
        // 2^(top of the warp - top of all), 0 if it is too small.
#pragma unroll
        for (int from = 0; from < WARPS; ++from) {
          const float scale = __int_as_float(max(tops[from] - top + 127, 0) << 23);
          mixed = fmaf(scale, shared.mixed[from][lane], mixed);
          total = fmaf(scale, totals[from], total);
        }
        const float* const to = &shared.mixed_by[block / 2][block % 2 * VALUE + lane];
        send(remote(shared_address(to), warp), remote(barrier(MIXED), warp), mixed * reciprocal(total));
      }
      x = x + two_of(proj_bias, lane);
      const float bias = fc_bias[warp * FC_ROWS + lane / (32 / FC_ROWS)];
      // A barrier's phase is over with each use, so that the parity is that of the number of layers so far.
      await(barrier(MIXED), turn & 1);
      x = x + ((two_of(shared.mixed_by[0], lane) + two_of(shared.mixed_by[1], lane)) +
               (two_of(shared.mixed_by[2], lane) + two_of(shared.mixed_by[3], lane)));

      // a warp makes 4 of the block's 32 hidden columns
      const float hidden = gelu(row_product(fc, x, lane, row, left) + bias);
      if (lane % (32 / FC_ROWS) == 0) shared.hidden[warp * FC_ROWS + row] = hidden;
      __syncthreads();
      if (thread == 0) expect(barrier(FED), BLOCKS * WIDTH * sizeof(float));
      {  // eight lanes for two rows, and one of them for each block that these are sent to
        const float4 activated = reinterpret_cast<const float4*>(shared.hidden)[lane % 8];
        float2 made = make_float2(dot(out[0], activated), dot(out[1], activated));
#pragma unroll
        for (int distance = 1; distance < 8; distance *= 2)
          made = made + make_float2(exchanged(made.x, distance), exchanged(made.y, distance));
        const unsigned to = lane % BLOCKS;
        send(remote(shared_address(&shared.fed_by[block][thread / 8 * 2]), to), remote(barrier(FED), to), made);
      }
      x = x + two_of(out_bias, lane);
      await(barrier(FED), turn & 1);
      ++turn;
      float2 parts[BLOCKS];
#pragma unroll
      for (int from = 0; from < BLOCKS; ++from) parts[from] = two_of(shared.fed_by[from], lane);
      // A tree, the same in every block: the streams stay alike to the last bit, and so does what each block chooses.
#pragma unroll
      for (int half = BLOCKS / 2; half; half /= 2)
        for (int from = 0; from < half; ++from) parts[from] = parts[from] + parts[from + half];
      x = x + parts[0];
    }
    // Of the prompt only keys and values are wanted: no logits.
    if (is_given) {
      x = given_token + upcoming;
      continue;
    }

    int row, left;
    float4 head[PAIRS];
#pragma unroll
    for (int i = 0; i < PAIRS; ++i)
      head[i] = HEAD_HELD ? head_held[i] : memory[(KEPT_LAYERS * VECTORS + i) * THREADS + thread];
    float logit = row_product(head, x, lane, row, left);
    const int own = warp * 2 * PAIRS + row;  // of the block's words
    int word = block * WORDS + own;
    if (left > 0) logit += head_bias[own];
    const bool is_word = left > 0 && word < VOCABULARY;
    if (last_logits && next == given + wanted - 1 && is_word) last_logits[sequence * VOCABULARY + word] = logit;
    // Greedy: each block sends its best word with the word's
    // embedding, so that no block reads memory for the next token.
    if (temperature == 0) {
      if (!(is_word && logit > -INFINITY)) logit = -INFINITY, word = VOCABULARY - 1;  // where no logit is a number
      best_of_block(shared, logit, word, warp, lane);
      if (thread == 0) expect(barrier(LIKELIEST), BLOCKS * (WIDTH + 2) * sizeof(float));
      if (lane == 0)
        send(remote(shared_address(&shared.candidate[block]), warp), remote(barrier(LIKELIEST), warp),
             make_float2(logit, __int_as_float(word)));
      const int mine = min(max(word - static_cast<int>(block) * WORDS, 0), WORDS - 1);
      send(remote(shared_address(&shared.likeliest[block][2 * lane]), warp), remote(barrier(LIKELIEST), warp),
           two_of(embeddings + mine * WIDTH, lane));
      await(barrier(LIKELIEST), chosen & 1);
      const float2 theirs = shared.candidate[lane % BLOCKS];
      const float best = largest(theirs.x);
      // Of equal logits the lower id, as NumPy's argmax takes it.
      word = __reduce_min_sync(~0u, theirs.x == best ? __float_as_int(theirs.y) : VOCABULARY - 1);
      x = two_of(shared.likeliest[word / WORDS], lane) + upcoming;
    } else {
      // Drawn: every block gets all logits and chooses by itself, by the same numbers, the same word.
      float* const own_logits = logits + BLOCKS * WORDS;  // before they are sent, to this block too
      if (left > 0) own_logits[own] = logit;
      __syncthreads();
      if (thread == 0) expect(barrier(LOGITS), BLOCKS * WORDS * sizeof(float));
      for (int i = thread; i < BLOCKS * WORDS / 4; i += THREADS) {
        const int four = i / BLOCKS, to = i % BLOCKS;
        send(remote(shared_address(logits + block * WORDS + 4 * four), to), remote(barrier(LOGITS), to),
             reinterpret_cast<const float4*>(own_logits)[four]);
      }
      await(barrier(LOGITS), chosen & 1);
      word = choose<VOCABULARY>(shared, logits, temperature, top_k, next, sequence, seed);
      x = two_of(tokens + word * WIDTH, lane) + upcoming;
    }
    ++chosen;
    if (block == 0 && thread == 0) written[sequence * wanted + next - given] = word;
    if (next == given + wanted - 1) break;
  }
  cluster_barrier();  // none ends while another may still write into it
}
