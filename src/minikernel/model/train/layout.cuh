// Where everything lies: the parameters in their flat buffer, what a step keeps for each token in global memory, and a
// block's shared memory. layout.py has the same numbers.
#pragma once

constexpr int WIDTH = 64, HEADS = 4, HEAD = 16, HIDDEN = 256, QKV = 192, ROWS = 16, WARPS = 16, THREADS = 32 * WARPS;

// ---- parameters of a layer, in the order of MiniGPTConfig.shapes
constexpr int LN_1 = 0, QKV_WEIGHT = 2 * WIDTH, QKV_BIAS = QKV_WEIGHT + QKV * WIDTH, PROJ_WEIGHT = QKV_BIAS + QKV,
              PROJ_BIAS = PROJ_WEIGHT + WIDTH * WIDTH, LN_2 = PROJ_BIAS + WIDTH, FC_WEIGHT = LN_2 + 2 * WIDTH,
              FC_BIAS = FC_WEIGHT + HIDDEN * WIDTH, OUT_WEIGHT = FC_BIAS + HIDDEN,
              OUT_BIAS = OUT_WEIGHT + WIDTH * HIDDEN, LAYER = OUT_BIAS + WIDTH;

// ---- what a step keeps for each token, floats: of a layer, then of the whole
constexpr int NORMED_1 = 0, QUERIES = NORMED_1 + WIDTH, MIXED = QUERIES + QKV, NORMED_2 = MIXED + WIDTH,
              ACTIVATED = NORMED_2 + WIDTH, D_QKV = ACTIVATED + HIDDEN, D_PROJ = D_QKV + QKV, D_HIDDEN = D_PROJ + WIDTH,
              D_OUT = D_HIDDEN + HIDDEN, D_MIXED = D_OUT + WIDTH, OF_ROW = D_MIXED + WIDTH, KEPT = OF_ROW + 2 * HEADS;
constexpr int NORMED_F = 0, D_EMBEDDING = NORMED_F + WIDTH, D_LOGITS = D_EMBEDDING + WIDTH;

// ---- shared memory: widths of rows, so that a warp's accesses lie in different banks
constexpr int NARROW = WIDTH + 16, WIDE = QKV + 16, WIDEST = HIDDEN + 16, HIDDEN_ROW = HIDDEN + 8, PARTIAL = WIDTH + 8,
              PART = 2 * WIDTH + 8;
// of a layer
constexpr int KEPT_1 = 0, KEPT_2 = KEPT_1 + ROWS * WIDTH, KEPT_QKV = KEPT_2 + ROWS * WIDTH,
              KEPT_HIDDEN = KEPT_QKV + ROWS * WIDE, KEPT_EXPONENTS = KEPT_HIDDEN + ROWS * HIDDEN_ROW,
              KEPT_INVERSES = KEPT_EXPONENTS + ROWS * HEADS, KEPT_LAYER = KEPT_INVERSES + 2 * ROWS;
// the rest, behind the layers
constexpr int STREAM = 0, MIX = STREAM + ROWS * NARROW, PARTIALS = MIX + ROWS * NARROW,
              STATISTICS = PARTIALS + 4 * ROWS * PARTIAL, OF_ROWS = STATISTICS + 4 * HEADS * ROWS * 2,
              UNION = OF_ROWS + ROWS * HEADS;
// the union: logits, or what is in use between them: hidden activations or half of attention's partial sums, then the
// gradients of queries, keys and values
constexpr int BIG = 0, LARGE = ROWS * WIDEST;
// on the way to the loss, in place of the latter: a layer's vectors, those of one layer beside those of the next
constexpr int OF_LN_1 = 0, OF_QKV = OF_LN_1 + 2 * WIDTH, OF_PROJ = OF_QKV + QKV, OF_LN_2 = OF_PROJ + WIDTH,
              OF_FC = OF_LN_2 + 2 * WIDTH, OF_OUT = OF_FC + HIDDEN, VECTORS = OF_OUT + WIDTH;
static_assert(2 * VECTORS <= ROWS * WIDE, "two layers' vectors fit");
static_assert(2 * ROWS * PART <= LARGE && 2 * ROWS * PART <= 4 * ROWS * PARTIAL, "two partial sums fit in each place");

// ---- partial sums of a unit of 32 outputs and 64 features, and its bias', for each warp; and before them, in the same
// memory, pieces of the tokens that it is a sum over
constexpr int TURNS = WARPS, UNIT_ROW = WIDTH + 4, UNIT = 32 * UNIT_ROW + 32;
constexpr int PIECE = 8 * TURNS, PLACES = 4, PLACE = PIECE * (32 + WIDTH);
static_assert(TURNS * UNIT <= PLACES * PLACE, "sums fit where pieces were");

// ---- before all of it: two mbarriers for each piece's place: that it has come, that all warps have read it
constexpr int BARRIERS = 16;

// What gradients are made of lies in global memory as (blocks of columns, tokens, columns of a block), so that the copy
// engine brings many tokens at once; a block has 32 columns of a matrix's outputs, WIDTH of its features. Within a row,
// eights of columns change places by the token, so that a warp that reads four tokens reads all banks.
__device__ __forceinline__ int turned(int column, int token) { return column ^ (8 * (token % 4)); }

__device__ __forceinline__ int rounded_up(int x, int to) { return (x + to - 1) / to * to; }

// All that the kernel is given.
struct Run {
  float *parameters, *packed, *gradients, *mean, *square, *kept, *record;
  const int *text, *firsts;
  const float* rates;
  unsigned* counters;
  int *ids, *host;
  int layers, words, positions, bos, tokens, evaluate_every;
  float beta_1, beta_2, clip;

  __device__ __forceinline__ int words_up() const { return rounded_up(anew(words), 32); }
  __device__ __forceinline__ int layer_at(int layer) const { return (anew(words) + positions) * WIDTH + layer * LAYER; }
  __device__ __forceinline__ int last_at() const { return layer_at(layers); }
  __device__ __forceinline__ int head_at() const { return last_at() + 2 * WIDTH; }
  __device__ __forceinline__ int count() const { return head_at() + words * (WIDTH + 1); }

  // the matrices as packed.cuh has them
  __device__ __forceinline__ float* packed_layer(int layer) const;
  __device__ __forceinline__ float* packed_head() const;
  __device__ __forceinline__ float* packed_head_back() const;

  // (tokens, width of the field) of what is kept for each token, or as `turned` says
  __device__ __forceinline__ float* field(int layer, int of) const {
    return kept + (layer * KEPT + of) * anew(tokens);
  }
  __device__ __forceinline__ float* last_field(int of) const { return field(layers, of); }
  // (tiles, 2 layers + 1, 2, WIDTH): each tile's sums of the LayerNorms' gradients; then the tokens' losses; then the
  // blocks' sums of squares
  __device__ __forceinline__ float* norms(int tile) const {
    return last_field(D_LOGITS + words_up()) + tile * (2 * layers + 1) * 2 * WIDTH;
  }
  __device__ __forceinline__ float* losses() const { return norms(tokens / ROWS); }
  __device__ __forceinline__ float* squares() const { return losses() + tokens; }
};

// counters: of the grid's barrier, whether to stop; tiles whose part of a stage is there: of the head and the last
// layer, of each layer before it, then of all; then what each block has told its sequence's others, phase by phase
constexpr int BARRIER = 0, STOP = 1, READY = 2, MOST_LAYERS = 5, TOLD = READY + MOST_LAYERS + 1;
// host: what the host reads and writes while the kernel runs
constexpr int PROGRESS = 0, ASKED_TO_STOP = 1;
