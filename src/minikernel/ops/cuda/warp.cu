// Softmax, the step between 2 and 3: one warp a row, the row in registers.
//
// A warp's 32 lanes run in step and can read one another's registers (a shuffle), so a reduction needs neither
// shared memory nor a barrier: five exchanges, each with the lane 16, 8, 4, 2, 1 further on, and every lane has
// the result. Each lane keeps up to 32 elements of the row in registers, so that a row of up to 1,024 columns is
// read once and its exponentials are computed once. That is the one width: what a longer row has beyond it is
// looped over, three times, as in step 2. Step 3 moves 16 bytes at a time, and has a layout for every width.
// At 524,288 x 600 float32: 656 us after step 2's 1,918 on an H200, 90 % of a copy's bandwidth; 831 us after 1,942 on
// an H100, whose slower memory is as busy as a copy keeps it: 100 %.
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

    // Lane l holds columns l, l + 32, l + 64, ...: neighbouring lanes read neighbouring addresses. Unrolled, so that
    // every index is known and the array lies in registers.
    float value[HELD], maximum = NEGATIVE_INFINITY;
#pragma unroll
    for (int k = 0; k < HELD; k++) {
        int col = lane + k * WARP;
        value[k] = col < cols ? to_float(x[col]) : NEGATIVE_INFINITY;  // softmax's zero
        maximum = fmaxf(maximum, value[k]);
    }
    for (long long col = lane + HELD * WARP; col < cols; col += WARP) maximum = fmaxf(maximum, to_float(x[col]));
    float shift = row_shift(maximum_over_warp(maximum));

    // what is beyond the row holds minus infinity, and its exponential adds nothing
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
