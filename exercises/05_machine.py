"""Exercise 5, machine: a softmax in C++ for this machine: vectors, threads, and stores that go past the caches.

src/minikernel/exercise/cpp/exercise.h has what you may use: `vec` is eight floats, `load`, `store`, `exp` work on
it, and `stream` stores without reading the line that it overwrites. `#pragma omp parallel for` gives each thread
its rows. What is left of a row after its last eight floats goes one by one. It must be faster than F.softmax.

Predict, write, then have it marked:

    snakemake --cores 2 exercise --config exercise=machine

and read results/exercise/machine/REPORT.md.
"""

from minikernel.exercise.compiled import compiled

# Your prediction, before you write: a number each, or arithmetic such as 2 / 8. None is no answer yet.
# Counted between the memory and a cache of 512 KiB, which reads a line before a part of it is stored plainly.
READS = None  # how often an element is read from memory: of x, and of y
WRITES = None  # how often an element is written to memory
MEGABYTES = None  # so many megabytes, read and written, where x is 4096 x 600 float32
SHARE_OF_COPY = None  # at most so much of a copy's speed: the bytes of x and of the result, divided by all bytes moved

SOURCE = r"""
#include "exercise.h"

// y[row][col] = softmax over the columns of x[row]; both are contiguous, rows x cols.
extern "C" void softmax(const float* x, float* y, long rows, long cols) {
#error not filled in yet: put your loops here
}
"""

softmax = compiled(SOURCE)
