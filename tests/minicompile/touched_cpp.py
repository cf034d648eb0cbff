"""Which addresses Inductor's C++ kernels really touch: they are compiled so that each load and store reports itself.

g++ -fsanitize=thread calls a function before every access to memory; here these functions note the address. All
kernels of all models are compiled in one go, since most of that time goes into the headers.
"""

import ctypes
import hashlib
import re
import subprocess
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path

import numpy
import torch
from generated_code import left_in
from torch._inductor import cpp_builder, cpu_vec_isa

NOTES = r"""
#include <cstddef>
#include <cstdint>
#include <cstring>
struct Range { uintptr_t first, last; unsigned char* marks; };
static Range ranges[1024]; // a call has at most as many arguments through ctypes
static int in_use = 0;
static void note(const void* address, size_t size, unsigned char mark) {
    uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < in_use; i++)
        for (uintptr_t k = at; k < at + size; k++)
            if (k >= ranges[i].first && k < ranges[i].last) ranges[i].marks[k - ranges[i].first] |= mark;
}
extern "C" {
void watch(int i, uintptr_t first, size_t size, unsigned char* marks) { ranges[i] = {first, first + size, marks}; }
void watched(int n) { in_use = n; }
#define ACCESS(N) \
    void __tsan_read##N(void* a) { note(a, N, 1); } void __tsan_write##N(void* a) { note(a, N, 2); } \
    void __tsan_unaligned_read##N(void* a) { note(a, N, 1); } \
    void __tsan_unaligned_write##N(void* a) { note(a, N, 2); } \
    void __tsan_volatile_read##N(void* a) { note(a, N, 1); } void __tsan_volatile_write##N(void* a) { note(a, N, 2); }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)
void __tsan_read_range(void* a, size_t n) { note(a, n, 1); }
void __tsan_write_range(void* a, size_t n) { note(a, n, 2); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
#define ATOMIC(BITS, TYPE) \
    TYPE __tsan_atomic##BITS##_load(const volatile TYPE* a, int) { note((void*)a, BITS / 8, 1); return *a; } \
    void __tsan_atomic##BITS##_store(volatile TYPE* a, TYPE v, int) { note((void*)a, BITS / 8, 2); *a = v; } \
    TYPE __tsan_atomic##BITS##_fetch_add(volatile TYPE* a, TYPE v, int) { \
        note((void*)a, BITS / 8, 3); return __atomic_fetch_add(a, v, __ATOMIC_SEQ_CST); } \
    TYPE __tsan_atomic##BITS##_exchange(volatile TYPE* a, TYPE v, int) { \
        note((void*)a, BITS / 8, 3); return __atomic_exchange_n(a, v, __ATOMIC_SEQ_CST); } \
    int __tsan_atomic##BITS##_compare_exchange_strong(volatile TYPE* a, TYPE* c, TYPE v, int, int) { \
        note((void*)a, BITS / 8, 3); return __atomic_compare_exchange_n(a, c, v, false, 5, 5); } \
    int __tsan_atomic##BITS##_compare_exchange_weak(volatile TYPE* a, TYPE* c, TYPE v, int, int) { \
        note((void*)a, BITS / 8, 3); return __atomic_compare_exchange_n(a, c, v, true, 5, 5); }
ATOMIC(8, uint8_t) ATOMIC(16, uint16_t) ATOMIC(32, uint32_t) ATOMIC(64, uint64_t)
void* noted_copy(void* to, const void* from, size_t size) {
    note(from, size, 1); note(to, size, 2); return memcpy(to, from, size);
}
void noted_lanes(const void* at, const void* mask, int lanes, int size, int written) {
    for (int i = 0; i < lanes; i++)
        if (((const unsigned char*)mask)[i * size + size - 1] & 0x80)
            note((const char*)at + i * size, size, written ? 2 : 1);
}
}
"""
# What the sanitizer does not see: copies of a length that is not known, and vectors' masked lanes.
UNSEEN = r"""
#include <cstring>
#include <immintrin.h>
extern "C" void* noted_copy(void*, const void*, size_t);
extern "C" void noted_lanes(const void*, const void* mask, int lanes, int size, int written);
namespace std {
inline void* noted_copy(void* to, const void* from, size_t size) { return ::noted_copy(to, from, size); }
}
#define memcpy noted_copy
#define MASKED(NAME, POINTER, MASK, VALUE, SIZE) \
    static inline VALUE noted_maskload_##NAME(const POINTER* p, MASK m) { \
        noted_lanes(p, &m, 32 / SIZE, SIZE, 0); return _mm256_maskload_##NAME(p, m); } \
    static inline void noted_maskstore_##NAME(POINTER* p, MASK m, VALUE v) { \
        noted_lanes(p, &m, 32 / SIZE, SIZE, 1); _mm256_maskstore_##NAME(p, m, v); }
MASKED(ps, float, __m256i, __m256, 4)
MASKED(pd, double, __m256i, __m256d, 8)
MASKED(epi32, int, __m256i, __m256i, 4)
MASKED(epi64, long long, __m256i, __m256i, 8)
#define _mm256_maskload_ps noted_maskload_ps
#define _mm256_maskload_pd noted_maskload_pd
#define _mm256_maskload_epi32 noted_maskload_epi32
#define _mm256_maskload_epi64 noted_maskload_epi64
#define _mm256_maskstore_ps noted_maskstore_ps
#define _mm256_maskstore_pd noted_maskstore_pd
#define _mm256_maskstore_epi32 noted_maskstore_epi32
#define _mm256_maskstore_epi64 noted_maskstore_epi64
"""


