"""Exercise 5, solved."""

from minikernel.exercise.compiled import compiled

READS = 1
WRITES = 1
MEGABYTES = (READS + WRITES) * 4 * 4096 * 600 / 1e6
SHARE_OF_COPY = 1
SOURCE = r"""
#include "exercise.h"

extern "C" void softmax(const float* x, float* y, long rows, long cols) {
    #pragma omp parallel for
    for (long row = 0; row < rows; row++) {
        const float* in = x + row * cols;
        float* out = y + row * cols;
        float top = -INFINITY;
        for (long col = 0; col < cols; col++) top = in[col] > top ? in[col] : top;
        vec sums = {};
        long col = 0;
        for (; col + LANES <= cols; col += LANES) sums += exp(load(in + col) - top);
        float total = 0;
        for (long lane = 0; lane < LANES; lane++) total += sums[lane];
        for (; col < cols; col++) total += expf(in[col] - top);
        for (col = 0; col + LANES <= cols; col += LANES) stream(out + col, exp(load(in + col) - top) / total);
        for (; col < cols; col++) out[col] = expf(in[col] - top) / total;
    }
}
"""

softmax = compiled(SOURCE)
