// The LM head in one kernel: probabilities = softmax(h weight^T + bias), the logits never in memory.
//
// h is (rows, 64), the weights (600, 64), all float32. Tensor cores multiply float16, so every number
// is split into two, x = high + low, each of 11 significant bits: together 22, close to float32's 24.
// Three products, low*high + high*low + high*high, keep all that matters (low*low is 2^-24 of the
// whole). A row of h, and a row of the weights, is first scaled by a power of two to lie below 2^15, so
// that neither half leaves float16's range, whatever the range of the inputs.
//
// A block is persistent, one on each multiprocessor. It splits the weights once, on their way through
// its registers, and keeps the halves in shared memory. Its warps work in four groups of four; a group
// shares 16 rows of h, a quarter of the columns each, and a thread holds its 76 logits, then their
// exponentials, in registers. Groups run side by side: while some multiply, others take exponentials or
// write.
//
// Three things keep float32's accuracy, and cost next to nothing:
//   * tensor cores truncate what they add. Each 16 features are summed from zero, the small products
//     first, and the sums are joined by ordinary rounded additions.
//   * log2(e) is multiplied into the weights and the bias before they are split: the logits come out to
//     base 2, and the exponential is the special function unit's 2^x without a rounding in between.
//   * by Cauchy and Schwarz no logit of a row exceeds |h| max|w| + max|b|. Where that is small, as it
//     nearly always is, no maximum is subtracted: one rounding and one exchange between warps less.
//
// Tried on an H200 and left out, because they were slower or hardly faster:
//   * tiles of 32 rows (half the reads of the weights, half the warps), wgmma with tiles of 64 rows, the
//     loop over the features unrolled, groups that take turns at the tensor cores, streaming stores;
//   * weights copied to shared memory as they are and split from there: 1 us more before the first tile;
//   * the first tile of h split while the weights are under way: 0.5 us more;
//   * weights in the registers of 15 warps that share each tile: 2 us less for few rows, but every warp
//     waits for the slowest at every tile, 1.64 ms for 1,048,576 rows instead of 1.14;
//   * two groups of eight warps: 0.8 us less at 1,024 and 2,048 rows, none at 4,096, and slower beyond,
//     too little for a second division of the block; one group of sixteen: never faster than two.
// Profiled there, the busiest unit is the L1 and shared memory (73 %), which the reads of the weights and
// the stores share; DRAM is at 51 %.
#include "common.cuh"

#define FEATURES 64
#define COLUMNS 600
#define WARP 32
#define GROUPS 4                                 // of four warps, each with rows of its own
#define GROUP_THREADS 128
#define THREADS (GROUPS * GROUP_THREADS)
#define TILE_ROWS 16                             // the height of a tensor core's product
#define WARP_COLUMNS 152                         // 19 products' widths of 8; the last warp has 18
#define WIDTHS 19
#define PAIRS 9                                  // of widths; what is left is the single
#define PADDED_COLUMNS (4 * WARP_COLUMNS)
#define LINE_BYTES (FEATURES * 2)                // a row of halves in shared memory
#define LINES 10                                 // rows of weights of which a thread splits eight features
#define SAFE_BOUND 100.0f                        // 600 * 2^100 and its inverse are normal floats

// log2(e) in two factors, one for the weights and one for the rows of h: one float alone is off by
// 1.3e-8. Their product is 2.4e-8 more, to put back what truncation loses on average (on an H200).
#define LOG2E 1.4426950216293335f
#define LOG2E_OF_WEIGHTS 1.2000091075897217f
#define LOG2E_OF_ROWS 1.2022367715835571f

typedef unsigned int word;                       // two float16

// One block has all of a multiprocessor's shared memory: both halves of the weights take 152 KB of it.
struct Shared {
    word weight[2][PADDED_COLUMNS][FEATURES / 2];     // [high, low], swizzled, see `line_offset`
    word hidden[2][GROUPS][TILE_ROWS][FEATURES / 2];  // likewise
    float4 incoming[GROUPS][TILE_ROWS][FEATURES / 4]; // the next tiles of h
    float scale[PADDED_COLUMNS];                      // undoes the weights' scaling
    float bias[PADDED_COLUMNS];                       // to base 2
    float row_scale[GROUPS][TILE_ROWS];               // undoes that of h
    float row_norm[GROUPS][TILE_ROWS];                // to base 2
    float exchange[2][GROUPS][4][TILE_ROWS];          // maxima, sums: a number a warp a row
    int weight_norm, bias_bound;                      // largest, as the bits of a non-negative float
};
static_assert(sizeof(Shared) == 195856, "the launcher asks for as much");

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

