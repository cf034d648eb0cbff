// The machine under the kernels: fibers and who runs next, barriers, shared memory, copies that end later.
#include "tensor_core.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

// Save what a call must keep, leave this stack, and go on with another.
extern "C" void emulated_switch(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
.text
.globl emulated_switch
.hidden emulated_switch
emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  retq
)");
constexpr size_t SAVED = 7;  // registers and the address to return to
#elif defined(__aarch64__)
asm(R"(
.text
.globl emulated_switch
.hidden emulated_switch
emulated_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
constexpr size_t SAVED = 20;
#else
#error "the emulator switches stacks on x86-64 and aarch64"
#endif

namespace emulated {

constexpr size_t STACK = 128 << 10, WINDOW = 256 << 10, PAGE = 4096, MOST_SHARED = 232448;
constexpr unsigned BARRIERS = 16;
constexpr uint16_t POISON = 0x7ffe;  // repeated, NaN in every floating type
constexpr unsigned RANK_SHIFT = 20;  // of an address in shared memory: below it the place, above it the block + 1

struct Fiber;

struct Waiting {  // fibers in a list
  Fiber* first = nullptr;
};

struct Meeting {  // of the lanes of a mask
  unsigned mask = 0, arrived = 0, turn = 0;
  const char* instruction = nullptr;
  Slot slots[2][32];
  Waiting waiting;
};

struct Warp {
  unsigned alive = 0;
  std::vector<std::unique_ptr<Meeting>> meetings;  // one for each mask
};

struct Barrier {
  unsigned arrived = 0, threads = 0, votes = 0, result[2] = {0, 0}, turn = 0;
  bool all = false;
  Waiting waiting;
};

struct Held {  // a static variable in shared memory
  const void* key;
  void* place;
};

struct Block {
  Three index;
  unsigned rank, alive, static_bytes;
  char* window;
  std::vector<Warp> warps;
  Barrier barriers[BARRIERS];
  std::vector<Held> held;
  Waiting on_mbarriers;
};

struct Later {  // a copy that has not happened yet
  char* to;
  const char* from;  // nullptr: `bytes` below
  size_t count;
  char bytes[16];
  Bits barrier;
  Fiber* by;      // whose bulk group it is in
  unsigned group;
};

struct Async {  // a cp.async
  char* to;
  const char* from;
  unsigned bytes, read, group;
};

enum class Wait { NONE, WARP, BARRIER, CLUSTER, MBARRIER, BULK };

struct Fiber : Thread {
  void* stack_pointer;
  char* stack;
  Block* home;
  Warp* warp;
  Fiber* next;
  bool ended;
  // what it waits for, to be reported
  Wait wait;
  const char* instruction;
  unsigned mask;     // of lanes; or the barrier's name
  Bits barrier;      // an mbarrier
  unsigned parity;
  unsigned cluster_turn;
  bool cluster_arrived;
  unsigned async_group, bulk_group;
  std::vector<Async> async;
};

Thread* self;
Grid grid;

namespace {

Fiber* current;
void* main_stack;
sigjmp_buf escape;
char message[4096];
bool failed;

std::vector<Fiber> fibers;
std::vector<Block> blocks;
std::vector<char*> stacks, windows;
std::deque<Later> later;
void (*kernel_call)(void*);
void* kernel_arguments;

// threads that can run: the last one made ready runs first, which keeps a warp together
std::vector<Fiber*> ready;
std::deque<Fiber*> gave_way;
bool shuffled;
uint64_t random_state;

unsigned cluster_arrivals, cluster_phase, cluster_alive;
Waiting on_cluster;
unsigned long long idle_turns;

uint64_t random_number() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

bool chance(unsigned of) { return random_number() % of == 0; }

void wake(Waiting& waiting) {
  const size_t from = ready.size();
  for (Fiber* fiber = waiting.first; fiber;) {
    Fiber* const next = fiber->next;
    fiber->wait = Wait::NONE;
    ready.push_back(fiber);
    fiber = next;
  }
  waiting.first = nullptr;
  if (shuffled)
    for (size_t i = ready.size() - 1; i > from && i < ready.size(); --i)
      std::swap(ready[i], ready[from + random_number() % (i - from + 1)]);
}

// ---- mbarriers: 64 bits in shared memory

struct MBarrier {
  uint64_t tag : 11, phase : 1, expected : 13, pending : 13;
  int64_t bytes : 26;
};
static_assert(sizeof(MBarrier) == 8, "an mbarrier is 8 bytes");
constexpr unsigned TAG = 0x5a7;

Block* block_at(Bits address) {
  const uint64_t rank = (address >> RANK_SHIFT) - 1;
  return rank < blocks.size() ? &blocks[rank] : nullptr;
}

long dynamic_place(Bits address) {  // negative: it lies in static shared memory
  return long(address & ((1 << RANK_SHIFT) - 1)) - long(WINDOW - (grid.dynamic_bytes + 127) / 128 * 128);
}

MBarrier* mbarrier(Bits address) {
  auto* const found = static_cast<MBarrier*>(at_shared(address, 8, 8));
  if (found->tag != TAG) fail("the mbarrier at byte %ld of dynamic shared memory was never initialised", dynamic_place(address));
  return found;
}

void complete(Bits address, MBarrier* barrier) {
  if (barrier->pending || barrier->bytes) return;
  barrier->phase ^= 1;
  barrier->pending = barrier->expected;
  Block* const block = block_at(address);
  Waiting woken, left;
  for (Fiber* fiber = block->on_mbarriers.first; fiber;) {
    Fiber* const next = fiber->next;
    Waiting& list = fiber->barrier == address && fiber->parity != barrier->phase ? woken : left;
    fiber->next = list.first;
    list.first = fiber;
    fiber = next;
  }
  block->on_mbarriers = left;
  wake(woken);
}

void do_later(size_t which) {
  const Later copy = later[which];
  if (which) later[which] = later.back(), later.pop_back();
  else later.pop_front();
  memcpy(copy.to, copy.from ? copy.from : copy.bytes, copy.count);
  if (copy.barrier) {
    MBarrier* const barrier = mbarrier(copy.barrier);
    barrier->bytes -= copy.count;
    complete(copy.barrier, barrier);
  } else if (copy.by->wait == Wait::BULK) {  // it looks for itself whether its group is done
    copy.by->wait = Wait::NONE;
    ready.push_back(copy.by);
  }
}

std::string name_of(const Fiber* fiber) {
  char text[160];
  const bool flat = grid.threads.y == 1 && grid.threads.z == 1, line = grid.blocks.y == 1 && grid.blocks.z == 1;
  int length = line ? snprintf(text, sizeof text, "block %u", fiber->block.x)
                    : snprintf(text, sizeof text, "block (%u, %u, %u)", fiber->block.x, fiber->block.y, fiber->block.z);
  if (flat) snprintf(text + length, sizeof text - length, ", thread %u", fiber->index.x);
  else snprintf(text + length, sizeof text - length, ", thread (%u, %u, %u)", fiber->index.x, fiber->index.y, fiber->index.z);
  return text;
}

std::string waits_for(const Fiber* fiber) {
  char text[400];
  switch (fiber->wait) {
    case Wait::WARP: {
      unsigned missing = 0;
      for (const auto& meeting : fiber->warp->meetings)
        if (meeting->mask == fiber->mask) missing = fiber->mask & fiber->warp->alive & ~meeting->arrived;
      snprintf(text, sizeof text, "%s with lanes %08x, of which %08x are missing", fiber->instruction, fiber->mask, missing);
      return text;
    }
    case Wait::BARRIER: {
      const Barrier& barrier = fiber->home->barriers[fiber->mask];
      snprintf(text, sizeof text, "barrier %u, where %u of %u threads are", fiber->mask, barrier.arrived,
               barrier.all ? fiber->home->alive : barrier.threads);
      return text;
    }
    case Wait::CLUSTER:
      snprintf(text, sizeof text, "the cluster's barrier, where %u of %u threads are", cluster_arrivals, cluster_alive);
      return text;
    case Wait::MBARRIER: {
      const auto* barrier = reinterpret_cast<MBarrier*>(block_at(fiber->barrier)->window + (fiber->barrier & ((1 << RANK_SHIFT) - 1)));
      snprintf(text, sizeof text,
               "the mbarrier at byte %ld of dynamic shared memory, parity %u, which lacks %u arrivals and %ld bytes",
               dynamic_place(fiber->barrier), fiber->parity, unsigned(barrier->pending), long(barrier->bytes));
      return text;
    }
    case Wait::BULK: return "its bulk copies";
    case Wait::NONE: return "nothing";
  }
  return "";
}

[[noreturn]] void leave() {
  failed = true;
  void* ignored;
  emulated_switch(&ignored, main_stack);
  abort();
}

[[noreturn]] void deadlock() {
  std::string text = "deadlock:";
  size_t told = 0;
  for (size_t i = 0; i < fibers.size() && told < 12;) {  // threads in a row that wait for the same
    if (fibers[i].ended) {
      ++i;
      continue;
    }
    const std::string what = waits_for(&fibers[i]);
    size_t end = i + 1;
    while (end < fibers.size() && !fibers[end].ended && fibers[end].home == fibers[i].home && waits_for(&fibers[end]) == what) ++end;
    text += (told++ ? "; " : " ") + name_of(&fibers[i]);
    if (end > i + 1) text += " and the " + std::to_string(end - i - 1) + " after it";
    text += " wait for " + what;
    i = end;
  }
  snprintf(message, sizeof message, "%s", text.c_str());
  leave();
}

// Leave the current fiber, which is in some list by now, or has ended, for another that can run.
void next_fiber() {
  Fiber* next = nullptr;
  while (!next) {
    if (shuffled && !later.empty() && chance(4)) do_later(random_number() % later.size());
    if (!ready.empty()) {
      if (shuffled && chance(4)) std::swap(ready.back(), ready[random_number() % ready.size()]);
      next = ready.back();
      ready.pop_back();
      idle_turns = 0;
    } else if (!later.empty()) {
      do_later(shuffled ? random_number() % later.size() : 0);
    } else if (!gave_way.empty()) {
      next = gave_way.front();
      gave_way.pop_front();
      if (++idle_turns > 20'000'000) {
        snprintf(message, sizeof message, "all threads that are left poll for what does not come; the next is %s",
                 name_of(next).c_str());
        leave();
      }
    } else if (cluster_alive) {
      deadlock();
    } else {
      void* ignored;
      emulated_switch(current ? &current->stack_pointer : &ignored, main_stack);
      abort();
    }
  }
  Fiber* const last = current;
  if (next == last) return;
  self = current = next;
  emulated_switch(&last->stack_pointer, next->stack_pointer);
}

void wait_in(Waiting& list, Wait wait) {
  current->wait = wait;
  current->next = list.first;
  list.first = current;
  next_fiber();
}

void met(Meeting& meeting) {
  meeting.arrived = 0;
  ++meeting.turn;
  wake(meeting.waiting);
}

void opened(Barrier& barrier) {
  barrier.result[barrier.turn++ & 1] = barrier.votes;
  barrier.arrived = barrier.votes = 0;
  wake(barrier.waiting);
}

void cluster_opened() {
  ++cluster_phase;
  cluster_arrivals = 0;
  wake(on_cluster);
}

// After what was waited for came with this thread: in a shuffled order it may be another's turn.
void perhaps_give_way() {
  if (!shuffled || !chance(2)) return;
  ready.push_back(current);
  std::swap(ready.back(), ready[random_number() % ready.size()]);
  next_fiber();
}

void end_of_fiber() {
  Fiber* const fiber = current;
  if (!fiber->async.empty()) copy_async_wait(0);
  fiber->ended = true;
  Warp* const warp = fiber->warp;
  warp->alive &= ~(1u << fiber->lane);
  for (const auto& meeting : warp->meetings)
    if (meeting->arrived && !(meeting->mask & warp->alive & ~meeting->arrived)) met(*meeting);
  Block* const block = fiber->home;
  --block->alive;
  for (Barrier& barrier : block->barriers)
    if (barrier.arrived && barrier.all && barrier.arrived == block->alive) opened(barrier);
  --cluster_alive;
  if (fiber->cluster_arrived) --cluster_arrivals;
  if (cluster_alive && cluster_arrivals == cluster_alive) cluster_opened();
  if (!block->alive) {
    for (const Later& copy : later)
      if (copy.barrier && block_at(copy.barrier) == block)
        fail("the block ended before %zu bytes had arrived that were sent into its shared memory", copy.count);
  }
  next_fiber();
  abort();
}

void body_of_fiber() {
  kernel_call(kernel_arguments);
  end_of_fiber();
}

// ---- memory that is given to a kernel, each piece with pages around it that nobody may touch

struct Fenced {
  char* mapping;
  size_t mapped;
  char* start;
  size_t bytes;
};
std::vector<Fenced> fenced;
struct sigaction before[3];
const int SIGNALS[3] = {SIGSEGV, SIGBUS, SIGILL};

void on_fault(int number, siginfo_t* info, void*) {
  const char* const at = static_cast<char*>(info->si_addr);
  std::string text;
  char part[300];
  if (number == SIGILL) {
    text = "an address that its type's alignment forbids, or an index beyond an array's end";
  } else {
    for (size_t i = 0; i < fenced.size() && text.empty(); ++i) {
      const Fenced& piece = fenced[i];
      if (at < piece.mapping || at >= piece.mapping + piece.mapped) continue;
      if (at >= piece.start + piece.bytes)
        snprintf(part, sizeof part, "argument %zu is accessed %zu bytes past its end", i, size_t(at - piece.start - piece.bytes));
      else if (at < piece.start)
        snprintf(part, sizeof part, "argument %zu is accessed %zu bytes before its start", i, size_t(piece.start - at));
      else snprintf(part, sizeof part, "argument %zu, a pointer to const, is written", i);
      text = part;
    }
    for (const Block& block : blocks) {
      if (!text.empty() || at < block.window - PAGE || at >= block.window + WINDOW + PAGE) continue;
      snprintf(part, sizeof part, "shared memory of the cluster's block %u is accessed %zu bytes %s", block.rank,
               size_t(at < block.window ? block.window - at : at - block.window - WINDOW),
               at < block.window ? "before its start" : "past its end");
      text = part;
    }
    for (const Fiber& fiber : fibers)
      if (text.empty() && at >= fiber.stack && at < fiber.stack + PAGE) text = "the thread's stack is full: larger local arrays than 120 KB, or endless recursion";
    if (text.empty()) {
      snprintf(part, sizeof part, "memory at %p, which belongs to nobody, is accessed", static_cast<const void*>(at));
      text = part;
    }
  }
  snprintf(message, sizeof message, "%s: %s", current ? name_of(current).c_str() : "before the first thread", text.c_str());
  siglongjmp(escape, 1);
}

void catch_faults() {
  static char* const alternate = static_cast<char*>(malloc(256 << 10));
  stack_t stack{};
  stack.ss_sp = alternate;
  stack.ss_size = 256 << 10;
  sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (int i = 0; i < 3; ++i) sigaction(SIGNALS[i], &action, &before[i]);
}

void leave_faults() {
  for (int i = 0; i < 3; ++i) sigaction(SIGNALS[i], &before[i], nullptr);
}

char* map(size_t bytes) {
  void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) {
    perror("mmap");
    abort();
  }
  return static_cast<char*>(made);
}

void poison(void* at, size_t bytes) {
  auto* const words = static_cast<uint16_t*>(at);
  std::fill(words, words + bytes / 2, POISON);
}

size_t rounded(size_t number, size_t to) { return (number + to - 1) / to * to; }

// Every block of a cluster begins, its shared memory poisoned and its threads ready.
void begin_cluster(unsigned first) {
  const unsigned threads = grid.threads.x * grid.threads.y * grid.threads.z, size = grid.cluster_size;
  while (windows.size() < size) {
    char* const made = map(WINDOW + 2 * PAGE);
    mprotect(made, PAGE, PROT_NONE);
    mprotect(made + PAGE + WINDOW, PAGE, PROT_NONE);
    windows.push_back(made + PAGE);
  }
  while (stacks.size() < size * threads) {
    stacks.push_back(map(STACK));
    mprotect(stacks.back(), PAGE, PROT_NONE);
  }
  blocks.clear();
  blocks.resize(size);
  fibers.assign(size * threads, Fiber{});
  ready.clear();
  gave_way.clear();
  later.clear();
  cluster_arrivals = cluster_phase = 0;
  on_cluster = Waiting{};
  cluster_alive = size * threads;
  const Three in_cluster = grid.cluster, across{grid.blocks.x / in_cluster.x, grid.blocks.y / in_cluster.y, 0};
  const Three corner{first % across.x * in_cluster.x, first / across.x % across.y * in_cluster.y,
                     first / across.x / across.y * in_cluster.z};
  for (unsigned rank = 0; rank < size; ++rank) {
    Block& block = blocks[rank];
    block.index = Three{corner.x + rank % in_cluster.x, corner.y + rank / in_cluster.x % in_cluster.y,
                        corner.z + rank / in_cluster.x / in_cluster.y};
    block.rank = rank;
    block.alive = threads;
    block.window = windows[rank];
    poison(block.window, WINDOW);
    block.warps.resize((threads + 31) / 32);
    for (unsigned thread = 0; thread < threads; ++thread) {
      Fiber& fiber = fibers[rank * threads + thread];
      fiber.index = Three{thread % grid.threads.x, thread / grid.threads.x % grid.threads.y,
                          thread / grid.threads.x / grid.threads.y};
      fiber.block = block.index;
      fiber.number = thread;
      fiber.lane = thread % 32;
      fiber.rank = rank;
      fiber.home = &block;
      fiber.warp = &block.warps[thread / 32];
      fiber.warp->alive |= 1u << fiber.lane;
      fiber.stack = stacks[rank * threads + thread];
      auto** top = reinterpret_cast<void**>(fiber.stack + STACK);
      *--top = nullptr;
      *--top = nullptr;
#if defined(__x86_64__)
      *--top = nullptr;  // as after a call: 8 bytes off a 16-byte boundary
      *--top = reinterpret_cast<void*>(body_of_fiber);
      for (size_t i = 1; i < SAVED; ++i) *--top = nullptr;
#else
      for (size_t i = 0; i < SAVED; ++i) *--top = nullptr;
      top[11] = reinterpret_cast<void*>(body_of_fiber);
#endif
      fiber.stack_pointer = top;
      ready.push_back(&fiber);
    }
  }
  if (shuffled)
    for (size_t i = ready.size() - 1; i > 0; --i) std::swap(ready[i], ready[random_number() % (i + 1)]);
  else std::reverse(ready.begin(), ready.end());  // the first thread runs first
}

}  // namespace

void fail(const char* format, ...) {
  char text[3000];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  snprintf(message, sizeof message, "%s: %s", current ? name_of(current).c_str() : "before the first thread", text);
  leave();
}

const Slot* meet(unsigned mask, const char* instruction, const Slot& brought) {
  Fiber* const fiber = current;
  Warp* const warp = fiber->warp;
  if (!(mask >> fiber->lane & 1)) fail("%s for lanes %08x, of which this one is not", instruction, mask);
  Meeting* meeting = nullptr;
  for (const auto& each : warp->meetings)
    if (each->mask == mask) {
      meeting = each.get();
      break;
    }
  if (!meeting) {
    warp->meetings.push_back(std::make_unique<Meeting>());
    meeting = warp->meetings.back().get();
    meeting->mask = mask;
  }
  if (!meeting->arrived) meeting->instruction = instruction;
  else if (meeting->instruction != instruction && strcmp(meeting->instruction, instruction))
    fail("this lane executes %s where others of its warp execute %s", instruction, meeting->instruction);
  Slot* const slots = meeting->slots[meeting->turn & 1];
  slots[fiber->lane] = brought;
  meeting->arrived |= 1u << fiber->lane;
  if (!(mask & warp->alive & ~meeting->arrived)) {
    met(*meeting);
    perhaps_give_way();
  } else {
    fiber->instruction = instruction;
    fiber->mask = mask;
    wait_in(meeting->waiting, Wait::WARP);
  }
  return slots;
}

static Barrier& barrier_of(unsigned name, unsigned threads) {
  if (name >= BARRIERS) fail("there is no barrier %u", name);
  Barrier& barrier = current->home->barriers[name];
  if (threads % 32 && threads != grid.threads.x * grid.threads.y * grid.threads.z)
    fail("barrier %u is for %u threads, no multiple of 32", name, threads);
  if (barrier.arrived && (barrier.all != !threads || barrier.threads != threads))
    fail("barrier %u is for %u threads here and for %u elsewhere", name, threads, barrier.threads);
  barrier.all = !threads;
  barrier.threads = threads;
  return barrier;
}

static bool comes_last(Barrier& barrier) {
  ++barrier.arrived;
  return barrier.arrived == (barrier.all ? current->home->alive : barrier.threads);
}

unsigned barrier_sync(unsigned name, unsigned threads, bool brought) {
  Barrier& barrier = barrier_of(name, threads);
  const unsigned turn = barrier.turn & 1;
  barrier.votes += brought;
  if (comes_last(barrier)) {
    opened(barrier);
    perhaps_give_way();
  } else {
    current->mask = name;
    wait_in(barrier.waiting, Wait::BARRIER);
  }
  return barrier.result[turn];
}

void barrier_arrive(unsigned name, unsigned threads) {
  Barrier& barrier = barrier_of(name, threads);
  if (comes_last(barrier)) opened(barrier);
}

void cluster_arrive() {
  if (current->cluster_arrived) fail("the thread arrives twice at the cluster's barrier without waiting");
  current->cluster_arrived = true;
  current->cluster_turn = cluster_phase;
  if (++cluster_arrivals == cluster_alive) cluster_opened();
}

void cluster_wait() {
  if (!current->cluster_arrived) fail("the thread waits at the cluster's barrier without having arrived");
  if (current->cluster_turn == cluster_phase) wait_in(on_cluster, Wait::CLUSTER);
  current->cluster_arrived = false;
  perhaps_give_way();
}

void give_way() {
  gave_way.push_back(current);
  next_fiber();
}

void* static_shared(const void* key, size_t bytes, size_t alignment) {
  Block* const block = current->home;
  for (const Held& held : block->held)
    if (held.key == key) return held.place;
  const size_t from = rounded(block->static_bytes, alignment);
  if (from + bytes + grid.dynamic_bytes > MOST_SHARED)
    fail("%zu bytes of static and %u of dynamic shared memory are more than a block has", from + bytes, grid.dynamic_bytes);
  block->static_bytes = from + bytes;
  block->held.push_back(Held{key, block->window + from});
  return block->window + from;
}

void* dynamic_shared() { return current->home->window + WINDOW - rounded(grid.dynamic_bytes, 128); }

Bits to_shared(const void* pointer) {
  const auto* const at = static_cast<const char*>(pointer);
  for (const Block& block : blocks)
    if (at >= block.window && at <= block.window + WINDOW)
      return (Bits(block.rank + 1) << RANK_SHIFT) + (at - block.window);
  fail("%p is no address of shared memory", pointer);
}

void* at_shared(Bits address, size_t bytes, size_t alignment) {
  Block* const block = block_at(address);
  const size_t place = address & ((1 << RANK_SHIFT) - 1);
  if (!block || place + bytes > WINDOW) fail("0x%llx is no address of %zu bytes in shared memory", (unsigned long long)address, bytes);
  if (place % alignment) fail("byte %zu of shared memory is not aligned to %zu bytes", place, alignment);
  if (!block->alive) fail("the shared memory of the cluster's block %u is used after that block ended", block->rank);
  return block->window + place;
}

Bits map_to_rank(Bits address, unsigned rank) {
  if (rank >= blocks.size()) fail("mapa: a cluster of %zu blocks has no block %u", blocks.size(), rank);
  return (address & ((1 << RANK_SHIFT) - 1)) | Bits(rank + 1) << RANK_SHIFT;
}

void* map_pointer_to_rank(const void* pointer, unsigned rank) { return at_shared(map_to_rank(to_shared(pointer), rank), 1, 1); }

void barrier_init(Bits address, unsigned count) {
  if (!count || count >= 1 << 13) fail("an mbarrier for %u arrivals", count);
  auto* const barrier = static_cast<MBarrier*>(at_shared(address, 8, 8));
  *barrier = MBarrier{TAG, 0, count, count, 0};
}

Bits barrier_arrive_on(Bits address, unsigned count, int expected_bytes) {
  MBarrier* const barrier = mbarrier(address);
  if (expected_bytes < 0 || expected_bytes >= 1 << 20) fail("an mbarrier counts up to 2^20 - 1 bytes, not %d", expected_bytes);
  if (barrier->pending < count) fail("more threads arrive at an mbarrier than it is for, %u", unsigned(barrier->expected));
  const Bits state = barrier->phase;
  barrier->bytes += expected_bytes;
  barrier->pending -= count;
  complete(address, barrier);
  return state;
}

void barrier_expect(Bits address, int bytes) { mbarrier(address)->bytes += bytes; }

bool barrier_test(Bits address, unsigned parity, bool wait) {
  const Block* const block = block_at(address);
  if (block != current->home) fail("a thread waits on the mbarrier of another block");
  const MBarrier* const barrier = mbarrier(address);
  if (parity > 1) fail("the parity of a phase is 0 or 1, not %u", parity);
  if (barrier->phase != parity) {
    if (shuffled) perhaps_give_way();
    return true;
  }
  if (!wait) {
    give_way();
    return false;
  }
  current->barrier = address;
  current->parity = parity;
  wait_in(current->home->on_mbarriers, Wait::MBARRIER);
  return true;
}

bool barrier_test_state(Bits address, Bits state, bool wait) { return barrier_test(address, state & 1, wait); }

static void put_off(const Later& copy) {
  later.push_back(copy);
  if (shuffled && chance(2)) do_later(later.size() - 1);
}

void store_later(Bits to, const void* bytes, unsigned count, Bits barrier) {
  if (to >> RANK_SHIFT != barrier >> RANK_SHIFT) fail("st.async: the address and the mbarrier are of different blocks");
  Later copy{};
  copy.to = static_cast<char*>(at_shared(to, count, count));
  memcpy(copy.bytes, bytes, count);
  copy.count = count;
  copy.barrier = barrier;
  mbarrier(barrier);
  put_off(copy);
}

void copy_to_shared_later(Bits to, const void* from, Bits bytes, Bits barrier) {
  if (to >> RANK_SHIFT != barrier >> RANK_SHIFT) fail("cp.async.bulk: the address and the mbarrier are of different blocks");
  if (!bytes || bytes % 16 || to % 16 || reinterpret_cast<uintptr_t>(from) % 16)
    fail("cp.async.bulk copies multiples of 16 bytes between addresses aligned to 16, not %llu from %p to %llx",
         (unsigned long long)bytes, from, (unsigned long long)to);
  Later copy{};
  copy.to = static_cast<char*>(at_shared(to, bytes, 16));
  copy.from = static_cast<const char*>(from);
  copy.count = bytes;
  copy.barrier = barrier;
  mbarrier(barrier);
  put_off(copy);
}

void copy_from_shared_later(void* to, Bits from, Bits bytes) {
  if (!bytes || bytes % 16 || from % 16 || reinterpret_cast<uintptr_t>(to) % 16)
    fail("cp.async.bulk copies multiples of 16 bytes between addresses aligned to 16");
  Later copy{};
  copy.to = static_cast<char*>(to);
  copy.from = static_cast<char*>(at_shared(from, bytes, 16));
  copy.count = bytes;
  copy.by = current;
  copy.group = current->bulk_group;
  put_off(copy);
}

void bulk_group_commit() { ++current->bulk_group; }

void bulk_group_wait(unsigned left) {
  const auto outstanding = [left] {
    for (const Later& copy : later)
      if (copy.by == current && copy.group + left < current->bulk_group) return true;
    return false;
  };
  while (outstanding()) {
    current->wait = Wait::BULK;
    next_fiber();
  }
}

void copy_async(void* to, const void* from, unsigned bytes, unsigned read) {
  if (reinterpret_cast<uintptr_t>(to) % bytes || (read && reinterpret_cast<uintptr_t>(from) % bytes))
    fail("cp.async of %u bytes between addresses that are not aligned to them", bytes);
  current->async.push_back(Async{static_cast<char*>(to), static_cast<const char*>(from), bytes, read, current->async_group});
  poison(to, bytes);
}

void copy_async_commit() { ++current->async_group; }

void copy_async_wait(unsigned left) {
  auto& async = current->async;
  size_t kept = 0;
  for (const Async& copy : async) {
    if (left && copy.group + left >= current->async_group) {
      async[kept++] = copy;
      continue;
    }
    memset(copy.to, 0, copy.bytes);
    if (copy.read) memcpy(copy.to, copy.from, copy.read);
  }
  async.resize(kept);
}

void copy_async_arrive(Bits barrier) {
  copy_async_wait(0);
  barrier_arrive_on(barrier, 1, 0);
}

long long nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// Run a kernel. `pieces` are the arrays among its arguments: pointer, bytes, and whether it may write; each is copied
// behind fences, and back. Returns a sentence, or nullptr.
struct Piece {
  void* data;
  size_t bytes;
  int writable;
  void* placed;
};

extern "C" const char* emulated_run(void (*call)(void*), void* arguments, Piece* pieces, int count, const Grid& shape, uint64_t seed) {
  grid = shape;
  kernel_call = call;
  kernel_arguments = arguments;
  failed = false;
  current = nullptr;
  message[0] = 0;
  idle_turns = 0;
  shuffled = seed != 0;
  random_state = seed * 0x9e3779b97f4a7c15u + 1;
  if (grid.dynamic_bytes > MOST_SHARED) return "a block has at most 232,448 bytes of shared memory";
  fenced.clear();
  for (int i = 0; i < count; ++i) {
    Piece& piece = pieces[i];
    Fenced made{nullptr, 0, nullptr, piece.bytes};
    if (piece.data) {
      const size_t room = rounded(piece.bytes, PAGE);
      made.mapped = room + 32 * PAGE;
      made.mapping = map(made.mapped);
      made.start = made.mapping + 16 * PAGE + room - rounded(piece.bytes, 16);
      poison(made.mapping + 16 * PAGE, room);
      memcpy(made.start, piece.data, piece.bytes);
      mprotect(made.mapping, 16 * PAGE, PROT_NONE);
      mprotect(made.mapping + 16 * PAGE + room, 16 * PAGE, PROT_NONE);
      if (!piece.writable) mprotect(made.mapping + 16 * PAGE, room, PROT_READ);
      piece.placed = made.start;
    }
    fenced.push_back(made);
  }
  const unsigned clusters = grid.blocks.x * grid.blocks.y * grid.blocks.z / grid.cluster_size;
  catch_faults();
  if (!sigsetjmp(escape, 1)) {
    for (unsigned i = 0; i < clusters && !failed; ++i) {
      begin_cluster(i);
      self = current = ready.back();
      ready.pop_back();
      emulated_switch(&main_stack, current->stack_pointer);
      current = nullptr;
    }
  } else {
    failed = true;
  }
  leave_faults();
  for (int i = 0; i < count; ++i) {
    const Fenced& made = fenced[i];
    if (!pieces[i].data) continue;
    const char* const from = made.mapping + 16 * PAGE;
    const size_t room = made.mapped - 32 * PAGE, front = made.start - from;
    for (size_t at = 0; at < room && !failed; ++at)
      if ((at < front || at >= front + made.bytes) && (unsigned char)from[at] != (at % 2 ? POISON >> 8 : POISON & 255)) {
        failed = true;
        snprintf(message, sizeof message, "argument %d was written %zu bytes %s", i, at < front ? front - at : at - front - made.bytes,
                 at < front ? "before its start" : "past its end");
      }
    if (pieces[i].writable) memcpy(pieces[i].data, made.start, made.bytes);
    munmap(made.mapping, made.mapped);
  }
  fenced.clear();
  return failed ? message : nullptr;
}

}  // namespace emulated
