#!/usr/bin/env bash
# triton 3.9.0; needs no GPU. The wheel brings two assemblers, `ptxas` and `ptxas-blackwell`. The PTX of a kernel for
# a Hopper (sm_90) is one that `ptxas` refuses, being older than the version which Triton writes at its head; the
# other, in spite of its name, takes it. Whoever assembles Triton's PTX by hand, for the registers of a kernel say,
# meets this.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'triton==3.9.0' 'numpy==2.4.6'

cat > assemble.py <<'PYTHON'
import subprocess
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def double(y, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) * 2)


signature = {"y": "*fp32", "x": "*fp32", "BLOCK": "constexpr"}
source = ASTSource(double, signature, constexprs={"BLOCK": 128})
Path("double.ptx").write_text(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"])
for name in ("ptxas", "ptxas-blackwell"):
    tool = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    assemble = [tool, "--gpu-name=sm_90a", "-o", "double.cubin", "double.ptx"]
    done = subprocess.run(assemble, capture_output=True, text=True)
    said = done.stderr.partition("fatal   : ")[2].splitlines()
    print(f"{name}: {'a cubin' if done.returncode == 0 else said[0]}")
PYTHON
python -W ignore assemble.py > output 2> errors || cat errors

finding "Triton's own ptxas assembles what Triton writes for a Hopper, and the other is for a Blackwell" \
  "ptxas refuses it, and ptxas-blackwell takes it" <<'SEEN'
ptxas: Unsupported .version 9.4; current version is '8.8'
ptxas-blackwell: a cubin
SEEN
