"""The sentences that stage 25's report begins with follow from the figures, whatever these are."""

import copy

from distributed_artefact import artefact
from profile_artefact import TIMING, profile
from stage_25_artefacts import RESTORED, compared, health

from minicompile.report import overview
from minicompile.report.overview import Measured

GRAPH = {
    "direction": "forward", "operations": 6, "kernels": 1, "calls": 2, "extern_calls": 1, "fusions": 3, "refused": 1,
    "unwritten_bytes": 9600,
}  # fmt: skip
VIEW = {"model": "tiny_head", "device": "cpu-x", "simulated": False, "folder": "tiny_head/cpu-x", "graphs": [GRAPH]}


def judged(*codes: str) -> list[dict]:
    """Timings of one device, each a verdict."""
    about = {"model": "tiny_head", "device": "cpu-x", "shape": [2, 64], "mode": "default"}
    return [{**about, "code": code, "factor": 1.5 + number} for number, code in enumerate(codes)]


def five(monkeypatch, found: list[dict], views=(VIEW,), distributed=(), made=(), checked=()) -> list[str]:
    monkeypatch.setattr(overview, "_judged", lambda profiles: found)
    return overview.five_sentences(Measured(views, [profile()], checked, distributed, made))


def test_the_best_and_the_worst_timing_are_named(monkeypatch):
    sentences = five(monkeypatch, judged("faster", "faster", "slower", "as_fast"))
    assert "faster than eager in 2 of 4 timings, at most 2.50 times as fast" in sentences[1]
    assert "makes 1 of 4 timings slower" in sentences[2]
    assert "3.50 times as long" in sentences[2]


def test_no_gain_is_called_none_and_no_time_is_called_unknown(monkeypatch):
    assert "in none of 2 timings is compiled faster" in five(monkeypatch, judged("slower", "as_fast"))[1]
    assert "no time here was measured" in five(monkeypatch, [])[1]


def test_what_surprises_is_looked_for_in_the_figures(monkeypatch):
    refusing = {**VIEW, "graphs": [{**GRAPH, "refused": 9}]}
    assert "refused more fusions than it took, 9 against 3" in five(monkeypatch, judged("faster"), [refusing])[2]
    assert "nothing; no timing is slower" in five(monkeypatch, judged("faster"))[2]


def test_the_host_is_told_where_host_and_device_were_taken_apart():
    overlapping = profile()
    overlapping["shapes"][0]["split"] |= {"overlapping": True, "rest_us": None}
    slower = {"model": "tiny_head", "device": "cpu-x", "shape": [2, 64]}
    assert overview._host(slower, [overlapping]) == {"host_us": 26.0, "device_us": 13.0}
    assert overview._host(slower, [profile()]) == {"host_us": None, "device_us": None}


def test_what_is_not_known_is_what_the_artefacts_lack(monkeypatch):
    simulated = {**VIEW, "model": "other", "simulated": True}
    stale = {**compared(), "restored": RESTORED}
    told = five(monkeypatch, [], [VIEW, simulated], [artefact("h200")], [stale])[3]
    assert "simulated GPU's code has never run" in told
    assert "`other` was not timed here." in told
    assert "bfloat16 was not measured on `h200`" in told
    assert "records of `cpu-x` are partly stale" in told
    full = five(monkeypatch, [], [VIEW], [artefact("h200", dtypes=("float32", "bfloat16"))])[3]
    assert full == "**Not known**: how another machine does."


def test_a_model_whose_steps_were_timed_as_its_compile_was_checked_was_timed(monkeypatch):
    simulated = {**VIEW, "model": "other", "simulated": True}
    checked = health("other", [])
    assert "not timed here" not in five(monkeypatch, [], [VIEW, simulated], checked=[checked])[3]
    never = {**checked, "benchmark": {**checked["benchmark"], "compiled": None}}
    assert "`other` was not timed here." in five(monkeypatch, [], [VIEW, simulated], checked=[never])[3]


def test_outputs_that_cannot_be_compared_are_left_out_of_the_largest_difference():
    drawing = copy.deepcopy(profile())
    drawing["timings"] = [{**TIMING, "max_difference": None}, {**TIMING, "max_difference": 3e-6}]
    assert "Over 1 timing compiled" in overview.what_matters(Measured(profiles=[drawing]))[0]
    assert "differ by at most 3.0e-06" in overview.what_matters(Measured(profiles=[drawing]))[0]


def test_the_next_thing_to_look_at_has_most_kernels_and_ran(monkeypatch):
    more = {**VIEW, "folder": "minigpt/h200", "graphs": [{**GRAPH, "kernels": 7}]}
    never_ran = {**VIEW, "folder": "minigpt/simulated", "simulated": True, "graphs": [{**GRAPH, "kernels": 9}]}
    assert "(minigpt/h200/explorer.html)" in five(monkeypatch, [], [VIEW, more, never_ran])[4]
    assert "nothing was captured" in five(monkeypatch, [], [])[4]


def test_the_findings_follow_the_figures():
    different = copy.deepcopy(profile())
    different["timings"] = [TIMING, {**TIMING, "max_difference": 3e-6}]
    health = [{"healthy": True}, {"healthy": False}]
    numbers, fusion, simulated, survey = overview.what_matters(
        Measured([VIEW], [different], health, [artefact("h200")], [compared()])
    )
    assert "Over 2 timings compiled and eager differ by at most 3.0e-06" in numbers
    assert "1 of 2 checked compiles are healthy" in numbers
    assert "the 6 operations of `tiny_head`'s forward pass became 2 calls of 1 generated kernel" in fusion
    assert "and 1 library call; 9,600 bytes" in " ".join(fusion.split())
    assert "The text of 1 of 1 kernels written for the simulated `h200` is the real one's" in simulated
    assert simulated.endswith("byte for byte; 1 also compile to its machine code.")
    assert "PP 1.10 times as fast as one process; the pipeline's bubble alone would allow 1.60" in survey


def test_the_same_text_is_not_said_to_be_the_same_machine_code():
    other = compared()
    other["graphs"][0]["kernels"][0]["sass_same"] = False
    said = overview.what_matters(Measured(compared=[other]))[0]
    assert "byte for byte; 0 also compile to its machine code, and the fold below says why the others do not" in said
    other["graphs"][0]["kernels"][0]["sass_same"] = None
    assert overview.what_matters(Measured(compared=[other]))[0].endswith("byte for byte.")


def test_a_finding_that_nothing_was_measured_for_is_left_out():
    assert overview.what_matters(Measured()) == []
