// What warps and blocks of a cluster (forward.cu) give one another: activations as operands of the next
// product, and sums of products that do not wait for each other.
#pragma once

// A chunk of activations in shared memory, two tiles rounded: what a lane gives the tensor cores, 16 bytes a part. The
// parts of float32 are the high halves and the low ones.
template <class Precision>
struct Chunk;

template <>
struct Chunk<Float32> {
  static constexpr int PARTS = 2;

  static __device__ __forceinline__ Float32::Left load(const uint4* from) {
    const uint4 high = from[0], low = from[32];
    return {{high.x, high.y, high.z, high.w}, {low.x, low.y, low.z, low.w}};
  }
  static __device__ __forceinline__ uint4 part(const Float32::Left& chunk, int number) {
    return number ? make_uint4(chunk.low[0], chunk.low[1], chunk.low[2], chunk.low[3])
                  : make_uint4(chunk.high[0], chunk.high[1], chunk.high[2], chunk.high[3]);
  }
  static __device__ __forceinline__ void store(uint4* to, const float (&u)[4], const float (&v)[4]) {
    const Float32::Left made = Float32::left(u, v);
    to[0] = part(made, 0);
    to[32] = part(made, 1);
  }
  static __device__ __forceinline__ void store_tile(uint4* to, int half, const float (&tile)[4]) {
    uint2 high, low;
    // One tile of a chunk: its words 0 and 1 are rows g and g + 8, and the other tile's follow as words 2 and 3.
    Float32::split(tile[0], tile[1], high.x, low.x);
    Float32::split(tile[2], tile[3], high.y, low.y);
    reinterpret_cast<uint2*>(to)[half] = high;
    reinterpret_cast<uint2*>(to + 32)[half] = low;
  }
  // x and y are high halves of rows g and g + 8, z and w the low ones; `keys_of` puts two tiles together.
  static __device__ __forceinline__ uint4 keys(const float (&tile)[4]) {
    uint4 made;
    Float32::split(tile[0], tile[1], made.x, made.z);
    Float32::split(tile[2], tile[3], made.y, made.w);
    return made;
  }
};

template <>
struct Chunk<Bfloat16> {
  static constexpr int PARTS = 1;

  static __device__ __forceinline__ Bfloat16::Left load(const uint4* from) {
    return {{from->x, from->y, from->z, from->w}};
  }
  static __device__ __forceinline__ uint4 part(const Bfloat16::Left& chunk, int) {
    return make_uint4(chunk.pairs[0], chunk.pairs[1], chunk.pairs[2], chunk.pairs[3]);
  }
  static __device__ __forceinline__ void store(uint4* to, const float (&u)[4], const float (&v)[4]) {
    *to = part(Bfloat16::left(u, v), 0);
  }
  static __device__ __forceinline__ void store_tile(uint4* to, int half, const float (&tile)[4]) {
    reinterpret_cast<uint2*>(to)[half] = keys(tile);
  }
  // one word a row: no low halves
  static __device__ __forceinline__ uint2 keys(const float (&tile)[4]) {
    return make_uint2(pack_bfloat16(tile[0], tile[1]), pack_bfloat16(tile[2], tile[3]));
  }
};

// keys of tokens 0 to 7 and 8 to 15, from the tiles of dimensions 0 to 7 and 8 to 15
__device__ __forceinline__ void keys_of(uint4 u, uint4 v, uint4 (&made)[2]) {
  made[0] = make_uint4(u.x, v.x, u.z, v.z);
  made[1] = make_uint4(u.y, v.y, u.w, v.w);
}
__device__ __forceinline__ void keys_of(uint2 u, uint2 v, uint2 (&made)[2]) {
  made[0] = make_uint2(u.x, v.x);
  made[1] = make_uint2(u.y, v.y);
}

// The same 16 bytes as numbers: `st.async` moves bits and does not care.
__device__ __forceinline__ void send(unsigned to, unsigned barrier, uint4 value) {
  send(to, barrier,
       make_float4(__uint_as_float(value.x), __uint_as_float(value.y), __uint_as_float(value.z),
                   __uint_as_float(value.w)));
}

// Two neighbouring results of a row: all that a lane has of a tile there.
__device__ __forceinline__ void store_pair(float* to, float first, float second) {
  *reinterpret_cast<float2*>(to) = make_float2(first, second);
}
__device__ __forceinline__ void store_pair(unsigned short* to, float first, float second) {
  *reinterpret_cast<word*>(to) = pack_bfloat16(first, second);
}
__device__ __forceinline__ void store_one(float* to, float value) { *to = value; }
__device__ __forceinline__ void store_one(unsigned short* to, float value) {
  *to = static_cast<unsigned short>(pack_bfloat16(value, 0));
}

// Sums of COUNT tiles. The three products of float32 have sums of their own, and so have even and odd chunks, so that
// a tensor core need not wait for its last result.
template <class Precision, int COUNT>
struct Sums;

template <int COUNT>
struct Sums<Float32, COUNT> {
  // low x high, high x low, high x high: added up in the end, small ones first, since tensor cores truncate.
  float kept[COUNT][3][4] = {};

  __device__ __forceinline__ void add(int tile, int, const Float32::Left& a, const uint4& b) {
    multiply_float16(kept[tile][0], a.low, b.x, b.y);
    multiply_float16(kept[tile][1], a.high, b.z, b.w);
    multiply_float16(kept[tile][2], a.high, b.x, b.y);
  }
  __device__ __forceinline__ float total(int tile, int i) const {
    return kept[tile][0][i] + kept[tile][1][i] + kept[tile][2][i];
  }
};

template <int COUNT>
struct Sums<Bfloat16, COUNT> {
  float kept[COUNT][2][4] = {};

  __device__ __forceinline__ void add(int tile, int chunk, const Bfloat16::Left& a, const uint2& b) {
    multiply_bfloat16(kept[tile][chunk % 2], a.pairs, b.x, b.y);
  }
  __device__ __forceinline__ float total(int tile, int i) const { return kept[tile][0][i] + kept[tile][1][i]; }
};
