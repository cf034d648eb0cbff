// What a tensor core calculates. Most of a test's time passes here, so it is compiled with the machine, for speed.
#pragma once

#include "machine.h"

#include <math.h>

#include <algorithm>

namespace emulated {

// The sum of products as a tensor core makes it: all terms are brought to the largest exponent, cut off two bits below
// a float's last, added exactly, and the sum is cut to a float.
template <int K> inline float tensor_sum(float so_far, const float* a, const float* b) {
  constexpr uint64_t EXPONENT = 0x7ff0000000000000;
  double terms[K + 1];
  terms[K] = so_far;
  for (int i = 0; i < K; ++i) terms[i] = double(a[i]) * double(b[i]);
  uint64_t largest = 0;  // exponent: no product of two floats is too small for a double's
  for (int i = 0; i <= K; ++i) largest = std::max(largest, bits_as<uint64_t>(terms[i]) & EXPONENT);
  if (!largest || largest == EXPONENT) {
    double sum = 0;
    for (int i = 0; i <= K; ++i) sum += terms[i];
    return float(sum);
  }
  constexpr uint64_t ONE = uint64_t(1023) << 52, BITS = uint64_t(25) << 52;  // 17 terms of that many bits fit an int
  const double up = bits_as<double>(2 * ONE + BITS - largest), down = bits_as<double>(largest - BITS);
  int total = 0;
  for (int i = 0; i <= K; ++i) total += int(terms[i] * up);
  const double sum = total * down;
  const float made = float(sum);
  return bits_as<float>(bits_as<uint32_t>(made) - (fabs(double(made)) > fabs(sum)));
}

template <int K> inline void sums(const float (&a)[2][K], const float (&b)[2][K], const float* c, float* d) {
  for (int i = 0; i < 4; ++i) d[i] = tensor_sum<K>(c[i], a[i / 2], b[i % 2]);
}

template <int K> void multiply(Halves halves, const Slot* slots, unsigned lane, const float* c, float* d) {
  constexpr int PAIRS = K / 8;  // of words of a, before those of b
  uint16_t raw[4][K];
  for (int from = 0; from < 4; ++from)
    for (int half = 0; half < PAIRS; ++half) {  // features 2 from + 8 half, and the next
      uint16_t* const to = &raw[0][2 * from + 8 * half];
      for (int row = 0; row < 2; ++row) memcpy(to + row * K, &slots[lane / 4 * 4 + from].word[2 * half + row], 4);
      for (int column = 0; column < 2; ++column)
        memcpy(to + (2 + column) * K, &slots[4 * (lane % 4 * 2 + column) + from].word[2 * PAIRS + half], 4);
    }
  float values[4][K];
  for (int i = 0; i < 4; ++i)
    if (halves == Halves::FLOAT16)
      for (int k = 0; k < K; ++k) values[i][k] = float16_to_float(raw[i][k]);
    else
      for (int k = 0; k < K; ++k) values[i][k] = bfloat16_to_float(raw[i][k]);
  sums<K>(reinterpret_cast<const float(&)[2][K]>(values[0]), reinterpret_cast<const float(&)[2][K]>(values[2]), c, d);
}
template void multiply<8>(Halves, const Slot*, unsigned, const float*, float*);
template void multiply<16>(Halves, const Slot*, unsigned, const float*, float*);

void multiply_tf32(const Slot* slots, unsigned lane, const float* c, float* d) {
  float a[2][8], b[2][8];
  for (int from = 0; from < 4; ++from)
    for (int half = 0; half < 2; ++half)
      for (int which = 0; which < 2; ++which) {
        a[which][from + 4 * half] = bits_as<float>(slots[lane / 4 * 4 + from].word[2 * half + which]);
        b[which][from + 4 * half] = bits_as<float>(slots[4 * (lane % 4 * 2 + which) + from].word[4 + half]);
      }
  sums<8>(a, b, c, d);
}

}  // namespace emulated
