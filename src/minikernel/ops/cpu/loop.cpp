// Softmax on a CPU, step 1: the textbook's loop, on one thread.
//
// Three passes over a row: its maximum, the exponentials and their sum, the quotients. One element at a time, and the
// exponential is the C library's. It is computed in double, so that the difference from the maximum loses nothing.
#include <cmath>

extern "C" void loop(const float* x, float* y, long rows, long cols, int)
{
    for (long row = 0; row < rows; row++, x += cols, y += cols) {
        float maximum = -INFINITY;
        for (long col = 0; col < cols; col++) maximum = x[col] > maximum ? x[col] : maximum;

        double sum = 0;
        for (long col = 0; col < cols; col++) {
            double numerator = std::exp((double)x[col] - maximum);
            sum += numerator;
            y[col] = (float)numerator;
        }

        const float scale = (float)(1 / sum);
        for (long col = 0; col < cols; col++) y[col] *= scale;
    }
}
