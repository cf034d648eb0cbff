"""A linear layer under max-autotune, for two targets: captures with candidates, in data/.

`python tests/minicompile/chosen.py` captures them anew.
"""

import gzip
import json
import sys
from pathlib import Path

DATA = Path(__file__).parent / "data"
TARGETS = {
    "cpu": {
        "cpp.vec_isa_ok": True,
        "cpp.simdlen": 256,
        "max_autotune": True,
        "max_autotune_gemm_backends": "CPP,ATEN",
        "freezing": True,
    },
    "simulated": {"max_autotune": True},
}


def tuned(target: str) -> dict:
    """The capture for `cpu` or `simulated`."""
    return json.loads(gzip.decompress((DATA / f"tuned_{target}.json.gz").read_bytes()))


def make() -> None:
    import torch
    from torch import nn

    from minicompile.capturing import capture

    class Rectified(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(64, 96)

        def forward(self, x):
            return torch.relu(self.linear(x))

    torch.manual_seed(0)
    module, inputs = Rectified().eval(), (torch.randn(32, 64),)
    for target, options in TARGETS.items():
        with torch._inductor.config.patch(options):  # Dynamo too asks whether weights are frozen
            made = capture(module, inputs, target=target, name="rectified")
        (DATA / f"tuned_{target}.json.gz").write_bytes(gzip.compress(json.dumps(made).encode(), 9, mtime=0))


if __name__ == "__main__":
    sys.exit(make())
