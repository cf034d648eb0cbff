"""The report says what the figures say: who wins, what is missed, what is stale."""

import copy
import re

import pytest
import yaml
from artefacts import (
    AUTOTUNE,
    EQUIVALENCE,
    NOISE,
    PORT,
    SWAP,
    allocation,
    bench,
    bench_row,
    ceilings,
    contest,
    contest_row,
    gpu_bench,
    head_row,
    heads,
    host_row,
    made,
    standard,
)
from numbers_of_a_page import in_prose, watched

from minikernel.report import contest_report
from minikernel.report.manifest import manifest_24
from minikernel.report.stage_24 import contest_24, device_view, report_24
from minilab.pages.translations import LANGUAGES


def text_of(bench: dict, **parts) -> str:
    """Both pages, one after the other."""
    return "\n".join(page(made(benches=[bench], **parts)) for page in (report_24, contest_24))


def test_targets_follow_the_figures():
    assert "- `triton` at least as fast as F.softmax: met at all 1 shapes." in text_of(gpu_bench(95.0))
    assert "- `triton` at least as fast as F.softmax: **missed** at 512 rows by 7.0%." in text_of(gpu_bench(107.0))
    said = "- `triton` at least as fast as F.softmax: "
    assert f"{said}**missed** at 512 rows by 0.9%, within the noise." in text_of(gpu_bench(100.9))
    assert f"{said}met at all 1 shapes, at 1 of them by no more than the noise." in text_of(gpu_bench(99.1))


def test_each_kernel_says_its_gain_over_the_one_before():
    lines = [line.split(" | ") for line in text_of(gpu_bench()).splitlines() if line.startswith("| `")]
    gains = {cells[0].strip("| `"): cells[2].strip() for cells in lines if len(cells) == 5}
    assert gains == {"naive": "", "smem": "5.00", "fused": "2.00", "triton": ""}


def test_a_rung_that_a_record_lacks_is_no_step_and_each_language_has_its_own_ladder():
    bench = gpu_bench()
    bench["rows"] += [bench_row("warp", 512, 120.0), bench_row("triton_textbook", 512, 190.0)]
    lines = [line.split(" | ") for line in text_of(bench).splitlines() if line.startswith("| `")]
    gains = [(cells[0].strip("| `"), cells[2].strip()) for cells in lines if len(cells) == 5]
    ladder = [("naive", ""), ("smem", "5.00"), ("warp", "1.50"), ("fused", "1.33")]
    assert gains == [*ladder, ("triton_textbook", ""), ("triton", "2.00")]


def test_stale_and_distrusted_figures_are_said():
    text = text_of(gpu_bench(stale=True, above_roof=True))
    assert "| `fused` | 90.0 (0.90x, above the roof, not trusted), *stale* |" in text
    assert "so do not trust them: fused at 512 x 600." in text
    assert "*stale*" not in text_of(gpu_bench())


def test_what_is_faster_than_a_copy_could_be_is_nobodys_achievement():
    """A machine that was busy while its copy was timed gave 1,291 % of a copy, and the table printed it."""
    impossible = gpu_bench(above_roof=True, fraction_of_copy=12.91, median_us=0.3, ratio_to_reference=0.003)
    for language, mark in (("en", "above the roof, not trusted"), ("es", "por encima del techo, no fiable")):
        parts = {"benches": [impossible], "ceilings": [ceilings(datasheet={"memory_gb_per_s": 4800})]}
        report = report_24(made(**parts), language)
        steps = {line.split(" | ")[0]: line.split(" | ")[2:] for line in report.splitlines() if line.startswith("| `")}
        assert [cell.strip(" |") for cell in steps["| `fused`"]] == ["", mark, ""]
        text = report + contest_24(made(**parts), language)
        assert not re.search(r"1.?291 ?%", text)
        assert "0.003x" not in report
    found = findings_of(benches=[impossible])
    assert "`fused`" not in found[1] + found[2]
    assert "`triton` moves its bytes" in found[1]
    assert "`fused` at least as fast as F.softmax: not measured." in contest_24(made(benches=[impossible]))
    shown = manifest_24(impossible, AUTOTUNE, SWAP, EQUIVALENCE, PORT, 42, ["fused", "triton"])["softmax_kernels"]
    assert [kernel["us_at_B512"] for kernel in shown.values()] == [None, 95.0]
    every = gpu_bench()
    for row in every["rows"]:
        row["above_roof"] = True
    assert "nothing on NVIDIA H200, because every kernel was timed faster" in findings_of(benches=[every])[1]


