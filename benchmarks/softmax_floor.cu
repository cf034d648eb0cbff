// A softmax's traffic without the softmax (softmax_floor.py): a row's vectors are loaded as the lab's kernels load them,
// and stored. parts.cuh goes before this text.
//
// THREADS lanes of a warp, or a block, have a row; ROWS rows a block; INPUTS tensors are read and one is written: theirs,
// exclusive or. WHOLE: nothing of a row is stored before all of it is there, which no softmax can do without. KEEP: the
// loads' hint for the cache is the lab's, else there is none. STREAM: the stores' hint, as in store_gradient.
template <int THREADS, int VECTORS, int ROWS, int INPUTS, bool WHOLE, bool KEEP, bool STREAM>
__global__ void __launch_bounds__(THREADS * ROWS) moved(const int4* x, const int4* other, int4* y, long long rows, int vectors)
{
    const int lane = threadIdx.x % THREADS;
    const long long row = (long long)blockIdx.x * ROWS + threadIdx.x / THREADS;
    if (row >= rows) return;
    const long long first = row * vectors;
    int4 held[INPUTS][VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#pragma unroll
        for (int input = 0; input < INPUTS; input++) {
            const int number = lane + v * THREADS;
            const int4* from = (input ? other : x) + first + number;
            if (KEEP) {
                held[input][v] = load_16_bytes(from, number < vectors, 0);
            } else {
                held[input][v] = number < vectors ? *from : make_int4(0, 0, 0, 0);
            }
        }
    }
    unsigned seen = 0;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#pragma unroll
        for (int input = 1; input < INPUTS; input++) {
            held[0][v].x ^= held[input][v].x;
            held[0][v].y ^= held[input][v].y;
            held[0][v].z ^= held[input][v].z;
            held[0][v].w ^= held[input][v].w;
        }
        seen |= held[0][v].x;
    }
    // A lane's words together are never this, but only the loads can say so: all of the row waits for them.
    if (WHOLE) {
        const bool never = seen == 0x80000001;
        if (THREADS > WARP ? __syncthreads_or(never) : __any_sync(0xffffffff, never)) return;
    }
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int number = lane + v * THREADS;
        if (number >= vectors) continue;
        if (STREAM) {
            __stcs(y + first + number, held[0][v]);
        } else {
            y[first + number] = held[0][v];
        }
    }
}
