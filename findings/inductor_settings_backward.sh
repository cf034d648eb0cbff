#!/usr/bin/env bash
# torch 2.13.0; needs a C++ compiler. The backward graph is lowered when .backward() is first called, by the settings
# of that moment. torch._inductor.config.patch around the compiled call therefore reaches the forward graph alone: a
# graph pass set so never sees the backward one. The same setting as an option of torch.compile reaches both.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'torch==2.13.0'

cat > passes.py <<'PYTHON'
import torch
from torch._inductor import config

seen = []


def record(graph):
    seen.append("backward" if any(node.name.startswith("tangents") for node in graph.nodes) else "forward")


def model(x):
    return x.sin().sum()


with config.patch(post_grad_custom_post_pass=record):
    loss = torch.compile(model)(torch.ones(16, requires_grad=True))
loss.backward()
print("patched around the call:", *seen)

seen.clear()
torch._dynamo.reset()
loss = torch.compile(model, options={"post_grad_custom_post_pass": record})(torch.ones(16, requires_grad=True))
loss.backward()
print("an option of the compile:", *seen)
PYTHON
python passes.py > output 2> errors || cat errors

finding "what is set while a model is compiled holds for its forward and its backward graph" \
  "it holds for the forward graph; the backward one is lowered later, by other settings" <<'SEEN'
patched around the call: forward
an option of the compile: forward backward
SEEN
