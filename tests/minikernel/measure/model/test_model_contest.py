"""The whole model timed on a CPU with rungs of our own: who is left out, what is judged, what follows from samples."""

import json
from functools import partial

import pytest
import torch

from minikernel.measure.model import accuracy, contest, recompute, rungs, writers
from minilab.config.check import check_schema, read_schema
from minilab.records.artefact import artefact
from minilab.records.checksums import write_sums
from minilab.records.provenance import provenance
from minilab.records.restore import restore
from minilab.records.store import write_artefact
from minilab.records.verify import differences
from minimodel.corpus import TokenStream
from minimodel.model_config import MiniGPTConfig
from minimodel.tokenizer import Tokenizer
from minimodel.torch_minigpt import GrammarMiniGPT

WORDS = ("I", "you", "walk", "walked", ".")
PARAMS = {
    "shapes": [[1, 16], [3, 5]],
    "dtypes": ["float32", "bfloat16"],
    "launches": 5,
    "warmup": 1,
    "seed": 42,
    "timelines": [[1, 16]],
    "generate": {"sequences": [1, 2], "given": 3, "new_tokens": 4, "texts": 3},
    "max_autotune_seconds": 100,
    "time_limit_seconds": 100,
    "contract": {"atol": 1e-5, "rtol": 1e-5},
}


def model(dtype=torch.float32) -> GrammarMiniGPT:
    torch.manual_seed(0)
    return GrammarMiniGPT(MiniGPTConfig(len(tokenizer()), block_size=32, n_layer=1, n_head=2, n_embd=8)).to(dtype)


def tokenizer() -> Tokenizer:
    return Tokenizer.from_words(WORDS)


def text() -> TokenStream:
    return TokenStream(["I walk.", "you walked."] * 20, tokenizer())


def through_float16(made: GrammarMiniGPT, ids: torch.Tensor) -> torch.Tensor:
    """Right, and too coarse for the contract."""
    return made.probabilities(ids).half().to(made.lm_head.weight.dtype)


def stand_ins(made: GrammarMiniGPT) -> dict:
    return {
        "eager": made.probabilities,
        "compile": made.probabilities,
        "compile-max-autotune": made.probabilities,
        "graph": partial(through_float16, made),
        "one": made.probabilities,
    }


@pytest.fixture
def on_stand_ins(monkeypatch):
    monkeypatch.setattr(rungs, "forwards", stand_ins)

    def slow(made, sequences, positions):
        eager = lambda ids, new_tokens: torch.as_tensor(writers.plain(made, ids, new_tokens))  # noqa: E731
        return {"eager": eager, "compile": eager, "one": eager}

    monkeypatch.setattr(contest, "writers", slow)


def run(**changed) -> dict:
    made = contest.run_contest(PARAMS | changed, model(), text(), "cpu", lambda line: None)
    return json.loads(json.dumps(made | {"weights_sha256": "0" * 64}, allow_nan=False))


@pytest.fixture
def result(on_stand_ins) -> dict:
    return run()


def test_every_rung_is_timed_at_every_place_and_restored(result, tmp_path):
    entry, path = artefact("model_contest"), tmp_path / "h200/26/model.json"
    write_artefact(path, {"provenance": provenance([], PARAMS, "h200"), **result})
    write_sums(tmp_path / "h200", [path])
    restored = restore(path, entry, tmp_path / "h200", {"": (PARAMS, {})}, "fail")
    assert not restored["restored"]["stale"]
    del restored["restored"]
    check_schema(restored, read_schema(entry.schema), "model.json")
    places = {(row["batch"], row["time"], row["dtype"]) for row in result["forward"]}
    assert places == {(1, 16, "float32"), (3, 5, "float32"), (1, 16, "bfloat16"), (3, 5, "bfloat16")}
    assert len(result["forward"]) == 4 * len(stand_ins(model()))
    assert [(row["sequences"], row["rung"]) for row in result["generate"]] == [
        (sequences, rung) for sequences in (1, 2) for rung in ("eager", "compile", "one")
    ]
    assert result["complete"]


