"""Environments with one version of torch each: found where they are, or made once with venv and pip, and kept.

An environment holds what the lab needs beside torch, and not the lab: its source is put on the path of what runs there.
"""

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from minilab import LabError

PROJECT = Path(__file__).parents[3] / "pyproject.toml"  # in a checkout; an installed package has its metadata
UNFINISHED = "UNFINISHED"  # lies in an environment for as long as it is being made
SHOWN = 6  # versions that a refusal names
ASK = "from importlib.metadata import version; print(version('torch'))"
UNREACHED = re.compile(
    r"NewConnectionError|NameResolution|name resolution|Name or service not known|unreachable|Timeout"
)
KNOWN = re.compile(r"satisfies the requirement torch\S+ \(from versions: (.*?)\)")


@dataclass(frozen=True)
class Wanted:
    """A version that somebody asks for, `2.15` or `2.15.0`, and the interpreter named for it, if one is."""

    version: str
    python: Path | None = None

    @property
    def specifier(self) -> SpecifierSet:
        """What pip is asked for: of `2.15` its newest patch."""
        parts = Version(self.version)
        return SpecifierSet(f"=={self.version}" + (".*" if str(parts) == f"{parts.major}.{parts.minor}" else ""))

    def fits(self, found: str) -> bool:
        """Whether an installed version is the one that is asked for; a build's own ending does not matter."""
        return self.specifier.contains(Version(found), prereleases=True)


def wanted(text: str) -> list[Wanted]:
    """The versions in `2.13,2.15=/path/to/python`, in that order.

    Raises:
        LabError: there are fewer than two, one is named twice or is none, or an interpreter is not there or has another
            torch.
    """
    found: list[Wanted] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        version, given, python = part.partition("=")
        found.append(_one(version.strip(), python.strip() if given else None))
    versions = [one.version for one in found]
    if twice := next((version for version in versions if versions.count(version) > 1), None):
        raise LabError(f"--torch names {twice} twice; name each version once.")
    if len(found) < 2:
        raise LabError(f"--torch names {len(found)} of torch's versions, and two are compared; write 2.13,2.15, say.")
    return found


def _one(version: str, python: str | None) -> Wanted:
    try:
        Version(version)
    except InvalidVersion:
        raise LabError(f"--torch: {version!r} is no version of torch; write one as 2.15 or 2.15.0.") from None
    if "." not in version:
        raise LabError(f"--torch: {version} is no version of torch alone; write its minor version too: {version}.0.")
    if python is None:
        return Wanted(version)
    made = Wanted(version, Path(python).expanduser().absolute())
    if (has := _torch_of(made.python)) is None:
        raise LabError(f"--torch: {python} is no Python with a torch; name the interpreter of an environment with one.")
    if not made.fits(has):
        raise LabError(f"--torch: {python} has torch {has} and not {version}; name it for that version.")
    return made


def _torch_of(python: Path | None) -> str | None:
    """The version of torch that an interpreter has, which is asked and imports nothing; None where there is none."""
    try:
        done = subprocess.run([str(python), "-c", ASK], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def kept_in() -> Path:
    """Where environments are kept unless somebody says otherwise: a folder of the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if cache.startswith("/") else Path.home() / ".cache") / "minigpt-lab/torch"


def interpreter(one: Wanted, folder: Path) -> Path:
    """The interpreter with a version of torch: the one that is named, this one, one that is kept, or one made now.

    Args:
        one: the version.
        folder: where environments are kept; each folder in it is one.

    Raises:
        LabError: pip does not have the version or reaches no index, or the folder cannot be written.
    """
    if one.python is not None:
        return one.python
    if (here := _installed(None)) is not None and one.fits(here):
        return Path(sys.executable)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / f".{one.version}.lock"):
            return _kept(one, folder) or _made(one, folder / one.version)
    except OSError as error:
        raise LabError(
            f"no environment can be kept in {folder}: {error.strerror or error}; name another: --environments DIR."
        ) from error


def _installed(site: Path | None) -> str | None:
    """The version of torch in a folder of packages, or in this interpreter's; nothing is imported."""
    path = sys.path if site is None else [str(site)]
    return next((each.version for each in metadata.distributions(name="torch", path=path)), None)


def _kept(one: Wanted, folder: Path) -> Path | None:
    """The interpreter of the newest kept environment with a version that fits."""
    found = [
        (Version(version), home / "bin/python")
        for home in folder.iterdir()
        if (home / "bin/python").exists() and not (home / UNFINISHED).exists()
        for site in home.glob("lib/python*/site-packages")
        if (version := _installed(site)) is not None and one.fits(version)
    ]
    return max(found)[1] if found else None


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """While in the block, no other process makes the environment; the system lets go of the lock of one that ends."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _made(one: Wanted, home: Path) -> Path:
    """Make an environment; one that was left half made is made anew."""
    if home.exists() and not (home / UNFINISHED).exists():
        raise LabError(
            f"{home} is there and is no environment with torch {one.version}; move it away, or name another folder: "
            "--environments DIR."
        )
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    (home / UNFINISHED).touch()
    print(f"torch {one.version}: making an environment in {home}, once; pip may fetch gigabytes.", file=sys.stderr)
    try:
        here = importlib.util.find_spec("pip") is not None
        venv.create(home, with_pip=not here, symlinks=True)
        python = home / "bin/python"
        pip = [sys.executable, "-m", "pip", "--python", str(python)] if here else [str(python), "-m", "pip"]
        asked = ["install", "--disable-pip-version-check", "--retries", "2", f"torch{one.specifier}", *_beside_torch()]
        done = subprocess.run([*pip, *asked], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise LabError(f"torch {one.version}: {_why(done.stderr + done.stdout, home)}")
        (home / UNFINISHED).unlink()
    except subprocess.CalledProcessError as error:
        shutil.rmtree(home)
        raise LabError(f"torch {one.version}: no environment can be made: {error}; install Python's venv.") from error
    except LabError:
        shutil.rmtree(home)
        raise
    return python


def _beside_torch() -> list[str]:
    """What the lab requires but torch, as pip takes it."""
    if PROJECT.is_file():
        stated = tomllib.loads(PROJECT.read_text())["tool"]["minigpt-lab"]["dependencies"]
    else:
        stated = [text for text in metadata.requires("minigpt-lab") or [] if "extra ==" not in text]
    return [text for text in stated if Requirement(text).name != "torch"]


def _why(told: str, home: Path) -> str:
    """In a sentence, why pip installed nothing, out of what it told."""
    known = KNOWN.search(told)
    if known and known[1] != "none":
        newest = ", ".join(known[1].split(", ")[-SHOWN:])
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"pip does not have it for Python {python} on this machine, but {newest}; write one of those."
    if UNREACHED.search(told):
        return "pip reaches no package index; mend the network, or name an interpreter that has it: VERSION=PYTHON."
    if known:
        return (
            "pip's index has no torch at all; mend pip's settings, or name an interpreter that has it: VERSION=PYTHON."
        )
    if "(constraint)" in told:
        return "a constraint of pip's forbids it; leave that out (PIP_CONSTRAINT, or `pip config list`)."
    errors = [line.partition("ERROR: ")[2] for line in told.splitlines() if "ERROR: " in line]
    said = errors[0] if errors else (told.strip().splitlines() or ["nothing was said"])[-1]
    return f"pip failed in {home.parent}: {said[:200].rstrip('.')}; mend that, or name an interpreter: VERSION=PYTHON."
