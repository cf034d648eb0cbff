"""Why a compile was given up is data in artefacts, a sentence for people, and both in every language."""

import json
import logging
import pickle
from pathlib import Path

import pytest
import torch
from safe_models import MLP, failing, features, lying

from minicompile import CompileConfig, compile_report, maybe_compile
from minicompile.report.words import failure
from minicompile.safe.failures import (
    NothingCompared,
    NothingCompiled,
    OtherRankFailed,
    TimeLimitExceeded,
    WrongNumbers,
    coded,
)
from minicompile.safe.smoketest.apart import ProcessDied
from minicompile.safe.smoketest.numerics import compare
from minicompile.state.frozen_state import CannotRestore
from minilab.config.check import read_schema
from minilab.pages.translations import LANGUAGES

SCHEMA = read_schema(Path(__file__).parents[3] / "schemas/compile_health.schema.yaml")
FAILURES = [
    WrongNumbers("off", "too_far", tensor="output", relative=0.01, allowed=1e-4),
    NothingCompiled("nothing", "nothing_compiled"),
    NothingCompared("no number", "nothing_compared"),
    NothingCompared("no number twice", "nothing_repeats"),
    CannotRestore("stuck", 1, 3, "torch.sparse_coo"),
    ProcessDied("dead", "process_died", how="SIGSEGV"),
    OtherRankFailed("rank 1", "other_rank", rank=1, failure={"code": "nothing_compiled"}),
    TimeLimitExceeded("too long", 30.0),
    ValueError("no number:\n  'a'\nand more"),
]


def difference(ours: torch.Tensor, reference: torch.Tensor) -> dict:
    with pytest.raises(WrongNumbers) as caught:
        compare(ours, reference, "output", 1e-4)
    return coded(caught.value)


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_a_failure_is_plain_data_and_survives_a_pickle(error: BaseException):
    found = coded(error)
    assert found["code"] in SCHEMA["$defs"]["failure"]["properties"]["code"]["enum"]
    assert coded(pickle.loads(pickle.dumps(error))) == json.loads(json.dumps(found)) == found


def test_a_foreign_exception_keeps_its_own_words():
    assert coded(FAILURES[-1]) == {"code": "raised", "exception": "ValueError", "message": "no number: 'a'"}


def test_each_difference_has_a_code_and_names_the_tensor():
    one = torch.ones(2)
    assert difference(1.5 * one, one)["code"] == "too_far"
    assert difference(one / 0, one) == {"code": "not_finite", "tensor": "output"}
    assert difference(one.int(), 2 * one.int()) == {"code": "unequal", "tensor": "output", "dtype": "torch.int32"}
    other = difference(one, torch.ones(3))
    assert (other["code"], other["compiled"], other["eager"]) == (
        "other_shape",
        "torch.float32 [2]",
        "torch.float32 [3]",
    )


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("error", FAILURES[:-1], ids=lambda error: type(error).__name__)
def test_every_failure_is_worded_in_every_language(error: BaseException, language: str):
    assert len(failure(language, coded(error)).split()) >= 4


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize(("backend", "code"), [(failing, "raised"), (lying, "too_far")])
def test_a_report_holds_the_code_and_keeps_its_sentence_for_people(backend, code: str):
    logger = logging.getLogger("failures")
    model = maybe_compile(MLP(), CompileConfig(enabled=True, backend=backend), logger, features())
    report = compile_report(model)
    assert report.failure["code"] == code
    assert report.reason.startswith(report.exception)
    assert "reason" not in report.to_dict()
    json.dumps(report.to_dict())