// Where 16-byte chunk `chunk` of line `line` lies: chunks are permuted within a line, so that one
// chunk of eight neighbouring lines, which ldmatrix reads at a time, falls into different banks.
__device__ __forceinline__ int line_offset(int line, int chunk) { return line * LINE_BYTES + ((chunk ^ (line & 7)) << 4); }

__device__ __forceinline__ word shared_address(const void* pointer) { return (word)__cvta_generic_to_shared(pointer); }

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

// Barrier 0 is __syncthreads'; each group has one of its own, so that groups need not wait for each other.
__device__ __forceinline__ void group_barrier(int group)
{
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(GROUP_THREADS) : "memory");
}

__device__ __forceinline__ bool is_finite(float value) { return (__float_as_int(value) & 0x7fffffff) < 0x7f800000; }
__device__ __forceinline__ float power_of_two(int biased) { return __int_as_float(biased << 23); }

// Over the eight lanes that hold a line.
__device__ __forceinline__ float maximum_of_line(float value)
{
#pragma unroll
    for (int step = 4; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, step));
    return value;
}

// The largest absolute value, NaN aside.
__device__ __forceinline__ float magnitude(const float* value)
{
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) largest = fmaxf(largest, fabsf(value[i]));
    return maximum_of_line(largest);
}

// The Euclidean norm.
__device__ __forceinline__ float norm(const float* value)
{
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) squares = __fmaf_rn(value[i], value[i], squares);
#pragma unroll
    for (int step = 4; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffff, squares, step);
    asm("sqrt.approx.ftz.f32 %0, %0;" : "+f"(squares));
    return squares;
}

// The power of two, as its biased exponent, that takes a finite number into [2^14, 2^15).
__device__ __forceinline__ int scaling_exponent(float largest)
{
    return min(127 + 14 + 127 - (__float_as_int(largest) >> 23), 253);
}

// Infinities to their signs, finite numbers to nothing; NaN stays.
__device__ __forceinline__ float sign_if_infinite(float value)
{
    return is_finite(value) ? 0.0f : value == value ? copysignf(1.0f, value) : value;
}

// Start copying 16 bytes to shared memory, or zeros.
__device__ __forceinline__ void start_copy(void* target, const float* source, bool inside)
{
    int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(target)), "l"(source), "r"(bytes) : "memory");
}
__device__ __forceinline__ void finish_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Eight lanes hold a line: lane c its features 4c .. 4c + 3 and 32 + 4c .. 32 + 4c + 3.
__device__ __forceinline__ void unpack(float4 first, float4 second, float* value)
{
    value[0] = first.x, value[1] = first.y, value[2] = first.z, value[3] = first.w;
    value[4] = second.x, value[5] = second.y, value[6] = second.z, value[7] = second.w;
}

template <int PRODUCTS>
__device__ __forceinline__ void store_split(void* high, void* low, int line, int c, const float* value)
{
    const int first = line_offset(line, c / 2) + 8 * (c % 2);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float* v = value + 4 * half;
        int offset = first ^ (half << 6);  // four chunks on
        uint2 packed = make_uint2(pack(v[0], v[1]), pack(v[2], v[3]));
        *reinterpret_cast<uint2*>((char*)high + offset) = packed;
        if (PRODUCTS == 3) {
            *reinterpret_cast<uint2*>((char*)low + offset) =
                make_uint2(pack(v[0] - half_of(packed.x, 0), v[1] - half_of(packed.x, 1)),
                           pack(v[2] - half_of(packed.y, 0), v[3] - half_of(packed.y, 1)));
        }
    }
}

// The line at which a column's weights stand. A thread receives columns 2q, 2q + 1 of each product; the
// columns of two neighbouring products are interleaved so that it gets four in a row, a 16-byte store.
__device__ __forceinline__ int line_of_column(int column)
{
    int within = column % WARP_COLUMNS, r = within % 16;
    return within < 16 * PAIRS ? column - r + 8 * (r / 2 % 2) + 2 * (r / 4) + r % 2 : column;
}

