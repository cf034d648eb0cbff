// Softmax, step 3: one read, one write.
//
// A row is read once, in 16-byte vectors, into registers; its exponentials are computed once and kept
// there; the quotients are written in 16-byte vectors. What is left is the traffic that no softmax can
// avoid. Three shapes of the same idea, by the length of the row:
//
//   fused_short  THREADS lanes of one warp hold a row, several rows a block. Reductions are xor
//                shuffles between lanes: no shared memory and no barrier.
//   fused_block  one block holds a row: a shuffle in each warp, then one exchange through shared
//                memory, so two barriers a row.
//   fused_long   rows that registers cannot hold: a running (maximum, sum) per thread in one pass,
//                the quotients in a second, whose reads the L2 cache largely serves.
//
// Where rows do not start on 16-byte boundaries (50,257 columns), vectors are laid on the boundaries
// that there are, and the two that hang over the row's ends go element by element. x and y must start
// at the same offset from a boundary; the caller allocates y so.
//
// Tried on an H200 and left out, because they were slower or made no difference: streaming and
// no-allocate hints on loads and stores, a persistent grid, 16 lanes a row.
#include "common.cuh"

#define WARP 32
// Threads of a fused_short block: few, so that its registers return soon, but as a multiprocessor takes
// at most 32 blocks, enough to keep 2 KB of loads in flight in each. Measured on an H200.
#define SHORT_BLOCK(VECTORS) ((VECTORS) >= 4 ? 32 : (VECTORS) >= 2 ? 64 : 128)

template <typename T> struct alignas(16) Vector {
    static const int LENGTH = 16 / sizeof(T);
    T element[LENGTH];
};

// Elements first .. first + LENGTH of a row as floats; -infinity, softmax's zero, outside the row.
template <typename T, bool ALIGNED>
__device__ __forceinline__ void load_vector(const T* row, long long first, long long cols, float* value)
{
    const int LENGTH = Vector<T>::LENGTH;
    if (first + LENGTH <= cols && (ALIGNED || first >= 0)) {
        Vector<T> vector = __builtin_bit_cast(Vector<T>, *reinterpret_cast<const int4*>(row + first));
#pragma unroll
        for (int k = 0; k < LENGTH; k++) value[k] = to_float(vector.element[k]);
    } else {
#pragma unroll
        for (int k = 0; k < LENGTH; k++) {
            bool inside = !ALIGNED && first + k >= 0 && first + k < cols;
            value[k] = inside ? to_float(row[first + k]) : NEGATIVE_INFINITY;
        }
    }
}

template <typename T, bool ALIGNED>
__device__ __forceinline__ void store_vector(T* row, long long first, long long cols, const float* value, float scale)
{
    const int LENGTH = Vector<T>::LENGTH;
    Vector<T> vector;
#pragma unroll
    for (int k = 0; k < LENGTH; k++) from_float(value[k] * scale, vector.element[k]);
    if (first + LENGTH <= cols && (ALIGNED || first >= 0)) {
        *reinterpret_cast<int4*>(row + first) = __builtin_bit_cast(int4, vector);
    } else if (!ALIGNED) {
#pragma unroll
        for (int k = 0; k < LENGTH; k++) {
            if (first + k >= 0 && first + k < cols) row[first + k] = vector.element[k];
        }
    }
}

template <int THREADS> __device__ __forceinline__ float maximum_over(float value, unsigned mask)
{
#pragma unroll
    for (int step = THREADS / 2; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(mask, value, step));
    return value;
}

template <int THREADS> __device__ __forceinline__ float sum_over(float value, unsigned mask)
{
#pragma unroll
    for (int step = THREADS / 2; step > 0; step /= 2) value += __shfl_xor_sync(mask, value, step);
    return value;
}

// The same over a block of up to 32 warps; `exchange` is 32 floats of shared memory used once.
__device__ __forceinline__ float block_maximum(float value, float* exchange)
{
    int lane = threadIdx.x % WARP;
    value = maximum_over<WARP>(value, 0xffffffff);
    if (lane == 0) exchange[threadIdx.x / WARP] = value;
    __syncthreads();
    return maximum_over<WARP>(lane < blockDim.x / WARP ? exchange[lane] : NEGATIVE_INFINITY, 0xffffffff);
}

__device__ __forceinline__ float block_sum(float value, float* exchange)
{
    int lane = threadIdx.x % WARP;
    value = sum_over<WARP>(value, 0xffffffff);
    if (lane == 0) exchange[threadIdx.x / WARP] = value;
    __syncthreads();
    return sum_over<WARP>(lane < blockDim.x / WARP ? exchange[lane] : 0.0f, 0xffffffff);
}

// How many elements the row starts past a 16-byte boundary.
template <typename T, bool ALIGNED> __device__ __forceinline__ int elements_past_boundary(const T* row)
{
    return ALIGNED ? 0 : (int)(reinterpret_cast<unsigned long long>(row) % 16 / sizeof(T));
}

