// What the rungs stand on, one thing at a time: the two exponentials on numbers that the nearest cache holds, and a chain
// of additions, each of which waits for the one before, so that it takes a cycle of the processor's clock.
#include "vectors.h"

static inline void keep() { asm volatile("" ::: "memory"); }  // what was written may be looked at here

extern "C" void libm_exponential(const float* x, float* y, long rounds, long count, int)
{
    for (long round = 0; round < rounds; round++, keep()) {
        for (long k = 0; k < count; k++) y[k] = (float)std::exp((double)x[k]);
    }
}

extern "C" void vector_exponential(const float* x, float* y, long rounds, long count, int)
{
    const Exponential exponential(0);
    for (long round = 0; round < rounds; round++, keep()) {
        for (long k = 0; k + LANES <= count; k += LANES) store(y + k, exponential(load(x + k)));
    }
}

// the empty statement keeps the compiler from adding everything up in advance
extern "C" void additions(const float*, float*, long rounds, long count, int)
{
    for (long k = 0, sum = 0; k < rounds * count; k++) {
        sum++;
        asm volatile("" : "+r"(sum));
    }
}

extern "C" void vector_bytes(const float*, float* y, long, long, int) { y[0] = VECTOR_BYTES; }
