"""Runs what was generated for a capture and what it was generated from, on made-up inputs, to see what it really does.

The C++ kernels are built so that each access reports its address, and the lab's evaluator runs the Triton ones; the
ATen graph runs operation by operation. All of it needs the capture's texts alone, and no GPU.
"""

import re
from pathlib import Path

import torch
from generated_code import constants_of, inputs_of
from torch._library.custom_ops import OPDEFS
from touched_cpp import library_of
from touched_triton import called
from zoo_models import Captured

from minicompile.lowering.captured import Graph

Ran = dict[str, list | str]  # by graph [bytes read, bytes written, tensors afterwards] of its calls, or an error
NOT_HERE = "NotImplementedError"  # of a call that the GPU's library has and the CPU's has not


def runs_here(one: Captured) -> bool:
    """Whether its code can be run with inputs that are made up.

    It cannot where a size is a symbol, where a branch depends on a value, where a kernel or an operator is the user's
    own, and where a kernel is a template of torch's, in which no access is told.
    """
    for graph in one.capture["graphs"]:
        names = [node["name"] for node in graph["nodes"]]
        symbols = any(not isinstance(size, int) for node in graph["nodes"] for size in node["size"] or ())
        kernels = any(n["user_triton"] or n["template"] for n in graph["scheduler_nodes"])
        own = any(_is_the_users(node["target"]) for node in graph["nodes"])
        if symbols or any("." in name for name in names) or kernels or own:
            return False
    return True


def _is_the_users(target: str) -> bool:
    """Whether a node's operator was defined in Python: it is known where its model was loaded, and nowhere else."""
    namespace, name, *overload = [*target.split("."), ""]
    if len(overload) < 2:
        return False
    defined = OPDEFS.get(f"{namespace}::{name}")  # some of torch's own are defined in Python too
    if defined is None:
        return not hasattr(getattr(torch.ops, namespace), name)
    return not defined._init_fn.__module__.startswith("torch.")


def ran(captures: list[Captured], folder: Path) -> list[Ran]:
    """What the kernels of each of these captures touch and leave behind; nothing of one that cannot run here.

    Args:
        captures: of whichever targets.
        folder: an empty one, to build in.
    """
    codes = {
        (number, graph["id"]): one.code(graph)
        for number, one in enumerate(captures) if runs_here(one)
        for graph in one.capture["graphs"]
    }  # fmt: skip
    codes = {key: code for key, code in codes.items() if "= async_compile." in code}  # it has kernels
    library = library_of(codes.values(), folder)
    found = {key: called(code, library) for key, code in codes.items()}
    found = {key: calls for key, calls in found.items() if not str(calls).startswith(NOT_HERE)}
    return [{graph: calls for (number, graph), calls in found.items() if number == n} for n in range(len(captures))]


def values_of(one: Captured, graph: Graph) -> dict[str, torch.Tensor]:
    """The results of an ATen graph's operations on the inputs of its code; none where eager PyTorch cannot run it.

    A result that a later operation changes in place is what it was before.
    """
    if graph["id"] not in one.values:
        one.values[graph["id"]] = _values_of(one, graph)
    return one.values[graph["id"]]


def _values_of(one: Captured, graph: Graph) -> dict[str, torch.Tensor]:
    text = re.sub(r";  (?:\w+ = )+None", "", one.text(graph, "aten"))
    text = re.sub(r"(?m)^class .*:$", "class Graph(torch.nn.Module):", text)
    text = re.sub(r'(?m)^( +)(\w+)(: "[^"]*")? = .*$', r"\g<0>\n\1kept('\2', \2)", text)
    text = re.sub(r"(?m)^( +)return .*$", r"\1return locals()", text)
    text = text.replace("type='cuda', index=0", "type='cpu'")
    before: dict[str, tuple[int, torch.Tensor]] = {}

    def kept(name, value):
        if isinstance(value, torch.Tensor):
            before[name] = value._version, value.clone()

    space = {"torch": torch, "device": torch.device, "inf": float("inf"), "nan": float("nan"), "kept": kept}
    try:
        exec(compile(text, "<aten>", "exec"), space)
        with torch.no_grad():
            module = space["Graph"]()
            vars(module).update(constants_of(one.code(graph)))
            values = module(*inputs_of(one.code(graph)))
    except (RuntimeError, NotImplementedError, TypeError, IndexError, AttributeError, SyntaxError):
        return {}
    found = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    changed = {name for name, (version, _) in before.items() if found[name]._version != version}
    return {name: before[name][1] if name in changed else value for name, value in found.items()}
