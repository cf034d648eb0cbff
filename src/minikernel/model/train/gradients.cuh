// What follows when every token's part is in global memory: the gradient of each parameter, a sum over the tokens.
//
// A unit is 32 outputs by 64 features of one matrix and has a block; each of its warps has every sixteenth turn of 8
// tokens, and the sums are added in the warps' order. What is no matrix, the embeddings and the LayerNorms, is spread
// over the blocks that are left.
#pragma once

constexpr int UNITS_OF_LAYER = (QKV + WIDTH + HIDDEN) / 32 + WIDTH / 32 * (HIDDEN / WIDTH);

struct Unit {
  const float *dy, *x;  // (tokens, 32), (tokens, WIDTH)
  float *weight, *bias;  // gradients; no bias but of a row of units' first
  int width, outputs;

  __device__ __forceinline__ Unit(const Run& run, int number) {
    constexpr int QKV_UNITS = QKV / 32, PROJ_UNITS = WIDTH / 32, FC_UNITS = HIDDEN / 32;
    const int layer = number / UNITS_OF_LAYER;
    int of = number % UNITS_OF_LAYER, weight_at, bias_at, dy_field, x_field, feature = 0;
    width = WIDTH, outputs = 32;
    if (layer >= run.layers) {
      of = number - run.layers * UNITS_OF_LAYER;
      dy_field = D_LOGITS, x_field = NORMED_F;
      weight_at = run.head_at(), bias_at = weight_at + run.words * WIDTH;
      outputs = min(32, run.words - 32 * of);
    } else {
      const int at = run.layer_at(layer);
      if (of < QKV_UNITS) {
        dy_field = D_QKV, x_field = NORMED_1, weight_at = at + QKV_WEIGHT, bias_at = at + QKV_BIAS;
      } else if ((of -= QKV_UNITS) < PROJ_UNITS) {
        dy_field = D_PROJ, x_field = MIXED, weight_at = at + PROJ_WEIGHT, bias_at = at + PROJ_BIAS;
      } else if ((of -= PROJ_UNITS) < FC_UNITS) {
        dy_field = D_HIDDEN, x_field = NORMED_2, weight_at = at + FC_WEIGHT, bias_at = at + FC_BIAS;
      } else {
        of -= FC_UNITS;
        dy_field = D_OUT, x_field = ACTIVATED, weight_at = at + OUT_WEIGHT, bias_at = at + OUT_BIAS;
        width = HIDDEN, feature = WIDTH * (of % (HIDDEN / WIDTH)), of /= HIDDEN / WIDTH;
      }
    }
    const int behind = min(layer, run.layers);
    dy = run.field(behind, dy_field) + 32 * of * run.tokens;
    x = run.field(behind, x_field) + feature * run.tokens;
    weight = run.gradients + weight_at + 32 * of * width + feature;
    bias = feature ? nullptr : run.gradients + bias_at + 32 * of;
  }
};

__device__ __forceinline__ int units_of_head(const Run& run) { return run.words_up() / 32; }

// The order in which units can be computed while tokens are still on their way back: the head's and the last layer's,
// then each layer's.
__device__ __forceinline__ int unit_in_order(const Run& run, int i, int& stage) {
  const int head = units_of_head(run);
  if (i < head) return stage = 0, run.layers * UNITS_OF_LAYER + i;
  stage = (i - head) / UNITS_OF_LAYER;
  return (run.layers - 1 - stage) * UNITS_OF_LAYER + (i - head) % UNITS_OF_LAYER;
}

__device__ __forceinline__ float component(float4 x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }

