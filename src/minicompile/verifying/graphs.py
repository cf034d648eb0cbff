"""The ATen graph, run node by node: the value of each, and how the elements of one lie in another."""

import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from minicompile.torch_private.known_values import changes_arguments
from minicompile.torch_private.names import owner
from minicompile.verifying import random_numbers
from minicompile.verifying.blocks import Unable
from minicompile.verifying.stand_ins import STAND_INS

CPU = torch.device("cpu")
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)
Kernels = Callable[[str, dict[str, Any]], Any]
KEEPING = ("aten.clone.default", "aten.reshape.default", "aten._unsafe_view.default", "aten.contiguous.default",
           "aten.alias.default", "aten.detach.default", "aten.lift_fresh_copy.default",
           "prims.view_of.default")  # fmt: skip
WAYS = 32  # from one shape to another
STEPS = 3
HOLE = -100  # what a loss looks past
COND, LOOP, REGION = "cond", "while_loop", "invoke_subgraph"  # which call graphs within the graph
LOOPED = 1000  # turns of a loop, of which as many are looked at:
TURNS = 4


def on_cpu(value: Any) -> Any:
    """A device, or a graph that names some, on the CPU."""
    if isinstance(value, fx.GraphModule):
        return _graph_on_cpu(value)
    return CPU if isinstance(value, torch.device) else value


def _graph_on_cpu(module: fx.GraphModule) -> fx.GraphModule:
    made = fx.Graph()
    made.output(made.graph_copy(module.graph, {}))
    for node in made.nodes:
        node.args, node.kwargs = fx.node.map_aggregate((node.args, node.kwargs), on_cpu)  # type: ignore[assignment]
    return fx.GraphModule(module, made)


def here(value: Any) -> Any:
    """A constant of a graph with its values, on the CPU, wherever the graph has it."""
    found = getattr(value, "values_here", value)
    if type(found) is owner("fake_tensor").FakeTensor:
        raise Unable("constant")
    return found.cpu() if isinstance(found, torch.Tensor) else found


