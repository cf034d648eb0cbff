"""A process in which autograd has started threads, as after any backward pass with a build of torch for a GPU that is
not there: no model is blamed for what torch refuses of a forked process."""

import json
import subprocess
import sys

import pytest

from minicompile.safe.smoketest.apart import why_not

# The device that stands in registers a guard of its own, as builds for CUDA do by themselves when something is traced.
SCRIPT = """
import json, logging, os
import torch
from torch import nn
from minicompile import CompileConfig, compile_report, maybe_compile
from minicompile.safe.smoketest.apart import call_apart
from minilab.sandbox import autograd

class Guard(torch._C._acc.DeviceGuard):
    def type_(self):
        return torch._C._autograd.DeviceType.PrivateUse1

def a_device_then_a_backward_pass():
    torch._C._acc.register_python_privateuseone_device_guard(Guard())
    torch.ones(1, requires_grad=True).sum().backward()

def try_one():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())  # a ReLU may let nothing through
    cfg = CompileConfig(enabled=True, backend="aot_eager", smoketest_steps=2)
    maybe_compile(model, cfg, logging.getLogger("mine"), torch.ones(2, 4), loss_fn=lambda y: y.sum())
    report = compile_report(model)
    print(json.dumps([autograd.has_started_threads(), report.stage, report.in_place, report.failure]), flush=True)

logging.getLogger("mine").addHandler(logging.NullHandler())
if (child := os.fork()) == 0:
    call_apart(lambda sign: None)
    a_device_then_a_backward_pass()
    try_one()
    os._exit(0)
os.waitpid(child, 0)
a_device_then_a_backward_pass()
try_one()
if (child := os.fork()) == 0:
    try_one()
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.skipif(why_not() is not None, reason=f"no fork here: {why_not()}")
def test_a_model_is_tried_elsewhere_and_never_blamed_for_what_torch_refuses_a_fork():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    begun_here, with_threads, in_a_fork = map(json.loads, done.stdout.splitlines())
    # A first call has autograd begin before it knows of a device, so that it starts no threads, and copies can be made.
    assert begun_here == [False, "compiled", None, None]
    threads, stage, in_place, _ = with_threads
    assert (threads, stage) == (True, "compiled")
    assert in_place.startswith("autograd has started threads")
    # Forked from a process with threads: not even the eager model can be trained there, and that is what is said.
    assert in_a_fork[1] == "process"
    assert in_a_fork[3] == {"code": "forked_process"}
