// The last phase of a step: the gradients' norm, clipping and AdamW.
#pragma once

// Whether weight decay applies to a parameter: to matrices and embeddings.
__device__ __forceinline__ bool decays(const Run& run, int i) {
  if (i < run.layer_at(0)) return true;
  if (i >= run.last_at()) return i >= run.head_at() && i < run.count() - run.words;
  const int of = (i - run.layer_at(0)) % LAYER;
  return (of >= QKV_WEIGHT && of < QKV_BIAS) || (of >= PROJ_WEIGHT && of < PROJ_BIAS) ||
         (of >= FC_WEIGHT && of < FC_BIAS) || (of >= OUT_WEIGHT && of < OUT_BIAS);
}

__device__ __forceinline__ float& one_of(float4& x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }
__device__ __forceinline__ float4& at4(float* to) { return *reinterpret_cast<float4*>(to); }

// AdamW; returns the norm of the gradients. `rates`: the factor of the update, what is added to the root, and what
// weights shrink to. Nothing is changed where the norm is not finite.
__device__ __forceinline__ float update(const Run& run, const float* rates, float* scratch) {
  const int count = run.count(), step = gridDim.x * THREADS;
  const float factor = rates[0], epsilon = rates[1], shrink = rates[2];
  struct Four {
    float4 gradient, mean, square, parameter;
  };
  Four now, next;
  auto load = [&](Four& four, int at) {
    if (at + 3 >= count) return;
    four = {at4(run.gradients + at), at4(run.mean + at), at4(run.square + at), at4(run.parameters + at)};
  };
  const int from = blockIdx.x * THREADS + anew(threadIdx.x);
  load(now, 4 * from);
  const float norm = sqrtf(sum_of(run.squares(), gridDim.x, scratch)), scale = norm > run.clip ? run.clip / norm : 1;
  if (!(norm < INFINITE)) return norm;
  auto take_step = [&](float of, float& mean, float& square, float& parameter, bool shrinks) {
    of *= scale;
    mean = run.beta_1 * mean + (1 - run.beta_1) * of;
    square = run.beta_2 * square + (1 - run.beta_2) * of * of;
    const float root = square * rsqrtf(fmaxf(square, 1e-37f));  // also of 0
    parameter = (shrinks ? parameter * shrink : parameter) - __fdividef(mean, root + epsilon) * factor;
  };
  // what makes no four are the last of the head's biases
  if (const int at = count - count % 4 + from; from < count % 4)
    take_step(run.gradients[at], run.mean[at], run.square[at], run.parameters[at], false);
#pragma unroll 1
  for (int at = 4 * from; at + 3 < count; at += 4 * step) {
    load(next, at + 4 * step);  // few have a second
    const bool shrinks = decays(run, at);  // vectors and matrices are made of fours
#pragma unroll
    for (int j = 0; j < 4; ++j)
      take_step(one_of(now.gradient, j), one_of(now.mean, j), one_of(now.square, j), one_of(now.parameter, j), shrinks);
    at4(run.mean + at) = now.mean, at4(run.square + at) = now.square, at4(run.parameters + at) = now.parameter;
    pack(run, at, now.parameter);
    now = next;
  }
  return norm;
}
