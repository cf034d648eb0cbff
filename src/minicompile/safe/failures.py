"""Says why a compile was given up: as exceptions, as codes for JSON, and from rank to rank.

An exception of the safety net's own carries a code and fields beside its English sentence, so that a page can word it
in any language; any other exception is kept as its type and message, which are the compiler's data.
"""

from textwrap import shorten

import torch.distributed as dist

from minicompile.state.frozen_state import CannotRestore
from minilab import LabError

Place = tuple[str, str]


class CompileFailure(LabError):
    """A failure that the safety net itself found.

    Attributes:
        code: what was found, in snake_case.
        fields: what the sentence names, as plain data.
    """

    def __init__(self, sentence: str, code: str = "raised", **fields: object) -> None:
        super().__init__(sentence)
        self.code, self.fields = code, fields


class WrongNumbers(CompileFailure):
    """The compiled model computes something else than the eager one, or leaves something else behind.

    Attributes:
        place: the element of a call (`minicompile.safe.call`) and the name of what differs in it.
        distances: of the first of several that are all too far: place -> relative distance, of each.
    """

    place: Place | None = None
    distances: dict[Place, float] | None = None


class ForkedProcess(CompileFailure):
    """torch refuses every backward pass in this process, an eager one's as well."""

    def __init__(self) -> None:
        super().__init__(
            "this process was forked from one in which autograd had started threads, and torch refuses every backward "
            "pass in it; start it anew instead, with multiprocessing's spawn say.",
            "forked_process",
        )


class NothingCompiled(CompileFailure):
    """Every step ran, and none of it through compiled code."""


class NothingCompared(CompileFailure):
    """The compiled model ran, and there was no number by which to tell whether it is right."""


class OtherRankFailed(CompileFailure):
    """This rank's compile was fine, another one's was not."""


class TimeLimitExceeded(BaseException):
    """The limit passed. Not an `Exception`, so that a compiler's own `except Exception` cannot swallow it."""

    def __init__(self, sentence: str, seconds: float = 0.0) -> None:
        super().__init__(sentence)
        self.code, self.fields = "time_limit", {"seconds": seconds}


def first_line(error: BaseException | None) -> str | None:
    """Write an exception in one line of at most 300 characters; None for none."""
    if error is None:
        return None
    text = message(error)
    return shorten(f"{type(error).__name__}: {text}" if text else type(error).__name__, 300, placeholder=" …")


def message(error: BaseException) -> str:
    """Take the first line of an exception's message, and the second where the first ends in a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])


def coded(error: BaseException) -> dict:
    """Turn an exception into its `code` and fields; a foreign one into `raised`, its type and its message."""
    if isinstance(error, CompileFailure | CannotRestore | TimeLimitExceeded):
        return {"code": error.code, **error.fields}
    text = shorten(message(error), 300, placeholder=" …")
    return {"code": "raised", "exception": type(error).__name__, "message": text}


def ranks_present(group: dist.ProcessGroup | None = None) -> bool:
    """Say whether there is another rank to agree with."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size(group) > 1


def failure_of_ranks(error: BaseException | None, group: dist.ProcessGroup | None = None) -> OtherRankFailed | None:
    """Tell the other ranks why this one falls back, None for success, and hear theirs: if one does, all do.

    Every rank of the group must call it: it waits for all. With NCCL, the current device must be this rank's.

    Returns:
        The failure of the first rank that falls back; None where none does.
    """
    mine = None if error is None else (first_line(error), coded(error))
    told: list[tuple[str, dict] | None] = [None] * dist.get_world_size(group)
    dist.all_gather_object(told, mine, group=group)
    for rank, failure in enumerate(told):
        if failure is not None:
            sentence = f"another rank fell back: rank {rank}: {failure[0]}"
            return OtherRankFailed(sentence, "other_rank", rank=rank, failure=failure[1])
    return None
