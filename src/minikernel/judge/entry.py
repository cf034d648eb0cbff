"""From an entry of the configuration to the code that runs: whose it is, where it lies, and its digest."""

import os
from pathlib import Path

from minikernel.ops.ladder.table import spec_of
from minikernel.ops.registry import HERE, SPECS
from minilab import LabError
from minilab.config.check import is_for_cpu
from minilab.config.places import Places
from minilab.records.sources.digests import digest_of_code

IMPORTED_FROM = HERE.resolve().parents[1]  # the folder that the package minikernel lies in


def is_users(name: str, entry: dict | None) -> bool:
    """Whether a kernel is the user's own; the lab's are those whose file and function are an entry's of `SPECS`.

    Raises:
        LabError: there is no such kernel.
    """
    return spec_of(name, entry) is None


def check_entries(kernels: dict[str, dict], places: Places | None = None) -> None:
    """Refuse entries that would be taken for another kernel than the one that runs.

    Args:
        kernels: the configuration's.
        places: where they stand, for the sentences.

    Raises:
        LabError: an entry has the name of one of the lab's kernels and other code, is CUDA C or C++ that is not the
            lab's, or is of another copy of the lab than the one that Python imports.
    """
    places = places or Places()
    for name, entry in kernels.items():
        _refuse_another_copy(name, entry, places)
        found = spec_of(name, entry)
        if found is None and is_for_cpu(entry):
            raise LabError(
                f"{_where(name, places)}.source is {entry['source']}, C++ with no launcher; wrap it in a Python file "
                "that takes and returns a tensor, and name that file and its function."
            )
        # Results are kept under the kernel's name: the lab's name
        # over other code would show that code's figures as the lab's.
        if name in SPECS and found is not SPECS[name]:
            raise LabError(
                f"{_where(name, places)} is {entry['function']} of {entry['source']}, and {name} is the name of "
                "one of the lab's own kernels, whose code is another; give yours another name."
            )


def _where(name: str, places: Places) -> str:
    return f"{places.of(('kernels', name, 'source'), ('kernels', name, 'function'))}: kernels.{name}"


def _refuse_another_copy(name: str, entry: dict, places: Places) -> None:
    """The kernel that runs is the one of the lab that is installed: an entry must not name another lab's."""
    spec = SPECS.get(name)
    if spec is None:
        return
    source, package = Path(entry["source"]).resolve(), spec.source.resolve()
    inner = package.relative_to(IMPORTED_FROM).parts
    # The same path inside another folder: somebody works in one copy of the lab and imports another.
    if source != package and source.is_file() and source.parts[-len(inner) :] == inner:
        raise LabError(
            f"{_where(name, places)} names {source}, but the lab that Python imports is another copy, whose "
            f"kernel is {package}; run `pip install -e .` in this folder."
        )


def code_of(name: str, entry: dict | None) -> dict[str, str]:
    """The code behind a kernel's name, as its proof holds it: `source`, `function`, and the file's `sha256`.

    The path is resolved, relative to the working directory where it lies below it; the digest is of what the file means
    (`minilab.records.sources.digests.digest_of_code`).
    """
    spec = spec_of(name, entry)
    if spec is None and entry is None:
        raise LabError(
            f"there is no kernel {name!r}; name its source and function under `kernels:` in the configuration."
        )
    path = (spec.source if spec else Path(entry["source"] if entry else "")).resolve()
    if not path.is_file():
        raise LabError(f"kernel {name}: {path} does not exist; write the path of the kernel's file.")
    # relative where it can be, so that an artefact says the same on every machine
    shown = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    function = spec.function if spec else (entry or {})["function"]
    return {"source": shown, "function": function, "sha256": digest_of_code(path)}
