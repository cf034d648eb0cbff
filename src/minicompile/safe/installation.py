"""Puts compiled code into a model's modules, and takes it out again."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from minicompile.safe.compile_config import CompileConfig
from minicompile.safe.failures import NothingCompiled
from minicompile.safe.selection import Selection
from minicompile.safe.watch import Watch
from minicompile.torch_private import dynamo as dynamo_internals
from minicompile.torch_private.tensors import COMPILED_CALL, uncompiled_call

BLOCKED = "in the blocklist of maybe_compile"


class StaysEager:
    """A module's `forward` where Dynamo must not look: put in the place of the instance's own.

    An object and not a function, so that a module that carries one still pickles and deep-copies.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.own_forward = vars(module).get("forward")

    @torch.compiler.disable(reason=BLOCKED)
    def __call__(self, *args: object, **kwargs: object) -> object:
        if self.own_forward is not None:
            return self.own_forward(*args, **kwargs)
        return type(self.module).forward(self.module, *args, **kwargs)


@dataclass(frozen=True)
class Compiled:
    """One module's compiled call, and where it sits.

    `_compiled_call_impl` is the place that torch made for it. Under FSDP2 `forward` is taken instead, so that
    the hooks that gather and scatter run once, outside, whatever becomes of the compiled code.
    """

    module: nn.Module
    call: Callable

    @property
    def slot(self) -> str:
        return "forward" if dynamo_internals.is_fsdp(self.module) else COMPILED_CALL

    def put(self, call: Callable | None = None) -> None:
        """Have the module called through `call`, which is the compiled call by default."""
        setattr(self.module, self.slot, call or self.call)

    def guarded(
        self, on_failure: Callable[[Exception], None], failures: tuple[type[Exception], ...] | None = None
    ) -> Callable:
        """Wrap the compiled call so that a compile that fails is reported and the call runs eager.

        `failures` are the exceptions that count as one; None takes those of the compiler. An input that eager refuses
        as well is the caller's mistake: eager's exception is raised, nothing is reported. A failure after a graph
        break runs the whole call again, the part before the break for the second time: a buffer updated there, such
        as BatchNorm's averages, is updated twice in that one call.
        """
        compiled, reference = self.call, weakref.ref(self.module)
        eager = type(self.module).forward if self.slot == "forward" else uncompiled_call(type(self.module))
        failures = failures or dynamo_internals.compile_errors()

        def call(*args: object, **kwargs: object) -> object:
            try:
                return compiled(*args, **kwargs)
            except failures as error:
                module = reference()
                if module is None:
                    raise
                output = eager(module, *args, **kwargs)
                on_failure(error)
                return output

        return call


def install(selection: Selection, cfg: CompileConfig, watch: Watch, undo: ExitStack) -> list[Compiled]:
    """Compile the selected modules in place and keep the blocked ones from the compiler.

    Blocked functions are wrapped where they are defined and where the model's files refer to them, for the
    whole process, until `undo` is closed.

    Args:
        undo: given what takes everything out again. It holds the modules weakly: it outlives no model.

    Returns:
        The compiled modules.

    Raises:
        Exception: what `torch.compile` raises at once, such as for an unknown backend or option.
    """
    for places in selection.blocked_functions.values():
        for owner, attribute in places:
            _block(owner, attribute)
            undo.callback(_unblock, owner, attribute)
    for module in selection.blocked_modules.values():
        own = vars(module).get("forward")
        module.forward = StaysEager(module)
        undo.callback(_put_attribute, weakref.ref(module), "forward", own)
    if any(isinstance(module, torch.jit.ScriptModule) for module in selection.compiled.values()):
        sentence = "the model is TorchScript, which torch.compile leaves alone; give the nn.Module that it was made of."
        raise NothingCompiled(sentence, "nothing_compiled")
    inner = dynamo_internals.inner_backend(cfg.backend, cfg.mode, cfg.options, cfg.dynamic)
    watch.backend = inner
    undo.callback(watch.coverage.disarm)
    compiled = []
    for name, module in selection.compiled.items():
        entry = _entry(module)
        # Modules of one class may share their graphs; a model of its own shares with no other.
        call = dynamo_internals.torch_compile(
            entry,
            isolated=len(selection.compiled) == 1,
            backend=watch,
            dynamic=cfg.dynamic,
            fullgraph=cfg.fullgraph,
        )
        compiled.append(Compiled(module, call))
        slot = compiled[-1].slot
        watch.coverage.add(name, module, slot, entry)
        own = vars(module).get(slot) or None  # not a notice (`safe.coverage.notices`) of a model around it
        undo.callback(_put_attribute, weakref.ref(module), slot, own)
        compiled[-1].put()
    return compiled


def _entry(module: nn.Module) -> Callable:
    """Choose what to hand to `torch.compile` for a module.

    Dynamo does not begin in a frame of torch.nn: `nn.Sequential(...).compile()` compiles nothing, and says nothing.
    Such a module gets a frame of its own around it, with a code object of its own, by which Dynamo keeps its graphs.
    """
    inner = module.forward if dynamo_internals.is_fsdp(module) else uncompiled_call(module)
    if not dynamo_internals.passes_over(type(module).forward):
        return inner

    def enter(*args: object, **kwargs: object) -> object:
        return inner(*args, **kwargs)

    enter.__code__ = enter.__code__.replace()
    return enter


@dataclass
class Blocked:
    """A function that is kept from the compiler: how many models ask for it, and what it was before the first did."""

    models: int
    function: object


_blocked: dict[tuple[object, str], Blocked] = {}


def _block(owner: object, attribute: str) -> None:
    """Wrap a function of a module or a class for one more model."""
    blocked = _blocked.get((owner, attribute))
    if blocked is None:
        saved = vars(owner)[attribute]
        setattr(owner, attribute, _disabled(saved))
        _blocked[owner, attribute] = Blocked(1, saved)
    else:
        blocked.models += 1


def _unblock(owner: object, attribute: str) -> None:
    """Give the function back once the last model that blocked it is eager again."""
    blocked = _blocked[owner, attribute]
    blocked.models -= 1
    if blocked.models == 0:
        setattr(owner, attribute, _blocked.pop((owner, attribute)).function)


def _disabled(function: object) -> object:
    if isinstance(function, staticmethod | classmethod):
        return type(function)(torch.compiler.disable(function.__func__, reason=BLOCKED))
    return torch.compiler.disable(function, reason=BLOCKED)


def _put_attribute(reference: weakref.ref, name: str, value: object) -> None:
    module = reference()
    if module is None:
        return
    if value is None:
        vars(module).pop(name, None)
    else:
        vars(module)[name] = value


@contextmanager
def eager_calls(model: nn.Module) -> Iterator[None]:
    """Call the modules of `model` as if nothing had been compiled, without a detour through the compiler."""
    taken = []
    for module in model.modules():
        slot = Compiled(module, module).slot
        call = vars(module).pop(slot, None)
        if call is not None:
            taken.append((module, slot, call))
    try:
        yield
    finally:
        for module, slot, call in taken:
            setattr(module, slot, call)
