"""What a file of arrays claims to hold, read without holding it: names, dtypes and shapes, and its metadata.

A file from elsewhere may claim anything: an array of a terabyte in ten bytes, members that inflate to a thousand times
their size, a password. Here every claim is held against the bytes that are there before anything of its size is
made, so whoever loads the file afterwards allocates no more than a small multiple of it.
"""

import math
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import safe_open

from minilab.errors import LabError
from minilab.files import parse_json
from minilab.machine_failure import sentence_about

METADATA = "metadata"  # the member of an .npz that holds JSON as bytes
METADATA_BYTES = 16 << 20
MEMBERS = 100_000
ENCRYPTED = 0x1  # bit 0 of a zip member's flags
NPY = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
DAMAGED = "the file is truncated or damaged"


@dataclass(frozen=True)
class Claimed:
    """An array that a file claims to hold, and that fits into the bytes that are there."""

    dtype: np.dtype
    shape: tuple[int, ...]


def npz_claims(path: str | Path) -> tuple[dict[str, Claimed], Any]:
    """What an .npz holds besides `metadata`, and that parsed: None where there is none.

    Members must lie in it as they are, neither compressed nor encrypted, which is how `np.savez` writes them.

    Raises:
        LabError: the reason alone, without the path: there is no such file, it is no .npz, or a claim is not true.
    """
    with _opened(path) as (file, size), _whatever_is_wrong(DAMAGED):
        if file.read(4) != b"PK\x03\x04":
            raise LabError("it is not an .npz archive")
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > MEMBERS or sum(member.file_size for member in members) > size:
                raise LabError("it claims to hold more than its bytes can")
            claims: dict[str, Claimed] = {}
            metadata = None
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name in claims or (name == METADATA and metadata is not None):
                    raise LabError(f"it holds {name!r} twice")
                if member.flag_bits & ENCRYPTED:
                    raise LabError(f"its member {name!r} is encrypted")
                if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
                    raise LabError(f"its member {name!r} is compressed, where arrays must lie plainly")
                with archive.open(member) as content:
                    claimed = _npy_claim(content, member.file_size, name)
                    if name == METADATA:
                        metadata = _metadata(content.read(METADATA_BYTES + 1))
                    else:
                        claims[name] = claimed
        return claims, metadata


def _npy_claim(content: IO[bytes], size: int, name: str) -> Claimed:
    """The header of an .npy member, whose array must fill the rest of it; the member is read up to there."""
    with _whatever_is_wrong(f"its member {name!r} is no array of NumPy's"):
        shape, _, dtype = NPY[np.lib.format.read_magic(content)](content)
    if dtype.hasobject:
        raise LabError("it holds pickled objects, which could run code when loaded")
    if any(axis < 0 for axis in shape) or math.prod(shape) * dtype.itemsize != size - content.tell():
        raise LabError(f"its array {name!r} claims the shape {shape}, which is not what its bytes make")
    return Claimed(dtype, shape)


def safetensors_claims(path: str | Path) -> tuple[dict[str, Claimed], dict[str, Any], dict[str, int]]:
    """What a safetensors file holds: its arrays, its metadata, and where in the file each array begins, in bytes.

    Raises:
        LabError: the reason alone, without the path: there is no such file, it is no safetensors file, or a claim is
            not true.
    """
    with _opened(path) as (file, _), _whatever_is_wrong("it is not a whole safetensors file"):
        with safe_open(path, "np"):
            pass  # opening it holds every claim of its header against the bytes that are there
        (length,) = struct.unpack("<Q", file.read(8))
        header = parse_json(file.read(length))
        described = header.pop("__metadata__", None) or {}
        claims = {name: Claimed(_dtype(one["dtype"]), tuple(one["shape"])) for name, one in header.items()}
        begins = {name: 8 + length + one["data_offsets"][0] for name, one in header.items()}
        return claims, described, begins


def _dtype(name: str) -> np.dtype:
    """NumPy's dtype for that of safetensors: those it lacks (bfloat16, 8-bit floats) as raw bytes of their size."""
    sizes = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "V2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
             "I8": "i1", "U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "BOOL": "?"}  # fmt: skip
    return np.dtype(sizes.get(name, "V1"))


def _metadata(data: bytes) -> Any:
    try:
        if len(data) > METADATA_BYTES:
            raise ValueError
        return parse_json(data)
    except ValueError:
        raise LabError("it has no readable metadata") from None


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[IO[bytes], int]]:
    """The file, and how many bytes it has; what is no plain file is never opened, since a pipe would wait for ever."""
    path = Path(path)
    if not path.exists():
        raise LabError("the file does not exist")
    if not path.is_file():
        raise LabError("it is no file")
    with path.open("rb") as file:
        yield file, path.stat().st_size


@contextmanager
def _whatever_is_wrong(reason: str) -> Iterator[None]:
    """Say `reason` of anything that the libraries which read a forged file raise; full disks and such stay as they are.

    zipfile and NumPy name no exceptions that theirs would be among: so far zipfile.BadZipFile, NotImplementedError,
    RuntimeError, OSError (of a place before the file's beginning), struct.error, SyntaxError, TokenError, MemoryError
    and RecursionError (of a header's depth) were seen.
    """
    try:
        yield
    except LabError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and sentence_about(error):
            raise
        raise LabError(reason) from None
