"""Run the Triton kernels of linear_cross_entropy in the interpreter, on a CPU: cases in one file, results in another.

In a process of its own, as `run_kernel.py` explains. Called as `run_loss.py IN OUT`, files of torch.save: IN holds
cases {"path", "h", "weight", "target", "grad", "options", "bias", "class_weight"}, OUT (loss, dh, dweight[, dbias]) of
each.
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from minikernel.ops.linear_cross_entropy import operator, paths

cases = torch.load(sys.argv[1], weights_only=True)
results = []
for case in cases:
    # what a GPU of these dtypes and widths would get
    operator.paths.choose = lambda *unused, name=case["path"]: paths.Path(name, "as the case says")
    factors = [case[name].requires_grad_() for name in ("h", "weight", "bias") if case[name] is not None]
    more = {name: case[name] for name in ("bias", "class_weight")} | case["options"]
    loss = operator.linear_cross_entropy(case["h"], case["weight"], case["target"], **more)
    results.append([loss.detach(), *torch.autograd.grad(loss, factors, case["grad"].to(loss))])
torch.save(results, sys.argv[2])
