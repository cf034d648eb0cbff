"""Every compile while a watch is on; the raw material of captures, as plain data.

`watch` hooks into the place where torch.compile's default backend reaches Inductor, so that a compile keeps its own
mode, options and dynamic shapes. What the hooks see is kept by graph: Dynamo may cut a model into several and compile
each again, and each has a forward and perhaps a backward, lowered at once or when it is first run, in whatever thread.
The hooks leave nothing behind.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any
from unittest import mock

import torch

from minicompile.torch_private import gpu_decompositions, installed, simulated
from minicompile.torch_private.names import lookup, owner
from minicompile.verifying import user_kernels as verifying_user_kernels
from minicompile.verifying.graphs import is_whole
from minicompile.verifying.verify import LARGEST, Live, in_cpp
from minicompile.watching import user_kernels
from minicompile.watching.calls import KernelCalls
from minicompile.watching.choosing.choices import Choices
from minicompile.watching.collected import Session
from minicompile.watching.custom_passes import after
from minicompile.watching.decisions import FusionDecisions
from minicompile.watching.dynamo.frames import TRACE_LOGGER, FrameLog, TraceHandler, trace_patches
from minicompile.watching.line_hooks import LineHooks
from minicompile.watching.node_texts import NodeTexts
from minicompile.watching.parts import Parts
from minicompile.watching.snapshot import identities, lowered_graph, members, whole_fx_graph, with_subgraphs
from minicompile.watching.traffic import traffic

# Off: a wrapper is read in Python as Inductor writes it, and each call in it runs one kernel.
UNREADABLE: dict[str, int] = {"cpp_wrapper": False, "fx_wrapper": False, "triton.multi_kernel": 0}
MARKS_ONLY = 2  # Inductor's level 1 also changes which source nodes the comments in Triton's code name


class _Watcher:
    """Sits in the hooks and files what they see under the graph that is being compiled."""

    def __init__(self, session: Session, target: str | None, replay: Sequence[dict] = ()) -> None:
        self.session, self.target = session, target
        self.choices = session.choices = Choices(target, replay)
        self.lines, self.decisions = LineHooks(), FusionDecisions()
        self.calls, self.parts = KernelCalls(self.lines.definitions), Parts()
        self.frames = FrameLog(session)
        self.watching = True
        self._traced: int | None = None  # Dynamo's graph that AOT autograd is at
        self._index: int | None = None  # and that Inductor is at
        self._unfused: list[dict] = []
        self._given: dict[int, list] = {}  # by Dynamo graph what the model calls it with
        # Python gives the identity of a graph that is no more to the next; an origin would then name the wrong one.
        self._alive: list = []  # graphs whose identities the origins of later nodes name
        # What the hooks collect is one for all threads, and a backward may be compiled in another than its forward.
        self._one_at_a_time = threading.RLock()
        self._off: dict[str, dict[str, int]] = {
            "off_unreadable": UNREADABLE,
            "off_untimed": simulated.UNTIMED if target == "simulated" else {},
        }

    def entered(self, compile_fx: Callable) -> Callable:
        """In the place of `compile_fx`, through which each graph of the default backend goes."""

        def watched(module, inputs, *args, **kwargs):
            if not self.watching or args or "inner_compile" in kwargs:  # it calls itself, and other backends call it
                return compile_fx(module, inputs, *args, **kwargs)
            self.choices.forget()
            index = self._begin(module, inputs)
            kwargs = self._turned_off(index, kwargs)
            before, self._traced = self._traced, index
            try:
                with owner("config").patch(self._configuration()):
                    if self.target == "simulated":
                        return self._simulated(compile_fx, index, module, inputs, **kwargs)
                    return compile_fx(module, inputs, inner_compile=partial(self._inner, index), **kwargs)
            finally:
                self._traced = before

        return watched

    def _turned_off(self, index: int, kwargs: dict) -> dict:
        """What `compile_fx` is given, without settings that are off; a warning names those that were on."""
        options = kwargs.get("config_patches") or {}
        for code, settings in self._off.items():
            names = [name for name in settings if options.get(name, _setting(name))]
            warning = {"code": code, "names": names, "model": self.session.dynamo[index]["model"]}
            if names and warning not in self.session.warnings:
                self.session.warnings.append(warning)
        off = {name for settings in self._off.values() for name in settings}
        kept = {name: value for name, value in options.items() if name not in off}
        return {**kwargs, "config_patches": kept} if options else kwargs

    def _begin(self, module: torch.fx.GraphModule, inputs: list) -> int:
        self._alive.append(module)
        nothing: dict[str, Any] = {"text": "", "nodes": [], "identities": {}}
        recorded = self._recorded("dynamo", partial(whole_fx_graph, module)) or nothing
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        on_gpu = any(tensor.device.type == "cuda" for tensor in tensors)
        index = len(self.session.dynamo)
        model = self.frames.graph_begins(index)
        if sum(tensor.numel() for tensor in tensors) <= LARGEST:
            self._given[index] = [_held(one) for one in inputs]
        self.session.dynamo.append({**recorded, "model": model, "on_gpu": on_gpu})
        return index

    def _simulated(self, compile_fx: Callable, index: int, module, inputs, **kwargs) -> Callable:
        # fused attention is chosen by the device, and this one cannot be asked: it is written out instead
        with (
            torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
            gpu_decompositions.composites(),
            gpu_decompositions.traced_on("cpu"),
            # a backward that is lowered when it is run would never be
            owner("functorch_config").patch(force_non_lazy_backward_lowering=True),
        ):
            copied = simulated.copied(module)  # the results are made up from the original
            self._alive.append(copied)
            self.session.dynamo[index]["identities"] = identities(copied)
            table = gpu_decompositions.table()
            compile_fx(copied, inputs, inner_compile=partial(self._moved, index), decompositions=table, **kwargs)
        return partial(simulated.results, module)

    def _inner(self, index: int, module, inputs, **kwargs):
        compile_fx_inner = owner("compile_fx_inner").compile_fx_inner
        if not self.watching:  # a backward that is first run later
            return compile_fx_inner(module, inputs, **kwargs)
        # A backward that is lowered when it is first run finds the settings of that moment, not those of its forward.
        with self._one_at_a_time, owner("config").patch(self._configuration()):
            self._forget()
            before, self._index = self._index, index
            try:
                with contextlib.suppress(simulated.CodeWritten):
                    return compile_fx_inner(module, inputs, **kwargs)
            finally:
                self._index = before
        return _never_run

    def _moved(self, index: int, module, inputs, **kwargs):
        """The inner compile of a graph that was traced and differentiated on the CPU."""
        with simulated.gpu_stand_in(), gpu_decompositions.traced_on("cuda"):
            return self._inner(index, *simulated.on_gpu(module, inputs), **kwargs)

    def _forget(self) -> None:
        """What the hooks saw of a compile that is not watched is not the next one's."""
        self.lines.take()
        self.decisions.take()
        self.calls.take()
        self.calls.take_workspaces()
        self.parts.forget()
        self._unfused = []

    def _configuration(self) -> dict:
        config = owner("config")
        ours: dict[str, Any] = {
            # A graph that comes out of a cache is not lowered, and the hooks would see nothing of it.
            "force_disable_caches": True,
            "trace.provenance_tracking_level": MARKS_ONLY,
            "joint_custom_pre_pass": after(config.joint_custom_pre_pass, self.joint),
            "_pre_fusion_custom_pass": after(config._pre_fusion_custom_pass, self.before_fusion),
        }
        for settings in self._off.values():
            ours |= {name: off for name, off in settings.items() if _setting(name) is not None}
        return {**ours, **(simulated.CONFIG if self.target == "simulated" else {}), **self.choices.configuration()}

    def joint(self, graph: torch.fx.Graph) -> None:
        """Joint graphs, and inference graphs, as AOT autograd hands them over."""
        if self._traced is None:
            return
        module = graph.owning_module
        if not isinstance(module, torch.fx.GraphModule) or module.graph is not graph:  # making one compiles its text
            module = torch.fx.GraphModule(module or torch.nn.Module(), graph)
        self._alive.append(graph)
        if recorded := self._recorded("joint", partial(whole_fx_graph, module)):
            text = recorded["text"].replace(f"class {type(module).__name__}(", "class GraphModule(", 1)
            known = {**identities(module), id(graph): ""}
            self.session.joint[self._traced] = {**recorded, "text": text, "identities": known}

    def before_fusion(self, nodes: list) -> list:
        # Fusion puts groups in the place of nodes; what each was alone can only be written down before.
        found = [{"name": one.get_name(), "text": one.debug_str()} for node in nodes for one in members(node)]
        self._unfused += found  # of subgraphs too
        return nodes

    def code_written(self, code: str) -> None:
        if self._index is None:
            return
        graph = owner("V").V.graph
        self._recorded("lowered", partial(self._lowered, graph, code))
        self._alive.append(graph.module)
        if self.target == "simulated":
            raise simulated.CodeWritten

    def _lowered(self, graph, code: str) -> None:
        inner = list(self.calls.subgraphs)
        subgraphs = {}
        for one in inner:
            with owner("V").V.set_graph_handler(one):  # a node that prints itself asks for its buffers there
                subgraphs[one.name] = lowered_graph(one, "", self.parts.of(one))
        calls, definitions = self.calls.take(), self.lines.take()
        made = {
            "index": self._index,
            **with_subgraphs(lowered_graph(graph, code, self.parts.of(graph)), subgraphs),
            "ir_before": self._unfused,
            "decisions": self.decisions.take(),
            "choices": self.choices.take(graph),
            "calls": calls,
            "definitions": definitions,
            "workspaces": self.calls.take_workspaces(),
            "traffic": traffic.of_calls([graph, *inner], calls, definitions),
            "kernel_files": user_kernels.files_of([graph, *inner]),
        }
        with contextlib.suppress(Exception):  # without it a graph is not verified, and is recorded all the same
            given = self._given.get(self._index or 0, [])
            made["live"] = _live(graph, made, [] if made["backward"] else given)
        self.session.lowered.append(made)
        self.parts.forget()
        self._unfused = []

    def _recorded(self, what: str, record: Callable[[], Any]) -> Any:
        """What `record` gives; where it fails, a warning is kept and the compile goes on as if nobody watched."""
        try:
            return record()
        except Exception as error:  # of whatever kind: it is the record's, not the compile's
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            number = self._index if self._index is not None else self._traced
            model = None if number is None or number >= len(self.session.dynamo) else number
            owner_of = None if model is None else self.session.dynamo[model]["model"]
            self.session.warnings.append({"code": "not_recorded", "what": what, "reason": reason, "model": owner_of})
            return None


