"""Ways to spoil a file: of its bytes, of the values in it, and of the container that holds them."""

import copy
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import yaml

Mutation = Callable[[random.Random, bytes], bytes]
ODD_BYTES = (
    b"",
    b"\0",
    b"\xff",
    b"\n",
    b"{}",
    b"null",
    b"\xef\xbb\xbf",
    b"\x1b[2J",
    b"NaN",
    b"[" * 5000,
    b"PK\x03\x04",
)
ODD_WORDS = (
    "",
    " ",
    "\0",
    "\n",
    "\x1b[2J",
    "a" * 100_000,
    "../../etc/passwd",
    "/dev/zero",
    "猫",
    "\ud800",
    "nan",
    "on",
    "{}",
)
ODD_NUMBERS = (0, -1, 1, 2, 7, 1000, 10**9, 10**18, 10**400, 2**31, 2**63, -(2**63), 0.0, -0.0, 0.5, 1e-320, 1e308)
NO_NUMBERS = (float("nan"), float("inf"), -float("inf"))
OTHERS = (None, True, False, [], {}, [[1, 1]], {"a": {}}, [None] * 1000)


def odd_value(draw: random.Random) -> Any:
    """A value that a careful writer would not have written there."""
    kind = draw.randrange(6)
    if kind == 5:
        nested: Any = 1
        for _ in range(draw.choice((10, 200, 900))):
            nested = [nested]
        return nested
    return copy.deepcopy(draw.choice((ODD_WORDS, ODD_NUMBERS, NO_NUMBERS, OTHERS, ODD_NUMBERS)[kind]))


def bytes_spoiled(draw: random.Random, data: bytes) -> bytes:
    """Some bytes flipped, lost, doubled, put in, or all of them but the first."""
    at, length = draw.randrange(len(data) + 1), draw.choice((1, 2, 8, 100, 10_000))
    kind = draw.randrange(7)
    if kind == 0 and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + data[at + length :]
    if kind == 3:
        return data[: at + length] + data[at:]
    if kind == 4:
        return data[:at] + draw.choice(ODD_BYTES) + data[at:]
    if kind == 5:
        return data[:at] + draw.randbytes(length) + data[at + length :]
    return draw.choice(ODD_BYTES)


def value_spoiled(draw: random.Random, value: Any) -> Any:
    """The same plain data with one thing in it changed, lost, added, or put elsewhere."""
    value = copy.deepcopy(value)
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        held = waiting.pop()
        inside = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
        for key, inner in inside:
            places.append((held, key))
            waiting.append(inner)
    if not places or draw.random() < 0.05:
        return odd_value(draw)
    held, key = draw.choice(places)
    kind = draw.randrange(5)
    if kind == 0:
        del held[key]
    elif kind == 1 and isinstance(held, dict):
        name = draw.choice((5, 1.5, True, None, *ODD_WORDS, "unknown"))
        held[name] = draw.choice((held[key], odd_value(draw)))
    elif kind == 2:
        other, place = draw.choice(places)
        held[key] = copy.deepcopy(other[place])
    elif kind == 3 and isinstance(held[key], int | float):
        held[key] = held[key] * draw.choice((-1, 1.5, 10, 10**6)) + draw.choice((0, 1))
    else:
        held[key] = odd_value(draw)
    return value


def json_bytes(value: Any) -> bytes:
    """JSON, with what JSON does not have where it is in the value: NaN, and halves of characters."""
    return json.dumps(value, ensure_ascii=True).encode()


def yaml_bytes(value: Any) -> bytes:
    """YAML on one line for a value, as one types it; of a value that is nested deeper than PyYAML writes, JSON."""
    try:
        text = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
    except RecursionError:
        return json_bytes(value)
    return text.encode("utf-8", "surrogatepass")


def yaml_spoiled(draw: random.Random, data: bytes) -> bytes:
    """A configuration with another value, or written as YAML should not be."""
    kind = draw.randrange(8)
    if kind == 0:
        return bytes_spoiled(draw, data)
    if kind == 1:
        lines = data.split(b"\n")
        return b"\n".join([*lines, draw.choice([line for line in lines if line[:1].isalpha()])])  # a key twice
    if kind == 2:
        return data + draw.choice(
            (b"caf\xe9: 1\n", b"\tx: 1\n", b"a: &a [*a]\n", b"? [1]\n: 2\n", b"x: !!python/name:os\n")
        )
    if kind == 3:
        levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" if n else "l0: &l0 [x]" for n in range(9)]
        return data + "\n".join(levels).encode()
    return yaml_bytes(value_spoiled(draw, yaml.safe_load(data)))


