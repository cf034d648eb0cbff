"""A lowered graph's code and its ATen graph are run on the same inputs, and what agrees becomes `Ties`."""

import ast
import contextlib
import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from minicompile.torch_private.known_values import outside_of_modes
from minicompile.verifying import graphs, matching, user_kernels, wrappers
from minicompile.verifying.blocks import Unable
from minicompile.verifying.chance import INPUT, TEXTS, operation, shows, without_chance
from minicompile.verifying.cpp import Library
from minicompile.verifying.matching import Candidates, Match
from minicompile.verifying.ties import FORMAT, Buffer, Call, Line, Store, Ties, refused
from minicompile.verifying.wrappers import Recorder

WHOLE = (None, "before_cast", "unrounded")
SECONDS, PER_CALL = 60.0, 10.0
LONG = 4.0  # seconds after which another input is run only where the time is there
LARGEST = 1 << 26  # elements of all nodes together
POINTER = re.compile(r"= .*?\b(\w*ptr\d+)\b")  # that a line reads
CAST = re.compile(r"= (?:[\w:]+<[\w:, ]+>)?\(?(tmp\d+)\)?(?:\.to\([\w.]+\))?;?\s*$")  # of a value
SUMS = ("add", "sub", "rsub")
RARE = 8  # of values of two kinds as many must be of either: fewer are equal by chance
HIGHEST = (1 << 12, 97, 31, 11, 5, 3, 2, 1)  # what integers may be below, tried in turn


@dataclass
class Live:
    """A lowered graph as the compile held it."""

    module: fx.GraphModule
    code: str
    constants: dict[str, Any] = field(default_factory=dict)
    proposed: dict[str, str | None] = field(default_factory=dict)  # by buffer the node that Inductor notes for it
    users: user_kernels.Noted | None = None  # Triton kernels of the user's
    given: list[Any] = field(default_factory=list)  # inputs with which the model called it, where that is known
    index: int | None = None  # of Dynamo's graph
    backward: bool = False
    left: list[list[Any]] = field(default_factory=list)  # by input what the graph gave when it was run here
    left_own: bool = False  # whether the first of those inputs was the model's own
    vectors: Any = None  # for which its C++ was written, a VecISA of Inductor's; none where torch cannot say


def in_cpp(code: str) -> bool:
    """Whether a graph's code has kernels in C++ that are built here, for the vectors that it was written for."""
    return "cpp_pybinding" in code and "async_compile.triton(" not in code


def all_ties(lives: Sequence[Live | None], seconds: float = math.inf) -> list[Ties]:
    """Those of the graphs of a compile, whose C++ is built in one go; an error of ours is told, not raised.

    Args:
        lives: the graphs.
        seconds: for all of them once that is built; each may take its share of what is left, and `SECONDS`.
    """
    if seconds <= 0:
        return [refused("no_time") for _ in lives]
    began = time.monotonic()
    known = [live for live in lives if live is not None]
    codes: dict[str, list[str]] = {}  # by the vectors that they were written for
    for one in known:
        if in_cpp(one.code):
            codes.setdefault(str(one.vectors), []).append(one.code)
    vectors = {str(one.vectors): one.vectors for one in known}
    try:
        libraries = {name: Library(some, vectors[name]) for name, some in codes.items()}
    except Exception as error:
        return [refused("error", f"{type(error).__name__}: {error}".splitlines()[0][:200]) for _ in lives]
    built = time.monotonic() - began
    made: dict[int, Ties] = {}
    forward: dict[int | None, Live] = {}
    in_turn = sorted(enumerate(lives), key=lambda one: one[1] is not None and one[1].backward)
    for number, (place, live) in enumerate(in_turn):
        left = max(0.0, began + built + seconds - time.monotonic()) / (len(lives) - number)
        share = min(SECONDS, left)
        if live is None:
            made[place] = refused("not_held")
            continue
        before = forward.get(live.index) if live.backward else None
        made[place] = ties_of(live, share, min(PER_CALL, share), libraries.get(str(live.vectors)), before)
        if not live.backward:
            forward[live.index] = live
    for one in known:
        one.left.clear()
    if codes and made:  # what it took to build is told of the first
        made[0]["seconds"] = round(made[0]["seconds"] + built, 3)
    return [made[place] for place in range(len(lives))]


