"""The functions that Dynamo writes in place of a model's: decompiled where that succeeds, and as instructions.

depyf (You et al. 2024, github.com/thuml/depyf) turns bytecode back into Python for people to read. It does not know
every sequence of instructions of every Python: a function that it cannot read has the instructions only, and so has
every function where depyf is not installed.
"""

import dis
import io
import re
from types import CodeType

RESUMED = "torch_dynamo_resume_in_"  # what is left of a function after a graph break
# Dynamo numbers what it compiles and adds a random part, which would make every capture another one.
RANDOM = re.compile(r"(__compiled_fn_\d+)(?:_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12})")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def disassembled(code: CodeType) -> list[str]:
    """A code object's instructions as `dis` prints them."""
    text = io.StringIO()
    dis.dis(code, file=text, depth=0)
    return _lines(ADDRESS.sub("", text.getvalue()))


def decompiled(code: CodeType) -> list[str] | None:
    """A code object as Python; None where it cannot be read back."""
    try:
        from depyf import decompile

        text = decompile(code)
    except Exception:  # of many kinds; the instructions are there all the same
        return None
    return _lines(text) if text.strip() else None


def rewritten(before: CodeType, after: CodeType) -> list[str] | None:
    """A function that Dynamo rewrote, as Python; above it what it was, where no source has it: after a graph break."""
    made = decompiled(after)
    if made is None or not before.co_name.startswith(RESUMED):
        return made
    rest = decompiled(before)
    return (
        made
        if rest is None
        else ["# what is left of the function after the graph break", *rest, "", "# as Dynamo runs it", *made]
    )


def _lines(text: str) -> list[str]:
    return RANDOM.sub(r"\1", text).rstrip().splitlines()
