"""The contest, on the CPU with providers of our own: who enters, who is left out and why, what a row says."""

import json
from pathlib import Path

import pytest
import torch
from artefacts import restored_from_a_record

from minikernel.measure import cost, eligibility, noise, recompute
from minikernel.measure.ceilings import Rate
from minikernel.measure.contest import contest as contest_module
from minikernel.measure.contest import head_contest, host_cost
from minikernel.measure.contest.contest import contest, pair_error, run_contest
from minikernel.proof.proof import REFERENCE_TOLERANCE
from minilab.config.check import read_schema
from minilab.errors import LabError
from minilab.records.verify import differences

PARAMS = {"launches": 100, "warmup": 3, "seed": 42}
WHOLE = PARAMS | {
    "shapes": [[8, 600], [4, 1000]],
    "dtypes": ["float32", "bfloat16"],
    "host_shapes": [[4, 600]],
    "head_rows": [16],
    "max_autotune_seconds": 60,
    "time_limit_seconds": 400,
}
CPU = torch.device("cpu")
SCHEMA = read_schema(Path(__file__).parents[4] / "schemas/contest.schema.yaml")


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Nobody is too slow on a busy machine, where a test does not say otherwise."""
    monkeypatch.setattr(eligibility, "SHORTEST", 60.0)


def softmax(x):
    return torch.softmax(x, -1)


def gradient(pair):
    dy, y = (operand.float() for operand in pair)
    return ((dy - (dy * y).sum(-1, keepdim=True)) * y).to(pair[0].dtype)


def refuses(x):
    raise AssertionError("N must be divisible by 4\nand a second line")


def run(direction, good, **others):
    providers = {"F.softmax": good, "fused": good, **others}
    return contest(providers, direction, [8, 600], "float32", PARAMS, CPU, 10.0)


def test_who_refuses_or_is_wrong_is_left_out_with_the_reason():
    rows, reasons = run("forward", softmax, quack=refuses, liger=torch.zeros_like)
    assert [row["kernel"] for row in rows] == ["F.softmax", "fused"]
    assert reasons["quack"] == {"code": "raised", "text": "AssertionError: N must be divisible by 4"}
    assert reasons["liger"] == {"code": "wrong", "error": 1.0, "tolerance": REFERENCE_TOLERANCE["float32"]}


def test_who_is_far_too_slow_is_left_out(monkeypatch):
    def slow(x):
        return softmax(x)

    monkeypatch.setattr(eligibility, "SHORTEST", 2e-3)
    monkeypatch.setattr(eligibility, "seconds", lambda provider, given: 1.0 if provider is slow else 0.01)
    rows, reasons = run("forward", softmax, naive=slow)
    assert reasons == {"naive": {"code": "too_slow", "milliseconds": 1000.0}}
    assert "naive" not in {row["kernel"] for row in rows}


@pytest.mark.parametrize(
    ("reference", "took", "enters"),
    [(1e-5, 1.9e-3, True), (1e-5, 2.1e-3, False), (2e-4, 5e-3, True), (6e-4, 9e-3, False), (5e-3, 21e-3, False),
     (50e-3, 190e-3, True)],
)  # fmt: skip
def test_what_is_too_slow_is_measured_by_the_reference(monkeypatch, reference, took, enters):
    monkeypatch.setattr(eligibility, "SHORTEST", 2e-3)
    monkeypatch.setattr(eligibility, "seconds", lambda provider, given: took if provider is abs else reference)
    found = eligibility.find_eligible(
        {"F.softmax": torch.abs, "naive": abs}, torch.ones(3), lambda y: 0, {"F.softmax": 1, "naive": 1}, "F.softmax"
    )
    assert ("naive" in found.eligible) is enters


def test_who_cannot_be_captured_is_left_out(monkeypatch):
    def check_capture(provider, given):
        if provider is gradient:
            raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(eligibility, "check_capture", check_capture)
    _, reasons = run("backward", lambda pair: gradient(pair), liger=gradient)
    text = "RuntimeError: operation not permitted when stream is capturing"
    assert reasons == {"liger": {"code": "raised", "text": text}}


def test_who_is_wrong_after_timing_is_left_out():
    calls = []

    def tires(x):
        calls.append(1)
        return softmax(x) if len(calls) < 50 else torch.zeros_like(x)

    rows, reasons = run("forward", softmax, liger=tires)
    assert (reasons["liger"]["code"], reasons["liger"]["error"]) == ("wrong_after_timing", 1.0)
    assert [row["kernel"] for row in rows] == ["F.softmax", "fused"]


def test_a_compiler_that_has_used_up_its_time_is_not_called():
    left = {"compile-max-autotune": 1e-9}
    providers = {"F.softmax": softmax, "fused": softmax, "compile-max-autotune": softmax}
    _, reasons = contest(providers, "forward", [8, 600], "float32", PARAMS, CPU, 10.0, left)
    assert not reasons
    assert left["compile-max-autotune"] < 0
    _, reasons = contest(providers, "forward", [8, 600], "float32", PARAMS, CPU, 10.0, left)
    assert reasons == {"compile-max-autotune": {"code": "compile_time_used_up"}}


def test_a_wrong_reference_ends_the_case_in_one_sentence():
    with pytest.raises(LabError, match=r"F\.softmax, beside which .* error against float64 is 1\.00e\+00"):
        contest({"F.softmax": torch.zeros_like, "fused": softmax}, "forward", [8, 600], "float32", PARAMS, CPU, 10.0)


def test_without_any_kernel_of_ours_the_peers_are_timed():
    rows, reasons = contest({"F.softmax": softmax, "fused": refuses}, "forward", [8, 600], "float32", PARAMS, CPU, 10.0)
    assert [row["kernel"] for row in rows] == ["F.softmax"]
    assert set(reasons) == {"fused"}


@pytest.mark.parametrize(("direction", "good", "operands"), [("forward", softmax, 2), ("backward", gradient, 3)])
def test_bandwidth_counts_every_operand_once(direction, good, operands):
    rows, reasons = run(direction, good)
    assert not reasons
    for row in rows:
        assert row["direction"] == direction
        assert row["gb_per_s"] == pytest.approx(operands * 4 * 8 * 600 / row["median_us"] / 1e3)
        assert row["max_rel_err"] < 1e-6


@pytest.mark.parametrize(("took", "factor"), [(1.0, 1), (1e-6, noise.SHORT_FACTOR)])
def test_short_launches_are_timed_more_often(monkeypatch, took, factor):
    monkeypatch.setattr(noise, "seconds", lambda provider, given: took)
    rows, _ = run("forward", softmax)
    assert {row["launches"] for row in rows} == {100 * factor}


def test_a_gradient_is_checked_in_every_piece(monkeypatch):
    monkeypatch.setattr(contest_module, "ELEMENTS_AT_ONCE", 600)
    dy = torch.randn(5, 600)
    y = softmax(torch.randn(5, 600))
    dx = gradient((dy, y))
    assert pair_error(dx, (dy, y)) < 1e-6
    for row in range(5):
        wrong = dx.clone()
        wrong[row, 3] += 1
        assert pair_error(wrong, (dy, y)) > 1
    assert pair_error(dx[:4], (dy, y)) == float("inf")


def test_the_head_counts_the_logits_only_where_they_reach_memory(monkeypatch):
    monkeypatch.setattr(head_contest, "fuses", lambda h, weight: True)
    weight = head_contest.head_weight(CPU, 42)
    heads = head_contest.head_providers(weight)
    heads["compile"] = heads["eager"]
    rows, reasons = head_contest.contest_head(heads, weight, 16, PARAMS, CPU, 10.0)
    assert not reasons
    found = {row["kernel"]: row for row in rows}
    read_and_written = 4 * (16 * 64 + 600 * 64 + 16 * 600)
    assert found["linear_softmax"]["bytes"] == found["linear_softmax-tf32"]["bytes"] == read_and_written
    assert found["eager"]["bytes"] == found["compile"]["bytes"] == read_and_written + 2 * 4 * 16 * 600
    assert {row["flop"] for row in rows} == {16 * 600 * (2 * 64 + 5)} == {cost.linear_softmax_flop(16, 64, 600)}
    assert found["linear_softmax"]["max_rel_err"] < 1e-5


def test_a_wrong_head_is_left_out():
    weight = head_contest.head_weight(CPU, 42)
    heads = {"eager": head_contest.head_providers(weight)["eager"], "linear_softmax": lambda h: torch.ones(16, 600)}
    rows, reasons = head_contest.contest_head(heads, weight, 16, PARAMS, CPU, 10.0)
    assert [row["kernel"] for row in rows] == ["eager"]
    assert reasons["linear_softmax"]["code"] == "wrong"


@pytest.mark.parametrize("requires_grad", [False, True])
def test_calls_on_the_host_are_counted_in_batches_with_and_without_a_gradient(monkeypatch, requires_grad):
    monkeypatch.setattr(host_cost, "CALLS", 7)
    monkeypatch.setattr(host_cost, "BATCHES", 4)
    asked = []

    def counted(x):
        asked.append(x.requires_grad)
        return softmax(x)

    providers = {"F.softmax": softmax, "softmax": counted, "quack": refuses}
    rows, reasons = host_cost.host_cost(
        providers, [4, 600], "float32", requires_grad, contest_module.softmax_error, 1e-5, CPU, 42
    )
    assert reasons == {"quack": {"code": "raised", "text": "AssertionError: N must be divisible by 4"}}
    assert [row["kernel"] for row in rows] == ["F.softmax", "softmax"]
    assert set(asked) == {requires_grad}
    assert len(asked) >= 7 * (4 + host_cost.WARMUP_BATCHES)
    assert all(row["requires_grad"] is requires_grad and row["p20_us"] <= row["p80_us"] for row in rows)


def test_the_garbage_collector_is_on_again_after_the_calls(monkeypatch):
    monkeypatch.setattr(host_cost, "BATCHES", 1)
    with pytest.raises(AssertionError):
        host_cost.time_calls({"quack": refuses}, torch.zeros(1))
    assert host_cost.gc.isenabled()


@pytest.fixture
def stand_ins(monkeypatch):
    """A contest of quick providers, without compilers and GPUs."""
    monkeypatch.setattr(host_cost, "BATCHES", 2)
    everybody = {"F.softmax": softmax, "softmax": softmax}
    monkeypatch.setattr(contest_module, "host_providers", lambda config, requires_grad: everybody)
    kernels = {"F.softmax": softmax, "fused": softmax, "triton": softmax, "softmax": softmax, "quack": refuses}
    monkeypatch.setattr(contest_module, "forward_providers", lambda config: kernels)
    gradients = {"F.softmax": gradient, "fused": gradient, "quack": refuses}
    monkeypatch.setattr(contest_module, "backward_providers", lambda config: gradients)
    monkeypatch.setattr(contest_module, "large_copy", lambda device: Rate(10_000, [1.0]))
    monkeypatch.setattr(
        contest_module, "head_providers", lambda weight: {"eager": lambda h: head_contest.eager(h, weight)}
    )


def whole(params=WHOLE, **changes):
    saved = []
    result = run_contest(
        params | changes, lambda rows, cols, dtype: {"BLOCK": cols}, "cpu", lambda line: None,
        lambda so_far: saved.append(json.dumps(so_far, allow_nan=False)),
    )  # fmt: skip
    return result, saved


def test_a_whole_contest_fits_its_schema_and_is_restored(stand_ins, tmp_path):
    result, saved = whole()
    restored_from_a_record("contest", WHOLE, result, tmp_path)
    assert result["complete"]
    assert {(row["direction"], row["dtype"], row["cols"]) for row in result["rows"]} == {
        (direction, dtype, cols)
        for direction in ("forward", "backward")
        for dtype in ("float32", "bfloat16")
        for cols in (600, 1000)
    }
    assert {row["config"] and row["config"]["BLOCK"] - row["cols"] for row in result["rows"]} == {None, 0}
    assert {row["requires_grad"] for row in result["host"]} == {False, True}
    assert [row["kernel"] for row in result["head"]] == ["eager"]
    assert {out["kernel"] for out in result["left_out"]} == {"quack"}
    assert {entry["standard"] for entry in result["standards"]} == {1, 3, 4, 5, 6}
    assert len(saved) == 4 + 1 + 8 + 1, "saved after each case"
    assert json.loads(saved[-1]) == json.loads(json.dumps(result))


def test_every_figure_follows_from_the_raw_samples_that_a_contest_keeps(stand_ins):
    result = json.loads(json.dumps(whole()[0]))
    assert list(differences(result, recompute.contest(result))) == []
    result["rows"][0]["samples_us"]["copy"] = [1.0, 1.0]
    wrong = list(differences(result, recompute.contest(result)))
    assert wrong[0]["where"] == "rows[0].copy_us"
    result = json.loads(json.dumps(whole()[0]))
    result["host"][1]["median_us"] *= 0.9
    assert any(found["where"] == "host[1].median_us" for found in differences(result, recompute.contest(result)))


def test_a_case_that_breaks_is_left_out_and_the_others_go_on(stand_ins, monkeypatch):
    def broken(shapes=contest_module.rotating_inputs):
        def inputs(rows, cols, *more):
            if cols == 1000:
                raise torch.OutOfMemoryError("Tried to allocate 6.6 GiB\nand more")
            return shapes(rows, cols, *more)

        return inputs

    monkeypatch.setattr(contest_module, "rotating_inputs", broken())
    result, _ = whole()
    assert not result["complete"]
    assert {row["cols"] for row in result["rows"]} == {600}
    lost = [out for out in result["left_out"] if out["kernel"] == "all"]
    assert [(out["direction"], out["dtype"]) for out in lost] == [
        ("forward", "float32"), ("forward", "bfloat16"), ("backward", "float32"), ("backward", "bfloat16")
    ]  # fmt: skip
    assert lost[0]["reason"] == {"code": "raised", "text": "OutOfMemoryError: Tried to allocate 6.6 GiB"}
    missing = [entry for entry in result["standards"] if entry["cols"] == 1000 and entry["standard"] in (1, 4)]
    assert missing
    assert not any(entry["met"] for entry in missing)


def test_after_the_time_limit_no_case_is_begun(stand_ins):
    result, _ = whole(time_limit_seconds=1e-9)
    assert result["rows"] == result["head"] == result["host"] == []
    assert len(result["left_out"]) == 4 + 1 + 8
    assert all(out["reason"] == {"code": "time_over", "seconds": 1e-9} for out in result["left_out"])