// The gradient of a unit; returns the sum of the squares of what this thread has written. The copy engine brings pieces
// of PIECE tokens, a turn of 8 tokens for each warp; `pieces` counts those that this block has had, of which each takes
// the next place.
__device__ __forceinline__ float gradient_of_unit(const Unit& unit, int tokens, float* shared, unsigned barriers,
                                                  unsigned& pieces) {
  // Outputs 4 group to 4 group + 3 are rows group and group + 8 of two tiles; features 4 group to 4 group + 3 of each
  // half are columns of eight.
  const int thread = anew(threadIdx.x), turn = thread / 32;
  const Lane lane = {thread % 32 / 4, thread % 4};
  float sum[2][8][4] = {};
  float4 bias = make_float4(0, 0, 0, 0);
  auto fetch = [&](int token, unsigned piece) {
    const int count = min(PIECE, tokens - token);
    const unsigned barrier = barriers + 8 * (piece % PLACES), to = shared_address(shared + piece % PLACES * PLACE);
    expect(barrier, 4 * (32 + WIDTH) * count);
    bulk_copy(to, unit.dy + token * 32, 4 * 32 * count, barrier);
    bulk_copy(to + 4 * 32 * PIECE, unit.x + token * WIDTH, 4 * WIDTH * count, barrier);
  };
  if (thread == 0) {
    fence_all_copies();
    for (int i = 0; i < PLACES && i * PIECE < tokens; ++i) fetch(i * PIECE, pieces + i);
  }
#pragma unroll 1
  for (int token = 0; token < tokens; token += PIECE, ++pieces) {
    await_here(barriers + 8 * (pieces % PLACES), pieces / PLACES % 2);
    const float* const from =
        shared + pieces % PLACES * PLACE + (8 * turn + lane.pair) * 32 + turned(4 * lane.group, lane.pair);
    const float* const of_x = from + 32 * PIECE + (8 * turn + lane.pair) * (WIDTH - 32);
    float4 dy[2], x[2][2];
    const bool mine = token + 8 * turn < tokens;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      dy[i] = mine ? load4(from + 4 * i * 32) : make_float4(0, 0, 0, 0);
#pragma unroll
      for (int half = 0; half < 2; ++half)
        x[half][i] = mine ? load4(of_x + 4 * i * WIDTH + WIDTH / 2 * half) : make_float4(0, 0, 0, 0);
    }
    __syncwarp();
    if (thread % 32 == 0) arrive(barriers + 8 * (PLACES + pieces % PLACES));  // this warp has read its turn
    if (thread == 0 && token && token + (PLACES - 1) * PIECE < tokens) {
      // the piece before has been read by now, or soon
      await_here(barriers + 8 * (PLACES + (pieces - 1) % PLACES), (pieces - 1) / PLACES % 2);
      fetch(token + (PLACES - 1) * PIECE, pieces - 1 + PLACES);
    }
    bias.x += dy[0].x + dy[1].x, bias.y += dy[0].y + dy[1].y;
    bias.z += dy[0].z + dy[1].z, bias.w += dy[0].w + dy[1].w;
    const Left left[2] = {left_of(dy[0].x, dy[0].y, dy[1].x, dy[1].y), left_of(dy[0].z, dy[0].w, dy[1].z, dy[1].w)};
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const Right right = right_of(component(x[j / 4][0], j % 4), component(x[j / 4][1], j % 4));
#pragma unroll
      for (int i = 0; i < 2; ++i) multiply(sum[i][j], sum[i][j], left[i], right);
    }
  }
  __syncthreads();  // the sums lie where pieces were
  float* const own = shared + turn * UNIT;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int c = 0; c < 4; ++c)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 4 * lane.group + 2 * i + c / 2, column = WIDTH / 2 * half + 8 * lane.pair + c % 2 * 4;
        const float(&of)[8][4] = sum[i];
        *reinterpret_cast<float4*>(own + row * UNIT_ROW + column) =
            make_float4(of[4 * half][c], of[4 * half + 1][c], of[4 * half + 2][c], of[4 * half + 3][c]);
      }
  bias = make_float4(sum_of_four(bias.x), sum_of_four(bias.y), sum_of_four(bias.z), sum_of_four(bias.w));
  if (lane.pair == 0) *reinterpret_cast<float4*>(own + 32 * UNIT_ROW + 4 * lane.group) = bias;
  __syncthreads();

  const int row = thread / 16, column = 4 * (thread % 16);
  float squares = 0;
  float4 whole = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < TURNS; ++i) {
    const float4 part = *reinterpret_cast<const float4*>(shared + i * UNIT + row * UNIT_ROW + column);
    whole.x += part.x, whole.y += part.y, whole.z += part.z, whole.w += part.w;
  }
  if (row < unit.outputs) {
    *reinterpret_cast<float4*>(unit.weight + row * unit.width + column) = whole;
    squares = whole.x * whole.x + whole.y * whole.y + whole.z * whole.z + whole.w * whole.w;
  }
  if (unit.bias && thread < unit.outputs) {
    float of = 0;
#pragma unroll
    for (int i = 0; i < TURNS; ++i) of += shared[i * UNIT + 32 * UNIT_ROW + thread];
    unit.bias[thread] = of;
    squares += of * of;
  }
  __syncthreads();
  return squares;
}

