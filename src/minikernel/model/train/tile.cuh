// The first phase of a step: a tile of 16 tokens from the embedding to the loss and back.
#pragma once

// Whether what is kept of layers for the way back is in global memory, `behind`: where they are too many for a block's.
#ifndef DEEP
#define DEEP 0
#endif

// A tile of 16 tokens on its way through the model and back. A warp has a row wherever rows do not know of each other.
struct Tile {
  const Run& run;
  float *shared, *rest;
  Lane lane;
  int warp, column;
  // the sequence's first token in the text; the tile's number in it, and the sequence's tiles; the tile's number in
  // what is kept of tokens; how often this tile has told the sequence's others of something
  int first, member, tiles, slot = 0;
  unsigned* told;  // of each tile of the sequence
  unsigned times = 0;
  Watch watch;
  // of the warp's row: two columns of the stream, or of its gradient; the next word; the sum of its exponentials
  float2 stream;
  int target;
  float total;

  __device__ __forceinline__ Tile(const Run& run, float* shared, unsigned* told, int member, int tiles,
                                  float* behind = nullptr)
      : run(run), shared(DEEP ? behind : shared), rest(DEEP ? shared : shared + run.layers * KEPT_LAYER),
        member(member), tiles(tiles), told(told) {
    here();
  }
  // Look anew which thread this is: before each part of the work.
  __device__ __forceinline__ void here() {
    const int thread = anew(threadIdx.x);
    warp = thread / 32, column = thread % 32 * 2, lane.group = thread % 32 / 4, lane.pair = thread % 4;
    slot = anew(slot);
  }
  __device__ __forceinline__ float* kept(int layer, int of) const { return shared + layer * KEPT_LAYER + of; }
  __device__ __forceinline__ float* logits() const { return rest + UNION; }
  __device__ __forceinline__ int logits_width() const { return run.words_up() + 16; }
  __device__ __forceinline__ float* sums() const { return rest + UNION + LARGE; }
  // where this tile's rows begin in a field; the warp's row of it
  __device__ __forceinline__ float* out(int layer, int field, int width) const {
    return run.field(layer, field) + slot * ROWS * width;
  }
  __device__ __forceinline__ float* row_out(int layer, int field, int width) const {
    return out(layer, field, width) + warp * width + column;
  }
  // of what gradients are made of: where a row's columns begin, of a matrix's outputs or features
  template <int BLOCK> __device__ __forceinline__ float* turned_out(int layer, int field, int row, int column) const {
    return run.field(layer, field) + (column / BLOCK * run.tokens + slot * ROWS + row) * BLOCK +
           turned(column % BLOCK, row);
  }
  __device__ __forceinline__ float* dy_out(int layer, int field, int row, int column) const {
    return turned_out<32>(layer, field, row, column);
  }
  __device__ __forceinline__ float* x_out(int layer, int field, int row, int column) const {
    return turned_out<WIDTH>(layer, field, row, column);
  }
  __device__ __forceinline__ const float* parameter(int layer, int of) const {
    return run.parameters + run.layer_at(layer) + of;
  }
  // What the block has written is for the sequence's others, and it goes on when tiles `from` to `end` - 1 are as far:
  // those before it on the way to the loss, those behind it on the way back. So no two wait for each other.
  __device__ __forceinline__ void exchange(int from, int end) {
    ++times;
    __syncthreads();
    const int thread = threadIdx.x;
    if (thread == TELLS) release_number(told + member, times);
    if (from >= end) return;
    const int part = from ? BACKWARD : FORWARD;
    watch.mark(OF_ARITHMETIC, part);
    if (thread >= from && thread < end)
      while (static_cast<int>(acquired(told + thread) - times) < 0) __nanosleep(20);
    __syncthreads();
    watch.mark(OF_WAITING, part);
  }
  __device__ __forceinline__ Rows rows_of(int layer, int tile) const {
    if (tile == member) return {kept(layer, KEPT_QKV), WIDE};
    return {out(layer, QUERIES, QKV) + (tile - member) * ROWS * QKV, QKV};
  }

