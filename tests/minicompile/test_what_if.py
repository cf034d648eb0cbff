"""Two compiles with one knob flipped: what each knob does to the code, and what is refused."""

import argparse
import importlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import what_if_models
from jsonschema import Draft202012Validator
from torch import nn
from what_if_models import code, found

from minicompile import flipping as module
from minicompile import knobs
from minicompile.flipping import SIDES, what_if
from minicompile.knobs import KNOBS, knob_for
from minicompile.lowering.counts import COUNTS
from minilab import LabError
from minilab.config.check import read_schema

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("fresh_compiler")


def counted(knob: str, name: str) -> tuple[int, int]:
    return tuple(found(knob)[side]["counts"][name] for side in SIDES)


def test_without_fusion_each_result_has_a_kernel_that_reads_the_input_again():
    assert counted("fusion", "generated_launches") == (1, 2)
    before, after = counted("fusion", "bytes")
    assert after - before == 4 * 64 * 128  # the input, read twice


def test_without_inplace_buffers_no_kernel_writes_over_its_input():
    assert "in_out_ptr" in code(found("inplace_buffers")["before"])
    assert "in_out_ptr" not in code(found("inplace_buffers")["after"])


def test_online_softmax_takes_one_pass_for_maximum_and_sum():
    assert "online_softmax" in code(found("online_softmax")["before"])
    assert "online_softmax" not in code(found("online_softmax")["after"])
    passes = [code(found("online_softmax")[side]).count("for r0_offset in") for side in SIDES]
    assert passes == [2, 3]


def test_without_persistent_reductions_rows_are_walked_in_loops():
    before, after = (code(found("persistent_reductions")[side]) for side in SIDES)
    assert "@triton_heuristics.persistent_reduction" in before
    assert "for r0_offset in" not in before
    assert "@triton_heuristics.persistent_reduction" not in after
    assert "for r0_offset in" in after


def test_fused_attention_is_one_call_in_place_of_several():
    before, after = counted("attention", "launches")
    assert after < before
    assert "scaled_dot_product" in code(found("attention")["after"])
    assert "scaled_dot_product" not in code(found("attention")["before"])


def test_dynamic_sizes_are_arguments_of_the_kernel():
    before, after = (found("dynamic_shapes")[side] for side in SIDES)
    assert "xnumel = 64" in code(before)
    assert "xnumel = 64" not in code(after)
    assert "ks0" in code(after)


def test_an_epilogue_is_left_to_a_kernel_of_its_own():
    before, after = counted("epilogue_fusion", "generated_launches")
    assert after > before
    assert counted("epilogue_fusion", "library_launches") == (0, 0)


def test_the_order_of_loops_changes_the_kernel_and_nothing_else():
    one = found("loop_order")
    assert not one["same_code"]
    assert all(one["before"]["counts"][name] == one["after"]["counts"][name] for name in COUNTS if name != "lines")
    assert [kernel["changed"] for graph in one["after"]["graphs"] for kernel in graph["kernels"]] == [True]


def test_without_vectors_cpp_computes_one_number_at_a_time():
    assert "Vectorized" in code(found("vectors")["before"])
    assert "Vectorized" not in code(found("vectors")["after"])


@pytest.mark.parametrize("knob", what_if_models.MODELS)
def test_what_is_found_fits_its_schema(knob: str):
    schema = read_schema(ROOT / "schemas/what_if.schema.yaml")
    Draft202012Validator(schema).validate({**found(knob), "provenance": {}})


def test_only_what_runs_here_is_timed():
    assert found("fusion")["time"] is None
    assert len(found("vectors")["time"]["samples"]["after_us"]) == 3


