"""A misbehaving kernel ends its own process at most, and one sentence says what it did and where."""

import logging
import re
from pathlib import Path

import pytest
import torch

from minikernel.proof.proof import REFERENCE_TOLERANCE, adversarial_cases
from minikernel.proof.sandbox import PRINTED_BYTES, Outcome, run_in_sandbox
from minikernel.reasons import in_words

HERE = Path(__file__).parents[1]
FIRST_CASE = r"kernel mine on cpu, case 'random' of shape \(5, 1\) in float32: "


def outcome_of(function: str, time_limit_seconds: float = 120, file: str = "misbehaving", device: str = "cpu"):
    call = {"name": "mine", "entry": {"source": str(HERE / f"{file}.py"), "function": function}, "device": device}
    return sandboxed("minikernel.proof.proof:prove_kernel", call, time_limit_seconds, device)


def sandboxed(task: str, call: dict, time_limit_seconds: float = 60, device: str = "cpu") -> Outcome:
    return run_in_sandbox(task, call, "mine", device, time_limit_seconds, "proof.time_limit_seconds")


def said_of(outcome: Outcome) -> str:
    """The reason, which artefacts hold, in words."""
    assert isinstance(outcome.reason, dict)
    return in_words(outcome.reason)


def test_a_good_kernel_gets_the_whole_proof():
    outcome = outcome_of("good")
    assert outcome.reason is None
    cases = adversarial_cases()
    assert [row["case"] for row in outcome.value] == [case.name for case in cases]
    assert max(row["max_rel_err"] for row in outcome.value) <= REFERENCE_TOLERANCE["float32"]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("wrong", r"largest relative error against float64 is 1.00e-03, more than 4.90e-05"),
        ("raises", r"it failed with RuntimeError: out of luck$"),
        ("exits", r"it failed with SystemExit: 3$"),
        ("leaves", r"it ended its process with exit status 0$"),
        ("crashes", r"it crashed its process \(SIGSEGV\)$"),
        ("writes_after", r"4 bytes changed, beginning 0 bytes after the end of a float32 tensor of shape \(5, 1\)"),
    ],
)
def test_misbehaviour_is_one_sentence_with_kernel_case_and_reason(function: str, said: str):
    outcome = outcome_of(function)
    assert outcome.value is None
    assert re.match(FIRST_CASE + ".*" + said, said_of(outcome))
    assert "\n" not in said_of(outcome)
    assert outcome.reason["at"]["case"] == "random"


def test_a_triton_kernel_that_writes_outside_its_output_is_seen_in_the_interpreter(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    outcome = outcome_of("writes_after", file="misbehaving_triton")
    assert re.match(FIRST_CASE + "it wrote outside its output: 4 bytes changed, beginning 0 bytes", said_of(outcome))


@pytest.mark.parametrize("function", ["hangs", "hangs_in_c"])
def test_a_kernel_that_hangs_is_ended_at_the_limit_and_its_place_is_logged(
    function: str, caplog: pytest.LogCaptureFixture
):
    for limit in (5, 30, 180):  # the first in which this machine gets to where the kernel hangs
        caplog.clear()
        with caplog.at_level(logging.INFO):
            outcome = outcome_of(function, time_limit_seconds=limit)
        if "before its first case" not in said_of(outcome):
            break
    assert re.match(
        FIRST_CASE + rf"it did not end within {limit} seconds, the limit of proof.time_limit_seconds$", said_of(outcome)
    )
    assert re.search(rf"misbehaving.py\", line \d+ in {function}", caplog.text)


def test_what_a_kernel_printed_and_where_it_failed_are_in_the_log(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        outcome_of("raises")
    assert re.search(r"misbehaving.py\", line \d+, in raises", caplog.text)


def test_endless_printing_is_cut_to_its_end(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", f"{HERE}:{HERE.parents[1] / 'src'}")
    with caplog.at_level(logging.INFO):
        outcome = sandboxed("misbehaving:talks", {})
    assert outcome.value == "done"
    assert len(caplog.text) < 2 * PRINTED_BYTES
    assert "the last word" in caplog.text


def test_what_a_kernel_started_ends_with_it(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        assert outcome_of("leaves_a_process_behind").reason is None
    left = [int(pid) for pid in re.findall(r"left (\d+)\.", caplog.text)]
    assert left
    for pid in left:
        status = Path(f"/proc/{pid}/stat")
        assert not status.exists() or status.read_text().split()[2] == "Z"


def test_a_file_that_cannot_be_imported_is_a_reason_too(tmp_path: Path):
    (tmp_path / "mine.py").write_text("raise SystemExit(4)\n")
    call = {"name": "mine", "entry": {"source": str(tmp_path / "mine.py"), "function": "softmax"}, "device": "cpu"}
    outcome = sandboxed("minikernel.proof.proof:prove_kernel", call)
    assert outcome.reason["code"] == "not_importable"
    assert "mine.py cannot be imported (SystemExit: 4)" in said_of(outcome)


def test_a_crash_before_the_first_case_names_the_kernel():
    outcome = sandboxed("os:abort", {})
    assert said_of(outcome).startswith("kernel mine on cpu, before its first case: it failed with TypeError")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("writes_after", r"4 bytes changed, beginning 0 bytes after the end of a float32"),
        (
            "writes_after_in_cupy",
            r"4 bytes changed, beginning 0 bytes after the end of a CuPy array",
        ),
        ("writes_nowhere", r"it failed with \w+: .*illegal memory access"),
        ("hangs", r"it did not end within 60 seconds"),
    ],
)
def test_misbehaviour_on_a_gpu_is_a_sentence_and_the_gpu_works_on(function: str, said: str):
    if "cupy" in function:
        pytest.importorskip("cupy")
    outcome = outcome_of(function, 60, "misbehaving_triton", "cuda:0")
    assert re.search(said, said_of(outcome))
    assert outcome_of("good", 60, "misbehaving_triton", "cuda:0").reason is None
    assert torch.ones(1000, device="cuda").sum().item() == 1000
