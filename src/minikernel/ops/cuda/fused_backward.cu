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
// there are, and the few elements before the first and after the last go one to a thread. y, dy and dx must
// start at the same offset from a boundary; the caller sees to it.
//
// Measured on an H200: streaming hints on the loads (__ldcs) cost 8 % of the bandwidth, on the stores (__stcs)
// up to 1 %. All loads of y before those of dy, several rows a warp, and rows read twice, the second time from the
// L1 cache, were no faster.
#include "common.cuh"
#include "parts.cuh"

// sum(y * dy) over a 32-bit word of each, and (dy - sum) * y. Vectors stay four such words: an array of 16-bit
// elements would be spread over twice the registers.
template <typename T> __device__ __forceinline__ float dot(unsigned y, unsigned dy)
{
    const int WORD = 4 / sizeof(T);
    float a[WORD], b[WORD], sum = 0.0f;
    unpack<T>(y, a);
    unpack<T>(dy, b);
#pragma unroll
    for (int k = 0; k < WORD; k++) sum += a[k] * b[k];
    return sum;
}

template <typename T> __device__ __forceinline__ unsigned gradient(unsigned y, unsigned dy, float sum)
{
    const int WORD = 4 / sizeof(T);
    float a[WORD], b[WORD];
    unpack<T>(y, a);
    unpack<T>(dy, b);
#pragma unroll
    for (int k = 0; k < WORD; k++) b[k] = (b[k] - sum) * a[k];
    return pack<T>(b);
}

// The vector itself, but the compiler cannot know: `zero` was read from memory after the sum. Otherwise it
// unpacks 16-bit values for the result before the sum is there, and holds them in twice the registers.
__device__ __forceinline__ int4 again(const int4& vector, int zero)
{
    return make_int4(vector.x ^ zero, vector.y ^ zero, vector.z ^ zero, vector.w ^ zero);
}

// Outside: zeros, which add nothing to a sum.
template <typename T> __device__ __forceinline__ int4 load_vector(const T* row, long long number, bool inside)
{
    return load_16_bytes(reinterpret_cast<const int4*>(row) + number, inside, 0);
}

// STREAM: written to be evicted first, so that a row's result does not push the rows that follow out of the cache.
template <typename T, bool STREAM>
__device__ __forceinline__ void store_gradient(T* row, long long number, const int4& y, const int4& dy, float sum)
{
    int4 vector = make_int4(gradient<T>(y.x, dy.x, sum), gradient<T>(y.y, dy.y, sum), gradient<T>(y.z, dy.z, sum),
                            gradient<T>(y.w, dy.w, sum));
    int4* to = reinterpret_cast<int4*>(row) + number;
    if (STREAM) {
        __stcs(to, vector);
    } else {
        *to = vector;
    }
}

template <typename T> __device__ __forceinline__ float vector_dot(const int4& y, const int4& dy)
{
    return (dot<T>(y.x, dy.x) + dot<T>(y.y, dy.y)) + (dot<T>(y.z, dy.z) + dot<T>(y.w, dy.w));
}

// The sum of y * dy over the edge elements of thread number `thread` of a row.
template <typename T, int THREADS, bool ALIGNED>
__device__ __forceinline__ float edge_dot(const Row<T, ALIGNED>& row, const T* y, const T* dy, int thread)
{
    float sum = 0.0f;
#pragma unroll
    for (int e = 0; e < EDGES(T, THREADS, ALIGNED); e++) {
        long long column = row.edge_column(thread + e * THREADS);
        if (column >= 0) sum += to_float(y[column]) * to_float(dy[column]);
    }
    return sum;
}

// The same elements' results; they are read again, from the L1 cache.
template <typename T, int THREADS, bool ALIGNED>
__device__ __forceinline__ void
edge_gradient(const Row<T, ALIGNED>& row, const T* y, const T* dy, T* dx, int thread, float sum)
{
#pragma unroll
    for (int e = 0; e < EDGES(T, THREADS, ALIGNED); e++) {
        long long column = row.edge_column(thread + e * THREADS);
        if (column >= 0) from_float((to_float(dy[column]) - sum) * to_float(y[column]), dx[column]);
    }
}

// One row in the registers of THREADS lanes: lane t holds vectors t, t + THREADS, t + 2 THREADS, ...
template <typename T, int THREADS, int VECTORS, bool ALIGNED>
__global__ void __launch_bounds__(SHORT_BLOCK(VECTORS))
    backward_short(const T* y, const T* dy, T* dx, long long rows, long long cols)
{
    int lane = threadIdx.x % THREADS;
    long long row = (long long)blockIdx.x * (SHORT_BLOCK(VECTORS) / THREADS) + threadIdx.x / THREADS;
    if (row >= rows) return;
    // the lanes that share this row: the warp's others may have no row and be gone
    unsigned mask = THREADS == WARP ? 0xffffffff
                                    : ((1u << (THREADS % WARP)) - 1) << (threadIdx.x % WARP / THREADS * THREADS);
    y += row * cols;
    dy += row * cols;
    dx += row * cols;
    const Row<T, ALIGNED> layout(y, cols);
    const int vectors = (int)layout.vectors;

    int4 probability[VECTORS], incoming[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        int number = lane + v * THREADS;
        probability[v] = load_vector(y + layout.head, number, number < vectors);
        incoming[v] = load_vector(dy + layout.head, number, number < vectors);
    }
    // All 2 VECTORS loads are under way; the edges are summed meanwhile, then the vectors in a fixed order.
    float sum = edge_dot<T, THREADS>(layout, y, dy, lane);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum += vector_dot<T>(probability[v], incoming[v]);
    sum = sum_over<THREADS>(sum, mask);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        int number = lane + v * THREADS;
        if (number < vectors) store_gradient<T, THREADS == WARP>(dx + layout.head, number, probability[v], incoming[v], sum);
    }
    edge_gradient<T, THREADS>(layout, y, dy, dx, lane, sum);
}

