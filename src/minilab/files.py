"""Files that are whole or absent: everything is written to a temporary name, then renamed."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minilab.errors import LabError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it onto `path` when the block succeeds.

    The temporary name keeps the suffix of `path`, because writers such as matplotlib choose a
    format by it. On an exception the temporary file is removed and `path` is left as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
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


def write_json(path: str | Path, value: object) -> None:
    """Write `value` as indented JSON. NaN and infinities are refused: JSON has none."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> dict:
    """Read a JSON file.

    Raises:
        LabError: the file is missing or is not JSON.
    """
    try:
        return json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise LabError(f"{path} does not exist; build it with `snakemake {path}`.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise LabError(
            f"{path} is not readable JSON ({error}); delete it and build it again with `snakemake {path}`."
        ) from None


def sha256(*paths: str | Path) -> str:
    """SHA-256 over the contents of the files, in the order given, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(hashlib.sha256(Path(path).read_bytes()).digest())
    return digest.hexdigest()
