"""One compile with everything watched; the raw material of a capture, as plain data.

The hooks are entered for the time of one call and leave nothing behind. What they see is kept by graph: Dynamo may
cut a model into several, and each has a forward and perhaps a backward.
"""

import contextlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from unittest import mock

import torch

from minicompile.torch_private import simulated, traffic
from minicompile.torch_private.calls import KernelCalls
from minicompile.torch_private.decisions import FusionDecisions
from minicompile.torch_private.line_hooks import LineHooks
from minicompile.torch_private.names import owner
from minicompile.torch_private.snapshot import fx_graph, lowered_graph, members

MARKS_ONLY = 2  # Inductor's level 1 also changes which source nodes the comments in Triton's code name
TRACE_LOGGER = "torch.__trace"  # what TORCH_TRACE writes goes through it


@dataclass
class Session:
    """What one compile left behind."""

    dynamo: list[dict] = field(default_factory=list)  # Dynamo's graphs, in order
    joint: dict[int, dict] = field(default_factory=dict)  # by Dynamo graph: forward and backward in one
    lowered: list[dict] = field(default_factory=list)  # a graph and a direction each
    bytecode: list[tuple] = field(default_factory=list)  # (the function's code, Dynamo's code)
    records: list[tuple] = field(default_factory=list)  # (artefact's name, metadata, payload)
    choices: list[dict] = field(default_factory=list)  # what autotuning timed
    graph_breaks: list[dict] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)  # seconds
    seconds: float = 0.0
    missing_hooks: list[str] = field(default_factory=list)

    def artefacts(self, name: str) -> list:
        """Payloads of the structured trace by their artefact's name."""
        return [payload for found, _, payload in self.records if found == name and payload]


class _TraceHandler(logging.Handler):
    """Structured-trace records, in the process: what TORCH_TRACE writes, without setting it before the import."""

    def __init__(self, records: list[tuple]) -> None:
        super().__init__(logging.DEBUG)
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None) or {}
        kind = next(iter(metadata), "")
        name = metadata[kind].get("name") if kind == "artifact" else kind
        self._records.append((name, metadata.get(kind), getattr(record, "payload", None)))


class _Watcher:
    """Sits in the hooks and files what they see under the graph that is being compiled."""

    def __init__(self, session: Session, target: str) -> None:
        self.session, self.target = session, target
        self.lines, self.decisions = LineHooks(), FusionDecisions()
        self.calls = KernelCalls(self.lines.definitions)
        self._index = 0  # of Dynamo's graph
        self._unfused: list[dict] = []
        self._alive: list = []  # graphs whose identities the origins of later nodes name

    def backend(self, module: torch.fx.GraphModule, inputs: list) -> Callable:
        """The backend that Dynamo calls with each graph."""
        index = len(self.session.dynamo)
        self._alive.append(module)
        self.session.dynamo.append(fx_graph(module))
        compile_fx = owner("compile_fx").compile_fx
        inner = partial(self._inner, index)
        if self.target != "simulated":
            return compile_fx(module, inputs, inner_compile=inner)
        # fused attention is chosen by the device, and this one cannot be asked: it is written out instead
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            copied = simulated.copied(module)  # the simulated results are made up from the original
            self._alive.append(copied)
            self.session.dynamo[index]["identity"] = id(copied.graph)
            compile_fx(copied, inputs, inner_compile=partial(self._moved, index))
        return partial(simulated.made_up_results, module)

    def _inner(self, index: int, module, inputs, **kwargs):
        self._index = index
        with contextlib.suppress(simulated.CodeWritten):
            return owner("compile_fx_inner").compile_fx_inner(module, inputs, **kwargs)
        return _never_run

    def _moved(self, index: int, module, inputs, **kwargs):
        """The inner compile of a graph that was traced and differentiated on the CPU."""
        with simulated.gpu_stand_in():
            return self._inner(index, *simulated.on_gpu(module, inputs), **kwargs)

    def joint(self, graph: torch.fx.Graph) -> None:
        """Joint graphs, and inference graphs, as AOT autograd hands them over."""
        module = torch.fx.GraphModule(graph.owning_module or torch.nn.Module(), graph)
        self._alive.append(graph)
        self.session.joint[len(self.session.dynamo) - 1] = {**fx_graph(module), "identity": id(graph)}

    def before_fusion(self, nodes: list) -> list:
        self._unfused = [
            {"name": member.get_name(), "text": member.debug_str()} for node in nodes for member in members(node)
        ]
        return nodes

    def code_written(self, code: str) -> None:
        graph, definitions = owner("V").V.graph, self.lines.take()
        self.session.lowered.append(
            {
                "index": self._index,
                **lowered_graph(graph, code),
                "ir_before": self._unfused,
                "decisions": self.decisions.take(),
                "calls": self.calls.calls,
                "definitions": definitions,
                "traffic": traffic.of_calls(graph, self.calls.calls, definitions),
            }
        )
        self._alive.append(graph.module)
        self._unfused = []
        if self.target == "simulated":
            raise simulated.CodeWritten

    def autotuned(self, timings, name, input_nodes, choices, *_) -> None:
        self.session.choices.append(
            {
                "graph": len(self.session.lowered),
                "operation": name,
                "timings": [
                    {"choice": getattr(choice, "name", str(choice)), "milliseconds": float(milliseconds)}
                    for choice, milliseconds in sorted(timings.items(), key=lambda one: one[1])
                ],
            }
        )


