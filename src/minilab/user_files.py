"""The files around a user's own: found as `python FILE` finds them, and known once his code has run.

While a user's file is imported its folder stands first on Python's path, and stays there until the file of another
folder comes: what that one imports by the same name is its own. What stands in a file is compiled anew, since Python's
own cache goes by a file's second and size.

What his code imports and opens is told by the process that runs it. Where the environment names a file (`NOTES`), each
path is written there as it is opened from below a function of his: modules, data, libraries, folders that are listed,
files that another program is given. What native code opens by itself, and what another program goes on to open, is not
seen.
"""

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import CodeType, FrameType, ModuleType

NOTES = "MINIGPT_LAB_NOTES"  # the environment's variable: a file to which this process appends what it opens
PACKAGES = Path(__file__).resolve().parents[1]  # the lab's own, which are followed by their imports
BUILT = ("results", "logs", ".snakemake", ".git")  # in a project: what is made of it, and no part of it


class _AsWritten(SourceFileLoader):
    """Compiles what stands in the file, whatever Python has kept of it."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _Folder:
    """Whose folder is on the path, and the modules of those that were, by folder."""

    now: str | None = None
    modules: dict[str, dict[str, ModuleType]] = {}  # noqa: RUF012  # of the process


def loader(name: str, source: str | Path) -> SourceFileLoader:
    """What loads a user's Python file as a module."""
    return _AsWritten(name, str(source))


def enter_folder_of(source: str | Path) -> None:
    """Put the folder of a user's file first on the path, in the place of another user's; note from now on what his
    code opens, where somebody asks for that."""
    file = Path(source).resolve()
    _note_what_is_opened(file)
    folder, former = str(file.parent), _Folder.now
    importlib.invalidate_caches()
    if folder == former:
        return
    if former is not None:
        with suppress(ValueError):
            sys.path.remove(former)
        held = {name: module for name, module in list(sys.modules.items()) if _found_in(former, name)}
        for name in held:
            del sys.modules[name]
        _Folder.modules[former] = held
    else:
        sys.path_hooks.insert(0, _finder)
    _forget_finders(folder)
    sys.path.insert(0, folder)
    sys.modules.update(_Folder.modules.pop(folder, {}))
    _Folder.now = folder


def _forget_finders(folder: str) -> None:
    """Let the path's hooks be asked again for the folder and what lies below it."""
    for path in list(sys.path_importer_cache):
        if path == folder or path.startswith(folder + os.sep):
            del sys.path_importer_cache[path]


def _finder(path: str) -> FileFinder:
    """A hook of the path: what finds modules below a user's folder, but for installed ones."""
    place = os.path.realpath(path)
    if not os.path.isdir(place) or _Folder.now is None or not _is_below(place, _Folder.now) or _is_installed(place):
        raise ImportError  # an archive of modules is another hook's
    endings = ((ExtensionFileLoader, EXTENSION_SUFFIXES), (_AsWritten, SOURCE_SUFFIXES))
    return FileFinder(path, *endings, (SourcelessFileLoader, BYTECODE_SUFFIXES))


def _found_in(folder: str, name: str) -> bool:
    """Whether an imported module, or the package that it is in, was found in a folder by its name."""
    top = name.partition(".")[0]
    spec = getattr(sys.modules.get(top), "__spec__", None)
    places = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
    beside = os.path.join(folder, top)
    return any(isinstance(place, str) and (place == beside or place.startswith(f"{beside}.")) for place in places)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


@cache
def _installed() -> tuple[str, ...]:
    return tuple({os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, PACKAGES)})


def _is_installed(path: str) -> bool:
    """Whether a path belongs to Python, to what is installed in it, or to the lab's packages."""
    return any(_is_below(path, place) for place in _installed()) or f"{os.sep}site-packages{os.sep}" in path


