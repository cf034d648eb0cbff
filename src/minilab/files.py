"""Files that are whole or absent: everything is written to a temporary name, then renamed."""

import hashlib
import json
import lzma
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minilab.errors import LabError


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


def read_json(path: str | Path) -> dict:
    """Read a JSON file, or one that `pack_json` wrote.

    Raises:
        LabError: the file is missing or is not JSON.
    """
    path = Path(path)
    try:
        return json.loads(lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_text())
    except FileNotFoundError:
        raise LabError(f"{path} does not exist; build it with `snakemake {path}`.") from None
    except (json.JSONDecodeError, UnicodeDecodeError, lzma.LZMAError) as error:
        raise LabError(
            f"{path} is not readable JSON ({error}); delete it and build it again with `snakemake {path}`."
        ) from None


def digest(value: object) -> str:
    """SHA-256 of plain data, whatever the order of its keys, as 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def sha256(path: str | Path) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