def test_model_port_and_swap():
    text = text_of(gpu_bench())
    assert "The model ends 1.00 % above it." in text
    assert "All 53 arrays (290,000 numbers) are byte-equal" in " ".join(text.split())
    assert "`blocks.0.ln_1.x`, with 9.5." in " ".join(text.split())
    assert "the logits differ by at most 7.00e-06" in " ".join(text.split())
    assert "walked (0.200), all past simple" in " ".join(text.split())


def test_a_missing_measurement_is_said_and_not_invented():
    incomplete = gpu_bench()
    incomplete["rows"].append(bench_row("fused", 64, 5.0))
    view = device_view(incomplete)
    assert [kernel["rows"][1] for kernel in view["kernels"] if kernel["name"] == "triton"] == [None]
    assert "not measured |" in text_of(incomplete)


def test_manifest_has_the_keys_it_promises():
    manifest = manifest_24(gpu_bench(), AUTOTUNE, SWAP, EQUIVALENCE, PORT, 42, ["naive", "smem", "fused", "triton"])
    assert manifest["experiment"] == "24-triton-and-pytorch"
    assert manifest["gpu"] == {"model": "NVIDIA H200", "compute_capability": "9.0"}
    assert manifest["versions"] == {"python": "3.12.3", "torch": "2.11.0", "triton": "3.6.0", "cupy": "14.2.0"}
    assert manifest["softmax_kernels"]["fused"] == {
        "us_at_B512": 90.0,
        "frac_of_F_softmax": pytest.approx(100 / 90),
        "noise_floor": 0.01,
    }
    assert manifest["softmax_kernels"]["triton"]["autotune_picked"]["BLOCK"] == 1024
    assert manifest["torch_port"] == {
        "byte_equivalence_at_fp32_cpu": "passed",
        "max_abs_diff_to_numpy_reference": 2e-6,
        "checkpoint_sha256": "a" * 64,
        "kernel_swap_changes_top1_token": False,
        "kernel_swap_checkpoint_sha256": "b" * 64,
    }


def test_manifest_of_a_cpu_has_nulls():
    cpu = bench([bench_row("numpy", 512, 900.0)], "cpu-a")
    manifest = manifest_24(cpu, None, SWAP, EQUIVALENCE, PORT, 42, ["naive", "triton"])
    assert manifest["gpu"] == {"model": None, "compute_capability": None}
    assert manifest["softmax_kernels"]["naive"] == {"us_at_B512": None, "frac_of_F_softmax": None, "noise_floor": None}
    assert manifest["softmax_kernels"]["triton"]["autotune_picked"] == {"BLOCK": None, "num_warps": None}


def test_a_stale_swap_and_stale_choices_are_said():
    restored = {"restored": {"stale": True}}
    text = text_of(gpu_bench(), autotune=AUTOTUNE | restored, swaps=[SWAP | restored])
    assert "## What autotune picked (stale)" in text
    assert "on h200, computed by cuda, *stale*:" in text


def test_a_manifest_without_a_choice_at_512_rows_has_nulls():
    choices = {"choices": [choice for choice in AUTOTUNE["choices"] if choice["rows"] != 512]}
    manifest = manifest_24(gpu_bench(), choices, SWAP, EQUIVALENCE, PORT, 42, ["triton"])
    assert manifest["softmax_kernels"]["triton"]["autotune_picked"] == {"BLOCK": None, "num_warps": None}


