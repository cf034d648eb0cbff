"""Choices in a capture: tied to the lines that define their nodes, equal ones together, a real clock's taken over."""

import re
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from zoo_models import captured as kept

from minicompile.capturing import capture
from minicompile.lowering.choices import _margin
from minicompile.lowering.simulated_vs_real import compare_with_real
from minicompile.models import tiny_head
from minicompile.watching.choosing.heuristics import KernelTimes
from minilab.config.check import check_schema, read_schema


class Layers(nn.Module):
    """Two layers of the same size, each with what Triton writes a kernel for."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        return torch.softmax(torch.tanh(self.second(torch.tanh(self.first(x)))) * 2, -1)


@dataclass(frozen=True, eq=False)
class Launcher:
    """A compiled kernel, as much of torch's as is asked for its configuration."""

    config: SimpleNamespace


@pytest.fixture(scope="module")
def layers() -> dict:
    return capture(Layers(), (torch.randn(4096, 64),), target="simulated")


@pytest.fixture(scope="module")
def head() -> dict:
    model = tiny_head()
    return capture(model.module, model.inputs, target="simulated", name="tiny_head")


def of_kind(made: dict, kind: str) -> list[dict]:
    return [choice for choice in made["choices"] if choice["kind"] == kind]


def placed(value) -> list[dict]:
    """Every node with a line, wherever in a choice."""
    if isinstance(value, dict):
        return [value] if value.get("line") else [node for one in value.values() for node in placed(one)]
    return [node for one in value for node in placed(one)] if isinstance(value, list) else []


def test_choices_are_as_the_schema_describes_them(layers):
    check_schema(layers, read_schema("schemas/capture.schema.yaml"), "the capture")
    assert {choice["kind"] for choice in layers["choices"]} >= {"algorithm", "heuristic", "decomposition", "layout"}


def test_a_choices_lines_are_those_that_define_its_nodes(layers):
    panes = {pane["id"]: pane["lines"] for pane in layers["panes"]}
    nodes = placed(layers["choices"])
    assert nodes
    for node in nodes:
        line = panes[node["pane"]][node["line"] - 1]
        assert node["name"] in line.replace(":", " ").replace(",", " ").split(), (node, line)
    aten = panes[layers["graphs"][0]["panes"]["aten"]]
    for choice in of_kind(layers, "algorithm"):
        places = zip(choice["nodes"], choice["lines"], strict=True)
        assert all(aten[line - 1].strip().startswith(f"{name}:") for name, line in places)


def test_the_same_choice_about_two_layers_is_one_with_both_nodes(layers):
    products = [node["name"] for node in layers["graphs"][0]["nodes"] if "mm" in node["target"]]
    assert len(products) == 2
    (choice,) = of_kind(layers, "algorithm")
    assert choice["nodes"] == products


def test_every_kernel_has_what_its_heuristic_proposed_and_nothing_is_timed_for_a_gpu_that_is_not_here(layers):
    kernels = {kernel["name"]: kernel for kernel in layers["graphs"][0]["kernels"]}
    found = {choice["kernel"]: choice for choice in of_kind(layers, "heuristic")}
    assert found.keys() == kernels.keys()
    for name, choice in found.items():
        proposed = [one["configuration"] for one in choice["configurations"]]
        assert len(proposed) == kernels[name]["assembly"]["candidates"]
        assert kernels[name]["assembly"]["configuration"] == proposed[0]
        assert all(one["milliseconds"] is None and one["proposed"] for one in choice["configurations"])
        assert choice["decided"] == ("only_one" if len(proposed) == 1 else "simulated")
        assert any(one["chosen"] for one in choice["configurations"]) is (len(proposed) == 1)
    assert {choice["heuristic"] for choice in found.values()} == {"pointwise", "persistent_reduction"}
    assert {choice["reduction_hint"] for choice in found.values()} == {None, "INNER"}
    assert any(len(choice["configurations"]) > 1 for choice in found.values())


def test_a_kernels_times_are_found_by_its_text(tmp_path):
    files = {name: tmp_path / f"{name}.py" for name in ("first", "second")}
    for name, file in files.items():
        file.write_text(f"# {name}\ndef kernel(): pass\n")
    times = KernelTimes()
    launcher = Launcher(SimpleNamespace(kwargs={"XBLOCK": 256}, num_warps=4, num_stages=1))
    measured = times._benchmark(lambda autotuner: {launcher: 0.25})
    measured(SimpleNamespace(filename=str(files["first"]), fn=None))
    assert times.of("# first\ndef kernel(): pass") == [({"XBLOCK": 256, "num_warps": 4, "num_stages": 1}, 0.25)]
    assert times.of("# second\ndef kernel(): pass") == []


def test_a_product_that_a_real_gpu_padded_is_padded_in_the_simulated_compile_and_is_then_no_difference(head):
    (clock,) = of_kind(head, "clock")
    assert clock["how"] == "untimed"
    model = tiny_head()
    decided = [{**clock, "how": "timed", "padded": True, "plain_ms": 0.02, "padded_ms": 0.01}]
    again = capture(model.module, model.inputs, target="simulated", name="tiny_head", clock=decided)
    assert [(one["how"], one["padded"]) for one in of_kind(again, "clock")] == [("replayed", True)]
    targets = Counter(node["target"] for node in again["graphs"][0]["nodes"])
    assert targets["aten.constant_pad_nd.default"] == targets["aten.slice.Tensor"] == 1
    assert compare_with_real(again, again)["replayed"] == 1
    assert compare_with_real(head, head)["replayed"] == 0


def test_a_margin_is_over_the_fastest_of_the_others():
    times = [(2.0, True), (3.0, False), (8.0, False)]
    assert _margin([{"milliseconds": ms, "chosen": chosen} for ms, chosen in times]) == 1.5


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_a_copy_that_was_prepared_and_not_made_is_no_copy(target):
    """The bias of one output is expanded, for which Inductor prepares a copy; the product is given the bias itself."""
    one = kept("focal_train", target)
    graph = next(graph for graph in one.capture["graphs"] if graph["direction"] == "forward")
    assert re.search(r"extern_kernels\.addmm\(primals_2, ", one.code(graph))
    layouts = [choice for choice in one.capture["choices"] if choice["kind"] == "layout"]
    [asked] = [choice for choice in layouts if choice["wanted"]["code"] == "stride1"]
    assert [demand["buffer"] for demand in asked["demands"]] == ["primals_2"]
    assert not any(choice["copied"] for choice in layouts)


def test_a_copy_for_a_layout_is_told_where_a_kernel_makes_it():
    one = kept("batch_norm_train", "cpu")
    demands = [
        (choice["graph"], demand["buffer"])
        for choice in one.capture["choices"] if choice["kind"] == "layout" and choice["copied"]
        for demand in choice["demands"]
    ]  # fmt: skip
    assert demands
    for graph in one.capture["graphs"]:
        code = one.code(graph)
        for buffer in (buffer for of, buffer in demands if of == graph["id"]):
            # the kernel is called with what is copied and with memory that was just made for it
            given = re.findall(rf"cpp_fused\w*\((.*\b{buffer}\b.*)\)", code)
            assert [names for names in given if set(names.split(", ")) - {buffer}]