def test_a_training_step_is_timed_as_it_was_compiled(monkeypatch):
    compiled, compile_fx = [], importlib.import_module("torch._inductor.compile_fx")
    real = compile_fx.compile_fx
    monkeypatch.setattr(compile_fx, "compile_fx", lambda *given, **named: compiled.append(1) or real(*given, **named))
    inputs = (torch.randn(4, 8, requires_grad=True),)
    sides = [module._Side(what_if_models.Loss(), KNOBS["dynamic_shapes"], side, None, None) for side in SIDES]
    samples = module._timed(*sides, inputs, {}, True, 2)
    assert len(samples["after_us"]) == 2
    assert len(compiled) == 2  # a side each: no timed call compiles again


def test_the_sides_say_what_they_were_compiled_with():
    assert found("fusion")["before"]["settings"] == {"max_fusion_size": "64"}
    assert found("fusion")["after"]["settings"] == {"max_fusion_size": "1"}
    assert found("epilogue_fusion")["after"]["settings"] == {"epilogue_fusion": "False"}


def test_a_knob_that_changes_nothing_is_said_to_change_nothing():
    one = what_if(nn.ReLU(), (torch.randn(8, 8),), "online_softmax", target="simulated", rounds=0)
    assert one["same_code"]
    assert set(one["changes"].values()) == {0}
    assert not any(kernel["changed"] for graph in one["after"]["graphs"] for kernel in graph["kernels"])


def test_a_name_that_is_no_knob_is_answered_with_those_that_are():
    with pytest.raises(
        LabError, match=r"no knob is called 'fussion'; write one of fusion, .* vectors, or a switch of Inductor's"
    ):
        knob_for("fussion", "cpu")


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("split_reductions", {"split_reductions": False}),
        ("triton.persistent_reductions", {"triton.persistent_reductions": False}),
        ("max_fusion_size=1", None),  # a number, which has more than a few values
        ("cpp.dynamic_threads=True", {"cpp.dynamic_threads": True}),
        ("split_reductions=Maybe", None),
    ],
)
def test_a_switch_of_inductor_s_is_flipped_by_its_own_name(name, after):
    if after is None:
        with pytest.raises(LabError, match=r"; write (?:one of fusion, .*|split_reductions=False)\."):
            knob_for(name, "simulated")
    else:
        assert knob_for(name, "simulated").after == after


def test_a_knob_that_acts_elsewhere_is_answered_with_those_that_act_here():
    with pytest.raises(LabError, match=r"vectors acts on cpu and not on 'simulated'.*another knob: fusion,"):
        knob_for("vectors", "simulated")


def test_a_knob_that_this_torch_lacks_is_refused(monkeypatch):
    monkeypatch.setitem(knobs.KNOBS, "fusion", replace(KNOBS["fusion"], after={"no_such_option": 1}))
    with pytest.raises(LabError, match=r"torch \S+ does not have the option no_such_option of the knob fusion"):
        knob_for("fusion", "cpu")


def test_there_are_ten_knobs_and_each_asks_for_a_count_that_is_made():
    assert len(KNOBS) == 10
    assert {knob.asks for knob in KNOBS.values()} <= set(COUNTS)


def asked(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser.parse_args(arguments)


def test_the_command_line_prints_both_sides_and_writes_the_page(tmp_path, capsys):
    model = tmp_path / "mine.py"
    model.write_text("import torch\n\n\ndef make():\n    return torch.nn.Softmax(dim=-1), (torch.randn(64, 2048),)\n")
    arguments = [f"{model}:make", "online_softmax", "--target", "simulated", "--out", str(tmp_path / "out")]
    module.run(asked(*arguments))
    said = capsys.readouterr().out
    assert "before: online_softmax=True\nflipped: online_softmax=False" in said
    assert (tmp_path / "out/online_softmax.json").exists()
    assert "online_softmax" in (tmp_path / "out/online_softmax.html").read_text()


def test_the_command_line_refuses_a_model_that_there_is_not(tmp_path):
    with pytest.raises(LabError, match="no model is called 'nope'; there are tiny_head,"):
        module.run(asked("nope", "fusion", "--out", str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()
