"""A kernel that is wrong now and then, or reaches into its judge, is not proven; one sentence says why."""

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import torch

from minikernel.judge.client import Failed, Gone, KernelProcess
from minikernel.judge.proof import KINDS, error_of_calls, error_of_kept, judge_cases, prove_users_kernel
from minikernel.judge.subject import Subject
from minikernel.proof.proof import REFERENCE_TOLERANCE, adversarial_cases
from minikernel.reasons import in_words

pytestmark = pytest.mark.usefixtures("forked")
HERE = Path(__file__).parents[1]
TOLERANCE = REFERENCE_TOLERANCE["float32"]
SHAPES = [[64, 600], [4096, 600]]
FIRST_CASE = r"kernel mine on cpu, case 'random' of shape \(5, 1\) in float32: "


def entry(function: str, file: str = "misbehaving") -> dict:
    return {"source": str(HERE / f"{file}.py"), "function": function}


@pytest.fixture(scope="module")
def process(forked) -> Iterator[KernelProcess]:
    """A process for kernels that leave it alive."""
    with KernelProcess("mine", "cpu", 600, "proof.time_limit_seconds") as process:
        yield process


names = map("mine_{}".format, count())


@pytest.fixture
def subject_of(process: KernelProcess):
    """A kernel loaded anew, with nothing left of what another did."""

    def subject(function: str) -> Subject:
        name = next(names)
        process.load(name, entry(function))
        return Subject(process, name, TOLERANCE)

    return subject


def proof_of(function: str, seconds: float = 120, **more) -> tuple[list[dict], str | None]:
    rows, reason = prove_users_kernel("mine", entry(function, **more), "cpu", seconds, SHAPES)
    return rows, reason and in_words(reason)


def test_a_good_kernel_gets_the_whole_proof():
    rows, reason = proof_of("good")
    assert reason is None
    assert [row["case"] for row in rows[:38]] == [case.name for case in adversarial_cases()]
    assert {row["case"] for row in rows[38:]} == set(KINDS)
    assert [[row["rows"], row["cols"]] for row in rows if row["case"] == "as timed"] == SHAPES
    assert 1e-9 < max(row["max_rel_err"] for row in rows) <= TOLERANCE


@pytest.mark.parametrize("function", ["wrong_at_every_97th_call", "right_once"])
def test_one_that_is_right_and_then_wrong(subject_of, function: str):
    subject = subject_of(function)
    assert subject.error(torch.randn(5, 600)) <= TOLERANCE
    with pytest.raises(Failed, match=r"call \d+ of \d+ in a row at shape \(3, 129\).*: largest relative error"):
        error_of_calls(subject)


@pytest.mark.parametrize("function", ["remembers_by_address", "remembers_by_first_values", "remembers_by_sum"])
def test_one_that_answers_from_memory(subject_of, function: str):
    with pytest.raises(
        Failed, match=r"call [12] of \d+ in a row at shape \(3, 129\) in float32: largest relative error"
    ):
        error_of_calls(subject_of(function))


@pytest.mark.parametrize("function", ["returns_one_buffer", "spoils_what_it_returned", "spoils_it_a_little_later"])
def test_one_whose_results_do_not_stay(subject_of, function: str):
    subject = subject_of(function)
    assert subject.error(torch.randn(5, 600)) <= TOLERANCE
    with pytest.raises(Failed, match="result 1 of 8 was no longer right once the others had been made"):
        error_of_kept(subject)


def test_one_that_gives_one_value_to_all(subject_of):
    with pytest.raises(Failed, match="largest relative error"):
        subject_of("returns_one_value_for_all").error(torch.randn(5, 600))