constexpr int WINDOW = 1024, IDS = 8, AT_ONCE = 16;  // ids of a list; ids that a lane, rows that a warp loads at once

// The rows of one word, wherever they are in the batch, in their order. `list` has room for WINDOW numbers.
__device__ __forceinline__ float2 gradient_of_word(const Run& run, int word, int tokens, int* list, int lane) {
  const float* const rows = run.last_field(D_EMBEDDING);
  float2 sum = make_float2(0, 0);
  for (int window = 0; window < tokens; window += WINDOW) {
    int found = 0;
    for (int from = window; from < min(window + WINDOW, tokens); from += 32 * IDS) {
      int ids[IDS];
#pragma unroll
      for (int i = 0; i < IDS; ++i) {
        const int token = from + 32 * i + lane;
        ids[i] = token < tokens ? run.ids[token] : -1;
      }
#pragma unroll
      for (int i = 0; i < IDS; ++i) {
        const unsigned here = __ballot_sync(~0u, ids[i] == word);
        if (ids[i] == word) list[found + __popc(here & ((1u << lane) - 1))] = from + 32 * i + lane;
        found += __popc(here);
      }
    }
    __syncwarp();
    for (int i = 0; i < found; i += AT_ONCE) {
      float2 row[AT_ONCE];
#pragma unroll
      for (int j = 0; j < AT_ONCE; ++j)
        row[j] = i + j < found ? load2(rows + list[i + j] * WIDTH + 2 * lane) : make_float2(0, 0);
#pragma unroll
      for (int j = 0; j < AT_ONCE; ++j) sum = sum + row[j];
    }
    __syncwarp();
  }
  return sum;
}

// Sum of `count` rows that lie `stride` numbers apart, two columns of each.
__device__ __forceinline__ float2 sum_of_rows(const float* from, int count, int stride) {
  float2 sum = make_float2(0, 0);
  for (int i = 0; i < count; i += AT_ONCE) {
    float2 row[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) row[j] = i + j < count ? load2(from + (i + j) * stride) : make_float2(0, 0);
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) sum = sum + row[j];
  }
  return sum;
}

// Part `part` of `parts` of the gradients that are no matrix's: LayerNorms' vectors, places and words in turn, for each
// warp one.
__device__ __forceinline__ float gradients_of_rows(const Run& run, int part, int parts, int batch, int length,
                                                   float* shared) {
  const int thread = anew(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int column = 2 * lane, vectors = 2 * (2 * run.layers + 1), places = vectors + run.positions;
  float squares = 0;
  for (int item = part * WARPS + warp; item < places + run.words; item += parts * WARPS) {
    int at;
    float2 sum;
    if (item < vectors) {  // of a LayerNorm the weights, then the biases
      const int norm = item / 2;
      at = norm == 2 * run.layers ? run.last_at() : run.layer_at(norm / 2) + (norm % 2 ? LN_2 : LN_1);
      at += item % 2 * WIDTH;
      sum = sum_of_rows(run.norms(0) + item * WIDTH + column, batch * length / ROWS, vectors * WIDTH);
    } else if (item < places) {
      const int place = item - vectors;
      at = (run.words + place) * WIDTH;
      const float* const rows = run.last_field(D_EMBEDDING) + place * WIDTH + column;
      sum = sum_of_rows(rows, place < length ? batch : 0, length * WIDTH);
    } else {
      const int word = item - places;
      at = word * WIDTH;
      sum = gradient_of_word(run, word, batch * length, reinterpret_cast<int*>(shared) + warp * WINDOW, lane);
    }
    put2(run.gradients + at + column, sum);
    squares += sum.x * sum.x + sum.y * sum.y;
  }
  return squares;
}
