// A GPU's cluster of blocks on one thread of a CPU: what kernels, compiled as C++, see of the machine (machine.cpp).
//
// Each CUDA thread is a fiber with a stack of its own, which runs until it has to wait for others. What is wrong about
// a kernel ends the launch with a sentence: threads that wait for ever, lanes of a warp that meet in different
// instructions, memory beyond an array, a barrier that was never made.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t Bits;  // a register of PTX, whatever its type

namespace emulated {

template <class To, class From> inline To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

inline float float16_to_float(uint16_t half) { return float(bits_as<_Float16>(half)); }
inline float bfloat16_to_float(uint16_t half) { return bits_as<float>(uint32_t(half) << 16); }

struct Three {
  unsigned x, y, z;
};

// What threads see of themselves; the rest of a fiber is machine.cpp's.
struct Thread {
  Three index;
  Three block;
  unsigned number, lane, rank;  // in its block, in its warp; of its block in the cluster
};

struct Grid {
  Three blocks, threads, cluster;
  unsigned dynamic_bytes, cluster_size;
};

constexpr int PAYLOAD = 8;  // words that a lane hands to the other lanes of its warp

struct Slot {
  uint32_t word[PAYLOAD];
};

extern Thread* self;
extern Grid grid;

// End the launch with a sentence, to which the block and the thread are added.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Meet the lanes of `mask` that have not ended; returns what each of the 32 brought, valid until the next meeting.
const Slot* meet(unsigned mask, const char* instruction, const Slot& brought);

// Named barriers of a block; `threads` 0 stands for all that have not ended. Returns how many brought true.
unsigned barrier_sync(unsigned name, unsigned threads, bool brought);
void barrier_arrive(unsigned name, unsigned threads);
void cluster_arrive();
void cluster_wait();

// Let others run first.
void give_way();

// Memory.
void* static_shared(const void* key, size_t bytes, size_t alignment);
void* dynamic_shared();
Bits to_shared(const void* pointer);         // a pointer as PTX addresses it in shared memory
void* at_shared(Bits address, size_t bytes, size_t alignment);   // and back; of any block of the cluster
Bits map_to_rank(Bits address, unsigned rank);
void* map_pointer_to_rank(const void* pointer, unsigned rank);

// mbarriers, by their address in shared memory.
void barrier_init(Bits barrier, unsigned count);
Bits barrier_arrive_on(Bits barrier, unsigned count, int expected_bytes);
void barrier_expect(Bits barrier, int bytes);
bool barrier_test(Bits barrier, unsigned parity, bool wait);
bool barrier_test_state(Bits barrier, Bits state, bool wait);

// Copies that end some time later: the bytes are moved then, and the mbarrier told.
void store_later(Bits to, const void* bytes, unsigned count, Bits barrier);
void copy_to_shared_later(Bits to, const void* from, Bits bytes, Bits barrier);
void copy_from_shared_later(void* to, Bits from, Bits bytes);  // in the thread's bulk group
void bulk_group_wait(unsigned left);
void bulk_group_commit();
void copy_async(void* to, const void* from, unsigned bytes, unsigned read);  // cp.async, in the thread's group
void copy_async_commit();
void copy_async_wait(unsigned left);
void copy_async_arrive(Bits barrier);

// A tensor core's products for one lane (tensor_core.h): d[2][2] = a[2][K] b[K][2] + c[2][2], of what the lanes brought.
enum class Halves { FLOAT16, BFLOAT16 };
template <int K> void multiply(Halves halves, const Slot* slots, unsigned lane, const float* c, float* d);  // K 8 or 16
void multiply_tf32(const Slot* slots, unsigned lane, const float* c, float* d);                             // K 8

long long nanoseconds();

}  // namespace emulated
