"""The report on the head that trains: what its sentences and tables say of made-up artefacts."""

import re

import pytest
from loss_artefact import CPU, TIMED, loss_artefact, verdicts_artefact

from minikernel.report.loss.stage_27 import cases_table, report_27, verdict_view, words
from minikernel.report.loss.views import some, table
from minilab import LabError

STALE = {"from": "results/recorded/h100", "stale": True, "reasons": [{"code": "missing"}]}


def flat(page: str) -> str:
    return " ".join(page.split())


def test_it_says_what_was_found_first():
    page = flat(report_27([loss_artefact()], [verdicts_artefact()]))
    assert (
        "on NVIDIA H100 80GB HBM3: at 65,536 x 64 x 600 in bf16 the lab's operator takes 0.139 ms, 5.76 times as fast"
        in page
    )
    assert "and 2.7% of eager's memory" in page
    assert "on every case `lab`; `eager` has a larger error than it may on 2 and refuses 0" in page
    assert "`torch` has a larger error than it may on 0 and refuses 1" in page
    assert "larger error than bfloat16 asks for, up to 5.1x" in page
    assert page.index("**Found**") < page.index("## The picture")


def test_a_slower_lab_is_not_praised():
    timed = TIMED | {"lab": (1600.0, 900.0, 0.4)}
    page = flat(report_27([loss_artefact(timed)], [verdicts_artefact()]))
    assert "takes 1.6 ms, 2 times eager's time, and 2 times eager's memory" in page
    assert "times as fast as eager" not in page


def test_a_difference_within_the_noise_is_said_to_be_that():
    made = loss_artefact()
    assert "within the noise" not in flat(report_27([made], [verdicts_artefact()]))
    for row in made["rows"]:
        row["noise_floor"] = 4.8  # of 5.76 times as fast
    assert "5.76 times as fast as eager, within the noise, and 2.7%" in flat(report_27([made], [verdicts_artefact()]))


@pytest.mark.parametrize("language", ["en", "es"])
def test_no_figure_is_shown_without_its_verdict(language: str):
    page = report_27([loss_artefact()], [verdicts_artefact()], language)
    lines = [line for line in page.splitlines() if re.match(r"\| `\w+` \| [\d.,]+ \|", line)]
    assert len(lines) == 2 * len(TIMED)
    right = words(language)("right")
    for line in lines:
        over = TIMED[re.match(r"\| `(\w+)`", line)[1]][2]
        assert line.endswith(f"| {right} |" if over <= 1 else "x (dW) |"), line
    assert [re.match(r"\| `(\w+)`", line)[1] for line in lines[:2]] == ["lab", "compile"]  # the fastest first


def test_who_is_missing_is_said_once():
    page = report_27([loss_artefact()], [verdicts_artefact()])
    assert page.count("Without `quack`: quack-kernels is not installed here.") == 1
    assert page.count("- `quack`: quack-kernels is not installed here.") == 1


def test_what_a_peer_raised_is_quoted_once_though_its_memory_moves():
    made = loss_artefact()
    raised = {"code": "raised", "text": "TypeError: no key for <V at 0x7f31> of `x`"}
    for number, one in enumerate(one for one in made["rows"] if one["who"] == "quack"):
        one["refused"] = raised | {"text": raised["text"].replace("0x7f31", f"0x7f3{number}")}
    page = report_27([made], [verdicts_artefact()])
    assert page.count("Without `quack`: it failed with `TypeError: no key for <V> of 'x'`.") == 1


def test_the_table_of_cases():
    lines = cases_table(table(verdicts_artefact()), words("en")).splitlines()
    assert lines[0] == "| case | `eager` | `torch` | `compile` | `lab` |"
    assert lines[2] == "| small logits | bf16 2.3x | right | right | right |"
    assert lines[3] == "| softcap, steep logits | bf16 5.1x | refused | not tried | right |"


def test_a_refusal_keeps_somebody_from_being_right_everywhere():
    assert verdict_view(verdicts_artefact())["right"] == ["lab"]


def test_a_result_that_is_no_number_has_no_factor():
    made = verdicts_artefact()
    made["cases"][0] |= {"error": None, "allowed": 0.0}
    assert "| bf16 no number |" in cases_table(table(made), words("en"))


def test_a_machine_without_a_gpu_says_so_and_a_record_is_named():
    cpu = report_27([loss_artefact(hardware=CPU)], [verdicts_artefact(CPU)])
    assert "how a GPU fares: none is here" in cpu
    both = report_27(
        [loss_artefact(hardware=CPU), loss_artefact() | {"restored": STALE}],
        [verdicts_artefact(CPU), verdicts_artefact()],
    )
    assert "how a GPU fares" not in both
    assert "NVIDIA H100 80GB HBM3 was measured on 2026-11-28; the figures are from the record, *stale*" in both
    assert "AMD EPYC was measured here on 2026-11-28." in both


@pytest.mark.parametrize(
    ("lab", "says"), [((390.0, 400.0), "by time"), ((900.0, 44.0), "by memory"), ((420.0, 46.0), "missed")]
)
def test_on_a_cpu_the_page_says_what_of_the_bar_is_reached(lab: tuple, says: str):
    timed = {"eager": TIMED["eager"], "lab": (*lab, 0.4)}  # of 800 us and 450 MiB
    page = flat(report_27([loss_artefact(timed, CPU)], [verdicts_artefact(CPU)]))
    (bar,) = re.findall(r"The bar on a CPU.*?\. Chunks", page)
    assert says in bar
    assert len(re.findall("reached|missed", bar)) == 2  # a word for each shape
    assert "The bar on a CPU" not in report_27([loss_artefact(timed)], [verdicts_artefact()])


def test_nothing_here_and_nothing_recorded():
    with pytest.raises(LabError, match=r"results/27/README\.md"):
        some([], "results/27/README.md")


@pytest.mark.parametrize("language", ["en", "es"])
def test_it_is_short_enough(language: str):
    full = [loss_artefact(places=((65536, 64, words, "bfloat16") for words in range(600, 610)))]
    page = report_27(full, [verdicts_artefact()], language)
    assert len(re.findall(r"\w+", re.sub(r"^\|.*$", "", page, flags=re.M))) < 900
    assert "\n\n\n" not in page
