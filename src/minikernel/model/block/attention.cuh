// Attention in forward.cu: a head's, over the keys of a whole sequence.
#pragma once

// Attention of one head, online: exponentials are of what a score exceeds `top` by, which is the largest score of the
// first keys that were looked at, and is moved only when another exceeds it by much.
template <class Precision>
struct Attention {
  typedef typename Precision::Right Right;
  float mixed[2][4] = {}, sum[2] = {0, 0}, top[2];

  // 16 queries by 16 keys, one product a tile: a head's 16 dimensions are the 16 features that it sums over. `score`
  // has the tile of keys 0 to 7, then 8 to 15.
  __device__ __forceinline__ void scores(const typename Precision::Left& query, const Right* keys,
                                         float (&score)[2][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[half][i] = 0;
      Precision::multiply(score[half], query, keys[half * 32]);
    }
  }

  __device__ __forceinline__ void mix(float (&score)[2][4], const Right* values) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        score[half][i] = power_of_two(score[half][i] - top[i / 2]);
        sum[i / 2] += score[half][i];
      }
    // The scores' tiles, rounded, are the left operand of the next product as they lie.
    const typename Precision::Left share = Precision::left(score[0], score[1]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float part[4] = {};
      Precision::multiply(part, share, values[half * 32]);
#pragma unroll
      for (int i = 0; i < 4; ++i) mixed[half][i] += part[i];
    }
  }

  // The 16 keys that begin with the tile's own first token. `unseen`, a bit for each of the lane's scores: the keys that
  // a row may not attend to.
  __device__ __forceinline__ void own(const typename Precision::Left& query, const Right* keys, int unseen) {
    float score[2][4];
    scores(query, keys, score);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float best = -INFINITY;
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& value = score[half][2 * row + i];
          if (unseen >> (4 * half + 2 * row + i) & 1) value = -INFINITY;
          best = fmaxf(best, value);
        }
      top[row] = largest_of_row(best);
    }
    mix(score, keys + 64);
  }

  // 16 keys before those.
  __device__ __forceinline__ void earlier(const typename Precision::Left& query, const Right* keys) {
    float score[2][4];
    scores(query, keys, score);
    float best[2];
#pragma unroll
    for (int row = 0; row < 2; ++row)
      best[row] = fmaxf(fmaxf(score[0][2 * row], score[0][2 * row + 1]), fmaxf(score[1][2 * row], score[1][2 * row + 1]));
    // Rescaling is rare: up to there exponentials stay below 2^12, and only a score beyond that moves `top`. All lanes
    // decide alike, since the shuffles inside need them all.
    if (__any_sync(~0u, fmaxf(best[0] - top[0], best[1] - top[1]) > MUCH)) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float higher = fmaxf(top[row], largest_of_row(best[row])), scale = power_of_two(top[row] - higher);
        top[row] = higher;
        sum[row] *= scale;
#pragma unroll
        for (int half = 0; half < 2; ++half) mixed[half][2 * row] *= scale, mixed[half][2 * row + 1] *= scale;
      }
    }
    mix(score, keys + 64);
  }

  __device__ __forceinline__ typename Precision::Left result() {
    // Lanes have summed their own keys only; the four of a row join here, once a head.
    const float scale[2] = {reciprocal(sum_of_row(sum[0])), reciprocal(sum_of_row(sum[1]))};
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) mixed[half][i] *= scale[i / 2];
    return Precision::left(mixed[0], mixed[1]);
  }
};
