// The whole forward pass of MiniGPT in one launch, for few short sequences: a cluster of blocks for each sequence.
//
// A block holds a head, 64 hidden columns and a quarter of the words; the stream of 16 tokens is in every block, 16 of
// its columns in each warp. A layer has two exchanges. What attention mixed goes to every block, and each computes the
// whole projection for itself: that is less than the sums of a divided one. What each block's hidden columns add to the
// stream is sent from a warp to the same warp of the others, and summed there. Both go by st.async into the receiver's
// shared memory, whose mbarrier counts the bytes.
//
// Every reader of the stream is a LayerNorm, so nothing reads its mean over the columns: the host has taken it out of
// all that is added to the stream (packing.py). What is left of LayerNorm is a factor for each row, which is
// applied to a product's result; so the product begins before the factor is known.
//
// A weight is used once. The last warp streams them from L2 through a ring in shared memory, in the order of use; the
// others load them into registers while they wait for what is to be multiplied.
#include "../ptx.cuh"
#include "../tiles.cuh"
#include "sums.cuh"
#include "attention.cuh"
#include "block.cuh"

// packed: (BLOCKS, tiles of a block, CHUNKS, 32) pieces of weights; constants: (BLOCKS, floats): epsilon, the head's
// factor, 2 unused, each layer's factors and biases, the head's biases; tokens (vocabulary, WIDTH), places (positions,
// WIDTH) float32, all as packing.py makes them; ids (sequences, time) int64; out (sequences, time, vocabulary).
// A token outside the vocabulary makes its results and those of later tokens NaN.
template <class Precision, int LAYERS, int VOCABULARY, bool PROBABILITIES, bool TIMED>
__global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(32 * (WARPS + 1), 1)
    forward_cluster(const uint4* packed, const float* constants, const float* tokens, const float* places,
                    const long long* ids, typename Precision::Number* out, int time, long long* stamps,
                    int events) {
  // All sizes are known when this is compiled, so that loops unroll and registers have fixed numbers.
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
  // Factors and biases of the whole model come with the first stage of weights and stay to the end.
  const float* const kept = reinterpret_cast<const float*>(block.memory + Sizes::KEPT_AT);
  Stopwatch<TIMED> watch;
  watch.begin(stamps + static_cast<size_t>(blockIdx.x) * events * 2, events, threadIdx.x);

  // What the last warp does: copy the weights, in the order of their use.
  int stage = 0, at = 0, room = Sizes::RING, released = 0;
  const char* from =
      reinterpret_cast<const char*>(packed) + static_cast<size_t>(rank) * Sizes::WEIGHTS_OF_BLOCK * Sizes::WEIGHTS;
  auto copy_until = [&](int end) {
    const unsigned to = shared_address(block.memory + Sizes::RING_AT);
    // A layer's four stages are qkv, projection, and the two matrices of the feed-forward network; then come the words,
    // two tiles of each warp at a time.
    for (; stage < end; ++stage) {
      const int part = stage % STAGES, piece = stage - Sizes::HEAD_FULL;
      int count = part == 0 ? QKV_STAGE : part == 1 ? PROJ_STAGE : FC_STAGE;
      if (piece >= 0) count = min(PIECE, WORDS - PIECE * piece) * WARPS;
      // The ring is full: wait until the four warps have loaded what lies there longest. Releases come in a fixed
      // order, so that one counter says which barrier is next and how many tiles it gives back.
      while (room < count) {
        const int step = released % RELEASES, of_head = released - RELEASES * LAYERS;
        await_here(block.barrier(Sizes::EMPTY + released), 0);
        if (of_head >= 0) room += PIECE * WARPS;
        else room += step == 0 ? QKV_STAGE : step == 1 ? PROJ_STAGE + FC_STAGE : FC_STAGE;
        ++released;
      }
      room -= count;
      // Not more than two stages under way: the engine serves all copies in turns, and the next one is the urgent one.
      if (stage >= IN_FLIGHT) await_here(block.barrier(stage - IN_FLIGHT), 0);
      const unsigned barrier = block.barrier(stage);
      // A stage that runs over the ring's end is copied in two pieces; one barrier counts the bytes of both.
      const int before_end = min(count, Sizes::RING - at);
      expect(barrier, count * Sizes::WEIGHTS + (stage == 0 ? 4 * Sizes::KEPT : 0));
      bulk_copy(to + at * Sizes::WEIGHTS, from, before_end * Sizes::WEIGHTS, barrier);
      if (before_end < count)
        bulk_copy(to, from + before_end * Sizes::WEIGHTS, (count - before_end) * Sizes::WEIGHTS, barrier);
      if (stage == 0) bulk_copy(shared_address(kept), constants + rank * Sizes::KEPT, 4 * Sizes::KEPT, barrier);
      from += count * Sizes::WEIGHTS;
      at += count;
      if (at >= Sizes::RING) at -= Sizes::RING;
    }
  };

  const bool copies = warp == WARPS;
  // Lane 4 g + t has rows g and g + 8, here and in every tile from now on.
  long long row_ids[2] = {0, 0};
  if (copies) {
    if (lane == 0) {  // before the other barriers are there, and before anybody's ids
#pragma unroll
      for (int i = 0; i < IN_FLIGHT; ++i) make_barrier(block.barrier(i), 1);
      fence_barriers();
      copy_until(IN_FLIGHT);
    }
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (group + 8 * half < time) row_ids[half] = ids[sequence * time + group + 8 * half];
    // An instruction makes one barrier, and where lanes make several, they take turns in a loop of 17 instructions. A
    // thread that knows its addresses and arrivals when it is compiled needs no loop; its ids are on their way meanwhile.
    if (lane == 0) {
#pragma unroll
      for (int maker = 0; maker < WARPS; ++maker)
        if (warp == maker)
#pragma unroll
          for (int i = IN_FLIGHT + maker; i < Sizes::BARRIERS; i += WARPS)
            make_barrier(block.barrier(i), i >= Sizes::HEAD_EMPTY && i < Sizes::MIXED ? WARPS : 1);
      fence_barriers();
    }
  }
  __syncwarp();
  // First half of a cluster barrier: the own barriers are there. Its second half comes only before the first store to
  // another block, so that embedding and the first product hide the wait.
  cluster_arrive_relaxed();
  __syncthreads();
  if (copies) {
    if (lane == 0) copy_until(Sizes::EMPTY);
    __syncwarp();
    // This warp has arrived at the cluster's barrier as all threads have, and waits for it as they do.
    cluster_wait();
    return;
  }

  float x[COLUMNS][4];  // the stream
  unsigned unknown[2];  // lanes, four of a row
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = group + 8 * half;
    const bool known = row_ids[half] >= 0 && row_ids[half] < VOCABULARY;
    // A bit for each lane; four neighbouring bits are one row. Causality makes of an unknown token's row everything
    // behind it unknown too, which is known here before any arithmetic.
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

  // Warps 0 and 1 make queries and values, 8 dimensions each, and then attend; warps 2 and 3 make the keys.
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
    // One phase of the barrier a layer, so that its parity is the layer's.
    await(block.barrier(Sizes::ADDED + warp), layer & 1);
#pragma unroll
    for (int tile = 0; tile < COLUMNS; ++tile) {
      // all three loads before the first addition: they are under way together
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
    // One arrival and so many bytes end a phase. Bytes that came before this
    // are counted all the same: the phase cannot end without the arrival.
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
    // The weights move to registers first, while the other blocks' contributions to the stream are still coming.
    Right of_head[QKV][CHUNKS];
    await_here(block.barrier(STAGES * layer), 0);
#pragma unroll
    for (int i = 0; i < QKV; ++i) block.load(2 * (has_keys ? 1 : 2 * i) + half, of_head[i]);
    block.loaded(QKV_STAGE);
    watch.mark(MEMORY);
    renew_stream(layer);

    Left normed[CHUNKS];
    block.read(stream_chunks, normed);
    // made: two tiles of 16 rows by 8 columns; of a warp with keys, the first alone.
    float made[QKV][4], factors[2];
    {
      Sums<Precision, QKV> sums;
#pragma unroll
      for (int chunk = 0; chunk < CHUNKS; ++chunk)
#pragma unroll
        for (int i = 0; i < QKV; ++i)
          if (i == 0 || !has_keys) sums.add(i, chunk, normed[chunk], of_head[i][chunk]);
      // LayerNorm's factor of a row, read after the products have begun and needed only now.
      block.row_factors(kept[0], layer_kept[0], factors);
#pragma unroll
      for (int i = 0; i < QKV; ++i) {
        const float2 bias = block.biases(layer_kept + QKV_BIAS, 2 * (has_keys ? 1 : 2 * i) + half);
#pragma unroll
        for (int j = 0; j < 4; ++j) made[i][j] = fmaf(sums.total(i, j), factors[j / 2], j % 2 ? bias.y : bias.x);
      }
    }
    if (has_keys) {
      // As operands of the next product: keys and values as its right one, queries as its left one.
      head_keys[32 * half] = Chunk<Precision>::keys(made[0]);
    } else {
      Chunk<Precision>::store_tile(queries, half, made[0]);
      head_values[32 * half] = Precision::values(made[1]);
    }
    block.everybody();
    watch.mark(ARITHMETIC);

    // ---- attention
    if (!has_keys) {
      // Both warps compute all scores of the head, 16 x 16, and mix all its dimensions: cheaper than an exchange. In
      // float32 each then sends one of the two halves, high or low.
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
      // Each block adds the heads in an order of its own, so that the blocks' streams may differ in their last bits.
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
    // A warp has 16 of the block's 64 hidden columns.
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
      // The second matrix's weights are waited for between the halves, while tensor cores work on the first.
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
    // Of the second matrix, the part whose inputs are this block's hidden columns: its results are partial sums of all
    // 64 columns of the stream, 16 in each warp.
    Right of_out[COLUMNS][CHUNKS];
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) block.load(warp * COLUMNS + i, of_out[i]);
    block.loaded(FC_STAGE);
    block.everybody();
    // All four warps have their weights in registers: the copying warp may overwrite them in the ring.
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
          // Slot peer - 1 of the receiver, which is block rank ^ peer:
          // this block has the same number there as that one here.
          send(remote(shared_address(added_tiles + 32 * ((peer - 1) * TILES + i)), rank ^ peer),
               remote(block.barrier(Sizes::ADDED + warp), rank ^ peer),
               make_float4(added[i][0], added[i][1], added[i][2], added[i][3]));
      }
    }
    watch.mark(ARITHMETIC);
    layer_kept += CONSTANTS;
  }

  // ---- the LM head: tile after tile of this block's words
  // Two sets of registers by turns: the next words are loaded while these are multiplied.
  Right of_words[2][PIECE][CHUNKS];
  // A piece is two tiles of 8 words for each warp, and is given back to the ring as soon as it is in registers.
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
  // ln_f's input, in every block; its factor, times that of the head's packing, is applied to the logits
  renew_stream(LAYERS);
  Left normed[CHUNKS];
  block.read(stream_chunks, normed);
  float factors[2];
  block.row_factors(kept[0], kept[1], factors);
#pragma unroll
  for (int j = 0; j < 2; ++j)
    if (spoiled[j]) factors[j] = INFINITY - INFINITY;
  // A warp's words, all of them in registers as logits and then as exponentials: 1,024 words are the most (forward.py).
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
      // the biases of words past the vocabulary are minus infinity
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
    // Softmax over 16 parts: four warps of four blocks each have (largest logit, sum of exponentials around it) of each
    // row. All go to all, 8 bytes each, and every warp adds them up by itself.
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
    // used once in a launch: parity 0
    await(block.barrier(Sizes::TOPS), 0);
    watch.mark(WAITING);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      // Sixteen parts of (largest, sum) are eight 16-byte loads; all are on their way before the largest is known.
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
      // What a warp's exponentials, around its own largest, are to be multiplied by to be probabilities.
      factors[j] = power_of_two(top[j] - highest) * reciprocal(total);
    }
  }
  // Tiles of words go to the warps in turn, so that a warp's are WARPS tiles apart.
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
  // With an even number of words every pair lies whole in the vocabulary and on its boundary; else one by one.
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
