"""The judge's side of a kernel's process: requests, answers that are not believed, time that runs out."""

import json
import logging
import os
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

from minikernel.judge.memory import Block
from minikernel.measure.caches import CACHE_VARIABLES
from minikernel.reasons import Place, Reason, Refusal, in_words, place_in_words
from minilab.sandbox.forks import Forked, ForkServer
from minilab.sandbox.process import LONGEST_SECONDS, Confined, Ending, memory_limit, signal_name
from minilab.user_code import printable

WORKER, CONFINED = "minikernel.judge.worker", "minikernel.judge.confined"
GRACE_SECONDS = 5  # after its limit the process ends itself and says where it was; a little later it is ended
PRINTED_BYTES = 1 << 13  # of the last that it printed, kept for the log
LONGEST_ANSWER = 1 << 24  # bytes
log = logging.getLogger("minilab")


class Failed(Refusal):
    """A kernel failed at what was asked of it; its process is as good as before."""


class Gone(Refusal):
    """The kernel's process has ended, or has been ended: nothing more can be asked of it."""


class Workshop(NamedTuple):
    """Where kernels' processes begin at once, and what they may touch; on a GPU each begins by itself.

    Attributes:
        server: forks those on the CPU; it is for `minikernel.judge.starting.FORKED`.
        folder: where they may write.
        hidden: folders that they may not read.
        memory_bytes: that each may hold, as far as it is free.
    """

    server: ForkServer
    folder: Path
    hidden: tuple[Path, ...] = ()
    memory_bytes: int = 1 << 62


