// CUDA C++'s own names for a C++ compiler: built-in variables, vector types, functions of the warp and of the block,
// intrinsics. What the GPU only approximates is computed exactly here.
#pragma once

#include "machine.h"

#include <math.h>

#include <type_traits>
#include <utility>

struct alignas(4) char4 { signed char x, y, z, w; };
struct alignas(4) uchar4 { unsigned char x, y, z, w; };
struct alignas(4) ushort2 { unsigned short x, y; };
struct alignas(8) ushort4 { unsigned short x, y, z, w; };
#define VECTORS(TYPE, NAME)                                                                  \
  struct NAME##1 { TYPE x; };                                                                \
  struct alignas(2 * sizeof(TYPE)) NAME##2 { TYPE x, y; };                                   \
  struct NAME##3 { TYPE x, y, z; };                                                          \
  struct alignas(16) NAME##4 { TYPE x, y, z, w; };                                           \
  inline NAME##1 make_##NAME##1(TYPE x) { return {x}; }                                      \
  inline NAME##2 make_##NAME##2(TYPE x, TYPE y) { return {x, y}; }                           \
  inline NAME##3 make_##NAME##3(TYPE x, TYPE y, TYPE z) { return {x, y, z}; }                \
  inline NAME##4 make_##NAME##4(TYPE x, TYPE y, TYPE z, TYPE w) { return {x, y, z, w}; }
VECTORS(float, float)
VECTORS(int, int)
VECTORS(unsigned, uint)
VECTORS(double, double)
VECTORS(long long, longlong)
VECTORS(unsigned long long, ulonglong)
#undef VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(emulated::Three of) : x(of.x), y(of.y), z(of.z) {}
  constexpr dim3(uint3 of) : x(of.x), y(of.y), z(of.z) {}
};

#define threadIdx (emulated::self->index)
#define blockIdx (emulated::self->block)
#define blockDim (emulated::grid.threads)
#define gridDim (emulated::grid.blocks)
constexpr int warpSize = 32;

// ---- bits

