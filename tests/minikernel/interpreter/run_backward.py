"""Run the Triton backward kernel in its interpreter: arrays in one .npz, gradients in another.

In a process of its own, as `run_kernel.py` explains. Called as `run_backward.py IN OUT`: arrays of IN are
named `NUMBER|dy|CONFIG|DTYPE` and `NUMBER|y|CONFIG|DTYPE`, results `NUMBER|CONFIG|DTYPE`, all float32.
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
        dy, y = (
            torch.from_numpy(inputs[f"{number}|{name}|{config}|{dtype}"]).to(getattr(torch, dtype))
            for name in ("dy", "y")
        )
        results[f"{number}|{config}|{dtype}"] = softmax_backward(dy, y, config=json.loads(config)).float().numpy()
np.savez(sys.argv[2], **results)
