"""Allowlist and blocklist: what the patterns name compiles or stays eager, and nothing else."""

import copy
import logging
import pickle

import pytest
import torch
from safe_models import Tied, features, fingerprint, ids
from torch import nn

from minicompile import CompileConfig, compile_report, maybe_compile, uncompile
from minicompile.safe.selection import outermost, select
from minilab import LabError
from minimodel import GrammarMiniGPT, MiniGPTConfig

pytestmark = pytest.mark.usefixtures("fresh_compiler")
logger = logging.getLogger(__name__)


def gpt() -> GrammarMiniGPT:
    return GrammarMiniGPT(MiniGPTConfig(vocab_size=20, n_layer=3, n_head=2, n_embd=8, block_size=16))


def log_metrics(x: torch.Tensor) -> torch.Tensor:
    """A function that should stay eager."""
    assert not torch.compiler.is_compiling()
    return x


class Logging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def note(self, x: torch.Tensor) -> torch.Tensor:
        return x if torch.compiler.is_compiling() else x + 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return log_metrics(self.note(self.linear(x))) * 2


def compiled_names(model: nn.Module) -> set[str]:
    return {name for name, module in model.named_modules() if vars(module).get("_compiled_call_impl")}


@pytest.mark.parametrize(
    ("allowlist", "expected"),
    [
        ((), {""}),
        (("blocks.*",), {"blocks.0", "blocks.1", "blocks.2"}),
        (("blocks",), {"blocks.0", "blocks.1", "blocks.2"}),
        (("Block",), {"blocks.0", "blocks.1", "blocks.2"}),
        (("blocks.1", "lm_head"), {"blocks.1", "lm_head"}),
        (("blocks.[02].mlp",), {"blocks.0.mlp", "blocks.2.mlp"}),
        (("GrammarMiniGPT",), {""}),
        (("minimodel.torch_minigpt.Attention",), {f"blocks.{i}.attention" for i in range(3)}),
    ],
)
def test_allowlist_compiles_the_outermost_matches_in_place(allowlist, expected):
    model = gpt()
    keys = list(model.state_dict())
    reference = model(ids())
    maybe_compile(model, CompileConfig(enabled=True, backend="eager", allowlist=allowlist), logger, ids())
    assert compiled_names(model) == expected
    assert compile_report(model).modules == [name or "(model)" for name in sorted(expected)]
    assert list(model.state_dict()) == keys
    torch.testing.assert_close(model(ids()), reference)
    uncompile(model)
    assert compiled_names(model) == set()


def test_blocks_of_one_class_share_their_graph():
    model = gpt()
    maybe_compile(model, CompileConfig(enabled=True, backend="eager", allowlist=["Block"]), logger, ids())
    assert compile_report(model).graphs == 1


@pytest.mark.parametrize("pattern", ["blocks.9", "blokcs.*", "Blok", "no.such.function"])
@pytest.mark.parametrize("field", ["allowlist", "blocklist"])
def test_a_pattern_that_matches_nothing_lists_near_names(pattern, field):
    model = gpt()
    before = fingerprint(model)
    with pytest.raises(LabError, match="matches nothing in the model; near names are '"):
        maybe_compile(model, CompileConfig(enabled=True, **{field: [pattern]}), logger, ids())
    assert fingerprint(model) == before


def test_near_names_are_near():
    with pytest.raises(LabError, match="'lm_head'"):
        select(gpt(), ["lm_haed"], [])


def test_blocked_modules_run_eager_inside_a_compiled_model():
    model = gpt()
    cfg = CompileConfig(enabled=True, backend="eager", blocklist=["blocks.1.mlp", "lm_head"])
    reference = model(ids())
    maybe_compile(model, cfg, logger, ids())
    report = compile_report(model)
    assert report.compiled, report.reason
    assert {name for name, why in report.why_eager.items() if why == "blocked"} == {"blocks.1.mlp", "lm_head"}
    assert "ln_f" in report.ran_eager  # with the loop over the blocks, all of the model's own forward is left eager
    assert any("blocklist of maybe_compile" in reason for reason in report.graph_breaks)
    torch.testing.assert_close(model(ids()), reference)
    for copied in (copy.deepcopy(model.blocks), pickle.loads(pickle.dumps(model.blocks))):
        assert vars(copied[1].mlp)["forward"].module is copied[1].mlp
    uncompile(model)
    assert "forward" not in vars(model.lm_head)


def test_the_blocklist_wins_over_the_allowlist():
    selection = select(gpt(), ["blocks.*"], ["blocks.0"])
    assert list(selection.compiled) == ["blocks.1", "blocks.2"]
    with pytest.raises(LabError, match="leaves nothing"):
        select(gpt(), ["lm_head"], ["lm_head"])


@pytest.mark.parametrize("pattern", [f"{__name__}.log_metrics", "*.log_metrics"])
def test_blocked_functions_are_kept_from_the_compiler_until_uncompiled(pattern):
    model, original = Logging(), log_metrics
    cfg = CompileConfig(enabled=True, backend="eager", blocklist=[pattern])
    maybe_compile(model, cfg, logger, features())
    assert compile_report(model).compiled, compile_report(model).reason
    assert globals()["log_metrics"] is not original
    uncompile(model)
    assert globals()["log_metrics"] is original


def test_without_the_blocklist_that_function_is_compiled_and_fails():
    cfg = CompileConfig(enabled=True, backend="eager", fullgraph=True)
    model = maybe_compile(Logging(), cfg, logger, features())
    assert not compile_report(model).compiled


def test_blocked_methods_are_restored_after_a_failure():
    original = vars(Logging)["note"]
    cfg = CompileConfig(enabled=True, backend="eager", blocklist=["Logging.note"], fullgraph=True)
    model = maybe_compile(Logging(), cfg, logger, features())  # a break is a failure under fullgraph
    assert not compile_report(model).compiled
    assert vars(Logging)["note"] is original


def test_tied_weights_stay_tied():
    model = Tied()
    cfg = CompileConfig(enabled=True, backend="aot_eager", allowlist=["head"])
    maybe_compile(model, cfg, logger, (ids(), ids()))
    assert model.head.weight is model.embedding.weight
    assert compile_report(model).compiled


def test_a_name_that_begins_like_anothers_is_not_inside_it():
    modules = {"blocks.1": nn.ReLU(), "blocks.10": nn.ReLU(), "blocks.1.mlp": nn.ReLU()}
    assert [*outermost(modules)] == ["blocks.1", "blocks.10"]
