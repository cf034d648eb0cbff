"""`explore`: everything that torch.compile makes while a block of code runs, kept and shown.

    with minicompile.explore("out/") as seen:
        train()

Nothing else changes: the same numbers, the same code, each compile's own options. What is written on leaving:
`out/index.html` tells every compile, why it was a recompile, and every graph break with its line; beside it stand
`watched.json.xz`, `capture.json`, `explorer.html` and `annotation.md`, in a folder for each model where there are
several. Then what was generated is run beside the graphs, and the pages are written anew with what that has verified.
"""

import contextlib
import math
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, cast, get_args

from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.explorer import render_explorer
from minicompile.explain.summary import render_summary
from minicompile.lowering.capture import as_capture
from minicompile.lowering.captured import Capture
from minicompile.torch_private.around_a_watch import owner
from minicompile.torch_private.paths import without_paths
from minicompile.unseen.caches import Caches
from minicompile.unseen.earlier import earlier_calls
from minicompile.unseen.other_doors import by_other_doors
from minicompile.unseen.processes import Processes, at_each_fork, at_the_end, of_this_process, processes
from minicompile.watching.collected import Session
from minicompile.watching.dynamo.stacks import PACKAGES, PACKAGES_HERE
from minicompile.watching.model import watched_session
from minicompile.watching.plain import add_ties
from minicompile.watching.session import watch
from minicompile.watching.watched import Kind, Watched, write_watched
from minilab import LabError
from minilab.files import read_object, write_json, write_text

Verify = Literal["all", "some", "none"]
VERIFY: tuple[Verify, ...] = get_args(Verify)
SOME = 20.0  # seconds in which `some` is verified: whoever ran a script waits for them at its end


class Seen:
    """What has been compiled so far in an `explore`, or in all of it once that is left.

    Attributes:
        places: folders of the captures of this process that were written on leaving.
        pages: paths of the explorers that were written on leaving, one for each model with a graph.
        unseen: what ran or was compiled and is in no capture, each with its `code`; complete when the block is left.
        index: path of the page that tells of all; None until it is written.
    """

    def __init__(self, session: Session, language: str, assembly: bool, verify: Verify) -> None:
        self._session, self._language, self._assembly, self._verify = session, language, assembly, verify
        self._complete: list[tuple[Session, Watched]] | None = None
        self._others: list[tuple[int, Capture, Path]] = []  # of other processes: number, capture, its folder
        self.places: list[Path] = []
        self.pages: list[Path] = []
        self.unseen: list[dict] = []
        self.index: Path | None = None

    @property
    def captures(self) -> list[Capture]:
        """A capture (schemas/capture.schema.yaml) for each model or function that was compiled, in order.

        Those of the processes that were started come last, once the block is left.
        """
        return [capture for _, capture in self._concluded()] + [capture for _, capture, _ in self._others]

    def _concluded(self) -> list[tuple[Watched, Capture]]:
        found = []
        for _, watched in self._watched() if self._complete is None else self._complete:
            with _told(f"no capture could be made of {watched['model']['name']}"):
                found.append((watched, as_capture(watched)))
        return found

    def _watched(self) -> list[tuple[Session, Watched]]:
        found = []
        for session in self._session.by_model():
            if not session.compiles:  # an export, say: Dynamo looked at it, and what it made is for others
                continue
            with _told(f"what was seen of {session.models[0]['name']} could not be kept"):
                trained = any(lowered["backward"] for lowered in session.lowered)
                target: Kind = "cuda" if any(graph["on_gpu"] for graph in session.dynamo) else "cpu"
                subject = {**session.models[0], "train": trained}
                found.append((session, watched_session(session, subject, target, {}, assembly=self._assembly)))
        return found

    def _verified(self) -> bool:
        """Add what a run beside the graphs verifies, one model after another; whether there was anything to run."""
        ends = time.monotonic() + (math.inf if self._verify == "all" else SOME)
        tried = False
        for session, watched in (self._complete or ()) if self._verify != "none" else ():
            with _told(f"{watched['model']['name']} could not be verified"):
                add_ties(watched, session, ends - time.monotonic())
                tried = True
        return tried

    def add(self, below: Processes) -> None:
        """Take in what the processes that were started have written."""
        for number, place in below.written():
            with _told(f"what a process wrote to {place} could not be read"):
                self._others.append(
                    (number, cast(Capture, read_object(place / "capture.json", "explore it again.")), place)
                )
        self.unseen += [one for one in below.told() if one not in self.unseen]
        if count := below.unseen():
            self.unseen.append({"code": "processes", "count": count})

    def write(self, folder: str | Path) -> None:
        """Write captures, explorers and annotations into a folder, and its index.html.

        What cannot be made of one capture is told on stderr and left out; the rest is written. Pages of what nobody
        has run stand there before it is run: whatever comes of that, they are kept.
        """
        self._complete, folder = self._watched(), Path(folder)
        self._write(folder)
        if self._verified():
            self._write(folder)

    def _write(self, folder: Path) -> None:
        concluded = self._concluded()
        self.places = places_of([capture for _, capture in concluded], folder)
        shown, self.pages = write_captures(concluded, self.places, self._language, _told)
        for number, capture, place in self._others:
            files = {"capture": "capture.json", "explorer": "explorer.html", "annotation": "annotation.md"}
            there = {what: place / name for what, name in files.items() if (place / name).is_file()}
            shown.append({"capture": capture, "process": number, "files": there})
            self.pages += [there["explorer"]] if "explorer" in there else []
        uncompiled = [one for one in without_paths(self._session.asked, PACKAGES_HERE) if not one["compiled"]]
        # what a library compiles and this script does not use is nothing that its reader missed
        uncompiled = [one for one in uncompiled if one["calls"] or not PACKAGES.search(one["file"] or "")]
        uncompiled = [one for one in uncompiled if not self._compiled_elsewhere(one)]
        self.index = render_summary(shown, folder / "index.html", self._language, uncompiled, self.unseen)

    def _compiled_elsewhere(self, asked: dict) -> bool:
        """Whether another process has compiled what this one had at most to hand on: to workers of a pool, say."""
        return any(
            all(capture["model"][key] == asked[key] for key in ("name", "class"))
            and asked["begins"] in (None, *(one["line"] for one in capture.get("compiles", [])))
            for _, capture, _ in self._others
        )