  // Ask for what this thread needs of a product's weights: some work before it is multiplied.
  template <int COUNT>
  __device__ __forceinline__ void ask(float4 (&weights)[COUNT], const float* packed, int slot = 0) const {
    const float* const from = packed + slot * SLOT + 4 * 32 * warp + 2 * column;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) weights[i] = load_past(from + i * SLOT);
  }

  // Start copying a layer's vectors to where `of_vectors` reads them, once all threads have waited; after the last
  // layer comes the last LayerNorm.
  __device__ __forceinline__ float* vectors(int layer) const { return rest + UNION + LARGE + layer % 2 * VECTORS; }
  __device__ __forceinline__ float2 of_vectors(int layer, int at) const { return at2(vectors(layer) + at); }
  __device__ __forceinline__ void copy_vectors(int layer) const {
    const int at = 4 * (32 * warp + column / 2);
    if (at >= (layer < run.layers ? VECTORS : 2 * WIDTH)) return;
    const int from = at < OF_QKV    ? LN_1
                     : at < OF_PROJ ? QKV_BIAS - OF_QKV
                     : at < OF_FC   ? PROJ_BIAS - OF_PROJ
                     : at < OF_OUT  ? FC_BIAS - OF_FC
                                    : OUT_BIAS - OF_OUT;
    copy_16(vectors(layer) + at, parameter(layer, from + at));
  }

  // Partial sums over a quarter of the features, 16 columns of them in each warp: column group warp % 4, quarter warp /
  // 4.
  template <int CHUNKS>
  __device__ __forceinline__ void narrow(const float* in, int width, const float4 (&weights)[2 * CHUNKS]) const {
    Sum sum[2];
    forward_product<2, CHUNKS>(sum, in + 16 * CHUNKS * (warp / 4), width, weights, lane);
    float* const to = rest + PARTIALS + (warp / 4 * ROWS + lane.group) * PARTIAL + 16 * (warp % 4) + 2 * lane.pair;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      put2(to + 8 * i, make_float2(sum[i][0], sum[i][1]));
      put2(to + 8 * i + 8 * PARTIAL, make_float2(sum[i][2], sum[i][3]));
    }
  }
  template <int CHUNKS>
  __device__ __forceinline__ void narrow_back(const float* in, int width, const float4 (&weights)[2 * CHUNKS]) const {
    Sum sum[2];
    backward_product<CHUNKS>(sum, in + 16 * CHUNKS * (warp / 4), width, weights, lane);
    put_back(sum);
  }
  __device__ __forceinline__ void put_back(const Sum (&sum)[2]) const {
    float* const to = rest + PARTIALS + (warp / 4 * ROWS + lane.group) * PARTIAL + 16 * (warp % 4) + 4 * lane.pair;
    *reinterpret_cast<float4*>(to) = make_float4(sum[0][0], sum[1][0], sum[0][1], sum[1][1]);
    *reinterpret_cast<float4*>(to + 8 * PARTIAL) = make_float4(sum[0][2], sum[1][2], sum[0][3], sum[1][3]);
  }
  __device__ __forceinline__ float2 partials() const { return sum_of_partials(rest + PARTIALS, warp, column); }

  // A LayerNorm of the stream, which is written where products read it, and kept for the gradients; returns the row
  // with mean 0 and variance 1.
  __device__ __forceinline__ float2 normalise(bool trains, float2 weight, float2 bias, float* inverse,
                                              float* kept_for_later) {
    float2 n, y;
    const float one = layer_norm(stream, weight, bias, n, y);
    if (column == 0) *inverse = one;
    put2(rest + STREAM + warp * NARROW + column, y);
    if (trains) put2(kept_for_later, y);
    return n;
  }
  __device__ __forceinline__ float2 vector(int layer, int of) const { return load2(parameter(layer, of) + column); }

  // `weights` are those of the first product of the layer, then those of the next layer or of the head.
  __device__ __forceinline__ void forward_layer(int layer, bool trains, float4 (&weights)[8]);
  __device__ __forceinline__ float forward(bool trains);
  __device__ __forceinline__ void backward_layer(int layer);
  __device__ __forceinline__ void backward(int batch_tokens);

  // Add up, over the tile's rows, what `layer_norm_backward` has left of LayerNorm number `norm`.
  __device__ __forceinline__ void sum_norm(int norm) const {
    if (threadIdx.x >= 2 * WIDTH) return;
    float sum = 0;
#pragma unroll
    for (int row = 0; row < ROWS; ++row) sum += sums()[row * 2 * WIDTH + threadIdx.x];
    run.norms(slot)[norm * 2 * WIDTH + threadIdx.x] = sum;
  }
  // The stream's gradient, where products read it and where the gradients do.
  __device__ __forceinline__ void put_stream(float* kept_for_later) const {
    put2(rest + STREAM + warp * NARROW + column, stream);
    put2(kept_for_later, stream);
  }
};

