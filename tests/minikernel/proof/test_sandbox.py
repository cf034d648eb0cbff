"""A misbehaving kernel ends its own process at most; `minikernel.judge`, which took over, is tried on all of them."""

import re
from pathlib import Path

from minikernel.proof.proof import REFERENCE_TOLERANCE, adversarial_cases
from minikernel.proof.sandbox import Outcome, run_in_sandbox
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


def test_misbehaviour_is_one_sentence_with_kernel_case_and_reason():
    outcome = outcome_of("crashes")
    assert outcome.value is None
    assert re.match(FIRST_CASE + r"it crashed its process \(SIGSEGV\)$", said_of(outcome))
