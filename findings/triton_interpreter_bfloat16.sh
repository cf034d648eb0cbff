#!/usr/bin/env bash
# triton 3.9.0. Triton's interpreter makes a bfloat16 of a float32 by dropping the low 16 bits, where a GPU rounds to
# the nearest: up to a whole unit in the last place off, and always towards zero, so that sums of many are too small.
# Its float16 is rounded to the nearest. So a tolerance of half a unit, right on a GPU, fails in the interpreter.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'triton==3.9.0' 'numpy==2.4.6'

cat > rounding.py <<'PYTHON'
import triton
import triton.language as tl

seen = {}


@triton.jit
def kernel(BLOCK: tl.constexpr):
    quarters = tl.arange(0, BLOCK) * 0.25  # of a unit in the last place
    seen["bfloat16"] = ((1 + quarters / 128).to(tl.bfloat16).to(tl.float32) - 1) * 128
    seen["float16"] = ((1 + quarters / 1024).to(tl.float16).to(tl.float32) - 1) * 1024
    seen["quarters"] = quarters


kernel[(1,)](8)
for name in ("quarters", "bfloat16", "float16"):
    print(f"{name:8}", *(f"{value:.2f}" for value in seen[name].handle.data))
PYTHON
TRITON_INTERPRET=1 python rounding.py > output 2> errors || cat errors

finding "both 16-bit formats are rounded to the nearest: 1.75 units above one become 2" \
  "float16 is; bfloat16 is cut off: 1.75 units become 1" <<'SEEN'
quarters 0.00 0.25 0.50 0.75 1.00 1.25 1.50 1.75
bfloat16 0.00 0.00 0.00 0.00 1.00 1.00 1.00 1.00
float16  0.00 0.00 0.00 1.00 1.00 1.00 2.00 2.00
SEEN
