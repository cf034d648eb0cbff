#!/usr/bin/env bash
# safetensors 0.8.0. save_file makes a file that its owner alone may read, whatever the umask says, and puts it in the
# place of a file that others could read. On a cluster or in a container, weights that were written so cannot be
# opened by the user who is to serve them, and nothing was said when they were written.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'safetensors==0.8.0' 'numpy==2.4.6'

cat > weights.py <<'PYTHON'
import os

import numpy as np
from safetensors.numpy import save_file

os.umask(0o022)


def mode(path):
    return f"{os.stat(path).st_mode & 0o777:o}"


np.save("weights.npy", np.ones(3))
print("np.save:", mode("weights.npy"))
save_file({"weights": np.ones(3)}, "weights.safetensors")
print("save_file:", mode("weights.safetensors"))
os.chmod("weights.safetensors", 0o664)
save_file({"weights": np.ones(3)}, "weights.safetensors")
print("save_file over a file with 664:", mode("weights.safetensors"))
PYTHON
python weights.py > output 2> errors || cat errors

finding "a new file has 644 under the umask 022, and one that is written again keeps its mode" \
  "both have 600" <<'SEEN'
np.save: 644
save_file: 600
save_file over a file with 664: 600
SEEN
