"""Where a result comes from: device, versions, date, and digests of what it was made with.

A record is fresh as long as the files and parameters that it was measured with are still those of
the checkout; `stale_reasons` says what has changed since.
"""

import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from minilab.device import cpu_device, hardware
from minilab.files import digest, sha256

PACKAGES = ("torch", "triton", "cupy-cuda13x", "cupy-cuda12x", "numpy", "snakemake")


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that decide what is measured (none imported)."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package.split("-cuda")[0]] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def packages() -> dict[str, str]:
    """Name -> version of every installed package."""
    found = {made.metadata["Name"]: made.version for made in metadata.distributions()}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def provenance(sources: Iterable[str | Path], params: dict, device: str | None = None) -> dict:
    """The provenance of a result made now, here.

    Args:
        sources: files that the result depends on, relative to the project's root; each is digested.
        params: the configuration that the result depends on, as plain data.
        device: slug of the hardware that it was measured on; this machine's CPU by default.
    """
    device = device or cpu_device()
    return {
        "device": device,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "environment_sha256": digest(packages()),
        "hardware": hardware(device),
        "sources": {str(path): sha256(path) for path in sorted(map(str, sources))},
        "params": params,
        "params_sha256": digest(params),
    }


def stale_reasons(record: dict, params: dict | None = None) -> list[str]:
    """Why a provenance object no longer describes this checkout; empty while it does.

    Args:
        record: what `provenance` returned when the result was made.
        params: today's parameters, compared with the recorded ones when given.
    """
    reasons = []
    for path, recorded in record["sources"].items():
        if not Path(path).exists():
            reasons.append(f"{path} is gone")
        elif sha256(path) != recorded:
            reasons.append(f"{path} has changed")
    if params is not None:
        names = sorted(params.keys() | record["params"].keys())
        reasons += [f"parameter {name} has changed" for name in names if params.get(name) != record["params"].get(name)]
    return reasons