def contest_text(explained: list[dict] = (), **parts) -> str:
    return contest_24(made(contest=contest(**{"rows": []} | parts), explained=explained))


def section(text: str, title: str) -> str:
    """The part of the report under a heading, blanks and line breaks as single blanks."""
    return " ".join(text.split(f"## {title}")[1].split("\n## ")[0].split())


def test_without_a_contest_its_parts_are_absent_and_the_command_is_named():
    text = text_of(gpu_bench())
    assert "`snakemake --cores 4 results/24/h200/contest.json` measures it" in section(text, "The contest")
    for absent in ("bandwidth.png", "## The standards", "`fused_short`", "## What a call costs", "## Who was left out"):
        assert absent not in text


def test_the_contest_names_the_best_of_each_side_and_no_dispatcher():
    rows = [
        contest_row("fused", 4096, 90.0),
        contest_row("softmax", 4096, 80.0),
        contest_row("triton", 4096, 95.0),
        contest_row("quack", 4096, 100.0),
        contest_row("liger", 4096, 120.0),
    ]
    said = "| 16,384 x 4,096 | fused | 90.0 (81.0) | 149% | quack | 100.0 (90.0) | 0.900 | 0.4% |"
    assert said in section(contest_text(rows=rows), "The contest")
    alone = section(contest_text(rows=rows[:1]), "The contest")
    assert "| 16,384 x 4,096 | fused | 90.0 (81.0) | 149% | nobody | | | 0.4% |" in alone


def test_layouts_say_their_widths_and_gains():
    rows = [
        contest_row("fused", 600, 100.0),
        contest_row("F.softmax", 600, 150.0),
        contest_row("liger", 600, 110.0),
        contest_row("fused", 600, 1.0, rows=64),  # launch-bound: of each width the shape with the most rows counts
        contest_row("fused", 1000, 100.0),
        contest_row("F.softmax", 1000, 130.0),
        contest_row("fused", 600, 200.0, "backward"),
        contest_row("F.softmax", 600, 500.0, "backward"),
    ]
    text = section(contest_text(rows=rows), "One kernel for each")
    forward, backward = text.split("Backward, a kernel reads")
    assert "float32: 600, 1,000 | 20% to 33% | 1.30 to 1.50 | 1.10 to 1.30 |" in forward
    assert "`backward_block`" in backward
    assert "float32: 600 | 15% | 2.50 | 2.50 |" in backward


def test_standards_count_what_is_met_and_show_the_worst():
    entries = [
        standard(1, 90.0, 0.9, 1.0),
        standard(1, 103.0, 1.03, 1.0, cols=600),
        standard(1, 100.2, 1.002, 1.0, cols=1000, within_noise=True),
        standard(2, 90.0, 0.98, 0.97, what="forward_copy", peer="copy"),
    ]
    text = section(contest_text(standards=entries), "The standards")
    assert "| **1 of 3** | 1 | 16,384 x 600 (float32), events | 1.030 | 1.000 |" in text
    assert "| 1 of 1 | | 16,384 x 4,096 (float32), events | 0.980 | 0.970 |" in text
    assert "| fused 103.0 | quack 100.0 | 1.030 (1.000) | 3.0% |" in text
    assert "| 1.002 (1.000) | 0.2%, within the noise |" in text
    assert "Of 2 of these rows, what was tried and what holds them back is not written down." in text


def test_nothing_missed_is_said():
    text = section(contest_text(standards=[standard(1, 90.0, 0.9, 1.0)]), "The standards")
    assert "None is missed." in text
    assert "Missed:" not in text