def _setting(name: str) -> Any:
    """One of Inductor's settings; None where the installed torch has no such one."""
    return reduce(lambda at, part: getattr(at, part, None), name.split("."), owner("config"))


def _held(given: Any) -> Any:
    """An input as it is now, where it is integers: what is done to them later may lead outside of a table."""
    return given.detach().clone() if type(given) is torch.Tensor and is_whole(given) else given


def _live(graph, made: dict, given: list) -> Live:
    """What it takes to run the graph and its code."""
    constants = {**getattr(graph, "constants", {}), **getattr(graph, "torchbind_constants", {})}
    proposed = {one["name"]: one["node"] for one in made["buffers"]}
    users = verifying_user_kernels.noted(graph.module)
    pick = lookup("pick_vec_isa") if in_cpp(made["code"]) else None  # it compiles to know, which can take a minute
    vectors = pick() if pick else None
    return Live(graph.module, made["code"], constants, proposed, users, given, made["index"], made["backward"],
                vectors=vectors)  # fmt: skip


def _never_run(*_args):
    raise RuntimeError("code for the simulated target cannot run here")


@contextlib.contextmanager
def watch(target: str | None = None, replay: Sequence[dict] = ()) -> Iterator[Session]:
    """Watch every compile of torch.compile's default backend until the context is left.

    Args:
        target: `simulated` to write Triton for an H200 instead, of which nothing runs; None to change nothing.
        replay: on the simulated target, choices that a clock made on a real device.

    Yields:
        What has been seen so far; `seconds` and `phases` are complete when the context is left.
    """
    installed.begin()
    session = Session()
    watcher = _Watcher(session, target, replay)
    session.missing_hooks = watcher.lines.missing
    timed = owner("timed").compilation_time_metrics
    # torch keeps the times of all compiles of the process; those from before are none of ours.
    before = {phase: len(seconds) for phase, seconds in timed.items()}
    logger, handler = logging.getLogger(TRACE_LOGGER), TraceHandler(watcher.frames.traced)
    inductor = owner("compile_fx")
    with contextlib.ExitStack() as stack:
        # A backward that is compiled after the watch was given our inner compile, and must find that nobody watches.
        stack.callback(setattr, watcher, "watching", False)
        logger.addHandler(handler)
        stack.callback(logger.removeHandler, handler)
        for patch in trace_patches(handler):
            stack.enter_context(patch)
        if target == "simulated":
            stack.enter_context(simulated.driver_stand_in())
        seen = (watcher.lines, watcher.decisions, watcher.calls, watcher.parts, watcher.frames, watcher.choices)
        for hooks in (*seen, NodeTexts()):
            for patch in hooks.patches():
                stack.enter_context(patch)
        stack.enter_context(mock.patch.object(inductor, "compile_fx", watcher.entered(inductor.compile_fx)))
        stack.enter_context(mock.patch.object(owner("save_output_code"), "save_output_code", watcher.code_written))
        hook = owner("bytecode_hook").register_bytecode_hook(watcher.frames.rewritten)
        stack.callback(hook.remove)
        try:
            yield session
        finally:
            for phase, seconds in timed.items():
                if taken := seconds[before.get(phase, 0) :]:
                    session.phases[phase] = sum(taken)
            session.seconds = sum(one["seconds"] for one in session.compiles)


@contextlib.contextmanager
def fresh_dynamo() -> Iterator[None]:
    """Dynamo as if nothing had been compiled in this process, and again so afterwards."""
    # A frame that was compiled before is not compiled again, and a watch would see nothing of it.
    dynamo = owner("dynamo")
    dynamo.reset()
    try:
        yield
    finally:
        dynamo.reset()
