"""What raw samples give again, and an edited figure that they do not give."""

from minikernel.measure import recompute
from minikernel.measure.ceilings import Rate, ceilings_of
from minilab.records.verify import differences


def wrong(stored: dict, name: str) -> list[str]:
    return [found["where"] for found in differences(stored, getattr(recompute, name)(stored))]


def test_the_ceilings_follow_from_the_launches():
    rates = {"fp32_tflop_per_s": [Rate(4_000_000, [1.0, 2.0, 3.0]), Rate(3_000_000, [1.0])], "tf32_tflop_per_s": []}
    samples = {name: [vars(rate) for rate in measured] for name, measured in rates.items()}
    stored = {**ceilings_of(rates), "samples": samples}
    assert (stored["fp32_tflop_per_s"], stored["tf32_tflop_per_s"]) == (3.0, None)
    assert wrong(stored, "ceilings") == []
    assert wrong({**stored, "fp32_tflop_per_s": 3.1}, "ceilings") == ["fp32_tflop_per_s"]
