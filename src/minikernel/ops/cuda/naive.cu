// Softmax, step 1: one thread a row, three passes through global memory.
//
// The textbook loop, given to every thread: the row's maximum, the sum of its exponentials, the quotients. Correct, and
// slow (524,288 x 600 float32: 15,045 us on an H200, 3.9 % of a copy's bandwidth; 22,289 on an H100) for two reasons,
// which the next steps remove: neighbours read addresses a row apart, so each 32-byte sector serves one thread
// at a time; and a row's work is serial, so 64 rows keep 64 threads of the 270,000 that the chip can hold.
#include "common.cuh"

template <typename T>
__global__ void naive(const T* x, T* y, long long rows, long long cols)
{
    long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    x += row * cols;
    y += row * cols;

    float maximum = NEGATIVE_INFINITY;
    for (long long col = 0; col < cols; col++) maximum = fmaxf(maximum, to_float(x[col]));
    float shift = row_shift(maximum);

    CompensatedSum sum;
    for (long long col = 0; col < cols; col++) sum.add(exponential<T>(to_float(x[col]), shift));

    float scale = 1.0f / sum.total;
    for (long long col = 0; col < cols; col++) from_float(exponential<T>(to_float(x[col]), shift) * scale, y[col]);
}
