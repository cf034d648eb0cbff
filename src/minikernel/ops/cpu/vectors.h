// What the rungs from `vectors` on share: a vector of floats, as long as this machine's, and its exponential.
//
// The vectors are an extension of C++ that GCC and Clang have, and no processor's own: the same text becomes SSE, AVX,
// AVX-512 or NEON.
#include <cmath>
#include <cstring>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
typedef float vec __attribute__((vector_size(VECTOR_BYTES)));
typedef int ints __attribute__((vector_size(VECTOR_BYTES)));
constexpr long LANES = VECTOR_BYTES / sizeof(float);

// memcpy of a known size becomes one unaligned load: a cast could promise an alignment that a row does not have.
static inline vec load(const float* from)  // from any address
{
    vec value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

static inline vec load_rest(const float* from, long count)  // up to a vector of a row's end, filled up with no weight
{
    vec value = vec{} - INFINITY;
    std::memcpy(&value, from, (count < LANES ? count : LANES) * sizeof(float));
    return value;
}

static inline void store(float* to, vec value) { std::memcpy(to, &value, sizeof value); }

static inline vec larger(vec a, vec b) { return a > b ? a : b; }  // b where a is NaN

// A row reduced to a vector; four are under way at once, because each has to wait for its own last result.
template <typename Combine>
static inline vec reduced(const float* row, long cols, vec start, Combine combine)
{
    vec part[4] = {start, start, start, start};
    long col = 0;
    for (; col + 4 * LANES <= cols; col += 4 * LANES) {
        for (int k = 0; k < 4; k++) part[k] = combine(load(row + col + k * LANES), part[k]);
    }
    for (; col < cols; col += LANES) part[0] = combine(load_rest(row + col, cols - col), part[0]);
    return combine(combine(part[0], part[1]), combine(part[2], part[3]));
}

// exp(x - maximum) of a row, times a factor that is the same in all of it, within 2 ulp.
//
// exp(x) = 2^n exp(r), where n is the whole number nearest to x / ln 2, and r at most half of ln 2 away from 0, so that
// a short polynomial does. A float of the size of `rounder` has no room for a fraction, so that adding it rounds x / ln 2
// to n; and because the row's own n is in it, the last bits of the sum, moved to where a float keeps its exponent, are
// 2^(n - the maximum's n), or 0 at `lowest`. So x - maximum, which would round, is never computed. ln 2 is subtracted
// in two parts; the first one's product with n loses nothing as long as the maximum is no larger than `LARGEST`.
struct Exponential {
    static constexpr float LARGEST = 256;
    float rounder, lowest;

    explicit Exponential(float maximum)
    {
        const float n = std::nearbyint(maximum * 1.44269504f);
        rounder = 12582912.0f + 129 - n;  // 1.5 * 2^23; the bias of a float's exponent, and 2 to spare
        lowest = (n - 129) * 0.693147181f;
    }

    vec operator()(vec x) const
    {
        // At `lowest` the exponent's bits are 0, below it they would wrap round. NaN passes: `larger` returns x for it.
        x = larger(vec{} + lowest, x);
        const vec rounded = x * 1.44269504f + rounder;
        const vec n = rounded - rounder;
        const vec r = x - n * 0.693359375f - n * -2.12194440e-4f;
        // A polynomial of r, in two halves that do not wait for each other (Estrin's scheme).
        const vec square = r * r;
        const vec high = (r * 0.00836871658f + 0.0416683890f) + square * 0.00138145988f;
        const vec power = (high * square + (r * 0.166665211f + 0.5f)) * square + (r + 1.0f);
        return power * (vec)((ints)rounded << 23);
    }
};
