"""Lines of LLVM IR and of machine code back to the kernel's, and which texts a capture keeps."""

from minicompile.lowering.panes.listings import fitting
from minicompile.lowering.panes.triton_assembly import llvm_lines
from minicompile.watching.machine.cpp import instructions

LLVM = """; ModuleID = 'LLVMDialectModule'
define ptx_kernel void @k(ptr addrspace(1) %0) !dbg !4 {
  %2 = fadd float 1.0, 2.0, !dbg !7
  %3 = fmul float %2, %2, !dbg !8
  %4 = fneg float %3, !dbg !10
  ret void
}

!1 = !DIFile(filename: "k.py", directory: "/tmp")
!2 = !DIFile(filename: "standard.py", directory: "/x")
!4 = distinct !DISubprogram(name: "k", file: !1, line: 3)
!5 = distinct !DISubprogram(name: "sum", file: !2, line: 200)
!6 = !DILexicalBlockFile(scope: !4, file: !1, discriminator: 0)
!7 = !DILocation(line: 12, column: 9, scope: !6)
!8 = !DILocation(line: 260, column: 3, scope: !5, inlinedAt: !9)
!9 = distinct !DILocation(line: 14, column: 9, scope: !4)
!10 = !DILocation(line: 220, column: 9, scope: !11, inlinedAt: !12)
!11 = distinct !DILexicalBlockFile(scope: !4, file: !2, discriminator: 0)
!12 = !DILocation(line: 15, column: 9, scope: !4)
"""
LISTING = """
0000000000000240 <kernel_1._omp_fn.0>:
kernel_1():
/tmp/x/kernels.captured:42 (discriminator 2)
 240:\tpush   %rbp
 241:\tmov    %rsp,%rbp
add():
/usr/include/vec.h:7
inlined by /tmp/x/kernels.captured:50 (kernel_1)
 244:\tvaddps %ymm0,%ymm1,%ymm0
/usr/include/omp.h:3
 248:\tcall   24d <kernel_1+0x8>
\t\t\t249: R_X86_64_PLT32\tSleef_expf8_u10-0x4
0000000000000300 <helper>:
/tmp/x/kernels.captured:60
 300:\tret
0000000000000310 <kernel_0>:
 310:\tret
"""


def test_llvm_lines_lead_to_the_kernels_line_through_what_was_inlined():
    lines = llvm_lines(LLVM, "k.py")
    assert [(text.strip(), line) for text, line in lines] == [
        ("define ptx_kernel void @k(ptr addrspace(1) %0) {", None),
        ("%2 = fadd float 1.0, 2.0", 12),
        ("%3 = fmul float %2, %2", 14),
        ("%4 = fneg float %3", 15),
        ("ret void", None),
        ("}", None),
    ]


def test_an_instruction_of_a_header_belongs_to_the_line_that_it_was_inlined_into():
    found = instructions(LISTING)
    assert [line for _, line in found["kernel_1"]] == [None, 42, 42, 50, None]
    texts = [text for text, _ in found["kernel_1"]]
    assert texts[3:] == ["244:  vaddps %ymm0,%ymm1,%ymm0", "248:  call   Sleef_expf8_u10"]
    assert [line for _, line in found["kernel_0"]] == [None, None]


def test_the_texts_of_the_kernels_that_move_the_most_are_kept_as_far_as_they_fit():
    calls = [
        {"kernel": name, "bytes": count} for name, count in (("a", 10), ("b", 30), ("b", 30), ("c", 20), ("d", None))
    ]
    lengths = {"a": 5, "b": 60, "c": 50, "d": 5}
    assert fitting({"calls": calls}, lengths, most=100) == {"b", "a", "d"}
    assert fitting({"calls": calls}, lengths, most=1) == {"b"}
    assert fitting({"calls": calls}, lengths) == set(lengths)
