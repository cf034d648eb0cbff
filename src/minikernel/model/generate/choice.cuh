// How write_text.cu chooses the next token: the likeliest, or one drawn.
#pragma once

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
  // A thread has neighbouring words, in order, so that a running sum over threads is one over words.
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

  // In double, as `Sampling.choose` computes it: both must draw the same word from the same number.
  double own[EACH], sum = 0;
  for (int i = 0; i < EACH; ++i) {
    const int word = thread * EACH + i;
    own[i] = 0;
    if (word < VOCABULARY) {
      int before = 0;  // words that are likelier, or as likely and of lower id
      if (top_k < VOCABULARY)
        for (int j = 0; j < VOCABULARY; ++j)
          before += logits[j] > logits[word] || (logits[j] == logits[word] && j < word);
      if (before < top_k) own[i] = exp((double)logits[word] / temperature - (double)best / temperature);
    }
    sum += own[i];
    own[i] = sum;
  }
  double reached = sum;  // up to and with this lane
  // running sums over the lanes, in five steps (Hillis and Steele)
  for (int other = 1; other < 32; other *= 2) {
    const double theirs = __shfl_up_sync(~0u, reached, other);
    if (lane >= other) reached += theirs;
  }
  if (lane == 31) shared.sum[warp] = reached;
  if (thread == 0) shared.token = VOCABULARY - 1;
  __syncthreads();
  double before = reached - sum, total = 0;
  for (int i = 0; i < WARPS; ++i) {
    if (i < warp) before += shared.sum[i];
    total += shared.sum[i];
  }
  // 24 bits, as `uniform` has them; the word is the first whose running sum exceeds the aim, found by one thread.
  const double aim = (philox(position, sequence, seed) >> 8) * 0x1p-24 * total;
  for (int i = 0; i < EACH; ++i)
    if (before + own[i] > aim && (i ? before + own[i - 1] : before) <= aim && thread * EACH + i < VOCABULARY)
      shared.token = thread * EACH + i;
  __syncthreads();
  return shared.token;
}

// The likeliest of a block's words, whose logits its lanes have, one or none each: the logit and the word's number.
__device__ __forceinline__ void best_of_block(Shared& shared, float& logit, int& word, int warp, int lane) {
  const float best = largest(logit);
  word = __reduce_min_sync(~0u, logit == best ? word : 0x7fffffff);
  if (lane == 0) shared.best[warp] = best, shared.place[warp] = word;
  __syncthreads();
  const float theirs = shared.best[lane % WARPS];
  logit = largest(theirs);
  word = __reduce_min_sync(~0u, theirs == logit ? shared.place[lane % WARPS] : 0x7fffffff);
}
