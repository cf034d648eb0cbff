"""Which figures moved, beyond the noise of both measurements."""

import numpy as np
import pytest

from minilab.records.artefact import artefact
from minilab.records.compare import figure, figures, moved, only_in_one


def samples(median: float, seed: int, n: int = 100) -> list[float]:
    return list(median * (1 + 0.02 * np.random.default_rng(seed).standard_normal(n)))


def test_the_interval_of_a_median_covers_it_about_nineteen_times_in_twenty():
    within = 0
    for seed in range(400):
        found = figure(samples(10.0, seed))
        within += abs(found.median / 10.0 - 1) <= found.noise
    assert 0.90 < within / 400 < 0.995


def test_a_duplicates_distance_is_noise_too():
    assert figure([1.0, 1.0, 1.0], 0.3).noise == 0.3
    assert figure([1.0, 1.0, 1.0], None).noise == 0.0


def test_only_what_left_the_noise_of_both_has_moved():
    before = {"same": figure(samples(10.0, 1)), "slower": figure(samples(10.0, 2)), "gone": figure([1.0])}
    after = {"same": figure(samples(10.02, 3)), "slower": figure(samples(11.0, 4)), "new": figure([1.0])}
    (sentence,) = moved(before, after)
    assert sentence.startswith("slower: ")
    assert "(+1" in sentence or "(+9" in sentence
    assert only_in_one(before, after) == ["gone: only in the record", "new: only measured now"]


def test_the_largest_move_comes_first():
    before = {name: figure([10.0] * 9) for name in ("little", "much")}
    after = {"little": figure([10.5] * 9), "much": figure([5.0] * 9)}
    assert [sentence.split(":")[0] for sentence in moved(before, after)] == ["much", "little"]


@pytest.mark.parametrize(
    ("artefact", "names"),
    [
        (
            {"samples": {"copy_gb_per_s": [{"amount": 8, "samples_us": [1.0]}]}},
            ["copy_gb_per_s, microseconds of launch 0"],
        ),
        (
            {"kernel": "triton", "tried": [
                {"config": {"BLOCK": 4}, "rows": 2, "cols": 3, "dtype": "float32", "median_us": 1.0,
                 "samples_us": [1.0]},
                {"config": {"BLOCK": 8}, "rows": 2, "cols": 3, "dtype": "float32", "median_us": None},
            ]},
            ["triton {'BLOCK': 4} float32 2x3"],
        ),
        (
            {"rows": [{"kernel": "naive", "direction": "forward", "dtype": "float32", "rows": 2, "cols": 3,
                       "samples_us": {"naive": [1.0]}, "graph_samples_us": {"naive": [1.0]}, "noise_floor": 0.1}]},
            ["naive forward float32 2x3", "naive forward float32 2x3, in a graph"],
        ),
        (
            {"forward": [{"rung": "one", "dtype": "float32", "batch": 2, "time": 16, "samples_us": {"one": [1.0]},
                          "wall_samples_us": {"one": [9.0]}, "noise_floor": 0.1, "wall_noise_floor": 0.1}],
             "generate": [{"rung": "one", "sequences": 16, "samples_us": {"one": [6.0]},
                           "first_samples_us": {"one": [3.0]}, "noise_floor": 0.1}]},
            ["one float32 2x16 on the device", "one float32 2x16, a call", "one, 16 sequences, a text",
             "one, 16 sequences, its first token"],
        ),
        (
            {"model": "minigpt", "timings": [{"shape": [1, 2], "mode": "default", "eager": {"samples_us": [1.0]},
                                              "compiled": {"samples_us": [1.0]}}]},
            ["minigpt (1, 2) default, compiled", "minigpt (1, 2) default, eager"],
        ),
        (
            {"runs": [{"pattern": "ddp", "dtype": "bfloat16", "ranks": 2, "step_seconds": [0.1]}]},
            ["ddp in bfloat16 on 2 ranks, seconds a step"],
        ),
    ],
    ids=["ceilings", "autotune", "bench", "model_contest", "profile", "distributed"],
)  # fmt: skip
def test_every_figure_has_a_name(artefact: dict, names: list[str]):
    assert sorted(figures(artefact)) == names


def test_a_bench_is_measured_again_by_the_script_of_its_device():
    assert artefact("bench").script_on("cpu-amd-epyc") == "scripts/bench_on_cpu.py"
    assert artefact("bench").script_on("h200") == "scripts/bench_kernel.py"
    assert artefact("ceilings").script_on("cpu-amd-epyc") == "scripts/ceilings.py"