def test_what_could_not_be_measured_is_missed_and_worst():
    unmeasured = standard(1, 0, 2.0, 1.0, cols=600) | {"ours": None, "ours_us": None, "value": None}
    text = section(contest_text(standards=[unmeasured, standard(1, 103.0, 1.03, 1.0)]), "The standards")
    assert "| **0 of 2** | 0 | 16,384 x 600 (float32), events | not measured | 1.000 |" in text
    assert "| nobody | quack 100.0 | not measured (1.000) | |" in text


def test_an_explanation_stands_once_beside_the_rows_it_is_about():
    entries = [
        standard(1, 103.0, 1.03, 1.0, timing=timing, cols=cols)
        for timing in ("events", "graphs")
        for cols in (600, 1000)
    ]
    why = {"tried": "Wider tiles: no change.", "profiler": "DRAM at 90 %."}
    explained = [
        {key: entry[key] for key in contest_report.PLACE} | why
        for entry in (*entries[:2], standard(2, 1.0, 1.0, 0.97, cols=600))
    ]
    text = section(contest_text(explained, standards=entries), "The standards")
    said = "- Forward, 16,384 x 600 (float32), 16,384 x 1,000 (float32). Tried: Wider tiles: no change."
    assert text.count("Wider tiles") == text.count(said) == 1
    assert "What holds it back: DRAM at 90 %." in text
    assert "not written down" not in text


def test_every_shipped_explanation_has_the_keys_that_it_is_found_by_and_both_texts():
    for entry in yaml.safe_load((contest_report.HERE / "data/missed.yaml").read_text()):
        assert entry.keys() - set(LANGUAGES) == {*contest_report.PLACE, "tried", "profiler"}
        assert entry.get("es", {}).keys() <= {"tried", "profiler"}


def test_the_head_says_its_gain_and_who_was_left_out():
    head = [
        head_row("eager", 64, 12.0), head_row("linear_softmax", 64, 6.0),
        head_row("eager", 4096, 30.0), head_row("compile", 4096, 40.0), head_row("linear_softmax", 4096, 20.0),
    ]  # fmt: skip
    text = section(contest_24(made(contest=contest([]), heads=heads(head))), "The LM head")
    assert "| 64 | 12.0 (2.00x) | 6.0 | left out |" in text
    assert "| 4,096 | 30.0 (1.50x) | 20.0 | 40.0 (2.00x) |" in text
    shown = report_24(made(heads=heads(head)))
    assert "The LM head computes softmax(linear(h)), here of 4,096 rows" in shown


def test_where_the_head_is_not_fused_the_page_says_so_and_who_is_faster():
    rows = [
        head_row("eager", 64, 10.2),
        head_row("linear_softmax", 64, 10.2, fused=False),
        head_row("compile", 64, 9.1),
        head_row("eager", 4096, 30.0),
        head_row("linear_softmax", 4096, 20.0),
    ]
    text = section(contest_24(made(contest=contest([]), heads=heads(rows))), "The LM head")
    assert (
        "At 64 rows `linear_softmax` fuses nothing and computes what `eager` does; `compile` is faster there." in text
    )
    assert "At 4,096 rows `linear_softmax`" not in text


def test_a_miss_of_the_head_is_called_the_heads():
    entry = standard(6, 1156.0, 1.2e-6, 1e-6, what="head_error", cols=600, met=False)
    explained = [{key: entry[key] for key in contest_report.PLACE} | {"tried": "Much.", "profiler": "Busy."}]
    assert "- LM head, 16,384 x 600 (float32). Tried: Much." in contest_text(explained, standards=[entry])


def test_the_noise_stands_below_the_times_that_it_is_about():
    bench = gpu_bench()
    for row in bench["rows"]:
        row["noise_floor"] = row["rows"] / 1e7
    shapes = list(dict.fromkeys(row["rows"] for row in bench["rows"] if row["direction"] == "forward"))
    noise = " | ".join(f"{rows / 1e7:.1%}" for rows in shapes)
    assert f"| *noise* | {noise} |" in contest_24(made(benches=[bench]))