__device__ __forceinline__ void Tile::forward_layer(int layer, bool trains, float4 (&weights)[8]) {
  const int pair = 2 * lane.pair, first[2] = {8 * warp, 8 * (warp + WARPS)};
  {  // queries, keys and values
    const float2 n = normalise(trains, of_vectors(layer, OF_LN_1 + column), of_vectors(layer, OF_LN_1 + WIDTH + column),
                               kept(layer, KEPT_INVERSES) + warp, x_out(layer, NORMED_1, warp, column));
    put2(kept(layer, KEPT_1) + warp * WIDTH + column, n);
    float2 bias[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      bias[i] = first[i] < QKV ? of_vectors(layer, OF_QKV + first[i] + pair) : make_float2(0, 0);
    __syncthreads();
    here(), layer = anew(layer);
    Sum sum[2];
    forward_product<2, 4>(sum, rest + STREAM, NARROW, weights, lane);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (first[i] >= QKV) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 value = make_float2(sum[i][2 * half], sum[i][2 * half + 1]) + bias[i];
        const int row = lane.group + 8 * half;
        put2(kept(layer, KEPT_QKV) + row * WIDE + first[i] + pair, value);
        if (tiles > 1) put2(out(layer, QUERIES, QKV) + row * QKV + first[i] + pair, value);
      }
    }
  }
  if (tiles > 1) exchange(0, member);
  else __syncthreads();
  here(), layer = anew(layer);
  attend([&](int tile) { return rows_of(layer, tile); }, kept(layer, KEPT_QKV), member, warp % 4, warp / 4,
         rest + PARTIALS, rest + STATISTICS, lane);
  __syncthreads();
  here(), layer = anew(layer);
  float4 of_narrow[2];
  ask(of_narrow, run.packed_layer(layer), PROJ_FORTH);
  {
    float exponent;
    const float2 mixed = mixed_of(rest + PARTIALS, rest + STATISTICS, warp, column, exponent);
    put2(rest + MIX + warp * NARROW + column, mixed);
    if (trains) {
      put2(x_out(layer, MIXED, warp, column), mixed);
      if (column % HEAD == 0) {
        kept(layer, KEPT_EXPONENTS)[warp * HEADS + column / HEAD] = exponent;
        if (tiles > 1) out(layer, OF_ROW, 2 * HEADS)[warp * 2 * HEADS + column / HEAD] = exponent;
      }
    }
  }
  __syncthreads();
  here(), layer = anew(layer);
  narrow<1>(rest + MIX, NARROW, of_narrow);
  ask(weights, run.packed_layer(layer), FC_FORTH);
  __syncthreads();
  here(), layer = anew(layer);
  {
    stream = stream + (partials() + of_vectors(layer, OF_PROJ + column));
    const float2 n = normalise(trains, of_vectors(layer, OF_LN_2 + column), of_vectors(layer, OF_LN_2 + WIDTH + column),
                               kept(layer, KEPT_INVERSES) + ROWS + warp, x_out(layer, NORMED_2, warp, column));
    put2(kept(layer, KEPT_2) + warp * WIDTH + column, n);
    const float2 bias[2] = {of_vectors(layer, OF_FC + first[0] + pair), of_vectors(layer, OF_FC + first[1] + pair)};
    __syncthreads();
    here(), layer = anew(layer);
    copy_vectors(layer + 1);
    Sum sum[2];
    forward_product<2, 4>(sum, rest + STREAM, NARROW, weights, lane);
    ask(weights, run.packed_layer(layer), OUT_FORTH);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 hidden = make_float2(sum[i][2 * half], sum[i][2 * half + 1]) + bias[i];
        const int row = lane.group + 8 * half, at = first[i] + pair;
        const float2 activated = make_float2(hidden.x * gelu_share(hidden.x), hidden.y * gelu_share(hidden.y));
        put2(rest + UNION + BIG + row * WIDEST + at, activated);
        if (trains) {
          put2(kept(layer, KEPT_HIDDEN) + row * HIDDEN_ROW + at, hidden);
          put2(x_out(layer, ACTIVATED, row, at), activated);
        }
      }
  }
  __syncthreads();
  here(), layer = anew(layer);
  narrow<4>(rest + UNION + BIG, WIDEST, weights);
  ask(weights, run.packed_layer(layer + 1));  // after the last layer's there are the head's
  await_copies();
  __syncthreads();
  here(), layer = anew(layer);
  stream = stream + (partials() + of_vectors(layer, OF_OUT + column));
}

