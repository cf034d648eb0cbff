"""Why a template was not offered is read off the predicate that said no."""

import contextlib
import sys
from types import SimpleNamespace

import pytest
import torch
from torch._inductor import config, utils
from torch._inductor.kernel import mm

from minicompile.watching.choosing import predicates
from minicompile.watching.choosing.hooking import Hooks

TUNED = "config.max_autotune or config.max_autotune_gemm"
DTYPE = "layout.dtype in allowed_layout_dtypes"


@pytest.mark.parametrize(
    ("device", "dtype", "big", "tuned", "decided"),
    [
        ("cuda", torch.float64, True, True, ("_use_template_for_gpu", DTYPE)),
        ("cuda", torch.float32, False, True, ("_use_template_for_gpu", "is_big_gpu(layout.device)")),
        ("cuda", torch.float32, True, False, ("use_triton_template", f"{TUNED} or (not check_max_autotune)")),
        ("cpu", torch.float32, True, False, ("_use_template_for_cpu", TUNED)),
    ],
)
def test_the_condition_that_decided_is_told(device, dtype, big, tuned, decided, monkeypatch):
    monkeypatch.setattr(utils, "is_big_gpu", lambda _: big)
    layout = SimpleNamespace(device=torch.device(device), dtype=dtype)
    hooks, told, before = Hooks(), [], sys.gettrace()
    original = mm.use_triton_template
    with contextlib.ExitStack() as stack, config.patch(max_autotune=tuned, max_autotune_gemm=tuned):
        for patch in predicates.patches(hooks, lambda *refusal: told.append(refusal)):
            stack.enter_context(patch)
        asked = mm.use_triton_template if device == "cuda" else mm.use_cpp_gemm_template
        assert not (asked(layout) if device == "cuda" else asked(layout, None, None))
    predicate, condition = decided
    name, kind = ("use_triton_template", "triton") if device == "cuda" else ("use_cpp_gemm_template", "cpp")
    assert told == [(name, kind, {"predicate": predicate, "condition": condition, "value": "False"})]
    assert (mm.use_triton_template, sys.gettrace(), hooks.absent) == (original, before, [])
