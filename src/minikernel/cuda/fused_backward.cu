// Backward of a row softmax: dx = (dy - sum(dy * y)) * y, two reads and one write.
//
// Rows of y and dy are read once, in 16-byte vectors, and stay in registers as they came, packed, so that
// a row in 16 bits costs no more registers than its bytes; they are unpacked to float32 twice, for the sum
// and for the result. As in fused.cu, by the length of the row:
//
//   backward_short    THREADS lanes of one warp hold a row; shuffles, no barrier.
//   backward_block    a block holds a row: shuffles, then one exchange through shared memory.
//   backward_cluster  a cluster of CLUSTER blocks holds a row (compute capability 9.0): each block sends its
//                     sum into the shared memory of every other, one round trip.
//   backward_long     rows that no cluster holds: one pass for the sum, one for the result, last tiles
//                     first, as they are still in the caches.
//
// Where rows do not start on 16-byte boundaries (50,257 columns), vectors are laid on the boundaries that
// there are, and the two that hang over the row's ends go element by element. y, dy and dx must start at
// the same offset from a boundary; the caller sees to it.
#include "common.cuh"

#define WARP 32
// Threads of a backward_short block; fused.cu says why so few.
#define SHORT_BLOCK(VECTORS) ((VECTORS) >= 4 ? 32 : (VECTORS) >= 2 ? 64 : 128)

template <typename T> struct alignas(16) Vector {
    static const int LENGTH = 16 / sizeof(T);
    T element[LENGTH];
};

// Elements first .. first + LENGTH of a row, as stored; zero outside the row, which adds nothing to a sum.
template <typename T, bool ALIGNED>
__device__ __forceinline__ Vector<T> load_vector(const T* row, long long first, long long cols)
{
    const int LENGTH = Vector<T>::LENGTH;
    if (first + LENGTH <= cols && (ALIGNED || first >= 0)) {
        return __builtin_bit_cast(Vector<T>, __ldcs(reinterpret_cast<const int4*>(row + first)));
    }
    Vector<T> vector = __builtin_bit_cast(Vector<T>, make_int4(0, 0, 0, 0));
    if (!ALIGNED) {
#pragma unroll
        for (int k = 0; k < LENGTH; k++) {
            if (first + k >= 0 && first + k < cols) vector.element[k] = row[first + k];
        }
    }
    return vector;
}

template <typename T, bool ALIGNED>
__device__ __forceinline__ void store_vector(T* row, long long first, long long cols, const Vector<T>& vector)
{
    const int LENGTH = Vector<T>::LENGTH;
    if (first + LENGTH <= cols && (ALIGNED || first >= 0)) {
        __stcs(reinterpret_cast<int4*>(row + first), __builtin_bit_cast(int4, vector));
    } else if (!ALIGNED) {
#pragma unroll
        for (int k = 0; k < LENGTH; k++) {
            if (first + k >= 0 && first + k < cols) row[first + k] = vector.element[k];
        }
    }
}

template <typename T> __device__ __forceinline__ float dot(const Vector<T>& y, const Vector<T>& dy)
{
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < Vector<T>::LENGTH; k++) sum += to_float(y.element[k]) * to_float(dy.element[k]);
    return sum;
}

template <typename T>
__device__ __forceinline__ Vector<T> gradient(const Vector<T>& y, const Vector<T>& dy, float sum)
{
    Vector<T> dx;
#pragma unroll
    for (int k = 0; k < Vector<T>::LENGTH; k++) {
        from_float((to_float(dy.element[k]) - sum) * to_float(y.element[k]), dx.element[k]);
    }
    return dx;
}

template <int THREADS> __device__ __forceinline__ float sum_over(float value, unsigned mask)
{
#pragma unroll
    for (int step = THREADS / 2; step > 0; step /= 2) value += __shfl_xor_sync(mask, value, step);
    return value;
}

// The sum over a block of up to 32 warps; `exchange` is 32 floats of shared memory used once.
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
__global__ void __launch_bounds__(SHORT_BLOCK(VECTORS))
    backward_short(const T* y, const T* dy, T* dx, long long rows, long long cols)
{
    const int LENGTH = Vector<T>::LENGTH;
    int lane = threadIdx.x % THREADS;
    long long row = (long long)blockIdx.x * (SHORT_BLOCK(VECTORS) / THREADS) + threadIdx.x / THREADS;
    if (row >= rows) return;
    unsigned mask = THREADS == WARP ? 0xffffffff
                                    : ((1u << (THREADS % WARP)) - 1) << (threadIdx.x % WARP / THREADS * THREADS);
    y += row * cols;
    dy += row * cols;
    dx += row * cols;
    int first = lane * LENGTH - elements_past_boundary<T, ALIGNED>(y), columns = (int)cols;

    Vector<T> probability[VECTORS], incoming[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        probability[v] = load_vector<T, ALIGNED>(y, first + v * THREADS * LENGTH, columns);
        incoming[v] = load_vector<T, ALIGNED>(dy, first + v * THREADS * LENGTH, columns);
    }
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum += dot(probability[v], incoming[v]);
    sum = sum_over<THREADS>(sum, mask);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        store_vector<T, ALIGNED>(
            dx, first + v * THREADS * LENGTH, columns, gradient(probability[v], incoming[v], sum));
    }
}

