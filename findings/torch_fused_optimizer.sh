#!/usr/bin/env bash
# torch 2.13.0. A fused optimizer changes its parameters without counting the change in their version, on a CPU too.
# So autograd does not notice that a value which it saved is another one by now: where other implementations of the
# same step raise, it returns a gradient at the new weights. What watches versions for changed weights does not see
# them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'torch==2.13.0'

cat > step.py <<'PYTHON'
import torch

for name in ("SGD", "Adam"):
    for how in ("foreach", "fused"):
        weight = torch.nn.Parameter(torch.tensor([2.0]))
        weight.grad = torch.ones(1)
        square = weight.square().sum()  # its gradient at 2 is 4
        counted = weight._version
        getattr(torch.optim, name)([weight], lr=0.5, **{how: True}).step()
        counted = weight._version - counted
        try:
            then = f"gradient {torch.autograd.grad(square, weight)[0].item():.2f}"
        except RuntimeError:
            then = "RuntimeError"
        print(f"{name}, {how}: weight {weight.item():.2f}, counted {counted}, {then}")
PYTHON
python step.py > output 2> errors || cat errors

finding "every implementation of an optimizer counts a step as a change in place" \
  "the fused ones count nothing, and a gradient that was to be 4 is 3" <<'SEEN'
SGD, foreach: weight 1.50, counted 1, RuntimeError
SGD, fused: weight 1.50, counted 0, gradient 3.00
Adam, foreach: weight 1.50, counted 1, RuntimeError
Adam, fused: weight 1.50, counted 0, gradient 3.00
SEEN
