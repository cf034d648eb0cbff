// Softmax, the step between 2 and 3: one warp a row, the row in registers.
//
// A warp's 32 lanes run in step and can read one another's registers (a shuffle), so a reduction needs neither
// shared memory nor a barrier: five exchanges, each with the lane 16, 8, 4, 2, 1 further on, and every lane has
// the result. Each lane keeps up to 32 elements of the row in registers, so that a row of up to 1,024 columns is
// read once and its exponentials are computed once. That is the one width: what a longer row has beyond it is
// looped over, three times, as in step 2. Step 3 moves 16 bytes at a time, and has a layout for every width.
#include "common.cuh"

#define THREADS 128  // of a block: four warps, four rows
#define WARP 32
#define HELD 32  // elements of a row that a lane holds: all of a row of up to HELD * WARP columns

__device__ __forceinline__ float maximum_over_warp(float value)
{
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, distance));
    }
    return value;
}

__device__ __forceinline__ float sum_over_warp(float value)
{
    for (int distance = WARP / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffff, value, distance);
    return value;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) warp(const T* x, T* y, long long rows, long long cols)
{
    long long row = (long long)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP;
    if (row >= rows) return;  // a whole warp: the others exchange among themselves
    const int lane = threadIdx.x % WARP;
    x += row * cols;
    y += row * cols;

    float value[HELD], maximum = NEGATIVE_INFINITY;
#pragma unroll
    for (int k = 0; k < HELD; k++) {
        int col = lane + k * WARP;
        value[k] = col < cols ? to_float(x[col]) : NEGATIVE_INFINITY;  // softmax's zero
        maximum = fmaxf(maximum, value[k]);
    }
    for (long long col = lane + HELD * WARP; col < cols; col += WARP) maximum = fmaxf(maximum, to_float(x[col]));
    float shift = row_shift(maximum_over_warp(maximum));

    CompensatedSum sum;
#pragma unroll
    for (int k = 0; k < HELD; k++) sum.add(value[k] = exponential<T>(value[k], shift));
    for (long long col = lane + HELD * WARP; col < cols; col += WARP) sum.add(exponential<T>(to_float(x[col]), shift));
    float scale = 1.0f / sum_over_warp(sum.total);

#pragma unroll
    for (int k = 0; k < HELD; k++) {
        int col = lane + k * WARP;
        if (col < cols) from_float(value[k] * scale, y[col]);
    }
    for (long long col = lane + HELD * WARP; col < cols; col += WARP) {
        from_float(exponential<T>(to_float(x[col]), shift) * scale, y[col]);
    }
}
