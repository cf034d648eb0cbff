"""`lab.lock.json`: everything that a rebuild depends on, and what came out, in digests that two builds can compare.

Like a package manager's lock file, it is written by a build, read by people and by `drift`, and never edited.
Held are only results that the same inputs give again anywhere: measured times are not among them.
"""

import platform
from collections.abc import Iterator
from pathlib import Path

from minilab.device import cpu_name
from minilab.files import read_object, sha256
from minilab.records.provenance import packages
from minilab.records.sources.digests import digest_of_code, digest_of_content


def flat(value: dict, name: str = "") -> Iterator[tuple[str, object]]:
    """A nested configuration as dotted names and plain values; lists stay whole."""
    for key, inner in value.items():
        # an empty section is a value too
        if isinstance(inner, dict) and inner:
            yield from flat(inner, f"{name}{key}.")
        else:
            yield f"{name}{key}", inner


def choices_of(autotune: dict) -> dict[str, dict]:
    """What was picked at each shape: the kernel to launch and the tuned one's configuration."""
    return {
        f"{choice['rows']}x{choice['cols']} {choice['dtype']}": {
            "config": choice["config"],
            "faster": choice.get("faster", autotune["kernel"]),
        }
        for choice in autotune["choices"]
    }


def lock(
    config: dict, sources: list[str], made: dict[str, dict], graphs: list[str], autotunes: list[str]
) -> dict[str, dict]:
    """The lock of a build.

    Args:
        config: the whole configuration.
        sources: every file that is read or run.
        made: result -> `sources` (files), `config` (sections) and `of` (other results) that it is made from.
        graphs: the captured graphs' files.
        autotunes: the tuning results, `.../{device}/autotune.json`.

    Returns:
        By section name -> value: `machine`, `packages`, `config`, `sources`, `choices`, `graphs`, `results`.
    """
    return {
        "machine": {"cpu": cpu_name(), "system": platform.platform(), "python": platform.python_version()},
        "packages": packages(),
        "config": dict(flat(config)),
        # by meaning: a better comment is no change
        "sources": {path: digest_of_code(path) for path in sources},
        "choices": {path: choices_of(read_object(path)) for path in autotunes},
        "graphs": {path: sha256(path) for path in graphs},
        # of figures without their date and machine, or every build would differ from every other
        "results": {
            path: {"sha256": digest_of_content(path), **parts} for path, parts in made.items() if Path(path).exists()
        },
    }
