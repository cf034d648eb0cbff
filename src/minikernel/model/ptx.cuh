// PTX that CUDA C++ has no name for, an instruction a function; nothing else of the model holds inline assembly,
// but its training (train/ptx.cuh).
#pragma once

typedef unsigned int word;  // two 16-bit floats, the first in the low half

// An address of shared memory as PTX takes it.
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// The thread's number, read anew where it is asked for: what follows from it need not stay in registers until then.
__device__ __forceinline__ int thread_index() {
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}

// Threads of a block, likewise.
__device__ __forceinline__ int block_threads() {
  int threads;
  asm volatile("mov.u32 %0, %%ntid.x;" : "=r"(threads));
  return threads;
}

// ---- a cluster of blocks

__device__ __forceinline__ unsigned block_of_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// The same place in the shared memory of another block of the cluster.
__device__ __forceinline__ unsigned remote(unsigned local, unsigned block) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(local), "r"(block));
  return there;
}

// release here and acquire below: what a block wrote before is seen by the others after.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// The same, where nothing but barriers needs to be seen by the others: `fence_barriers` has shown them.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_barrier() {
  cluster_arrive();
  cluster_wait();
}

// Write into another block's shared memory; that block's mbarrier counts the bytes.
__device__ __forceinline__ void send(unsigned to, unsigned barrier, float value) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
               "r"(__float_as_uint(value)), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void send(unsigned to, unsigned barrier, float2 value) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(to),
               "r"(__float_as_uint(value.x)), "r"(__float_as_uint(value.y)), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void send(unsigned to, unsigned barrier, float4 value) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
               "r"(__float_as_uint(value.x)), "r"(__float_as_uint(value.y)), "r"(__float_as_uint(value.z)),
               "r"(__float_as_uint(value.w)), "r"(barrier)
               : "memory");
}

// ---- barriers

// An mbarrier for `arrivals` a phase; `fence_barriers` then shows it to the cluster and to the copy engine.
__device__ __forceinline__ void make_barrier(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// An mbarrier lives in ordinary memory: without this fence a
// remote store or a bulk copy could find it as it was before.
__device__ __forceinline__ void fence_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrive, and let the phase wait for so many bytes besides.
__device__ __forceinline__ void expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

#define DEFINE_AWAIT(NAME, SCOPE)                                                   \
  __device__ __forceinline__ void NAME(unsigned barrier, unsigned parity) {          \
    unsigned done = 0;                                                               \
    while (!done) {                                                                  \
      asm volatile(                                                                  \
          "{\n.reg .pred p;\n"                                                       \
          "mbarrier.try_wait.parity.acquire." SCOPE ".shared::cta.b64 p, [%1], %2;\n" \
          "selp.u32 %0, 1, 0, p;\n}"                                                 \
          : "=r"(done)                                                               \
          : "r"(barrier), "r"(parity)                                                \
          : "memory");                                                               \
    }                                                                                \
  }

// Wait until the phase of this parity is over; what others sent by then is visible, from all blocks of the cluster.
DEFINE_AWAIT(await, "cluster")

// The same for what came from this block and the copy engine alone: it leaves the L1 cache as it is.
DEFINE_AWAIT(await_here, "cta")

#undef DEFINE_AWAIT

// Barrier number `name`, 1 to 15, of `threads` threads of a block.
__device__ __forceinline__ void named_barrier(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// ---- the copy engine

// Copy `bytes`, a multiple of 16, from 16-byte aligned global memory into shared memory; the mbarrier counts them.
__device__ __forceinline__ void bulk_copy(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  // One thread starts a copy of any size; the engine needs no registers and no further instruction of the warp.
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
               : "memory");
}

// Shared memory that ordinary instructions have used may now be overwritten by the copy engine.
__device__ __forceinline__ void fence_copy_engine() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- kernels in a row

// Wait for the kernels before this one in the stream, where it was launched to begin before they end.
__device__ __forceinline__ void await_kernels_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Let the kernel after this one begin.
__device__ __forceinline__ void let_next_kernel_begin() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- clocks

__device__ __forceinline__ long long nanoseconds() {
  long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__device__ __forceinline__ unsigned multiprocessor() {
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}

// ---- powers, 16-bit floats and tensor cores

// 2^x by the special function unit, within 2 units of the last place; results below 2^-126 are 0.
__device__ __forceinline__ float power_of_two(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// 1 / x within 1 unit of the last place.
__device__ __forceinline__ float reciprocal(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}

// 1 / sqrt(x), likewise.
__device__ __forceinline__ float inverse_root(float x) {
  float inverse;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}

// What the lane at an exclusive-or distance has. As __shfl_xor_sync, but the compiler keeps the order of these and of
// what else touches memory: several are under way at once where the source has them side by side.
__device__ __forceinline__ float exchanged(float value, int distance) {
  float theirs;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
               : "=f"(theirs)
               : "f"(value), "r"(distance)
               : "memory");
  return theirs;
}

// PTX names the upper half first.
__device__ __forceinline__ word pack_float16(float first, float second) {
  word packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  return packed;
}

__device__ __forceinline__ word pack_bfloat16(float first, float second) {
  word packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  return packed;
}

__device__ __forceinline__ float2 unpack_float16(word packed) {
  float2 both;
  asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}"
      : "=f"(both.x), "=f"(both.y)
      : "r"(packed));
  return both;
}

// Both 16-bit floats of each word of a matrix of 8 x 8, transposed: lane 4 g + t has row g, columns 2 t and 2 t + 1.
__device__ __forceinline__ word transposed(word row) {
  word column;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(column) : "r"(row));
  return column;
}

// sum += a b: 16 rows by 8 columns over 16 features, of float16; the sums are float32.
__device__ __forceinline__ void multiply_float16(float (&sum)[4], const word (&a)[4], word b0, word b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same of bfloat16.
__device__ __forceinline__ void multiply_bfloat16(float (&sum)[4], const word (&a)[4], word b0, word b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
