// Weights of forward.cu, unit by unit through a ring in shared memory; which tile is a warp's; and its times.
#pragma once

constexpr int PIECES = 16, WORDS = 32;  // of a unit: 8 outputs and 16 features each; and the words of a unit of the head
constexpr float MUCH = 12.0f;           // by so much, to base 2, may a score exceed the one that others are measured by
#define NOT_A_NUMBER __int_as_float(0x7fffffff)
enum { MEMORY = 1, ARITHMETIC = 2, WAITING = 3 };
enum { START, KEYS, ATTENTION, FEED_FORWARD, SUM_OF_WORDS, WRITING };

template <class Precision>
struct Unit {
  typename Precision::Right pieces[PIECES][32];
  float bias[WORDS];           // of its outputs
  float stream[WIDTH];         // a layer's last unit of a kind: the bias of what is added to the stream;
                               // the head's: [0, 32): the bias to base 2
  float factor, next, unused[2];  // that undo the scaling of its first and second matrix
};

template <bool TIMED>
struct Timeline {
  long long *row, *end;

  __device__ __forceinline__ void start(long long* stamps, int events) {
    if (!TIMED) return;
    row = end = nullptr;
    if (threadIdx.x) return;
    row = stamps + 2ll * events * blockIdx.x;
    end = row + 2ll * events;
    write(multiprocessor(), nanoseconds());
    write(0, clock64());
  }

  // the end of a span: kind and phase in one number, then the clock
  __device__ __forceinline__ void mark(int kind, int phase) {
    if (TIMED) write(kind | phase << 8, clock64());
  }

  __device__ __forceinline__ void write(long long code, long long time) {
    if (row == end) return;
    row[0] = code, row[1] = time;
    row += 2;
  }
};

// Which of a block's tiles a warp takes, found anew where it is asked for, to keep no register. Tiles of later tokens have
// more to attend to, so that the warps of a multiprocessor's quarter get early and late ones.
template <int TEAM>
__device__ __forceinline__ int own_tile() {
  const int number = __shfl_sync(~0u, thread_index() / 32, 0) / TEAM;
  // Only a block of eight tiles has enough to even out: tile numbers are permuted among its warps.
  if (TEAM > 2 || block_threads() != 32 * TEAM * 8) return number;
  return TEAM == 2 ? number ^ (number >> 1 & 1) : number & 4 ? number ^ 3 : number;
}

// Which of a team's members the thread is in, found anew likewise.
template <int TEAM>
__device__ __forceinline__ int own_member() {
  return thread_index() / 32 % TEAM;
}

// The weights of one member of the teams, unit by unit. Its warps share the slots out among them: whose slot it is has, when
// it comes to that slot, the unit before the last replaced, once all have read it.
template <class Precision, int TEAM, int SLOTS, bool TIMED>
struct Ring {
  static constexpr int LAG = 2;
  const Unit<Precision>* source;  // of all members
  Unit<Precision>* slots;
  unsigned full, empty;  // addresses of an mbarrier for each slot
  int units, again;      // to be read, the last `again` of them for the second time
  const unsigned char* duties;  // a bit for each slot that is this warp's; in a register it would spill
  Timeline<TIMED>& timeline;
  int current = 0, slot = 0, parity = 0;

  __device__ __forceinline__ void make(int readers) const {
    for (int i = 0; i < SLOTS; ++i) make_barrier(full + 8 * i, 1), make_barrier(empty + 8 * i, readers);
  }

  // Units past the member's own are the head's, read for the second time: `again` back from the number.
  __device__ __forceinline__ void copy(int unit, int into) const {
    const int of_member = units - again, place = unit < of_member ? unit : unit - again;
    expect(full + 8 * into, sizeof(Unit<Precision>));
    bulk_copy(shared_address(slots + into), source + own_member<TEAM>() * of_member + place, sizeof(Unit<Precision>), full + 8 * into);
  }

  __device__ __forceinline__ void fill() const {
    for (int unit = 0; unit < min(SLOTS, units); ++unit) copy(unit, unit);
  }

  __device__ __forceinline__ const Unit<Precision>& next(int phase) {
    timeline.mark(ARITHMETIC, phase);
    // Two units behind the one that is read now: all warps have most likely left it, so that this wait is short, and
    // the copy has SLOTS - 2 units of time to arrive.
    if (*duties >> slot & 1 && current >= LAG && current - LAG + SLOTS < units) {
      if (threadIdx.x % 32 == 0) {
        const bool wrapped = slot < LAG;
        const int into = wrapped ? slot - LAG + SLOTS : slot - LAG;
        await_here(empty + 8 * into, parity ^ wrapped);
        copy(current - LAG + SLOTS, into);
      }
      __syncwarp();
    }
    // parity turns each time the ring has gone round
    await_here(full + 8 * slot, parity);
    timeline.mark(MEMORY, phase);
    return slots[slot];
  }

  // One arrival a warp: __syncwarp first, so that no lane still reads.
  __device__ __forceinline__ void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(empty + 8 * slot);
    ++current;
    if (++slot == SLOTS) slot = 0, parity ^= 1;
  }
};
