// Softmax, step 3: one read, one write.
//
// A row is read once, in 16-byte vectors, into registers; its exponentials are computed once and kept
// there; the quotients are written in 16-byte vectors. What is left is the traffic that no softmax can
// avoid: at 524,288 x 600 float32 587 us after `warp`'s 656 on an H200, 101 % of a copy's bandwidth; on an H100
// nothing is left to gain, 831 us both. Six shapes of the same idea, by the length of the row:
//
//   fused_short  THREADS lanes of one warp hold a row, several rows a block. Reductions are xor
//                shuffles between lanes: no shared memory and no barrier.
//   fused_block  one block holds a row in registers; 16-bit elements stay packed, two a register. Each
//                warp reduces its part around a shift of its own, then all exchange (shift, sum) through
//                shared memory: one barrier a row.
//   fused_shared the same, what registers cannot hold in shared memory: up to 86,016 float32 columns.
//   fused_cluster  the same over a thread-block cluster of small blocks: the exchange goes through distributed
//                shared memory, and while one cluster waits for it, others load and store.
//   fused_kept   the same with blocks so small that 16-bit rows keep their exponentials unpacked.
//   fused_long   rows that a cluster cannot hold: a running (maximum, sum) per thread in one pass,
//                the quotients in a second, whose reads the L2 cache largely serves.
//
// Where rows do not start on 16-byte boundaries (50,257 columns), vectors are laid on the boundaries
// that there are, and the two that hang over the row's ends go element by element. x and y must start
// at the same offset from a boundary; the caller allocates y so.
//
// Tried on an H200 and left out, because they were slower or made no difference: streaming and no-allocate hints
// on loads and stores, 16 lanes a row, several rows a warp; for long rows a persistent grid that fetches the next
// row into shared memory meanwhile (92 % of a copy instead of 98 % at 32,768 float32 columns), the row through
// shared memory instead of straight to registers, by cp.async or by bulk copies (84 to 93 % at 131,072), and
// exchanges that a barrier of the whole cluster ends (94 instead of 99 % there).
#include "common.cuh"
#include "parts.cuh"

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
// The counterpart, for fused_long: a whole vector where it lies in the row, else the elements that do.
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

// How many elements the row starts past a 16-byte boundary.
template <typename T, bool ALIGNED> __device__ __forceinline__ int elements_past_boundary(const T* row)
{
    return ALIGNED ? 0 : (int)(reinterpret_cast<unsigned long long>(row) % 16 / sizeof(T));
}

// One row in the registers of THREADS lanes: lane t holds vectors t, t + THREADS, t + 2 THREADS, ... of those that
// lie wholly in the row, and of a row that does not start on a boundary a few elements of its two ends.
template <typename T, int THREADS, int VECTORS, bool ALIGNED>
__global__ void __launch_bounds__(SHORT_BLOCK(VECTORS)) fused_short(const T* x, T* y, long long rows, long long cols)
{
    const int LENGTH = Vector<T>::LENGTH, EDGE = EDGES(T, THREADS, ALIGNED);
    int lane = threadIdx.x % THREADS;
    long long row = (long long)blockIdx.x * (SHORT_BLOCK(VECTORS) / THREADS) + threadIdx.x / THREADS;
    if (row >= rows) return;
    // A shuffle names the lanes that take part: the THREADS neighbours that share this row, and no others of the warp,
    // which may have returned for want of a row.
    unsigned mask = THREADS == WARP ? 0xffffffff
                                    : ((1u << (THREADS % WARP)) - 1) << (threadIdx.x % WARP / THREADS * THREADS);
    x += row * cols;
    y += row * cols;
    const Row<T, ALIGNED> layout(x, cols);
    const int vectors = (int)layout.vectors;
    const int4* from = reinterpret_cast<const int4*>(x + layout.head);
    int4* to = reinterpret_cast<int4*>(y + layout.head);

    // All loads are issued before the first value is used: VECTORS x 16 bytes a lane are in flight at once.
    float value[VECTORS][LENGTH], edge[EDGE + 1], maximum = NEGATIVE_INFINITY;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        int number = lane + v * THREADS;
        int4 words = load_16_bytes(from + number, number < vectors, nothing<T>());
        Vector<T> vector = __builtin_bit_cast(Vector<T>, words);
#pragma unroll
        for (int k = 0; k < LENGTH; k++) value[v][k] = to_float(vector.element[k]);
    }
#pragma unroll
    for (int e = 0; e < EDGE; e++) {
        long long column = layout.edge_column(lane + e * THREADS);
        edge[e] = column >= 0 ? to_float(x[column]) : NEGATIVE_INFINITY;
        maximum = fmaxf(maximum, edge[e]);
    }
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#pragma unroll
        for (int k = 0; k < LENGTH; k++) maximum = fmaxf(maximum, value[v][k]);
    }
    // First exchange: the row's maximum. The exponentials replace
    // the values, so that no second set of registers is needed.
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
#pragma unroll
    for (int e = 0; e < EDGE; e++) {
        edge[e] = exponential<T>(edge[e], shift);
        sum += edge[e];
    }
    // Second exchange: the sum. One division a row; the lanes multiply by its inverse.
    float scale = 1.0f / sum_over<THREADS>(sum, mask);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        int number = lane + v * THREADS;
        Vector<T> vector;
