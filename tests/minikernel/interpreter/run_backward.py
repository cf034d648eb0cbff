"""Run the Triton backward kernel in its interpreter: arrays in one .npz, gradients in another.

In a process of its own, as `run_kernel.py` explains. Called as `run_backward.py IN OUT`: arrays of IN are
named `NUMBER|dy|CONFIG|DTYPE` and `NUMBER|y|CONFIG|DTYPE`, results `NUMBER|CONFIG|DTYPE`, all
float32. DTYPE may name the result's after its own (`float32>bfloat16`).
"""

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch

from minikernel.ops.softmax_triton_backward import softmax_backward

inputs = np.load(sys.argv[1])
results = {}
for key in inputs.files:
    number, operand, config, dtype = key.split("|")
    if operand == "y":
        own, _, result = dtype.partition(">")
        dy, y = (
            torch.from_numpy(inputs[f"{number}|{name}|{config}|{dtype}"]).to(getattr(torch, own))
            for name in ("dy", "y")
        )
        dx = softmax_backward(dy, y, config=json.loads(config), dtype=getattr(torch, result or own))
        assert dx.dtype == getattr(torch, result or own)
        results[f"{number}|{config}|{dtype}"] = dx.float().numpy()
np.savez(sys.argv[2], **results)
