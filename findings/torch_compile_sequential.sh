#!/usr/bin/env bash
# torch 2.13.0. The method compile() of a module whose forward is torch.nn's own compiles nothing and says nothing:
# Dynamo skips the frames of torch.nn, and in place there is no frame of the user's around them. torch.compile(model)
# on the same model compiles it, and so does the method once a subclass has a forward of its own. Only fullgraph=True
# tells.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'torch==2.13.0' 'numpy==2.4.6'

cat > compiles.py <<'PYTHON'
import torch
from torch import nn

graphs = 0


def backend(graph, inputs):
    global graphs
    graphs += 1
    return graph.forward


class Own(nn.Sequential):
    def forward(self, x):
        return super().forward(x)


def tried(name, compiled):
    global graphs
    graphs = 0
    try:
        compiled(torch.ones(2, 4))
        print(f"{name}: {graphs} graphs")
    except RuntimeError as error:
        print(f"{name}: {str(error).split('. ')[0]}")


def in_place(model, **options):
    model.compile(backend=backend, **options)
    return model


layers = nn.Linear(4, 4), nn.ReLU()
tried("nn.Sequential, torch.compile(model)", torch.compile(nn.Sequential(*layers), backend=backend))
tried("nn.Sequential, model.compile()", in_place(nn.Sequential(*layers)))
tried("a subclass with a forward, model.compile()", in_place(Own(*layers)))
tried("model.compile(fullgraph=True)", in_place(nn.Sequential(*layers), fullgraph=True))
PYTHON
python compiles.py > output 2> errors || cat errors
! grep -iE "warning|skip" errors >> output # a word of it would be a difference

finding "model.compile() compiles what torch.compile(model) does" \
  "it compiles no graph of an nn.Sequential, without a warning" <<'SEEN'
nn.Sequential, torch.compile(model): 1 graphs
nn.Sequential, model.compile(): 0 graphs
a subclass with a forward, model.compile(): 1 graphs
model.compile(fullgraph=True): torch.compile with fullgraph=True found no compiled frames
SEEN
