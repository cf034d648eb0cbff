"""Reasons for not fusing, held against what the wrapper passes to calls and the dependencies that Inductor prints."""

import re

from second.texts import CallText, GraphTexts

BUFFERS = re.compile(r"`(\w+)`")
WRITES = re.compile(r"(?:in_)?out_ptr|in_out")


def reason(texts: GraphTexts, call: CallText | None, pairs: str, said: str, *, noted: bool = False) -> str | None:
    """Why a reason is false; an empty text where it holds, none where it cannot be judged."""
    judged: list[str | None] = []
    for pair in pairs.split("; "):
        first, _, second = pair.partition(" with ")
        one, two = (re.findall(r"op\d+", text) for text in (first, second))
        judged.append(_judged(texts, one, two, said))
    return next((cause for cause in judged if cause), None if None in judged else "")


def _judged(texts: GraphTexts, one: list[str], two: list[str], said: str) -> str | None:
    if not all(name in texts.operations for name in one + two):
        return None
    buffers = BUFFERS.findall(said)
    writes = [{_named(dep) for name in some for dep in texts.operations[name]["writes"]} for some in (one, two)]
    reads = [_read(texts, some) for some in (one, two)]
    waits = [_read(texts, some, weak=True) for some in (one, two)]
    changed = [{memory for name in some for memory in texts.changes.get(name, [])} for some in writes]
    if "changes in place what the other has written" in said:
        for name in buffers:
            other = [_touching(texts, writes[side]) & {name} for side in (0, 1)]
            written = [writes[side] | {*changed[side]} for side in (0, 1)]
            if not any(name in written[1 - side] and texts.memory(name) & {*changed[side]} for side in (0, 1)):
                if not any(other) or not any(name in some for some in writes):
                    return f"neither writes and the other changes {name}"
                side = 0 if name in writes[0] else 1
                if not texts.memory(name) & changed[1 - side]:
                    return f"{', '.join((one, two)[1 - side])} changes no memory of {name}"
        return ""
    if "writes what the other reads" in said and "neither" not in said:
        for name in buffers:
            if not any(name in writes[side] and name in reads[1 - side] | waits[1 - side] for side in (0, 1)):
                memory = texts.memory(name)
                if not any(memory & (writes[side] | changed[side]) and memory & reads[1 - side] for side in (0, 1)):
                    return f"it is not so that one writes and the other reads {name}"
        return ""
    if "Both touch" in said:
        for name in buffers:
            for side in (0, 1):
                if not texts.memory(name) & (reads[side] | writes[side] | waits[side] | changed[side]):
                    return f"{', '.join((one, two)[side])} does not touch {name}"
        both = (writes[0] | changed[0]) & reads[1] | (writes[1] | changed[1]) & reads[0]
        return f"one writes {sorted(both)[0]}, which the other reads" if both else ""
    if "No buffer is read or written by both" in said:
        loaded = [
            {_named(dep) for dep in _deps(texts, some, "reads") if dep.startswith("Memory")} for some in (one, two)
        ]
        touched = [_whole(texts, loaded[side] | writes[side]) for side in (0, 1)]
        both = {name for name in touched[0] & touched[1] if name.startswith(("arg", "primals", "buf"))}
        return f"both touch {sorted(both)[0]}" if both else ""
    if "The second reads what the first writes" in said:
        both = writes[0] & reads[1]
        if not both:
            return (
                f"the second reads {', '.join(sorted(reads[1]))}, and the first writes {', '.join(sorted(writes[0]))}"
            )
        merged = texts.merged
        if not all(name in merged and merged[name]["loops"] for name in one + two):
            return None
        written = {dep for name in one for dep in merged[name]["writes"]}
        loops = {loop for name in one + two for loop in merged[name]["loops"]}
        read = {dep for name in two for dep in merged[name]["reads"] if _named(dep) in both}
        if "by the same index" in said:
            changed = {memory for some in texts.changes.values() for memory in some}
            missing = [name for name in buffers if name not in both or name not in changed]
            return (
                f"it is not so that {missing[0]} is handed on and changed"
                if missing
                else ""
                if read <= written
                else None
            )
        # loops may have been put in another order since it was asked
        asked = {dep for dep in _deps(texts, two, "reads") if _named(dep) in both} <= _deps(texts, one, "writes")
        if len(loops) == 1 and read and read <= written and asked:
            return f"the second reads {', '.join(sorted(both))} by the very index by which the first writes it"
        return ""
    if "has to wait until the first has read" in said or "which the other reads as it was before" in said:
        for name in buffers:
            memory = texts.memory(name)
            if not any(memory & changed[side] and memory & _whole(texts, reads[1 - side]) for side in (0, 1)):
                return f"it is not so that one changes {name} and the other reads it"
        return ""
    if "their rows differ in number or length" in said or "different numbers of elements" in said:
        return None
    return None


def _deps(texts: GraphTexts, some: list[str], kind: str) -> set[str]:
    return {dep for name in some for dep in texts.operations[name][kind]}


def _named(dep: str) -> str:
    match = re.search(r"Dep\((?:name=)?'(\w+)'", dep)
    return match[1] if match else ""


def _read(texts: GraphTexts, some: list[str], weak: bool = False) -> set[str]:
    return {_named(dep) for dep in _deps(texts, some, "reads") if dep.startswith("WeakDep") == weak}


def _whole(texts: GraphTexts, names: set[str]) -> set[str]:
    return {other for name in names for other in {name, *texts.changes.get(name, [])}}


def _touching(texts: GraphTexts, names: set[str]) -> set[str]:
    return {name for name in names if name in texts.sizes or name in texts.changes}