@pytest.mark.parametrize(
    ("function", "case"),
    [("right_up_to_600_rows", "many rows"), ("wrong_in_the_last_row", "many rows"), ("wrong_when_large", "as timed")],
)
def test_one_that_is_wrong_at_some_shapes(subject_of, function: str, case: str):
    judged = list(judge_cases(subject_of(function), SHAPES))
    assert {one.case for one in judged if one.reason} >= {case}
    assert not any(one.reason for one in judged[:38])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("wrong", r"largest relative error against float64 is 1.00e-03, more than 4.90e-05"),
        ("raises", r"it failed with RuntimeError: out of luck$"),
        ("exits", r"it failed with SystemExit: 3$"),
        ("refuses", r"rows are too long for me$"),
        ("writes_after", r"it wrote outside its output: 4 bytes changed, beginning 0 bytes after the end of a float32"),
        ("raises_what_cannot_be_printed", "it failed with RuntimeError: \ufffd\\[2J\ufffd \\{x\\}word [word ]{300,}$"),
        ("interrupts", r"it failed with KeyboardInterrupt$"),
        ("recurses", r"it failed with RecursionError: maximum recursion depth exceeded"),
        ("returns_a_parameter", r"its result is a Parameter; return a plain torch.Tensor$"),
        ("wrong_unless_watched", r"largest relative error against float64 is 1.00e-03"),
        ("changes_what_it_was_given", r"it changed its input"),
        ("returns_another_class", r"its result is a Lazy; return a plain torch.Tensor$"),
    ],
)
def test_misbehaviour_is_one_sentence_with_kernel_case_and_reason(subject_of, function: str, said: str):
    judged = next(judge_cases(subject_of(function), []))
    assert judged.error is None
    assert re.match(FIRST_CASE + said, in_words(judged.reason))
    assert "\n" not in in_words(judged.reason)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("leaves", r"it ended its process with exit status 0$"),
        ("crashes", r"it crashed its process \(SIGSEGV\)$"),
        ("writes_a_verdict_and_leaves", r"it ended its process with exit status 0$"),
        ("answers_for_itself", r"its process answered what it was not asked"),
        ("patches_the_proof", r"largest relative error against float64 is 1.00e\+00"),
        ("patches_torch", r"largest relative error against float64 is 1.00e\+00"),
        ("closes_everything", r"it ended its process with exit status \d+$"),
        ("makes_all_that_follows_wrong", r"(it failed with|its dtype is float16, where float32 is right)"),
        ("kills_its_supervisor", r"it ended the process that watches over it"),
        ("multiplies", r"it had more processes than a kernel is given$"),
    ],
)
def test_what_ends_or_spoils_its_process_is_one_sentence_too(function: str, said: str):
    rows, reason = proof_of(function)
    assert rows == []
    assert re.match(FIRST_CASE + said, reason)


def test_one_that_eats_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("minikernel.judge.client.memory_limit", lambda: 1 << 30)
    _, reason = proof_of("eats_memory")
    assert reason is not None
    assert re.match(FIRST_CASE + r"it took more than 1\.1 GB of memory, which is what it is given here$", reason)


def test_one_that_cuts_the_shared_memory_harms_nobody():
    with KernelProcess("mine", "cpu", 120, "proof.time_limit_seconds") as process:
        process.load("mine", entry("cuts_the_shared_memory"))
        subject = Subject(process, "mine", TOLERANCE)
        assert max(subject.error(torch.randn(3, 129)) for _ in range(3)) <= TOLERANCE


def test_one_that_answers_before_it_is_asked_is_found():
    with KernelProcess("mine", "cpu", 120, "proof.time_limit_seconds") as process:
        process.load("mine", entry("answers_what_was_not_asked"))
        with pytest.raises(Gone, match="its process answered what it was not asked"):
            error_of_calls(Subject(process, "mine", TOLERANCE))


def test_a_file_that_cannot_be_imported_is_a_reason_too(tmp_path: Path):
    (tmp_path / "mine.py").write_text("raise SystemExit(4)\n")
    there = {"source": str(tmp_path / "mine.py"), "function": "softmax"}
    _, reason = prove_users_kernel("mine", there, "cpu", 60, [])
    assert reason is not None
    assert "mine.py cannot be imported (SystemExit: 4)" in in_words(reason)


def test_a_triton_kernel_that_writes_outside_its_output_is_seen_in_the_interpreter(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # which the kernel's process inherits
    _, reason = prove_users_kernel("mine", entry("writes_after", "misbehaving_triton"), "cpu", 120, [])
    assert reason is not None
    assert re.match(FIRST_CASE + "it wrote outside its output: 4 bytes changed, beginning 0 bytes", in_words(reason))


@pytest.mark.parametrize("function", ["hangs", "hangs_in_c"])
def test_one_that_hangs_is_ended_at_the_limit_and_its_place_is_logged(function: str, caplog: pytest.LogCaptureFixture):
    for limit in (5, 30, 180):  # the first in which this machine, perhaps a busy one, gets to where the kernel hangs
        caplog.clear()
        with caplog.at_level("INFO"):
            _, reason = proof_of(function, limit)
        if f" in {function}" in caplog.text:
            break
    said = rf"it did not end within {limit} seconds, the limit of proof.time_limit_seconds$"
    assert re.match(FIRST_CASE + said, reason or "")
    assert re.search(rf"misbehaving.py\", line \d+ in {function}", caplog.text)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("writes_after", r"4 bytes changed, beginning 0 bytes after the end of a float32"),
        ("writes_after_in_cupy", r"4 bytes changed, beginning 0 bytes after the end of a CuPy array"),
        ("writes_nowhere", r"it failed with \w+: .*illegal memory access"),
        ("hangs", r"it did not end within 60 seconds"),
    ],
)
def test_misbehaviour_on_a_gpu_is_a_sentence_and_the_gpu_works_on(function: str, said: str):
    if "cupy" in function:
        pytest.importorskip("cupy")
    _, reason = prove_users_kernel("mine", entry(function, "misbehaving_triton"), "cuda:0", 60, [])
    assert reason is not None
    assert re.search(said, in_words(reason))
    assert prove_users_kernel("mine", entry("good", "misbehaving_triton"), "cuda:0", 60, SHAPES)[1] is None
    assert torch.ones(1000, device="cuda").sum().item() == 1000
