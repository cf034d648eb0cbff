#!/usr/bin/env bash
# triton 3.6.0 with numpy 2.4.6. A loop over an argument of the kernel, `for i in range(0, n, BLOCK)`, does not run in
# Triton's interpreter: its scalars are arrays of one element, of which it makes an int in a way that NumPy warned of
# until 2.3 and refuses since 2.4. Nothing in the packages' requirements keeps the two apart. triton 3.9.0 runs the
# loop.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"

cat > "$folder/loop.py" <<'PYTHON'
from importlib.metadata import version

import triton
import triton.language as tl

steps = []


@triton.jit
def kernel(n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        steps.append(start)


try:
    kernel[(1,)](10, 4)
    said = f"steps {steps}"
except triton.runtime.errors.InterpreterError as error:
    said = f"{type(error.__cause__).__name__}: {error.__cause__}"
print(f"triton {version('triton')}, numpy {version('numpy')}: {said}")
PYTHON
for pins in 'triton==3.6.0 numpy==2.3.5' 'triton==3.6.0 numpy==2.4.6' 'triton==3.9.0 numpy==2.4.6'; do
  environment $pins
  TRITON_INTERPRET=1 python -W ignore loop.py >> output
done

finding "a kernel with a loop, as in Triton's own tutorials, runs in the interpreter of a release that pip installs" \
  "it raises a TypeError of NumPy's with one pair of releases" <<'SEEN'
triton 3.6.0, numpy 2.3.5: steps [0, 4, 8]
triton 3.6.0, numpy 2.4.6: TypeError: only 0-dimensional arrays can be converted to Python scalars
triton 3.9.0, numpy 2.4.6: steps [0, 4, 8]
SEEN
