"""The digests of published records, in a file that `sha256sum --check` reads as well.

Whoever publishes a record writes `SHA256SUMS` beside it; whoever reads one finds out whether a byte of it has
changed since, by hand or by accident.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from minilab.files import write_text

NAME = "SHA256SUMS"


def write_sums(folder: str | Path, published: Iterable[str | Path]) -> None:
    """Write or renew the digests of files under `folder`; what else is listed stays, unless its file is gone."""
    folder = Path(folder)
    sums = {name: digest for name, digest in read_sums(folder).items() if (folder / name).exists()}
    for path in published:
        sums[Path(path).relative_to(folder).as_posix()] = _digest(Path(path))
    write_text(folder / NAME, "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())))


def read_sums(folder: str | Path) -> dict[str, str]:
    """Path relative to `folder` -> digest; empty where nothing is written down."""
    path = Path(folder) / NAME
    if not path.exists():
        return {}
    lines = (line.partition("  ") for line in path.read_text().splitlines())
    return {name: digest for digest, _, name in lines}


def is_altered(path: str | Path) -> bool:
    """Whether a published file is not what was published; a file above which no digests lie is not one."""
    path = Path(path)
    for folder in path.parents:
        if sums := read_sums(folder):
            return sums.get(path.relative_to(folder).as_posix()) != _digest(path)
    return False


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
