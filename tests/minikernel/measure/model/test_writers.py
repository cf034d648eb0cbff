"""Whole texts: the compiled writer writes eager's tokens, and who fails is left out."""

import torch
from test_model_contest import model

from minikernel.measure.model import writers


def test_the_compiled_step_writes_eagers_tokens():
    made, prompt = model(), torch.tensor([[1, 4, 5], [2, 4, 6]])
    compiled = writers.compiled_writer(made, 2, 3, 5, mode=None, backend="eager")
    assert compiled(prompt).tolist() == writers.plain(made, prompt, 5).tolist()


def test_one_that_fails_is_left_out_and_the_others_are_timed():
    made, prompt = model(), torch.tensor([[1, 4, 5]])

    def wrong(ids):
        return torch.zeros((1, 4), dtype=torch.int64)

    sides = {"eager": lambda ids: torch.as_tensor(writers.plain(made, ids, 4)), "compile": wrong, "one": None}
    rows, reasons = writers.time_writers(sides, prompt, 4, texts=3)
    assert [row["rung"] for row in rows] == ["eager", "compile"]
    assert reasons["one"]["code"] == "raised"
    assert rows[0]["same_tokens"] == 1.0 > rows[1]["same_tokens"]
    assert [sorted(row["samples_us"]) for row in rows] == [["again", "eager"], ["compile"]]


def test_nobody_is_timed_where_all_fail():
    rows, reasons = writers.time_writers({"eager": None}, torch.tensor([[1]]), 4, texts=3)
    assert (rows, list(reasons)) == ([], ["eager"])
