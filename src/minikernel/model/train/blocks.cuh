// How a block's threads add up, and how blocks wait for each other: by counters in global memory.
#pragma once

// A thread of the last warp tells other blocks of what this one has written, and one of the first waits for what others
// tell, so that neither waits for the other.
constexpr int TELLS = THREADS - 32;

// Count the block, once all its threads are here.
__device__ __forceinline__ void count_block(unsigned* counter) {
  __syncthreads();
  if (threadIdx.x == TELLS) release_one_more(counter);
}

// Wait until `expected` have been counted, and see what they have written.
__device__ __forceinline__ void await_blocks(const unsigned* counter, unsigned expected) {
  if (threadIdx.x == 0)
    while (static_cast<int>(acquired(counter) - expected) < 0) __nanosleep(20);
  __syncthreads();
}

__device__ __forceinline__ void meet(unsigned* counter, unsigned expected) {
  count_block(counter);
  await_blocks(counter, expected);
}

// The same sum in every thread. `scratch` has room for a number of each warp.
__device__ __forceinline__ float sum_of_block(float x, float* scratch) {
  x = sum_of_warp(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < WARPS; ++i) sum += scratch[i];
  return sum;
}

__device__ __forceinline__ float sum_of(const float* numbers, int count, float* scratch) {
  float sum = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += THREADS) sum += numbers[i];
  return sum_of_block(sum, scratch);
}
