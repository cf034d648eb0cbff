"""What the report says runs compiled does, and what runs eager is named: after the smoketest, and as calls happen."""

import copy
import json
import logging
import pickle

import pytest
import torch
from declared_faults import check_says, fault
from safe_models import MLP, features
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from minicompile import CompileConfig, compile_report, maybe_compile, uncompile
from minicompile.report.words import failure
from minicompile.safe.smoketest import smoketest
from minilab.pages.translations import LANGUAGES

pytestmark = pytest.mark.usefixtures("fresh_compiler")
logger = logging.getLogger("claims")
runs: list[int] = []  # one for each time that a compiled graph runs in this process


def counting(graph_module, example_inputs):
    def run(*arguments):
        runs.append(1)
        return graph_module(*arguments)

    return run


def compiled(model: nn.Module, batch=None, logger=logger, **fields) -> nn.Module:
    cfg = CompileConfig(**{"enabled": True, "backend": counting, "smoketest_steps": 2, **fields})
    maybe_compile(model, cfg, logger, batch)
    runs.clear()
    return model


def warned(caplog, name="claims") -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == name and r.levelno == logging.WARNING]


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x).relu()


class Auto(nn.Module):
    """A model with ways round its compiled code."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Part(), Part()

    def forward(self, x):
        return self.decoder(self.encoder(x))

    @torch.no_grad()
    def encode(self, rows):
        return torch.stack([self.forward(row[None])[0] for row in rows])

    def embed(self, x):
        return self.encoder(x)


class Block(nn.Module):
    """Compiled once for each name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.layer, self.name = nn.Linear(8, 8), name

    def forward(self, x):
        return self.layer(x) * (2.0 if self.name.endswith("0") else 1.0)


@fault(
    "modules are past the limit on recompiles",
    "torch.compile: 'forward' (...) reached recompile_limit = 2 and compiles no more; last: ...",
    "`modules` has those that run compiled, and `why_eager` the others.",
)
@pytest.mark.parametrize("place", ["apart", "in place", "unchecked"])
def test_modules_past_the_recompile_limit_run_eager_and_no_others(place, monkeypatch, caplog, says):
    if place == "in place":
        monkeypatch.setattr(smoketest, "why_not", lambda tensors: "the test asks for it")
    model = nn.Sequential(*(Block(f"block {number}") for number in range(4)))
    with torch._dynamo.config.patch(recompile_limit=2):
        compiled(model, None if place == "unchecked" else features(), allowlist=["0", "1", "2", "3"])
        for _ in range(2):
            if place != "unchecked" or runs:
                report = compile_report(model)
                assert report.modules == ["0", "1"]
                assert {name: report.why_eager[name] for name in "23"} == dict.fromkeys("23", "recompile_limit")
            runs.clear()
            model(features())
            assert len(runs) == 2
    check_says("\n".join(warned(caplog)), says)


def test_modules_that_share_one_graph_all_run_compiled():
    with torch.no_grad():
        model = nn.Sequential(Part(), Part(), Part()).eval()
        compiled(model, features(), allowlist=["0", "1", "2"])
        model(features())
    report = compile_report(model)
    assert (report.modules, report.ran_eager, report.graphs, len(runs)) == (["0", "1", "2"], [], 1, 3)