def _never_run(*_args):
    raise RuntimeError("code for the simulated target cannot run here")


def _configuration(watcher: _Watcher, options: dict) -> dict:
    return {
        "force_disable_caches": True,
        "trace.provenance_tracking_level": MARKS_ONLY,
        "joint_custom_pre_pass": watcher.joint,
        "_pre_fusion_custom_pass": watcher.before_fusion,
        **(simulated.CONFIG if watcher.target == "simulated" else {}),
        **options,
    }


def watch(call: Callable[[Callable], None], model: Callable, target: str, options: dict) -> Session:
    """Compile `model` with all hooks on.

    Args:
        call: runs the compiled model once (and its backward).
        model: a module or function.
        target: `cpu`, `cuda` or `simulated`.
        options: Inductor's configuration, over the user's own.
    """
    dynamo = owner("dynamo")
    session = Session()
    watcher = _Watcher(session, target)
    session.missing_hooks = watcher.lines.missing
    counters, timed = owner("counters").counters, owner("timed").compilation_time_metrics
    logger, handler = logging.getLogger(TRACE_LOGGER), _TraceHandler(session.records)
    dynamo.reset()
    counters.clear()
    timed.clear()
    with contextlib.ExitStack() as stack:
        logger.addHandler(handler)
        stack.callback(logger.removeHandler, handler)
        stack.callback(dynamo.reset)
        stack.enter_context(owner("config").patch(_configuration(watcher, options)))
        if target == "simulated":
            stack.enter_context(simulated.driver_stand_in())
        if target != "cpu":
            # the backward is lowered when it is run: on the simulated target never, on a GPU in a thread of autograd's,
            # where a torch later than 2.11 does not see the configuration of this one
            stack.enter_context(owner("functorch_config").patch(force_non_lazy_backward_lowering=True))
        for patch in (*watcher.lines.patches(), *watcher.decisions.patches(), *watcher.calls.patches()):
            stack.enter_context(patch)
        stack.enter_context(mock.patch.object(owner("save_output_code"), "save_output_code", watcher.code_written))
        hook = owner("bytecode_hook").register_bytecode_hook(lambda old, new: session.bytecode.append((old, new)))
        stack.callback(hook.remove)
        owner("feedback").add_feedback_saver(watcher.autotuned)
        stack.callback(owner("feedback").clear_feedback_savers)
        began = time.perf_counter()
        call(torch.compile(model, backend=watcher.backend))
        session.seconds = time.perf_counter() - began
        session.phases = {phase: sum(seconds) for phase, seconds in timed.items()}
        session.graph_breaks = [
            {"reason": reason, "count": count} for reason, count in counters.get("graph_break", {}).items()
        ]
    return session


def recompile_reasons(session: Session) -> list[str]:
    """Why Dynamo compiled a frame again."""
    return [text for payload in session.artefacts("recompile_reasons") for text in _texts(payload)]


def guards(session: Session) -> list[str]:
    """Dynamo's guards, a line each."""
    for name in ("dynamo_cpp_guards_str", "dynamo_guards"):
        if found := session.artefacts(name):
            return [line for payload in found for line in str(payload).splitlines()]
    return []


def _texts(payload: str) -> list[str]:
    value = json.loads(payload)
    return value if isinstance(value, list) else [str(value)]
