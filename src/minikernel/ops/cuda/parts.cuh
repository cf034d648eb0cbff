// The parts that fused.cu and fused_backward.cu are made of: reductions; 16 bytes of a row, held as they came;
// and the PTX of asynchronous copies to shared memory and of thread-block clusters with their distributed
// shared memory (Hopper). After quack's softmax, which holds a row in a cluster too (github.com/Dao-AILab/quack).

#define WARP 32
#define LARGEST_BLOCK 1024
#define KEEPING_BLOCK 128
#define LOWEST -3.4028235e38f
// Threads of a block that holds short rows: few, so that its registers return soon, but as a multiprocessor
// takes at most 32 blocks, enough to keep 2 KB of loads in flight in each. Measured on an H200.
#define SHORT_BLOCK(VECTORS) ((VECTORS) >= 4 ? 32 : (VECTORS) >= 2 ? 64 : 128)

// 16 bytes are the most that one load or store of a thread moves: 4 float32 or 8 elements of 16 bits.
template <typename T> struct alignas(16) Vector {
    static const int LENGTH = 16 / sizeof(T);
    T element[LENGTH];
};

// How the L2 cache is to hold what is read: over what is written ("evict last"). On an H200 a softmax of a tensor that
// exceeds the cache takes 1 to 4 % less time so, forward and backward, and a smaller one no more. With its result
// multiplied next, from 10 to 120 MB: 1.6 % more to 1.9 % less; with its input added up before besides: 0.5 to 5 % less.
__device__ __forceinline__ unsigned long long keep_in_cache()
{
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// 16 bytes, or where they are not inside, four times the word `outside`. Predicated: around a branch the compiler
// would unpack one vector before it loads the next.
__device__ __forceinline__ int4 load_16_bytes(const void* from, bool inside, unsigned outside)
{
    int4 words = make_int4(outside, outside, outside, outside);
    asm volatile("{ .reg .pred inside; setp.ne.u32 inside, %5, 0;\n"
                 "@inside ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %6; }"
                 : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w)
                 : "l"(from), "r"((unsigned)inside), "l"(keep_in_cache()));
    return words;
}

// Where a row's vectors lie: `head` elements, `vectors` vectors from a 16-byte boundary on, `tail` elements.
template <typename T, bool ALIGNED> struct Row {
    long long head, vectors, tail;

    __device__ __forceinline__ Row(const T* row, long long cols)
    {
        const int LENGTH = Vector<T>::LENGTH;
        // ALIGNED is known when it is compiled: then head and tail are 0, and the code for them is gone.
        int past = ALIGNED ? 0 : (int)(reinterpret_cast<unsigned long long>(row) % 16 / sizeof(T));
        head = past ? LENGTH - past : 0;
        if (head > cols) head = cols;
        vectors = (cols - head) / LENGTH;
        tail = cols - head - vectors * LENGTH;
    }

    // The column of the row's edge element number `edge`: head first, then tail from LENGTH on; -1: none.
    __device__ __forceinline__ long long edge_column(int edge) const
    {
        const int LENGTH = Vector<T>::LENGTH;
        if (edge < LENGTH) return edge < head ? edge : -1;
        return edge - LENGTH < tail ? head + vectors * LENGTH + edge - LENGTH : -1;
    }
};

// How many edge elements each of the THREADS threads of a row looks after.
#define EDGES(T, THREADS, ALIGNED) ((ALIGNED) ? 0 : (2 * Vector<T>::LENGTH + (THREADS) - 1) / (THREADS))

// A butterfly: after steps of THREADS/2, ..., 2, 1 every lane has the result, so that none needs to hand it out.
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
    // Every warp reduces the warps' results by itself: one barrier a block, and no second one to hand the result out.
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

// What a warp knows of its part of a row: the shift of its exponentials, and their sum.
struct alignas(8) Partial { float shift, sum; };