def write_pages(concluded: Sequence[tuple[Watched, Capture]], folder: Path, language: str) -> Path:
    """Write what was watched, its capture, explorer and annotation for each compile, and a page that tells of all.

    Returns:
        The page.
    """
    places = places_of([capture for _, capture in concluded], folder)
    return render_summary(write_captures(concluded, places, language)[0], folder / "index.html", language)


def places_of(captures: Sequence[Capture], folder: Path) -> list[Path]:
    """Where each of several captures is written: a folder of its own, unless it is the only one."""
    return [folder] if len(captures) == 1 else [folder / name for name in _folders(captures)]


def write_captures(
    concluded: Sequence[tuple[Watched, Capture]],
    places: Sequence[Path],
    language: str,
    leaving_out: Callable[[str], AbstractContextManager] = contextlib.nullcontext,
) -> tuple[list[dict], list[Path]]:
    """Write what was watched, its capture, explorer and annotation for each compile.

    Args:
        places: a folder for each.
        leaving_out: around each explorer and annotation, given what to say where it cannot be written; by default the
            exception goes on.

    Returns:
        What `render_summary` tells of each, and the explorers.
    """
    shown, explorers = [], []
    for (watched, capture), place in zip(concluded, places, strict=True):
        write_watched(place / "watched.json.xz", watched)
        write_json(place / "capture.json", capture)
        files = {"capture": place / "capture.json"}
        if capture["graphs"]:
            with leaving_out(f"{place / 'explorer.html'} could not be written"):
                explorers.append(render_explorer(capture, place / "explorer.html", language=language))
                files["explorer"] = place / "explorer.html"
            with leaving_out(f"{place / 'annotation.md'} could not be written"):
                write_text(place / "annotation.md", annotate(capture, language=language))
                files["annotation"] = place / "annotation.md"
        shown.append({"capture": capture, "files": files})
    return shown, explorers


@contextlib.contextmanager
def explore(
    folder: str | Path | None = None, *, language: str = "en", assembly: bool = False, verify: Verify = "some"
) -> Iterator[Seen]:
    """Capture every compile of torch.compile's default backend in a block of code, and write what it made.

    Processes that the block starts are explored as well; each that compiled something has a folder below this one,
    and the page of this one has all of them. What no capture can be had of is named there.

    Args:
        folder: where to; None to write nothing, and to look at `captures` only. It is written also after an exception.
        language: of the pages.
        assembly: show the machine code of the kernels too, as `capture` does.
        verify: run what was generated beside the graphs at the end: `all`, `some`, which is what can be done in
            20 seconds in each process, or `none`. Without a folder nothing is verified.

    Yields:
        What has been seen so far.

    Raises:
        LabError: the folder cannot be made, or `verify` is none of the three.
    """
    if verify not in VERIFY:
        raise LabError(f"verify is {verify!r}; give one of {', '.join(VERIFY)}.")
    place, process = None if folder is None else made_folder(folder), os.getpid()
    settings: dict[str, Any] = {"language": language, "assembly": assembly, "verify": verify}
    with processes(place, **settings) as below:
        eyes = _Eyes(**settings)

        @_somewhere()
        def finish() -> None:
            eyes.shut()
            below.wait()
            eyes.seen.add(below)
            if place is not None:
                with _told(f"the pages could not be written to {place}"):
                    eyes.seen.write(place)

        def finish_early() -> None:
            finish()
            below.remove()
            if eyes.seen.index is not None:
                say(f"minicompile: {eyes.seen.index} tells what was compiled")

        take_back = at_the_end(finish_early)
        try:
            with at_each_fork(lambda: _in_fork(eyes, below)):
                yield eyes.seen
        finally:
            if os.getpid() == process:  # not in a child that was forked off
                take_back()
                finish()


