// A copy past the caches: the bytes that a softmax moves at least, and nothing else.
//
// torch's copy reads each cache line that it overwrites, so it is no limit for a kernel that does not.
#include "streaming.cpp"

extern "C" void copy(const float* x, float* y, long rows, long cols, int count)
{
#pragma omp parallel num_threads(count)
    {
#pragma omp for schedule(dynamic, ROWS_AT_ONCE)
        for (long row = 0; row < rows; row++) write(x + row * cols, 1, y + row * cols, cols, x + row * cols);
        finish_writing();
    }
}