def test_the_layer_that_the_report_names_stands_in_the_table():
    proven = copy.deepcopy(made().equivalence)
    worst = {**proven["layers"][0], "layer": "blocks.3.mlp.gelu"}
    worst["torch_numpy"] = {**worst["torch_numpy"], "max_ulps": 156.0}
    proven["layers"].append(worst)
    assert "is `blocks.3.mlp.gelu`, with 156.0." in " ".join(report_24(made(equivalence=proven)).split())
    assert "| blocks.3.mlp.gelu |" in contest_24(made(equivalence=proven))


def test_of_the_heads_those_count_that_were_timed_by_themselves():
    asked = [standard(6, 20.0, 1.5, 2.5, what="head_time"), MISSED]
    measured = contest([], standards=asked, head=[head_row("eager", 64, 99.0)], left_out=[{"part": "head"}])
    alone = heads([head_row("eager", 64, 12.0)], standards=[standard(6, 20.0, 3.0, 2.5, what="head_time")])
    seen = contest_report.with_heads(measured, alone)
    assert [row["median_us"] for row in seen["head"]] == [12.0]
    assert [entry["value"] for entry in seen["standards"]] == [1.03, 3.0]
    assert seen["left_out"] == []
    assert contest_report.with_heads(measured, None) is measured


def test_host_costs_by_caller():
    host = [host_row("F.softmax", 4.0), host_row("softmax", 3.0), host_row("softmax", 5.0, requires_grad=True)]
    text = section(contest_text(host=host), "What a call costs the host")
    assert "| 64 x 600 float32 | 4.0 | 3.0 | 0.4% |" in text
    assert "| 64 x 600 float32, asks for a gradient | – | 5.0 | 0.4% |" in text
    assert "A dash: called by itself, `F.softmax` computes no gradient." in text
    assert "A dash" not in section(contest_text(host=host[:2]), "What a call costs the host")
    assert "What a call costs" not in contest_text()


def test_who_was_left_out_and_why():
    refused = {"part": "softmax", "direction": "forward", "cols": 50257, "kernel": "quack"}
    refused |= {"reason": {"code": "raised", "text": "a|b\nc"}}
    shapes = [refused | {"rows": 16384, "dtype": dtype} for dtype in ("float32", "bfloat16")]
    text = section(contest_text(left_out=shapes), "Who was left out")
    assert "| softmax, forward | `quack` | 16,384 x 50,257 (float32, bfloat16) | it failed with a\\|b c |" in text


def test_an_incomplete_or_stale_contest_and_missing_peers_are_said():
    restored = {"from": "record", "stale": True, "reasons": [{"code": "source_changed", "path": "fused.cu"}]}
    text = section(contest_text(complete=False, restored=restored), "The contest")
    assert "It is **not complete**" in text
    assert "The record is *stale*: fused.cu has changed." in text
    assert "beside torch's own: liger 0.8.5; not installed: quack." in text
    assert "stale" not in section(contest_text(), "The contest")


def test_a_users_kernel_that_was_left_out_of_the_bench_is_said():
    hung = {"code": "timed_out", "seconds": 60, "knob": "bench.time_limit_seconds"}
    text = text_of(gpu_bench() | {"left_out": [{"kernel": "mine", "reason": hung}]})
    assert "- `mine`: it did not end within 60 seconds, the limit of bench.time_limit_seconds" in text


def test_proofs_say_their_error_or_why_the_kernel_is_left_out():
    proof = {"device": "h200", "executed_by": "cuda", "compiled": True, "reason": None}
    cases = [{"dtype": "float32", "max_rel_err": error} for error in (1e-7, 3e-7)]
    proofs = [
        proof | {"kernel": "fused", "cases": cases},
        proof | {"kernel": "mine", "cases": [], "reason": {"code": "changed_input"}},
    ]
    text = section(text_of(gpu_bench(), proofs=proofs), "Proven here")
    assert "- `fused` on h200 (cuda): 2 cases, largest relative error against float64 3.0e-07 in float32." in text
    assert "- `mine` on h200: left out: it changed its input; a kernel writes its output only." in text