class Values(fx.Interpreter):
    """Runs a graph on the CPU, and keeps each value as it was when it was computed."""

    def __init__(
        self,
        module: fx.GraphModule,
        branch: bool | None = None,
        kernels: Kernels | None = None,
        outer: "Values | None" = None,
        within: str = "",
    ) -> None:
        """
        Args:
            module: the graph.
            branch: which branch of each condition hands on its results; None, the one that the condition says.
            kernels: runs a user's kernel.
            outer: the graph that this one is within.
            within: this one's name, before the names of its nodes.
        """
        super().__init__(module, garbage_collect_values=False)
        self.extra_traceback = False
        self.branch, self.kernels, self.within, self.nodes = branch, kernels, within, [*module.graph.nodes]
        self.found: dict[str, torch.Tensor] = {}
        self.raw: dict[str, Any] = {}
        # by name each graph within, as often as it ran: a loop's body in each of its first turns
        self.inner: dict[str, list[Values]] = {} if outer is None else outer.inner

    def at(self, turn: int) -> dict[str, torch.Tensor]:
        """The values of the graphs within, each in one of its turns."""
        found: dict[str, torch.Tensor] = {}
        for several in self.inner.values():
            found |= several[turn].found if turn < len(several) else {}
        return found

    def run_node(self, node: fx.Node) -> Any:
        changing = node.op == "call_function" and changes_arguments(node.target)
        given = [*self._tensors(node)] if changing else []
        before = [one.clone() for one in given]
        value = super().run_node(node)
        self.raw[node.name] = value
        if node.op == "output":
            return value
        if isinstance(value, torch.Tensor):
            self.found[self.within + node.name] = value.detach().clone()
        elif changing:
            changed = [one for one, held in zip(given, before, strict=True) if not _alike(one, held)]
            for number, one in enumerate(changed):
                name = node.name if len(changed) == 1 else f"{node.name}[{number}]"
                self.found[self.within + name] = one.detach().clone()
        return value

    def _tensors(self, node: fx.Node) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        for one in node.all_input_nodes:
            value = self.raw.get(one.name)
            found += [part for part in (value if isinstance(value, list | tuple) else [value])
                      if isinstance(part, torch.Tensor)]  # fmt: skip
        return found

    def fetch_attr(self, target: str) -> Any:
        return here(super().fetch_attr(target))

    def call_function(self, target: Any, args: tuple, kwargs: dict) -> Any:
        name = str(target)
        if name == COND:
            return self._both(*args[:4])
        if name == LOOP:
            return self._loop(*args[:4])
        if name == REGION:
            return self._within(args[0], args[2:])
        args, kwargs = owner("tree_map").tree_map(on_cpu, (args, kwargs))
        if name.startswith("triton_kernel_wrapper") and self.kernels is not None:
            return self.kernels(name, kwargs)
        instead = RANDOM.get(name.removesuffix(".default")) or STAND_INS.get(name)
        if instead is not None:
            return instead(*args, **kwargs)
        made = super().call_function(target, args, kwargs)
        if made is None and args and isinstance(args[0], list):  # tensors that were changed together
            return args[0]
        return made

    def _both(self, condition: Any, true: fx.GraphModule, false: fx.GraphModule, operands: Sequence[Any]) -> Any:
        """Both branches, of which one hands on its results."""
        results = [self._within(branch, operands) for branch in (true, false)]
        taken = bool(condition) if self.branch is None else self.branch
        return results[0 if taken else 1]

    def _loop(self, test: fx.GraphModule, body: fx.GraphModule, carried: Sequence[Any], more: Sequence[Any]) -> Any:
        """A loop's turns, until its test says that it is over."""
        for _ in range(LOOPED):
            over = self._within(test, [*carried, *more])
            if not bool(over[0] if isinstance(over, tuple | list) else over):
                return tuple(carried)
            carried = self._within(body, [*carried, *more])
        raise Unable("time", "a loop")

    def _within(self, module: fx.GraphModule, operands: Sequence[Any]) -> Any:
        """What a graph within gives; what it leaves in the operands is its own."""
        own = next((name for name, one in self.submodules.items() if one is module), "branch")
        within = f"{self.within.replace('.', '_')}{own}."
        runs = Values(module, self.branch, self.kernels, self, within)
        several = self.inner.setdefault(within, [])
        if len(several) < TURNS:
            several.append(runs)
        return runs.run(*[one.clone() if isinstance(one, torch.Tensor) else one for one in operands])


def handed_on(part: Values) -> set[str]:
    """The nodes whose values a graph within the graph computes, and no kernel of this graph."""
    found: set[str] = set()
    for node in part.nodes:
        taken = getattr(node.target, "__name__", "") == "getitem" and node.all_input_nodes[0].name in found
        if node.op == "call_function" and (taken or str(node.target) in (COND, LOOP, REGION)):
            found.add(node.name)
    return {part.within + name for name in found}


def _alike(first: torch.Tensor, second: torch.Tensor) -> bool:
    return bool(((first == second) | ((first != first) & (second != second))).all())


def _random(size: Sequence[int], seed: torch.Tensor, mode: str, *, offset: int = 0, **_more: Any) -> torch.Tensor:
    places = torch.arange(math.prod(size)).reshape(list(size)) + offset
    return (random_numbers.uniform if mode == "rand" else random_numbers.normal)(seed, places)


def _randint(low: int, high: int, size: Sequence[int], seed: torch.Tensor, *, offset: int = 0, **_more: Any):
    places = torch.arange(math.prod(size)).reshape(list(size)) + offset
    return random_numbers.integers(seed, places, low, high)


RANDOM: dict[str, Callable] = {
    "prims.inductor_seeds": lambda count, _device: random_numbers.seeds(count),
    "prims.inductor_seed": lambda _device: random_numbers.seeds(1)[0],
    "prims.inductor_lookup_seed": lambda seeds, index: seeds[index],
    "prims.inductor_random": _random,
    "prims.inductor_randint": _randint,
}