class Mixed(nn.Module):
    """Compiled but for a part behind a break, one without a computation, and one for a batch that has not come yet."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.hidden, self.same, self.rare = Part(), Part(), nn.Identity(), Part()

    @torch.compiler.disable
    def eager(self, x):
        return self.hidden(x)

    def forward(self, x):
        x = self.same(self.eager(self.first(x))) * 2
        return self.rare(x) if x.shape[0] > 99 else x


def test_a_module_behind_a_break_within_a_compiled_model_is_named():
    model = compiled(Mixed(), features())
    for _ in range(2):
        report = compile_report(model)
        assert report.modules == ["(model)"]
        assert report.why_eager == {"hidden": "graph_break"}
        model(features())


@fault(
    "modules have no graph",
    "{'hidden': 'blocked', 'same': 'nothing_to_compute', 'rare': 'never_called'}",
    "`why_eager` names them, and `modules` does not; one that a later call compiles changes places.",
)
def test_modules_without_a_graph_are_named_with_the_reason(says):
    model = compiled(Mixed(), features(), allowlist=["first", "same", "rare"], blocklist=["hidden"])
    report = compile_report(model)
    assert report.modules == ["first"]
    assert str(report.why_eager) == says
    assert list(report.why_eager) == report.ran_eager
    model(torch.ones(100, 8))
    assert compile_report(model).modules == ["first", "rare"]


def test_a_frame_that_cannot_be_compiled_is_named_after_a_reset_too():
    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([Part(), Part()])

        def forward(self, x):
            for part in self.parts:
                x = part(x)
                torch._dynamo.graph_break()
            return x

    for _ in range(2):
        torch.compiler.reset()
        report = compile_report(compiled(Loop(), features()))
        (frame,) = report.ran_eager
        assert report.why_eager[frame] == "not_compiled"
        assert "test_safe_claims.py:" in frame


def encode(model, x):
    model.encode(x)


def embed(model, x):
    for _ in range(3):
        model.embed(x)


def part(model, x):
    for _ in range(3):
        model.encoder(x)


def of_the_class(model, x):
    for _ in range(3):
        type(model).forward(model, x)


@fault(
    "calls go round the compiled code: a method calls `forward`, or a part is called alone",
    "torch.compile: `...` calls `...` itself; its calls are eager",
    "Said once; `round_calls` has it. Calls of the model run compiled.",
)
@pytest.mark.parametrize(
    ("ways", "called", "by"),
    [
        (encode, "forward", "Auto.encode"),
        (embed, "encoder", "Auto.embed"),
        (part, "encoder", "part (test_safe_claims.py:"),
        (of_the_class, "forward", "of_the_class (test_safe_claims.py:"),
    ],
)
def test_calls_that_go_round_the_compiled_code_are_told_once(ways, called, by, caplog, says):
    model = compiled(Auto(), features())
    for _ in range(2):
        ways(model, features())
    (found,) = compile_report(model).round_calls
    assert not runs
    assert found.called == called
    assert found.by.startswith(by)
    (told,) = warned(caplog)
    assert f"`{found.by}` calls `{called}` itself" in told
    check_says(told, says)
    assert compile_report(model).compiled  # what is called as it should be still is
    model(features())
    assert runs


def test_a_forward_bound_before_the_compile_goes_round_it():
    model = Auto()
    forward = model.forward
    compiled(model, features())
    for _ in range(3):
        forward(features())
    assert [found.called for found in compile_report(model).round_calls] == ["forward"]


def test_where_no_module_lies_within_the_method_that_goes_round_is_read():
    (found,) = compile_report(compiled(Scale())).round_calls
    assert str(found) == "`Scale.rows` calls `forward` itself; its calls are eager"


def test_looking_leaves_no_trace_in_the_model_and_compiles_nothing_again():
    model = Auto()
    keys, reference = list(model.state_dict()), model(features())
    compiled(model, features())
    with torch.compiler.set_stance("default"):
        model(features())
        call = vars(model)["_compiled_call_impl"]
        for _ in range(2):
            model.embed(features())
            assert torch.equal(model(features()), reference)
    assert vars(model)["_compiled_call_impl"] is call  # nothing stands before the compiled code
    assert compile_report(model).recompiles == []
    assert (type(model), list(model.state_dict())) == (Auto, keys)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.deepcopy(model.encoder)):
        assert not [name for name, inner in copied.named_modules() if "_compiled_call_impl" in vars(inner)]
    compiled(model.encoder, features())
    for one in (model, model.encoder):
        uncompile(one)
    assert not [name for name, inner in model.named_modules() if "_compiled_call_impl" in vars(inner)]


class Nothing(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Scale(nn.Module):
    """A module that has no other within."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x * self.weight

    @torch.no_grad()
    def rows(self, x):
        return [self.forward(row) for row in x]

    def call(self, x):
        return self(x)


@fault(
    "Dynamo leaves the model for good, because it was called under a mode of torch's (before torch 2.14)",
    "calls run eager since ...: Dynamo skips the frame",
    "`compiled` is false; `torch.compiler.reset()` has it compiled again.",
)
@pytest.mark.parametrize(
    ("kind", "mode"), [(MLP, lambda: FlopCounterMode(display=False)), (Scale, Nothing), (Auto, Nothing)]
)
def test_a_model_that_dynamo_left_under_a_mode_is_said_to_run_eager(kind, mode, caplog, says):
    other, model = (compiled(kind(), features(), logging.getLogger(name)) for name in ("other", "left"))
    for one in (other, model):
        one(features())
    with mode():
        model(features())
    runs.clear()
    model(features())
    report = compile_report(model)
    if runs:  # from torch 2.14 on it is left for the calls under the mode alone
        assert (report.compiled, report.why_eager) == (True, {})
        return
    assert (report.compiled, report.stage, report.why_eager) == (False, "later", {"(model)": "skipped"})
    assert report.eager_since in report.reason
    check_says(report.reason, says)
    assert report.failure == {"code": "runs_eager", "why": "skipped", "since": report.eager_since}
    assert len(warned(caplog, "left")) == 1
    assert all(report.eager_since in failure(language, report.failure) for language in LANGUAGES)
    assert json.loads(json.dumps(report.to_dict())) == report.to_dict()
    runs.clear()
    other(features())
    assert compile_report(other).compiled == bool(runs)
    assert bool(warned(caplog, "other")) != bool(runs)
    torch.compiler.reset()
    model(features())
    assert runs
    assert (compile_report(model).compiled, compile_report(model).why_eager) == (True, {})


