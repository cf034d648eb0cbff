// What an exercise in C++ may use: eight floats at a time, their exponentials, and a store that goes past the caches.
// Nothing is included, so that a file compiles in a quarter of a second.
#pragma once

#define INFINITY __builtin_inff()
extern "C" float expf(float);

typedef float vec __attribute__((vector_size(32)));  // arithmetic and comparisons go lane by lane; v[3] is one lane
constexpr long LANES = 8;

typedef float vec_anywhere __attribute__((vector_size(32), aligned(4)));
typedef int lanes_of_int __attribute__((vector_size(32)));

static inline vec load(const float* at) { return *(const vec_anywhere*)at; }
static inline void store(float* at, vec value) { *(vec_anywhere*)at = value; }

#ifdef COUNTED
extern "C" void counted_stream(const void* at);
#endif

// Stores eight floats without reading the line that they overwrite, where the machine has such a store and `at` is
// aligned to 32 bytes; a plain store elsewhere. What is read back soon should be stored plainly.
__attribute__((no_sanitize_thread)) static inline void stream(float* at, vec value) {
#if defined(COUNTED)
    if ((unsigned long)at % sizeof value == 0) counted_stream(at);
    *(volatile vec_anywhere*)at = value;
#elif defined(__clang__)
    if ((unsigned long)at % sizeof value == 0) __builtin_nontemporal_store(value, (vec*)at);
    else store(at, value);
#elif defined(__AVX__)
    if ((unsigned long)at % sizeof value == 0) __builtin_ia32_movntps256(at, value);
    else store(at, value);
#else
    store(at, value);
#endif
}

// exp of eight numbers, to 4e-7 of its value: 2^k times a polynomial on [-ln(2)/2, ln(2)/2].
static inline vec exp(vec x) {
    x = x < -104.0f ? vec{} - 104.0f : x;  // 0 in float32
    vec high = x > 88.722f ? vec{} + INFINITY : vec{} + 1.0f;
    x = x > 88.722f ? vec{} : x;
    vec turns = x * 1.44269504f;
    lanes_of_int k = __builtin_convertvector(turns + (turns > 0.0f ? vec{} + 0.5f : vec{} - 0.5f), lanes_of_int);
    vec whole = __builtin_convertvector(k, vec);
    vec r = x - whole * 0.693359375f + whole * 2.12194440e-4f;  // ln(2) in two pieces, the first exact in few bits
    vec p = 1 + r * (1 + r * (1 / 2.f + r * (1 / 6.f + r * (1 / 24.f + r * (1 / 120.f + r * (1 / 720.f))))));
    lanes_of_int half = k >> 1;  // 2^k in two factors, since 2^-149 has no exponent of its own
    return p * (vec)((half + 127) << 23) * (vec)((k - half + 127) << 23) * high;
}
