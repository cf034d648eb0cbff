#!/usr/bin/env bash
# torch 2.13.0. Each process group wraps sys.excepthook, and destroy_process_group leaves the wrapper there. A program
# that has closed three groups prefixes every line of a later traceback with "[rank0]: " three times, and a tool that
# put its own hook there before is called through three functions of torch's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'torch==2.13.0'

cat > groups.py <<'PYTHON'
import sys
from pathlib import Path

import torch.distributed as distributed

before = sys.excepthook
for number in range(3):
    store = Path(f"group{number}").absolute().as_uri()
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    distributed.destroy_process_group()
print("the hook is the one from before:", sys.excepthook is before)
print("a group is there:", distributed.is_initialized(), flush=True)
raise ValueError("of the program itself")
PYTHON
python groups.py > output 2> errors || true
grep "ValueError: of" errors >> output

finding "once its group is destroyed, a process has the hook of uncaught exceptions that it had before" \
  "three groups have left three wrappers, each with its prefix" <<'SEEN'
the hook is the one from before: False
a group is there: False
[rank0]: [rank0]: [rank0]: ValueError: of the program itself
SEEN
