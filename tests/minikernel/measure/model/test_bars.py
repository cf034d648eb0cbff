"""The bars: met or missed by exact numbers, and missed where nothing was measured."""

import pytest
from model_artefact import model_artefact

from minikernel.measure.model.bars import bars


def at(found: list[dict], what: str, batch: int | None = None) -> dict:
    return next(bar for bar in found if bar["what"] == what and bar["batch"] in (batch, None))


def changed(rung: str, batch: int, dtype: str = "float32", **values) -> list[dict]:
    made = model_artefact()
    row = next(row for row in made["forward"] if (row["rung"], row["batch"], row["dtype"]) == (rung, batch, dtype))
    row.update(values)
    return bars(made)


def test_the_best_compiled_mode_is_the_peer_whichever_it_is():
    assert at(bars(model_artefact()), "forward", 1)["peer"] == "compile-max-autotune"
    assert at(bars(model_artefact()), "forward", 64)["peer"] == "compile-reduce-overhead"
    assert at(changed("compile", 1, device_us=50.0), "forward", 1)["peer"] == "compile"


@pytest.mark.parametrize(
    ("us", "met", "within_noise"), [(10.0, True, False), (10.01, False, True), (11.0, False, False)]
)
def test_a_ratio_is_met_exactly_or_missed_within_the_noise(us, met, within_noise):
    made = model_artefact()
    for row in made["forward"]:
        if (row["batch"], row["dtype"]) == (1, "float32"):
            own = {"one": us, "compile-max-autotune": 60.0}
            row.update(device_us=own.get(row["rung"], 1000.0), noise_floor=0.01)
    bar = at(bars(made), "forward", 1)
    assert (bar["met"], bar["within_noise"]) == (met, within_noise)


def test_the_contract_and_the_loss_are_bars_from_above():
    assert at(changed("one", 2, tolerance_used=1.0), "contract", 2)["met"]
    assert not at(changed("one", 2, tolerance_used=1.001), "contract", 2)["met"]
    exact = next(row for row in model_artefact()["forward"] if row["rung"] == "eager" and row["batch"] == 64)["loss"]
    assert at(changed("one", 64, "bfloat16", loss=exact * 1.0009), "loss", 64)["met"]
    assert not at(changed("one", 64, "bfloat16", loss=exact * 1.0011), "loss", 64)["met"]
    assert not at(changed("one", 64, "bfloat16", loss=None), "loss", 64)["met"]


def test_what_was_not_measured_is_not_met():
    found = bars({**model_artefact(), "forward": [], "generate": []})
    assert {bar["met"] for bar in found} == {False}
    assert {bar["value"] for bar in found} == {None}
    assert [bar["what"] for bar in found] == [bar["what"] for bar in bars(model_artefact())]
