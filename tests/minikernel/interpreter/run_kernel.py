"""Run the Triton kernel in its interpreter, in a process of its own: arrays in one .npz, results in another.

Triton decides between compiling and interpreting as it is imported, so the tests that compile cannot
share a process with those that interpret. Called as `run_kernel.py IN OUT`: each array of IN is named
`NUMBER|CONFIG` with the configuration as JSON, or `NUMBER|null`.
"""

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch

from minikernel.softmax_triton import softmax

inputs = np.load(sys.argv[1])
results = {}
for key in inputs.files:
    config = json.loads(key.split("|")[1])
    results[key] = softmax(torch.from_numpy(inputs[key]), config=config).numpy()
np.savez(sys.argv[2], **results)
