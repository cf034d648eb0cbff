// MiniGPT trained in one launch: all steps of a schedule, and the held-out loss in between.
//
// A step has three phases. In the first a block has 16 tokens of a sequence, from the embedding to the loss and back;
// all that it needs of them again stays in its shared memory, and what the gradients are made of goes to global memory.
// A sequence of more tokens has as many blocks, of which some wait for others twice in a layer: before attention reads
// keys and values of the blocks before, and before its backward pass reads queries and gradients of those behind. In the
// second phase the blocks share the parameters, and each sums its parameters' gradients over all tokens, as soon as all
// tokens are as far. After the grid's barrier, in the third, they share them again, evenly: the norm, clipping and
// AdamW. Then the grid meets again.
//
// Weights, gradients and moments lie in global memory, which is L2 here: they are 4.6 MB. Every sum has its order from
// the sizes alone, so that the same launch gives the same bits.
#pragma once

// parameters, gradients, mean, square: flat, as MiniGPTConfig.shapes has them. packed: zeros, for packed.cuh. text: the
// tokens' ids. firsts: where the rows of each step begin in the text, then those of each phase's held-out rows in
// theirs, which follows. phases: of each its steps, batch, length, held-out rows and where these begin in `firsts`.
// rates: of each step the factor of the update, what is added to the root, and what weights shrink to. kept: see
// layout.cuh. record: loss and norm of each step, then the held-out losses. host: in memory of the host.
extern "C" __global__ void __launch_bounds__(512, 1)
    train_minigpt(float* parameters, float* packed, float* gradients, float* mean, float* square, const int* text,
                  const int* firsts, const int* phases, const float* rates, float* kept, int* ids, unsigned* counters,
                  float* record, int* host, int layers, int words, int positions, int bos, int tokens, int phase_count,
                  int steps, int evaluate_every, float beta_1, float beta_2, float clip OF_STAMPS) {
  extern __shared__ float4 memory[];
  float* const shared = reinterpret_cast<float*>(memory) + BARRIERS;
  const unsigned barriers = shared_address(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < PLACES; ++i) make_barrier(barriers + 8 * i, 1), make_barrier(barriers + 8 * (PLACES + i), WARPS);
    fence_barriers();
  }
  __syncthreads();
  const Run run = {parameters, packed, gradients, mean, square, kept, record, text, firsts, rates, counters, ids, host,
                   layers, words, positions, bos, tokens, evaluate_every, beta_1, beta_2, clip};
  const int thread = threadIdx.x, warp = thread / 32, block = blockIdx.x, blocks = gridDim.x;
  unsigned met = 0;
  auto barrier = [&] { meet(counters + BARRIER, met += blocks); };

  for (int at = 4 * (block * THREADS + thread); at + 3 < run.count(); at += 4 * blocks * THREADS)
    pack(run, at, at4(parameters + at));
  barrier();

  // The last block, which has the fewest tiles, speaks with the host, at the begin of a step: nobody waits for that.
  const bool asks = block == blocks - 1 && thread == 0;
  unsigned pieces = 0;
  unsigned ready = 0;  // tiles that have been trained on
  int step = 0, evaluated = 0;
  const int* rows = firsts;
  for (int phase = 0; phase < phase_count; ++phase) {
    const int* const sizes = phases + 5 * phase;
    const int batch = sizes[1], length = sizes[2], of_tiles = length / ROWS, groups = blocks / of_tiles;
    const int group = block / of_tiles, last_of_phase = step + sizes[0];
    // All units but the first layer's, the last to be ready, are for the blocks without a tile, if they are not too
    // few.
    const int busy = min(groups, batch) * of_tiles, helpers = blocks - busy;
    const int all_units = units_of_head(run) + layers * UNITS_OF_LAYER;
    const int early = 4 * helpers >= all_units - UNITS_OF_LAYER ? all_units - UNITS_OF_LAYER : 0;
    Tile tile(run, shared, counters + TOLD + phase * blocks + group * of_tiles, block % of_tiles, of_tiles);

    // An evaluation, where one is due, comes before the next step: the same loop over sequences.
    bool evaluates = step == 0 && sizes[3];
    while (true) {
      const int count = evaluates ? sizes[3] : batch;
      const int* const begins = evaluates ? firsts + sizes[4] : rows;
      float held_out = 0;
      if (!evaluates && step + 1 == steps) tile.watch.begin(stamps, block);
      for (int round = 0; round < count; round += groups) {
        const int sequence = round + group;
        if (group < groups && sequence < count) {
          tile.first = begins[sequence], tile.slot = evaluates ? block : sequence * of_tiles + tile.member;
          const float loss = tile.forward(!evaluates);
          held_out += loss;
          if (!evaluates) {
            if (thread % 32 == 0) run.losses()[tile.slot * ROWS + warp] = loss;
            tile.backward(batch * length);
            count_block(counters + READY + layers);
          }
        }
        if (evaluates) barrier();  // what is kept of tokens is written anew in the next round
      }
      if (evaluates) {
        if (thread % 32 == 0) run.losses()[block * WARPS + warp] = held_out;
        barrier();
        if (block == 0) {
          const float sum = sum_of(run.losses(), blocks * WARPS, shared);
          if (thread == 0) record[2 * steps + evaluated] = sum / (static_cast<float>(count) * length);
        }
        ++evaluated, evaluates = false;
        barrier();
        if (step == last_of_phase) break;
        continue;
      }
      // Blocks without a tile sum the gradients of what the others have left behind on their way back; then all blocks
      // those of what is left, and of what is no matrix.
      ready += batch * of_tiles;
      float squares = 0;
      const int late = all_units - early, left = blocks - late % blocks;
#pragma unroll 1
      for (int part = 0; part < 2; ++part) {
        if (part == 1) {
          if (asks) {
            *reinterpret_cast<volatile int*>(host + PROGRESS) = step;
            counters[STOP] = *reinterpret_cast<volatile int*>(host + ASKED_TO_STOP);
          }
        }
        const int begin = part ? early + block : block - busy, end = part ? all_units : early;
        for (int i = begin; i >= 0 && i < end; i += part ? blocks : helpers) {
          int stage;
          const Unit unit(run, unit_in_order(run, i, stage));
          await_blocks(counters + READY + stage, ready);
          tile.watch.mark(OF_WAITING, GRADIENTS_PART);
          squares += gradient_of_unit(unit, batch * length, shared, barriers, pieces);
          tile.watch.mark(OF_ARITHMETIC, GRADIENTS_PART);
        }
      }
      await_blocks(counters + READY + layers, ready);
      tile.watch.mark(OF_WAITING, GRADIENTS_PART);
      if (block >= late % blocks)
        squares += gradients_of_rows(run, block - late % blocks, left, batch, length, shared);
      squares = sum_of_block(squares, shared);
      tile.watch.mark(OF_MEMORY, GRADIENTS_PART);
      if (thread == 0) run.squares()[block] = squares;
      if (block == blocks - 1) {
        const float loss = sum_of(run.losses(), batch * length, shared) / (batch * length);
        if (thread == 0) record[2 * step] = loss;
      }
      barrier();
      tile.watch.mark(OF_WAITING, UPDATE_PART);

      const unsigned stop = counters[STOP];
      const float norm = update(run, rates + 3 * step, shared);
      tile.watch.mark(OF_MEMORY, UPDATE_PART);
      if (block == blocks - 1 && thread == 0) record[2 * step + 1] = norm;
      barrier();
      tile.watch.mark(OF_WAITING, UPDATE_PART);
      if (stop || !(norm < INFINITE)) {
        if (asks) *reinterpret_cast<volatile int*>(host + PROGRESS) = step + 1;
        return;
      }
      rows += batch, ++step;
      evaluates = sizes[3] && (step % evaluate_every == 0 || step == steps);
      if (!evaluates && step == last_of_phase) break;
    }
  }
  if (asks) *reinterpret_cast<volatile int*>(host + PROGRESS) = step;
}
