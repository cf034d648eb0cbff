"""Why two nodes were fused or not, held against the reads, writes, loops and dependencies that Inductor prints."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from math import prod

import sympy
import torch
from torch._inductor import config as inductor
from zoo_models import Captured, Verdict
from zoo_runs import Ran

NODE = re.compile(r"^(?P<name>\w+): (?P<kind>\w+)\((?P<computes>\w+)\)")
COMPARED = re.compile(r"^(\w+)\.(?P<way>writes|unmet_dependencies|met_dependencies) =\s*(?P<what>.*?\])$", re.M | re.S)
MUTATION = re.compile(r"^    (\w+)\.mutations = \['(\w+)'", re.M)
ALIASES = re.compile(r"^    \w+\.aliases = \[.+\]", re.M)
USERS = re.compile(r"^    \w+\.users = \[(.*)", re.M)
USER = re.compile(r"node=(?:\w+\(name=')?(\w+)")
OUTPUT = re.compile(r"^    (\w+): \w+$", re.M)
ALONG_ROWS = re.compile(r"ops\.(?:reduction|sort)\(|self\.scan\d*\(|ops\.scan\(")
ACCESS = re.compile(r"MemoryDep\('(?P<buffer>\w+)', (?P<index>.*?), \{(?P<lengths>.*?)\}")
NAMED = re.compile(r"'(\w+)'")
NO_LOAD = re.compile(r"(?:ops\.store(?:_reduction)?|ops\.reduction|self\.get_index)\(.*")
UNBACKED = re.compile(r": [^,]*\bu\d")
SIZES = re.compile(r"^\w+\.sizes = \(\[(.*?)\], \[(.*?)\]\)", re.M)


@dataclass
class Printed:
    """A scheduler node as Inductor prints it before fusion."""

    kind: str
    computes: str  # the class of what it is lowered to
    accesses: set[str] = field(default_factory=set)  # with their indices and loops, as they are printed
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    place: int = 0  # in the order in which they are to run
    loads: set[str] = field(default_factory=set)  # memory, by the name that it has before anything changes it
    stores: set[str] = field(default_factory=set)
    waits_for: set[str] = field(default_factory=set)  # buffers
    outputs: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)  # nodes, or OUTPUT
    mutated: dict[str, str] = field(default_factory=dict)  # an output that names memory changed in place -> whose it is
    sizes: tuple[str, str] | None = None
    reduces: bool = False
    aliases: bool = False

    @property
    def template(self) -> bool:
        return self.computes.endswith("TemplateBuffer")

    @property
    def elements(self) -> set[sympy.Expr]:
        """How many points the loops have."""
        return {_product(*self.sizes)} if self.sizes else set()

    @property
    def others_memory(self) -> bool:
        """Whether it changes or shares the memory of something else."""
        return bool(self.mutated) or self.aliases


def printed(text: str) -> dict[str, Printed]:
    """The nodes of a pane, by name."""
    found = {}
    for part in re.split(r"(?m)^(?=\w+: \w+\()", text):
        if not (head := NODE.match(part)):
            continue
        node = found[head["name"]] = Printed(head["kind"], head["computes"])
        for _, way, what in COMPARED.findall(part):
            (node.writes if way == "writes" else node.reads).update(re.findall(r"MemoryDep\('(\w+)'", what))
            node.accesses |= {match[0] for match in ACCESS.finditer(what)}
            if head["kind"] != "SchedulerNode":  # a call, which is given whole tensors to read
                node.reads.update(re.findall(r"StarDep\(name='(\w+)'", what))
            if way == "unmet_dependencies":
                node.waits_for |= set(re.findall(r"Dep\((?:name=)?'(\w+)'", what))
        node.outputs = set(OUTPUT.findall(part))
        node.users = {user for users in USERS.findall(part) for user in USER.findall(users)}
        node.mutated = dict(MUTATION.findall(part))
        node.aliases = bool(ALIASES.search(part))
        match = SIZES.search(part)
        node.sizes = (match[1], match[2]) if match else None
        node.reduces = bool(ALONG_ROWS.search(part))
        # a loop says in its body what it loads, by the memory's own name whoever has changed it
        _, body, text = part.partition("_loop_body:\n")
        node.loads = set(NAMED.findall(NO_LOAD.sub("", text))) if body else set(node.reads)
        node.place = len(found)
    memory = {later: earlier for node in found.values() for later, earlier in node.mutated.items()}

    def owner(buffer: str) -> str:
        return owner(memory[buffer]) if buffer in memory else buffer

    for node in found.values():
        node.loads, node.stores = set(map(owner, node.loads)), set(map(owner, node.outputs))
    return found


@cache
def _product(*lengths: str) -> sympy.Expr:
    """The product of printed lengths, `s77, 4, 2*s53`."""
    return sympy.prod(sympy.sympify(f"[{', '.join(one for one in lengths if one)}]"))


class Side:
    """The nodes of one side of a decision together."""

    def __init__(self, names: list[str], nodes: dict[str, Printed]) -> None:
        self.nodes = [nodes[name] for name in names if name in nodes]
        self.accesses, self.reads, self.writes, self.loads = (
            set().union(*(getattr(node, what) for node in self.nodes))
            for what in ("accesses", "reads", "writes", "loads")
        )
        self.sizes = [node.sizes for node in self.nodes]

    @property
    def elements(self) -> set[sympy.Expr]:
        """How many points the loops of each node have."""
        return set().union(*(node.elements for node in self.nodes))

    def blocks(self, buffers: set[str] | None = None) -> set[tuple[int, int]]:
        """Into how many rows and columns each access divides its loops that has its neighbours in an outer loop.

        Args:
            buffers: the accesses to these alone; None: all.
        """
        found = set()
        for match in map(ACCESS.match, self.accesses):
            if buffers is not None and match["buffer"] not in buffers:
                continue
            loops = re.findall(r"(\w+): (\d+)", match["lengths"])
            for number, (loop, _) in enumerate(loops[:-1]):
                if loop in match["index"].split(" + "):  # with the stride 1
                    inner = [int(length) for _, length in loops[number + 1 :]]
                    found.add((prod(int(length) for _, length in loops) // prod(inner), prod(inner)))
        return found

    @property
    def reductions(self) -> set[tuple[sympy.Expr, sympy.Expr]]:
        """How many rows each reduction among the nodes has, and how long they are."""
        sizes = [node.sizes for node in self.nodes if node.reduces and node.sizes]
        return {(_product(rows), _product(length)) for rows, length in sizes}

    @property
    def rows(self) -> set[sympy.Expr]:
        """How many rows the reductions among the nodes have, and how many elements."""
        return {count for rows, length in self.reductions for count in (rows, rows * length)}


def _after(names: Iterable[str], nodes: dict[str, Printed], fused: dict[str, set[str]]) -> set[str]:
    """All nodes that must run after one of these, those included that one kernel computes with such a node."""
    found: set[str] = set()
    waiting = set().union(*(nodes[name].outputs for name in names if name in nodes))
    while waiting:
        later = {name for name, node in nodes.items() if node.waits_for & waiting}
        more = set().union(*(fused.get(name, {name}) for name in later)) - found
        found |= more
        waiting = set().union(*(nodes[name].outputs for name in more if name in nodes))
    return found


def _others_between(first: list[str], second: list[str], nodes: dict[str, Printed], fused: dict[str, set[str]]) -> bool:
    """Whether a node of neither side must run after the first one and before the second."""
    after = _after(first, nodes, fused) - {*first, *second}
    return bool(_after(after, nodes, fused) & set(second))


def _follows(first: Side, second: Side, nodes: dict[str, Printed]) -> dict[str, set[str]]:
    """The memory that the second side has after the first, by what each does to it, in the order of the program."""
    found: dict[str, set[str]] = {code: set() for code in ("handed", "changed", "overwritten", "left_by_another")}
    for one, other in ((one, other) for one in first.nodes for other in second.nodes if one.place < other.place):
        between = [node for node in nodes.values() if one.place < node.place < other.place]
        changed = set().union(*(node.stores for node in between))
        found["handed"] |= one.stores & other.loads - changed
        found["left_by_another"] |= one.stores & other.loads & changed
        found["changed"] |= one.stores & other.stores
        found["overwritten"] |= one.loads & other.stores
    return found


def _touch(first: Side, second: Side, nodes: dict[str, Printed]) -> tuple[str, set[str]]:
    """What two sides have to do with one another, and the memory that this is about."""
    there, back = _follows(first, second, nodes), _follows(second, first, nodes)
    for code, memory in there.items():
        if memory | back[code]:
            return code, memory | back[code]
    both = first.loads & second.loads
    return ("read_by_both" if both else "nothing_shared"), both


def _shared_bytes(first: Side, second: Side, nodes: dict[str, Printed], graph: dict) -> int:
    """Bytes that both sides access alike, at the same indices in the same loops."""
    widths = {one["name"]: getattr(torch, one["dtype"]).itemsize for one in graph["buffers"] if one["dtype"]}
    for node in nodes.values():
        widths |= {later: widths[buffer] for later, buffer in node.mutated.items() if buffer in widths}
    alike = [ACCESS.match(access) for access in first.accesses & second.accesses]
    alike = [one for one in alike if not UNBACKED.search(one["lengths"])]  # Inductor's score takes these for nothing
    return sum(prod(map(int, re.findall(r": (\d+)", one["lengths"]))) * widths[one["buffer"]] for one in alike)


def _holds(decision: dict, nodes: dict[str, Printed], fused: dict[str, set[str]], graph: dict) -> bool | None:
    """Whether a decision's reason is what Inductor prints; None where it prints nothing of that kind."""
    names, reason = (decision["first"], decision["second"]), decision["reason"]
    first, second = (Side(some, nodes) for some in names)
    code, buffers = reason["code"], set(reason.get("buffers", ()))
    if code in ("handed", "changed", "overwritten", "left_by_another", "read_by_both", "nothing_shared"):
        truth, touched = _touch(first, second, nodes)
        memory = {one: other for node in nodes.values() for one, other in node.mutated.items()}
        while more := buffers & memory.keys():
            buffers = buffers - more | {memory[one] for one in more}
        return truth == code and buffers <= touched
    if code in ("waits", "changes_later"):
        return buffers <= _follows(first, second, nodes)["overwritten" if code == "waits" else "changed"]
    if code in ("taken", "taken_removed"):
        return any({*names[0], *names[1]} <= set(call["scheduler_nodes"]) for call in graph["calls"])
    if code == "ungiven":  # a C++ kernel may run the loops of several groups, one after the other
        return not any({*names[0], *names[1]} <= set(group["members"]) for group in graph["groups"])
    if code in ("vertical", "horizontal"):  # the one is asked where the second needs the first, the other elsewhere
        needs = bool(_after(names[0], nodes, {}) & set(names[1]))
        return needs == (code == "vertical") and any(kernel["language"] == "cpp" for kernel in graph["kernels"])
    if code == "not_worth_it":
        if len(decision["reasons"]) > 1:  # judged again, after other fusions have changed loops that are not printed
            return None
        return _shared_bytes(first, second, nodes, graph) < inductor.score_fusion_memory_threshold
    if code == "between":
        return _others_between(*names, nodes, fused)
    if code == "tiling":
        return first.blocks() != second.blocks()
    if code == "blocks_and_rows":
        reducing, other = (first, second) if first.reductions else (second, first)
        alike = {prod(one) for one in reducing.reductions} == other.elements
        blocks = other.blocks()
        if len(decision["reasons"]) > 1:  # they shared nothing, and the loops were put into the other's order
            blocks |= reducing.blocks((first.reads | first.writes) & (second.reads | second.writes))
        return alike and not other.reductions and bool(blocks - reducing.reductions)
    if code == "cycle":
        return _others_between(*names, nodes, fused) or _others_between(*names[::-1], nodes, fused)
    if code == "reversed":
        return bool(_after(names[1], nodes, fused) & set(names[0]))
    if code in ("other_order", "renamed", "unmatched"):
        # at the same places of loops that are the same it would be no obstacle
        reads = {one for one in second.accesses if ACCESS.match(one)["buffer"] in first.writes}
        alike = bool(reads) and reads <= first.accesses
        later = {memory for node in nodes.values() for memory in node.mutated.values()}
        handed = bool(_follows(first, second, nodes)["handed"]) and alike == (code != "other_order")
        return handed and (code != "renamed" or buffers <= later)
    if code in ("library", "user_kernel"):
        users_own = any(node.computes == "UserDefinedTritonKernel" for node in (*first.nodes, *second.nodes))
        others = any(node.kind != "SchedulerNode" for node in (*first.nodes, *second.nodes))
        return others and users_own == (code == "user_kernel")
    if code == "reductions_differ":
        return all(any(node.reduces for node in side.nodes) for side in (first, second)) and first.sizes != second.sizes
    if code == "elements_differ":
        return not first.elements & second.elements
    if code.startswith(("prologue", "epilogue")):
        return _holds_of_template(code, first, second, names)
    if code == "elements_and_rows":
        reducing, other = (first, second) if first.rows else (second, first)
        return bool(reducing.rows) and not other.rows and not reducing.rows & other.elements
    return None


