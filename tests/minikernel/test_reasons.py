"""Reasons are codes with fields in artefacts, and one sentence for people in each language."""

import json
import math

import pytest

from minikernel.reasons import Refusal, in_words, of_exception, place_in_words, wrong
from minilab import LabError
from minilab.pages.translations import Translations
from minilab.user_code import UserCodeError

CASE = {"code": "case", "kernel": "mine", "device": "cpu", "case": "random", "shape": [5, 1], "dtype": "float32"}
OWNER = {"code": "tensor", "dtype": "float32", "shape": [5, 1]}
ELEMENT = {"code": "element", "row": 1, "column": 3}
EACH = {
    "wrong": {"error": 1e-3, "tolerance": 4.9e-5},
    "wrong_in_kind": {},
    "wrong_shape": {"shape": [5], "right_shape": [5, 1]},
    "wrong_dtype": {"dtype": "float64", "right_dtype": "float32"},
    "wrong_value": {"value": {"code": "nan"}, "right_value": {"code": "number", "number": 0.5}, "where": ELEMENT},
    "wrong_after_timing": {"error": 1e-3, "tolerance": 4.9e-5},
    "wrong_after_timing_in_kind": {},
    "reference_off": {"device": "cuda", "cols": 781},
    "raised": {"text": "RuntimeError: {out} of luck"},
    "refused": {"text": "take another"},
    "changed_input": {},
    "wrote_outside": {"bytes": 1, "place": {"code": "after", "distance": 8}, "owner": OWNER},
    "timed_out": {"seconds": 30.0, "knob": "proof.time_limit_seconds"},
    "exited": {"status": 3},
    "crashed": {"signal": "SIGSEGV"},
    "killed": {"signal": "SIGKILL"},
    "too_slow": {"milliseconds": 1234.5},
    "compile_time_used_up": {},
    "time_over": {"seconds": 1500},
    "no_tensor": {"type": "Lazy"},
    "not_kept": {"call": 1, "calls": 8},
    "above_roof": {"gb_per_s": 180.0, "roof": 10.0},
    "clock": {"microseconds": 10.0, "seen": 500.0},
    "graph_above_roof": {"gb_per_s": 2.6e6, "roof": 3020.0},
    "another": {},
    "unproven_size": {"elements": 2**31 + 600},
    "meddled": {},
    "unwatched": {},
    "memory": {"gigabytes": 2.1},
    "processes": {},
    "not_compiled": {"text": "expected ';'"},
    "no_compiler": {"compiler": "g++"},
    "edited": {},
    "not_installed": {"package": "liger-kernel"},
    "not_in_version": {"version": "2.11.0"},
    "not_judged": {},
    "needs_gpu": {},
    "no_option": {"option": "softcap"},
}


def test_every_code_has_its_fields_and_a_sentence_in_each_language():
    catalogue = Translations("minikernel", "reasons").under("why")
    assert EACH.keys() == catalogue.keys()
    for code, fields in EACH.items():
        reason = {"code": code, **fields}
        said = [in_words(json.loads(json.dumps(reason)), language) for language in ("en", "es")]
        assert said[0] != said[1] or code == "refused"
        assert not any(sentence.endswith(".") for sentence in said)


def test_a_place_begins_the_sentence_and_numbers_are_the_language_s():
    reason = {**wrong(1e-3, 4.9e-5), "at": CASE}
    begun = "kernel mine on cpu, case 'random' of shape (5, 1) in float32: "
    assert in_words(reason).startswith(f"{begun}largest relative error against float64 is 1.00e-03, more than 4.90e-05")
    assert "1,00e-03" in in_words(reason, "es")
    assert in_words({"code": "too_slow", "milliseconds": 1234.5}) == "too slow, 1,234.5 ms a call"
    assert place_in_words({"code": "subject", "kernel": "mine", "device": "cpu"}) == "kernel mine on cpu"


def test_what_was_hit_is_said_with_its_bytes():
    damage = {"code": "wrote_outside", **EACH["wrote_outside"]}
    expected = "1 byte changed, beginning 8 bytes after the end of a float32 tensor of shape (5, 1) that it allocated"
    assert in_words(damage) == f"it wrote outside its output: {expected}"
    cupy = {**damage, "bytes": 2, "owner": {"code": "cupy", "bytes": 16}, "place": {"code": "between"}}
    expected = "2 bytes changed, beginning between the elements of a CuPy array of 16 bytes that it allocated"
    assert in_words(cupy).endswith(expected)


@pytest.mark.parametrize("error", [math.inf, math.nan])
def test_an_error_without_a_number_has_a_code_of_its_own(error):
    assert wrong(error, 1e-6) == {"code": "wrong_in_kind"}
    assert wrong(error, 1e-6, "wrong_after_timing") == {"code": "wrong_after_timing_in_kind"}


def test_an_exception_gives_its_own_reason_or_its_words():
    assert of_exception(Refusal({"code": "changed_input"})) == {"code": "changed_input"}
    assert str(Refusal({"code": "exited", "status": 3})) == "it ended its process with exit status 3."
    assert of_exception(LabError("take another.")) == {"code": "refused", "text": "take another"}
    raised = of_exception(RuntimeError("out of luck\nand more"))
    assert raised == {"code": "raised", "text": "RuntimeError: out of luck"}
    missing = UserCodeError("no_file", kind="kernel", name="mine", source="mine.py")
    assert in_words(of_exception(missing)) == str(missing).rstrip(".")