// Eight lanes split a row of the weights, its largest magnitude first found among them.
template <int PRODUCTS>
__device__ __forceinline__ void split_weights(Shared& shared, const float* weight, const float* bias)
{
    const int c = threadIdx.x % 8;
    float4 first[LINES], second[LINES];  // all of the thread's weights are on their way at once
    int column[LINES];
#pragma unroll
    for (int b = 0; b < LINES; b++) {
        column[b] = threadIdx.x / 8 + b * (THREADS / 8);
        if (column[b] >= COLUMNS) column[b] -= THREADS / 8;  // past the end: this thread's last column again
        const float4* source = reinterpret_cast<const float4*>(weight + column[b] * FEATURES) + c;
        first[b] = source[0], second[b] = source[8];
    }
    float largest_norm = 0.0f, bias_bound = 0.0f;
#pragma unroll
    for (int b = 0; b < LINES; b++) {
        float value[8];
        unpack(first[b], second[b], value);
        const float largest = magnitude(value);
        if (!is_finite(largest)) {
            // A column with infinite weights has their signs instead, and an infinite scale.
#pragma unroll
            for (int i = 0; i < 8; i++) value[i] = sign_if_infinite(value[i]);
        }
        const int exponent = is_finite(largest) ? scaling_exponent(largest) : 127;
        const float scale = is_finite(largest) ? power_of_two(254 - exponent) : largest;
        const float factor = LOG2E_OF_WEIGHTS * power_of_two(exponent);
#pragma unroll
        for (int i = 0; i < 8; i++) value[i] *= factor;
        largest_norm = fmaxf(largest_norm, norm(value) * scale);
        store_split<PRODUCTS>(shared.weight[0], shared.weight[1], line_of_column(column[b]), c, value);
        if (c == 0) shared.scale[column[b]] = scale;
    }
    for (int column = threadIdx.x; column < COLUMNS; column += THREADS) {
        float b = bias ? bias[column] : 0.0f;
        // The lowest finite numbers, which some masks hold, are to stay finite.
        float scaled = is_finite(b) ? fmaxf(fminf(b * LOG2E, 3.4028235e38f), -3.4028235e38f) : b;
        shared.bias[column] = scaled;
        if (scaled != NEGATIVE_INFINITY) bias_bound = fmaxf(bias_bound, fabsf(scaled));
    }
    // Non-negative floats are ordered as their bits are, so that the integer maximum serves.
    int weight_bits = __reduce_max_sync(0xffffffff, __float_as_int(largest_norm));
    int bias_bits = __reduce_max_sync(0xffffffff, __float_as_int(bias_bound));
    if (threadIdx.x % WARP == 0) {
        atomicMax(&shared.weight_norm, weight_bits);
        atomicMax(&shared.bias_bound, bias_bits);
    }
}

// The thread's number, read anew: what follows from it would else occupy registers throughout.
__device__ __forceinline__ int thread_index()
{
    int index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
}

// Start copying a group's tile of h; rows beyond the last are zeros. A thread reads only what it copied itself.
__device__ __forceinline__ void start_hidden(Shared& shared, int group, const float* h, long long first_row, long long rows)
{
    int thread = thread_index(), line = thread % GROUP_THREADS / 8, c = thread % 8;
    long long row = first_row + line;
    const float* source = h + (row < rows ? row : 0) * FEATURES + 4 * c;
    start_copy(&shared.incoming[group][line][c], source, row < rows);
    start_copy(&shared.incoming[group][line][8 + c], source + 32, row < rows);
}

// Split this thread's share of the tile that has arrived: eight features of a row.
template <int PRODUCTS> __device__ __forceinline__ void split_hidden(Shared& shared, int group)
{
    int line = threadIdx.x % GROUP_THREADS / 8, c = threadIdx.x % 8;
    float value[8];
    unpack(shared.incoming[group][line][c], shared.incoming[group][line][8 + c], value);
    float largest = magnitude(value);
    int exponent = scaling_exponent(largest);
    float scale = LOG2E_OF_ROWS * power_of_two(254 - exponent);
#pragma unroll
    for (int i = 0; i < 8; i++) value[i] *= power_of_two(exponent);
    store_split<PRODUCTS>(shared.hidden[0][group], shared.hidden[1][group], line, c, value);
    float row_norm = norm(value) * scale;
    if (c == 0) {
        // A row with an infinity is NaN: no logit of it is finite.
        shared.row_scale[group][line] = is_finite(largest) ? scale : __int_as_float(0x7fffffff);
        shared.row_norm[group][line] = row_norm;
    }
}