def test_a_model_that_was_never_compiled_for_a_mode_is_not_called_compiled():
    model = compiled(MLP())
    assert compile_report(model).stage == "unchecked"
    with FlopCounterMode(display=False):
        model(features())
    assert (compile_report(model).compiled, compile_report(model).why_eager) == (False, {"(model)": "skipped"})


def test_a_limit_that_is_reached_later_is_dated():
    model = compiled(MLP(), features(), dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=1):
        model(features())
        assert compile_report(model).eager_since is None
        model(features()[:3])
    report = compile_report(model)
    assert report.modules == ["(model)"]  # for the shape that was compiled
    assert report.eager_since is not None


def test_a_limit_is_heard_where_torch_s_warnings_are_silenced():
    model = compiled(MLP(), features(), dynamic=False)
    logging.getLogger("torch").setLevel(logging.ERROR)
    try:
        with torch._dynamo.config.patch(recompile_limit=1):
            for rows in (6, 3, 2):
                model(features()[:rows])
    finally:
        logging.getLogger("torch").setLevel(logging.NOTSET)
    report = compile_report(model)
    assert (report.compiled, [limit.limit for limit in report.cache_limits]) == (True, ["recompile_limit"])
    assert "skipped" not in report.why_eager.values()


def under_a_stance(model, x):
    with torch.compiler.set_stance("eager_on_recompile"):
        model(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda model, x: torch.export.export(model, (x,)),
        lambda model, x: torch.compile(model, backend="eager")(x),
        under_a_stance,
    ],
    ids=["export", "another compile", "stance"],
)
def test_what_runs_eager_by_choice_says_nothing_of_other_calls(call, caplog):
    model = compiled(Auto(), features())
    call(model, features())
    report = compile_report(model)
    assert (report.compiled, report.why_eager, warned(caplog)) == (True, {}, [])
    runs.clear()
    model(features())
    assert runs


def test_a_transform_that_makes_dynamo_leave_a_model_is_told_at_once():
    model = compiled(Auto(), features())
    model(features())
    torch.func.vmap(model)(features())
    report = compile_report(model)
    runs.clear()
    model(features())
    assert report.compiled == bool(runs)
    assert bool(runs) or report.why_eager == {"(model)": "skipped"}


@fault(
    "a stance of torch's has everything run eager",
    "torch.compiler.set_stance('force_eager') is set: until it is set back, calls run eager",
    "`compiled` is false until then.",
)
def test_a_stance_that_has_everything_run_eager_is_said(says):
    model = compiled(MLP(), features())
    with torch.compiler.set_stance("force_eager"):
        model(features())
        report = compile_report(model)
    assert (report.compiled, report.failure["setting"]) == (False, "torch.compiler.set_stance('force_eager')")
    check_says(report.reason, says)
    assert compile_report(model).compiled


@fault(
    "what compiled code depends on is held by no guard: a variable of the environment, hooks",
    "torch.compile: os.environ is read at ..., unguarded: compiled code keeps what it said",
    "`unguarded` names it, and hooks that have changed since. The compiled code goes on as it is.",
)
def test_what_no_guard_holds_is_said(monkeypatch, caplog, says):
    class Tempered(Auto):
        def forward(self, x):
            return super().forward(x) / self.temperature()

        def temperature(self):
            import os

            return float(os.getenv("TEMPERATURE_OF_THE_TEST", "1"))

    model = Tempered()
    model.encoder.register_forward_hook(lambda module, args, output: output * 2)
    compiled(model, features())
    for _ in range(2):
        reads, hooks = compile_report(model).unguarded
        assert (reads.code, hooks.code, hooks.where) == ("environment", "hooks", "encoder")
        assert "test_safe_claims.py:" in reads.where
        assert reads.where.endswith("Tempered.temperature")
        model(features())
    check_says("\n".join(warned(caplog)), says)
    before = model(features())
    monkeypatch.setenv("TEMPERATURE_OF_THE_TEST", "10")
    model.decoder.register_forward_hook(lambda module, args, output: output * 10)
    assert torch.equal(model(features()), before)  # or there would be nothing to say
    assert [(one.code, one.where) for one in compile_report(model).unguarded[1:]] == [
        ("hooks", "encoder"),
        ("hooks_changed", "decoder"),
    ]
