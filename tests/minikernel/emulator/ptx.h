// Instructions of PTX as functions, each named as the instruction without what makes no difference here (translate.py).
// Registers are 64 bits, whatever their type; results come first, by reference.
#pragma once

#include "cuda.h"

namespace emulated {
namespace ptx {

typedef uint32_t u32;
typedef uint64_t u64;

inline float f(Bits bits) { return from_bits<float>(bits); }
inline double d(Bits bits) { return from_bits<double>(bits); }
inline int s(Bits bits) { return int(bits); }

// ---- moving, comparing, calculating

inline void mov(Bits& to, Bits from) { to = from; }
inline void mov_f32(Bits& to, Bits from) { to = u32(from); }
inline void mov_b32(Bits& to, Bits from) { to = u32(from); }
inline void mov_b32(Bits& low, Bits& high, Bits from) { low = uint16_t(from), high = uint16_t(from >> 16); }
inline void mov_pack_b32(Bits& to, Bits low, Bits high) { to = uint16_t(low) | u64(uint16_t(high)) << 16; }
inline void mov_b64(Bits& to, Bits from) { to = from; }
inline void mov_b64(Bits& low, Bits& high, Bits from) { low = u32(from), high = from >> 32; }
inline void mov_pack_b64(Bits& to, Bits low, Bits high) { to = u32(low) | high << 32; }
inline void selp_b32(Bits& to, Bits yes, Bits no, Bits which) { to = u32(which ? yes : no); }
#define COMPARE(NAME, TYPE, OPERATOR) \
  inline void NAME(Bits& to, Bits a, Bits b) { to = from_bits<TYPE>(a) OPERATOR from_bits<TYPE>(b); }
#define COMPARISONS(SUFFIX, TYPE)                                                                 \
  COMPARE(setp_eq_##SUFFIX, TYPE, ==) COMPARE(setp_ne_##SUFFIX, TYPE, !=)                         \
  COMPARE(setp_lt_##SUFFIX, TYPE, <) COMPARE(setp_le_##SUFFIX, TYPE, <=)                          \
  COMPARE(setp_gt_##SUFFIX, TYPE, >) COMPARE(setp_ge_##SUFFIX, TYPE, >=)
COMPARISONS(u32, u32) COMPARISONS(b32, u32) COMPARISONS(s32, int) COMPARISONS(u64, u64) COMPARISONS(s64, int64_t)
COMPARISONS(f32, float)
#undef COMPARISONS
#undef COMPARE
inline void add_u32(Bits& to, Bits a, Bits b) { to = u32(a + b); }
inline void sub_u32(Bits& to, Bits a, Bits b) { to = u32(a - b); }
inline void add_u64(Bits& to, Bits a, Bits b) { to = a + b; }
inline void and_b32(Bits& to, Bits a, Bits b) { to = u32(a & b); }
inline void or_b32(Bits& to, Bits a, Bits b) { to = u32(a | b); }
inline void xor_b32(Bits& to, Bits a, Bits b) { to = u32(a ^ b); }
inline void shl_b32(Bits& to, Bits a, Bits b) { to = b < 32 ? u32(a << b) : 0; }
inline void lop3_b32(Bits& to, Bits a, Bits b, Bits c, Bits table) {
  u32 made = 0;
  for (int i = 0; i < 8; ++i)
    if (table >> i & 1) made |= (i & 4 ? u32(a) : ~u32(a)) & (i & 2 ? u32(b) : ~u32(b)) & (i & 1 ? u32(c) : ~u32(c));
  to = made;
}
inline void prmt_b32(Bits& to, Bits a, Bits b, Bits select) { to = __byte_perm(u32(a), u32(b), u32(select)); }
inline void cvt_u32_u64(Bits& to, Bits from) { to = u32(from); }
inline void cvt_u64_u32(Bits& to, Bits from) { to = u32(from); }
inline void add_f32(Bits& to, Bits a, Bits b) { to = bits_of(f(a) + f(b)); }
inline void sub_f32(Bits& to, Bits a, Bits b) { to = bits_of(f(a) - f(b)); }
inline void mul_f32(Bits& to, Bits a, Bits b) { to = bits_of(f(a) * f(b)); }
inline void fma_f32(Bits& to, Bits a, Bits b, Bits c) { to = bits_of(fmaf(f(a), f(b), f(c))); }
inline void max_f32(Bits& to, Bits a, Bits b) { to = bits_of(fmaxf(f(a), f(b))); }
inline void min_f32(Bits& to, Bits a, Bits b) { to = bits_of(fminf(f(a), f(b))); }
inline void pair_of_f32(Bits& to, float low, float high) { to = bits_of(low) | bits_of(high) << 32; }
inline void add_f32x2(Bits& to, Bits a, Bits b) { pair_of_f32(to, f(a) + f(b), f(a >> 32) + f(b >> 32)); }
inline void mul_f32x2(Bits& to, Bits a, Bits b) { pair_of_f32(to, f(a) * f(b), f(a >> 32) * f(b >> 32)); }
inline void fma_f32x2(Bits& to, Bits a, Bits b, Bits c) {
  pair_of_f32(to, fmaf(f(a), f(b), f(c)), fmaf(f(a >> 32), f(b >> 32), f(c >> 32)));
}
inline float flushed(float x) { return fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x; }
inline void ex2_approx_f32(Bits& to, Bits x) { to = bits_of(float(exp2(double(f(x))))); }
inline void ex2_approx_ftz_f32(Bits& to, Bits x) { to = bits_of(flushed(float(exp2(double(flushed(f(x))))))); }
inline void lg2_approx_f32(Bits& to, Bits x) { to = bits_of(float(log2(double(f(x))))); }
inline void lg2_approx_ftz_f32(Bits& to, Bits x) { to = bits_of(float(log2(double(flushed(f(x)))))); }
inline void rcp_approx_f32(Bits& to, Bits x) { to = bits_of(1.0f / f(x)); }
inline void rcp_approx_ftz_f32(Bits& to, Bits x) { to = bits_of(flushed(1.0f / flushed(f(x)))); }
inline void rsqrt_approx_f32(Bits& to, Bits x) { to = bits_of(rsqrtf(f(x))); }
inline void rsqrt_approx_ftz_f32(Bits& to, Bits x) { to = bits_of(rsqrtf(flushed(f(x)))); }
inline void sqrt_approx_f32(Bits& to, Bits x) { to = bits_of(sqrtf(f(x))); }
inline void sqrt_approx_ftz_f32(Bits& to, Bits x) { to = bits_of(sqrtf(flushed(f(x)))); }
inline void tanh_approx_f32(Bits& to, Bits x) { to = bits_of(tanhf(f(x))); }
inline void div_full_f32(Bits& to, Bits a, Bits b) { to = bits_of(f(a) / f(b)); }

// ---- 16-bit floats

inline void cvt_f32_f16(Bits& to, Bits half) { to = bits_of(float16_to_float(uint16_t(half))); }
inline void cvt_f32_bf16(Bits& to, Bits half) { to = bits_of(bfloat16_to_float(uint16_t(half))); }
inline void cvt_f16_f32(Bits& to, Bits x) { to = float_to_float16(f(x)); }
inline void cvt_bf16_f32(Bits& to, Bits x) { to = float_to_bfloat16(f(x)); }
inline void cvt_f16x2_f32(Bits& to, Bits high, Bits low) {
  to = float_to_float16(f(low)) | u64(float_to_float16(f(high))) << 16;
}
inline void cvt_bf16x2_f32(Bits& to, Bits high, Bits low) {
  to = float_to_bfloat16(f(low)) | u64(float_to_bfloat16(f(high))) << 16;
}
inline void cvt_rna_tf32_f32(Bits& to, Bits x) { to = (u32(x) + 0x1000) & 0xffffe000; }
inline void cvt_tf32_f32(Bits& to, Bits x) { to = (u32(x) + 0xfff + (x >> 13 & 1)) & 0xffffe000; }
inline u32 halves(float low, float high) { return float_to_float16(low) | u32(float_to_float16(high)) << 16; }
inline u32 bhalves(float low, float high) { return float_to_bfloat16(low) | u32(float_to_bfloat16(high)) << 16; }
inline float h0(Bits x) { return float16_to_float(uint16_t(x)); }
inline float h1(Bits x) { return float16_to_float(uint16_t(x >> 16)); }
inline float b0(Bits x) { return bfloat16_to_float(uint16_t(x)); }
inline float b1(Bits x) { return bfloat16_to_float(uint16_t(x >> 16)); }
inline void max_f16x2(Bits& to, Bits a, Bits b) { to = halves(fmaxf(h0(a), h0(b)), fmaxf(h1(a), h1(b))); }
inline void max_bf16x2(Bits& to, Bits a, Bits b) { to = bhalves(fmaxf(b0(a), b0(b)), fmaxf(b1(a), b1(b))); }
inline void add_f16x2(Bits& to, Bits a, Bits b) { to = halves(h0(a) + h0(b), h1(a) + h1(b)); }
inline void sub_f16x2(Bits& to, Bits a, Bits b) { to = halves(h0(a) - h0(b), h1(a) - h1(b)); }
inline void mul_f16x2(Bits& to, Bits a, Bits b) { to = halves(h0(a) * h0(b), h1(a) * h1(b)); }
inline void add_bf16x2(Bits& to, Bits a, Bits b) { to = bhalves(b0(a) + b0(b), b1(a) + b1(b)); }
inline void mul_bf16x2(Bits& to, Bits a, Bits b) { to = bhalves(b0(a) * b0(b), b1(a) * b1(b)); }

// ---- tensor cores

// A lane's four sums; `K` of the products are added to each. The lanes' halves of a, then of b, were brought in words.
template <int K>
inline void mma_16_bits(const char* name, Halves halves, Bits& d0, Bits& d1, Bits& d2, Bits& d3, const Slot& brought, Bits c0,
                        Bits c1, Bits c2, Bits c3) {
  const float c[4] = {f(c0), f(c1), f(c2), f(c3)};
  float d[4];
  multiply<K>(halves, meet(~0u, name, brought), self->lane, c, d);
  d0 = bits_of(d[0]), d1 = bits_of(d[1]), d2 = bits_of(d[2]), d3 = bits_of(d[3]);
}

inline void mma_m16n8k16_row_col_f32_f16_f16_f32(Bits& d0, Bits& d1, Bits& d2, Bits& d3, Bits a0, Bits a1, Bits a2, Bits a3,
                                                 Bits b0, Bits b1, Bits c0, Bits c1, Bits c2, Bits c3) {
  mma_16_bits<16>("mma.m16n8k16 of float16", Halves::FLOAT16, d0, d1, d2, d3,
                  Slot{{u32(a0), u32(a1), u32(a2), u32(a3), u32(b0), u32(b1)}}, c0, c1, c2, c3);
}
inline void mma_m16n8k16_row_col_f32_bf16_bf16_f32(Bits& d0, Bits& d1, Bits& d2, Bits& d3, Bits a0, Bits a1, Bits a2, Bits a3,
                                                   Bits b0, Bits b1, Bits c0, Bits c1, Bits c2, Bits c3) {
  mma_16_bits<16>("mma.m16n8k16 of bfloat16", Halves::BFLOAT16, d0, d1, d2, d3,
                  Slot{{u32(a0), u32(a1), u32(a2), u32(a3), u32(b0), u32(b1)}}, c0, c1, c2, c3);
}
inline void mma_m16n8k8_row_col_f32_f16_f16_f32(Bits& d0, Bits& d1, Bits& d2, Bits& d3, Bits a0, Bits a1, Bits b0, Bits c0,
                                                Bits c1, Bits c2, Bits c3) {
  mma_16_bits<8>("mma.m16n8k8 of float16", Halves::FLOAT16, d0, d1, d2, d3, Slot{{u32(a0), u32(a1), u32(b0)}}, c0, c1, c2,
                 c3);
}
inline void mma_m16n8k8_row_col_f32_bf16_bf16_f32(Bits& d0, Bits& d1, Bits& d2, Bits& d3, Bits a0, Bits a1, Bits b0, Bits c0,
                                                  Bits c1, Bits c2, Bits c3) {
  mma_16_bits<8>("mma.m16n8k8 of bfloat16", Halves::BFLOAT16, d0, d1, d2, d3, Slot{{u32(a0), u32(a1), u32(b0)}}, c0, c1, c2,
                 c3);
}
inline void mma_m16n8k8_row_col_f32_tf32_tf32_f32(Bits& d0, Bits& d1, Bits& d2, Bits& d3, Bits a0, Bits a1, Bits a2, Bits a3,
                                                  Bits b0, Bits b1, Bits c0, Bits c1, Bits c2, Bits c3) {
  const auto cut = [](Bits x) { return u32(x) & 0xffffe000; };
  const Slot brought{{cut(a0), cut(a1), cut(a2), cut(a3), cut(b0), cut(b1)}};
  const float c[4] = {f(c0), f(c1), f(c2), f(c3)};
  float d[4];
  multiply_tf32(meet(~0u, "mma.m16n8k8 of tf32", brought), self->lane, c, d);
  d0 = bits_of(d[0]), d1 = bits_of(d[1]), d2 = bits_of(d[2]), d3 = bits_of(d[3]);
}

inline void movmatrix_m8n8_trans_b16(Bits& to, Bits from) {
  const Slot* const slots = meet(~0u, "movmatrix", Slot{{u32(from)}});
  const int row = self->lane / 4, column = self->lane % 4 * 2;
  u32 made = 0;
  for (int i = 0; i < 2; ++i) {  // element [row][column + i] is [column + i][row] of what was brought
    const u32 word = slots[4 * (column + i) + row / 2].word[0];
    made |= (word >> 16 * (row % 2) & 0xffff) << 16 * i;
  }
  to = made;
}

template <int COUNT> inline void load_matrices(Bits* const (&to)[COUNT], Bits address, bool transposed) {
  const Slot* const slots = meet(~0u, "ldmatrix", Slot{{u32(address)}});
  const int row = self->lane / 4, column = self->lane % 4 * 2;
  Bits addresses[32];
  for (int lane = 0; lane < 8 * COUNT; ++lane) addresses[lane] = slots[lane].word[0];
  for (int matrix = 0; matrix < COUNT; ++matrix) {
    u32 made = 0;
    for (int i = 0; i < 2; ++i) {
      const int r = transposed ? column + i : row, c = transposed ? row : column + i;
      made |= u32(static_cast<uint16_t*>(at_shared(addresses[8 * matrix + r], 16, 16))[c]) << 16 * i;
    }
    *to[matrix] = made;
  }
}
inline void ldmatrix_m8n8_x1_shared_b16(Bits& a, Bits from) { load_matrices<1>({&a}, from, false); }
inline void ldmatrix_m8n8_x2_shared_b16(Bits& a, Bits& b, Bits from) { load_matrices<2>({&a, &b}, from, false); }
inline void ldmatrix_m8n8_x4_shared_b16(Bits& a, Bits& b, Bits& c, Bits& e, Bits from) {
  load_matrices<4>({&a, &b, &c, &e}, from, false);
}
inline void ldmatrix_m8n8_x1_trans_shared_b16(Bits& a, Bits from) { load_matrices<1>({&a}, from, true); }
inline void ldmatrix_m8n8_x2_trans_shared_b16(Bits& a, Bits& b, Bits from) { load_matrices<2>({&a, &b}, from, true); }
inline void ldmatrix_m8n8_x4_trans_shared_b16(Bits& a, Bits& b, Bits& c, Bits& e, Bits from) {
  load_matrices<4>({&a, &b, &c, &e}, from, true);
}

// ---- memory

template <class T, int COUNT> inline void load(Bits* const (&to)[COUNT], const void* from) {
  T values[COUNT];
  if (reinterpret_cast<uintptr_t>(from) % sizeof values) fail("a load of %zu bytes that is not aligned to them", sizeof values);
  memcpy(values, from, sizeof values);
  for (int i = 0; i < COUNT; ++i) *to[i] = bits_of(values[i]);
}
template <class T, int COUNT> inline void store(void* to, const Bits (&from)[COUNT]) {
  T values[COUNT];
  if (reinterpret_cast<uintptr_t>(to) % sizeof values) fail("a store of %zu bytes that is not aligned to them", sizeof values);
  for (int i = 0; i < COUNT; ++i) values[i] = from_bits<T>(from[i]);
  memcpy(to, values, sizeof values);
}
#define ACCESS(SUFFIX, TYPE)                                                                                             \
  inline void ld_global_##SUFFIX(Bits& a, Bits from) { load<TYPE, 1>({&a}, (const void*)from); }                         \
  inline void ld_global_v2_##SUFFIX(Bits& a, Bits& b, Bits from) { load<TYPE, 2>({&a, &b}, (const void*)from); }         \
  inline void ld_global_v4_##SUFFIX(Bits& a, Bits& b, Bits& c, Bits& e, Bits from) {                                     \
    load<TYPE, 4>({&a, &b, &c, &e}, (const void*)from);                                                                  \
  }                                                                                                                      \
  inline void ld_shared_##SUFFIX(Bits& a, Bits from) { load<TYPE, 1>({&a}, at_shared(from, sizeof(TYPE), sizeof(TYPE))); } \
  inline void ld_shared_v2_##SUFFIX(Bits& a, Bits& b, Bits from) {                                                       \
    load<TYPE, 2>({&a, &b}, at_shared(from, 2 * sizeof(TYPE), 2 * sizeof(TYPE)));                                        \
  }                                                                                                                      \
  inline void ld_shared_v4_##SUFFIX(Bits& a, Bits& b, Bits& c, Bits& e, Bits from) {                                     \
    load<TYPE, 4>({&a, &b, &c, &e}, at_shared(from, 4 * sizeof(TYPE), 4 * sizeof(TYPE)));                                \
  }                                                                                                                      \
  inline void st_global_##SUFFIX(Bits to, Bits a) { store<TYPE, 1>((void*)to, {a}); }                                    \
  inline void st_global_v2_##SUFFIX(Bits to, Bits a, Bits b) { store<TYPE, 2>((void*)to, {a, b}); }                      \
  inline void st_global_v4_##SUFFIX(Bits to, Bits a, Bits b, Bits c, Bits e) { store<TYPE, 4>((void*)to, {a, b, c, e}); } \
  inline void st_shared_##SUFFIX(Bits to, Bits a) { store<TYPE, 1>(at_shared(to, sizeof(TYPE), sizeof(TYPE)), {a}); }    \
  inline void st_shared_v2_##SUFFIX(Bits to, Bits a, Bits b) {                                                           \
    store<TYPE, 2>(at_shared(to, 2 * sizeof(TYPE), 2 * sizeof(TYPE)), {a, b});                                           \
  }                                                                                                                      \
  inline void st_shared_v4_##SUFFIX(Bits to, Bits a, Bits b, Bits c, Bits e) {                                           \
    store<TYPE, 4>(at_shared(to, 4 * sizeof(TYPE), 4 * sizeof(TYPE)), {a, b, c, e});                                     \
  }                                                                                                                      \
  inline void st_async_##SUFFIX(Bits to, Bits a, Bits barrier) {                                                         \
    const TYPE values[] = {from_bits<TYPE>(a)};                                                                          \
    store_later(to, values, sizeof values, barrier);                                                                     \
  }                                                                                                                      \
  inline void st_async_v2_##SUFFIX(Bits to, Bits a, Bits b, Bits barrier) {                                              \
    const TYPE values[] = {from_bits<TYPE>(a), from_bits<TYPE>(b)};                                                      \
    store_later(to, values, sizeof values, barrier);                                                                     \
  }                                                                                                                      \
  inline void st_async_v4_##SUFFIX(Bits to, Bits a, Bits b, Bits c, Bits e, Bits barrier) {                              \
    const TYPE values[] = {from_bits<TYPE>(a), from_bits<TYPE>(b), from_bits<TYPE>(c), from_bits<TYPE>(e)};              \
    store_later(to, values, sizeof values, barrier);                                                                     \
  }