// Over the four lanes that hold a row, then over the group's four warps.
template <typename Operation>
__device__ __forceinline__ void combine(float (&value)[2], float (*exchange)[TILE_ROWS], int group, Operation operation)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP % 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        value[r] = operation(value[r], __shfl_xor_sync(0xffffffff, value[r], 1));
        value[r] = operation(value[r], __shfl_xor_sync(0xffffffff, value[r], 2));
        if (lane % 4 == 0) exchange[warp][lane / 4 + 8 * r] = value[r];
    }
    group_barrier(group);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int row = lane / 4 + 8 * r;
        value[r] = operation(operation(exchange[0][row], exchange[1][row]), operation(exchange[2][row], exchange[3][row]));
    }
}

template <int PRODUCTS>
__global__ void __launch_bounds__(THREADS, 1)
    linear_softmax(const float* h, const float* weight, const float* bias, float* out, long long rows)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    // Groups take tiles in turn, a grid's width apart, so that few tiles are spread over all multiprocessors first.
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP % 4, group = threadIdx.x / GROUP_THREADS;
    int tile = blockIdx.x + gridDim.x * group;

    // The first tile of h is on its way while the weights are split.
    start_hidden(shared, group, h, (long long)tile * TILE_ROWS, rows);
    if (threadIdx.x == 0) shared.weight_norm = shared.bias_bound = 0;
    __syncthreads();
    split_weights<PRODUCTS>(shared, weight, bias);
    __syncthreads();

    // Lane l gives ldmatrix line l % 8 of matrix l / 8: of a, rows 0-7 and 8-15 of features 0-7, then of
    // 8-15; of b, features 0-7 and 8-15 of one product's columns, then of the next one's. The single has
    // no neighbour: its second pair of matrices is the low half's.
    const int first_line = warp * WARP_COLUMNS + lane % 8;
    const word a_address = shared_address(shared.hidden[0][group]) + line_offset(lane % 16, lane / 16);
    const word b_address = shared_address(shared.weight) + line_offset(first_line + lane / 16 * 8, lane / 8 % 2);
    const word single_address =
        shared_address(shared.weight[lane / 16]) + line_offset(first_line + 16 * PAIRS, lane / 8 % 2);
    const int LOW_A = sizeof(shared.hidden[0]), LOW_B = sizeof(shared.weight[0]);

    for (; (long long)tile * TILE_ROWS < rows; tile += gridDim.x * GROUPS) {
        // A thread splits only what it copied itself, so that its own wait is enough; the barrier below then shows the
        // group all sixteen rows. The next tile's copy starts at once into the place that has just been read.
        finish_copies();
        split_hidden<PRODUCTS>(shared, group);
        start_hidden(shared, group, h, (tile + (long long)gridDim.x * GROUPS) * TILE_ROWS, rows);
        group_barrier(group);
        const float scale[2] = {shared.row_scale[group][lane / 4], shared.row_scale[group][lane / 4 + 8]};
        const float bound =
            shared.row_norm[group][lane % 16] * __int_as_float(shared.weight_norm) + __int_as_float(shared.bias_bound);
        const bool safe = __all_sync(0xffffffff, bound <= SAFE_BOUND);

        float value[WIDTHS][4] = {};  // [][0, 1]: of row lane / 4; [][2, 3]: of the eighth below
#pragma unroll 1                      // unrolled, it outgrows the instruction cache
        for (int step = 0; step < FEATURES / 16; step++) {
            word a[2][4], b[2][4];
            load_matrices(a_address ^ (step << 5), a[0]);
            if (PRODUCTS == 3) load_matrices((a_address ^ (step << 5)) + LOW_A, a[1]);
#pragma unroll
            for (int first = 0; first < WIDTHS; first += 2) {
                const int count = first + 1 < WIDTHS ? 2 : 1;
                // From zero for each 16 features: a tensor core truncates what it adds, by less the smaller the sum is.
                float sum[2][4] = {};
                if (count == 2) {
                    load_matrices((b_address ^ (step << 5)) + first * 8 * LINE_BYTES, b[0]);
                    if (PRODUCTS == 3) load_matrices((b_address ^ (step << 5)) + first * 8 * LINE_BYTES + LOW_B, b[1]);
                } else {
                    load_matrices(single_address ^ (step << 5), b[0]);
                    b[1][0] = b[0][2], b[1][1] = b[0][3];
                }
#pragma unroll
                for (int product = 3 - PRODUCTS; product < 3; product++) {
#pragma unroll
                    for (int w = 0; w < count; w++) multiply(sum[w], a[product == 0], b[product == 1] + 2 * w);
                }
#pragma unroll
                for (int i = 0; i < 4 * count; i++) {
                    float& joined = value[first + i / 4][i % 4];
                    joined = __fmaf_rn(sum[i / 4][i % 4], scale[i % 4 / 2], joined);
                }
            }
        }

        // The weights' scaling undone, the bias added. A thread's columns are four in a row of each pair, two of the single.
        const int column = warp * WARP_COLUMNS + 4 * (lane % 4), single = warp * WARP_COLUMNS + 16 * PAIRS + 2 * (lane % 4);
#pragma unroll
        for (int first = 0; first < WIDTHS; first += 2) {
            const int count = first + 1 < WIDTHS ? 2 : 1;
            float s[4], b[4];
#pragma unroll
            for (int i = 0; i < 2 * count; i++) {
                int k = count == 2 ? column + 8 * first + i : single + i;
                s[i] = shared.scale[k], b[i] = shared.bias[k];
            }
#pragma unroll
            for (int i = 0; i < 4 * count; i++) {
                float& logit = value[first + i / 4][i % 4];
                int k = i / 4 * 2 + i % 2;
                logit = __fmaf_rn(logit, s[k], b[k]);
                if (count == 1 && warp == 3) logit = NEGATIVE_INFINITY;  // beyond the last column
            }
        }
        // Exponentials could overflow: the row's maximum is subtracted after all. All four warps of the group decide
        // alike, as the bound is the same for the 16 rows that they share.
        if (!safe) {
            float shift[2] = {NEGATIVE_INFINITY, NEGATIVE_INFINITY};
#pragma unroll
            for (int i = 0; i < 4 * WIDTHS; i++) shift[i % 4 / 2] = fmaxf(shift[i % 4 / 2], value[i / 4][i % 4]);
            combine(shift, shared.exchange[0][group], group, [](float x, float y) { return fmaxf(x, y); });
#pragma unroll
            for (int i = 0; i < 4 * WIDTHS; i++) value[i / 4][i % 4] -= shift[i % 4 / 2];
        }
        // A thread's 76 logits belong to two rows, 38 each: four lanes and four warps together have a row's 600.
        float total[2] = {0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < 4 * WIDTHS; i++) {
            value[i / 4][i % 4] = exp2_approximate(value[i / 4][i % 4]);
            total[i % 4 / 2] += value[i / 4][i % 4];
        }
        combine(total, shared.exchange[1][group], group, [](float x, float y) { return x + y; });

#pragma unroll
        for (int r = 0; r < 2; r++) {
            long long row = (long long)tile * TILE_ROWS + lane / 4 + 8 * r;
            if (row >= rows) continue;
            // Four columns in a row from two products: a 16-byte store; a warp's last two columns go as 8 bytes.
            float inverse = 1.0f / total[r];
            float* line = out + row * COLUMNS;
#pragma unroll
            for (int first = 0; first < 2 * PAIRS; first += 2) {
                const float *u = value[first] + 2 * r, *v = value[first + 1] + 2 * r;
                *reinterpret_cast<float4*>(line + column + 8 * first) =
                    make_float4(u[0] * inverse, u[1] * inverse, v[0] * inverse, v[1] * inverse);
            }
            const float* u = value[2 * PAIRS] + 2 * r;
            if (warp < 3) *reinterpret_cast<float2*>(line + single) = make_float2(u[0] * inverse, u[1] * inverse);
        }
    }
}
