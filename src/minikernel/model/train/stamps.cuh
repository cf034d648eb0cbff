// What a block writes down of its last step where the source is compiled with STAMPED, and nothing elsewhere: which
// multiprocessor it runs on, and when each span of its first thread ended (measure/model/stamps.py reads it).
#pragma once

#ifndef STAMPED
#define STAMPED 0
#endif

// kinds of a span, and the parts of a step that it belongs to
constexpr int OF_MEMORY = 1, OF_ARITHMETIC = 2, OF_WAITING = 3;
constexpr int FORWARD = 6, HEAD_PART = 7, BACKWARD = 8, GRADIENTS_PART = 9, UPDATE_PART = 10;
constexpr int EVENTS = 64;  // of a block

#if STAMPED
struct Watch {
  long long *row = nullptr, *end = nullptr;
  __device__ __forceinline__ void begin(long long* stamps, int block) {
    if (threadIdx.x) return;
    row = stamps + 2ll * EVENTS * block, end = row + 2 * EVENTS;
    write(multiprocessor(), nanoseconds());
    write(0, clock64());
  }
  // the end of a span
  __device__ __forceinline__ void mark(int kind, int part) { write(kind | part << 8, clock64()); }
  __device__ __forceinline__ void write(long long code, long long time) {
    if (row == end) return;
    row[0] = code, row[1] = time;
    row += 2;
  }
};
#define OF_STAMPS , long long* stamps
#else
struct Watch {
  __device__ __forceinline__ void begin(long long*, int) {}
  __device__ __forceinline__ void mark(int, int) {}
};
#define OF_STAMPS
constexpr long long* stamps = nullptr;
#endif
