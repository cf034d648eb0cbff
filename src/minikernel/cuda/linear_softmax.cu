// The LM head in one kernel: probabilities = softmax(h weight^T + bias), the logits never in memory.
//
// h is (rows, 64), the weights (600, 64), all float32. Tensor cores multiply float16, so every number
// is split into two, x = high + low, each of 11 significant bits: together 22, close to float32's 24.
// Three products, low*high + high*low + high*high, keep all that matters (low*low is 2^-24 of the
// whole). A row of h, and a row of the weights, is first scaled by a power of two to lie below 2^15, so
// that neither half leaves float16's range, whatever the range of the inputs.
//
// A block is persistent, one on each multiprocessor. It splits the weights once and keeps them in
// shared memory. Its warps work in groups of four that share 16 rows of h, a quarter of the columns
// each; a thread holds its 76 logits, then their exponentials, in registers. Four groups run freely
// side by side: while one multiplies, another takes exponentials or writes.
//
// Three things keep float32's accuracy, and cost nothing:
//   * tensor cores truncate what they add. Each 16 features are summed from zero, the small products
//     first, and the sums are joined by ordinary rounded additions.
//   * the weights and the bias are multiplied by log2(e) before they are split: the logits come out to
//     base 2, and the exponential is the special function unit's 2^x without a rounding in between.
//   * by Cauchy and Schwarz no logit of a row exceeds |h| max|w| + max|b|. Where that is small, as it
//     nearly always is, no maximum is subtracted: one rounding and one exchange between warps less.
#include "common.cuh"

#define FEATURES 64
#define COLUMNS 600
#define WARP 32
#define GROUPS 4                                 // of 4 warps, each with rows of its own
#define GROUP_THREADS 128
#define THREADS (GROUPS * GROUP_THREADS)
#define TILE_ROWS 16                             // of h, the height of a tensor core's product
#define WARP_COLUMNS 152                         // 19 products' widths of 8; the last warp has 18
#define PAIRS 9                                  // 8 + 8 columns; what is left is the single
#define PADDED_COLUMNS (4 * WARP_COLUMNS)
#define LINE_BYTES (FEATURES * 2)                // a row of halves in shared memory
#define SAFE_BOUND 100.0f                        // 600 * 2^100 and its inverse are normal floats
#define PROLOGUE_BATCH 5                         // rows of weights that a thread has in flight

typedef unsigned int word;                       // two float16

struct Shared {
    word weight[2][PADDED_COLUMNS][FEATURES / 2];    // [high, low], swizzled, see `line_offset`
    word hidden[GROUPS][2][TILE_ROWS][FEATURES / 2]; // likewise
    float4 incoming[GROUPS][TILE_ROWS][FEATURES / 4];
    float scale[PADDED_COLUMNS];                     // undoes the weights' scaling
    float bias[PADDED_COLUMNS];                      // to base 2
    float row_scale[GROUPS][TILE_ROWS];              // undoes that of h
    float row_norm[GROUPS][TILE_ROWS];
    float exchange[GROUPS][2][4][TILE_ROWS];         // maxima, sums: a number a warp a row
    int weight_norm, bias_bound;                     // largest, as the bits of a non-negative float
};

__device__ __forceinline__ word pack(float first, float second)
{
    word packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
    return packed;
}

__device__ __forceinline__ float half_of(word packed, int which)
{
    return to_float(float16{(unsigned short)(packed >> (16 * which))});
}

// What pack lost of two numbers, again as two halves.
__device__ __forceinline__ word pack_rest(float first, float second, word packed)
{
    return pack(first - half_of(packed, 0), second - half_of(packed, 1));
}

__device__ __forceinline__ word shared_address(const void* pointer) { return (word)__cvta_generic_to_shared(pointer); }

// Where 16-byte chunk `chunk` of line `line` lies: chunks are permuted within a line, so that one chunk
// of eight neighbouring lines, which is what a tensor core wants at a time, falls into different banks.
__device__ __forceinline__ int line_offset(int line, int chunk) { return line * LINE_BYTES + ((chunk ^ (line & 7)) << 4); }

__device__ __forceinline__ void load_matrices(word address, word* fragment)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(address) : "memory");
}

// sum += a b over 16 features: 16 rows of h by 8 columns.
__device__ __forceinline__ void multiply(float* sum, const word* a, const word* b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void group_barrier(int group)
{
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(GROUP_THREADS) : "memory");
}

// The bits of the largest absolute value; from 0x7f800000 on there was an infinity or a NaN.
__device__ __forceinline__ int magnitude(const float* value)
{
    int largest = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) largest = max(largest, __float_as_int(value[i]) & 0x7fffffff);
#pragma unroll
    for (int step = 4; step > 0; step /= 2) largest = max(largest, __shfl_xor_sync(0xffffffff, largest, step));
    return largest;
}

__device__ __forceinline__ float norm(const float* value)
{
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) squares = __fmaf_rn(value[i], value[i], squares);
#pragma unroll
    for (int step = 4; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffff, squares, step);
    return sqrtf(squares);
}

