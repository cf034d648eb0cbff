"""Inductor's output code, run as it is with kernels of a stand-in's making and inputs made up from what it checks."""

import re
from collections.abc import Callable, Iterable

import torch

CHECKED = re.compile(r"^\s*assert_size_stride\((\w+), \(([^)]*)\), \(([^)]*)\)", re.M)
CONSTANT = re.compile(r"^(\w+) = None  # device\(.*?\) torch\.(\w+) \(([^)]*)\) \(([^)]*)\).*$", re.M)
UNUSED = re.compile(r"^\s*(\w+) = rand_strided\(\(([^)]*)\), \(([^)]*)\)", re.M)  # what no kernel reads is not checked
GIVEN = re.compile(r"^\s*(?P<names>[\w, ]+?),? = args$", re.M)


def inputs_of(code: str) -> list[torch.Tensor]:
    """Inputs of the sizes that the code checks for; integers are 0 or 1, which is an index into most things.

    The dtypes stand in comments above the code: `# arg0_1: float32`.
    """
    match = GIVEN.search(code, max(code.find("    def call(self, args):"), 0))
    if not match:
        return []
    sizes = {
        name: (_numbers(size), _numbers(stride))
        for name, size, stride in [*UNUSED.findall(code), *CHECKED.findall(code)]
    }
    dtypes = dict(re.findall(r"^# (\w+): (\w+)$", code, re.M))
    generator = torch.Generator().manual_seed(0)
    names = match["names"].split(", ")
    return [_made_up(*sizes.get(name, ([], [])), getattr(torch, dtypes[name]), generator) for name in names]


def constants_of(code: str) -> dict[str, torch.Tensor]:
    """The tensors that the code takes from its module, by name; their values, which it does not hold, are made up."""
    generator = torch.Generator().manual_seed(1)
    return {
        name: _made_up(_numbers(size), _numbers(stride), getattr(torch, dtype), generator)
        for name, dtype, size, stride in CONSTANT.findall(code)
    }


def _made_up(size: list[int], stride: list[int], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """A tensor in whose memory, of which several elements may share one, are random numbers."""
    reach = sum((length - 1) * step for length, step in zip(size, stride, strict=True)) + 1 if all(size) else 0
    memory = torch.empty(reach, dtype=dtype)
    random = dtype.is_floating_point or dtype.is_complex
    memory = memory.normal_(generator=generator) if random else memory.random_(0, 2, generator=generator)
    return memory.as_strided(size, stride)


def left_in(arguments: Iterable) -> list[torch.Tensor]:
    """What a call leaves in the memory that it was given: its tensors, and whole what some are slices of."""
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    whole = {one.untyped_storage().data_ptr(): one for one in tensors}.values()
    sliced = [one for one in whole if one.untyped_storage().nbytes() > one.nbytes]
    parts = [
        one.detach().as_strided((one.untyped_storage().nbytes() // one.element_size(),), (1,), 0) for one in sliced
    ]
    return [one.detach().clone() for one in (*tensors, *parts)]


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.replace(" ", "").split(",") if one]


def loaded(code: str, compiler: type) -> Callable[[list], tuple]:
    """The code's `call`, on the CPU, with `compiler` in the place of AsyncCompile."""
    code = re.sub(r"(?m)^from torch\._C import _cuda_getCurrentRawStream.*$", "", code)
    code = code.replace("from torch._inductor.async_compile import AsyncCompile", "")
    code = code.replace("empty_strided_cuda", "empty_strided_cpu").replace("'cuda'", "'cpu'").replace("cuda:0", "cpu")
    code = re.sub(r"torch\.cuda\._DeviceGuard\(\d+\)", "contextlib.nullcontext()", code)
    code = re.sub(r"torch\.cuda\.set_device\(\d+\)", "pass", code).replace("type='cuda', index=0", "type='cpu'")
    code = re.sub(r"(?m)^assert_size_stride = .*$", "assert_size_stride = lambda *_: None", code)  # cuDNN's layouts
    space = {"AsyncCompile": compiler, "get_raw_stream": lambda _device: 0, "__name__": "code"}
    exec(compile("import contextlib\n" + code, "<code>", "exec"), space)
    space |= constants_of(code)
    return space["call"]
