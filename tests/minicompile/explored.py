"""Captures to show: tiny_head as C++ and as Triton, and a backward pass made from its forward."""

import copy
import json
from pathlib import Path

DATA = Path(__file__).parent / "data"


def tiny_head() -> dict:
    """The capture of tiny_head as C++."""
    return json.loads((DATA / "tiny_head_capture.json").read_text())


def tiny_head_simulated() -> dict:
    """The capture of tiny_head as Triton, for an H200 that was not there, down to its machine code."""
    return json.loads((DATA / "tiny_head_capture_simulated.json").read_text())


def with_backward(capture: dict) -> dict:
    """The same with a second graph that says it is the backward; its texts are the forward's, renamed."""
    capture = copy.deepcopy(capture)

    def renamed(value):
        return json.loads(json.dumps(value).replace(".forward", ".backward"))

    graph = renamed(capture["graphs"][0])
    capture["graphs"].append({**graph, "direction": "backward"})
    for pane in [pane for pane in capture["panes"] if pane["graph"]]:
        pane = renamed(pane)
        pane["lines"] = [line.replace("cpp_fused", "cpp_backward") for line in pane["lines"]]
        capture["panes"].append(pane)
    capture["links"] += [renamed(link) for link in capture["links"] if link["to"].endswith(".forward")]
    capture["model"]["train"] = True
    return capture


def profile_of(capture: dict) -> dict:
    """A profile with figures for each kernel of a capture, as much of schemas/profile.schema.yaml as the page reads."""
    figures = {"median_us": 5.5, "gb_per_s": 12.0, "fraction_of_copy": 0.4, "flop_per_byte": 0.5, "tflop_per_s": 0.006}
    kernels = [{"name": kernel["name"], **figures} for graph in capture["graphs"] for kernel in graph["kernels"]]
    ceilings = {"copy_gb_per_s": 30.0, "l2_gb_per_s": 90.0, "fp32_tflop_per_s": 0.5}
    return {"kernels": kernels, "roofline": {"name": "a processor", "ceilings": ceilings}}