def _holds_of_template(code: str, first: Side, second: Side, names: tuple[list[str], list[str]]) -> bool | None:
    """Whether a reason that a template has is what Inductor prints; None where it prints nothing of that kind."""
    if code == "prologue_counted":  # by their first nodes, though a template follows one of these
        counted = [side.nodes[0].elements for side in (first, second)]
        return counted[0] != counted[1] and any(node.template for side in (first, second) for node in side.nodes[1:])
    side = first if code.startswith("epilogue") else second
    if not any(node.template for node in side.nodes):
        return False
    if code == "prologue_kind":
        return any(node.reduces or node.template for node in first.nodes)
    if code == "prologue_inputs":
        return bool(first.writes & second.reads)
    if code == "prologue_memory":
        return any(node.others_memory for node in (*first.nodes, *second.nodes))
    if code == "prologue_uses":
        taken = {*names[0], *(name for name, node in zip(names[1], second.nodes, strict=True) if node.template)}
        return len(first.nodes[-1].outputs) != 1 or any(node.users - taken for node in first.nodes)
    if code == "prologue_elements":
        return any(node.reads & first.writes and node.elements != first.elements for node in second.nodes)
    if code == "epilogue":
        return any(node.reduces or node.others_memory for node in second.nodes)
    return None


def fusions(one: Captured, _ran: Ran) -> Verdict:
    """Why two nodes were fused or not agrees with what Inductor prints of them."""
    verdict = Verdict()
    for graph in one.capture["graphs"]:
        nodes = printed(one.text(graph, "ir_before"))
        fused: dict[str, set[str]] = {}  # what one kernel was to compute when the decision was made
        for decision in graph["decisions"]:
            code = decision["reason"]["code"]
            if (holds := _holds(decision, nodes, fused, graph)) is not None:
                verdict.held[code] += 1
            if holds is False:
                verdict.false.append(f"{graph['id']}: {decision['first']} with {decision['second']} is no {code}")
            if decision["taken"]:
                together = {*decision["first"], *decision["second"]}
                fused |= dict.fromkeys(together, together)
    return verdict