APART = 4096  # bytes between two arguments' copies; each begins at a multiple of it
KERNELS = re.compile(r"async_compile\.cpp_pybinding\(\[.*?\], r'''(.*?)'''\)", re.S)


def name_of(source: str) -> str:
    """What a kernel is called in the library, by its text."""
    return "kernel_" + hashlib.sha256(source.encode()).hexdigest()[:16]


def library_of(codes: Iterable[str], folder: Path) -> "Library | None":
    """The C++ kernels of Inductor's output codes, built in a folder; None where they have none."""
    sources = KERNELS.findall("\n".join(codes))
    return Library(sources, folder) if sources else None


class Library:
    """Kernels compiled to report what they touch.

    Args:
        sources: the kernels' C++, as Inductor hands it to its compiler.
        folder: where to build.
    """

    def __init__(self, sources: list[str], folder: Path) -> None:
        kernels = {name_of(source): source for source in sources}
        (folder / "notes.cpp").write_text(NOTES)
        (folder / "unseen.h").write_text(UNSEEN)
        headers = dict.fromkeys(
            line for source in sources for line in source.splitlines() if line.startswith("#include")
        )
        bodies = [
            re.sub(r"(extern \"C\"\s+void\s+)kernel\(", rf"\1{name}(", re.sub(r"(?m)^#include.*$", "", source))
            for name, source in kernels.items()
        ]
        (folder / "kernels.cpp").write_text("\n".join([*headers, *bodies]))
        isa = next(isa for isa in cpu_vec_isa.supported_vec_isa_list if type(isa).__name__ == "VecAVX2")
        options = cpp_builder.CppTorchOptions(vec_isa=isa, warning_all=False)
        flags = [
            *(f"-I{path}" for path in options.get_include_dirs()),
            *(f"-D{one.strip()}" for one in options.get_definitions()),
        ]
        libraries = [f"-L{path}" for path in options.get_libraries_dirs()] + [
            f"-l{one}" for one in options.get_libraries()
        ]
        common = ["g++", "-fPIC", "-O0", "-w", "-fopenmp", "-std=c++20"]
        watched = [*flags, *isa.build_arch_flags().split(), "-fsanitize=thread", "-include", str(folder / "unseen.h")]
        _run([*common, "-c", "notes.cpp", "-o", "notes.o"], folder)
        _run([*common, *watched, "-c", "kernels.cpp", "-o", "kernels.o"], folder)
        _run([*common, "-shared", "notes.o", "kernels.o", *libraries, "-o", "kernels.so"], folder)
        self._library = ctypes.CDLL(str(folder / "kernels.so"))

    def compiler(self, ran: list) -> type:
        """What stands in for AsyncCompile: notes of each call [bytes read, bytes written, its tensors afterwards]."""
        library = self

        class Compiler:
            def cpp_pybinding(self, _types: list, source: str):
                def run(*arguments) -> None:
                    counts = library.run(source, arguments)
                    ran.append((*counts, left_in(arguments)))

                return run

            def wait(self, _scope) -> None:
                pass

        return Compiler

    def run(self, source: str, arguments: tuple) -> tuple[int, int]:
        """Run a kernel, and count the bytes of its arguments' memory that it read and that it wrote.

        It runs on copies that lie far apart, because the last vector of a row may read beyond the end, and what it
        meets there is no argument of its.
        """
        tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
        memory = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}
        room = [-(-size // APART) * APART + APART for size in memory.values()]
        arena = (ctypes.c_ubyte * (sum(room) + APART))()
        begin = -(-ctypes.addressof(arena) // APART) * APART
        copies = dict(zip(memory, accumulate(room, initial=begin), strict=False))
        marks = {first: (ctypes.c_ubyte * max(size, 1))() for first, size in memory.items()}
        for number, (first, size) in enumerate(memory.items()):
            ctypes.memmove(copies[first], first, size)
            self._library.watch(number, ctypes.c_void_p(copies[first]), ctypes.c_size_t(size), marks[first])

        def given(one: torch.Tensor | float) -> ctypes.c_void_p | ctypes.c_int64 | ctypes.c_double:
            if isinstance(one, torch.Tensor):
                first = one.untyped_storage().data_ptr()
                return ctypes.c_void_p(copies[first] + one.data_ptr() - first)
            return ctypes.c_int64(one) if isinstance(one, int) else ctypes.c_double(one)

        self._library.watched(len(memory))
        getattr(self._library, name_of(source))(*map(given, arguments))
        self._library.watched(0)
        for first, size in memory.items():
            ctypes.memmove(first, copies[first], size)
        found = [numpy.frombuffer(one, numpy.uint8) for one in marks.values()]
        return sum(int((one & 1).sum()) for one in found), sum(int((one >> 1).sum()) for one in found)


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
