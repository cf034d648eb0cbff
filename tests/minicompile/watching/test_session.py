"""A watch sees every compile in it, as torch.compile was asked for it, and leaves nothing behind."""

import contextlib
import logging

import pytest
import torch
from captured import FAST
from torch import nn
from torch._inductor import compile_fx
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import Scheduler

from minicompile.watching.choosing.hooking import loaded_modules
from minicompile.watching.collected import Session
from minicompile.watching.dynamo.frames import (
    GUARDS,
    TRACE_LOGGER,
    FrameLog,
    TraceHandler,
    trace_patches,
    without_unread,
)
from minicompile.watching.session import fresh_dynamo, watch


def hooks() -> list:
    places = [
        (torch._logging, "trace_structured"),
        (compile_fx, "compile_fx"),
        (GraphLowering, "save_output_code"),
        (Scheduler, "can_fuse"),
    ]
    return [logging.getLogger(TRACE_LOGGER).handlers[:], *(getattr(owner, name) for owner, name in places)]


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return (x * self.weight).sin().sum()


@torch.compile(options=FAST)
def doubled(x):
    return x * 2 + 1


@pytest.fixture(scope="module")
def seen():
    model, late = Twice(), nn.PReLU()
    model.compile(options={**FAST, "max_fusion_size": 7})
    with fresh_dynamo():
        with watch() as session:
            values = [doubled(torch.arange(3.0)), model(torch.ones(2, 4)), model(torch.ones(3, 4))]
            values[1].backward()
            later = torch.compile(late, options=FAST)(-torch.ones(3))
        later.sum().backward()  # is lowered now that nobody watches
    assert values[0].tolist() == [1.0, 3.0, 5.0]
    assert late.weight.grad.tolist() == [-3.0]
    return session


@pytest.mark.parametrize("globally", [False, True])
@pytest.mark.parametrize(
    ("target", "name", "value", "code"),
    [
        (None, "cpp_wrapper", True, "off_unreadable"),
        ("simulated", "cpp_wrapper", True, "off_unreadable"),
        ("simulated", "fx_wrapper", True, "off_unreadable"),
        ("simulated", "triton.multi_kernel", 1, "off_unreadable"),
        ("simulated", "benchmark_fusion", True, "off_untimed"),
        ("simulated", "benchmark_combo_kernel", True, "off_untimed"),
    ],
)
def test_a_setting_whose_code_is_not_read_or_that_times_kernels_is_off_and_named(target, name, value, code, globally):
    options = {"combo_kernels": True, name: value}
    around = torch._inductor.config.patch(options) if globally else contextlib.nullcontext()
    with fresh_dynamo(), watch(target) as session, around, torch.no_grad():
        compiled = torch.compile(lambda x: (x.sum(1), x.cos() * 2), options=None if globally else options)
        values = compiled(torch.ones(4, 300))
    assert session.warnings == [{"code": code, "names": [name], "model": 0}]
    (lowered,) = session.lowered
    assert all("def call(" in lowered["code"] and call["line"] for call in lowered["calls"])
    assert lowered["calls"]
    assert {call["kernel"] for call in lowered["calls"]} <= {made.name for made in lowered["definitions"]}
    assert [tuple(one.shape) for one in values] == [(4,), (4, 300)]


@pytest.mark.parametrize("others", [False, True])
def test_records_that_nobody_reads_are_not_written(others):
    kinds, payloads = [], []
    other = logging.NullHandler()
    handler = TraceHandler(lambda name, _metadata, _payload: kinds.append(name))

    def written() -> str:
        payloads.append(1)
        return "{}"

    logger = logging.getLogger(TRACE_LOGGER)
    before, logger.handlers = logger.handlers, [handler, other] if others else [handler]
    level = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        trace = without_unread(handler, torch._logging.trace_structured)
        trace("chromium_event", payload_fn=written, expect_trace_id=False)
        trace("artifact", lambda: {"name": "a printed graph"}, payload_fn=written, expect_trace_id=False)
        trace("artifact", lambda: {"name": GUARDS}, payload_fn=written, expect_trace_id=False)
    finally:
        logger.handlers = before
        logger.setLevel(level)
    assert kinds == [*(["chromium_event", "a printed graph"] if others else []), GUARDS]
    assert len(payloads) == len(kinds)


def test_no_module_of_torch_writes_a_record_that_nobody_reads():
    """Most have imported the function by its name."""
    written = torch._logging.trace_structured
    holders = [module for module in loaded_modules("torch") if vars(module).get("trace_structured") is written]
    assert len(holders) > 10
    with contextlib.ExitStack() as stack:
        for patch in trace_patches(TraceHandler(lambda *_: None)):
            stack.enter_context(patch)
        assert not [module for module in holders if module.trace_structured is written]
    assert all(module.trace_structured is written for module in holders)


def test_every_model_has_its_graphs_and_those_their_directions(seen):
    found = {
        each.models[0]["name"]: {(one["index"], one["backward"]) for one in each.lowered} for each in seen.by_model()
    }
    assert list(found) == ["doubled", "Twice", "PReLU"]
    assert found["doubled"] == {(0, False)}
    assert found["Twice"] >= {(0, False), (0, True), (1, False)}
    assert found["PReLU"] == {(0, False)}


def test_a_recompile_has_the_guard_that_failed(seen):
    compiles = seen.by_model()[1].compiles
    assert [(one["recompile"], one["graphs"]) for one in compiles] == [(0, [0]), (1, [1])]
    assert compiles[0]["reason"] is None
    assert "size mismatch at index 0. expected 2, actual 3" in compiles[1]["reason"]
    assert all(one["seconds"] > 0 for one in compiles)


def test_a_compile_keeps_its_own_options():
    asked = []

    def noted(nodes):
        config = torch._inductor.config
        asked.append((config.max_fusion_size, config.trace.provenance_tracking_level > 0))
        return nodes

    function = torch.compile(lambda x: x.cos() + 1, options={**FAST, "max_fusion_size": 7})
    with (
        fresh_dynamo(),
        torch._inductor.config.patch(_pre_fusion_custom_pass=noted),
        watch() as session,
    ):
        function(torch.ones(3))
    assert asked == [(7, True)]
    assert [one["name"] for one in session.lowered[0]["ir_before"]] == ["op0"]


def test_the_hooks_are_gone_after_an_exception():
    before, during = hooks(), []
    with contextlib.suppress(ZeroDivisionError), fresh_dynamo(), watch():
        during += hooks()
        during.append(1 / 0)
    assert [one == other for one, other in zip(before, during, strict=True)] == [False] * len(before)
    assert hooks() == before


def test_what_cannot_be_recorded_is_told_and_the_compile_goes_on(monkeypatch):
    def broken(*_):
        raise KeyError("op7")

    monkeypatch.setattr("minicompile.watching.session.lowered_graph", broken)
    with fresh_dynamo(), watch() as session:
        assert doubled(torch.arange(3.0)).tolist() == [1.0, 3.0, 5.0]
    assert [(one["code"], one["what"], one["reason"]) for one in session.warnings] == [
        ("not_recorded", "lowered", "KeyError: 'op7'")
    ]


def test_a_break_before_any_graph_of_its_compile_lies_after_the_last_of_the_earlier_ones():
    log = FrameLog(Session())
    log.session.compiles += [{"id": f"{n}/0", "model": 0, "graphs": [n]} for n in range(3)]
    log.session.compiles.append(made := {"id": "3/0", "model": 0, "graphs": []})
    log._break("stopped", [], made, skipped=False)
    assert log.session.graph_breaks[0]["after"] == 2
