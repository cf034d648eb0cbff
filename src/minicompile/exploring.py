"""`explore`: everything that torch.compile makes while a block of code runs, kept and shown.

    with minicompile.explore("out/") as seen:
        train()

Nothing else changes: the same numbers, the same code, each compile's own options. What is written on leaving:
`out/index.html` tells every compile, why it was a recompile, and every graph break with its line; beside it stand
`watched.json.xz`, `capture.json`, `explorer.html` and `annotation.md`, in a folder for each model where there are
several.
"""

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.explorer import render_explorer
from minicompile.explain.summary import render_summary
from minicompile.lowering.capture import as_capture
from minicompile.lowering.captured import Capture
from minicompile.torch_private.paths import without_paths
from minicompile.unseen.earlier import earlier_calls
from minicompile.watching.collected import Session
from minicompile.watching.model import watched_session
from minicompile.watching.session import watch
from minicompile.watching.watched import Kind, Watched, write_watched
from minilab import LabError
from minilab.files import write_json, write_text


class Seen:
    """What has been compiled so far in an `explore`, or in all of it once that is left.

    Attributes:
        pages: paths of the explorers that were written on leaving, one for each model with a graph.
        unseen: what ran or was compiled and is in no capture, each with its `code`; complete when the block is left.
        index: path of the page that tells of all; None until it is written.
    """

    def __init__(self, session: Session, language: str, assembly: bool) -> None:
        self._session, self._language, self._assembly = session, language, assembly
        self._complete: list[Watched] | None = None
        self.pages: list[Path] = []
        self.unseen: list[dict] = []
        self.index: Path | None = None

    @property
    def captures(self) -> list[Capture]:
        """A capture (schemas/capture.schema.yaml) for each model or function that was compiled, in order."""
        return [capture for _, capture in self._concluded()]

    def _concluded(self) -> list[tuple[Watched, Capture]]:
        found = []
        for watched in self._watched() if self._complete is None else self._complete:
            with _told(f"no capture could be made of {watched['model']['name']}"):
                found.append((watched, as_capture(watched)))
        return found

    def _watched(self) -> list[Watched]:
        found = []
        for session in self._session.by_model():
            with _told(f"what was seen of {session.models[0]['name']} could not be kept"):
                trained = any(lowered["backward"] for lowered in session.lowered)
                target: Kind = "cuda" if any(graph["on_gpu"] for graph in session.dynamo) else "cpu"
                subject = {**session.models[0], "train": trained}
                found.append(watched_session(session, subject, target, {}, assembly=self._assembly))
        return found

    def write(self, folder: str | Path) -> None:
        """Write captures, explorers and annotations into a folder, and its index.html.

        What cannot be made of one capture is told on stderr and left out; the rest is written.
        """
        self._complete = self._watched()
        self.index, self.pages = write_pages(self._concluded(), Path(folder), self._language, _told, self.unseen)


def write_pages(
    concluded: Sequence[tuple[Watched, Capture]],
    folder: Path,
    language: str,
    leaving_out: Callable[[str], AbstractContextManager] = contextlib.nullcontext,
    unseen: Sequence[dict] = (),
) -> tuple[Path, list[Path]]:
    """Write what was watched, its capture, explorer and annotation for each compile, and a page that tells of all.

    Args:
        leaving_out: around each explorer and annotation, given what to say where it cannot be written; by default the
            exception goes on.
        unseen: what is in no capture, for the page to say.

    Returns:
        The page of all, and the explorers.
    """
    captures = [capture for _, capture in concluded]
    places = [folder] if len(captures) == 1 else [folder / name for name in _folders(captures)]
    shown, explorers = [], []
    for (watched, capture), place in zip(concluded, places, strict=True):
        write_watched(place / "watched.json.xz", watched)
        write_json(place / "capture.json", capture)
        files = {"capture": "capture.json"}
        if capture["graphs"]:
            with leaving_out(f"{place / 'explorer.html'} could not be written"):
                explorers.append(render_explorer(capture, place / "explorer.html", language=language))
                files["explorer"] = "explorer.html"
            with leaving_out(f"{place / 'annotation.md'} could not be written"):
                write_text(place / "annotation.md", annotate(capture, language=language))
                files["annotation"] = "annotation.md"
        prefix = "" if place == folder else f"{place.name}/"
        shown.append({"capture": capture, "files": {what: prefix + name for what, name in files.items()}})
    return render_summary(shown, folder / "index.html", language, unseen), explorers


@contextlib.contextmanager
def explore(folder: str | Path | None = None, *, language: str = "en", assembly: bool = False) -> Iterator[Seen]:
    """Capture every compile of torch.compile's default backend in a block of code, and write what it made.

    Args:
        folder: where to; None to write nothing, and to look at `captures` only. It is written also after an exception.
        language: of the pages.
        assembly: show the machine code of the kernels too, as `capture` does.

    Yields:
        What has been seen so far.

    Raises:
        LabError: the folder cannot be made.
    """
    seen: Seen | None = None
    folder, process = folder and made_folder(folder), os.getpid()
    try:
        with watch() as session, earlier_calls() as earlier:
            seen = Seen(session, language, assembly)
            try:
                yield seen
            finally:
                seen.unseen = [{"code": "compiled_before", **without_paths(one)} for one in earlier()]
    finally:
        if seen is not None and folder is not None and os.getpid() == process:  # not in a child that was forked off
            seen.write(folder)


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


def _folders(captures: list[Capture]) -> list[str]:
    """A folder's name for each model; two of one class are numbered."""
    names: list[str] = []
    for capture in captures:
        name = re.sub(r"\W+", "_", capture["model"]["name"]).strip("_") or "model"
        again = sum(re.sub(r"_\d+$", "", known) == name for known in names)
        names.append(f"{name}_{again + 1}" if again else name)
    return names


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """An exception becomes a line on stderr, so that what follows is written too."""
    try:
        yield
    except Exception as error:  # of any kind: the block that was explored has done its work
        place = traceback.extract_tb(error.__traceback__)[-1]
        print(f"{what}: {type(error).__name__}: {error} ({place.name}, line {place.lineno})", file=sys.stderr)