def test_autotunes_choice_says_what_is_launched_where_it_knows():
    assert "| 512 x 600 float32 | BLOCK 1024, num_warps 4 | 9.0 | none ran | | |" in section(
        text_of(gpu_bench()), "What autot"
    )
    known = AUTOTUNE["choices"][0] | {"rival_us": 8.0, "faster": "fused"}
    text = section(text_of(gpu_bench(), autotune={"choices": [known]}), "What autot")
    assert "| none ran | 8.0 | fused |" in text
    assert "costs the host more than a launch of `fused`" in text
    assert "above 25 µs" in text
    assert "below 93% of" in text


def test_what_jobs_beside_do_to_a_gpus_times_is_told_where_it_was_measured():
    device = {"device": "h200", "hardware": {"gpu": {"name": "NVIDIA H200"}, "cpu": "A Chip"}}
    page = report_24(made(benches=[gpu_bench()], ceilings=[ceilings(provenance=device, noise=NOISE)]))
    assert (
        "On NVIDIA H200 at 4,096 x 600, two timings of F.softmax lay 0.42% apart while other processes kept 0.4 cores\n"
        "  busy, and 0.91% while they kept 4.5 busy. The time itself moved by +0.26%, which is within that noise."
        in page
    )
    assert "0.03% apart while other processes kept 0.3 cores\n  busy, and 0.17% while they kept 4.1 busy" in page
    assert "+1.50%, which is more than that noise." in page
    for noise in (None, ...):  # none was measured; a record of before
        made_before = ceilings(provenance=device, **({} if noise is ... else {"noise": noise}))
        assert "other processes kept" not in report_24(made(benches=[gpu_bench()], ceilings=[made_before]))


@pytest.mark.parametrize(
    ("capability", "held"),
    [
        ("8.0", ["fused_shared", "fused_long", "backward_long"]),
        ("8.9", ["fused_shared", "fused_long", "backward_long"]),
        ("9.0", ["fused_shared", "fused_cluster", "backward_cluster"]),
        ("12.0", ["fused_shared", "fused_cluster", "backward_cluster"]),
    ],
)
def test_the_contest_names_the_kernel_that_takes_a_row_on_its_own_card(capability: str, held: list[str]):
    forward, backward = (
        contest_report.layout_of(direction, {"hardware": {"gpu": {"compute_cap": capability}}})
        for direction in ("forward", "backward")
    )
    assert [forward(50257, 4), forward(131072, 4), backward(32768, 4)] == held


LEARNERS_WORDS = 1500


def everything() -> dict:
    """Every part that the pages have, a GPU's and a CPU's."""
    rows = [*(contest_row("fused", cols, cols / 30) for cols in (600, 4096)), contest_row("quack", 600, 31.0)]
    explained = [{key: MISSED[key] for key in contest_report.PLACE} | {"tried": "Tiles.", "profiler": "DRAM."}]
    return {
        "benches": [gpu_bench(), bench([bench_row("numpy", 512, 900.0), bench_row("F.softmax", 512, 99.0)], "cpu-a")],
        "ceilings": [ceilings(provenance={"device": "h200"}, datasheet={"memory_gb_per_s": 4800.0})],
        "allocations": [allocation()],
        "contest": contest(rows, standards=[MISSED]),
        "heads": heads([head_row("eager", 64, 12.0), head_row("linear_softmax", 64, 6.0)]),
        "explained": explained,
    }


MISSED = standard(1, 103.0, 1.03, 1.0)


def findings_of(**parts) -> list[str]:
    return [line for line in report_24(made(**parts)).splitlines() if line.startswith("- **")]


