"""How contenders are called: their names of the options, what they refuse, and torch.compile's time."""

import os
import sys
from types import ModuleType

import pytest
import torch

from minikernel.proof.loss import contenders
from minikernel.proof.loss.contenders import CONTENDERS, LAB, OPTIONS, Compiled, versions
from minikernel.reasons import Refusal, in_words


@pytest.fixture
def tensors() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(6, 4, generator=generator), torch.randn(9, 4, generator=generator), torch.arange(6))


def test_peers_get_the_options_under_their_own_names(tensors, monkeypatch: pytest.MonkeyPatch):
    called = {}

    def stand_in(name):
        def function(*given, **options):
            called[name] = options
            return torch.zeros(()), None

        return function

    for path, names in {
        "liger_kernel.transformers.functional": ["liger_fused_linear_cross_entropy"],
        "liger_kernel.ops.backends._cutedsl.fused_linear_cross_entropy": ["fused_linear_cross_entropy_cutedsl"],
        "quack.linear_cross_entropy": ["chunked_linear_cross_entropy"],
        "cut_cross_entropy": ["linear_cross_entropy"],
    }.items():
        module = ModuleType(path)
        for name in names:
            setattr(module, name, stand_in(name))
        monkeypatch.setitem(sys.modules, path, module)
    # what Liger is told for the one path is taken back after the test
    monkeypatch.setenv("LIGER_KERNEL_STRICT", "0")
    for who, options in {
        "liger-sm90": {"bias": torch.ones(9), "label_smoothing": 0.25},
        "liger": {"class_weight": torch.ones(9), "z_loss": 0.5, "softcap": 3.0, "reduction": "sum"},
        "quack": {"reduction": "sum", "ignore_index": -1},
        "cce": {"bias": torch.ones(9), "softcap": 2.0},
    }.items():
        assert set(options) <= CONTENDERS[who].options
        CONTENDERS[who].load()(*tensors, **options)
    assert os.environ["LIGER_KERNEL_STRICT"] == "1"
    sm90 = called["fused_linear_cross_entropy_cutedsl"]
    assert torch.equal(sm90["bias"], torch.ones(9))
    assert (sm90["label_smoothing"], sm90["ce_weight"], sm90["reduction"]) == (0.25, None, "mean")
    liger = called["liger_fused_linear_cross_entropy"]
    assert (liger["lse_square_scale"], liger["softcap"], liger["reduction"], liger["label_smoothing"]) == (
        0.5,
        3.0,
        "sum",
        0.0,
    )
    assert torch.equal(liger["ce_weight"], torch.ones(9))
    assert called["chunked_linear_cross_entropy"] == {"reduction": "sum", "ignore_index": -1}
    assert called["linear_cross_entropy"]["softcap"] == 2.0
    CONTENDERS["quack-scaled"].load()(*tensors)
    assert called["chunked_linear_cross_entropy"] == {"use_scaled_exp": True}


@pytest.mark.skipif(not hasattr(torch.nn, "LinearCrossEntropyOptions"), reason="torch 2.13 brought it")
def test_torchs_own_is_asked_for_its_chunks(tensors, monkeypatch: pytest.MonkeyPatch):
    asked = {}
    monkeypatch.setattr(contenders.F, "linear_cross_entropy", lambda *given, **options: asked.update(options))
    CONTENDERS["torch"].load()(*tensors, bias=torch.ones(9), class_weight=torch.zeros(9))
    assert asked["options"] is not None
    assert torch.equal(asked["linear_bias"], torch.ones(9))
    assert torch.equal(asked["weight"], torch.zeros(9))


def test_an_older_torch_has_no_such_function(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(contenders.F, "linear_cross_entropy", raising=False)
    with pytest.raises(Refusal, match=r"torch \d+\.\d+\.\d+ has no such function"):
        CONTENDERS["torch"].load()


@pytest.mark.parametrize("language", ["en", "es"])
def test_refusals_are_worded(language: str):
    for reason in (
        {"code": "not_installed", "package": "liger-kernel"},
        {"code": "needs_gpu"},
        {"code": "not_judged"},
        {"code": "no_option", "option": "softcap"},
    ):
        assert in_words(reason, language)


def test_the_lab_takes_every_option_and_versions_tell_who_is_here():
    assert CONTENDERS[LAB].options == OPTIONS
    found = versions()
    assert list(found) == list(CONTENDERS)
    assert found["eager"] == torch.__version__


def test_compiling_stops_when_its_time_is_over(tensors, monkeypatch: pytest.MonkeyPatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda function, **given: compiled.append(function) or function)
    call = Compiled()
    call.seconds = 1e-9
    first = call(*tensors)
    # the same kind of call is there already; another one would have to be compiled
    assert call(*tensors) == first
    with pytest.raises(Refusal, match="compiling had used up"):
        call(*tensors, reduction="sum")
    call.seconds = None
    call(*tensors, reduction="sum")
    assert len(compiled) == 2
    assert compiled[0].__code__ is not compiled[1].__code__
