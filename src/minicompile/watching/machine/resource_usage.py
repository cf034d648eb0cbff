"""What compiled kernels use of a multiprocessor: registers and stack of each, of many kernels in one start of a tool.

`cuobjdump` takes one file, and starting it takes longer than reading a kernel. A fatbin is a file of several pieces of
machine code: a header, and before each piece one of its own, as nvcc's `fatbinary` writes them.
"""

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

from minikernel.proof.cubin import ask_cuda_tool, parse_resource_usage

FILE = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of what follows
PIECE = struct.Struct("<HHIQIIHHIIIQQQ")  # kind, version, bytes of this header, bytes of the piece, the rest below
MAGIC, ELF = 0xBA55ED50, 2
BITS_AND_SYSTEM = 0x100011  # flags: 64 bits, Linux
SECTION = "Fatbin elf code:"


def fatbin(cubins: Sequence[bytes], architecture: int) -> bytes:
    """Machine code of several kernels as one file.

    Args:
        cubins: an ELF file each.
        architecture: the number that `sm_` stands before.
    """
    pieces = b""
    for cubin in cubins:
        content = cubin + bytes(-len(cubin) % 8)
        not_compressed, version, no_name = (0, 0), (8, 1), (0, 0)
        pieces += PIECE.pack(
            ELF,
            0x101,
            PIECE.size,
            len(content),
            *not_compressed,
            *version,
            architecture,
            *no_name,
            BITS_AND_SYSTEM,
            0,
            0,
        )
        pieces += content
    return FILE.pack(MAGIC, 1, FILE.size, len(pieces)) + pieces


def resource_usages(cubins: Sequence[bytes], architecture: int) -> list[dict | None]:
    """What the kernel in each piece of machine code uses, as `parse_resource_usage` returns it; None where no tool can
    tell."""
    if len(cubins) > 1:
        _, *sections = (_asked(fatbin(cubins, architecture)) or "").split(SECTION)
        found = [_first(section) for section in sections]
        if len(found) == len(cubins) and all(found):
            return found
    return [_first(_asked(cubin)) for cubin in cubins]  # a cuobjdump that reads no such file, or not all of it


def _asked(content: bytes) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels")
        path.write_bytes(content)
        return ask_cuda_tool("cuobjdump", "--dump-resource-usage", str(path))


def _first(report: str | None) -> dict | None:
    return next(iter(parse_resource_usage(report or "")), None)
