"""Bytecode for people: Python where it can be read back, instructions always, and nothing that changes by chance."""

import sys

import pytest

from minicompile.watching.dynamo.bytecode import decompiled, disassembled, rewritten


def forward(x):
    return x * 2


def compiled_twice():
    """The same function as Dynamo would name its callees in two processes."""
    for random in ("0f9e8d7c_1111_2222_3333_aaaaaaaaaaaa", "12345678_9999_8888_7777_bbbbbbbbbbbb"):
        space = {}
        exec(f"def forward(x):\n    return __compiled_fn_3_{random}(x)[0]", space)
        yield space["forward"].__code__


def test_instructions_are_those_of_the_function():
    text = "\n".join(disassembled(forward.__code__))
    assert "BINARY_OP" in text
    assert "RETURN_VALUE" in text


def test_names_that_are_drawn_by_chance_are_cut_to_their_number():
    first, second = map(disassembled, compiled_twice())
    assert first == second
    assert any("__compiled_fn_3" in line for line in first)


def test_a_function_is_read_back_as_python():
    pytest.importorskip("depyf")
    assert decompiled(forward.__code__) == ["def forward(x):", "    return x * 2"]
    first, second = map(decompiled, compiled_twice())
    assert first == second


def test_after_a_graph_break_what_is_left_stands_above():
    pytest.importorskip("depyf")
    left = forward.__code__.replace(co_name="torch_dynamo_resume_in_forward_at_3")
    text = rewritten(left, next(compiled_twice()))
    assert text.index("# what is left of the function after the graph break") < text.index("# as Dynamo runs it")
    assert rewritten(forward.__code__, next(compiled_twice())) == decompiled(next(compiled_twice()))


def test_without_depyf_there_are_the_instructions_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "depyf", None)
    assert decompiled(forward.__code__) is None
    assert rewritten(forward.__code__, forward.__code__) is None