// The elements in a 32-bit word of a row, one float32 or two of 16 bits, and back.
template <typename T> __device__ __forceinline__ void unpack(unsigned word, float* value);
template <typename T> __device__ __forceinline__ unsigned pack(const float* value);
template <> __device__ __forceinline__ void unpack<float>(unsigned word, float* value)
{
    value[0] = __int_as_float(word);
}
template <> __device__ __forceinline__ unsigned pack<float>(const float* value) { return __float_as_int(value[0]); }
// Two bfloat16 in a word, the first one low: a shift and a mask are the whole conversion.
template <> __device__ __forceinline__ void unpack<bfloat16>(unsigned word, float* value)
{
    value[0] = __int_as_float(word << 16);
    value[1] = __int_as_float(word & 0xffff0000);
}
template <> __device__ __forceinline__ unsigned pack<bfloat16>(const float* value)
{
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(value[1]), "f"(value[0]));
    return word;
}
template <> __device__ __forceinline__ void unpack<float16>(unsigned word, float* value)
{
    asm("{ .reg .f16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
                 : "=f"(value[0]), "=f"(value[1]) : "r"(word));
}
template <> __device__ __forceinline__ unsigned pack<float16>(const float* value)
{
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(value[1]), "f"(value[0]));
    return word;
}
// The larger of two words, element by element; a NaN counts as missing.
template <typename T> __device__ __forceinline__ unsigned larger(unsigned one, unsigned other);
template <> __device__ __forceinline__ unsigned larger<float>(unsigned one, unsigned other)
{
    return __float_as_int(fmaxf(__int_as_float(one), __int_as_float(other)));
}
// Both elements of a word are compared at once, without unpacking: the maximum needs no more registers.
template <> __device__ __forceinline__ unsigned larger<bfloat16>(unsigned one, unsigned other)
{
    unsigned word;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(one), "r"(other));
    return word;
}
template <> __device__ __forceinline__ unsigned larger<float16>(unsigned one, unsigned other)
{
    unsigned word;
    asm("max.f16x2 %0, %1, %2;" : "=r"(word) : "r"(one), "r"(other));
    return word;
}
// A word of which every element is -infinity.
template <typename T> __device__ __forceinline__ unsigned nothing()
{
    const float value[2] = {NEGATIVE_INFINITY, NEGATIVE_INFINITY};
    return pack<T>(value);
}

__device__ __forceinline__ void copy_asynchronously(void* to_shared, const void* from)
{
    // cp.async.cg goes past the L1 cache, where a row that is read once would only push others out.
    asm volatile("{ .reg .b64 own; .reg .b32 address; cvta.to.shared.u64 own, %0; cvt.u32.u64 address, own;\n"
                 "cp.async.cg.shared.global.L2::cache_hint [address], [%1], 16, %2; }"
                 ::"l"(to_shared), "l"(from), "l"(keep_in_cache()) : "memory");
}

