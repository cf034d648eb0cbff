#!/usr/bin/env bash
# torch 2.13.0; needs a C++ compiler. With TORCH_COMPILE_DEBUG=1 Inductor writes its graphs, its IR and its code, but
# only for what it compiles anew. The same script run again finds its graphs in the cache on the disk and writes none
# of them: the folder is there, its logs are there, and neither an error nor a warning says why the rest is not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'torch==2.13.0' 'numpy==2.4.6'

cat > softmax.py <<'PYTHON'
import torch

torch.compile(lambda x: torch.softmax(x, -1))(torch.ones(4, 16))
PYTHON
for run in first second; do
  (mkdir "$run" && cd "$run" && TORCH_COMPILE_DEBUG=1 python ../softmax.py 2> errors) || cat "$run/errors"
  for name in fx_graph_readable.py ir_pre_fusion.txt ir_post_fusion.txt output_code.py; do
    echo "$run run, $name: $(find "$run/torch_compile_debug" -name "$name" | wc -l)"
  done
done > output
! grep -iE "warning|error|cache" second/errors >> output # a word of it would be a difference

finding "the debug folder of a run holds what this run executes" \
  "with a warm cache it holds neither graphs, nor IR, nor code" <<'SEEN'
first run, fx_graph_readable.py: 1
first run, ir_pre_fusion.txt: 1
first run, ir_post_fusion.txt: 1
first run, output_code.py: 1
second run, fx_graph_readable.py: 0
second run, ir_pre_fusion.txt: 0
second run, ir_post_fusion.txt: 0
second run, output_code.py: 0
SEEN
