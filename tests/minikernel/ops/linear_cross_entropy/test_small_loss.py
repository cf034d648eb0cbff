"""Every kernel of the loss once, on a shape that fills no tile: what `tests/sanitize.sh` looks at on a GPU."""

import pytest
import torch
from exact_loss import errors, exact, found

from minikernel import linear_cross_entropy
from minikernel.ops.linear_cross_entropy import paths
from minikernel.ops.linear_cross_entropy.options import Options

DEVICE = "cuda"
MOST = {torch.float32: 2e-6, torch.float16: 2**-10, torch.bfloat16: 2**-8}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    ("path", "features", "dtype", "options"),
    [
        ("recomputed", 24, torch.float32, {"label_smoothing": 0.1}),
        ("recomputed", 64, torch.bfloat16, {}),
        ("recomputed", 100, torch.float16, {"softcap": 2.0, "reduction": "none"}),
        ("exponentials", 320, torch.bfloat16, {}),
        ("exponentials", 208, torch.bfloat16, {"z_loss": 0.02, "reduction": "none"}),
        ("rows", 2056, torch.bfloat16, {}),
        ("rows", 384, torch.bfloat16, {"z_loss": 0.02, "label_smoothing": 0.1, "reduction": "sum"}),
    ],
)
def test_a_small_loss_is_right(path, features, dtype, options):
    generator = torch.Generator().manual_seed(features)
    h, weight = (torch.randn(n, features, generator=generator) * features**-0.25 for n in (75, 301))
    target = torch.randint(301, (75,), generator=generator)
    target[1::9], target[0] = -100, 300
    bias, class_weight = torch.randn(301, generator=generator), torch.rand(301, generator=generator)
    grad = torch.rand((75,) if options.get("reduction") == "none" else (), generator=generator) + 0.5
    h, weight, bias = (one.to(DEVICE, dtype) for one in (h, weight, bias))
    target, class_weight, grad = (one.to(DEVICE) for one in (target, class_weight, grad))
    settings = Options(**{"label_smoothing": 0.0, "z_loss": 0.0, "softcap": 0.0, **options})
    assert paths.choose(h, settings).name == path
    for vectors in ({}, {"bias": bias, "class_weight": class_weight}):
        results = found(linear_cross_entropy, h, weight, target, grad, **vectors, **options)
        right = exact(h, weight, target, grad, **vectors, **options)
        assert max(errors(results, right)) < MOST[dtype], vectors.keys()