// One row in the registers of THREADS lanes: lane t holds vectors t, t + THREADS, t + 2 THREADS, ...
template <typename T, int THREADS, int VECTORS, bool ALIGNED>
__global__ void __launch_bounds__(SHORT_BLOCK(VECTORS)) fused_short(const T* x, T* y, long long rows, long long cols)
{
    const int LENGTH = Vector<T>::LENGTH;
    int lane = threadIdx.x % THREADS;
    long long row = (long long)blockIdx.x * (SHORT_BLOCK(VECTORS) / THREADS) + threadIdx.x / THREADS;
    if (row >= rows) return;
    unsigned mask = THREADS == WARP ? 0xffffffff
                                    : ((1u << (THREADS % WARP)) - 1) << (threadIdx.x % WARP / THREADS * THREADS);
    x += row * cols;
    y += row * cols;
    int first = lane * LENGTH - elements_past_boundary<T, ALIGNED>(x);

    float value[VECTORS][LENGTH];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        load_vector<T, ALIGNED>(x, first + v * THREADS * LENGTH, cols, value[v]);
    }
    float maximum = NEGATIVE_INFINITY;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#pragma unroll
        for (int k = 0; k < LENGTH; k++) maximum = fmaxf(maximum, value[v][k]);
    }
    float shift = row_shift(maximum_over<THREADS>(maximum, mask));
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#pragma unroll
        for (int k = 0; k < LENGTH; k++) {
            value[v][k] = exponential<T>(value[v][k], shift);
            sum += value[v][k];
        }
    }
    float scale = 1.0f / sum_over<THREADS>(sum, mask);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        store_vector<T, ALIGNED>(y, first + v * THREADS * LENGTH, cols, value[v], scale);
    }
}

// One row in the registers of a block: thread t holds vectors t, t + THREADS, ...
template <typename T, int THREADS, int VECTORS, bool ALIGNED>
__global__ void __launch_bounds__(THREADS) fused_block(const T* x, T* y, long long rows, long long cols)
{
    const int LENGTH = Vector<T>::LENGTH;
    __shared__ float exchange[2][WARP];
    x += blockIdx.x * cols;
    y += blockIdx.x * cols;
    int first = threadIdx.x * LENGTH - elements_past_boundary<T, ALIGNED>(x);

    float value[VECTORS][LENGTH];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        load_vector<T, ALIGNED>(x, first + v * THREADS * LENGTH, cols, value[v]);
    }
    float maximum = NEGATIVE_INFINITY;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#pragma unroll
        for (int k = 0; k < LENGTH; k++) maximum = fmaxf(maximum, value[v][k]);
    }
    float shift = row_shift(block_maximum(maximum, exchange[0]));
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#pragma unroll
        for (int k = 0; k < LENGTH; k++) {
            value[v][k] = exponential<T>(value[v][k], shift);
            sum += value[v][k];
        }
    }
    float scale = 1.0f / block_sum(sum, exchange[1]);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        store_vector<T, ALIGNED>(y, first + v * THREADS * LENGTH, cols, value[v], scale);
    }
}

// Rows of any length: a pass that keeps a running shift and sum, a pass that writes. The shift starts
// finite, so that a thread that met only -infinity has a sum of 0 and no NaN.
template <typename T, int THREADS, int VECTORS, bool ALIGNED>
__global__ void __launch_bounds__(THREADS) fused_long(const T* x, T* y, long long rows, long long cols)
{
    const int LENGTH = Vector<T>::LENGTH;
    const int TILE = THREADS * VECTORS * LENGTH;
    __shared__ float exchange[2][WARP];
    x += blockIdx.x * cols;
    y += blockIdx.x * cols;
    long long begin = (long long)threadIdx.x * LENGTH - elements_past_boundary<T, ALIGNED>(x);

    float shift = -3.4028235e38f, sum = 0.0f;
    float value[VECTORS][LENGTH];
    for (long long first = begin; first < cols; first += TILE) {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            load_vector<T, ALIGNED>(x, first + v * THREADS * LENGTH, cols, value[v]);
        }
        float maximum = shift;
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
#pragma unroll
            for (int k = 0; k < LENGTH; k++) maximum = fmaxf(maximum, value[v][k]);
        }
        float next = row_shift(maximum);
        float tile = 0.0f;  // summed apart: fewer terms in a row, less rounding
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
#pragma unroll
            for (int k = 0; k < LENGTH; k++) tile += exponential_for_sum(value[v][k], next);
        }
        sum = sum * exponential_for_sum(shift, next) + tile;
        shift = next;
    }
    float row_maximum = block_maximum(shift, exchange[0]);
    float scale = 1.0f / block_sum(sum * exponential_for_sum(shift, row_maximum), exchange[1]);

    // The last tiles first: they are the ones still in the caches.
    long long tiles = (cols + TILE - 1 + LENGTH) / TILE;
    for (long long first = begin + (tiles - 1) * TILE; first >= begin; first -= TILE) {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            load_vector<T, ALIGNED>(x, first + v * THREADS * LENGTH, cols, value[v]);
        }
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
#pragma unroll
            for (int k = 0; k < LENGTH; k++) value[v][k] = exponential<T>(value[v][k], row_maximum);
            store_vector<T, ALIGNED>(y, first + v * THREADS * LENGTH, cols, value[v], scale);
        }
    }
}
