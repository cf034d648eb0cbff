// Attention in forward.cu: a head's, in the registers of one warp.
#pragma once

// Attention of 16 tokens in one head. Scores come as exponents of two.
template <class Precision>
__device__ __forceinline__ void attend(const typename Precision::Left& query,
                                       const typename Precision::Right (&keys)[2],
                                       const typename Precision::Right (&values)[2], int group, int pair,
                                       float (&mixed)[2][4]) {
  // 16 queries by keys 0 to 7, then by keys 8 to 15: a lane has queries g and g + 8, keys 2 t and 2 t + 1 of each.
  Sums<Precision, 2> scores;
  scores.add(0, 0, query, keys[0]);
  scores.add(1, 0, query, keys[1]);
  float near[4], far[4] = {0, 0, 0, 0};  // keys 0 to 7 and 8 to 15, of which rows 0 to 7 see none
#pragma unroll
  for (int i = 0; i < 4; ++i) near[i] = scores.total(0, i);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const bool seen = 2 * pair + i <= group;
    near[i] = seen ? near[i] : -INFINITY;
    far[2 + i] = seen ? scores.total(1, 2 + i) : -INFINITY;
  }
  // Rows 0 to 7 end with key 7, so that their largest score and their sum need the first tile alone.
  const float top = largest_of_row(fmaxf(near[0], near[1]));
  const float top_far = largest_of_row(fmaxf(fmaxf(near[2], near[3]), fmaxf(far[2], far[3])));
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    near[i] = power_of_two(near[i] - top);
    near[2 + i] = power_of_two(near[2 + i] - top_far);
    far[2 + i] = power_of_two(far[2 + i] - top_far);
  }
  Sums<Precision, 2> sums;
  // The weights are not yet divided by their sum; the results are, below. So the products need not wait for it.
  const typename Precision::Left weights = Precision::left(near, far);
  sums.add(0, 0, weights, values[0]);
  sums.add(1, 0, weights, values[1]);
  const float inverse = reciprocal(sum_of_row(near[0] + near[1]));
  const float inverse_far = reciprocal(sum_of_row(near[2] + near[3] + far[2] + far[3]));
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) mixed[tile][i] = sums.total(tile, i) * (i < 2 ? inverse : inverse_far);
}
