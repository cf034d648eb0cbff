#!/usr/bin/env bash
# torch 2.13.0; needs no GPU. An autograd.Function with a `jvp` of its own is right under one torch.func.jvp. Under two,
# the second derivative of what `jvp` computes from saved inputs is zero, without a word: torch turns forward mode off
# while it calls `jvp`, for the outer transform as well. Whoever writes a `jvp` and differentiates twice meets this.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'torch==2.13.0' 'numpy==2.4.6'

cat > nested.py <<'PYTHON'
import torch
from torch.func import jvp


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * tangent


def derivative(function):
    return lambda x: jvp(function, (x,), (torch.ones_like(x),))[1]


x = torch.tensor(2.0)
print("first derivative:", derivative(Cube.apply)(x).item())
print("second derivative:", derivative(derivative(Cube.apply))(x).item())
PYTHON
python -W ignore nested.py > output 2> errors || cat errors

finding "a jvp that is right gives second derivatives too: 12 for the cube of 2" \
  "the second derivative is 0" <<'SEEN'
first derivative: 12.0
second derivative: 0.0
SEEN
