// A training step in three launches, as train.cuh has it in one: the tiles on their way through the model and back; the
// parameters' gradients; norm, clipping and AdamW. The work is divided as there, and every sum has the same order, so
// that the bits are the same.
//
// Each launch begins before the one before it ends (programmatic dependent launch). Tiles are few: blocks of the second
// launch have the other multiprocessors, and sum the gradients of what tiles have left behind on their way back.
// Whatever a block waits for in memory is done by blocks that have begun before it.
#include "../ptx.cuh"
#include "ptx.cuh"
#include "products.cuh"
#include "layout.cuh"
#include "packed.cuh"
#include "rows.cuh"
#include "attention.cuh"
#include "blocks.cuh"
#include "stamps.cuh"
#include "tile.cuh"
#include "gradients.cuh"
#include "update.cuh"

// What a launch is for.
constexpr int TILES = 0, GRADIENTS = 1, UPDATE = 2, HELD_OUT = 3, HELD_OUT_SUM = 4;  // else the first packing
// state: steps whose gradients are there, steps that have been taken, whether the norm was not finite, evaluations. No
// launch reads what another of its blocks writes; of FAILED it makes no difference, since then nothing is updated.
constexpr int BEGUN = 0, TAKEN = 1, FAILED = 2, EVALUATED = 3;

