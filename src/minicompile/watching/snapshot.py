"""What the live Inductor graph holds at the moment its code is written, as plain data.

`GraphLowering.save_output_code` is called when `V.graph` still has its scheduler, buffers and origins; a moment
later they are gone. `TensorBox`es and symbolic sizes become names and strings here.
"""

import inspect
import re
from pathlib import Path
from typing import Any

import torch

from minicompile.state.batches import tensors_of
from minicompile.torch_private.names import owner
from minicompile.watching.traffic.traffic import counted_by_inductor

TORCH = Path(torch.__file__).parents[1]


def number(value: Any) -> int | str:
    """A size as an int, or as text where it is symbolic."""
    if isinstance(value, torch.SymInt):
        value = getattr(value.node, "expr", str(value))  # to ask a symbol itself for its int would fix it to that one
    try:
        return int(value)
    except (TypeError, ValueError):
        return str(value)


def described(value: object) -> dict:
    """An example input as the capture describes it; of one that holds others, these by their places."""
    if isinstance(value, torch.Tensor):
        return {"kind": "tensor", "size": [number(n) for n in value.shape], "dtype": str(value.dtype).split(".")[-1]}
    made: dict[str, Any] = {"kind": type(value).__name__, "size": None, "dtype": None}
    inner = {place: described(tensor) for place, tensor in tensors_of(value, "")}
    return {**made, "holds": inner} if inner else made


def byte_count(size: list[int | str] | None, dtype: torch.dtype) -> int | None:
    """Bytes of a dense tensor; None where a size is symbolic or not known."""
    if size is None:
        return None
    total = dtype.itemsize
    for length in size:
        if isinstance(length, str):
            return None
        total *= length
    return total


def buffer_facts(buffer: Any) -> dict:
    """Size, dtype and bytes of an Inductor buffer; nulls for one that is no tensor."""
    try:
        size, dtype = [number(length) for length in buffer.get_size()], buffer.get_dtype()
    except (AttributeError, NotImplementedError):
        return {"size": None, "dtype": None, "bytes": None}
    return {"size": size, "dtype": str(dtype).removeprefix("torch."), "bytes": byte_count(size, dtype)}


def fx_node(node: torch.fx.Node) -> dict:
    """An FX node with its origins: the names that it had in earlier graphs, by the identity of those graphs."""
    # The graphs of AOT autograd keep a node's value as `val`, Dynamo's own as `example_value`.
    value: Any = node.meta.get("val", node.meta.get("example_value"))
    tensor = isinstance(value, torch.Tensor)
    size = [number(length) for length in value.shape] if tensor else None
    return {
        "name": node.name,
        "op": node.op,
        "target": str(node.target) if not callable(node.target) else _target(node.target),
        "inputs": [argument.name for argument in node.all_input_nodes],
        "size": size,
        "stride": _strides(value) if tensor else None,
        "dtype": str(value.dtype).removeprefix("torch.") if tensor else None,
        "bytes": byte_count(size, value.dtype) if tensor else None,
        "stack": node.meta.get("stack_trace") or node.stack_trace,
        "sequence": node.meta.get("seq_nr"),
        "modules": _modules(node),
        "origins": _origins(node.meta.get("from_node", [])),
    }


def _modules(node: torch.fx.Node) -> list[list[str]]:
    """[path within the model, class] of each module that was running, the outermost first; the model itself left out.

    Dynamo writes `L['self'].blocks.3`; a container that is asked for its items, `L['self']._modules['blocks'][3]`.
    """
    # A node of the backward has no modules of its own; AOT autograd notes those of its forward under another key.
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    found = []
    for path, module in stack.values():
        path = re.sub(r"^L(?:\['\w+'\]|__\w+?__)", "", path)
        path = re.sub(r"(?:\._modules)?\['?(\w+)'?\]", r".\1", path).strip(".")
        if path:
            found.append([path, module if isinstance(module, str) else module.__qualname__])
    return found


def _strides(tensor: torch.Tensor) -> list[int | str] | None:
    """A tensor's strides, in elements; None for one that has no strides, a sparse one."""
    return [number(step) for step in tensor.stride()] if tensor.layout == torch.strided else None


def _target(target) -> str:
    name = str(target)
    if name.startswith("<"):  # a built-in or a plain function: `<built-in function getitem>`
        module = (getattr(target, "__module__", None) or "").removeprefix("_")
        return f"{module}.{target.__name__}" if module else target.__name__
    return name


def _origins(sources: list) -> list[list]:
    """[name, id of its graph] of every ancestor, the nearest first."""
    found = []
    for source in sources:
        if source.node_info is not None:
            found.append([source.node_info.name, source.node_info.graph_id])
        # Every pass that copies a node puts one more around what it was.
        found += _origins(source.from_node)
    return found


def fx_graph(module: torch.fx.GraphModule) -> dict:
    """An FX graph as text and nodes."""
    return {
        "text": module.print_readable(print_output=False, include_stride=True),
        "nodes": [fx_node(node) for node in module.graph.nodes],
        "identities": identities(module),
    }


