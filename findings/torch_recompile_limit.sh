#!/usr/bin/env bash
# torch 2.13.0. The limit of eight recompiles holds for a piece of code, not for a compiled object. Twelve linear
# layers of different widths, each compiled by a torch.compile of its own and called once, share it: the last four run
# eager, and one warning is all that is said. A benchmark of many sizes in one process measures eager from the ninth
# on.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'torch==2.13.0'

cat > widths.py <<'PYTHON'
import torch

graphs = 0


def backend(graph, inputs):
    global graphs
    graphs += 1
    return graph.forward


compiled = []
for width in range(2, 14):
    before = graphs
    torch.compile(torch.nn.Linear(width, 2), backend=backend, dynamic=False)(torch.ones(3, width))
    compiled.append(graphs - before)
print("graphs of each layer:", *compiled)
PYTHON
python widths.py > output 2> errors || cat errors
echo "warnings of the limit: $(grep -c 'hit config.recompile_limit' errors)" >> output

finding "twelve models, each compiled and called once, are twelve compiles and no recompile" \
  "they count as recompiles of one function, and after eight the others run eager" <<'SEEN'
graphs of each layer: 1 1 1 1 1 1 1 1 0 0 0 0
warnings of the limit: 1
SEEN