class KernelProcess:
    """A process with one kernel, or several, in it, as a context manager.

    Args:
        kernel, device: the kernel's name and its torch device, for reasons and the log.
        seconds: the process is ended there.
        knob: the key of the configuration that holds the limit, for the reason.
        variables: of its environment, over this process's own.
        workshop: what it may touch, and on the CPU where it is forked; its environment is then the server's.
    """

    def __init__(
        self,
        kernel: str,
        device: str,
        seconds: float,
        knob: str,
        variables: dict[str, str] | None = None,
        workshop: Workshop | None = None,
    ) -> None:
        self.kernel, self.device, self.seconds, self.knob = kernel, device, min(seconds, LONGEST_SECONDS / 2), knob
        self.at: Place = {"code": "begin", "kernel": kernel, "device": device}
        # before the process is started: its own beginning is on its time
        self._began = time.monotonic()
        self._talk, theirs = socket.socketpair()
        self._memory = memory_limit()
        # an instant of the clock that all processes share, so that starting up counts as well
        deadline = str(self._began + self.seconds)
        limits = [deadline, str(workshop.folder), *map(str, workshop.hidden)] if workshop else []
        # the lower of what is free and of what whoever set the workshop up gives each
        if workshop:
            self._memory = min(self._memory, workshop.memory_bytes)
        # the other end is the process's alone: when it ends, reading here says so
        with theirs:
            # Forked in milliseconds where that can be: a process that has opened a GPU cannot be forked.
            if workshop and device == "cpu":
                self._process: Confined = Forked(workshop.server, limits, self._memory, (theirs.fileno(),))
            else:
                command = [WORKER, str(theirs.fileno()), deadline]
                own = {}
                if workshop:
                    command = [CONFINED, str(theirs.fileno()), deadline, device, *limits[1:]]
                    own = {name: str(workshop.folder / name) for name in CACHE_VARIABLES}
                self._process = Confined(
                    [sys.executable, "-u", "-m", *command],
                    self._memory,
                    {**os.environ, **(variables or {}), **own},
                    (theirs.fileno(),),
                    subprocess.PIPE,
                )
        self._printed = bytearray()
        assert self._process.printed is not None
        # What it prints is read all along: a full pipe would stop the kernel in the middle of a call.
        self._reader = threading.Thread(target=_keep_tail, args=(self._process.printed, self._printed), daemon=True)
        self._reader.start()

    def place(self, code: str, **fields: Any) -> Place:
        """Say where the next requests are: what a reason names. Returns it."""
        self.at = {"code": code, "kernel": self.kernel, "device": self.device, **fields}
        return self.at

    def load(self, name: str, entry: dict | None) -> dict:
        """Load a kernel, the user's or one of the lab's own: {"tuned"}, whether it takes `config=`."""
        # reasons name the place that was said last: whatever its file does while it is imported happens here
        self.place("load")
        return self.ask("load", name=name, entry=entry, device=self.device)

    def use(self, block: Block) -> None:
        """Let the process see a block of memory in the place of the one before."""
        self.ask("map", (block.descriptor,), n_bytes=block.n_bytes)

    def ask(self, do: str, descriptors: Sequence[int] = (), **arguments: Any) -> dict:
        """Ask and wait for the answer; `seconds` of it are by the judge's own clock.

        Raises:
            Failed: the kernel failed there.
            Gone: its process ended, was ended, or answers what it was not asked.
        """
        number = secrets.token_hex(8)  # which an answer has to know
        line = json.dumps({"number": number, "do": do, **arguments}).encode() + b"\n"
        # An answer before its question can only be made up, by code that guessed what comes next.
        if select.select([self._talk], [], [], 0)[0] and self._process.wait(0) is None and self._unasked():
            raise self._gone("meddled")
        began = time.perf_counter()
        try:
            if descriptors:
                socket.send_fds(self._talk, [line], list(descriptors))
            else:
                self._talk.sendall(line)
        except OSError:
            raise self._gone() from None
        answer = self._answer()
        # The number is random and new: an answer that was prepared earlier, or by a thread, does not have it.
        if answer.pop("number", None) != number:
            raise self._gone("meddled")
        answer["seconds"] = time.perf_counter() - began
        if "reason" in answer:
            raise Failed(self._believable(answer["reason"]))
        return answer

    def figure(self, answer: dict, name: str) -> float:
        """A number of an answer, which must be one.

        Raises:
            Gone: it is none.
        """
        value = answer.get(name)
        # 1e15 us are thirty years
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
            raise self._gone("meddled")
        return float(value)

    def _unasked(self) -> bool:
        """Whether an answer is there before a question."""
        with suppress(OSError):
            return bool(self._talk.recv(1, socket.MSG_PEEK))
        return False

    def _answer(self) -> dict:
        text = bytearray()
        deadline = self._began + self.seconds + GRACE_SECONDS
        while not text.endswith(b"\n"):
            left = deadline - time.monotonic()
            # either an answer, or the process's end, whichever is first
            waited: list[Any] = [self._talk, self._process]
            ready = select.select(waited, [], [], max(left, 0))[0]
            piece = b""
            if self._talk in ready:
                with suppress(OSError):
                    piece = self._talk.recv(1 << 16)
            if not piece:
                raise self._gone()
            text += piece
            # a kernel could write for ever
            if len(text) > LONGEST_ANSWER:
                raise self._gone("meddled")
        try:
            answer = json.loads(text)
        # ten thousand brackets are valid JSON to write and too deep to read
        except (ValueError, RecursionError):
            raise self._gone("meddled") from None
        if not isinstance(answer, dict):
            raise self._gone("meddled")
        return answer

    def _believable(self, reason: object) -> Reason:
        """A reason out of an answer, with its place; one without sentence is the kernel's invention."""
        if not isinstance(reason, dict):
            raise self._gone("meddled")
        told = {name: value for name, value in reason.items() if name not in ("at", "mistake")}  # which the judge knows
        # control characters of a kernel's message could rewrite the terminal that shows it
        told = {name: printable(value) if isinstance(value, str) else value for name, value in told.items()}
        told = told if "kind" in told else {**told, "at": self.at}  # of a file's own sentence the name is a part
        try:
            in_words(told)
        except Exception:
            raise self._gone("meddled") from None
        return told

    def _gone(self, code: str | None = None) -> Gone:
        """End the process; why it is gone."""
        hung = time.monotonic() - self._began >= self.seconds
        # A process that has closed its end may still be about to end: its status says more than that it is gone.
        ending = self._process.wait(0 if hung or code else GRACE_SECONDS) or self._process.end()
        if code:
            return Gone({"code": code, "at": self.at})
        if hung and not ending.limit:
            return Gone({"code": "timed_out", "seconds": self.seconds, "knob": self.knob, "at": self.at})
        return Gone({**_reason_of(ending, self._memory), "at": self.at})

    def __enter__(self) -> "KernelProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        self._talk.close()
        self._process.end()
        self._reader.join(GRACE_SECONDS)
        self._process.__exit__(kind, raised, at)
        if self._printed:
            subject = place_in_words({"code": "subject", "kernel": self.kernel, "device": self.device})
            log.info("%s printed:\n%s", subject, self._printed.decode(errors="replace").strip())


def _keep_tail(stream: IO[bytes], tail: bytearray) -> None:
    """Read a stream to its end, so that its writer never waits, and keep the last of it."""
    for piece in iter(partial(os.read, stream.fileno(), PRINTED_BYTES), b""):
        tail += piece
        del tail[:-PRINTED_BYTES]


def _reason_of(ending: Ending, memory: int) -> Reason:
    """The reason of a process that ended without an answer."""
    if ending.limit == "memory":
        return {"code": "memory", "gigabytes": memory / 1e9}
    if ending.limit == "processes":
        return {"code": "processes"}
    if ending.status is None:
        return {"code": "unwatched"}
    # it left by itself, by exit() somewhere in its code
    if ending.status >= 0:
        return {"code": "exited", "status": ending.status}
    name = signal_name(ending.status)
    return {"code": "killed" if name == "SIGKILL" else "crashed", "signal": name}
