"""A dimension that is marked as dynamic stays one under the capture, and what reads a capture can cope with it."""

import pytest
import torch
from captured import FAST

from minicompile.capturing import capture
from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.explorer import render_explorer
from minicompile.models import tiny_head
from minicompile.report.stage_25 import capture_view


@pytest.mark.parametrize(("target", "options"), [("simulated", None), ("cpu", FAST)])
def test_a_dimension_that_is_marked_as_dynamic_is_not_specialised(target, options, tmp_path):
    model, x = tiny_head().module, torch.randn(4, 64)
    torch._dynamo.mark_dynamic(x, 0)  # Dynamo refuses a compile that fixes it
    made = capture(model, (x,), target=target, options=options)
    (graph,) = made["graphs"]
    batch, columns = next(node["size"] for node in graph["nodes"] if node["target"] == "aten.addmm.default")
    assert isinstance(batch, str)
    assert columns == 600
    assert "softmax" in annotate(made)
    render_explorer(made, tmp_path / "explorer.html")
    assert capture_view(made, "tiny_head")["graphs"][0]["kernels"] == 1