// The loss of the warp's row; its exponentials are in the logits' place, and their sum in `total`.
__device__ __forceinline__ float Tile::forward(bool trains) {
  const int place = ROWS * member + warp, at = first + place;
  const int id = place ? run.text[at - 1] : run.bos;
  target = run.text[at];
  if (trains && column == 0) run.ids[slot * ROWS + warp] = id;
  float4 weights[8];
  ask(weights, run.packed_layer(0));
  copy_vectors(0);
  stream = load2(run.parameters + id * WIDTH + column) +
           load2(run.parameters + (run.words + place) * WIDTH + column);
  await_copies();
  __syncthreads();
  for (int layer = 0; layer < run.layers; ++layer) forward_layer(layer, trains, weights);
  watch.mark(OF_ARITHMETIC, FORWARD);

  const float* const head = run.parameters + run.head_at();
  const int width = logits_width();
  // what is left of the stream is the row without its mean
  stream = normalise(trains, of_vectors(run.layers, column), of_vectors(run.layers, WIDTH + column),
                     rest + OF_ROWS + warp, x_out(run.layers, NORMED_F, warp, column));
  __syncthreads();
  here();
  for (int from = 8 * warp; from < run.words; from += 16 * WARPS) {
    Sum sum[2];
    const int first[2] = {from, from + 8 * WARPS};
    float bias[2][2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int word = first[i] + 2 * lane.pair + j;
        bias[i][j] = word < run.words ? head[run.words * WIDTH + word] : 0;
      }
    forward_product<2, 4>(sum, rest + STREAM, NARROW, weights, lane);
    if (from + 16 * WARPS < run.words) ask(weights, run.packed_head(), (from / 128 + 2) * 4);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int word = first[i] + 2 * lane.pair + j;
        if (word >= run.words) continue;
        logits()[lane.group * width + word] = sum[i][j] + bias[i][j];
        logits()[(lane.group + 8) * width + word] = sum[i][j + 2] + bias[i][j];
      }
  }
  __syncthreads();
  here();
  float* const row = logits() + warp * width;
  float most = -INFINITE;
