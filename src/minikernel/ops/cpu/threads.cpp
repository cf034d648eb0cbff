// Softmax on a CPU, step 3: a thread for each core.
//
// Rows have nothing to do with one another. Whichever thread is free takes the next ones: cores need not be alike, and
// may have other work. 32,768 x 600 on two threads of an AMD EPYC (2026-11-24): 38.2 ms after 62.5.
#include "vectors.cpp"

constexpr long ROWS_AT_ONCE = 32;

extern "C" void threads(const float* x, float* y, long rows, long cols, int count)
{
#pragma omp parallel for num_threads(count) schedule(dynamic)
    for (long row = 0; row < rows; row += ROWS_AT_ONCE) {
        const long end = row + ROWS_AT_ONCE < rows ? row + ROWS_AT_ONCE : rows;
        vectors(x + row * cols, y + row * cols, end - row, cols, 1);
    }
}
