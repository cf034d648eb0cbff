// PTX of the training, as ../ptx.cuh has it of the forward pass: no other file of the room holds inline assembly.
#pragma once

#define INFINITE __int_as_float(0x7f800000)

// The same number, of which the compiler does not know that: what follows from it is computed where it is used, and not
// once for all steps, to lie in local memory until then.
__device__ __forceinline__ int anew(int x) {
  int same;
  asm volatile("mov.u32 %0, %1;" : "=r"(same) : "r"(x));
  return same;
}

// What other blocks have written. (`__ldcv` is an assembler line that a compiler may take out of
// a loop.)
__device__ __forceinline__ unsigned acquired(const unsigned* from) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

// 16 bytes that no other warp of the block needs: past the L1 cache, where there is room for little. Asked for here,
// and not where they are used.
__device__ __forceinline__ float4 load_past(const float* from) {
  float4 x;
  asm volatile("ld.global.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "l"(from)
               : "memory");
  return x;
}

// Start copying 16 bytes to shared memory; this thread waits for all that it has started.
__device__ __forceinline__ void copy_16(float* to, const float* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What other threads have written, in global or shared memory, and this one has seen, is what the copy engine finds.
__device__ __forceinline__ void fence_all_copies() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Count, or say a number; who acquires it sees what the block has written before its last barrier.
__device__ __forceinline__ void release_one_more(unsigned* counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
__device__ __forceinline__ void release_number(unsigned* to, unsigned number) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(number) : "memory");
}

// sum += a b: 16 rows by 8 columns over 8 features. a: (row group, k pair), (group + 8, pair), (group, pair + 4),
// (group + 8, pair + 4); b: (k pair, column group), (pair + 4, group); sums: (row group, columns 2 pair and 2 pair +
// 1), then the same of row group + 8.
__device__ __forceinline__ void multiply_tf32(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two numbers rounded to bfloat16, the first in the low half.
__device__ __forceinline__ unsigned pair_of_bfloat16(float first, float second) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

// The same product of bfloat16: of each row or column the features 2 pair and 2 pair + 1.
__device__ __forceinline__ void multiply_bfloat16(float (&sum)[4], const unsigned (&a)[2], unsigned b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
}
