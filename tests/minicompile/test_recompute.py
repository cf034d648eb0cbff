"""What a record's raw samples give again, and an edited figure that they do not give."""

import copy

from distributed_artefact import artefact

from minicompile import recompute
from minicompile.distributed.measure import patterns_on
from minicompile.profile.figures import compared, side
from minilab.records.verify import differences
from minilab.records.words import worded


def wrong(stored: dict, name: str) -> list[str]:
    return [worded(found) for found in differences(stored, getattr(recompute, name)(stored))]


def test_a_modes_speed_up_noise_and_verdict_follow_from_both_sides_samples():
    eager, compiled = side([2.0, 4.0, 6.0], [2.0, 4.0, 6.0], 32), side([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], 32)
    mode = {**compared(eager, compiled), "eager": eager, "compiled": compiled}
    assert (mode["speedup"], mode["noise"], mode["verdict"]) == (2.0, 0.0, "faster")
    stored = {"timings": [mode], "shapes": [], "attention": [], "roofline": {"ceilings": {"copy_gb_per_s": 1}}}
    assert wrong(stored, "profile") == []
    stored["timings"][0]["compiled"]["samples_us"][1] = 1.0
    found = wrong(stored, "profile")
    assert "timings[0].compiled.noise is 0, and its samples give 1" in found
    assert any(line.startswith("timings[0].speedup is 2, ") for line in found)


def test_a_patterns_speed_follows_from_every_ranks_steps():
    stored = artefact("h200", (2, 4), patterns=patterns_on)  # a mesh among them, whose rings are smaller
    for run in stored["runs"]:
        run["step_seconds_by_rank"] = [run["step_seconds"], *([[0.001] * 4] * 3)][: run["ranks"]]
        run["tokens_per_s"] = 64 / 0.064
        if run["pattern"] != "single":
            run["loss_max_rel_difference"] = 0.0
    assert wrong(stored, "distributed") == []
    slower = copy.deepcopy(stored)
    slower["runs"][1]["step_seconds_by_rank"][1] = [0.1] * 4
    assert any(line.startswith("runs[1].tokens_per_s is 1000, ") for line in wrong(slower, "distributed"))