#pragma unroll
        for (int k = 0; k < LENGTH; k++) from_float(value[v][k] * scale, vector.element[k]);
        if (number < vectors) to[number] = __builtin_bit_cast(int4, vector);
    }
#pragma unroll
    for (int e = 0; e < EDGE; e++) {
        long long column = layout.edge_column(lane + e * THREADS);
        if (column >= 0) from_float(edge[e] * scale, y[column]);
    }
}

// One row in CLUSTER blocks. A warp has a run of vectors: each lane VECTORS of them in registers and
// `more`, where those are too few, in shared memory, where it alone reads them: no barrier. The first
// warp's lanes also have an element each of the row's ends, those outside the whole vectors. Runs begin
// on 128-byte lines, so that a warp's access touches four of them and not five.
// KEEP: the exponentials of a 16-bit row stay in registers, unpacked; in float32 they always do.
template <typename T, int VECTORS, int CLUSTER, bool KEEP>
__device__ __forceinline__ void softmax_of_row(const T* x, T* y, int cols, int more)
{
    extern __shared__ Held<float> slots[];
    __shared__ Partial partials[CLUSTER * WARP];
    __shared__ unsigned long long arrived;
    int lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    int warp = blockIdx.x % CLUSTER * warps + threadIdx.x / WARP;  // in the cluster
    if (CLUSTER > 1) expect_from_cluster(&arrived, CLUSTER * warps * sizeof(Partial));

    // The row is `head` elements, `whole` vectors, `tail` elements. The warps' runs are shifted back by as many vectors
    // as the first one lies past a line, as far as there is room, so that each run begins on a line; a vector before
    // the row's first has a number that as an unsigned is too large for `has`.
    unsigned long long address = reinterpret_cast<unsigned long long>(x);
    int head = (16 - address % 16) % 16 / sizeof(T), whole = (cols - head) / Vector<T>::LENGTH;
    int tail = cols - head - whole * Vector<T>::LENGTH, past_line = (address + 15) / 16 % 8;
    int capacity = CLUSTER * warps * WARP * (VECTORS + more);
    int first = warp * WARP * (VECTORS + more) + lane - min(past_line, capacity - whole);
    int edge_col = warp > 0 || lane >= head + tail ? -1 : lane < head ? lane : cols - tail + lane - head;
    auto has = [&](int v) { return (unsigned)(first + v * WARP) < (unsigned)whole; };
    const Held<T>* from = reinterpret_cast<const Held<T>*>(x + head) + first;
    Held<T>* to = reinterpret_cast<Held<T>*>(y + head) + first;
    Held<T>* slot = reinterpret_cast<Held<T>*>(slots) + threadIdx.x;

    for (int v = 0; v < more; v++) {
        if (has(VECTORS + v)) copy_asynchronously(slot + v * blockDim.x, from + (VECTORS + v) * WARP);
    }
    Held<T> held[VECTORS];
    float unpacked[KEEP ? VECTORS : 1][Vector<T>::LENGTH];
    unsigned none = nothing<T>(), largest = none;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        held[v] = __builtin_bit_cast(Held<T>, load_16_bytes(from + v * WARP, has(v), none));
    }
    float edge = edge_col >= 0 ? to_float(x[edge_col]) : NEGATIVE_INFINITY;

    // The largest word is found packed, two 16-bit elements at a time; only the winner is unpacked.
#pragma unroll
    for (int v = 0; v < VECTORS; v++) largest = held[v].largest(largest);
    // A thread waits for its own copies and reads only those: no barrier is needed.
    if (more) asm volatile("cp.async.wait_all;" ::: "memory");
    for (int v = 0; v < more; v++) {
        if (has(VECTORS + v)) largest = slot[v * blockDim.x].largest(largest);
    }
    float value[Held<T>::WORD], maximum = edge, sum = 0.0f;
    unpack<T>(largest, value);