class _Notes:
    """Appends to the file of notes what the user's code opens, each path once."""

    def __init__(self, descriptor: int, project: str) -> None:
        self.descriptor, self.project = descriptor, project
        self.temporary = os.path.realpath(tempfile.gettempdir())  # which may lie in the project
        self.roots = {project}
        self.code: set[str] = set()  # files whose functions are the user's
        self.noted: set[tuple[str, bool]] = set()

    def add(self, file: Path) -> None:
        """Follow another file of the user's."""
        self.roots.add(str(file.parent))
        self.code.add(str(file))

    def hook(self, event: str, arguments: tuple) -> None:
        """Python's audit hook; most events are none of its business, and it must not raise."""
        look = EVENTS.get(event)
        if look is None:
            return
        try:
            for path, written in look(*arguments):
                if isinstance(path, str | bytes | os.PathLike):
                    self._note(os.fsdecode(path), written)
        except Exception:  # a path that is none, or an event with other arguments in another Python
            return

    def _note(self, path: str, written: bool) -> None:
        # a link counts as well as what it leads to: it may lead elsewhere tomorrow
        for place in dict.fromkeys((os.path.realpath(path), os.path.abspath(path))):
            if self._counts(place) and (place, written) not in self.noted and self._is_asked():
                self.noted.add((place, written))
                if place.endswith(".py"):
                    self.code.add(place)
                os.write(self.descriptor, json.dumps([place, written]).encode() + b"\n")

    def _counts(self, place: str) -> bool:
        if place == self.project or not any(_is_below(place, root) for root in self.roots) or _is_installed(place):
            return False
        if _is_below(self.temporary, self.project) and _is_below(place, self.temporary):
            return False
        inside = os.path.relpath(place, self.project).split(os.sep)
        return inside[0] not in BUILT and "__pycache__" not in inside

    def _is_asked(self) -> bool:
        """Whether a function of the user's is among those that are being called, or a thread of his runs."""
        frame: FrameType | None = sys._getframe(3)  # not this class's own
        assert frame is not None
        if "importlib" in frame.f_code.co_filename and frame.f_code.co_name in ("_fill_cache", "children"):
            return False  # a folder is listed to find a module: what else lies there decides nothing
        first, ours = frame, False
        while frame is not None:
            name = os.path.join(self.project, frame.f_code.co_filename)  # wherever his code has gone since
            if name in self.code or os.path.realpath(name) in self.code:
                return True
            first, ours, frame = frame, ours or _is_below(name, str(PACKAGES)), frame.f_back
        return first.f_code.co_name == "_bootstrap" and not ours  # of a thread


def _opened(path, mode, flags) -> list:
    """Of `open`: a file that is made or emptied is the code's own product; one that is changed is read too."""
    made = bool((flags or 0) & (os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    return [(path, made)]


def _given(executable, arguments, cwd, environment) -> list:
    """Of another program that is started: whatever file its arguments name."""
    words = arguments.split() if isinstance(arguments, str) else list(arguments)
    texts = [os.fsdecode(word) for word in words if isinstance(word, str | bytes | os.PathLike)]
    return [(path, False) for text in texts if os.path.isfile(path := os.path.join(cwd or "", text))]


EVENTS: dict[str, Callable[..., list]] = {
    "open": _opened,
    "import": lambda module, file, *more: [(file, False)],
    "ctypes.dlopen": lambda name: [(name, False)],
    "os.listdir": lambda path: [(path, False)],
    "os.scandir": lambda path: [(path, False)],
    "sqlite3.connect": lambda database: [(database, False)],
    "subprocess.Popen": _given,
    "os.posix_spawn": lambda path, arguments, environment: _given(path, arguments, None, None),
    "os.system": lambda command: _given(None, os.fsdecode(command).split(), None, None),
}
_notes: list[_Notes] = []


def open_notes() -> None:
    """Open the file of notes that the environment names, once: what a process that is about to confine itself must do
    before. It is written to the process's end."""
    if not _notes and (notes := os.environ.get(NOTES)):
        with suppress(OSError):
            descriptor = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            _notes.append(_Notes(descriptor, os.path.realpath(os.getcwd())))
            sys.addaudithook(_notes[0].hook)


def _note_what_is_opened(file: Path) -> None:
    """Follow a user's file from now on, where somebody asks for that."""
    open_notes()
    for one in _notes:
        one.add(file)


def opened(notes: str | Path) -> Iterator[str]:
    """The paths in a file of notes that were read and not made, relative to the working directory where below it."""
    told: dict[str, bool] = {}
    for line in Path(notes).read_text().splitlines():
        with suppress(ValueError):  # the last line of a process that was ended
            path, written = json.loads(line)
            told[path] = told.get(path, False) or written
    here = os.path.realpath(os.getcwd())
    yield from sorted(os.path.relpath(path, here) if _is_below(path, here) else path for path in told if not told[path])
