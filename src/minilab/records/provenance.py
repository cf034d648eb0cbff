"""Where a result comes from: device, versions, date, and digests of what it was made with.

A record is fresh as long as the files and parameters that it was measured with are still those of
the checkout; `stale_reasons` says what has changed since.
"""

import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, TypedDict

from minilab.device import cpu_device, hardware
from minilab.errors import LabError
from minilab.files import digest
from minilab.records.sources.closure import only_forwards
from minilab.records.sources.content import changed_since, digests_of_opened
from minilab.records.sources.digests import digest_of_code, digest_of_content
from minilab.surroundings import decisive_variables

SIMULATED = "simulated-"  # begins the slug of a device that is not there
Reason = dict[str, Any]  # {"code": ..., and the fields that its wording names}


class Provenance(TypedDict, total=False):
    """Where a result comes from; `content_sha256` is added when it is written."""

    device: str  # slug of the hardware
    date: str  # ISO 8601, UTC
    versions: dict[str, str]  # of Python and of the packages that decide figures
    environment_sha256: str  # of all installed packages
    hardware: dict[str, Any]  # cpu, cores, system, gpu
    sources: dict[str, str]  # file -> digest of what it means
    variables: dict[str, str]  # of the environment, those set that change machine code or its time
    opened: dict[str, str]  # file that the user's code imported or opened besides -> digest of what it means
    inputs: dict[str, str]  # other result -> digest of its content
    params: dict[str, Any]
    params_sha256: str
    content_sha256: str  # of the whole artefact but this


PACKAGES = ("torch", "triton", "cupy-cuda13x", "cupy-cuda12x", "numpy", "snakemake")


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that decide what is measured (none imported)."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            # CuPy's package is named after the CUDA that it is for; the record says cupy, whichever it is
            found[package.split("-cuda")[0]] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def packages() -> dict[str, str]:
    """Name -> version of every installed package."""
    found = {made.metadata["Name"]: made.version for made in metadata.distributions()}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def provenance(
    sources: Iterable[str | Path], params: dict, device: str | None = None, inputs: Iterable[str | Path] = ()
) -> Provenance:
    """The provenance of a result made now, here.

    Args:
        sources: files that the result depends on, relative to the project's root; each is digested by what it means
            (`minilab.records.sources.digests.digest_of_code`).
        params: the configuration that the result depends on, as plain data.
        device: slug of the hardware that it was measured on; this machine's CPU by default.
        inputs: other results that decide its figures; each is digested by its content.
    """
    device = device or cpu_device()
    sources = sorted(map(str, sources))
    opened = {path: found for path, found in digests_of_opened().items() if path not in sources}
    made: Provenance = {
        "device": device,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "environment_sha256": digest(packages()),
        # of this machine, with its GPU where the device is one: clocks and driver decide times as well
        "hardware": hardware(device),
        "sources": {str(path): digest_of_code(path) for path in sources},
        "inputs": {str(path): digest_of_content(path) for path in sorted(map(str, inputs))},
        # both the values, to say which has changed, and their digest, to be compared in one look
        "params": params,
        "params_sha256": digest(params),
    }
    if variables := decisive_variables():
        made["variables"] = variables
    return {**made, "opened": opened} if opened else made


def concluded(sources: Iterable[str | Path], made: Mapping, *inputs: str | Path) -> Provenance:
    """The provenance of what follows from other results: when and where these were made, by what it was concluded.

    Args:
        sources: files that decide the conclusion.
        made: the provenance of the measured result.
        inputs: the results that it follows from.
    """
    here = provenance(sources, {}, made["device"], inputs)
    names = ("date", "versions", "environment_sha256", "hardware", "variables")
    measured = {name: made[name] for name in names if name in made}
    here.pop("variables", None)  # where it is concluded, nothing is compiled
    return {**here, **measured}  # type: ignore[typeddict-item]  # names of the same dictionary


def provenances(artefact: Mapping) -> dict[str, Any]:
    """What an artefact was made with: of a bench each kernel's own provenance by its name, else the one, under ""."""
    kernels = artefact.get("kernels")
    return kernels if isinstance(kernels, dict) else {"": artefact.get("provenance")}


def stale_reasons(
    made: Mapping,
    params: dict | None = None,
    sources: Mapping[str, str] | None = None,
    record: str | Path | None = None,
    results: bool = True,
) -> list[Reason]:
    """Why a provenance object no longer describes this checkout; empty while it does.

    Args:
        made: what `provenance` returned when the result was made.
        params: today's parameters, compared with the recorded ones when given.
        sources: today's digests of all that the result depends on, compared with the recorded ones when given;
            otherwise the recorded files are digested again.
        record: the folder of the device's record, where other artefacts that decide its figures may lie.
        results: whether those that lie there not are looked for under `results/`.

    Returns:
        Each reason as a code with its fields: `source_gone`, `source_changed`, `source_new` and `input_differs` with
        `path`, `parameter_changed` with `name`.
    """
    # A package's `__init__` that only hands names on computes nothing, though older records list it.
    decisive = {path: recorded for path, recorded in made["sources"].items() if not only_forwards(path)}
    if sources is None:
        sources = {path: digest_of_code(path) for path in decisive if Path(path).exists()}
    reasons: list[Reason] = []
    for path, recorded in decisive.items():
        if path not in sources:
            reasons.append({"code": "source_gone", "path": path})
        elif sources[path] != recorded:
            reasons.append({"code": "source_changed", "path": path})
    reasons += [
        {"code": "source_changed" if Path(path).is_file() else "source_gone", "path": path}
        for path in changed_since(made)
    ]
    # a module that is imported by now and was not then may have changed a figure
    reasons += [{"code": "source_new", "path": path} for path in sources.keys() - made["sources"].keys()]
    if params is not None:
        names = sorted(params.keys() | made["params"].keys())
        changed = [name for name in names if params.get(name) != made["params"].get(name)]
        reasons += [{"code": "parameter_changed", "name": name} for name in changed]
    for path, recorded in made.get("inputs", {}).items():
        today = _today(path, made["device"], record, results)
        # an input that lies nowhere says nothing: whoever restores has only the record
        with suppress(LabError):  # one that cannot be read is another one
            if today is None or digest_of_content(today) == recorded:
                continue
        reasons.append({"code": "input_differs", "path": path})
    # the same order each time, since an artefact holds them and its digest counts
    return sorted(reasons, key=lambda reason: (reason["code"], *map(str, reason.values())))


def _today(path: str, device: str, record: str | Path | None, results: bool) -> Path | None:
    """Where an input of a result is to be found now: in the record that the result belongs to, or in `results/`."""
    if record is not None:
        recorded = Path(record, *(part for part in Path(path).parts[1:] if part != device))
        for candidate in (recorded, recorded.with_name(f"{recorded.name}.xz")):
            if candidate.exists():
                return candidate
    return Path(path) if results and Path(path).exists() else None