def inputs_of(module: fx.GraphModule) -> list[fx.Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


# operators that refuse an index which is not there, wherever they run here
CHECKED = {
    f"aten.{name}"
    for name in (
        "index.Tensor", "_unsafe_index.Tensor", "index_put.default", "index_put_.default", "_unsafe_index_put.default",
        "gather.default", "scatter.src", "scatter.value", "scatter_add.default", "scatter_reduce.two",
        "index_select.default", "index_add.default", "embedding.default",
    )
}  # fmt: skip
# ... and that make of integers others without looking anything up
PLAIN = {
    "aten.sum.dim_IntList", "aten.sum.default", "aten.amax.default", "aten.amin.default", "aten.cat.default",
    "aten.sort.default", "aten.sort.stable", "aten.max.default", "aten.min.default", "aten.cumsum.default",
    "aten.any.default", "aten.any.dim", "aten.any.dims", "aten.copy_.default", "aten.copy.default",
    "aten._to_copy.default", "prims.convert_element_type.default", "aten.constant_pad_nd.default",
}  # fmt: skip


def is_whole(value: Any) -> bool:
    """Whether an input is a tensor of integers."""
    if not isinstance(value, torch.Tensor) or value.dtype == torch.bool:
        return False
    return not (value.dtype.is_floating_point or value.dtype.is_complex)


def unchecked(module: fx.GraphModule, known: Container[str]) -> list[str]:
    """The operators that are given integers which are not known, and may look up with them where nothing is.

    Several of ATen's in C++ do not check their offsets: run on made-up ones, they end the process.
    """
    unknown = {node.name for node in inputs_of(module) if is_whole(node.meta.get("val")) and node.name not in known}
    found: dict[str, None] = {}
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output") or not unknown & {one.name for one in node.all_input_nodes}:
            continue
        pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
        plain = pointwise or getattr(node.target, "is_view", False) or str(node.target) in (*KEEPING, *PLAIN)
        if not plain and str(node.target) not in CHECKED and getattr(node.target, "__name__", "") != "getitem":
            found[str(node.target)] = None
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or is_whole(value) or (plain and value.dtype != torch.bool):
            unknown.add(node.name)
    return list(found)


def hint(size: Any) -> int:
    """A size, or what a symbol stood for."""
    if isinstance(size, int):
        return size
    found = getattr(size.node, "hint", None)
    if found is None:
        raise Unable("symbol")
    return int(found)


def all_laid(nodes: Sequence[fx.Node], given: Sequence[Any]) -> dict[str, Any]:
    """By input what a graph was given for it, where that is what the input takes."""
    values = [node.meta.get("val") for node in nodes]
    lengths: dict[str, int] = {}  # by symbol, of those that nobody knows before it runs
    for value, one in zip(values, given, strict=True):
        if isinstance(value, torch.Tensor) and type(one) in PLAIN_TENSORS and value.ndim == one.ndim:
            lengths |= {str(size): int(length) for size, length in zip(value.size(), one.size(), strict=True)}
    made = {}
    for node, value, one in zip(nodes, values, given, strict=True):
        number = lengths.get(str(value), one) if isinstance(one, torch.SymInt) else one
        made[node.name] = laid(value, number)
    return {name: one for name, one in made.items() if one is not None}


def laid(wanted: Any, given: Any) -> Any:
    """What a graph was given, on the CPU and in the layout of an input; None where it is not what the input takes."""
    if isinstance(wanted, torch.Tensor) != isinstance(given, torch.Tensor):
        return None
    if not isinstance(wanted, torch.Tensor):
        return hint(given) if isinstance(given, torch.SymInt) else given
    if type(given) not in PLAIN_TENSORS or given.dtype != wanted.dtype:
        return None
    try:
        size, stride = [*map(hint, wanted.size())], [*map(hint, wanted.stride())]
    except Unable:  # that nobody knows before it runs
        return given.detach().to(CPU) if wanted.ndim == given.ndim else None
    if size != [*given.size()]:
        return None
    if stride == [*given.stride()]:
        return given.detach().to(CPU)
    try:
        return torch.empty_strided(size, stride, dtype=given.dtype).copy_(given.detach())
    except RuntimeError:  # several of its elements are one
        return None


def left_for(backward: fx.GraphModule, forward: fx.GraphModule, results: Sequence[Any]) -> dict[str, Any]:
    """By input of a backward graph what a forward graph left for it, which are the last of its results.

    Numbers come last there and first here; gradients are not among them.
    """
    takes = [node for node in inputs_of(backward) if not node.name.startswith("tangents")]
    left = list(results)[len(results) - len(takes) :]
    if len(left) < len(takes):
        return {}
    takes.sort(key=lambda node: not isinstance(node.meta.get("val"), torch.Tensor))
    made = all_laid(takes, left)
    return made if len(made) == len(takes) else {}


def made_up(
    module: fx.GraphModule,
    kind: str,
    generator: torch.Generator,
    highest: dict[str, int],
    holes: frozenset[str],
    known: Mapping[str, Any],
    like: Mapping[str, Any],
) -> list[Any]:
    """Inputs of a graph's kind: `normal`, or `positive`; `own`, of which a number alone is 1, as a loss's gradient is.

    Args:
        module: the graph.
        kind: of the floats.
        generator: that draws them.
        highest: integers are below it, by input.
        holes: inputs of which some integers are `HOLE`.
        known: inputs that are not made up.
        like: inputs that the graph takes, for sizes that it does not know.
    """
    made: list[Any] = []
    for node in inputs_of(module):
        value = node.meta.get("val")
        if node.name in known:
            made.append(known[node.name])
        elif isinstance(value, torch.Tensor):
            size, stride = _layout(value, like.get(node.name))
            made.append(_tensor(size, stride, value.dtype, kind, generator, highest.get(node.name, 2)))
            if node.name in holes:
                here = torch.rand(made[-1].shape, generator=generator) < 0.2
                made[-1].masked_fill_(here, HOLE)
        elif isinstance(value, torch.SymInt | int) and not isinstance(value, bool):
            made.append(hint(value))
        else:
            raise Unable("input")
    return made


def _layout(value: torch.Tensor, like: Any) -> tuple[list[int], list[int]]:
    try:
        return [*map(hint, value.size())], [*map(hint, value.stride())]
    except Unable:
        if not isinstance(like, torch.Tensor):
            raise
        return [*like.size()], [*like.stride()]


def _tensor(
    size: list[int], stride: list[int], dtype: torch.dtype, kind: str, generator: torch.Generator, highest: int
):
    reach = sum((length - 1) * step for length, step in zip(size, stride, strict=True)) + 1 if all(size) else 0
    if reach > 1 << 26:
        raise Unable("size")
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.empty(reach, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
        if dtype.is_complex:
            raise Unable("complex")
        wide = wide.uniform_(0.1, 1.1, generator=generator) if kind == "positive" else wide.normal_(generator=generator)
        wide = wide.fill_(1) if kind == "own" and not size else wide
        memory = wide.to(dtype)
    elif dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool):
        memory = torch.empty(reach, dtype=dtype)
        memory.random_(0, 2 if dtype == torch.bool else highest, generator=generator)
    else:
        raise Unable("dtype")
    return memory.as_strided(size, stride)


class Layouts:
    """How the elements of a shape are those of another, by the views of the graph."""

    def __init__(self, values: Values) -> None:
        self.base: dict[str, str] = {}  # a node that has all elements of another, in whatever order, and no others
        self._steps: dict[tuple[int, ...], list[tuple[tuple[int, ...], torch.Tensor]]] = {}
        self._known: dict[tuple, list[torch.Tensor | None]] = {}
        self._reached: dict[tuple[int, ...], list[tuple[tuple[int, ...], torch.Tensor]]] = {}
        for part in (values, *(several[0] for several in values.inner.values())):
            for node in part.nodes:
                if node.op == "call_function" and node.args and isinstance(node.args[0], fx.Node):
                    self._view(node, node.args[0].name, part)

    def _view(self, node: fx.Node, of: str, values: Values) -> None:
        within = values.within
        first, made = values.found.get(within + of), values.found.get(within + node.name)
        known = getattr(node.target, "is_view", False) or str(node.target) in KEEPING
        if not known or first is None or made is None or first.dtype != made.dtype or not first.numel():
            return
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda one: values.raw.get(one.name))
        index = torch.empty_strided(first.size(), first.stride(), dtype=torch.int64)
        if any(step == 0 and size > 1 for step, size in zip(first.stride(), first.size(), strict=True)):
            index = torch.arange(first.numel()).reshape(first.shape)
        else:
            index.copy_(torch.arange(first.numel()).reshape(first.shape))
        try:
            lies = node.target(index, *args[1:], **kwargs)  # type: ignore[operator]
        except (RuntimeError, TypeError):
            return
        if not isinstance(lies, torch.Tensor) or lies.shape != made.shape:
            return
        flat = lies.reshape(-1)
        back = torch.full((first.numel(),), -1)
        back[flat.flip(0)] = torch.arange(flat.numel() - 1, -1, -1)
        before, after = tuple(first.shape), tuple(made.shape)
        if flat.numel() != first.numel() or not torch.equal(flat, torch.arange(flat.numel())):
            self._add(before, after, back)
            self._add(after, before, flat)
        if bool((back >= 0).all()):
            self.base[within + node.name] = self.base.get(within + of, within + of)

    def _add(self, before: tuple[int, ...], after: tuple[int, ...], index: torch.Tensor) -> None:
        steps = self._steps.setdefault(before, [])
        if not any(shape == after and torch.equal(index, one) for shape, one in steps):
            steps.append((after, index))

    def _from(self, shape: tuple[int, ...]) -> list[tuple[tuple[int, ...], torch.Tensor]]:
        """Every shape that views lead to from one, each with where the elements of that one lie in it."""
        if shape in self._reached:
            return self._reached[shape]
        count = math.prod(shape)
        reached = [(shape, torch.arange(count))]
        edge = list(reached)
        for _ in range(STEPS):
            following = []
            for at, index in edge:
                for before, steps in self._steps.items():
                    if math.prod(before) != math.prod(at):
                        continue
                    for after, step in steps:
                        made = torch.where(index >= 0, step[index.clamp(min=0)], index)
                        same = any(one == after and torch.equal(made, known) for one, known in reached)
                        if not same and len(reached) < WAYS and bool((made >= 0).any()):
                            reached.append((after, made))
                            following.append((after, made))
            edge = following
        self._reached[shape] = reached
        return reached

    def ways(self, shape: tuple[int, ...], node: tuple[int, ...]) -> list[torch.Tensor | None]:
        """Where each element of a shape lies in a node's, in every way that is known; None for as it is."""
        key = (shape, node)
        if key not in self._known:
            count, made = math.prod(node), list[torch.Tensor | None]()
            plain = torch.arange(math.prod(shape))
            for at, index in self._from(shape):
                here: torch.Tensor | None = None
                if math.prod(at) == count:
                    here = index
                elif (spread := _broadcast(node, at)) is not None:
                    here = torch.where(index >= 0, spread[index.clamp(min=0)], index)
                if here is None:
                    continue
                found = None if torch.equal(here, plain) else here
                if not any(_same(found, one) for one in made):
                    made.append(found)
            self._known[key] = made
        return self._known[key]


def _same(first: torch.Tensor | None, second: torch.Tensor | None) -> bool:
    if first is None or second is None:
        return first is second
    return torch.equal(first, second)


def _broadcast(node: tuple[int, ...], shape: tuple[int, ...]) -> torch.Tensor | None:
    """Where each element of a shape lies in a smaller one that broadcasts to it, or that lacks reduced axes."""
    index = torch.arange(math.prod(node))
    if len(node) <= len(shape) and all(
        one in (1, of) for one, of in zip(node, shape[len(shape) - len(node) :], strict=True)
    ):
        return torch.broadcast_to(index.reshape(node), shape).reshape(-1)
    if len(node) < len(shape) and node == shape[: len(node)]:  # the last axes were reduced
        wide = (*node, *[1] * (len(shape) - len(node)))
        return torch.broadcast_to(index.reshape(wide), shape).reshape(-1)
    return None