namespace emulated {

// A value of up to 8 bytes as a register, and back.
template <class T> inline Bits bits_of(T value) {
  static_assert(sizeof(T) <= 8, "a register has 8 bytes");
  Bits bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T> inline T from_bits(Bits bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint16_t float_to_float16(float value) { return bits_as<uint16_t>(_Float16(value)); }
inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  if (value != value) return 0x7fff;
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class T> struct Identity { typedef T type; };

template <class T> struct DynamicShared {
  operator T*() const { return static_cast<T*>(dynamic_shared()); }
};

}  // namespace emulated

inline int __float_as_int(float x) { return emulated::bits_as<int>(x); }
inline unsigned __float_as_uint(float x) { return emulated::bits_as<unsigned>(x); }
inline float __int_as_float(int x) { return emulated::bits_as<float>(x); }
inline float __uint_as_float(unsigned x) { return emulated::bits_as<float>(x); }
inline long long __double_as_longlong(double x) { return emulated::bits_as<long long>(x); }
inline double __longlong_as_double(long long x) { return emulated::bits_as<double>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1) << (31 - i);
  return y;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned select) {
  const uint64_t both = uint64_t(b) << 32 | a;
  unsigned made = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned which = select >> 4 * i & 15;
    unsigned byte = both >> 8 * (which & 7) & 255;
    if (which & 8) byte = byte & 128 ? 255 : 0;
    made |= byte << 8 * i;
  }
  return made;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return unsigned((uint64_t(high) << 32 | low) << (by & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return unsigned((uint64_t(high) << 32 | low) >> (by & 31));
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}

// ---- arithmetic

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline long min(long a, long b) { return a < b ? a : b; }
inline long max(long a, long b) { return a < b ? b : a; }
inline long long min(long long a, long long b) { return a < b ? a : b; }
inline long long max(long long a, long long b) { return a < b ? b : a; }
inline unsigned long min(unsigned long a, unsigned long b) { return a < b ? a : b; }
inline unsigned long max(unsigned long a, unsigned long b) { return a < b ? b : a; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

inline float rsqrtf(float x) { return float(1.0 / sqrt(double(x))); }
inline float __expf(float x) { return float(exp(double(x))); }
inline float __exp2f(float x) { return float(exp2(double(x))); }
inline float __exp10f(float x) { return float(pow(10.0, double(x))); }
inline float __logf(float x) { return float(log(double(x))); }
inline float __log2f(float x) { return float(log2(double(x))); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) {  // 0 for large divisors, as CUDA has it
  const float size = fabsf(y);
  return size > 8.507059173023462e37f && size <= 3.4028234664e38f ? x * 0.0f : x / y;
}
inline float __saturatef(float x) { return x != x ? 0.0f : fminf(fmaxf(x, 0.0f), 1.0f); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline int emulated_int(double x) { return x != x ? 0 : x >= 2147483647.0 ? 2147483647 : x <= -2147483648.0 ? -2147483647 - 1 : int(x); }
inline int __float2int_rn(float x) { return emulated_int(nearbyint(double(x))); }
inline int __float2int_rz(float x) { return emulated_int(trunc(double(x))); }
inline int __float2int_rd(float x) { return emulated_int(floor(double(x))); }
inline int __float2int_ru(float x) { return emulated_int(ceil(double(x))); }
inline unsigned __float2uint_rn(float x) { return unsigned(nearbyintf(x)); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }

// ---- memory

inline size_t __cvta_generic_to_shared(const void* pointer) { return emulated::to_shared(pointer); }
inline void* __cvta_shared_to_generic(size_t address) { return emulated::at_shared(address, 1, 1); }
inline size_t __cvta_generic_to_global(const void* pointer) { return reinterpret_cast<size_t>(pointer); }
inline void* __cvta_global_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
template <class T> inline T __ldg(const T* from) { return *from; }
template <class T> inline T __ldca(const T* from) { return *from; }
template <class T> inline T __ldcg(const T* from) { return *from; }
template <class T> inline T __ldcs(const T* from) { return *from; }
template <class T> inline T __ldlu(const T* from) { return *from; }
template <class T> inline T __ldcv(const T* from) { emulated::give_way(); return *from; }
template <class T> inline void __stwb(T* to, typename emulated::Identity<T>::type value) { *to = value; }
template <class T> inline void __stcg(T* to, typename emulated::Identity<T>::type value) { *to = value; }
template <class T> inline void __stcs(T* to, typename emulated::Identity<T>::type value) { *to = value; }
template <class T> inline void __stwt(T* to, typename emulated::Identity<T>::type value) { *to = value; }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) { emulated::give_way(); }

#define ATOMIC(NAME, EXPRESSION)                                                                        \
  template <class T> inline T NAME(T* at, typename emulated::Identity<T>::type value) {                 \
    const T old = *at;                                                                                  \
    *at = EXPRESSION;                                                                                   \
    return old;                                                                                         \
  }                                                                                                     \
  template <class T> inline T NAME##_block(T* at, typename emulated::Identity<T>::type value) { return NAME(at, value); } \
  template <class T> inline T NAME##_system(T* at, typename emulated::Identity<T>::type value) { return NAME(at, value); }
ATOMIC(atomicAdd, old + value)
ATOMIC(atomicSub, old - value)
ATOMIC(atomicMin, value < old ? value : old)
ATOMIC(atomicMax, old < value ? value : old)
ATOMIC(atomicAnd, old & value)
ATOMIC(atomicOr, old | value)
ATOMIC(atomicXor, old ^ value)
ATOMIC(atomicExch, value)
ATOMIC(atomicInc, old >= value ? 0 : old + 1)
ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef ATOMIC
template <class T>
inline T atomicCAS(T* at, typename emulated::Identity<T>::type compare, typename emulated::Identity<T>::type value) {
  const T old = *at;
  if (old == compare) *at = value;
  else emulated::give_way();
  return old;
}

// ---- blocks and warps

inline void __syncthreads() { emulated::barrier_sync(0, 0, false); }
inline int __syncthreads_count(int predicate) { return emulated::barrier_sync(0, 0, predicate); }
inline int __syncthreads_or(int predicate) { return emulated::barrier_sync(0, 0, predicate) != 0; }
inline int __syncthreads_and(int predicate) { return emulated::barrier_sync(0, 0, !predicate) == 0; }
inline void __syncwarp(unsigned mask = ~0u) { emulated::meet(mask, "__syncwarp", {}); }
inline void __trap() { emulated::fail("__trap()"); }

namespace emulated {

template <class T> inline T shuffled(unsigned mask, const char* instruction, T value, unsigned from) {
  Slot brought{};
  static_assert(sizeof(T) <= 8, "__shfl_sync takes up to 8 bytes");
  memcpy(brought.word, &value, sizeof value);
  const Slot* const slots = meet(mask, instruction, brought);
  if (!(mask >> from & 1)) fail("%s reads lane %u, which is not in %08x", instruction, from, mask);
  T made;
  memcpy(&made, slots[from].word, sizeof made);
  return made;
}

template <class T, class Operation>
inline T reduced(unsigned mask, const char* instruction, T value, Operation operation) {
  Slot brought{};
  memcpy(brought.word, &value, sizeof value);
  const Slot* const slots = meet(mask, instruction, brought);
  bool first = true;
  T made{};
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    T theirs;
    memcpy(&theirs, slots[lane].word, sizeof theirs);
    made = first ? theirs : operation(made, theirs);
    first = false;
  }
  return made;
}

}  // namespace emulated

template <class T> inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const int lane = emulated::self->lane;
  return emulated::shuffled(mask, "__shfl_sync", value, (lane & ~(width - 1)) | (from & (width - 1)));
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32) {
  const int lane = emulated::self->lane, from = lane ^ with;
  return emulated::shuffled(mask, "__shfl_xor_sync", value, (from & ~(width - 1)) > (lane & ~(width - 1)) ? lane : from);
}
template <class T> inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = emulated::self->lane, from = lane - int(by);
  return emulated::shuffled(mask, "__shfl_up_sync", value, from < (lane & ~(width - 1)) ? lane : from);
}
template <class T> inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = emulated::self->lane, from = lane + int(by);
  return emulated::shuffled(mask, "__shfl_down_sync", value, from > (lane | (width - 1)) ? lane : from);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return emulated::reduced(mask, "__ballot_sync", predicate ? 1u << emulated::self->lane : 0u,
                           [](unsigned a, unsigned b) { return a | b; });
}
inline int __any_sync(unsigned mask, int predicate) {
  return emulated::reduced(mask, "__any_sync", int(predicate != 0), [](int a, int b) { return a | b; });
}
inline int __all_sync(unsigned mask, int predicate) {
  return emulated::reduced(mask, "__all_sync", int(predicate != 0), [](int a, int b) { return a & b; });
}
template <class T> inline unsigned __match_any_sync(unsigned mask, T value) {
  emulated::Slot brought{};
  memcpy(brought.word, &value, sizeof value);
  const emulated::Slot* const slots = emulated::meet(mask, "__match_any_sync", brought);
  unsigned made = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1 && !memcmp(slots[lane].word, &value, sizeof value)) made |= 1u << lane;
  return made;
}
#define REDUCE(NAME, EXPRESSION)                                                                              \
  inline int NAME(unsigned mask, int value) {                                                                 \
    return emulated::reduced(mask, #NAME, value, [](int a, int b) { return EXPRESSION; });                    \
  }                                                                                                           \
  inline unsigned NAME(unsigned mask, unsigned value) {                                                       \
    return emulated::reduced(mask, #NAME, value, [](unsigned a, unsigned b) { return EXPRESSION; });          \
  }
REDUCE(__reduce_max_sync, a < b ? b : a)
REDUCE(__reduce_min_sync, a < b ? a : b)
REDUCE(__reduce_add_sync, a + b)
REDUCE(__reduce_and_sync, a & b)
REDUCE(__reduce_or_sync, a | b)
REDUCE(__reduce_xor_sync, a ^ b)
#undef REDUCE

inline long long clock64() { return emulated::nanoseconds(); }
inline int clock() { return int(emulated::nanoseconds()); }