#pragma unroll 4
  for (int word = column / 2; word < run.words; word += 32) most = fmaxf(most, row[word]);
  most = most_of_warp(most);
  const float of_target = row[target] - most;
  __syncwarp();
  total = 0;
#pragma unroll 4
  for (int word = column / 2; word < run.words; word += 32) {
    const float power = expf(row[word] - most);
    total += power;
    row[word] = power;
  }
  total = sum_of_warp(total);
  watch.mark(OF_ARITHMETIC, HEAD_PART);
  return logf(total) - of_target;
}

// The probabilities of the row become its gradient, then everything before them gets its own.
__device__ __forceinline__ void Tile::backward(int batch_tokens) {
  const int width = logits_width();
  const float2 norm = load2(run.parameters + run.last_at() + column);
  {
    float4 weights[4];
    ask(weights, run.packed_head_back());
    float* const row = logits() + warp * width;
    const float share = 1 / (total * batch_tokens), one = 1.0f / batch_tokens;
    float* to = dy_out(run.layers, D_LOGITS, warp, column / 2);
#pragma unroll 4
    for (int word = column / 2; word < run.words_up(); word += 32, to += 32 * run.tokens) {
      const float gradient = word < run.words ? row[word] * share - (word == target ? one : 0) : 0;
      row[word] = gradient;
      *to = gradient;
    }
    __syncthreads();
    here();
    Sum sum[2];
    const float* in = logits() + 32 * (warp / 4);
    for (int left = run.words_up() - 32 * (warp / 4), round = 1; left > 0; left -= 128, in += 128, ++round) {
      float4 next[4];
      if (left > 128) ask(next, run.packed_head_back(), 4 * round);
      backward_product<2>(sum, in, width, weights, lane);
#pragma unroll
      for (int i = 0; i < 4; ++i) weights[i] = next[i];
    }
    put_back(sum);
  }
  __syncthreads();
  here();
  stream = layer_norm_backward(partials(), norm, stream, rest[OF_ROWS + warp],
                               sums() + warp * 2 * WIDTH + column);
  watch.mark(OF_ARITHMETIC, HEAD_PART);
  for (int layer = run.layers; layer--;) backward_layer(layer);
  put2(row_out(run.layers, D_EMBEDDING, WIDTH), stream);
  __syncthreads();
  here();
  sum_norm(0);
  watch.mark(OF_ARITHMETIC, BACKWARD);
}

