"""Results published as a record: what was measured on a device, and the pictures and pages that show it.

A picture or page carries no provenance of its own; `pages.json` in the record holds for each of them the digests of
what drew it and of what it shows, so that one drawn by other code, or of other figures, is found out.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from minilab.config.check import check_schema, read_schema
from minilab.errors import LabError
from minilab.files import pack_json, read_object, write_bytes, write_json
from minilab.records.artefact import RECORDED, artefact_at
from minilab.records.checksums import sign, write_sums
from minilab.records.provenance import Provenance, provenance
from minilab.records.store import PROVENANCE_SCHEMA, read_artefact

log = logging.getLogger("minilab")
PAGES = "pages.json"


def read_pages(folder: str | Path) -> dict[str, Provenance]:
    """What a record's pictures and pages were drawn by and of: path in the record -> provenance.

    Raises:
        LabError: the list is not one that was published.
    """
    path = Path(folder, PAGES)
    pages = read_object(path) if path.exists() else {}
    # a checkout may have been edited by hand: each entry must be a whole provenance
    for page, made in pages.items():
        check_schema(
            made, read_schema(PROVENANCE_SCHEMA), f"{path}: {page}", f"bring it back with `git checkout {path}`."
        )
    return pages


def place(path: str | Path, device: str) -> Path:
    """Where a record keeps a file of `results/`: results/25/minigpt/h200/roofline.png at 25/minigpt/roofline.png."""
    return Path(*(part for part in Path(path).parts[1:] if part != device))


def publish(
    device: str,
    artefacts: Iterable[str | Path],
    pages: Mapping[str, tuple[list[str], list[str]]],
    recorded: str | Path = RECORDED,
    key: str | None = None,
) -> list[Path]:
    """Publish one device's results; nothing is written before all of them are known to be sound.

    Args:
        device: its slug.
        artefacts: JSON results of the table of artefacts. One that was itself restored stays as the record has it.
        pages: picture or page -> (files of code that draw it, results that it shows).
        recorded: the folder of all records.
        key: file of a private OpenSSH key to sign with; None publishes without a signature.

    Returns:
        The files written, the list of digests apart.

    Raises:
        LabError: a result is missing, or was edited since it was made; the key is no good.
    """
    folder = Path(recorded, device)
    # all of it is read and checked before the first byte of the record is written
    sound = [(Path(path), read_artefact(path)) for path in artefacts]
    for page in pages:
        if not Path(page).exists():
            raise LabError(f"{page} is missing; draw it with `snakemake --cores 4 {page}`.")
    # what came out of a record does not go back into it with a new date
    measured = [path for path, held in sound if "restored" not in held]
    published = []
    for path in measured:
        target = folder / place(path, device)
        entry, _ = artefact_at(path) or (None, None)
        if entry and entry.packed:
            target = target.with_name(f"{target.name}.xz")
            pack_json(path, target)
        else:
            write_bytes(target, path.read_bytes())
        published.append(target)
    drawn = {name: made for name, made in read_pages(folder).items() if (folder / name).exists()}
    for page, (code, shows) in pages.items():
        target = folder / place(page, device)
        write_bytes(target, Path(page).read_bytes())
        # what drew it and what it shows, by digests: an edit of either makes the picture stale
        drawn[target.relative_to(folder).as_posix()] = provenance(code, {}, device, shows)
        published.append(target)
    if drawn:
        write_json(folder / PAGES, drawn)
        published.append(folder / PAGES)
    # last: until then a reader finds files that the list does not know, and refuses them
    write_sums(folder, published)
    if key:
        sign(folder, key)
    for path in published:
        log.info("published %s", path)
    return published