class _Eyes:
    """A watch that is on, and what it sees."""

    def __init__(self, language: str, assembly: bool, verify: Verify) -> None:
        self._language, self._assembly, self._verify = language, assembly, verify
        self._beside = contextlib.ExitStack()
        self._earlier = self._beside.enter_context(earlier_calls())
        self._watching = contextlib.ExitStack()
        self.seen = self._opened()

    def _opened(self) -> Seen:
        caches = Caches()
        self._watching.enter_context(caches.below())
        session = self._watching.enter_context(watch())
        self._watching.enter_context(caches.above(session))
        self._otherwise = self._watching.enter_context(by_other_doors(session))
        return Seen(session, self._language, self._assembly, self._verify)

    def shut(self) -> None:
        """End the watch."""
        with _told("what was not seen could not be found out"):
            self.seen.unseen = [{"code": "compiled_before", **without_paths(one)} for one in self._earlier()]
            self.seen.unseen += self._otherwise()
        self._watching.close()
        self._beside.close()

    def reopen(self) -> None:
        """Put a watch that saw nothing yet in the place of the one that came with a fork."""
        # What was compiled before the parent's block goes on being counted, and what in it is on the parent's page.
        self._watching.close()
        self.seen = self._opened()


def explore_started_process() -> None:
    """Explore the rest of this process, which an explored one started, and write it before it ends."""
    if (below := of_this_process()) is not None:
        _to_the_end(_Eyes(**below.settings), below)


def _in_fork(eyes: _Eyes, below: Processes) -> None:
    """In a process that was forked off a watched one: what is compiled from here on is its own."""
    eyes.reopen()
    _to_the_end(eyes, below)


def _to_the_end(eyes: _Eyes, below: Processes) -> None:
    forks = contextlib.ExitStack()
    forks.enter_context(at_each_fork(lambda: _in_fork(eyes, below)))

    marked = False

    def begins(*_: object) -> None:
        nonlocal marked
        if not marked:
            marked = True
            below.mark("compiling")

    @_somewhere()
    def write() -> None:
        nonlocal marked
        marked = True
        forks.close()
        eyes.shut()
        told: dict[str, Any] = {}
        if eyes.seen.captures or eyes.seen.unseen:
            below.mark("writing")
            told = {"unseen": eyes.seen.unseen}
            if eyes.seen.captures:
                place = below.own_folder()
                with _told(f"the pages could not be written to {place}"):
                    eyes.seen.write(place)
                told |= {"folder": str(place), "captures": [str(path) for path in eyes.seen.places]}
        below.mark("written", **told)

    below.mark("watching")
    owner("compile_begins").on_compile_start(begins)
    at_the_end(write)


def made_folder(folder: str | Path) -> Path:
    """The folder, absolute, since the block may change its own; made at once, before hours of work.

    Raises:
        LabError: it is no path, or cannot be made.
    """
    if not isinstance(folder, str | Path):
        raise LabError(f"the folder to explore into is of type {type(folder).__name__}; give a path, or nothing.")
    made = Path(folder).absolute()
    try:
        made.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"nothing can be written to {folder}: {error.strerror}; give another folder.") from error
    return made


def _folders(captures: Sequence[Capture]) -> list[str]:
    """A folder's name for each model; two of one class are numbered."""
    names: list[str] = []
    for capture in captures:
        name = re.sub(r"\W+", "_", capture["model"]["name"]).strip("_") or "model"
        again = sum(re.sub(r"_\d+$", "", known) == name for known in names)
        names.append(f"{name}_{again + 1}" if again else name)
    return names


@contextlib.contextmanager
def _somewhere() -> Iterator[None]:
    """Where somebody has taken away the folder that this process is in, be in another: paths are told from it."""
    with contextlib.ExitStack() as stack:
        try:
            os.getcwd()
        except FileNotFoundError:
            gone = os.open(".", os.O_RDONLY)
            stack.callback(os.close, gone)
            stack.callback(os.fchdir, gone)
            os.chdir("/")
        yield


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """An exception becomes a line on stderr, so that what follows is written too."""
    try:
        yield
    except Exception as error:  # of any kind: the block that was explored has done its work
        place = traceback.extract_tb(error.__traceback__)[-1]
        say(f"{what}: {type(error).__name__}: {error} ({place.name}, line {place.lineno})")


def say(sentence: str) -> None:
    """Print on stderr, unless the code that was explored has closed it."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        print(sentence, file=sys.stderr)