// A cluster's blocks tell each other something once: each waits on a barrier in its own shared memory until as many
// bytes have arrived there as it expects, and the stores that bring them count themselves. Another barrier of the
// whole cluster instead costs two more trips between multiprocessors: a tenth of the time of a long row.
__device__ __forceinline__ unsigned shared_address(const void* pointer)
{
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// Called by all threads of a block, first thing: nobody may store to a block that has not begun.
__device__ __forceinline__ void expect_from_cluster(unsigned long long* arrived, int bytes)
{
    if (threadIdx.x == 0) {
        unsigned barrier = shared_address(arrived);
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                     "fence.mbarrier_init.release.cluster;\n"
                     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    }
    // The barrier is initialised before anyone hears that this block has begun: no store can come before it.
    __syncwarp();
    // relaxed: nothing but the barrier's own state has to be seen by the others, and the fence above sees to that
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// Until every block of the cluster has begun; called by all threads, after their loads are under way.
__device__ __forceinline__ void await_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Store at the address that `slot` has in block `rank` of the cluster, whose `arrived` counts the bytes.
__device__ __forceinline__ void send_to_peer(float* slot, unsigned long long* arrived, int rank, float value)
{
    asm volatile("{ .reg .b32 address, barrier;\n"
                 "mapa.shared::cluster.u32 address, %0, %2;\n"
                 "mapa.shared::cluster.u32 barrier, %1, %2;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [address], %3, [barrier]; }"
                 ::"r"(shared_address(slot)), "r"(shared_address(arrived)), "r"(rank), "f"(value) : "memory");
}
__device__ __forceinline__ void send_to_peer(Partial* slot, unsigned long long* arrived, int rank, Partial value)
{
    asm volatile("{ .reg .b32 address, barrier;\n"
                 "mapa.shared::cluster.u32 address, %0, %2;\n"
                 "mapa.shared::cluster.u32 barrier, %1, %2;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [address], {%3, %4}, [barrier]; }"
                 ::"r"(shared_address(slot)), "r"(shared_address(arrived)), "r"(rank), "f"(value.shift), "f"(value.sum)
                 : "memory");
}

__device__ __forceinline__ void await_arrivals(unsigned long long* arrived)
{
    // The first phase of the barrier, parity 0: it is used once in a launch. `acquire` lets the threads see what came.
    unsigned all = 0;
    while (!all) {
        asm volatile("{ .reg .pred all;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 all, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, all; }" : "=r"(all) : "r"(shared_address(arrived)) : "memory");
    }
}

// 16 bytes of a row, as they are held in registers or in shared memory.
template <typename T> struct alignas(16) Held {
    static const int WORD = 4 / sizeof(T);
    unsigned word[4];

    __device__ __forceinline__ unsigned largest(unsigned so_far) const
    {
#pragma unroll
        for (int w = 0; w < 4; w++) so_far = larger<T>(so_far, word[w]);
        return so_far;
    }

    // The sum of the exponentials. In float32 they replace the values; 16 bits could not hold them:
    // shorter types keep the values, packed, and compute the exponentials once more in the end, or where
    // there are registers enough keep the exponentials as `unpacked`.
    __device__ __forceinline__ float exponentiate(float shift)
    {
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < 4; w++) {
            float value[WORD];
            unpack<T>(word[w], value);
#pragma unroll
            for (int k = 0; k < WORD; k++) sum += value[k] = exponential<T>(value[k], shift);
            if (sizeof(T) == 4) word[w] = pack<T>(value);
        }
        return sum;
    }

    // The same, each exponential kept as a float of its own.
    __device__ __forceinline__ float exponentiate(float shift, float* unpacked) const
    {
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < 4; w++) {
            unpack<T>(word[w], unpacked + w * WORD);
#pragma unroll
            for (int k = w * WORD; k < (w + 1) * WORD; k++) sum += unpacked[k] = exponential<T>(unpacked[k], shift);
        }
        return sum;
    }

    // The result as it is stored, from exponentials that were kept: scaled and packed.
    static __device__ __forceinline__ Held quotient(const float* unpacked, float scale)
    {
        Held result;
#pragma unroll
        for (int w = 0; w < 4; w++) {
            float value[WORD];
#pragma unroll
            for (int k = 0; k < WORD; k++) value[k] = scale * unpacked[w * WORD + k];
            result.word[w] = pack<T>(value);
        }
        return result;
    }

    // From what is held: in float32 the exponentials, in 16 bits the values, whose exponentials are computed once more.
    __device__ __forceinline__ Held quotient(float shift, float scale) const
    {
        Held result;
#pragma unroll
        for (int w = 0; w < 4; w++) {
            float value[WORD];
            unpack<T>(word[w], value);
#pragma unroll
            for (int k = 0; k < WORD; k++) {
                value[k] = scale * (sizeof(T) == 4 ? value[k] : exponential<T>(value[k], shift));
            }
            result.word[w] = pack<T>(value);
        }
        return result;
    }
};