// behind: room for what is kept of layers, where DEEP. blocks: of the launches that use the whole GPU. batch, length:
// of this launch; the phase's first row begins in `firsts` at `first_row`, its first step is `first_step`; of an evaluation
// the held-out rows. The rest is train_minigpt's.
extern "C" __global__ void __launch_bounds__(512, 1)
    train_phase(float* parameters, float* packed, float* gradients, float* mean, float* square, const int* text,
                const int* firsts, const float* rates, float* kept, int* ids, unsigned* counters, float* record,
                int* host, int* state, float* behind, int layers, int words, int positions, int bos, int tokens,
                int steps, float beta_1, float beta_2, float clip, int role, int blocks, int batch, int length,
                int first_step, int first_row OF_STAMPS) {
  extern __shared__ float4 memory[];
  float* const shared = reinterpret_cast<float*>(memory) + BARRIERS;
  const Run run = {parameters, packed, gradients, mean, square, kept, record, text, firsts, rates, counters, ids, host,
                   layers, words, positions, bos, tokens, 0, beta_1, beta_2, clip};
  const int thread = threadIdx.x, warp = thread / 32, of_tiles = length / ROWS, groups = blocks / of_tiles;
  const int told = READY + layers + 1;  // of the counters

  if (role == TILES || role == HELD_OUT) {
    await_kernels_before();
    Watch watch;
    if (STAMPED && role == TILES && state[TAKEN] + 1 == steps) watch.begin(stamps, blockIdx.x);
    if (state[FAILED]) return;
    // not before: what counters say is this step's
    let_next_kernel_begin();
    const int block = blockIdx.x, group = block / of_tiles;
    const int* const begins = firsts + first_row + (role == TILES ? (state[TAKEN] - first_step) * batch : 0);
    Tile tile(run, shared, counters + told + group * of_tiles, block % of_tiles, of_tiles,
              DEEP ? behind + block * layers * KEPT_LAYER : nullptr);
    tile.watch = watch;
    float held_out = 0;
    for (int sequence = group; group < groups && sequence < batch; sequence += groups) {
      tile.first = begins[sequence], tile.slot = role == TILES ? sequence * of_tiles + tile.member : block;
      const float loss = tile.forward(role == TILES);
      held_out += loss;
      if (role == TILES) {
        if (thread % 32 == 0) run.losses()[tile.slot * ROWS + warp] = loss;
        tile.backward(batch * length);
      } else if (of_tiles > 1) {
        tile.exchange(0, of_tiles);  // what is kept of tokens is written anew in the next round
      }
      __syncthreads();
    }
    if (role == HELD_OUT && thread % 32 == 0) run.losses()[block * WARPS + warp] = held_out;
    return;
  }

  if (role == HELD_OUT_SUM) {
    await_kernels_before();
    if (state[FAILED]) return;
    const int evaluation = state[EVALUATED];
    const float sum = sum_of(run.losses(), blocks * WARPS, shared);
    if (thread == 0) record[2 * steps + evaluation] = sum / (static_cast<float>(batch) * length);
    for (int i = thread; i < told + blocks; i += THREADS) counters[i] = 0;
    if (thread == 0) state[EVALUATED] = evaluation + 1;
    return;
  }

  if (role == GRADIENTS) {
    // The blocks that do not wait for a tile's multiprocessor come first.
    const int block = blocks - 1 - blockIdx.x, busy = min(groups, batch) * of_tiles;
    let_next_kernel_begin();
    const bool failed = state[FAILED];
    Watch watch;
    if (STAMPED && state[TAKEN] + 1 == steps) watch.begin(stamps, blocks + block);
    const int helpers = blocks - busy, all_units = units_of_head(run) + layers * UNITS_OF_LAYER;
    const int early = 4 * helpers >= all_units - UNITS_OF_LAYER ? all_units - UNITS_OF_LAYER : 0;
    const int late = all_units - early, left = blocks - late % blocks;
    const unsigned barriers = shared_address(memory);
    if (thread == 0) {
      for (int i = 0; i < PLACES; ++i)
        make_barrier(barriers + 8 * i, 1), make_barrier(barriers + 8 * (PLACES + i), WARPS);
      fence_barriers();
    }
    __syncthreads();
    unsigned pieces = 0;
    float squares = 0;
#pragma unroll 1
    for (int part = 0; part < 2; ++part) {
      if (part == 1) await_kernels_before(), watch.mark(OF_WAITING, GRADIENTS_PART);
      if (failed) continue;
      const int begin = part ? early + block : block - busy, end = part ? all_units : early;
      for (int i = begin; i >= 0 && i < end; i += part ? blocks : helpers) {
        int stage;
        const Unit unit(run, unit_in_order(run, i, stage));
        if (part == 0) {
          await_blocks(counters + READY + stage, batch * of_tiles);
          watch.mark(OF_WAITING, GRADIENTS_PART);
        }
        squares += gradient_of_unit(unit, batch * length, shared, barriers, pieces);
        watch.mark(OF_ARITHMETIC, GRADIENTS_PART);
      }
    }
    if (failed) return;
    if (block >= late % blocks)
      squares += gradients_of_rows(run, block - late % blocks, left, batch, length, shared);
    squares = sum_of_block(squares, shared);
    if (thread == 0) run.squares()[block] = squares;
    watch.mark(OF_MEMORY, GRADIENTS_PART);
    if (block == 0 && thread == 0) state[BEGUN] = state[TAKEN] + 1;
    return;
  }

  let_next_kernel_begin();
  Watch watch;
  if (STAMPED && role == UPDATE && state[TAKEN] + 1 == steps) watch.begin(stamps, 2 * blocks + blockIdx.x);
  await_kernels_before();
  watch.mark(OF_WAITING, UPDATE_PART);
  if (role != UPDATE) {
    for (int at = 4 * (blockIdx.x * THREADS + thread); at + 3 < run.count(); at += 4 * blocks * THREADS)
      pack(run, at, at4(parameters + at));
    return;
  }
  if (state[FAILED]) return;
  const int step = state[BEGUN] - 1, last = blocks - 1;
  const float norm = update(run, rates + 3 * step, shared);
  watch.mark(OF_MEMORY, UPDATE_PART);
  if (blockIdx.x == last) {
    const float loss = sum_of(run.losses(), batch * length, shared) / (batch * length);
    for (int i = thread; i < told + blocks; i += THREADS) counters[i] = 0;
    if (thread == 0) {
      record[2 * step] = loss, record[2 * step + 1] = norm;
      if (!(norm < INFINITE)) state[FAILED] = 1, *reinterpret_cast<volatile int*>(host + ASKED_TO_STOP) = 1;
      state[TAKEN] = step + 1;
      *reinterpret_cast<volatile int*>(host + PROGRESS) = step + 1;
    }
  }
}
