"""Why two scheduler nodes were fused or not, by a code.

Inductor's reasons for not fusing become codes by the patterns in `data/fusion_reasons.yaml`, first match first. A
reason that it does not know, as a newer torch may give one, is quoted as it stands rather than guessed at.
"""

import re
from functools import cache
from pathlib import Path

import yaml

from minicompile.lowering.captured import Coded

DATA = Path(__file__).parent / "data/fusion_reasons.yaml"


@cache
def reason_codes() -> list[tuple[re.Pattern, str]]:
    """(pattern, code) pairs, in order."""
    return [(re.compile(entry["reason"]), entry["code"]) for entry in yaml.safe_load(DATA.read_text())]


def reason(decision: dict, nodes: dict[str, dict], removed: set[str]) -> Coded:
    """Why a fusion was taken or refused.

    Inductor's last words decide. What it calls no shared data may be buffers that both touch in loops of other shapes:
    then the read and write sets say which, and whether one hands them to the other. Where its accesses did not match,
    and the second reads nothing that the first writes, a third changes in place what the first has written. For the
    elements of a kernel it takes those of its first node, which with a template may be what the template takes in. What
    it calls extern may be a Triton kernel of the user's.

    Args:
        decision: `first`, `second`, `taken` and Inductor's own `reasons`.
        nodes: the scheduler nodes by name, with what they read and write, and whether they are a `template` or a Triton
            kernel of the user's.
        removed: buffers that fusion took out of memory.
    """
    handed, changed, both = _shared(decision, nodes)
    if decision["taken"]:
        # only what was handed from one to the other is spared by this fusion, whatever else is removed
        gone = [buffer for buffer in handed if buffer in removed]
        return {"code": "taken_removed", "buffers": gone} if gone else {"code": "taken"}
    given = decision["reasons"]
    if not given:
        return {"code": "ungiven"}
    code = next((code for pattern, code in reason_codes() if pattern.search(given[-1])), None)
    if code is None:
        return {"code": "own_words", "reason": given[-1]}
    # Inductor shares data only where both touch a buffer by the same index; the buffers say what it leaves out
    if code == "nothing_shared":
        found = {"handed": handed, "changed": changed, "read_by_both": both}
        for kind, buffers in found.items():
            if buffers:
                return {"code": kind, "buffers": buffers}
    if code == "other_order" and not (handed or changed):  # the second reads it as a third has left it
        return {"code": "between"}
    if code == "elements_differ" and any(_has(decision[side][1:], nodes, "template") for side in ("first", "second")):
        return {"code": "prologue_counted"}
    if code == "library" and _has([*decision["first"], *decision["second"]], nodes, "user_triton"):
        return {"code": "user_kernel"}
    return {"code": code}


def _has(names: list[str], nodes: dict[str, dict], kind: str) -> bool:
    return any(nodes[name][kind] for name in names if name in nodes)


def _shared(decision: dict, nodes: dict[str, dict]) -> tuple[list[str], list[str], list[str]]:
    """The buffers that one side writes and the other reads, that it changes in place, and that both read or write."""
    first, second = ([nodes[name] for name in decision[side] if name in nodes] for side in ("first", "second"))
    (read1, changed1, written1), (read2, changed2, written2) = map(_accessed, (first, second))
    handed = written1 & read2 | written2 & read1
    changed = (written1 & changed2 | written2 & changed1) - handed
    return sorted(handed), sorted(changed), sorted((read1 | written1) & (read2 | written2) - handed)


def _accessed(side: list[dict]) -> tuple[set[str], set[str], set[str]]:
    """The buffers that scheduler nodes read, that they change in place, and that they write.

    A loop depends on the whole of a buffer, without an index, where it writes into what another has written.
    """
    reads = [
        (one["buffer"], one["index"] == "*" and bool(node["operations"])) for node in side for one in node["reads"]
    ]
    written = {one["buffer"] for node in side for one in node["writes"]}
    return {buffer for buffer, whole in reads if not whole}, {buffer for buffer, whole in reads if whole}, written
