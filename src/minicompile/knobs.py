"""The knobs of what-if: ten settings of torch.compile that change the code which it writes, in one table.

These ten teach, and have pages. Any other switch of Inductor's can be flipped by its own name; `minicompile switches`
finds those that change a model's code (`minicompile.switches`).

A knob is flipped from `before`, torch's own setting unless the table says another, to `after`. Most are options of
Inductor's; two change how the model is compiled instead, and `change` says which of them by a code:

- `attention`: before, attention is written out (MiniGPT's own; `scaled_dot_product_attention` by its MATH path), after
  it is torch's fused operator.
- `dynamic`: before, sizes are constants of the code, after they are its arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minicompile.lowering.captured import Kind
from minicompile.torch_private.names import owner
from minilab import LabError

CPU: tuple[Kind, ...] = ("cpu",)
ON_TRITON: tuple[Kind, ...] = ("cuda", "simulated")
REAL: tuple[Kind, ...] = ("cpu", "cuda")
EVERYWHERE: tuple[Kind, ...] = ("cpu", "cuda", "simulated")
# Matrix products as templates of Inductor's own, which alone have an epilogue that something can be fused into; on a
# CPU they want weights that are constants.
TEMPLATES = {"max_autotune": True, "max_autotune_gemm_backends": "CPP,TRITON", "freezing": True}


@dataclass(frozen=True)
class Knob:
    """A setting to flip.

    Attributes:
        name: what it is called on the command line, in results and in the pages' words.
        asks: the count that a reader guesses before seeing the answer, one of `minicompile.lowering.counts.COUNTS`.
        targets: what it acts on.
        before, after: Inductor's options on either side, where they are not its own defaults.
        change: what is changed that is no option: `attention`, `dynamic` or None.
    """

    name: str
    asks: str
    targets: tuple[Kind, ...]
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    change: str | None = None

    @property
    def flipped(self) -> list[str]:
        """Names of the options that differ between the sides."""
        options = dict.fromkeys([*self.before, *self.after])
        return [name for name in options if self.before.get(name) != self.after.get(name)]


TABLE = (
    Knob("fusion", "generated_launches", EVERYWHERE, after={"max_fusion_size": 1}),
    Knob("inplace_buffers", "kernels", EVERYWHERE, after={"inplace_buffers": False}),
    Knob("online_softmax", "lines", ON_TRITON, after={"online_softmax": False}),
    Knob("persistent_reductions", "lines", ON_TRITON, after={"triton.persistent_reductions": False}),
    Knob("attention", "launches", REAL, change="attention"),
    Knob("dynamic_shapes", "lines", EVERYWHERE, change="dynamic"),
    Knob(
        "epilogue_fusion", "generated_launches", REAL, before=TEMPLATES, after={**TEMPLATES, "epilogue_fusion": False}
    ),
    Knob("loop_order", "bytes", EVERYWHERE, after={"pick_loop_orders": False, "loop_ordering_after_fusion": False}),
    Knob("max_autotune", "library_launches", REAL, after={"max_autotune": True}),
    Knob("vectors", "lines", CPU, after={"cpp.simdlen": 0}),
)
KNOBS = {knob.name: knob for knob in TABLE}


def knob_for(name: str, target: str) -> Knob:
    """The knob of that name, for a target that it acts on, in the installed torch; or a switch of Inductor's as one.

    Args:
        name: of the table, or a switch's, `triton.nested_reduction`, which is flipped; `numerics=strict` says to what.
        target: what is compiled for.

    Raises:
        LabError: there is no such knob; it changes nothing on the target; the installed torch does not have it.
    """
    import torch  # here: the workflow lists knobs and needs no torch

    knob = KNOBS[name] if name in KNOBS else _switch(name)
    if target not in knob.targets:
        acting = [one.name for one in TABLE if target in one.targets]
        raise LabError(
            f"the knob {name} acts on {', '.join(knob.targets)} and not on {target!r}; write one of those targets, or "
            f"another knob: {', '.join(acting)}."
        )
    missing = [option for option in {**knob.before, **knob.after} if not _exists(option)]
    if missing:
        raise LabError(
            f"torch {torch.__version__} does not have the option {missing[0]} of the knob {name}; write another knob."
        )
    return knob


def _switch(name: str) -> Knob:
    """A switch of Inductor's as a knob that nobody wrote words for."""
    from minicompile.torch_private.settings import switches

    option, given, text = name.partition("=")
    values = switches().get(option)
    if not values:
        raise LabError(
            f"no knob is called {name!r}; write one of {', '.join(KNOBS)}, or a switch of Inductor's: `minicompile "
            "switches MODEL` finds those that change a model's code."
        )
    chosen = [value for value in values if not given or str(value) == text]
    if not chosen:
        told = ", ".join(f"{option}={value}" for value in values)
        raise LabError(f"the switch {option} cannot be flipped to {text!r}; write {told}.")
    return Knob(name, "lines", EVERYWHERE, after={option: chosen[0]})


def settings(knob: Knob, side: Mapping[str, Any]) -> dict[str, Any]:
    """What one side sets each option that differs to; torch's own where the side leaves it."""
    return {option: side[option] if option in side else _default(option) for option in knob.flipped}


def _exists(option: str) -> bool:
    holder = owner("config")
    *path, last = option.split(".")
    for part in path:
        holder = getattr(holder, part, None)
    return hasattr(holder, last)


def _default(option: str) -> Any:
    holder = owner("config")
    for part in option.split("."):
        holder = getattr(holder, part)
    return holder
