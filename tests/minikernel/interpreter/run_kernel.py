"""Run the Triton kernel in its interpreter, in a process of its own: arrays in one .npz, results in another.

Triton decides between compiling and interpreting as it is imported, so the tests that compile cannot
share a process with those that interpret. Called as `run_kernel.py IN OUT`: each array of IN is named
`NUMBER|CONFIG|DTYPE` with the configuration as JSON, or `null`; all arrays are float32.
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
    x = torch.from_numpy(inputs[key]).to(getattr(torch, dtype))
    results[key] = softmax(x, config=json.loads(config)).float().numpy()
np.savez(sys.argv[2], **results)