def ties_of(
    live: Live,
    seconds: float = SECONDS,
    per_call: float = PER_CALL,
    library: Library | None = None,
    forward: Live | None = None,
) -> Ties:
    """Run a graph and its code; an error of ours is told as a refusal, and raised to nobody.

    Args:
        live: the graph.
        seconds: that it may take.
        per_call: that each call may take.
        library: its kernels in C++.
        forward: the graph that leaves what this one takes, once it was run here.
    """
    began = time.monotonic()
    with outside_of_modes(), torch.no_grad(), _one_thread():
        try:
            made = _Verification(live, began + seconds, per_call, library, forward).made()
        except Unable as error:
            made = refused(error.code, error.detail)
        except Exception as error:
            made = refused("error", f"{type(error).__name__}: {error}".splitlines()[0][:200])
    made["seconds"] = round(time.monotonic() - began, 3)
    return made


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Many small operations: beside another process several threads wait for each other six times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass
class _Found:
    """What is known of one line or one store, over all runs."""

    matches: dict[str, list[Match]]
    elements: int
    runs: int
    reduced: dict[str, str] = field(default_factory=dict)  # by node that it is a part of, by what

    def meet(self, matches: dict[str, Match], elements: int, reduced: dict[str, str]) -> None:
        self.matches = {name: [*self.matches[name], one] for name, one in matches.items() if name in self.matches}
        self.reduced = {name: by for name, by in self.reduced.items() if reduced.get(name) == by}
        self.elements += elements
        self.runs += 1


@dataclass
class _CallFound:
    """What is known of one call, over all runs."""

    call: wrappers.Call
    runs: int = 0
    lines: dict[tuple[int, str], _Found] = field(default_factory=dict)
    stores: dict[str, _Found] = field(default_factory=dict)
    refused: str | None = None
    terms: int = 0  # of its lines, as many as it may sum up: what it stores is known no better


def _lost(eager: graphs.Values) -> dict[str, float]:
    """For each node how many times as large was what it, or one before it, is the sum or the difference of.

    Of a row far from zero the distance to its mean is left with few digits, and which those are depends on the order in
    which the mean was summed up.
    """
    lost: dict[str, float] = {}
    for part in (eager, *(several[0] for several in eager.inner.values())):
        for node in part.nodes:
            before = [part.within + one.name for one in node.all_input_nodes]
            value = part.found.get(part.within + node.name)
            factor = max((lost.get(one, 1.0) for one in before), default=1.0)
            if operation(node.target) in SUMS and value is not None and value.dtype.is_floating_point:
                terms = [matching.scale_of(part.found[one]) for one in before if one in part.found]
                own = matching.scale_of(value)
                factor = max([factor, *(one / own for one in terms if own and math.isfinite(one / own))])
            lost[part.within + node.name] = factor
    return lost


class _NoInput(Exception):
    """The graph does not take an input that was made up."""


