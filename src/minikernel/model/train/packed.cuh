// The matrices once more, as the products read them: what a thread needs for a product lies in places of 16 bytes,
// THREADS of them side by side, so that a warp loads 512 bytes that follow each other, and addresses cost nothing. Who
// updates a parameter writes it here as well.
#pragma once

constexpr int SLOT = 4 * THREADS;  // floats

// ---- of a layer, in slots; then of the head: for the way to the loss, 4 of each 128 words, and for the way back
constexpr int QKV_FORTH = 0, PROJ_FORTH = 8, FC_FORTH = 10, OUT_FORTH = 18, OUT_BACK = 26, FC_BACK = 34, PROJ_BACK = 42,
              QKV_BACK = 44, SLOTS_OF_LAYER = 50;

__device__ __forceinline__ float* Run::packed_layer(int layer) const { return packed + layer * SLOTS_OF_LAYER * SLOT; }
__device__ __forceinline__ float* Run::packed_head() const { return packed_layer(layers); }
__device__ __forceinline__ float* Run::packed_head_back() const {
  return packed_head() + rounded_up(words, 256) / 128 * 4 * SLOT;
}

// For a product with W^T: features 4 pair to 4 pair + 3 of sixteen are a lane's, of the output that its group says.
__device__ __forceinline__ int place_forth(int slot, int warp, int output, int feature) {
  return slot * SLOT + 4 * (32 * warp + 4 * (output % 8) + feature % 16 / 4) + feature % 4;
}

// For a product with W: of outputs 4 pair to 4 pair + 3 of sixteen, the two features that its group says; two outputs a
// slot.
__device__ __forceinline__ int place_back(int slot, int warp, int output, int feature) {
  return (slot + output % 4 / 2) * SLOT + 4 * (32 * warp + 4 * (feature % 16 / 2) + output % 16 / 4) + output % 2 * 2 +
         feature % 2;
}

// A product's outputs are shared among all warps, or its features are: see Tile.
__device__ __forceinline__ int wide_forth(int output, int feature) {
  return place_forth(output / 128 * 4 + feature / 16, output / 8 % 16, output, feature);
}
template <int CHUNKS> __device__ __forceinline__ int narrow_forth(int output, int feature) {
  const int chunk = feature / 16;
  return place_forth(output / 8 % 2 * CHUNKS + chunk % CHUNKS, output / 16 + chunk / CHUNKS * 4, output, feature);
}
template <int CHUNKS> __device__ __forceinline__ int narrow_back(int output, int feature) {
  const int chunk = output / 16;
  return place_back(2 * (chunk % CHUNKS), feature / 16 + chunk / CHUNKS * 4, output, feature);
}

// Put four parameters, of one output, where products read them, if they are of a matrix that they have.
__device__ __forceinline__ void pack(const Run& run, int at, float4 four) {
  auto put = [&](float* forth, float* back) {
    *reinterpret_cast<float4*>(forth) = four;
    // two features lie in a place, and the next two in the next group's
    *reinterpret_cast<float2*>(back) = make_float2(four.x, four.y);
    *reinterpret_cast<float2*>(back + 16) = make_float2(four.z, four.w);
  };
  int of = at - run.layer_at(0);
  if (of < 0) return;
  if (at >= run.last_at()) {
    of = at - run.head_at();
    if (of < 0 || of >= run.words * WIDTH) return;
    const int output = of / WIDTH, feature = of % WIDTH, round = output / 128;
    const int back = place_back(4 * round + output / 16 % 2 * 2, feature / 16 + output % 128 / 32 * 4, output, feature);
    put(run.packed_head() + wide_forth(output, feature), run.packed_head_back() + back);
    return;
  }
  float* const to = run.packed_layer(of / LAYER);
  of %= LAYER;
  auto place = [&](int forth, int forth_at, int back, int back_at) {
    put(to + forth * SLOT + forth_at, to + back * SLOT + back_at);
  };
  if ((of -= QKV_WEIGHT) >= 0 && of < QKV * WIDTH)
    place(QKV_FORTH, wide_forth(of / WIDTH, of % WIDTH), QKV_BACK, narrow_back<3>(of / WIDTH, of % WIDTH));
  else if ((of += QKV_WEIGHT - PROJ_WEIGHT) >= 0 && of < WIDTH * WIDTH)
    place(PROJ_FORTH, narrow_forth<1>(of / WIDTH, of % WIDTH), PROJ_BACK, narrow_back<1>(of / WIDTH, of % WIDTH));
  else if ((of += PROJ_WEIGHT - FC_WEIGHT) >= 0 && of < HIDDEN * WIDTH)
    place(FC_FORTH, wide_forth(of / WIDTH, of % WIDTH), FC_BACK, narrow_back<4>(of / WIDTH, of % WIDTH));
  else if ((of += FC_WEIGHT - OUT_WEIGHT) >= 0 && of < WIDTH * HIDDEN)
    place(OUT_FORTH, narrow_forth<4>(of / HIDDEN, of % HIDDEN), OUT_BACK,
          place_back(of / HIDDEN / 16 * 2, of % HIDDEN / 16, of / HIDDEN, of % HIDDEN));
}