def identities(module: torch.fx.GraphModule) -> dict[int, str]:
    """What the names of an FX graph's nodes begin with, by the identity of the graph: its own, and those within it."""
    return {id(module.graph): "", **{id(inner.graph): f"{name}." for name, inner in _inner(module)}}


def _inner(module: torch.fx.GraphModule) -> list[tuple[str, torch.fx.GraphModule]]:
    """The graphs within a graph, a branch of torch.cond or a score of flex_attention, each with its name."""
    found = ((path.replace(".", "_"), inner) for path, inner in module.named_modules() if path)
    return [(name, inner) for name, inner in found if isinstance(inner, torch.fx.GraphModule)]


def inner_nodes(module: torch.fx.GraphModule) -> list[dict]:
    """The nodes of the graphs within a graph, named as `with_subgraphs` names them."""
    found = []
    for name, inner in _inner(module):
        for node in map(fx_node, inner.graph.nodes):
            inputs = [f"{name}.{one}" for one in node["inputs"]]
            found.append({**node, "name": f"{name}.{node['name']}", "inputs": inputs})
    return found


def whole_fx_graph(module: torch.fx.GraphModule) -> dict:
    """An FX graph with the nodes of those within it."""
    made = fx_graph(module)
    return {**made, "nodes": made["nodes"] + inner_nodes(module)}


def lowering_of(target: Any) -> dict | None:
    """The function that lowers an FX target: its name, file within site-packages, and line; None if none does."""
    lowered = owner("lowerings").lowerings.get(target) or getattr(target, "_inductor_lowering_function", None)
    if lowered is True:  # the pattern matcher marks the function itself
        lowered = target
    if lowered is None:
        return None
    function = inspect.unwrap(lowered)
    while hasattr(function, "func"):
        function = inspect.unwrap(function.func)
    code = getattr(function, "__code__", None)
    if code is None:
        return {"function": getattr(function, "__qualname__", str(function)), "file": None, "line": None}
    file = Path(code.co_filename)
    file = file.relative_to(TORCH) if file.is_relative_to(TORCH) else file
    return {"function": function.__qualname__, "file": str(file), "line": code.co_firstlineno}


def dependencies(dependencies: Any) -> list[dict]:
    """Reads or writes of a scheduler node: buffer, index, and the loop's sizes (`*`: the whole buffer)."""
    indexed = owner("memory_dep").MemoryDep
    found = []
    for dependency in dependencies:
        known = isinstance(dependency, indexed)
        index = str(dependency.index) if known else "*"
        sizes = [number(size) for size in dependency.size] if known else []
        found.append({"buffer": dependency.name, "index": index, "sizes": sizes})
    return sorted(found, key=lambda one: (one["buffer"], one["index"]))


def scheduler_node(node: Any) -> dict:
    """A scheduler node: what it computes, from which ATen nodes, what it reads and writes, its loop body."""
    ir, body = node.node, getattr(node, "_body", None)
    kinds = owner("ir")
    computed = isinstance(ir, kinds.ComputedBuffer)
    extern = isinstance(ir, kinds.ExternKernel)
    kernel = (getattr(ir, "python_kernel_name", None) or getattr(ir, "kernel", None)) if extern else None
    if extern and _calls_graphs(ir):  # torch.cond and its like
        kernel = type(ir).__name__
    origin = getattr(ir, "origin_node", None)
    # loops made anew forget that what they read had been changed in place, and bears another name since
    accesses = node.read_writes.rename(node.mutation_renames)
    record = {
        "name": node.get_name(),
        "kind": type(ir).__name__,
        "computes": type(ir.data).__name__ if computed else None,
        "origins": sorted(origin.name for origin in getattr(ir, "origins", None) or ()),
        "buffers": [buffer.get_name() for buffer in node.get_outputs()],
        "changes": sorted({name for buffer in node.get_outputs() for name in buffer.get_mutations()}),
        "reads": dependencies(accesses.reads),
        "writes": dependencies(accesses.writes),
        "is_reduction": bool(node.is_reduction()),
        "reduction_type": ir.get_reduction_type() if computed else None,
        "extern": str(kernel) if kernel else None,
        "overload": str(getattr(ir, "op_overload", None) or "") or None,
        "origin_node": origin.name if origin is not None else None,
        "user_triton": isinstance(ir, kinds.UserDefinedTritonKernel),
        "template": isinstance(ir, kinds.TemplateBuffer),
        "text": node.debug_str(),
        "loop_sizes": [[number(size) for size in sizes] for sizes in body.sizes] if body is not None else None,
        "operations": loop_operations(body) if body is not None else [],
        "indexing": {name: str(index) for name, index in body.indexing_exprs.items()} if body is not None else {},
    }
    return record


def _calls_graphs(ir: Any) -> bool:
    """Whether a node of Inductor's holds graphs, to call them: branches, or a loop's test and its body."""
    held = [one for value in vars(ir).values() for one in (value if isinstance(value, list | tuple) else [value])]
    return any(isinstance(one, owner("ir").Subgraph) for one in held)