def test_every_figure_follows_from_the_raw_samples(result):
    assert list(differences(result, recompute.model_contest(result))) == []
    result["forward"][3]["wall_us"] *= 0.5
    result["generate"][1]["us_per_token"] *= 0.5
    found = {found["where"] for found in differences(result, recompute.model_contest(result))}
    assert {"forward[3].wall_us", "generate[1].us_per_token"} <= found


def test_the_contract_and_the_loss_are_judged_by_what_a_rung_gives(result):
    at = {(row["rung"], row["dtype"]): row for row in result["forward"] if row["batch"] == 3}
    assert at["one", "float32"]["tolerance_used"] <= 1 < at["graph", "float32"]["tolerance_used"]
    assert at["one", "bfloat16"]["tolerance_used"] is None
    assert at["one", "float32"]["max_rel_err"] < 1e-5 < at["graph", "float32"]["max_rel_err"]
    exact = torch.log_softmax(model().double()(torch.as_tensor(rows(5)[0])), -1)
    loss = -exact.gather(-1, torch.as_tensor(rows(5)[1])[..., None]).mean().item()
    assert at["one", "float32"]["loss"] == pytest.approx(loss, rel=1e-5)
    assert at["one", "float32"]["loss_tokens"] == rows(5)[0].size


def rows(length):
    stream = text()
    return stream.rows(stream.consecutive_places(length))


def test_rows_that_fill_up_the_last_batch_do_not_count():
    found = accuracy.held_out(text(), 7, 5, torch.device("cpu"))
    assert found.rows == len(rows(5)[0])
    assert found.inputs.shape[0] == -(-found.rows // 7)
    assert found.inputs.shape[0] * 7 > found.rows  # or nothing was filled up
    made = model()
    one_by_one = accuracy.held_out(text(), 1, 5, torch.device("cpu"))
    with torch.no_grad():
        assert accuracy.loss_of(made.probabilities, found) == pytest.approx(
            accuracy.loss_of(made.probabilities, one_by_one), rel=1e-6
        )


def test_a_rung_that_is_wrong_or_refuses_is_left_out_and_the_rest_goes_on(on_stand_ins, monkeypatch):
    def refusing(ids):
        raise RuntimeError("no such kernel")

    def some(made):
        return stand_ins(made) | {"graph": refusing, "one": lambda ids: made.probabilities(ids) * 1.1}

    monkeypatch.setattr(rungs, "forwards", some)
    found = run(dtypes=["float32"], shapes=[[1, 16]])
    reasons = {out["rung"]: out["reason"] for out in found["left_out"]}
    assert reasons["graph"] == {"code": "raised", "text": "RuntimeError: no such kernel"}
    assert reasons["one"]["code"] == "wrong"
    assert [row["rung"] for row in found["forward"]] == ["eager", "compile", "compile-max-autotune"]
    met = {bar["what"]: bar["met"] for bar in found["bars"]}
    assert met["forward"] is met["wall"] is met["contract"] is met["loss"] is False


def test_compiling_and_the_whole_have_their_limits(on_stand_ins):
    found = run(max_autotune_seconds=1e-9, shapes=[[1, 16], [2, 16]], dtypes=["float32"])
    left_out = [(out["batch"], out["rung"], out["reason"]["code"]) for out in found["left_out"]]
    assert left_out == [(2, "compile-max-autotune", "compile_time_used_up")]
    late = run(time_limit_seconds=1e-9, dtypes=["float32"])
    assert [(out["rung"], out["reason"]["code"]) for out in late["left_out"]] == [("all", "time_over")] * 2
    assert (late["forward"], late["complete"]) == ([], False)


def test_a_function_has_a_code_object_of_its_own_each_time():
    factor = 3
    first, second = (rungs.with_code_of_its_own(lambda x: factor * x) for _ in range(2))
    assert first(2) == second(2) == 6
    assert first.__code__ is not second.__code__


def test_many_shapes_are_compiled_without_meeting_dynamos_limit():
    made = model()
    compiled = torch.compile
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            torch, "compile", lambda function, mode, **options: compiled(function, backend="eager", **options)
        )
        for length in range(1, 13):
            ids = torch.zeros((1, length), dtype=torch.int64)
            assert rungs.compiled(made, "default")(ids).shape == (1, length, made.config.vocab_size)
