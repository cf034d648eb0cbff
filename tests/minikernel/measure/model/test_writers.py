"""Whole texts: the compiled writer writes eager's tokens, and who fails is left out."""

import torch
from test_model_contest import model

from minikernel.measure.model import writers


def test_the_compiled_step_writes_eagers_tokens():
    made, prompt = model(), torch.tensor([[1, 4, 5], [2, 4, 6]])
    compiled = writers.compiled_writer(made, 2, 8, mode=None, backend="eager")
    for new_tokens in (5, 1, 5):
        assert compiled(prompt, new_tokens).tolist() == writers.plain(made, prompt, new_tokens).tolist()


def test_one_that_fails_is_left_out_and_the_others_are_timed():
    made, prompt = model(), torch.tensor([[1, 4, 5]])

    def eager(ids, new_tokens):
        return torch.as_tensor(writers.plain(made, ids, new_tokens))

    def wrong(ids, new_tokens):
        return torch.zeros((1, new_tokens), dtype=torch.int64)

    sides = {"eager": eager, "compile": wrong, "one": None}
    rows, reasons = writers.time_writers(sides, prompt, 4, texts=3)
    assert [row["rung"] for row in rows] == ["eager", "compile"]
    assert reasons["one"]["code"] == "raised"
    assert rows[0]["same_tokens"] == 1.0 > rows[1]["same_tokens"]
    for samples in ("samples_us", "first_samples_us"):
        assert [sorted(row[samples]) for row in rows] == [["again", "eager"], ["compile"]]


def test_a_token_takes_what_a_text_takes_longer_than_its_first(monkeypatch):
    def write(ids, new_tokens):
        clock.now += 1000 + 10 * ids.shape[1] + 7 * new_tokens
        return torch.zeros((len(ids), new_tokens), dtype=torch.int64)

    class Clock:
        now = 0

        def wall_us(self, call):
            began = self.now
            call()
            return self.now - began

    clock = Clock()
    monkeypatch.setattr(writers, "wall_us", clock.wall_us)
    (row,), _ = writers.time_writers({"one": write}, torch.zeros((2, 16), dtype=torch.int64), 112, texts=3)
    assert (row["us_per_token"], row["p20_us"], row["p80_us"], row["noise_floor"]) == (7, 7, 7, 0)
    assert row["first_token_us"] == 1000 + 160 + 7
    assert row["tokens_per_s"] == 1e6 * 2 * 112 / (1000 + 160 + 7 * 112)


def test_nobody_is_timed_where_all_fail():
    rows, reasons = writers.time_writers({"eager": None}, torch.tensor([[1]]), 4, texts=3)
    assert (rows, list(reasons)) == ([], ["eager"])