ACCESS(b16, uint16_t) ACCESS(u16, uint16_t)
ACCESS(b32, uint32_t) ACCESS(u32, uint32_t) ACCESS(s32, uint32_t) ACCESS(f32, uint32_t)
#undef ACCESS
#define ACCESS(SUFFIX)                                                                                                   \
  inline void ld_global_##SUFFIX(Bits& a, Bits from) { load<u64, 1>({&a}, (const void*)from); }                          \
  inline void ld_global_v2_##SUFFIX(Bits& a, Bits& b, Bits from) { load<u64, 2>({&a, &b}, (const void*)from); }          \
  inline void ld_shared_##SUFFIX(Bits& a, Bits from) { load<u64, 1>({&a}, at_shared(from, 8, 8)); }                      \
  inline void ld_shared_v2_##SUFFIX(Bits& a, Bits& b, Bits from) { load<u64, 2>({&a, &b}, at_shared(from, 16, 16)); }    \
  inline void st_global_##SUFFIX(Bits to, Bits a) { store<u64, 1>((void*)to, {a}); }                                     \
  inline void st_global_v2_##SUFFIX(Bits to, Bits a, Bits b) { store<u64, 2>((void*)to, {a, b}); }                       \
  inline void st_shared_##SUFFIX(Bits to, Bits a) { store<u64, 1>(at_shared(to, 8, 8), {a}); }                           \
  inline void st_shared_v2_##SUFFIX(Bits to, Bits a, Bits b) { store<u64, 2>(at_shared(to, 16, 16), {a, b}); }           \
  inline void st_async_##SUFFIX(Bits to, Bits a, Bits barrier) { store_later(to, &a, 8, barrier); }