__device__ __forceinline__ void Tile::backward_layer(int layer) {
  float4 weights[8];
  const float2 ln_1 = vector(layer, LN_1), ln_2 = vector(layer, LN_2);
  {  // the feed-forward network
    put_stream(dy_out(layer, D_OUT, warp, column));
    ask(weights, run.packed_layer(layer), OUT_BACK);
    __syncthreads();
    here(), layer = anew(layer);
    sum_norm(2 * layer + 2);
    Sum sum[2];
    backward_product<4>(sum, rest + STREAM, NARROW, weights, lane);
    ask(weights, run.packed_layer(layer), FC_BACK);
    const int at = 16 * warp + 4 * lane.pair;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane.group + 8 * half;
      const float4 hidden = *reinterpret_cast<const float4*>(kept(layer, KEPT_HIDDEN) + row * HIDDEN_ROW + at);
      const float4 gradient =
          make_float4(sum[0][2 * half] * gelu_slope(hidden.x), sum[1][2 * half] * gelu_slope(hidden.y),
                      sum[0][2 * half + 1] * gelu_slope(hidden.z), sum[1][2 * half + 1] * gelu_slope(hidden.w));
      *reinterpret_cast<float4*>(rest + UNION + BIG + row * WIDEST + at) = gradient;
      *reinterpret_cast<float4*>(dy_out(layer, D_HIDDEN, row, at)) = gradient;
    }
  }
  __syncthreads();
  here(), layer = anew(layer);
  narrow_back<4>(rest + UNION + BIG, WIDEST, weights);
  float4 of_narrow[2];
  ask(of_narrow, run.packed_layer(layer), PROJ_BACK);
  __syncthreads();
  here(), layer = anew(layer);
  stream = stream + layer_norm_backward(partials(), ln_2, at2(kept(layer, KEPT_2) + warp * WIDTH + column),
                                        kept(layer, KEPT_INVERSES)[ROWS + warp], sums() + warp * 2 * WIDTH + column);
  put_stream(dy_out(layer, D_PROJ, warp, column));
  __syncthreads();
  here(), layer = anew(layer);
  sum_norm(2 * layer + 1);
  narrow_back<1>(rest + STREAM, NARROW, of_narrow);
  const float2 mixed = load2(x_out(layer, MIXED, warp, column));
  __syncthreads();
  here(), layer = anew(layer);
  {  // attention
    const float2 gradient = partials(), product = gradient * mixed;
    put2(rest + MIX + warp * NARROW + column, gradient);
    float along = product.x + product.y;
#pragma unroll
    for (int distance = HEAD / 4; distance; distance /= 2) along += __shfl_xor_sync(~0u, along, distance);
    if (column % HEAD == 0) {
      rest[OF_ROWS + warp * HEADS + column / HEAD] = along;
      if (tiles > 1) out(layer, OF_ROW, 2 * HEADS)[warp * 2 * HEADS + HEADS + column / HEAD] = along;
    }
    if (tiles > 1) put2(row_out(layer, D_MIXED, WIDTH), gradient);
  }
  if (tiles > 1) exchange(member + 1, tiles);
  else __syncthreads();
  here(), layer = anew(layer);
  attend_backward(
      [&](int tile) { return rows_of(layer, tile); },
      [&](int tile) {
        if (tile == member) return Rows{rest + MIX, NARROW};
        return Rows{out(layer, D_MIXED, WIDTH) + (tile - member) * ROWS * WIDTH, WIDTH};
      },
      [&](int tile, int row, int head) {
        if (tile == member)
          return make_float2(kept(layer, KEPT_EXPONENTS)[row * HEADS + head], rest[OF_ROWS + row * HEADS + head]);
        const float* const of = out(layer, OF_ROW, 2 * HEADS) + ((tile - member) * ROWS + row) * 2 * HEADS + head;
        return make_float2(of[0], of[HEADS]);
      },
      kept(layer, KEPT_QKV), rest + MIX, member, tiles, warp % 4, warp / 4,
      gradients_of_part(rest, warp / 4), lane);
  __syncthreads();
  here(), layer = anew(layer);
  float4 of_qkv[6];
  ask(of_qkv, run.packed_layer(layer), QKV_BACK);
  {
    const int for_queries = parts_of_queries(member, tiles);
#pragma unroll
    for (int of = 0; of < 3; ++of) {  // queries, keys, values
      float2 gradient = make_float2(0, 0);
#pragma unroll
      for (int part = 0; part < 4; ++part)
        if ((part < for_queries) == (of == 0))
          gradient = gradient + at2(gradients_of_part(rest, part) + warp * PART + of / 2 * WIDTH + column);
      put2(rest + UNION + LARGE + warp * WIDE + of * WIDTH + column, gradient);
      put2(dy_out(layer, D_QKV, warp, of * WIDTH + column), gradient);
    }
  }
  count_block(run.counters + READY + run.layers - 1 - layer);
  here(), layer = anew(layer);
  narrow_back<3>(rest + UNION + LARGE, WIDE, of_qkv);
  __syncthreads();
  here(), layer = anew(layer);
  stream = stream + layer_norm_backward(partials(), ln_1, at2(kept(layer, KEPT_1) + warp * WIDTH + column),
                                        kept(layer, KEPT_INVERSES)[warp], sums() + warp * 2 * WIDTH + column);
}
