"""Run the Triton kernel in its interpreter, in a process of its own: arrays in one .npz, results in another.

Triton decides between compiling and interpreting as it is imported, so the tests that compile cannot
share a process with those that interpret. Called as `run_kernel.py IN OUT`: each array of IN is named
`NUMBER|CONFIG|DTYPE` with the configuration as JSON, or `null`, and may name the result's dtype after its own
(`float16>float32`); all arrays are float32.
"""

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch

from minikernel.ops.softmax_triton import softmax

inputs = np.load(sys.argv[1])
results = {}
for key in inputs.files:
    _, config, dtype = key.split("|")
    dtype, _, result = dtype.partition(">")
    x = torch.from_numpy(inputs[key]).to(getattr(torch, dtype))
    y = softmax(x, config=json.loads(config), dtype=getattr(torch, result or dtype))
    assert y.dtype == getattr(torch, result or dtype)
    results[key] = y.float().numpy()
np.savez(sys.argv[2], **results)