def npz_spoiled(draw: random.Random, data: bytes, sign: Callable[[dict, dict], str]) -> bytes:
    """A checkpoint of which the bytes, the metadata, the arrays or the archive were forged; often signed anew."""
    kind = draw.randrange(9)
    if kind < 2:
        return bytes_spoiled(draw, data)
    with np.load(io.BytesIO(data)) as file:
        arrays = dict(file)
    metadata = json.loads(arrays.pop("metadata").tobytes())
    name = draw.choice(sorted(arrays))
    if kind == 2:
        metadata = value_spoiled(draw, metadata)
    elif kind == 3:
        sizes = metadata["config"]
        sizes[draw.choice(sorted(sizes))] = draw.choice((0, 2, 100, 4000, 10**6, 10**9, 10**18, 1.5, None, "4"))
    elif kind == 4:
        arrays[name] = draw.choice((
            arrays[name].astype(draw.choice(("<f8", "<f2", ">f4", "<i4", "S4", "M8[s]", "?"))), arrays[name] * np.nan,
            np.full_like(arrays[name], np.inf), arrays[name].T, arrays[name][None], arrays[name][:0],
            np.array([{}, None], object), np.zeros(3, [("a", "<f4"), ("b", "O")]), np.float32(1),
        ))  # fmt: skip
    elif kind == 5:
        arrays[draw.choice(("", " ", "\x1b[2J", "a" * 1000, "../a", "more", "metadata.npy"))] = arrays.pop(name)
    if isinstance(metadata, dict) and draw.random() < 0.7:
        with suppress(TypeError, AttributeError):  # of what cannot be signed
            metadata["digest"] = sign(metadata, arrays)
    held = {name: _npy(array) for name, array in arrays.items()}
    encoded = json_bytes(metadata) if draw.random() < 0.9 else b"[" * draw.choice((100, 100_000))
    held["metadata"] = _npy(np.frombuffer(encoded, np.uint8))
    if kind == 6:
        held[name] = draw.choice((b"", b"no array", _header(draw), held[name][: draw.randrange(200)]))
    method = (
        draw.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)) if kind == 7 else zipfile.ZIP_STORED
    )
    if kind == 7 and draw.random() < 0.5:
        held[name] += bytes(draw.choice((10**6, 10**8)))  # a thousand times its size in the archive
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in held.items():
            archive.writestr(name + ".npy", content)
    made = buffer.getvalue()
    if kind == 8:  # the flags of a random member, in the directory: encrypted, and others
        at = draw.choice([n for n in range(len(made)) if made.startswith(b"PK\x01\x02", n)])
        field = draw.randrange(6, 46)
        made = made[: at + field] + bytes([draw.choice((1, 255, 9, made[at + field] ^ 1))]) + made[at + field + 1 :]
    return bytes_spoiled(draw, made) if kind == 7 and draw.random() < 0.5 else made


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asanyarray(array), allow_pickle=True)
    return buffer.getvalue()


def _header(draw: random.Random) -> bytes:
    """The beginning of an array that claims too much, or nothing that NumPy understands."""
    text = draw.choice((
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", "(" * 5000, "{}", "1", "[" * 9000,
        "{'descr': 'O', 'fortran_order': False, 'shape': (1,)}", "{'descr': '<f4', 'fortran_order': 1, 'shape': (-1,)}",
        "{'descr': ('<f4', (1000000,)), 'fortran_order': False, 'shape': (1000000,)}", "\x00",
        "{'descr': [], 'shape': ()}",
    ))  # fmt: skip
    return (
        b"\x93NUMPY" + bytes(draw.choice(((1, 0), (9, 9)))) + struct.pack("<H", len(text) + 1) + text.encode() + b"\n"
    )


def safetensors_spoiled(draw: random.Random, data: bytes) -> bytes:
    """A port of which the bytes, the header or the weights were forged."""
    kind = draw.randrange(5)
    if kind == 0:
        return bytes_spoiled(draw, data)
    (length,) = struct.unpack("<Q", data[:8])
    header, weights = json.loads(data[8 : 8 + length]), data[8 + length :]
    if kind == 1:
        header = value_spoiled(draw, header)
    elif kind == 2:
        sizes = json.loads(header["__metadata__"]["config"])
        sizes[draw.choice(sorted(sizes))] = draw.choice((0, 2, 4000, 10**6, 10**9, 10**18, 1.5, None, "4", True))
        header["__metadata__"]["config"] = draw.choice((json.dumps(sizes), json.dumps(odd_value(draw)), "[" * 100_000))
    elif kind == 3:
        at = 4 * draw.randrange(len(weights) // 4)
        weights = weights[:at] + struct.pack("<f", draw.choice(NO_NUMBERS)) + weights[at + 4 :]
    else:
        one = header[draw.choice(sorted(header.keys() - {"__metadata__"}))]
        key = draw.choice(("dtype", "shape", "data_offsets"))
        values = {"dtype": ("F16", "BF16", "F64", "F8_E4M3", "?"), "shape": ([], [10**12], [-1], [2**63, 2]),
                  "data_offsets": ([0, 10**12], [8, 0], [0], [-8, 8])}  # fmt: skip
        one[key] = draw.choice((*values[key], odd_value(draw)))
    encoded = json_bytes(header)
    length = draw.choice((len(encoded), len(encoded), len(encoded), len(encoded), 10**12, 2**63))
    return struct.pack("<Q", length) + encoded + weights
