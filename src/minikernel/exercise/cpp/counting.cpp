// Counts what compiled code touches: the compiler puts a call before each load and store (-fsanitize=thread), and these
// functions, in the place of ThreadSanitizer's own, note the line of 64 bytes. minikernel.exercise.compiled reads them.
#include <atomic>

typedef unsigned long long entry_t;  // line << 2 | kind: 0 a load, 1 a store, 2 a store past the caches

static entry_t* entries;
static long room, used;
static thread_local entry_t last[2][64], last_stream;  // the lines touched just now, by kind: once is enough
static int levels;
static std::atomic_flag busy = ATOMIC_FLAG_INIT;

static bool is_known(entry_t line, entry_t kind) {
    entry_t entry = line << 2 | kind;
    entry_t& known = kind == 2 ? last_stream : last[kind][line % 64];
    if (known == entry) return true;
    if (kind == 2) last[0][line % 64] = last[1][line % 64] = 0;  // it is in no cache any more
    else if (last_stream >> 2 == line) last_stream = 0;
    known = entry;
    return false;
}

static void note(const void* at, long n_bytes, entry_t kind) {
    while (busy.test_and_set()) {}
    entry_t address = (entry_t)at;
    for (entry_t line = address / 64; line <= (address + n_bytes - 1) / 64; line++) {
        if (is_known(line, kind)) continue;
        if (used < room) entries[used] = line << 2 | kind;
        used++;
    }
    busy.clear();
}

extern "C" {
__attribute__((weak)) int omp_get_max_active_levels();
__attribute__((weak)) void omp_set_max_active_levels(int);

// One thread does all that OpenMP would share: whose turn it is would decide what the cache still holds.
void begin_counting(entry_t* to, long n) {
    if (omp_set_max_active_levels) levels = omp_get_max_active_levels(), omp_set_max_active_levels(0);
    entries = to, room = n, used = 0, last_stream = 0;
    for (auto& kind : last) for (auto& entry : kind) entry = 0;
}
long end_counting() {
    if (omp_set_max_active_levels) omp_set_max_active_levels(levels);
    return used;
}
void counted_stream(const void* at) { note(at, 32, 2); }

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
void __tsan_read_range(void* at, long n) { note(at, n, 0); }
void __tsan_write_range(void* at, long n) { note(at, n, 1); }
#define TOUCHED(prefix, n)                                             \
    void __tsan_##prefix##read##n(void* at) { note(at, n, 0); }        \
    void __tsan_##prefix##write##n(void* at) { note(at, n, 1); }
#define SIZED(n) TOUCHED(, n) TOUCHED(unaligned_, n) TOUCHED(volatile_, n) TOUCHED(unaligned_volatile_, n)
SIZED(1) SIZED(2) SIZED(4) SIZED(8) SIZED(16)
// Its own calls come here, because it is linked with -Bsymbolic.
void* memcpy(void* to, const void* from, unsigned long n) {
    if (n) note(from, n, 0), note(to, n, 1);
    for (unsigned long i = 0; i < n; i++) ((volatile char*)to)[i] = ((const char*)from)[i];
    return to;
}
void* memset(void* to, int value, unsigned long n) {
    if (n) note(to, n, 1);
    for (unsigned long i = 0; i < n; i++) ((volatile char*)to)[i] = (char)value;
    return to;
}
}