class _Verification:
    def __init__(
        self, live: Live, deadline: float, per_call: float, library: Library | None, forward: Live | None
    ) -> None:
        self.seconds = deadline - time.monotonic()
        self.forward = forward
        self.live, self.deadline, self.per_call, self.library = live, deadline, per_call, library
        self.found: dict[tuple[int, str], _CallFound] = {}  # by the wrapper's line
        self.handed: dict[str, _CallFound] = {}  # by buffer that a graph within the graph gives
        self.layouts: graphs.Layouts | None = None
        self.recorder: Recorder | None = None
        self.kinds: dict[str, Kinds] = {}
        self.operations: dict[str, str] = {}  # by node
        self.order: dict[str, int] = {}  # by node of the graph its number
        self.before: dict[str, int] = {}  # and as bits the numbers of what it is computed from, its own among them
        self.few: dict[str, str] = {}  # by node of so few kinds of values that another may have them its operation
        self.points: dict[str, int] = {}  # elements of a node, in the last run
        self._unit = 2.0**-23  # of the last place, within which equal values may differ

    def made(self) -> Ties:
        runs = 0
        self.constant: set[str] | None = None
        branches = (True, False) if "cond" in {str(one.target) for one in self.live.module.graph.nodes} else (None,)
        began, refusal = time.monotonic(), _NoInput("none")
        for inputs in self._inputs():
            try:
                for branch in branches:
                    self._run(inputs, branch)
            except _NoInput as error:  # that the graph itself refuses; others it may take
                refusal = error
                continue
            runs += 1
            spent = time.monotonic() - began
            if spent * (runs + 1) / runs > self.seconds and spent > LONG:
                break
        if not runs:
            raise Unable("input", str(refusal)[:200])
        return self._ties(runs)

    def _inputs(self) -> list[list[Any]]:
        module = self.live.module
        generator = torch.Generator().manual_seed(7)
        known, self.own = self._known()
        if unknown := graphs.unchecked(module, known[-1]):  # made up they could reach outside of memory
            raise Unable("integers", ", ".join(unknown))
        highest, holes = self._valid_integers(module, known[-1], known[0])
        sizes = sorted({int(size) for node in module.graph.nodes for size in _sizes(node) if isinstance(size, int)})
        limits = (sizes[-1] if sizes else 2, sizes[len(sizes) // 2] if sizes else 2, 5)
        made: list[list[Any]] = []
        for number, kind in enumerate(("own" if self.own else "normal", "positive", "normal")):
            below = {name: max(1, min(one, limits[number])) for name, one in highest.items()}
            held = known[min(number, len(known) - 1)]
            gaps = holes if number != 1 else frozenset[str]()
            made.append(graphs.made_up(module, kind, generator, below, gaps, held, known[0]))
        return made

    def _known(self) -> tuple[list[dict[str, Any]], bool]:
        """By run the inputs that need not be made up, the last for all others; whether the first are the model's own.

        A backward graph takes what its forward graph left. Integers are never made up where the model's own are
        there: which others are valid, only the graph's operators know.
        """
        inputs = graphs.inputs_of(self.live.module)
        if self.live.backward:
            forward = self.forward or self.live
            left = [graphs.left_for(self.live.module, forward.module, one) for one in forward.left]
            left = [one for one in left if one]
            gradients = [node.meta.get("val") for node in inputs if not left or node.name not in left[0]]
            own = forward.left_own and all(isinstance(one, torch.Tensor) and not one.ndim for one in gradients)
            return [*left, _whole_numbers(left[0] if left else {})], own and bool(left)
        if len(inputs) != len(self.live.given):
            return [{}], False
        there = graphs.all_laid(inputs, self.live.given)
        own = bool(inputs) and len(there) == len(inputs)
        whole = _whole_numbers(there)
        return ([there, whole] if own else [whole]), own

    def _valid_integers(
        self, module: fx.GraphModule, known: dict[str, Any], like: dict[str, Any]
    ) -> tuple[dict[str, int], frozenset[str]]:
        """For each input of integers that are not known, the largest below which the graph can look up; with holes."""
        whole = [
            node.name
            for node in graphs.inputs_of(module)
            if graphs.is_whole(node.meta.get("val")) and node.name not in known
        ]
        made = dict.fromkeys(whole, 1)
        holes: frozenset[str] = frozenset()

        def runs(highest: dict[str, int], holes: frozenset[str]) -> bool:
            inputs = graphs.made_up(module, "normal", torch.Generator().manual_seed(3), highest, holes, known, like)
            return self._runs(module, inputs)

        for name in whole[:6]:
            made[name] = next(one for one in HIGHEST if one == 1 or runs(made | {name: one}, holes))
            if runs(made, holes | {name}):
                holes |= {name}
        return made, holes

    def _runs(self, module: fx.GraphModule, inputs: list[Any]) -> bool:
        try:
            graphs.Values(module, None, self._users_kernel).run(*map(_copied, inputs))
        except Unable:
            raise
        except Exception:  # an index that is not there, of whatever kind of operation
            return False
        return True

    def _run(self, inputs: list[Any], branch: bool | None) -> None:
        module = self.live.module
        names = [node.name for node in graphs.inputs_of(module)]
        eager = graphs.Values(module, branch, self._users_kernel)
        try:
            results = eager.run(*[_copied(one) for one in inputs])
        except Unable:
            raise
        except Exception as error:  # an index that is not there, a matrix that has no inverse
            raise _NoInput(f"{type(error).__name__}: {error}".splitlines()[0]) from error
        inner = [eager.at(turn) for turn in range(graphs.TURNS)]
        if sum(one.numel() for found in (eager.found, *inner) for one in found.values()) > LARGEST:
            raise Unable("size")
        if not self.live.backward and branch is not False:
            self.live.left_own = self.live.left_own or (self.own and not self.live.left)
            self.live.left.append(results)
        if self.layouts is None:
            self.layouts = graphs.Layouts(eager)
            self._from_inputs = _from_inputs(module)
        units, lost = self._units(eager), _lost(eager)
        self.inner = {name for found in inner for name in found}
        outer = self._values(eager.found, units, lost)
        candidates = [Candidates([*outer, *self._values(inner[0], units, lost)])]
        candidates += [Candidates([*outer, *self._values(found, units, lost)]) for found in inner[1:] if found]
        constant = {one.name for one in candidates[0].every.values() if one.constant}
        self.constant = constant if self.constant is None else self.constant & constant
        self.eager = eager
        recorder = Recorder(max(0.0, self.deadline - time.monotonic()), self.per_call)
        copies = [_copied(one) for one in inputs]
        for name, one in zip(names, copies, strict=True):
            if isinstance(one, torch.Tensor):
                recorder.given(name, one)

        turns: dict[tuple[int, str], int] = {}

        def ended(call: wrappers.Call) -> None:
            key = call.line, call.kernel
            turns[key] = turns.get(key, 0) + 1
            # what is called again is in a loop or a region; of many turns the first are looked at
            self._met(key, call, candidates[turns[key] - 1] if turns[key] <= len(candidates) else None)

        handed = set[str]()

        def had_part(call: wrappers.Call | None, name: str, tensor: torch.Tensor) -> None:
            if call is None:
                if name not in handed:
                    handed.add(name)
                    known = self.handed.setdefault(name, _CallFound(wrappers.Call("", 0, "branch")))
                    known.runs += 1
                    self._met_content(known, name, tensor, candidates[0])
                return
            key = call.line, call.kernel
            if turns[key] <= len(candidates):
                self._met_content(self.found[key], name, tensor, candidates[turns[key] - 1])

        recorder.after_call, recorder.after_part, recorder.branch = ended, had_part, branch
        constants = {name: graphs.here(value) for name, value in self.live.constants.items()}
        run = wrappers.loaded(self.live.code, recorder, constants, self.library)
        results = run(copies)
        self.recorder = recorder
        self._returned(results, recorder)

    def _values(
        self, found: dict[str, torch.Tensor], units: dict[str, float], lost: dict[str, float]
    ) -> list[matching.Values]:
        """Nodes to compare with, and what kinds of values they have."""
        assert self.layouts is not None
        made = [matching.Values.of(name, one, units.get(name, 0.0), lost.get(name, 1.0)) for name, one in found.items()
                if name not in self.layouts.base and not one.dtype.is_complex]  # fmt: skip
        for one in made:
            self.kinds.setdefault(one.name, Kinds(one.wide)).add(one.flat)
            self.points[one.name] = len(one.flat)
        return made

    def _units(self, eager: graphs.Values) -> dict[str, float]:
        """For each node the unit of the last place of the narrowest float that one before it was rounded to.

        Code that computes on in float32 leaves such a rounding out.
        """
        units: dict[str, float] = {}
        for part in (eager, *(several[0] for several in eager.inner.values())):
            for node in part.nodes:
                value = part.found.get(part.within + node.name)
                if node.op in ("placeholder", "get_attr"):
                    units[part.within + node.name] = 0.0
                    continue
                before = [units.get(part.within + one.name, 0.0) for one in node.all_input_nodes]
                own = 0.0 if value is None else matching.EPSILON.get(value.dtype, 0.0)
                units[part.within + node.name] = max([*before, own])
        return units

    def _returned(self, results: Any, recorder: Recorder) -> None:
        given = {one.untyped_storage().data_ptr() for one in results if isinstance(one, torch.Tensor)}
        alive = {number for number, one in enumerate(recorder.kept) if one.data_ptr() in given}
        recorder.returned = [names[-1] for number, names in recorder.owner.items() if number in alive]

    def _users_kernel(self, name: str, given: dict[str, Any]) -> Any:
        """A user's Triton kernel in the graph, evaluated as in the code, where its text stands."""
        if not name.startswith("triton_kernel_wrapper_mutation"):
            raise Unable("user_kernel", name)
        return user_kernels.run(self.live.code, self.live.users, given, self.per_call)

    def _met(self, key: tuple[int, str], call: wrappers.Call, candidates: Candidates | None) -> None:
        assert self.layouts is not None
        known = self.found.setdefault(key, _CallFound(call))
        if candidates is None:
            return
        known.runs += 1
        run = known.runs - 1
        if call.refused:
            known.refused, known.call.detail = known.refused or call.refused, call.detail
            self._filled(call, candidates)
            return
        if call.ran is not None:
            try:
                self._met_lines(known, call, candidates, run)
            except Exception as error:  # of ours: this call's lines are lost, and no other's
                known.refused = "error"
                known.call.detail = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        for name, content in call.contents.items():
            self._met_content(known, name, content, candidates)

    def _met_content(self, known: _CallFound, name: str, content: torch.Tensor, candidates: Candidates) -> None:
        run = known.runs - 1
        before = known.stores.get(name) if run else None
        matches = self._matched(content, candidates, known.terms, [*before.matches] if before else None)
        matches = {node: one for node, one in matches.items() if one.exact or not content.dtype.is_floating_point}
        matches = _whole(matches)
        lost = run > 0 and (before is None or not before.reduced)
        parts = {} if matches or lost else self._reduced(content, candidates, [*before.reduced] if before else None)
        _note(known.stores, name, matches, content.numel(), run, parts)
        self._agree(content, matches, candidates)

    def _matched(
        self, content: torch.Tensor, candidates: Candidates, terms: int = 0, among: list[str] | None = None
    ) -> dict[str, Match]:
        """The nodes whose values a buffer holds; `among` are those that it held on every earlier input."""
        assert self.layouts is not None
        pairs = matching.whole_pair(content)
        names = among
        if names is None:
            names = matching.candidates_of([matching.Seen(0, content, None, False)], candidates)
        names = [name for name in names if name in candidates.every]
        return matching.matched(pairs, names, candidates, self.layouts, max(terms, content.numel()))

    def _agree(self, content: torch.Tensor, matches: dict[str, Match], candidates: Candidates) -> None:
        """Go on with the graph's own values, so that roundings do not add up from call to call."""
        assert self.layouts is not None
        best = min(matches, key=lambda name: matches[name].error, default=None)
        if best is None or not content.dtype.is_floating_point or not matches[best].full:
            return
        node = candidates.every[best]
        for way in self.layouts.ways(tuple(content.shape), node.shape):
            values = node.flat if way is None else node.flat[way.clamp(min=0)]
            if values.numel() != content.numel():
                continue
            values = values.reshape(content.shape)
            off = (values - content.double()).abs().nan_to_num()
            if bool((off <= 1e-2 * (values.abs() + node.scale).nan_to_num() + 1e-30).all()):
                content.copy_(values)
                return

    def _reduced(self, content: torch.Tensor, candidates: Candidates, among: list[str] | None) -> dict[str, str]:
        """The nodes that come of a buffer which is reduced once more along an axis: it holds their parts."""
        assert self.layouts is not None
        found: dict[str, str] = {}
        if not content.dtype.is_floating_point or content.numel() < 2 or content.dtype.itemsize < 4:
            return found
        for axis in range(content.ndim):
            if content.shape[axis] == 1:
                continue
            for by, function in (("sum", torch.sum), ("max", torch.amax), ("min", torch.amin)):
                made = function(content, axis)
                matches = self._matched(made, candidates, content.numel(), among)
                matches = {name: one for name, one in matches.items() if one.full and one.exact}
                found |= dict.fromkeys(matches, by)
        return found

    def _filled(self, call: wrappers.Call, candidates: Candidates) -> None:
        """What a refused call would have written, as Inductor notes it: the calls after it have something to read."""
        for name, content in call.contents.items():
            node = candidates.every.get(self.live.proposed.get(name) or "")
            if node is not None and node.flat.numel() == content.numel() and bool((content != content).all()):
                content.copy_(node.flat.reshape(content.shape))
        call.contents.clear()

    def _met_lines(self, known: _CallFound, call: wrappers.Call, candidates: Candidates, run: int) -> None:
        assert self.layouts is not None
        assert call.ran is not None
        places = matching.places_of(call.ran)
        largest = max((one[0].numel() for place in places for many in place.by_program.values() for one in many),
                      default=1)  # fmt: skip
        known.terms = max(known.terms, largest)
        lines: dict[tuple[int, str], tuple[dict[str, Match], int]] = {}
        for key, seen in call.ran.values.items():
            if all(one.constant for one in seen):
                continue
            found: dict[str, Match] = {}
            if run:  # what did not hold on the first input holds no more
                held = known.lines[key].matches if key in known.lines else {}
                names = [name for name in held if name in candidates.every]
            else:
                names = matching.candidates_of(seen, candidates)
            elements = sum(one.values.numel() for one in seen)
            for place in places:
                names = [name for name in names if name not in found or not found[name].full]
                if not names:
                    break
                pairs = matching.Pairs(seen, place)
                if not pairs:
                    continue
                made = matching.matched(pairs, names, candidates, self.layouts, largest)
                for name, one in made.items():
                    if call.ran.sampled is not None:
                        one.full = True
                    if name not in found or (one.full, -one.error) > (found[name].full, -found[name].error):
                        found[name] = one
            lines[key] = found, elements
        matching.in_branches({key: one for key, (one, _) in lines.items()}, call.ran.branches)
        for key, (found, elements) in lines.items():
            _note(known.lines, key, _whole(found), elements, run, {})

    # from what was found to the product

    def _ties(self, runs: int) -> Ties:
        assert self.layouts is not None
        assert self.recorder is not None
        parts = (self.eager, *(several[0] for several in self.eager.inner.values()))
        names = [part.within + node.name for part in parts for node in part.nodes]
        order = {name: number for number, name in enumerate(names)}
        inputs = [node.name for node in graphs.inputs_of(self.live.module)]
        where: dict[str, dict[str, Any]] = {}
        available = {self.layouts.base.get(name, name) for name in inputs}
        within = self.eager.inner.items()
        given = {name + one.name for name, several in within for one in several[0].nodes if one.op == "placeholder"}
        available |= given | {name for part in parts for name in graphs.handed_on(part)}
        constants = self.constant or set()
        calls: list[Call] = []
        holds: dict[str, list[str]] = {name: [name] for name in inputs}
        holds |= {name.replace(".", "_"): [name] for name in given}
        self.operations = {part.within + node.name: _operation(node) for part in parts for node in part.nodes}
        few = (name for name, kinds in self.kinds.items() if kinds.few())
        self.few = {name: self.operations.get(name.partition("[")[0], "") for name in few}
        for name, found in self.handed.items():
            nodes_in, part = self._settled(found.stores[name], found.runs, order, "")
            holds[name] = [node for node in nodes_in if self.few.get(node) not in TEXTS] if part is None else []
        for position, one in enumerate(self.found.values()):
            calls.append(self._call(position, one, order, available | constants, where, holds))
            for name in calls[-1]["computes"]:
                available.add(name)
        nodes = {}
        for node in self.live.module.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            nodes[node.name] = self._where(node, where, constants)
        for name in (*self.eager.found, *self.inner):  # of a branch, or one of several that an operation changed
            if name not in nodes and name not in inputs and name not in given:
                base = where.get(self.layouts.base.get(name, ""))
                view = {"where": "view", "calls": base["calls"]} if base else {"where": "nowhere", "calls": []}
                nodes[name] = where.get(name, view)
        for name in self.few.keys() & nodes.keys():
            nodes[name] = {**nodes[name], "few": True}
        recorder = self.recorder
        buffers = {}
        for name, number in recorder.storages.items():
            buffers[name] = Buffer(
                allocation=f"m{number}",
                bytes=recorder.sizes[name],
                nodes=holds.get(name, []),
                written_by=[one["call"] for one in calls if name in one["writes"]],
                read_by=[one["call"] for one in calls if name in one["reads"]],
                returned=name in recorder.returned,
                input=name if name in recorder.inputs else None,
            )
        return Ties(format=FORMAT, inputs=runs, own=self.own, refused=None, seconds=0.0, calls=calls,
                    buffers=buffers, nodes=nodes)  # fmt: skip

    def _where(self, node: fx.Node, where: dict[str, dict[str, Any]], constants: set[str]) -> dict[str, Any]:
        assert self.layouts is not None
        base = self.layouts.base.get(node.name)
        if node.name in where:
            return where[node.name]
        if base is not None:
            return {"where": "view", "calls": where.get(base, {}).get("calls", [])}
        if node.op == "get_attr" or node.name not in self._from_inputs:
            return {"where": "constant", "calls": []}
        if node.name in constants:
            return {"where": "unseparated", "calls": []}
        if not isinstance(self.eager.raw.get(node.name), torch.Tensor):
            parts = [where[user.name] for user in node.users if user.name in where]
            if parts:
                return {"where": parts[0]["where"], "calls": sorted({one for part in parts for one in part["calls"]})}
        return {"where": "nowhere", "calls": []}

    def _call(
        self, position: int, found: _CallFound, order: dict[str, int], available: set[str],
        where: dict[str, dict[str, Any]], holds: dict[str, list[str]],
    ) -> Call:  # fmt: skip
        call, runs = found.call, found.runs
        own = self._owner(call.line)
        seen, computes = set(available), list[str]()
        lines: list[Line] = []
        carried = _carried(call.kernel_code.text) if call.kernel_code else _Carried(set(), {})
        kind = call.kind
        assert self.recorder is not None
        alias = self.recorder.alias
        for name in call.reads:
            # what was written as parts, and is read as a whole, holds no part's values
            covers = self.recorder.sizes.get(name, 0) <= self.recorder.sizes.get(alias.get(name, ""), 0)
            holds.setdefault(name, holds.get(alias.get(name, ""), []) if covers else [])
        loaded = {node for name in call.reads for node in (*holds[name], *holds.get(alias.get(name, ""), []))}
        seen |= loaded

        def first_of(nodes: list[str], place: str) -> bool:
            fresh = [name for name in nodes if name not in seen]
            for name in fresh:
                seen.add(name)
                computes.append(name)
            for name in nodes:
                if name not in available and name not in loaded:
                    entry = where.setdefault(name, {"where": place, "calls": []})
                    if position not in entry["calls"]:
                        entry["calls"].append(position)
            return bool(fresh)

        tied = list[Line]()
        for (line, name), one in sorted(found.lines.items()) if found.refused is None else ():
            nodes, part = self._settled(one, runs, order, own)
            if line in carried.lines:
                nodes, part = [], "accumulated"
            tied.append(Line(line=line, name=name, nodes=nodes, part=part, elements=one.elements, first=False))
        text = call.ran.text if call.ran is not None else ""
        if call.ran is not None:  # a line that reads memory has what is there, or what one of the two is made of
            texts = dict(enumerate(text.split("\n"), 1))
            writes = {one.memory.argument: one.line for one in reversed(call.ran.accesses) if one.stored}
            there: dict[str, list[str]] = {}  # by a value's name what is in the memory that it was read from
            for entry in tied:
                written = texts.get(entry["line"], "")
                pointer, cast = POINTER.search(written), CAST.search(written)
                if pointer and entry["line"] < writes.get(pointer[1], entry["line"] + 1):
                    there[entry["name"]] = holds.get(call.names.get(pointer[1], ""), [])
                else:
                    there[entry["name"]] = there.get(cast[1], []) if cast else []
                if held := there[entry["name"]]:
                    entry["nodes"] = [
                        node for node in entry["nodes"] if node in held
                        or (self.operations.get(node) != INPUT and self._follows(node, held))
                    ]  # fmt: skip
                    entry["part"] = entry["part"] if entry["nodes"] else None
        tied, shown = without_chance(tied, text, self.few, loaded, self.operations)
        for entry in tied:
            whole = entry["nodes"] if entry["part"] in WHOLE else []
            lines.append(Line(**{**entry, "first": first_of(whole, "line")}))
        for entry in lines:
            if entry["part"] == "accumulated":
                results = carried.results.get(entry["line"], [])
                entry["nodes"] = next((one["nodes"] for one in lines if one["line"] in results and one["nodes"]
                                       and one["part"] in WHOLE), [])  # fmt: skip
        stores: list[Store] = []
        for name, one in found.stores.items() if found.refused is None else ():
            nodes, part = self._settled(one, runs, order, own)
            if name not in self.recorder.inputs:  # an input of few kinds of values is there by chance
                nodes = [node for node in nodes if self.few.get(node) != INPUT]
            if text and kind == "kernel":
                unseen = {one for one in nodes if self.few.get(one) in TEXTS or shows(self.operations.get(one))}
                nodes = [node for node in nodes if node not in unseen or node in shown or node in loaded]
            if nodes and part in WHOLE:  # what has fewer elements is spread, and no more than in it
                same = [node for node in nodes if self.points[node] == one.elements // one.runs]
                nodes, part = (same, part) if same else (nodes, "repeated")
            store = Store(buffer=name, nodes=nodes, part=part, elements=one.elements, line=_stored_at(call, name))
            if not nodes and one.reduced and one.runs == runs:
                by = sorted(one.reduced.values())[0]
                nodes = [node for node in order if one.reduced.get(node) == by]
                store = Store(**{**store, "nodes": nodes, "part": "partial", "by": by})
            elif part in WHOLE:
                first_of(nodes, "library" if kind == "library" else "buffer")
            stores.append(store)
            holds[name] = store["nodes"] if store["part"] is None else []
        moves = [node for store in stores if store["part"] is None for node in store["nodes"] if node not in computes]
        sampled = call.ran.sampled if call.ran is not None else None
        return Call(
            call=position,
            kernel=call.kernel,
            line=call.line,
            kind=kind,
            status="refused" if found.refused else "verified",
            code=found.refused,
            detail=found.call.detail,
            sampled=None if sampled is None or call.ran is None else {"programs": sampled, "of": call.ran.programs},
            random=bool(call.ran and call.ran.random),
            lines=lines,
            computes=computes,
            moves=list(dict.fromkeys(moves)),
            reads=call.reads,
            writes=call.writes,
            in_place=[list(one) for one in dict.fromkeys(map(tuple, call.in_place))],
            stores=stores,
        )

    def _follows(self, node: str, held: list[str]) -> bool:
        """Whether a node is computed from what memory holds, or that from it; what a graph within has is not asked."""
        if not self.before:
            for number, one in enumerate(self.live.module.graph.nodes):  # a bit each: sets would grow with the square
                self.order[one.name], self.before[one.name] = number, 1 << number
                for each in one.all_input_nodes:
                    self.before[one.name] |= self.before[each.name]
        if not {node, *held} <= self.before.keys():
            return True
        return any((self.before[one] >> self.order[other]) & 1
                   for each in held for one, other in ((node, each), (each, node)))  # fmt: skip

    def _owner(self, line: int) -> str:
        """The graph within the graph in whose function a line of the wrapper stands, as its nodes' names begin."""
        functions = re.findall(r"(?m)^def (\w+)\(args\):|^(?=\S)", "\n".join(self.live.code.split("\n")[:line]))
        last = functions[-1] if functions else ""
        return f"{last}." if f"{last}." in self.eager.inner else ""

    def _settled(self, found: _Found, runs: int, order: dict[str, int], own: str) -> tuple[list[str], str | None]:
        """The nodes that hold on every run, the nearest only, and what part of the first it is.

        Args:
            found: what the runs show.
            runs: how many there were.
            order: of the nodes.
            own: how names begin of the graph within the graph that runs here; those of others are none.
        """
        matches = {name: one for name, one in found.matches.items() if name.rpartition(".")[0] in ("", own[:-1])}
        if found.runs < runs or not matches:
            return [], None
        worst = {name: max(one.error for one in many) for name, many in matches.items()}
        exact = {name: all(one.exact for one in many) for name, many in matches.items()}
        full = {name: all(one.full for one in many) for name, many in matches.items()}
        if any(full.values()):
            worst = {name: one for name, one in worst.items() if full[name]}
        best = min(worst.values())
        near = [name for name, one in worst.items() if one <= 4 * max(best, self._unit)]
        near.sort(key=lambda name: (not exact[name], bool(own) and not name.startswith(own), order.get(name, 0)))
        first = near[0]
        if not full[first]:
            return near, "slice"
        if not exact[first] and worst[first] > 0:
            return near, "before_cast"
        if not all(one.near for one in matches[first]):
            return near, "unrounded"
        return near, None


class Kinds:
    """The kinds of values that a node has on all runs, where they are one or two, and how many there are of each."""

    def __init__(self, wide: bool) -> None:
        self.wide, self.counts, self.runs, self.many = wide, dict[float, int](), 0, False

    def add(self, flat: torch.Tensor) -> None:
        self.runs += 1
        if self.many:
            return
        values, counts = torch.unique(flat.nan_to_num() if self.wide else flat, return_counts=True)
        for value, count in zip(values[:3].tolist(), counts[:3].tolist(), strict=True):
            self.counts[value] = self.counts.get(value, 0) + count
        self.many = len(self.counts) > 2

    def few(self) -> bool:
        """Whether another node, or a line of something else, may well have the same values by chance."""
        if self.many or not self.counts:
            return False
        if len(self.counts) == 1 and self.runs > 1:
            return True
        told = self.wide and any(math.fmod(value, 1 / 16) for value in self.counts if math.isfinite(value))
        return not told and sum(self.counts.values()) - max(self.counts.values()) < RARE


def _operation(node: fx.Node) -> str:
    """Of a node; of one of several results, what made them."""
    if node.op == "placeholder":
        return INPUT
    makes = node.all_input_nodes[0] if getattr(node.target, "__name__", "") == "getitem" else node
    return operation(makes.target)


def _whole_numbers(known: dict[str, Any]) -> dict[str, Any]:
    """Those of some inputs that are integers, or sizes."""
    return {name: one for name, one in known.items() if not isinstance(one, torch.Tensor) or graphs.is_whole(one)}


def _sizes(node: fx.Node) -> Sequence[Any]:
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()


def _from_inputs(module: fx.GraphModule) -> set[str]:
    """The nodes whose values depend on what a graph is given, or on chance."""
    made: set[str] = set()
    for node in module.graph.nodes:
        if (
            node.op == "placeholder"
            or "seed" in str(node.target)
            or any(one.name in made for one in node.all_input_nodes)
        ):
            made.add(node.name)
    return made


def _whole(matches: dict[str, Match]) -> dict[str, Match]:
    """Without those of which only some elements were met, where there are others."""
    whole = {name: one for name, one in matches.items() if one.full}
    return whole or matches


def _note(found: dict, key: Any, matches: dict[str, Match], elements: int, run: int, reduced: dict[str, str]) -> None:
    if key not in found:
        first = {name: [one] for name, one in matches.items()} if run == 0 else {}
        found[key] = _Found(first, elements, 1, reduced if run == 0 else {})
    else:
        found[key].meet(matches, elements, reduced)


def _stored_at(call: wrappers.Call, buffer: str) -> int | None:
    if call.ran is None:
        return None
    arguments = {argument for argument, name in call.names.items() if name == buffer}
    return next((one.line for one in call.ran.accesses if one.stored and one.memory.argument in arguments), None)


@dataclass
class _Carried:
    """Lines of a loop that go on with what an earlier turn left, and those after it that read what comes of it."""

    lines: set[int]
    results: dict[int, list[int]]


def _carried(text: str) -> _Carried:
    made = _Carried(set(), {})
    for function in [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef)]:
        for loop in [one for one in ast.walk(function) if isinstance(one, ast.For)]:
            _loop(loop, function, made)
    return made


def _names(node: ast.AST, kind: type) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, kind)}