// The power of two, as its biased exponent, that takes a number of these bits into [2^14, 2^15).
__device__ __forceinline__ int scaling_exponent(int bits) { return min(127 + 14 + 127 - (bits >> 23), 253); }
__device__ __forceinline__ float power_of_two(int biased) { return __int_as_float(biased << 23); }

__device__ __forceinline__ bool is_finite(float value) { return (__float_as_int(value) & 0x7fffffff) < 0x7f800000; }

// Eight lanes hold a line, lane c its features 4c .. 4c + 3 and 32 + 4c .. 32 + 4c + 3. `rest` is what the
// scaled values have beyond float32, or zero.
template <int PRODUCTS>
__device__ __forceinline__ void store_split(char* high, char* low, int line, int c, const float* value, const float* rest)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float *v = value + 4 * half, *r = rest + 4 * half;
        int offset = line_offset(line, c / 2 + 4 * half) + 8 * (c % 2);
        uint2 packed = make_uint2(pack(v[0], v[1]), pack(v[2], v[3]));
        *reinterpret_cast<uint2*>(high + offset) = packed;
        if (PRODUCTS == 3) {
            word first = pack(v[0] - half_of(packed.x, 0) + r[0], v[1] - half_of(packed.x, 1) + r[1]);
            word second = pack(v[2] - half_of(packed.y, 0) + r[2], v[3] - half_of(packed.y, 1) + r[3]);
            *reinterpret_cast<uint2*>(low + offset) = make_uint2(first, second);
        }
    }
}

// The line at which a column's weights stand. A thread receives columns 2q, 2q + 1 of each product; the
// columns of two neighbouring products are interleaved so that it gets four in a row, a 16-byte store.
__device__ __forceinline__ int line_of_column(int column)
{
    int start = column / WARP_COLUMNS * WARP_COLUMNS, within = column % WARP_COLUMNS;
    if (within >= 16 * PAIRS) return column;
    int r = within % 16;
    return start + within - r + 8 * (r / 2 % 2) + 2 * (r / 4) + r % 2;
}

template <int PRODUCTS>
__device__ __forceinline__ void split_weights(Shared& shared, const float* weight, const float* bias)
{
    const float log2e = 1.4426950216293335f, log2e_tail = 1.9259629e-8f;
    const int STEP = THREADS / 8;
    int c = threadIdx.x % 8;
    float largest_norm = 0.0f;
    for (int first = threadIdx.x / 8; first < COLUMNS; first += PROLOGUE_BATCH * STEP) {
        float4 loaded[PROLOGUE_BATCH][2];
#pragma unroll
        for (int b = 0; b < PROLOGUE_BATCH; b++) {
            const float4* row = reinterpret_cast<const float4*>(weight) + min(first + b * STEP, COLUMNS - 1) * (FEATURES / 4);
            loaded[b][0] = __ldg(row + c);
            loaded[b][1] = __ldg(row + 8 + c);
        }
#pragma unroll
        for (int b = 0; b < PROLOGUE_BATCH; b++) {
            int column = min(first + b * STEP, COLUMNS - 1);
            float value[8] = {loaded[b][0].x, loaded[b][0].y, loaded[b][0].z, loaded[b][0].w,
                              loaded[b][1].x, loaded[b][1].y, loaded[b][1].z, loaded[b][1].w};
            float rest[8];
            int bits = magnitude(value);
            bool finite = bits < 0x7f800000;
            int exponent = scaling_exponent(bits);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                // An infinite weight is a one, of infinite scale; finite ones beside it are nothing.
                float scaled = finite ? value[i] * power_of_two(exponent)
                                      : is_finite(value[i]) ? 0.0f : fmaxf(fminf(value[i], 1.0f), -1.0f) + 0.0f * (value[i] - value[i] == 0.0f);
                value[i] = finite ? scaled * log2e : scaled;
                rest[i] = finite ? __fmaf_rn(scaled, log2e, -value[i]) + scaled * log2e_tail : 0.0f;
            }
            float scale = finite ? power_of_two(254 - exponent) : __int_as_float(0x7f800000);
            largest_norm = fmaxf(largest_norm, norm(value) * scale);
            store_split<PRODUCTS>(reinterpret_cast<char*>(shared.weight[0]), reinterpret_cast<char*>(shared.weight[1]),
                                  line_of_column(column), c, value, rest);
            if (c == 0) shared.scale[column] = scale;
        }
    }
    float bias_bound = 0.0f;
    for (int column = threadIdx.x; column < COLUMNS; column += THREADS) {
        float b = bias ? bias[column] : 0.0f;
        float scaled = is_finite(b) ? fmaxf(fminf(b * log2e, 3.4028235e38f), -3.4028235e38f) : b;
        shared.bias[column] = scaled;
        if (scaled != NEGATIVE_INFINITY) bias_bound = fmaxf(bias_bound, fabsf(scaled));
    }
    atomicMax(&shared.weight_norm, __float_as_int(largest_norm));
    atomicMax(&shared.bias_bound, __float_as_int(bias_bound));
}