def test_the_report_begins_with_five_sentences_that_follow_from_the_figures():
    asked, found, surprising, unknown, following = findings_of(**everything())
    assert "plain copy" in asked
    assert "on NVIDIA H200, at 512 x 600, `fused` moves its bytes at 1% of the rate of a copy; `naive`" in found
    assert "on A Chip, a copy into a fresh result takes 3.0 times as long" in surprising
    assert "only one was measured" in unknown
    assert "1 of 1 are missed" in following


def test_the_five_sentences_change_with_the_figures():
    quick = findings_of(**everything() | {"allocations": [allocation(fresh_us=21000.0)]})
    assert "nothing that these figures show" in quick[2]
    compiled = gpu_bench()
    compiled["rows"].append(bench_row("compile", 512, 108.0))
    assert "takes 1.20 times as long as `fused`" in findings_of(benches=[compiled])[2]
    assert "no contest on a GPU is here" in findings_of()[3]
    unexplained = findings_of(**everything() | {"explained": ()})
    assert "why 1 of the contest's standards are missed" in unexplained[3]
    assert "why softmax is memory-bound" in findings_of()[4]


def test_a_fresh_result_is_compared_with_a_copy_that_allocates_too():
    text = " ".join(report_24(made(allocations=[allocation()])).split())
    assert "Copying 79 MB takes 20 ms into memory that is there and 60 ms into a fresh result." in text
    assert "F.softmax takes 50 ms with `out=` and 90 ms with a fresh result." in text
    assert "met 10,000 page faults" in text
    assert "which took 4 µs here" in text
    none = " ".join(report_24(made(allocations=[allocation(page_faults=0)])).split())
    assert "Page faults did not slow the fresh copy measurably here." in none


def test_probabilities_of_two_trained_models_are_not_told_as_one():
    other = SWAP | {
        "device": "cpu-a",
        "provenance": SWAP["provenance"] | {"inputs": {"x/minigpt.safetensors": "a" * 64}},
    }
    text = section(report_24(made(swaps=[other, SWAP])), "The kernel swap")
    here, record = text.split("trained for this page")[1].split("The model of the record, trained for a run on A Chip")
    assert here.startswith(f" (checkpoint `{'a' * 12}`): - on cpu-a")
    assert record.startswith(f" (checkpoint `{'b' * 12}`): - on h200")
    assert "do not compare a probability of one with a probability of another" in text
    assert "do not compare a probability" not in section(report_24(made(swaps=[SWAP, SWAP])), "The kernel swap")


def test_the_report_is_short_enough_for_a_learner():
    for language in ("en", "es"):
        assert len(report_24(made(**everything()), language).split()) < LEARNERS_WORDS


def test_no_figure_is_worded_on_both_pages():
    figures = []
    for page in (report_24, contest_24):
        with watched() as written:
            text = page(made(**everything()))
        figures.append(in_prose(text, written))
    assert figures[0] & figures[1] == set()
    assert figures[0]
    assert figures[1]


def test_no_kernel_is_faster_than_another_by_less_than_the_noise():
    bench = gpu_bench(triton_us=90.5)
    bench["rows"].append(bench_row("triton_textbook", 512, 90.0))
    table = report_24(made(benches=[bench])).split("| `triton` |")[1].splitlines()[0]
    assert "0.99, within the noise" in table
    compiled = gpu_bench()
    compiled["rows"].append(bench_row("compile", 512, 90.5))
    surprising = findings_of(benches=[compiled])[2]
    assert "the noise hides any difference" in surprising
    assert "times as long" not in surprising


def test_a_fresh_copy_that_was_not_always_slower_is_no_surprise():
    cost = allocation()
    cost["ways"]["copy"]["samples_us"] = [20000.0, 70000.0]
    assert "a copy into a fresh result takes" not in findings_of(allocations=[cost])[2]
    text = " ".join(report_24(made(allocations=[cost])).split())
    assert "Page faults did not slow the fresh copy measurably here." in text