__device__ __forceinline__ unsigned cluster_rank()
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// The sum over every block of a cluster. The loads are under way meanwhile.
template <int CLUSTER>
__device__ __forceinline__ float cluster_sum(float block_total, float* from_rank, unsigned long long* arrived)
{
    await_cluster();
    if (threadIdx.x < CLUSTER) send_to_peer(from_rank + cluster_rank(), arrived, threadIdx.x, block_total);
    await_arrivals(arrived);
    float sum = 0.0f;
#pragma unroll
    for (int rank = 0; rank < CLUSTER; rank++) sum += from_rank[rank];
    return sum;
}

// One row in the registers of CLUSTER blocks: of all their threads, t holds vectors t, t + CLUSTER THREADS, ...
template <typename T, int THREADS, int VECTORS, int CLUSTER, bool ALIGNED>
__device__ __forceinline__ void backward_row(const T* y, const T* dy, T* dx, long long cols)
{
    const int STRIDE = CLUSTER * THREADS;
    __shared__ float exchange[WARP], from_rank[CLUSTER];
    __shared__ unsigned long long arrived;
    __shared__ volatile int zero_from_memory;
    long long row = blockIdx.x / CLUSTER;
    int thread = (CLUSTER > 1 ? blockIdx.x % CLUSTER * THREADS : 0) + threadIdx.x;
    y += row * cols;
    dy += row * cols;
    dx += row * cols;
    const Row<T, ALIGNED> layout(y, cols);
    const int vectors = (int)layout.vectors;

    // Announced before the loads, so that the wait for the other blocks' beginning passes while memory answers.
    if (CLUSTER > 1) expect_from_cluster(&arrived, CLUSTER * sizeof(float));
    int4 probability[VECTORS], incoming[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        // a block's threads take neighbouring vectors at each step, and a cluster's blocks lie side by side in it
        int number = thread + v * STRIDE;
        probability[v] = load_vector(y + layout.head, number, number < vectors);
        incoming[v] = load_vector(dy + layout.head, number, number < vectors);
    }
    float sum = edge_dot<T, STRIDE>(layout, y, dy, thread);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum += vector_dot<T>(probability[v], incoming[v]);
    // Written before the barrier in `block_sum` and read after it: a zero that the compiler cannot foresee (`again`).
    if (threadIdx.x == 0) zero_from_memory = 0;
    sum = block_sum(sum, exchange);
    const int zero = zero_from_memory;
    // A block's sum, then the cluster's. Every block adds the ranks in the same order, so that all have the same bits.
    if (CLUSTER > 1) sum = cluster_sum<CLUSTER>(sum, from_rank, &arrived);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        int number = thread + v * STRIDE;
        if (number < vectors) {
            store_gradient<T, CLUSTER == 1>(dx + layout.head, number, again(probability[v], zero),
                                            again(incoming[v], zero), sum);
        }
    }
    edge_gradient<T, STRIDE>(layout, y, dy, dx, thread, sum);
}

template <typename T, int THREADS, int VECTORS, bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    backward_block(const T* y, const T* dy, T* dx, long long rows, long long cols)
{
    backward_row<T, THREADS, VECTORS, 1, ALIGNED>(y, dy, dx, cols);
}

// clusters came with Hopper; a host's compiler, which defines no architecture, sees the kernel's name all the same
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
__global__ void __launch_bounds__(THREADS, 1)
    backward_long(const T* y, const T* dy, T* dx, long long rows, long long cols)
{
    const int TILE = THREADS * VECTORS;
    __shared__ float exchange[WARP];
    y += blockIdx.x * cols;
    dy += blockIdx.x * cols;
    dx += blockIdx.x * cols;
    const Row<T, ALIGNED> layout(y, cols);

    int4 probability[VECTORS], incoming[VECTORS];
    CompensatedSum sum;  // a thread adds hundreds of tiles
    sum.add(edge_dot<T, THREADS>(layout, y, dy, threadIdx.x));
    for (long long first = threadIdx.x; first < layout.vectors; first += TILE) {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            long long number = first + v * THREADS;
            probability[v] = load_vector(y + layout.head, number, number < layout.vectors);
            incoming[v] = load_vector(dy + layout.head, number, number < layout.vectors);
        }
        float tile = 0.0f;
#pragma unroll
        for (int v = 0; v < VECTORS; v++) tile += vector_dot<T>(probability[v], incoming[v]);
        sum.add(tile);
    }
    // Backwards from the last tile: the L2 cache still holds what was read last.
    float row_sum = block_sum(sum.total, exchange);

    long long last = (layout.vectors - 1) / TILE * TILE + threadIdx.x;
    for (long long first = last; first >= 0; first -= TILE) {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            long long number = first + v * THREADS;
            probability[v] = load_vector(y + layout.head, number, number < layout.vectors);
            incoming[v] = load_vector(dy + layout.head, number, number < layout.vectors);
        }
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            long long number = first + v * THREADS;
            if (number < layout.vectors) {
                store_gradient<T, true>(dx + layout.head, number, probability[v], incoming[v], row_sum);
            }
        }
    }
    edge_gradient<T, THREADS>(layout, y, dy, dx, threadIdx.x, row_sum);
}
