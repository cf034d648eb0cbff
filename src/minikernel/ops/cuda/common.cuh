// What the softmax kernels share: storage types, conversions, and an exponential that is right to
// the last bits. No CUDA header is included, so that nvcc and NVRTC compile the same text.

struct bfloat16 { unsigned short bits; };
struct float16 { unsigned short bits; };

#define NEGATIVE_INFINITY __int_as_float(0xff800000)

__device__ __forceinline__ float to_float(float value) { return value; }
// A bfloat16 is the upper half of a float32: widening is a
// shift. A float16 has another exponent and needs a conversion.
__device__ __forceinline__ float to_float(bfloat16 value) { return __int_as_float(value.bits << 16); }
__device__ __forceinline__ float to_float(float16 value)
{
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
}

// Round to nearest, ties to even, as torch does.
__device__ __forceinline__ void from_float(float value, float& result) { result = value; }
__device__ __forceinline__ void from_float(float value, bfloat16& result)
{
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
}
__device__ __forceinline__ void from_float(float value, float16& result)
{
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
}

// 2^x by the special function unit, within 2 ulp over the whole range; results below 2^-126 are 0.
__device__ __forceinline__ float exp2_approximate(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// Kahan's compensated sum: a plain running sum over thousands of terms would lose the sixth digit.
struct CompensatedSum {
    float total = 0.0f, compensation = 0.0f;

    __device__ __forceinline__ void add(float term)
    {
        // the _rn forms are never fused or reordered: what the sum lost would be optimised to 0
        float corrected = __fsub_rn(term, compensation);
        float next = __fadd_rn(total, corrected);
        compensation = __fsub_rn(__fsub_rn(next, total), corrected);
        total = next;
    }
};

// Softmax is the same for every shift of a row, so the shift need not be the maximum itself: with
// the maximum rounded down to an integer, exp(x - shift) <= e, and x - shift can be corrected cheaply.
__device__ __forceinline__ float row_shift(float maximum) { return floorf(maximum); }

// exp(x - shift) for sums and for 16-bit results: the error grows with |x - shift|, but there the
// exponential itself is small, so that a sum never notices.
__device__ __forceinline__ float exponential_for_sum(float x, float shift)
{
    return exp2_approximate((x - shift) * 1.4426950408889634f);
}

// exp(x - shift) to about 3e-7 relative however far x lies below the shift.
//
// Two roundings would spoil it: that of x - shift and that of its product with log2(e), each half an
// ulp of a number up to 127, 4e-6. Both are recovered exactly and put back to first order:
//   * as shift is an integer, difference + shift is exact and x minus it is what was rounded off
//     (Dekker's fast two-sum);
//   * a fused multiply-add returns what the product rounded off; log2(e)'s own tail is added there.
// For x = -infinity and for overflowing differences the correction is NaN or infinite while the power
// is 0; fminf turns it into a number, so that masked entries come out as 0. A NaN in x stays in power.
__device__ __forceinline__ float exponential_accurate(float x, float shift)
{
    const float log2e = 1.4426950216293335f, log2e_tail_times_ln2 = 1.3349758e-8f, ln2 = 0.6931471805599453f;
    float difference = __fsub_rn(x, shift);
    float lost = __fsub_rn(x, __fadd_rn(difference, shift));
    float scaled = __fmul_rn(difference, log2e);
    float correction = __fmaf_rn(difference, log2e_tail_times_ln2, lost);
    correction = __fmaf_rn(__fmaf_rn(difference, log2e, -scaled), ln2, correction);
    float power = exp2_approximate(scaled);
    return __fmaf_rn(power, fminf(correction, 1.0f), power);
}

// The exponential that a result of type T needs.
template <typename T> __device__ __forceinline__ float exponential(float x, float shift)
{
    return exponential_for_sum(x, shift);
}
template <> __device__ __forceinline__ float exponential<float>(float x, float shift)
{
    return exponential_accurate(x, shift);
}
