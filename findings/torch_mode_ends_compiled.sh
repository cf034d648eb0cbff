#!/usr/bin/env bash
# torch 2.13.0. One call of a compiled function under FlopCounterMode, to count its operations once, ends its compiled
# code: Dynamo marks the frame as one to skip, for good, and all later calls run eager, without a warning. Any
# TorchDispatchMode does it, one that does nothing too. torch.compiler.reset() brings compiled code back, by a compile.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'torch==2.13.0'

cat > counted.py <<'PYTHON'
import torch
from torch.utils.flop_counter import FlopCounterMode

runs = 0


def backend(graph, inputs):
    def run(*given):
        global runs
        runs += 1
        return graph.forward(*given)

    return run


@torch.compile(backend=backend)
def product(x):
    return x @ x


def compiled_of_three():
    before = runs
    for _ in range(3):
        product(x)
    return runs - before


x = torch.ones(4, 4)
print("before:", compiled_of_three())
with FlopCounterMode(display=False) as counter:
    product(x)
print("counted:", counter.get_total_flops())
print("after:", compiled_of_three())
torch.compiler.reset()
print("after a reset:", compiled_of_three())
PYTHON
python counted.py > output

finding "the call that is counted runs eager, and those after it are compiled again" \
  "all later calls run eager, and nothing is said" <<'SEEN'
before: 3
counted: 128
after: 0
after a reset: 3
SEEN