ACCESS(b64) ACCESS(u64) ACCESS(s64)
#undef ACCESS
inline void red_global_add_u32(Bits to, Bits number) { atomicAdd((u32*)to, u32(number)); }
inline void createpolicy(Bits& to, Bits) { to = 0; }
inline void cvta_to_shared_u64(Bits& to, Bits from) { to = to_shared((const void*)from); }
inline void cvta_to_global_u64(Bits& to, Bits from) { to = from; }
inline void cvta_shared_u64(Bits& to, Bits from) { to = (Bits)at_shared(from, 1, 1); }
inline void mapa_shared_u32(Bits& to, Bits address, Bits rank) { to = map_to_rank(address, unsigned(rank)); }
inline void mapa_shared_u64(Bits& to, Bits address, Bits rank) { to = map_to_rank(address, unsigned(rank)); }
inline void mapa_u64(Bits& to, Bits pointer, Bits rank) {
  to = (Bits)map_pointer_to_rank((const void*)pointer, unsigned(rank));
}
inline void cp_async_shared_global(Bits to, Bits from, Bits bytes) {
  copy_async(at_shared(to, bytes, bytes), (const void*)from, unsigned(bytes), unsigned(bytes));
}
inline void cp_async_shared_global(Bits to, Bits from, Bits bytes, Bits read) {
  copy_async(at_shared(to, bytes, bytes), (const void*)from, unsigned(bytes), unsigned(read));
}
inline void cp_async_hinted_shared_global(Bits to, Bits from, Bits bytes, Bits) { cp_async_shared_global(to, from, bytes); }
inline void cp_async_commit_group() { copy_async_commit(); }
inline void cp_async_wait_group(Bits left) { copy_async_wait(unsigned(left)); }
inline void cp_async_wait_all() { copy_async_wait(0); }
inline void cp_async_mbarrier_arrive_noinc_shared_b64(Bits barrier) { copy_async_arrive(barrier); }
inline void cp_async_bulk_shared_global_mbarrier(Bits to, Bits from, Bits bytes, Bits barrier) {
  copy_to_shared_later(to, (const void*)from, u32(bytes), barrier);
}
inline void cp_async_bulk_shared_global_mbarrier_hinted(Bits to, Bits from, Bits bytes, Bits barrier, Bits) {
  copy_to_shared_later(to, (const void*)from, u32(bytes), barrier);
}
inline void cp_async_bulk_shared_global_mbarrier_multicast(Bits to, Bits from, Bits bytes, Bits barrier, Bits blocks) {
  for (unsigned rank = 0; rank < 16; ++rank)
    if (blocks >> rank & 1)
      copy_to_shared_later(map_to_rank(to, rank), (const void*)from, u32(bytes), map_to_rank(barrier, rank));
}
inline void cp_async_bulk_shared_shared_mbarrier(Bits to, Bits from, Bits bytes, Bits barrier) {
  copy_to_shared_later(to, at_shared(from, u32(bytes), 16), u32(bytes), barrier);
}
inline void cp_async_bulk_global_shared_bulk_group(Bits to, Bits from, Bits bytes) {
  copy_from_shared_later((void*)to, from, u32(bytes));
}
inline void cp_async_bulk_commit_group() { bulk_group_commit(); }
inline void cp_async_bulk_wait_group(Bits left) { bulk_group_wait(unsigned(left)); }
inline void cp_async_bulk_wait_group_read(Bits left) { bulk_group_wait(unsigned(left)); }
inline void cp_async_bulk_prefetch_L2_global(Bits, Bits) {}
inline void prefetch_global_L1(Bits) {}
inline void prefetch_global_L2(Bits) {}
inline void fence() {}

