"""The simulated target: Inductor writes Triton for an H200 on a machine without a GPU.

Dynamo and AOT autograd trace on the CPU, backward included. Then each ATen graph's inputs and metadata are replaced
by fake tensors on `cuda:0`, torch's device interface and Triton's driver are stood in for, and Inductor is left once
its code is written: nothing is compiled or run. Measured at torch 2.11 against a real H200: of 200 small models the
kernels of 187 are the same, byte for byte. In seven a clock decides there to pad a product; in five
`scaled_dot_product_attention` is a fused kernel there and written out here; in one a tensor that the model makes
without a word of its device is on the GPU here; in one an expanded input is not expanded any more once it is there.
"""

import contextlib
import copy
import types
from collections.abc import Iterator
from contextlib import AbstractContextManager
from unittest import mock

import torch

from minicompile.torch_private.known_values import known
from minicompile.torch_private.names import owner

DEVICE = torch.device("cuda", 0)
CAPABILITY = (9, 0)
# NVIDIA's H200 as torch describes it: https://resources.nvidia.com/en-us-gpu-resources/hpc-datasheet-sc23-h200
PROPERTIES = {
    "name": "NVIDIA H200",
    "major": CAPABILITY[0],
    "minor": CAPABILITY[1],
    "total_memory": 141 << 30,
    "multi_processor_count": 132,
    "regs_per_multiprocessor": 65536,
    "max_threads_per_multi_processor": 2048,
    "max_threads_per_block": 1024,
    "warp_size": 32,
    "gcnArchName": "",
    "L2_cache_size": 50 << 20,
    "shared_memory_per_block": 49152,
    "shared_memory_per_block_optin": 232448,
    "shared_memory_per_multiprocessor": 233472,
}
# Off, since they would run something on the device.
CONFIG = {"compile_threads": 1, "shape_padding": False}
# With these on Inductor times kernels while it compiles, and chooses by that.
UNTIMED: dict[str, int] = {"benchmark_fusion": False, "benchmark_combo_kernel": False}


class CodeWritten(BaseException):
    """Leaves Inductor once it has written a graph's code; no `except Exception` of torch's stops it."""


class Driver:
    """Triton's driver for a GPU that is not here: enough to generate and compile for it."""

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 10 * CAPABILITY[0] + CAPABILITY[1], 32)

    def get_current_device(self) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return DEVICE

    def get_device_interface(self):
        return torch.cuda


def driver_stand_in() -> AbstractContextManager:
    """A context for Dynamo, in which Triton believes in the GPU: a user's kernel is compiled to see what it writes to.

    Flexible attention takes tensors that need a gradient there, as it does on a GPU.
    """
    from triton.runtime import driver

    queries, answer = owner("triton_queries"), _always(True)
    answer.cache_clear = queries.has_triton.cache_clear  # type: ignore[attr-defined]
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(driver, "_active", Driver()))
    stack.enter_context(mock.patch.object(queries, "has_triton", answer))
    stack.enter_context(mock.patch.object(owner("flex_attention"), "_validate_device", _accepted))
    return stack


@contextlib.contextmanager
def gpu_stand_in() -> Iterator[None]:
    """While this is entered, torch and Triton believe in one H200, and can ask it nothing."""
    queries = [query for query in vars(owner("triton_queries")).values() if hasattr(query, "cache_clear")]
    with contextlib.ExitStack() as stack:
        for patch in _stand_ins():
            stack.enter_context(patch)
        stack.enter_context(driver_stand_in())
        for query in queries:  # answers from before, and later these, are another machine's
            query.cache_clear()
            stack.callback(query.cache_clear)
        yield


def _stand_ins() -> Iterator[AbstractContextManager]:
    properties = types.SimpleNamespace(**PROPERTIES)
    answers = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "_lazy_init": None,
        "get_device_properties": properties,
        "get_device_capability": CAPABILITY,
        "get_rng_state": torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": None,
        "synchronize": None,
        "device": contextlib.nullcontext(),
        "_DeviceGuard": contextlib.nullcontext(),
    }
    for name, answer in answers.items():
        yield mock.patch.object(torch.cuda, name, _always(answer))
    interface = owner("cuda_interface").CudaInterface
    answers = {
        "is_available": True,
        "current_device": 0,
        "get_compute_capability": 90,
        "is_bf16_supported": True,
        "is_triton_capable": True,
        "raise_if_triton_unavailable": None,
        "exchange_device": 0,
        "maybe_exchange_device": 0,
        "set_device": None,
        "synchronize": None,
        "get_raw_stream": 0,
        "memory_allocated": 0,
        "get_device_properties": properties,
    }
    for name, answer in answers.items():
        if hasattr(interface, name):
            yield mock.patch.object(interface, name, staticmethod(_always(answer)))
    yield mock.patch.object(interface.Worker, "get_device_properties", staticmethod(_always(properties)))
    yield mock.patch.object(interface.Worker, "current_device", staticmethod(_always(0)))
    yield mock.patch.object(owner("set_driver"), "set_driver_to_gpu", _always(None))  # generated kernels call it
    # a torch that is built for CUDA would wake the driver for the first fake tensor
    yield mock.patch.object(owner("init_gpu"), "init_gpu_context", _always(None))
    # these ask C++ for a device guard, which a torch without CUDA has not; the operations that they come to do not
    yield mock.patch.object(torch.Tensor, "__invert__", lambda tensor: torch.bitwise_not(tensor))
    for holder, name, instead in (
        (torch.Tensor, "contiguous", torch.ops.aten.contiguous),
        (torch.Tensor, "nonzero", _nonzero),
        (torch, "nonzero", _nonzero),
        (torch.Tensor, "__getitem__", _indexed),
        # a fake tensor has no values to be changed
        (torch.Tensor, "__setitem__", lambda *_arguments: None),
        (torch.Tensor, "copy_", lambda tensor, *_arguments, **_named: tensor),
    ):
        yield mock.patch.object(holder, name, _where_made_up(instead, getattr(holder, name)))


