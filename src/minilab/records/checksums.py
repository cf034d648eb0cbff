"""The digests of a device's published record, in a file that `sha256sum --check` reads as well, and who signed it.

Whoever publishes a record writes `SHA256SUMS` beside it; whoever reads one finds out whether a byte of it has changed
since, by hand or by accident. Somebody who edits a file and renews its digest is found out by a signature alone:
OpenSSH's (`ssh-keygen -Y sign`), in `SHA256SUMS.sig`, of all digests together.
"""

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from minilab.errors import LabError
from minilab.files import sha256, write_text

NAME = "SHA256SUMS"
# two spaces, as sha256sum writes it for text
LINE = re.compile(r"[0-9a-f]{64}  .+")
SIGNATURE = f"{NAME}.sig"
SIGNERS = "allowed_signers"  # who may sign, beside the devices' folders, as ssh-keygen reads it
NAMESPACE = "minigpt-lab"  # of the signatures, so that one made for another purpose does not count


@dataclass(frozen=True)
class Signature:
    """What is known of a record's signature: `state` is `unsigned`, `signed`, or `invalid`, and `by` who made it."""

    state: str
    by: str | None = None


def write_sums(folder: str | Path, published: Iterable[str | Path]) -> None:
    """Write or renew the digests of files under `folder`; what else is listed stays, unless its file is gone.

    A signature of other digests is removed.
    """
    folder = Path(folder)
    old = read_sums(folder)
    # what is published now is added to what was, so that a record can grow stage by stage
    sums = {name: digest for name, digest in old.items() if (folder / name).exists()}
    for path in published:
        sums[Path(path).relative_to(folder).as_posix()] = sha256(path)
    # unchanged digests keep their signature: publishing the same again must not unsign it
    if sums != old:
        (folder / SIGNATURE).unlink(missing_ok=True)
        write_text(folder / NAME, "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())))


def read_sums(folder: str | Path) -> dict[str, str]:
    """Path relative to `folder` -> digest; empty where nothing is written down. Lines that hold no digest do not count.

    Raises:
        LabError: the file is there and is no text.
    """
    path = Path(folder) / NAME
    try:
        lines = path.read_bytes().decode().splitlines()
    except FileNotFoundError:
        return {}
    except (UnicodeDecodeError, IsADirectoryError):
        raise LabError(f"{path} is not a list of digests; bring it back with `git checkout {path}`.") from None
    sums = (line for line in lines if LINE.fullmatch(line) and line.isprintable())
    return {name: digest for digest, _, name in (line.partition("  ") for line in sums)}


def is_published(path: str | Path, folder: str | Path) -> bool:
    """Whether a file under `folder` is, byte for byte, one that was published there."""
    return read_sums(folder).get(Path(path).relative_to(folder).as_posix()) == sha256(path)


def sign(folder: str | Path, key: str | Path) -> None:
    """Sign a record's digests with the private OpenSSH key in the file `key`.

    Raises:
        LabError: there is no ssh-keygen, or it refuses the key.
    """
    folder = Path(folder)
    # an old signature goes first: where signing fails, none is better than one of other digests
    (folder / SIGNATURE).unlink(missing_ok=True)
    done = _ssh_keygen(f"sign {folder / NAME}", "-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(folder / NAME))
    if done.returncode:
        raise LabError(
            f"{folder / NAME} could not be signed with the key {key} ({_said(done)}); name the file of a private "
            "OpenSSH key as records.sign, one without a passphrase or in an agent, or null to publish unsigned."
        )


def signature_of(folder: str | Path) -> Signature:
    """Who signed a record's digests; a key that `allowed_signers` lacks is named by its fingerprint.

    Raises:
        LabError: it is signed, and there is no ssh-keygen to check it with.
    """
    folder = Path(folder)
    sums, signature, signers = folder / NAME, folder / SIGNATURE, folder.parent / SIGNERS
    if not signature.exists():
        return Signature("unsigned")
    subject = f"check {signature}"
    if not sums.exists():
        return Signature("invalid")
    text = sums.read_bytes()
    # First whether the signature is of these bytes at all, then whether its key is one that may sign.
    valid = _ssh_keygen(subject, "-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(signature), text=text)
    if valid.returncode:
        return Signature("invalid")
    # A key on the list is named by its owner; any other one by its fingerprint, which proves no more than that.
    if signers.exists():
        found = _ssh_keygen(subject, "-Y", "find-principals", "-f", str(signers), "-s", str(signature), text=text)
        names = found.stdout.decode().split() if found.returncode == 0 else []
        if names:
            options = ("-I", names[0], "-n", NAMESPACE, "-s", str(signature))
            checked = _ssh_keygen(subject, "-Y", "verify", "-f", str(signers), *options, text=text)
            return Signature("signed", names[0]) if checked.returncode == 0 else Signature("invalid")
    said = valid.stdout.decode().split()
    return Signature("signed", next((word for word in said if word.startswith("SHA256:")), None))


def _ssh_keygen(subject: str, *arguments: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["ssh-keygen", *arguments], input=text, capture_output=True)
    except FileNotFoundError:
        raise LabError(f"ssh-keygen is not here to {subject}; install OpenSSH's client (openssh-client).") from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = (done.stderr + done.stdout).decode(errors="replace").strip().splitlines()
    return lines[-1].rstrip(".") if lines else f"status {done.returncode}"