__device__ __forceinline__ unsigned cluster_rank()
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// The sum over every block of a cluster. The first wait makes sure that all blocks have started, as
// nobody may write to the shared memory of one that has not; it comes after the loads and is free.
template <int CLUSTER> __device__ __forceinline__ float cluster_sum(float block_total, float* from_rank)
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x < CLUSTER) {
        unsigned here = (unsigned)__cvta_generic_to_shared(from_rank + cluster_rank()), there;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(threadIdx.x));
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(block_total) : "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    float sum = 0.0f;
#pragma unroll
    for (int rank = 0; rank < CLUSTER; rank++) sum += from_rank[rank];
    return sum;
}

// One row in the registers of CLUSTER blocks: of all their threads, t holds vectors t, t + CLUSTER THREADS, ...
template <typename T, int THREADS, int VECTORS, int CLUSTER, bool ALIGNED>
__device__ __forceinline__ void backward_row(const T* y, const T* dy, T* dx, long long cols)
{
    const int LENGTH = Vector<T>::LENGTH, STRIDE = CLUSTER * THREADS * LENGTH;
    __shared__ float exchange[WARP], from_rank[CLUSTER];
    long long row = blockIdx.x / CLUSTER;
    int thread = (CLUSTER > 1 ? blockIdx.x % CLUSTER * THREADS : 0) + threadIdx.x;
    y += row * cols;
    dy += row * cols;
    dx += row * cols;
    int first = thread * LENGTH - elements_past_boundary<T, ALIGNED>(y), columns = (int)cols;

    if (CLUSTER > 1) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    Vector<T> probability[VECTORS], incoming[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        probability[v] = load_vector<T, ALIGNED>(y, first + v * STRIDE, columns);
        incoming[v] = load_vector<T, ALIGNED>(dy, first + v * STRIDE, columns);
    }
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum += dot(probability[v], incoming[v]);
    sum = block_sum(sum, exchange);
    if (CLUSTER > 1) sum = cluster_sum<CLUSTER>(sum, from_rank);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        store_vector<T, ALIGNED>(dx, first + v * STRIDE, columns, gradient(probability[v], incoming[v], sum));
    }
}

template <typename T, int THREADS, int VECTORS, bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    backward_block(const T* y, const T* dy, T* dx, long long rows, long long cols)
{
    backward_row<T, THREADS, VECTORS, 1, ALIGNED>(y, dy, dx, cols);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
template <typename T, int THREADS, int VECTORS, int CLUSTER, bool ALIGNED>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS)
    backward_cluster(const T* y, const T* dy, T* dx, long long rows, long long cols)
{
    backward_row<T, THREADS, VECTORS, CLUSTER, ALIGNED>(y, dy, dx, cols);
}
#endif

// Rows of any length, by one block each.
template <typename T, int THREADS, int VECTORS, bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    backward_long(const T* y, const T* dy, T* dx, long long rows, long long cols)
{
    const int LENGTH = Vector<T>::LENGTH;
    const int TILE = THREADS * VECTORS * LENGTH;
    __shared__ float exchange[WARP];
    y += blockIdx.x * cols;
    dy += blockIdx.x * cols;
    dx += blockIdx.x * cols;
    long long begin = (long long)threadIdx.x * LENGTH - elements_past_boundary<T, ALIGNED>(y);

    Vector<T> probability[VECTORS], incoming[VECTORS];
    CompensatedSum sum;  // a thread adds hundreds of tiles
    for (long long first = begin; first < cols; first += TILE) {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            probability[v] = load_vector<T, ALIGNED>(y, first + v * THREADS * LENGTH, cols);
            incoming[v] = load_vector<T, ALIGNED>(dy, first + v * THREADS * LENGTH, cols);
        }
        float tile = 0.0f;
#pragma unroll
        for (int v = 0; v < VECTORS; v++) tile += dot(probability[v], incoming[v]);
        sum.add(tile);
    }
    float row_sum = block_sum(sum.total, exchange);

    long long tiles = (cols + TILE - 1 + LENGTH) / TILE;
    for (long long first = begin + (tiles - 1) * TILE; first >= begin; first -= TILE) {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            probability[v] = load_vector<T, ALIGNED>(y, first + v * THREADS * LENGTH, cols);
            incoming[v] = load_vector<T, ALIGNED>(dy, first + v * THREADS * LENGTH, cols);
        }
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            store_vector<T, ALIGNED>(
                dx, first + v * THREADS * LENGTH, cols, gradient(probability[v], incoming[v], row_sum));
        }
    }
}
