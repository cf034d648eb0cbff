"""Keep this process, and all that it starts, from files that are none of its business, where the kernel can (Landlock).

It writes below one folder alone, reads nothing below the folders that are hidden from it, and, by what the kernel
offers, opens no TCP connection and sends no signal to who judges it. Linux has it from 5.13 on, for users without
rights too: https://docs.kernel.org/userspace-api/landlock.html
"""

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

CREATE, ADD, RESTRICT = 444, 445, 446  # system calls, the same on every architecture
PR_SET_NO_NEW_PRIVS = 38
VERSION, PATH_BENEATH = 1, 1
EXECUTE, READ_FILE, READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
READS = EXECUTE | READ_FILE | READ_FOLDER
# version 1 has thirteen rights; 2 added moving between folders (REFER), 3 truncating
WRITES = {1: 0x1FFF & ~READS, 2: 1 << 13, 3: 1 << 14}  # by the version that brought them
OF_FILES = EXECUTE | READ_FILE | 1 << 1 | 1 << 14  # what a rule may say of a file rather than of a folder
TCP = {4: 3}  # to bind and to connect
SCOPES = {6: 3}  # abstract sockets and signals
WRITABLE = ("/dev/null", "/dev/zero", "/dev/shm", "/dev/tty")
GPUS = "nvidia*"  # in /dev: what a driver opens to write, some of it long after it began


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


# packed, as the kernel declares it: 12 bytes, not 16
class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def version() -> int:
    """The kernel's version of Landlock; 0 where there is none."""
    return max(0, _call(CREATE, None, 0, VERSION)) if sys.platform == "linux" else 0


def confine(writable: Path, hidden: Sequence[Path] = ()) -> bool:
    """Confine this process for good; whether the kernel could.

    Args:
        writable: the folder below which it may write.
        hidden: folders below which it may not read. Where there are some, what lies beside them and beside the folders
            around them can be read only as far as it is there by now.
    """
    if not (known := version()):
        return False

    # Only what this kernel knows may be asked of it; a newer right makes the call fail as a whole.
    def have(rights: dict[int, int]) -> int:
        return sum(bits for since, bits in rights.items() if since <= known)

    writes = have(WRITES)
    rules = _Ruleset(READS | writes, have(TCP), have(SCOPES))
    # An older kernel takes a longer structure whose unknown part is zero.
    ruleset = _call(CREATE, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if ruleset < 0:
        return False
    try:
        # Landlock knows no "all but": what may be read is listed,
        # as the largest pieces that leave the hidden folders out.
        for path in outside([one.resolve() for one in hidden]):
            _allow(ruleset, path, READS)
        for path in (writable, *map(Path, WRITABLE), *Path("/dev").glob(GPUS)):
            _allow(ruleset, path, READS | writes)
        # without it the kernel refuses: a set-uid program could get out of the rules, or be led astray by them
        ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return _call(RESTRICT, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def outside(hidden: Sequence[Path], root: Path = Path("/")) -> Iterator[Path]:
    """The largest files and folders that hold nothing of the hidden folders."""
    if not any(folder.is_relative_to(root) for folder in hidden):
        yield root
    elif root not in hidden:
        try:
            # a link leads to where a rule of its own allows, or does not
            held = [inside for inside in root.iterdir() if not inside.is_symlink()]
        except OSError:  # it may be passed through and not listed
            held = [root / folder.relative_to(root).parts[0] for folder in hidden if folder.is_relative_to(root)]
        for inside in held:
            yield from outside(hidden, inside)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    """Allow so much below a path; nothing where it cannot be opened."""
    try:
        # a handle to name the place by; it needs no right to read it
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rule = _Beneath(rights if path.is_dir() else rights & OF_FILES, descriptor)
        _call(ADD, ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: object) -> int:
    """A system call that the C library has no name for; -1 where it fails."""
    # a system call takes words of 64 bits; ctypes would pass an int in 32
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *wide)