// ---- barriers

inline void bar_sync(Bits name) { barrier_sync(unsigned(name), 0, false); }
inline void bar_sync(Bits name, Bits threads) { barrier_sync(unsigned(name), unsigned(threads), false); }
inline void bar_arrive(Bits name, Bits threads) { barrier_arrive(unsigned(name), unsigned(threads)); }
inline void bar_warp_sync(Bits mask) { meet(u32(mask), "__syncwarp", {}); }
inline void barrier_cluster_arrive() { cluster_arrive(); }
inline void barrier_cluster_wait() { cluster_wait(); }
inline void mbarrier_init_shared_b64(Bits barrier, Bits count) { barrier_init(barrier, unsigned(count)); }
inline void mbarrier_inval_shared_b64(Bits barrier) { *static_cast<u64*>(at_shared(barrier, 8, 8)) = 0; }
inline void mbarrier_arrive_shared_b64(Bits& state, Bits barrier) { state = barrier_arrive_on(barrier, 1, 0); }
inline void mbarrier_arrive_shared_b64(Bits& state, Bits barrier, Bits count) {
  state = barrier_arrive_on(barrier, unsigned(count), 0);
}
inline void mbarrier_arrive_expect_tx_shared_b64(Bits& state, Bits barrier, Bits bytes) {
  state = barrier_arrive_on(barrier, 1, s(bytes));
}
inline void mbarrier_expect_tx_shared_b64(Bits barrier, Bits bytes) { barrier_expect(barrier, s(bytes)); }
inline void mbarrier_try_wait_parity_shared_b64(Bits& done, Bits barrier, Bits parity) {
  done = barrier_test(barrier, unsigned(parity), true);
}
inline void mbarrier_try_wait_parity_shared_b64(Bits& done, Bits barrier, Bits parity, Bits) {
  done = barrier_test(barrier, unsigned(parity), true);
}
inline void mbarrier_test_wait_parity_shared_b64(Bits& done, Bits barrier, Bits parity) {
  done = barrier_test(barrier, unsigned(parity), false);
}
inline void mbarrier_try_wait_shared_b64(Bits& done, Bits barrier, Bits state) {
  done = barrier_test_state(barrier, state, true);
}
inline void mbarrier_test_wait_shared_b64(Bits& done, Bits barrier, Bits state) {
  done = barrier_test_state(barrier, state, false);
}

