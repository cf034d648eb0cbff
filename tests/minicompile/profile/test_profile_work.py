"""Bytes and operations of kernels, and where attention is, from hand-made captures small enough to count by hand."""

import pytest

from minicompile.profile.work import attention_calls, bytes_of, kernel_work, node_flop, softmax_calls
from minilab import LabError


def operation(name: str, producer: str | None = None) -> dict:
    return {"name": name, "operation": name, "producer": producer}


def scheduler_node(name, operations=(), sizes=None, reads=(), writes=(), reduction=None) -> dict:
    return {
        "name": name,
        "operations": list(operations),
        "loop_sizes": sizes,
        "is_reduction": reduction is not None,
        "reduction_type": reduction,
        "reads": [{"buffer": buffer} for buffer in reads],
        "writes": [{"buffer": buffer} for buffer in writes],
    }


def call(kernel: str, nodes: list[str], moved: int, extern: bool = False, aten: tuple = ()) -> dict:
    names = {"id": f"{kernel}:{nodes[0]}", "kernel": kernel, "scheduler_nodes": nodes, "aten_nodes": list(aten)}
    return {**names, "bytes": moved, "extern": extern}


LENGTH = 8
SCORES = [2, 4, LENGTH, LENGTH]
MAXIMUM = scheduler_node(
    "op1", [operation("load"), operation("reduction", "amax")], [[64], [LENGTH]], ["scores"], ["max"], "max"
)
EXPONENTIAL = scheduler_node(
    "op2",
    [operation("load"), operation("sub", "sub"), operation("exp", "exp"), operation("reduction", "sum_1")],
    [[64], [LENGTH]],
    ["scores", "max"],
    ["exp", "sum"],
    "sum",
)
DIVISION = scheduler_node(
    "op3", [operation("load"), operation("truediv", "div")], [[64, LENGTH], []], ["exp", "sum"], ["p"]
)
VALUES = scheduler_node("op9", [operation("load"), operation("store")], [[512], []], ["qkv"], ["v"])
WRITTEN_OUT = {
    "id": "0.forward",
    "nodes": [{"name": name, "size": SCORES, "target": f"aten.{name}"} for name in ("sub", "exp", "div")]
    + [{"name": name, "size": [8, 8, 8], "target": "aten.bmm.default"} for name in ("bmm", "bmm_1")],
    "scheduler_nodes": [
        MAXIMUM,
        EXPONENTIAL,
        DIVISION,
        VALUES,
        scheduler_node("op0", reads=["q", "k"], writes=["scores"]),
        scheduler_node("op4", reads=["p", "v"], writes=["mixed"]),
        scheduler_node("op5", reads=["mixed", "w"], writes=["out"]),
        scheduler_node("op8", reads=["x"], writes=["qkv"]),
    ],
    "calls": [
        call("extern_kernels.addmm", ["op8"], 500, extern=True),
        call("extern_kernels.bmm", ["op0"], 100, extern=True, aten=("bmm",)),
        call("cpp_fused_softmax_0", ["op1", "op2", "op3", "op9"], 300),
        call("extern_kernels.bmm", ["op4"], 200, extern=True, aten=("bmm_1",)),
        call("extern_kernels.mm", ["op5"], 400, extern=True),
    ],
}


def test_operations_are_counted_once_an_element_and_moving_is_free():
    assert node_flop(MAXIMUM) == 64 * LENGTH
    assert node_flop(EXPONENTIAL) == 3 * 64 * LENGTH
    assert node_flop(DIVISION) == 64 * LENGTH
    assert node_flop(VALUES) == 0


def test_a_library_call_has_no_counted_operations():
    assert node_flop(scheduler_node("op0")) == 0


def test_the_two_values_of_an_online_softmax_cost_four_operations():
    reduction = scheduler_node("op", [operation("reduction")], [[2], [8]], reduction="online_softmax_reduce")
    assert 2 * node_flop(reduction) == 4 * 16


def test_a_kernel_of_several_calls_has_one_row_of_means():
    graph = {
        **WRITTEN_OUT,
        "calls": [*WRITTEN_OUT["calls"], call("cpp_fused_softmax_0", ["op3"], 100)],
    }
    (row,) = kernel_work([graph])
    softmax = 5 * 64 * LENGTH
    assert row == {
        "name": "cpp_fused_softmax_0",
        "graph": "0.forward",
        "calls": 2,
        "bytes": 200,
        "flop": (softmax + 64 * LENGTH) / 2,
    }


def test_attention_is_the_softmax_and_the_products_on_both_sides_of_it():
    assert [one["kernel"] for one in softmax_calls(WRITTEN_OUT, LENGTH)] == ["cpp_fused_softmax_0"]
    assert [one["bytes"] for one in attention_calls(WRITTEN_OUT, LENGTH)] == [100, 300, 200]


def test_a_softmax_over_words_is_no_attention():
    words = {**WRITTEN_OUT, "nodes": [{**node, "size": [2, LENGTH, 600]} for node in WRITTEN_OUT["nodes"]]}
    assert softmax_calls(words, LENGTH) == []
    assert attention_calls(words, LENGTH) == []


def test_torchs_own_attention_is_found_by_its_name():
    fused = {
        "nodes": [{"name": "sdpa", "size": None, "target": "aten._scaled_dot_product_flash_attention_for_cpu.default"}],
        "scheduler_nodes": [scheduler_node("op0", reads=["qkv"], writes=["mixed"])],
        "calls": [call("torch.ops.aten.sdpa", ["op0"], 70, extern=True, aten=("sdpa",))],
    }
    assert [one["bytes"] for one in attention_calls(fused, LENGTH)] == [70]


def test_a_call_whose_bytes_are_not_known_is_refused():
    assert bytes_of(call("k0", ["op0"], 48)) == 48
    with pytest.raises(LabError, match="the bytes of k0 are not known; profile a model that is compiled for one shape"):
        bytes_of({**call("k0", ["op0"], 0), "bytes": None})