def _loop(loop: ast.For, function: ast.FunctionDef, made: _Carried) -> None:
    statements = [one for one in ast.walk(loop) if isinstance(one, ast.Assign)]
    statements.sort(key=lambda one: one.lineno)
    assigned, early = set[str](), set[str]()
    for one in statements:
        early |= _names(one.value, ast.Load) - assigned
        assigned |= {name for target in one.targets for name in _names(target, ast.Store)}
    carried = early & assigned
    tainted = set(carried)
    lines: dict[str, list[int]] = {}
    for one in statements:
        if _names(one.value, ast.Load) & tainted:
            targets = {name for target in one.targets for name in _names(target, ast.Store)}
            tainted |= targets
            made.lines.add(one.lineno)
            for name in targets | (_names(one.value, ast.Load) & carried):
                lines.setdefault(name, []).append(one.lineno)
    after = [one for one in ast.walk(function) if isinstance(one, ast.Assign) and one.lineno > (loop.end_lineno or 0)]
    for name in carried:
        results = [one.lineno for one in after if name in _names(one.value, ast.Load)]
        for line in lines.get(name, []):
            made.results.setdefault(line, []).extend(results)


def _copied(value: Any) -> Any:
    """A tensor of the same layout, in memory of its own."""
    if not isinstance(value, torch.Tensor):
        return value
    storage = value.untyped_storage()
    size = storage.nbytes() // value.element_size()
    whole = value.detach().as_strided((size,), (1,), 0).clone()
    return whole.as_strided(value.size(), value.stride(), value.storage_offset())


__all__: Sequence[str] = ["Live", "all_ties", "ties_of"]