// ---- the rest

inline void griddepcontrol_wait() {}
inline void griddepcontrol_launch_dependents() {}
inline void elect_sync(Bits&, Bits& is_elected, Bits mask) {
  meet(u32(mask), "elect.sync", {});
  is_elected = self->lane == unsigned(__builtin_ctz(u32(mask)));
}
inline void redux_sync_max_s32(Bits& to, Bits value, Bits mask) { to = u32(__reduce_max_sync(u32(mask), s(value))); }
inline void redux_sync_min_s32(Bits& to, Bits value, Bits mask) { to = u32(__reduce_min_sync(u32(mask), s(value))); }
inline void redux_sync_max_u32(Bits& to, Bits value, Bits mask) { to = __reduce_max_sync(u32(mask), u32(value)); }
inline void redux_sync_min_u32(Bits& to, Bits value, Bits mask) { to = __reduce_min_sync(u32(mask), u32(value)); }
inline void shfl_bfly_b32(Bits& to, Bits value, Bits with, Bits, Bits mask) {
  to = __shfl_xor_sync(u32(mask), u32(value), s(with));
}
inline void nanosleep_u32(Bits) { give_way(); }
inline void trap() { fail("trap"); }

inline unsigned block_number() {
  return self->block.x + grid.blocks.x * (self->block.y + grid.blocks.y * self->block.z);
}

}  // namespace ptx
}  // namespace emulated
