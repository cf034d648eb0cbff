"""The verdicts: an honest loss is right on every case, and each flaw that was seen in public shows on its case."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from flawed_losses import FLAWS, honest

from minikernel.ops.linear_cross_entropy import paths
from minikernel.ops.linear_cross_entropy.options import Options
from minikernel.proof.loss import correctness
from minikernel.proof.loss.cases import CASES, Case, cases, made
from minikernel.proof.loss.contenders import CONTENDERS
from minikernel.proof.loss.correctness import expected, run, verdict, worst

BY_CODE = {case.code: case for case in CASES}
SMALL = {"flat": replace(BY_CODE["flat"], m=8, v=8192), "wide_v": replace(BY_CODE["wide_v"], m=4)}
TRIED = [(SMALL.get(case.code, case), dtype) for case in cases("cpu") for dtype in case.dtypes]


def judge(function, case: Case, dtype: str, seed: int = 1) -> dict:
    tensors = made(case, dtype, "cpu", seed)
    return worst(run(function, case, tensors), expected(case, tensors))


@pytest.mark.parametrize(("case", "dtype"), TRIED, ids=[f"{case.code}-{case.d}-{dtype}" for case, dtype in TRIED])
def test_an_honest_loss_is_right_and_not_by_a_wide_margin(case: Case, dtype: str):
    found = judge(honest, case, dtype)
    assert found["verdict"] == "right", found
    if dtype != "float32" and case.code != "all_ignored":
        # a bound that honest rounding does not come near would let flaws pass
        assert found["error"] > 0.15 * found["allowed"]


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_shows_on_its_case(flaw: str):
    code, dtype = FLAWS[flaw]
    case = SMALL.get(code, BY_CODE[code])
    found = judge(partial(honest, flaw=flaw), case, dtype)
    assert found["verdict"] == "wrong"
    assert found["error"] is None or found["error"] > 1.2 * found["allowed"]


def test_the_cases_reach_every_way_in_which_a_hopper_gpu_computes_it(monkeypatch: pytest.MonkeyPatch):
    class OnGpu:
        is_cuda = True

        def __init__(self, case: Case, dtype: str):
            self.shape, self.dtype, self.get_device = (case.m, case.d), getattr(torch, dtype), lambda: 0

    monkeypatch.setattr(paths, "capability", lambda device: (9, 0))
    reached: dict[str, set[str]] = {}
    for case in cases("cuda"):
        options = {name: case.options.get(name, 0.0) for name in ("label_smoothing", "z_loss", "softcap")}
        for dtype in case.dtypes:
            path = paths.choose(OnGpu(case, dtype), Options(**options)).name
            reached.setdefault(case.code, set()).add(path)
    for code in ("plain", "offset", "sure", "least", "odd_v", "some_ignored", "bias", "z_loss", "twice"):
        assert reached[code] == {"recomputed", "exponentials", "rows", "chunked"}, code
    assert reached["smoothing"] == {"recomputed", "rows", "chunked"}


def test_a_result_that_is_no_number_or_of_another_shape_is_wrong():
    case = BY_CODE["plain"]
    tensors = made(case, "float32", "cpu", 1)
    right, results = expected(case, tensors), run(honest, case, tensors)
    spoiled = results["dh"].clone()
    spoiled[3, 2] = torch.nan
    for dh in (spoiled, results["dh"][:-1]):
        found = worst({**results, "dh": dh}, right)
        assert (found["verdict"], found["of"], found["error"]) == ("wrong", "dh", None)


def test_who_is_not_here_or_cannot_is_not_called_wrong(monkeypatch: pytest.MonkeyPatch):
    case = BY_CODE["softcap"]
    tensors = made(case, "float32", "cpu", 1)
    right = expected(case, tensors)
    peer = replace(CONTENDERS["liger"], distribution="no-such-package", module="no_such_module")
    assert verdict(peer, case, tensors, right, "cpu")["reason"] == {
        "code": "not_installed",
        "package": "no-such-package",
    }
    there = replace(CONTENDERS["liger"], distribution="torch", module="torch")
    found = verdict(there, case, tensors, right, "cpu")
    assert (found["verdict"], found["reason"]) == ("refused", {"code": "needs_gpu"})
    assert verdict(CONTENDERS["torch"], case, tensors, right, "cpu")["reason"]["option"] == "softcap"

    def breaks(*given, **options):
        raise ValueError("not today\nor tomorrow")

    monkeypatch.setattr(correctness, "function_of", lambda name: breaks)
    found = verdict(CONTENDERS["eager"], case, tensors, right, "cpu")
    assert (found["verdict"], found["reason"]["code"], found["error"]) == ("refused", "raised", None)
    assert "not today" in found["reason"]["text"]


def test_processes_that_share_the_cases_find_what_one_finds(monkeypatch: pytest.MonkeyPatch):
    few = [BY_CODE["one_token"], BY_CODE["all_ignored"], BY_CODE["half"]]
    monkeypatch.setattr(correctness, "cases", lambda device: few)
    said: list[str] = []
    alone, shared = (
        correctness.loss_correctness({"seed": 1, "compile_seconds": 0}, "cpu", said.append, count) for count in (1, 2)
    )
    assert shared == alone
    assert said[:5] == said[5:]
