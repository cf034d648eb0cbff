"""Inductor's output code, run as it is with kernels of a stand-in's making and inputs made up from what it checks."""

import re
from collections.abc import Callable, Iterable

import torch

CHECKED = re.compile(r"^\s*assert_size_stride\((\w+), \(([^)]*)\), \(([^)]*)\)", re.M)
GIVEN = re.compile(r"^\s*(?P<names>[\w, ]+?),? = args$", re.M)


def inputs_of(code: str) -> list[torch.Tensor]:
    """Inputs of the sizes that the code checks for; integers are 0 or 1, which is an index into most things.

    The dtypes stand in comments above the code: `# arg0_1: float32`.
    """
    match = GIVEN.search(code, max(code.find("    def call(self, args):"), 0))
    if not match:
        return []
    sizes = {name: (_numbers(size), _numbers(stride)) for name, size, stride in CHECKED.findall(code)}
    dtypes = dict(re.findall(r"^# (\w+): (\w+)$", code, re.M))
    generator = torch.Generator().manual_seed(0)
    found = []
    for name in match["names"].split(", "):
        made = torch.empty_strided(*sizes.get(name, ([], [])), dtype=getattr(torch, dtypes[name]))
        if made.dtype.is_floating_point or made.dtype.is_complex:
            found.append(made.normal_(generator=generator))
        else:
            found.append(made.random_(0, 2, generator=generator))
    return found


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
    return space["call"]
