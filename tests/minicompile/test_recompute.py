"""What a record's raw samples give again, and an edited figure that they do not give."""

import copy

from distributed_artefact import artefact

from minicompile import recompute
from minicompile.profile.timing import spread
from minilab.records.verify import differences
from minilab.records.words import worded


def wrong(stored: dict, name: str) -> list[str]:
    return [worded(found) for found in differences(stored, getattr(recompute, name)(stored))]


def test_a_modes_speed_up_follows_from_both_sides_samples():
    sides = [{**spread(taken, 32), "tokens": 32, "samples_us": taken} for taken in ([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])]
    mode = {"speedup": 2.0, "eager": sides[0], "compiled": sides[1]}
    stored = {"timings": [mode], "shapes": [], "attention": [], "roofline": {"ceilings": {"copy_gb_per_s": 1}}}
    assert wrong(stored, "profile") == []
    stored["timings"][0]["compiled"]["samples_us"][1] = 1.0
    assert "timings[0].speedup is 2, and its samples give 4" in wrong(stored, "profile")


def test_a_patterns_speed_follows_from_every_ranks_steps():
    stored = artefact()
    for run in stored["runs"]:
        run["step_seconds_by_rank"] = [run["step_seconds"], [0.001] * 4][: run["ranks"]]
        run["tokens_per_s"] = 64 / 0.064
        if run["pattern"] != "single":
            run["loss_max_rel_difference"] = 0.0
    assert wrong(stored, "distributed") == []
    slower = copy.deepcopy(stored)
    slower["runs"][1]["step_seconds_by_rank"][1] = [0.1] * 4
    assert any(line.startswith("runs[1].tokens_per_s is 1000, ") for line in wrong(slower, "distributed"))