def _accepted(query, key, value):
    return None


def _always(answer):
    return lambda *args, **kwargs: answer


def _where_made_up(instead, original):
    def call(tensor, *args, **kwargs):
        return (instead if _is_made_up(tensor) else original)(tensor, *args, **kwargs)

    return call


def _nonzero(tensor, *, as_tuple=False):
    places = torch.ops.aten.nonzero(tensor)
    return places.unbind(1) if as_tuple else places


def _indexed(tensor, index):
    """`tensor[index]`."""
    places = index if isinstance(index, tuple) else (index,)
    axis, gathered = 0, []
    for number, place in enumerate(places):
        if place is Ellipsis:
            later = [one for one in places[number + 1 :] if one is not None]
            skipped = tensor.ndim - axis - sum(one.ndim if _is_mask(one) else 1 for one in later)
            axis, gathered = axis + skipped, gathered + [None] * skipped
        elif isinstance(place, torch.Tensor):
            axis, gathered = axis + (place.ndim if _is_mask(place) else 1), [*gathered, place]
        elif place is None or isinstance(place, slice):
            tensor = tensor.unsqueeze(axis) if place is None else _slice(tensor, axis, place)
            axis, gathered = axis + 1, [*gathered, None]
        else:
            tensor = tensor.select(axis, place)
    return torch.ops.aten.index(tensor, gathered) if any(one is not None for one in gathered) else tensor


def _slice(tensor, axis, taken):
    return torch.ops.aten.slice(tensor, axis, taken.start, taken.stop, 1 if taken.step is None else taken.step)


def _is_mask(place: object) -> bool:
    return isinstance(place, torch.Tensor) and place.dtype == torch.bool


def _is_made_up(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a fake one on the GPU that is not here."""
    return type(tensor) is owner("fake_tensor").FakeTensor and tensor.is_cuda


def copied(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A deep copy of Dynamo's graph that still knows which inputs are parameters.

    AOT autograd asks: what a parameter holds need not be saved for the backward pass, so views of it are made again
    there. torch's own DistributedDataParallel backend hands the two attributes on in the same way.
    """
    made = copy.deepcopy(module)
    if hasattr(module, "_param_name_to_source"):
        made._param_name_to_source = module._param_name_to_source
    for old, new in zip(module.graph.nodes, made.graph.nodes, strict=True):
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
    return made


def on_gpu(module: torch.fx.GraphModule, inputs: list) -> tuple[torch.fx.GraphModule, list]:
    """A copy of an FX graph, and its inputs, with every tensor a fake one on the GPU that is not here."""
    fake_mode = owner("detect_fake_mode").detect_fake_mode(inputs)
    fake_tensor = owner("fake_tensor").FakeTensor

    def moved(value):
        if not isinstance(value, torch.Tensor):
            return value
        meta = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        return fake_tensor(fake_mode, meta, DEVICE)

    def elsewhere(value):
        return DEVICE if value == torch.device("cpu") else value

    def moved_graph(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
        module = copy.copy(module)
        for name, child in module.named_children():
            if isinstance(child, torch.fx.GraphModule):  # a branch of torch.cond, a score of flex_attention
                setattr(module, name, moved_graph(child))
        for name, value in [*vars(module).items(), *module.named_buffers(recurse=False)]:
            if isinstance(value, torch.Tensor) and value.ndim:  # a constant; one number may be anywhere
                setattr(module, name, known(fake_mode, value, DEVICE))
        graph = torch.fx.Graph()
        output = graph.output(graph.graph_copy(module.graph, {}))
        output.meta = dict(next(iter(reversed(module.graph.nodes))).meta)  # how what a user gets is laid out
        module.graph = graph
        for node in graph.nodes:
            node.args, node.kwargs = owner("tree_map").tree_map(elsewhere, (node.args, node.kwargs))
            for key in ("example_value", "val", "eager_input_vals"):
                if key in node.meta:
                    node.meta[key] = owner("tree_map").tree_map(moved, node.meta[key])
        module.recompile()
        return module

    return moved_graph(module), [moved(value) for value in inputs]


def results(module: torch.fx.GraphModule, *inputs) -> tuple:
    """What a graph gives on the CPU, or zeros, so that what follows in the model is traced too."""
    try:
        return module(*inputs)
    except Exception:  # of many kinds: a kernel that is written for a GPU, an operation that the CPU lacks
        return made_up_results(module)


def made_up_results(module: torch.fx.GraphModule, *_inputs) -> tuple:
    """Zeros in the shapes of a graph's results, on the CPU, so that what follows in the model is traced too."""

    def zeros(node):
        value = node.meta.get("example_value", node.meta.get("val")) if isinstance(node, torch.fx.Node) else node
        if not isinstance(value, torch.Tensor):
            return value
        hints = [size.node.hint if isinstance(size, torch.SymInt) else size for size in value.shape]
        made = torch.zeros([1 if size is None else size for size in hints], dtype=value.dtype)  # None follows from data
        # the result of an operation, as it is one in the graph: what follows may change it in place
        return made.requires_grad_().clone() if value.requires_grad and torch.is_grad_enabled() else made

    (results,) = next(node for node in reversed(module.graph.nodes) if node.op == "output").args
    return tuple(zeros(result) for result in results)
