"""Knows which of a model's modules run compiled code, and which calls do not.

Dynamo tells of a frame that it was compiled, and nothing of a call that was not. Two things look, and neither is on the
path of a call that runs compiled code: an entrance stands before a compiled module until one of its calls has reached
compiled code, and again once there is a doubt; then it gives the place back to the call that was there. In each module
within lies a notice (`minicompile.safe.coverage.notices`).
"""

import weakref
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType

import torch
from torch import nn

from minicompile.safe.coverage.notices import Notice, RoundCall, lies_in, methods_that_call_forward, round_call
from minicompile.safe.coverage.parts import WHOLE, WHY, Part, Ran, codes_of, now
from minicompile.safe.coverage.unguarded import Unguarded, hooks_within
from minicompile.safe.selection import CONTAINERS
from minicompile.torch_private import dynamo as dynamo_internals
from minicompile.torch_private import running
from minicompile.torch_private.tensors import COMPILED_CALL

ROUND_CALLS = 3  # of one module past the compiled code before it is said: one may be a look at shapes
ENTRANCE = "entrance of maybe_compile"


class Coverage:
    """What is known of one model's modules: which run compiled, which eager and why, and which calls go round.

    Args:
        say: called with a sentence that belongs in the log.

    Attributes:
        graphs: how many were compiled in this process.
        gave_up: frames that Dynamo compiles no more or never could, as its warnings write them -> the code of why.
        listening: whether to hear of calls that go round the compiled code: not while the model is being tried.
    """

    # No `__dict__`: who puts back a model and all that it holds must not put back what is known of its calls.
    __slots__ = (
        *("__weakref__", "_blocked", "_eager_kinds", "_kinds", "_limited_since", "_notices", "_parts", "_root"),
        *("_skipped", "_within", "gave_up", "graphs", "_round_calls", "listening", "say"),
    )

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.graphs = 0
        self.gave_up: dict[str, str] = {}
        self._round_calls: list[RoundCall] = []
        self.listening = False
        self._root: Callable[[], nn.Module | None] = lambda: None
        self._parts: dict[str, Part] = {}
        self._blocked: set[int] = set()  # identities of modules that are eager by choice
        self._notices: list[Notice] = []
        self._within: dict[str, str] = {}  # modules within a part that run eager -> why
        self._kinds: set[type] = set()  # classes of modules in whose calls a graph was compiled
        self._eager_kinds: dict[type, str] = {}  # ... that run eager -> why: Dynamo says it of the first of a class
        self._skipped: dict[CodeType, str] = {}  # -> why, in a sentence
        self._limited_since: str | None = None

    def add(self, name: str, module: nn.Module, slot: str, entry: Callable) -> None:
        """Know a module that has just been compiled, is called through its attribute `slot`, and begins at `entry`."""
        begins = entry if isinstance(entry, FunctionType) else type(module).forward
        part = Part(name, weakref.ref(module), slot, codes_of(begins))
        known = self._parts.get(name)
        if known is not None:
            part.known, part.eager = known.known, known.eager
        self._parts[name] = part

    def arm(self, root: nn.Module, blocked: Iterable[nn.Module]) -> None:
        """Put an entrance before each part of a model and a notice into each module within, the blocked ones apart."""
        self._root = weakref.ref(root)
        self._blocked = {id(inner) for module in blocked for inner in module.modules()}
        for part in self._parts.values():
            self._stand_before(part)
            self._lay_notices(part)

    def disarm(self) -> None:
        """Take the notices out again."""
        for notice in self._notices:
            notice.pick_up()
        self._notices.clear()

    def found(self) -> Ran:
        """Return what the calls so far have shown. A part that was never called is said to be eager for that."""
        for part in self._parts.values():
            if not part.known:
                part.eager = "never_called"
        return Ran({name: part.eager for name, part in self._parts.items()}, dict(self._within))

    def hear(self, ran: Ran) -> None:
        """Take over what was found in another process, before the parts are compiled in this one."""
        for name, why in ran.parts.items():
            self._parts[name] = Part(name, lambda: None, "", frozenset(), known=True, eager=why)
        self._within.update(ran.within)

    def hear_limit(self, frame: str, limit: str) -> None:
        """Hear that Dynamo compiles a frame no more: calls for which nothing was compiled run eager from now on."""
        self.gave_up[frame] = limit
        if self.listening:
            self._limited_since = self._limited_since or now()

    def hear_skip(self, code: CodeType, reason: str) -> None:
        """Hear that Dynamo runs a frame eager, for good where a mode of torch's was on when it looked at it."""
        parts = [part for part in self._parts.values() if code in part.codes and self._gave_up(part) is None]
        were_compiled = [part for part in parts if part.known and part.eager is None]
        under_a_mode = running.under_a_mode()
        if were_compiled or (parts and under_a_mode):  # it skips a frame with nothing to compute as well
            self._skipped[code] = f"{WHY['skipped']} ({reason})"
            # Other modules of the class share the frame, and may have graphs that they still find: their calls tell.
            calls = running.compiled_calls() if under_a_mode else []
            self._left([part for part in were_compiled if part.called_by(calls)], "skipped")
            for part in parts:
                self._stand_before(part)  # until Dynamo is reset

    def eager(self) -> dict[str, str]:
        """Return which modules run eager, by name, and the code of why; of nested ones the outermost."""
        parts = {part.name: part.eager for part in self._parts.values() if part.eager is not None}
        within = {
            name: why
            for name, why in self._within.items()
            if not any(lies_in(name, other) for other in (*parts, *self._within) if other != name)
        }
        return {name or WHOLE: why for name, why in (parts | within).items()}

    def compiled(self) -> list[str]:
        """Return the names of the parts that run compiled, or will at their first call."""
        return [part.name or WHOLE for part in self._parts.values() if part.eager is None]

    def left_since(self) -> str | None:
        """Return when the first of the parts that run eager now, and ran compiled before, began to: all its calls, or,
        past a limit, those for which nothing was compiled."""
        return min(filter(None, (self._limited_since, *(part.since for part in self._parts.values()))), default=None)

    def round_calls(self) -> list[RoundCall]:
        """Return what goes round the compiled code: as it was seen, or, of a module that has none within, as it is
        written."""
        modules = [part.module() for part in self._parts.values()]
        alone = {type(module): None for module in modules if module is not None and not any(module.children())}
        written = [call for kind in alone for call in methods_that_call_forward(kind)]
        return list(dict.fromkeys([*self._round_calls, *written]))

    def unguarded(self) -> list[Unguarded]:
        """Return what shows now of what compiled code depends on and no guard looks at."""
        return hooks_within(self._notices)

    @torch.compiler.disable
    def called(self, notice: Notice) -> tuple[int, running.Hits] | None:
        """Hear that Python calls a module; what is returned tells later what the call has reached."""
        if running.everything_eager() or running.by_choice():
            return None
        if not running.compiled_calls():
            self._note_round_call(notice)
            return None
        notice.pick_up()  # it is called so each time: once is enough
        if notice.part.reached:
            self._stand_before(notice.part)
        hits = running.Hits()
        hits.begin()
        return self.graphs, hits

    @torch.compiler.disable
    def returned(self, notice: Notice, look: tuple[int, running.Hits], done: bool) -> None:
        """Hear that a module which Python called in a compiled call is through; `done` where it returned."""
        graphs, hits = look
        count, module = hits.end(), notice.module()
        if not done or module is None:
            return
        if self._has_reached(type(module), graphs, count):
            self._within.pop(notice.name, None)
        else:
            self._within[notice.name] = self._gave_up(notice.part) or "graph_break"

    def _stand_before(self, part: Part) -> None:
        """Look at a part's next calls, until one reaches compiled code."""
        module = part.module()
        call = None if module is None else vars(module).get(part.slot)
        if call is None or getattr(call, "__name__", None) == ENTRANCE:
            return

        def entrance(*args: object, **kwargs: object) -> object:
            if running.everything_eager():  # says nothing of the part
                return call(*args, **kwargs)
            graphs, breaks, hits = self.graphs, dynamo_internals.breaks_so_far(), running.Hits()
            hits.begin()
            try:
                output = call(*args, **kwargs)
            finally:
                count = hits.end()
            module = part.module()
            reached = module is not None and self._has_reached(type(module), graphs, count)
            if module is not None and (reached or not (running.by_choice() or running.compiled_calls())):
                self._decide(part, module, reached, broke=dynamo_internals.breaks_so_far() > breaks)
                if reached and vars(module).get(part.slot) is entrance:
                    vars(module)[part.slot] = call
            return output

        entrance.__name__ = ENTRANCE
        vars(module)[part.slot] = entrance

    def _lay_notices(self, part: Part) -> None:
        module = part.module()
        for name, inner in () if module is None else module.named_modules(prefix=part.name):
            known = isinstance(inner, (*CONTAINERS, torch.jit.ScriptModule)) or dynamo_internals.is_fsdp(inner)
            if inner is module or known or id(inner) in self._blocked or vars(inner).get(COMPILED_CALL) is not None:
                continue
            self._notices.append(Notice(self, name, part, inner))
            self._notices[-1].lie()

    def _has_reached(self, kind: type, graphs_before: int, hits: int) -> bool:
        """Whether a call of a module of the class `kind` has run a compiled graph."""
        if self.graphs > graphs_before:
            self._kinds.add(kind)
        # Dynamo keeps code without a graph, too, where there was nothing to compute between two breaks.
        return self.graphs > graphs_before or (hits > 0 and kind in self._kinds)

    def _decide(self, part: Part, module: nn.Module, reached: bool, broke: bool) -> None:
        """Conclude from a call of a part."""
        if reached:
            if part.since is not None:  # all that is within was called by Python meanwhile
                self._within = {name: why for name, why in self._within.items() if not lies_in(name, part.name)}
                self._lay_notices(part)
            for code in part.codes:
                self._skipped.pop(code, None)
            part.known = part.reached = True
            part.eager = part.since = None
            for notice in self._notices:
                inner = notice.module()
                if notice.part is part and notice.hooks is None and inner is not None:
                    notice.hooks = running.hooks_of(inner)
            return
        limit = self._gave_up(part)
        failed = any(
            metrics.failure and metrics.function in part.frames() for metrics in dynamo_internals.frame_metrics()
        )
        skipped = not part.codes.isdisjoint(self._skipped)
        why = limit or ("skipped" if skipped else "not_compiled" if failed else "graph_break" if broke else None)
        if part.known and part.eager is None:
            if not (limit and why == limit and part.reached):  # past a limit, other calls still have their graphs
                self._left([part], why or "left")
        elif part.since is None:
            why = why or self._eager_kinds.get(type(module)) or "nothing_to_compute"
            self._eager_kinds.setdefault(type(module), why)
            part.known, part.eager = True, why

    def _gave_up(self, part: Part) -> str | None:
        """Why Dynamo compiles the frames of a part no more, or never could; None where it does."""
        return next((self.gave_up[frame] for frame in part.frames() if frame in self.gave_up), None)

    def _left(self, parts: list[Part], why: str) -> None:
        """Note that parts which ran compiled do so no more."""
        since = now()
        for part in parts:
            part.eager, part.since = why, since
        if parts:
            names = ", ".join(part.name or WHOLE for part in parts)
            skipped = (self._skipped[code] for code in parts[0].codes if code in self._skipped)
            self.say(f"calls of {names} run eager since {since}: {next(skipped, WHY[why])}")

    def _note_round_call(self, notice: Notice) -> None:
        notice.calls += self.listening
        root = self._root()
        if notice.calls < ROUND_CALLS or root is None:
            return
        notice.pick_up()
        found = round_call(notice, root, notice.part.name)
        if found not in self._round_calls:
            self._round_calls.append(found)
            self.say(str(found))
