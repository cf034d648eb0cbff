// The parts that fused.cu and fused_backward.cu are made of: reductions; 16 bytes of a row, held as they came;
// and the PTX of asynchronous copies to shared memory and of thread-block clusters with their distributed
// shared memory (Hopper). After quack's softmax, which holds a row in a cluster too (github.com/Dao-AILab/quack).

#define WARP 32
#define LARGEST_BLOCK 1024
#define LOWEST -3.4028235e38f
// Threads of a block that holds short rows: few, so that its registers return soon, but as a multiprocessor
// takes at most 32 blocks, enough to keep 2 KB of loads in flight in each. Measured on an H200.
#define SHORT_BLOCK(VECTORS) ((VECTORS) >= 4 ? 32 : (VECTORS) >= 2 ? 64 : 128)

template <typename T> struct alignas(16) Vector {
    static const int LENGTH = 16 / sizeof(T);
    T element[LENGTH];
};

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
    asm volatile("{ .reg .b64 own; .reg .b32 address; cvta.to.shared.u64 own, %0; cvt.u32.u64 address, own;\n"
                 "cp.async.cg.shared.global [address], [%1], 16; }" ::"l"(to_shared), "l"(from) : "memory");
}

__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Store a partial at the address that `slot` has in the shared memory of block `rank` of the cluster.
__device__ __forceinline__ void store_in_peer(Partial* slot, int rank, Partial partial)
{
    asm volatile("{ .reg .b64 own; .reg .b32 address; cvta.to.shared.u64 own, %0; cvt.u32.u64 address, own;\n"
                 "mapa.shared::cluster.u32 address, address, %1;\n"
                 "st.shared::cluster.v2.f32 [address], {%2, %3}; }"
                 ::"l"(slot), "r"(rank), "f"(partial.shift), "f"(partial.sum) : "memory");
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
    // shorter types keep the values, packed, and compute the exponentials once more in the end.
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
