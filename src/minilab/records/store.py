"""Artefacts written and read: whoever reads one learns whether it is what was written, and made as the lab is now."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from minilab.config.check import check_schema, read_schema
from minilab.errors import LabError
from minilab.files import digest, read_object, write_json
from minilab.records.artefact import artefact_at
from minilab.records.provenance import provenances

PROVENANCE_SCHEMA, RESTORED_SCHEMA = "schemas/provenance.schema.yaml", "schemas/restored.schema.yaml"


def content_sha256(artefact: dict) -> str:
    """SHA-256 of all that an artefact holds, its provenance included, but for the digest itself."""
    # a digest cannot be part of what it is the digest of
    made = {name: value for name, value in artefact["provenance"].items() if name != "content_sha256"}
    return digest({**artefact, "provenance": made})


def write_artefact(path: str | Path, artefact: dict, schema: str | Path | None = None) -> None:
    """Write an artefact with the digest of its content.

    Args:
        path: of the file.
        artefact: plain data with a `provenance`; left as it is.
        schema: of the artefact; nothing is written that does not fit it.

    Raises:
        LabError: the artefact does not fit its schema.
    """
    if schema is not None:
        check_artefact(artefact, read_schema(schema), str(path))
    made = {**artefact["provenance"], "content_sha256": content_sha256(artefact)}
    # whole or not at all: `write_json` puts a finished file in place
    write_json(path, {**artefact, "provenance": made})


def check_artefact(artefact: dict, schema: dict, where: str, advice: str | None = None) -> None:
    """Hold an artefact against its schema, and its provenance and what restoring added against those that all share.

    Raises:
        LabError: it does not fit.
    """
    # `restored` was added after the artefact was made: its own schema is for that
    check_schema({name: value for name, value in artefact.items() if name != "restored"}, schema, where, advice)
    for kernel, made in {"": artefact.get("provenance"), **provenances(artefact)}.items():
        name = f"kernels.{kernel}" if kernel else "provenance"
        check_schema(made, read_schema(PROVENANCE_SCHEMA), f"{where}: {name}", advice)
    if "restored" in artefact:
        check_schema(artefact["restored"], read_schema(RESTORED_SCHEMA), f"{where}: restored", advice)


# Against accidents: a hand that meant to deceive could renew this digest as well, and `verify` is for that.
def is_edited(artefact: dict) -> bool:
    """Whether an artefact holds something else than when it was written."""
    made = artefact.get("provenance")
    return not isinstance(made, dict) or made.get("content_sha256") != content_sha256(artefact)


def read_unedited(path: str | Path, again: str | None = None) -> dict[str, Any]:
    """Read a JSON file that carries the digest of its content; whether it fits a schema is not asked.

    Args:
        path: of the file.
        again: what to do about one that was edited, where it is not to build it again.

    Raises:
        LabError: there is none, it holds no JSON object, or was edited since it was written.
    """
    artefact = read_object(path)
    again = again or f"delete it and build it again with `snakemake --cores 4 {path}`"
    if is_edited(artefact):
        raise LabError(f"{path} is not what was written: the digest in its provenance is not its content's; {again}.")
    return artefact


def read_artefact(path: str | Path, config: dict | None = None) -> dict[str, Any]:
    """Read an artefact that the workflow made.

    Args:
        path: of the JSON file.
        config: today's configuration. An artefact that was made here must have been made with it; one that was restored
            says itself what has changed since.

    Raises:
        LabError: there is none, it is no JSON, was edited since it was written, does not fit its schema, or was made
            with another configuration; the sentence says what to build again.
    """
    again = f"delete it and build it again with `snakemake --cores 4 {path}`"
    # edited or not before anything else: the other checks would find fault with the edit, not name it
    artefact = read_unedited(path, again)
    found = artefact_at(path)
    if found is None:
        return artefact
    entry, _ = found
    if Path(entry.schema).exists():
        check_artefact(artefact, read_schema(entry.schema), str(path), again + ".")
    if config is not None and "restored" not in artefact and (changed := changed_params(path, artefact, config)):
        raise LabError(
            f"{path} was made with another configuration ({', '.join(changed)} {'is' if len(changed) == 1 else 'are'} "
            f"another now); {again}."
        )
    return artefact


def read_artefacts(paths: Iterable[str | Path], config: dict | None = None) -> list[dict[str, Any]]:
    """Several artefacts, each as `read_artefact` reads it."""
    return [read_artefact(path, config) for path in paths]


def changed_params(path: str | Path, artefact: dict, config: dict) -> list[str]:
    """The names of the parameters that an artefact was made with and that are others in today's configuration.

    A bench was made kernel by kernel; a parameter of one is named `kernel.parameter`. Kernels that are no longer asked
    for do not count.
    """
    found = artefact_at(path)
    if found is None:
        return []
    entry, wildcards = found
    changed = []
    for kernel, made in provenances(artefact).items():
        params, today = made["params"], entry.params(config, {"kernel": kernel, **wildcards})
        names = [name for name in {**params, **today} if params.get(name) != today.get(name)]
        changed += [f"{kernel}.{name}" if kernel else name for name in names]
    return changed
