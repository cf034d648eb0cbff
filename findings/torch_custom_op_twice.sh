#!/usr/bin/env bash
# torch 2.13.0. Two functions that register a custom operator of one name, as happens where a file is imported twice
# under two module names: the second registration is accepted without an error or a warning, and from then on the
# first object, called directly, computes what the second function says.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'torch==2.13.0' 'numpy==2.4.6'

cat > twice.py <<'PYTHON'
import torch


def scaled_by(factor):
    @torch.library.custom_op("lab::scale", mutates_args=())
    def scale(x: torch.Tensor) -> torch.Tensor:
        return x * factor

    return scale


x = torch.ones(1)
double = scaled_by(2)
print("double, before:", double(x).item())
triple = scaled_by(3)
print("triple:", triple(x).item())
print("double, after:", double(x).item())
PYTHON
python -W always twice.py > output 2> errors || cat errors
! grep -E "Warning|Error" errors >> output # a word of it would be a difference

finding "the second definition is refused, or each object keeps its function" \
  "the first object computes what the second defines, without a warning" <<'SEEN'
double, before: 2.0
triple: 3.0
double, after: 3.0
SEEN
