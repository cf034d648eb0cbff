"""From an entry of the configuration to the code that runs: whose it is, where it lies, and its digest."""

import os
from pathlib import Path

from minikernel.ops.registry import SPECS, spec_of
from minilab import LabError
from minilab.records.digests import digest_of_code


def is_users(name: str, entry: dict | None) -> bool:
    """Whether a kernel is the user's own; the lab's are those whose file and function are an entry's of `SPECS`.

    Raises:
        LabError: there is no such kernel.
    """
    return spec_of(name, entry) is None


def check_entries(kernels: dict[str, dict]) -> None:
    """Refuse entries that would be taken for another kernel than the one that runs.

    Raises:
        LabError: an entry has the name of one of the lab's kernels and other code, or is CUDA C that is not the lab's.
    """
    for name, entry in kernels.items():
        found = spec_of(name, entry)
        if name in SPECS and found is not SPECS[name]:
            raise LabError(
                f"config.yaml: kernels.{name} is {entry['function']} of {entry['source']}, and {name} is the name of "
                "one of the lab's own kernels, whose code is another; give yours another name."
            )


def code_of(name: str, entry: dict | None) -> dict[str, str]:
    """The code behind a kernel's name, as its proof holds it: `source`, `function`, and the file's `sha256`.

    The path is resolved, relative to the working directory where it lies below it; the digest is of what the file means
    (`minilab.records.digests.digest_of_code`).
    """
    spec = spec_of(name, entry)
    if spec is None and entry is None:
        raise LabError(f"there is no kernel {name!r}; name its source and function under `kernels:` in config.yaml.")
    path = (spec.source if spec else Path(entry["source"] if entry else "")).resolve()
    if not path.is_file():
        raise LabError(f"kernel {name}: {path} does not exist; write the path of the kernel's file in config.yaml.")
    shown = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    function = spec.function if spec else (entry or {})["function"]
    return {"source": shown, "function": function, "sha256": digest_of_code(path)}