def loop_operations(body: Any) -> list[dict]:
    """The operations of a loop body, in order; `producer` is the ATen node that contributed each.

    An index out of memory, a part behind a mask and a scan are modules of the body's graph; they count as operations.
    """
    blocks = {"root": body.root_block, **body.subblocks}
    return [
        {
            "name": node.name,
            "operation": str(node.target) if node.op == "call_method" else str(node.target).rstrip("0123456789"),
            "producer": _producer(node),
            "stores": _stored(node),
            "copies": _copied(node),
            "buffer": _buffer(node),
            "block": name,
            "identity": id(block.graph),
        }
        for name, block in blocks.items()
        for node in block.graph.nodes
        if _is_operation(node)
    ]


def _is_operation(node: torch.fx.Node) -> bool:
    return node.op in ("call_method", "call_module") and node.target != "get_index"


def _producer(node: torch.fx.Node) -> str | None:
    """The ATen node of an operation; a conversion that a backend adds later has that of its operand."""
    while node.op == "call_method" and "producer" not in node.meta:
        before = next(filter(_is_operation, node.all_input_nodes), None)
        if before is None:
            return None
        node = before
    return node.meta.get("producer")


MEMORY = ("load", "load_seed", "store", "store_reduction")


def _buffer(node: torch.fx.Node) -> str | None:
    """The buffer that a load or a store is about."""
    return str(node.args[1]) if node.target in MEMORY else None


def _stored(node: torch.fx.Node) -> str | None:
    """The ATen node whose result a store puts into memory; of a copy, the node that copies."""
    if node.target not in ("store", "store_reduction"):
        return None
    value = node.args[3]
    if isinstance(value, torch.fx.Node) and value.target not in ("load", "load_seed"):
        return value.meta.get("producer") or _producer(node)
    return _producer(node)


def _copied(node: torch.fx.Node) -> str | None:
    """The ATen node that loaded what a store puts into memory as it is, an embedding's lookup say."""
    value = node.args[3] if node.target in ("store", "store_reduction") else None
    return _producer(value) if isinstance(value, torch.fx.Node) and value.target == "load" else None


def members(node: Any) -> list:
    """The scheduler nodes of a fused group, or the node itself."""
    return list(node.get_nodes())


def with_subgraphs(record: dict, subgraphs: dict[str, dict]) -> dict:
    """A graph's record with those of the branches and loop bodies within it, by name.

    Inductor names their buffers and scheduler nodes after them; their ATen nodes are named `true_graph_0.cos` here.
    """
    for name, inner in subgraphs.items():
        own = {node["name"] for node in inner["aten"]["nodes"]}

        def inside(node: str | None, name: str = name, own: set = own) -> str | None:
            return f"{name}.{node}" if node in own else None

        for node in inner["aten"]["nodes"]:
            node.update(name=inside(node["name"]), inputs=[inside(one) for one in node["inputs"]])
        for buffer in inner["buffers"]:
            buffer["node"] = inside(buffer["node"])
        for node in inner["scheduler_nodes"]:
            node["origins"] = sorted(made for one in node["origins"] if (made := inside(one)))
            node["origin_node"] = inside(node["origin_node"])
            for operation in node["operations"]:
                operation.update({of: inside(operation[of]) for of in ("producer", "stores", "copies")})
        record["parts"] |= {f"{name}.{node}": buffer for node, buffer in inner["parts"].items()}
        record["aten"]["nodes"] += inner["aten"]["nodes"]
        for part in ("buffers", "groups", "scheduler_nodes"):
            record[part] += inner[part]
    return record


def lowered_graph(graph: Any, code: str, parts: dict[str, str]) -> dict:
    """Everything that is read off the live `GraphLowering`, and by ATen node the buffers of `parts` of results."""
    nodes = graph.scheduler.nodes
    known = {**graph.graph_inputs, **graph.name_to_buffer}
    node_of_buffer = {}
    for name, buffer in graph.name_to_buffer.items():
        origin = getattr(buffer, "origin_node", None) or getattr(getattr(buffer, "data", None), "origin_node", None)
        node_of_buffer[name] = origin.name if origin is not None else None
    fx = fx_graph(graph.module)
    for node, record in zip(graph.module.graph.nodes, fx["nodes"], strict=True):
        record["symbolic"] = isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool)
        record["is_view"] = bool(getattr(node.target, "is_view", False))
        record["lowering"] = lowering_of(node.target) if node.op == "call_function" else None
    return {
        "code": code,
        "backward": bool(graph.is_backward),
        "inference": bool(graph.is_inference),
        "aten": fx,
        "inner_nodes": inner_nodes(graph.module),
        "parts": parts,
        "buffers": [
            {
                "name": name,
                **buffer_facts(buffer),
                "node": node_of_buffer.get(name),
                "input": name in graph.graph_inputs,
                "removed": name in graph.removed_buffers,
            }
            for name, buffer in known.items()
        ],
        "groups": [
            {
                "name": node.get_name(),
                "kind": type(node).__name__,
                "members": [member.get_name() for member in members(node)],
                "bytes": counted,
            }
            for node, counted in zip(nodes, counted_by_inductor(nodes, graph.sizevars), strict=True)
        ],
        "scheduler_nodes": [scheduler_node(member) for node in nodes for member in members(node)],
    }
