"""Texts of nodes: those that Inductor prints itself, each printed once."""

from contextlib import ExitStack
from unittest import mock

import pytest
import sympy
import torch
from torch._inductor import scheduler
from torch._inductor.dependencies import StarDep
from torch._inductor.loop_body import LoopBodyBlock
from torch.utils._ordered_set import OrderedSet

from minicompile.watching.node_texts import NodeTexts


@pytest.fixture
def watched():
    with ExitStack() as stack:
        for patch in NodeTexts().patches():
            stack.enter_context(patch)
        yield


def a_block() -> LoopBodyBlock:
    graph = torch.fx.Graph()
    ops = graph.placeholder("ops")
    graph.output(graph.call_method("load", (ops, "buf0", 0)))
    block = LoopBodyBlock.__new__(LoopBodyBlock)
    block.graph, block.body = graph, mock.Mock(submodules={})
    return block


def test_equal_sets_are_printed_once_as_inductor_prints_them(watched):
    with mock.patch("pprint.pformat", side_effect=lambda obj, **_options: repr(obj)) as printed:
        first = scheduler.pformat(OrderedSet([StarDep("buf0")]))
        assert scheduler.pformat(OrderedSet([StarDep("buf0")])) == first
        assert printed.call_count == 1
        assert scheduler.pformat(OrderedSet([StarDep("buf1")])) != first
        assert scheduler.pformat("buf0") == repr("buf0")


def test_equal_expressions_are_printed_once_as_sympy_prints_them(watched):
    def index() -> sympy.Expr:
        x, y = sympy.symbols("x y", integer=True)
        return 600 * x + y

    with mock.patch("sympy.printing.str.StrPrinter.doprint", side_effect=lambda _expression: "printed") as printed:
        assert [str(index()), f"{index()}", repr(index())] == ["printed"] * 3
        assert printed.call_count == 1
    assert str(sympy.Integer(1)) == "1"
    assert str(sympy.Float(1)) != "1"  # equal to it in some versions of sympy


def test_a_loop_body_is_printed_as_inductor_prints_it():
    block = a_block()
    ops, loaded, end = block.graph.nodes
    with block.graph.inserting_before(end):
        block.graph.call_method("store", (ops, "buf1", 0, loaded))
    inductors = [block.debug_str("body"), block.debug_str()]
    with ExitStack() as stack:
        for patch in NodeTexts().patches():
            stack.enter_context(patch)
        assert [block.debug_str("body"), block.debug_str()] == inductors


def test_a_loop_body_is_printed_again_once_it_has_changed(watched):
    block = a_block()
    printed = torch.fx.Graph.python_code
    with mock.patch.object(torch.fx.Graph, "python_code", autospec=True, side_effect=printed) as code:
        before = block.debug_str("body")
        assert block.debug_str("body") == before
        assert code.call_count == 1
    node = next(node for node in block.graph.nodes if node.op == "call_method")
    node.target = "load_seed"  # as Inductor does to bodies in half precision
    assert "load_seed" in block.debug_str("body")
    assert "load_seed" not in before
    node.args = (*node.args[:2], False)  # equal to the 0 that was there
    assert "False" in block.debug_str("body")
