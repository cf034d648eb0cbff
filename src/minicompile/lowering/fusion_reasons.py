"""Why two scheduler nodes were fused or not, by a code.

Inductor's reasons for not fusing become codes by the patterns in `data/fusion_reasons.yaml`, first match first. A
reason that it does not know, as a newer torch may give one, is quoted as it stands rather than guessed at. What two
nodes have to do with one another is not in its words: that is told by what the scheduler was given, the dependencies
of each node by kind, and the memory that each changes in place.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import yaml

from minicompile.lowering.captured import Coded
from minicompile.lowering.panes.printed_text import accesses, dependencies

DATA = Path(__file__).parent / "data/fusion_reasons.yaml"
# what two nodes have to do with one another, the nearest first: the first that is so is told
KINSHIPS = ("handed", "changed", "overwritten", "left_by_another", "read_by_both")


@cache
def reason_codes() -> list[tuple[re.Pattern, str]]:
    """(pattern, code) pairs, in order."""
    return [(re.compile(entry["reason"]), entry["code"]) for entry in yaml.safe_load(DATA.read_text())]


class Given:
    """What the scheduler was given: what each node reads, writes, changes in place and has to wait for.

    Args:
        nodes: the scheduler nodes by name, with what they read and write.
        texts: what Inductor prints of each before fusion, by name.
    """

    def __init__(self, nodes: Mapping[str, dict], texts: Mapping[str, str]) -> None:
        # who changes a memory in place is said to make another buffer; each such buffer, with what it was before
        self._before: dict[str, str] = {}
        self._reads: dict[str, list[dict]] = {}
        self._written: dict[str, list[dict]] = {}
        self._waits: dict[str, set[tuple[str, str]]] = {}
        self._stores = {name: accesses(text, "writes") for name, text in texts.items()}
        self._loads = {name: accesses(text, r"(?:un)?met_dependencies") for name, text in texts.items()}
        printed = {name: dependencies(texts.get(name, "")) for name in nodes}
        for one in printed.values():
            self._before |= one.changes
        memory = {buffer: self.memory(buffer) for buffer in self._before}
        for name, node in nodes.items():
            own = printed[name]
            for buffer, changed in own.changes.items():
                # a change names the memory; it is the name that this had just before that it depends on as a whole
                same = (one for one in own.whole if memory.get(one, one) == memory[buffer] and one != buffer)
                self._before[buffer] = next(same, changed)
            # a call is given what it depends on; a loop names what it loads, and depends on the whole of what it only
            # changes, or of what some length follows from
            read = own.whole & own.loaded if node["operations"] else own.whole
            self._reads[name] = [one for one in node["reads"] if one["index"] != "*" or one["buffer"] in read]
            self._written[name], self._waits[name] = node["writes"], own.waits

    def read(self, names: Iterable[str]) -> set[str]:
        """The buffers whose values nodes take in."""
        return {one["buffer"] for name in names for one in self._reads.get(name, ())}

    def written(self, names: Iterable[str]) -> set[str]:
        """The buffers that nodes make; of a memory that one changes in place, the name that it has afterwards."""
        return {one["buffer"] for name in names for one in self._written.get(name, ())}

    def touched(self, names: Iterable[str]) -> set[str]:
        """The buffers that nodes read or write, and the memory that they lie in."""
        names = list(names)
        touched = self.read(names) | self.written(names)
        return touched | {self.memory(buffer) for buffer in touched}

    def earlier(self, buffer: str) -> list[str]:
        """A buffer and what its memory was called before each change in place, back to the memory itself."""
        found = [buffer]
        while found[-1] in self._before and self._before[found[-1]] not in found:
            found.append(self._before[found[-1]])
        return found

    def memory(self, buffer: str) -> str:
        """The memory that a buffer lies in, by the name that it had before anything changed it."""
        return self.earlier(buffer)[-1]

    def is_changed(self, buffer: str) -> bool:
        """Whether some node changes in place the memory that a buffer is, which has another name afterwards."""
        return buffer in self._before.values()

    def kinship(self, first: Iterable[str], second: Iterable[str]) -> dict[str, list[str]]:
        """The buffers that two sides have to do with one another, by how, as `KINSHIPS` has it.

        `handed` is what one writes and the other reads. `changed` is memory that one changes in place and the other
        has written, `overwritten` such that the other reads before, `left_by_another` such that one has written and
        the other reads as something else has changed it; `read_by_both` is what both read. All but the first are
        named as the memory.
        """
        first, second = list(first), list(second)
        found: dict[str, set[str]] = {kind: set() for kind in KINSHIPS}
        for one, other in ((first, second), (second, first)):
            made, read = self.written(one), self.read(other)
            found["handed"] |= made & read
            found["changed"] |= {self.memory(name) for name in made if {*self.earlier(name)[1:]} & self.written(other)}
            found["overwritten"] |= {self.memory(name) for name in made if {*self.earlier(name)[1:]} & read}
            found["left_by_another"] |= {self.memory(name) for name in read if {*self.earlier(name)[1:]} & made}
        both = {self.memory(name) for name in self.read(first)} & {self.memory(name) for name in self.read(second)}
        found["read_by_both"] = both
        return {kind: sorted(found[kind]) for kind in KINSHIPS}

    def overwrites(self, first: Iterable[str], second: Iterable[str]) -> list[str]:
        """The memory that the second side changes in place, and that has to wait until the first has read it."""
        made, named = self.written(first), [*second]
        waited = {self.memory(by) for name in named for buffer, by in self._waits.get(name, ()) if buffer in made}
        return sorted(waited & {self.memory(buffer) for buffer in self.read(first)})

    def unlike(self, first: Iterable[str], second: Iterable[str]) -> bool:
        """Whether the second side reads what the first writes otherwise than that writes it.

        Either before anything was fused or in the end: in between, loops are put into another order.
        """
        first, second = list(first), list(second)
        made = {(one["buffer"], one["index"], *one["sizes"]) for name in first for one in self._written.get(name, ())}
        names = {buffer for buffer, *_ in made}
        reads = (one for name in second for one in self._reads.get(name, ()))
        if any((one["buffer"], one["index"], *one["sizes"]) not in made for one in reads if one["buffer"] in names):
            return True
        written = set().union(*(self._stores.get(name, set()) for name in first))
        loaded = set().union(*(self._loads.get(name, set()) for name in second))
        return bool(written) and any(one not in written for one in loaded if one[0] in names)


def reason(decision: dict, nodes: Mapping[str, dict], removed: set[str], given: Given | None = None) -> Coded:
    """Why a fusion was taken or refused.

    Inductor's last words decide. What it calls no shared data may be memory that both touch in loops of other shapes:
    then what they were given says which, and how. Where its accesses did not match, the second may read what the
    first writes in another order, or change in place what the first has still to read; and where it does neither, a
    third changes in place what the first has written, or will change later what the first hands to the second. For
    the elements of a kernel it takes those of its first node, which with a template may be what the template takes
    in. What it calls extern may be a Triton kernel of the user's.

    Args:
        decision: `first`, `second`, `taken` and Inductor's own `reasons`.
        nodes: the scheduler nodes by name, with what they read and write, and whether they are a `template` or a Triton
            kernel of the user's.
        removed: buffers that fusion took out of memory.
        given: of the same nodes; None: as far as these tell.
    """
    given = given or Given(nodes, {})
    first, second = decision["first"], decision["second"]
    found = given.kinship(first, second)
    if decision["taken"]:
        # only what was handed from one to the other is spared by this fusion, whatever else is removed
        gone = [buffer for buffer in found["handed"] if buffer in removed]
        return {"code": "taken_removed", "buffers": gone} if gone else {"code": "taken"}
    words = decision["reasons"]
    if not words:
        return {"code": "ungiven"}
    code = next((code for pattern, code in reason_codes() if pattern.search(words[-1])), None)
    if code is None:
        return {"code": "own_words", "reason": words[-1]}
    # Inductor shares data only where both touch a buffer by the same index; the buffers say what it leaves out
    if code == "nothing_shared":
        for kind, buffers in found.items():
            if buffers:
                return {"code": kind, "buffers": buffers}
    if code == "other_order" and not given.unlike(first, second):
        if waits := given.overwrites(first, second):
            return {"code": "waits", "buffers": waits}
        if found["changed"]:
            return {"code": "changes_later", "buffers": found["changed"]}
        if not found["handed"]:  # the second reads it as a third has left it
            return {"code": "between"}
        # Inductor looks for the read by the name that the memory has in the end, and for the write by its own
        later = [buffer for buffer in found["handed"] if given.is_changed(buffer)]
        return {"code": "renamed", "buffers": later} if later else {"code": "unmatched"}
    if code == "elements_differ" and any(_has(side[1:], nodes, "template") for side in (first, second)):
        return {"code": "prologue_counted"}
    if code == "library" and _has([*first, *second], nodes, "user_triton"):
        return {"code": "user_kernel"}
    return {"code": code}


def _has(names: list[str], nodes: Mapping[str, dict], kind: str) -> bool:
    return any(nodes[name][kind] for name in names if name in nodes)