#pragma unroll
    for (int k = 0; k < Held<T>::WORD; k++) maximum = fmaxf(maximum, value[k]);
    // Finite, so that a warp that met only -infinity has a sum of 0 and no NaN.
    float shift = row_shift(fmaxf(maximum_over<WARP>(maximum, 0xffffffff), LOWEST));
    if (edge_col >= 0) sum = exponential<T>(edge, shift);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        sum += KEEP ? held[v].exponentiate(shift, unpacked[KEEP ? v : 0]) : held[v].exponentiate(shift);
    }
    for (int v = 0; v < more; v++) {
        if (has(VECTORS + v)) sum += slot[v * blockDim.x].exponentiate(shift);
    }
    Partial own = {shift, sum_over<WARP>(sum, 0xffffffff)};

    // One exchange: every warp tells every block of the cluster, then each warp adds up by itself.
    if (CLUSTER > 1) {
        await_cluster();
        if (lane < CLUSTER) send_to_peer(&partials[warp], &arrived, lane, own);
        await_arrivals(&arrived);
    } else {
        if (lane == 0) partials[warp] = own;
        __syncthreads();
    }
    float total = 0.0f;
    maximum = LOWEST;
    // Not unrolled: the number of warps is known at the launch only, and each warp does this redundantly.
#pragma unroll 1
    for (int i = lane; i < CLUSTER * warps; i += WARP) maximum = fmaxf(maximum, partials[i].shift);
    maximum = maximum_over<WARP>(maximum, 0xffffffff);
#pragma unroll 1
    for (int i = lane; i < CLUSTER * warps; i += WARP) {
        total += partials[i].sum * exponential_for_sum(partials[i].shift, maximum);
    }
    float scale = 1.0f / sum_over<WARP>(total, 0xffffffff), edge_scale = scale;
    if (KEEP || sizeof(T) == 4) {
        // exp(shift - maximum) in two factors, of which neither is flushed to 0 where the product is not.
        float below = shift - maximum, near = fmaxf(below, -64.0f);
        scale = exponential_accurate(near, 0.0f) * scale * exponential_accurate(below - near, 0.0f);
    }
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        // float32 and KEEP multiply what they hold around the warp's own shift, corrected in `scale`; packed 16-bit
        // values are exponentiated anew around the row's.
        Held<T> result = KEEP ? Held<T>::quotient(unpacked[KEEP ? v : 0], scale) : held[v].quotient(maximum, scale);
        if (has(v)) *reinterpret_cast<int4*>(to + v * WARP) = __builtin_bit_cast(int4, result);
    }
    for (int v = 0; v < more; v++) {
        Held<T> result = slot[v * blockDim.x].quotient(maximum, scale);
        if (has(VECTORS + v)) *reinterpret_cast<int4*>(to + (VECTORS + v) * WARP) = __builtin_bit_cast(int4, result);
    }
    if (edge_col >= 0) from_float(exponential<T>(edge, maximum) * edge_scale, y[edge_col]);
}

// The 16-byte slots of dynamic shared memory that the launch gave each thread.
__device__ __forceinline__ int slots_a_thread()
{
    unsigned bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes / (16 * blockDim.x);
}

template <typename T, int VECTORS>
__global__ void __launch_bounds__(LARGEST_BLOCK) fused_block(const T* x, T* y, long long rows, long long cols)
{
    softmax_of_row<T, VECTORS, 1, false>(x + blockIdx.x * cols, y + blockIdx.x * cols, cols, 0);
}

template <typename T, int VECTORS>
__global__ void __launch_bounds__(LARGEST_BLOCK) fused_shared(const T* x, T* y, long long rows, long long cols)
{
    softmax_of_row<T, VECTORS, 1, false>(x + blockIdx.x * cols, y + blockIdx.x * cols, cols, slots_a_thread());
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // clusters came with Hopper
template <typename T, int VECTORS, int CLUSTER>
__global__ void __launch_bounds__(LARGEST_BLOCK) __cluster_dims__(CLUSTER, 1, 1)
fused_cluster(const T* x, T* y, long long rows, long long cols)
{
    long long row = blockIdx.x / CLUSTER;
    softmax_of_row<T, VECTORS, CLUSTER, false>(x + row * cols, y + row * cols, cols, slots_a_thread());
}

template <typename T, int VECTORS, int CLUSTER>
__global__ void __launch_bounds__(KEEPING_BLOCK) __cluster_dims__(CLUSTER, 1, 1)
fused_kept(const T* x, T* y, long long rows, long long cols)
{
    long long row = blockIdx.x / CLUSTER;
    softmax_of_row<T, VECTORS, CLUSTER, true>(x + row * cols, y + row * cols, cols, 0);
}
#endif

// Rows of any length: a pass that keeps a running shift and sum, a pass that writes. The shift starts
// finite, so that a thread that met only -infinity has a sum of 0 and no NaN.
template <typename T, int THREADS, int VECTORS, bool ALIGNED>
__global__ void __launch_bounds__(THREADS) fused_long(const T* x, T* y, long long rows, long long cols)
{
    const int LENGTH = Vector<T>::LENGTH;
    const int TILE = THREADS * VECTORS * LENGTH;
    // Two, one for each reduction: the second may begin while a slow warp still reads the first one's.
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
        // Online softmax (Milakov and Gimelshein 2018): the running sum is rescaled when the shift grows.
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
    // each thread's sum is brought from its own shift to the row's before they are added
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
