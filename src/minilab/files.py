"""Files that are whole or absent: everything is written to a temporary name, then renamed."""

import hashlib
import json
import lzma
import math
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from minilab.errors import LabError

LARGEST_JSON = 64 << 20  # bytes; the largest result of the lab, a capture, takes some 5 MB
UNPACKING_BYTES = 256 << 20  # that xz may use: its strongest preset takes 65 MiB
IN_GIT = "results/recorded/"  # results that no rule builds


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it onto `path` when the block succeeds.

    The temporary name keeps the suffix of `path`, because writers such as matplotlib choose a
    format by it; the rest of it is random, because two nodes or containers that share a file system
    may give two processes one number. On an exception the temporary file is removed and `path` is left as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(8)}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: str | Path, data: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: str | Path, text: str) -> None:
    write_bytes(path, text.encode())


# No string of a JSON text holds a raw newline, so this finds lists of plain numbers and nothing else.
NUMBERS_ON_LINES = re.compile(r"\[\n\s+(-?\d[-+.\deE,\n ]*?)\n\s*\]")


def write_json(path: str | Path, value: object) -> None:
    """Write `value` as indented JSON, a list of numbers on one line. NaN and infinities are refused: JSON has none."""
    text = json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False)
    write_text(path, NUMBERS_ON_LINES.sub(lambda numbers: f"[{' '.join(numbers[1].split())}]", text) + "\n")


def pack_json(source: str | Path, target: str | Path) -> None:
    """Write the JSON of `source` to `target`, `*.json.xz`, without indents: a capture takes a twentieth of its size."""
    text = json.dumps(read_json(source), ensure_ascii=False, separators=(",", ":"))
    write_bytes(target, lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def read_json(path: str | Path, advice: str | None = None) -> Any:
    """Read a JSON file, or one that `pack_json` wrote.

    Args:
        advice: what the sentences tell to do; None is to build the file again, or a record to bring it back.

    Raises:
        LabError: the file is missing, is no file, is larger than `LARGEST_JSON`, packed or not, or is not JSON as
            `parse_json` reads it.
    """
    path = Path(path)
    again = advice or _again(path)
    try:
        if path.exists() and not path.is_file():
            raise LabError(f"{path} is a folder or a device where a JSON file is needed; {again}")
        with path.open("rb") as file:
            data = file.read(LARGEST_JSON + 1)
        if path.suffix == ".xz":
            unpacking = lzma.LZMADecompressor(memlimit=UNPACKING_BYTES)
            data = unpacking.decompress(data, max_length=LARGEST_JSON + 1)
            if not unpacking.eof and len(data) <= LARGEST_JSON:
                raise ValueError("it is cut short")
        if len(data) > LARGEST_JSON:
            raise LabError(f"{path} holds more than the {LARGEST_JSON >> 20} MiB that any result needs; {again}")
        return parse_json(data)
    except FileNotFoundError:
        raise LabError(f"{path} does not exist; {advice or f'build it with `snakemake {path}`.'}") from None
    except (ValueError, lzma.LZMAError, EOFError) as error:
        raise LabError(f"{path} is not readable JSON ({error}); {again}") from None


def _again(path: Path) -> str:
    if path.as_posix().startswith(IN_GIT):
        return f"bring it back with `git checkout {path}`."
    return f"delete it and build it again with `snakemake {path}`."


def read_object(path: str | Path, advice: str | None = None) -> dict[str, Any]:
    """Read a JSON file that holds an object, as every artefact does. `advice` is as `read_json` takes it.

    Raises:
        LabError: as `read_json` does, or it holds null, a number, a text or a list.
    """
    value = read_json(path, advice)
    if not isinstance(value, dict):
        held = {type(None): "null", list: "a list", str: "a text", bool: "true or false"}.get(type(value), "a number")
        again = advice or _again(Path(path))
        raise LabError(f"{path} holds {held} where a JSON object is needed; {again}")
    return value


def parse_json(data: bytes) -> Any:
    """Read JSON out of bytes that anybody may have written: UTF-8, no NaN, no infinity, no depth that ends Python.

    Raises:
        ValueError: it is not such JSON.
    """
    try:
        value = json.loads(data.decode(), parse_constant=_no_number, parse_float=_finite)
        if b"\\ud" in data.lower():  # half a character beyond the basic plane can be read, and never written
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON's")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_number(digits)


def digest(value: object) -> str:
    """SHA-256 of plain data, whatever the order of its keys, as 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def sha256(path: str | Path) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
