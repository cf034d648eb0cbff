"""In Spanish the reports and pictures of stage 24 have the parts that they have in English, and no English sentence."""

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from artefacts import (
    AUTOTUNE,
    SWAP,
    TRAINING,
    allocation,
    bench,
    bench_row,
    ceilings,
    contest,
    contest_row,
    counted,
    cpu_bench,
    gpu_bench,
    head_row,
    heads,
    host_row,
    ladder,
    made,
    standard,
)
from matplotlib.text import Text

from minikernel.exercise.exercises import known_cases
from minikernel.exercise.operations import OPERATIONS
from minikernel.measure.contest.head import head_standards
from minikernel.measure.contest.standards import standards
from minikernel.report import bandwidth_plot, ladder_plot, roofline_plot
from minikernel.report.contest_report import PLACE, explanations
from minikernel.report.exercise_plot import draw_exercise, panel_of
from minikernel.report.exercise_report import ladder as exercise_ladder
from minikernel.report.exercise_report import report, words
from minikernel.report.ladder import ladder as cpu_ladder
from minikernel.report.roofline import panel
from minikernel.report.stage_24 import contest_24, report_24
from minilab.pages.translations import Translations

# Words that every English sentence has one of, and that are not Spanish.
ENGLISH = re.compile(r"\b(an|and|are|at|by|each|from|here|in|is|it|its|not|of|on|than|that|the|to|was|with)\b", re.I)
CHANGED = [{"code": "source_changed", "path": "src/a.py"}, {"code": "parameter_changed", "name": "launches"}]
STALE = {"stale": True, "reasons": CHANGED, "from": "recorded"}
RAISED = {"code": "raised", "text": "`no`"}

ROWS = [
    *(contest_row("fused", cols, cols / 30) for cols in (600, 4096, 50257)),
    *(contest_row("quack", cols, cols / 28) for cols in (600, 4096)),
    contest_row("F.softmax", 600, 30.0),
    contest_row("fused", 600, 40.0, "backward"),
    contest_row("F.softmax", 600, 140.0, "backward"),
]
HEADS = [head_row("eager", 64, 12.0), *(head_row(name, 4096, 20.0) for name in ("eager", "compile", "linear_softmax"))]
HOSTS = [host_row("softmax", 3.0), host_row("F.softmax", 4.0), host_row("softmax", 5.0, requires_grad=True)]
MISSED = [standard(1, 103.0, 1.03, 1.0, cols=cols, within_noise=cols == 600) for cols in (600, 1000)]
UNMEASURED = standard(1, 0.0, 2.0, 1.0, cols=601) | {"ours": None, "ours_us": None, "value": None}
EXPLAINED = [{key: MISSED[0][key] for key in PLACE} | {"tried": "`tried`.", "profiler": "`profiler`."}]
OUT = [
    {
        "part": part,
        "direction": "forward",
        "dtype": "float32",
        "rows": 16384,
        "cols": 600,
        "kernel": "liger",
        "reason": RAISED,
    }
    for part in ("softmax", "host", "head")
]
FULL = contest(ROWS, host=HOSTS, standards=[*MISSED, UNMEASURED], left_out=OUT, complete=False, restored=STALE)
HEAD = heads(HEADS)
MET = contest(ROWS[1:3], standards=[standard(1, 90.0, 0.9, 1.0)], peers={})
PROVEN = {"device": "h200", "executed_by": "cuda", "compiled": True, "reason": None, "cases": [], "kernel": "fused"}
PROVEN |= {"code": {"source": "a/fused.cu"}}
PROOFS = [
    PROVEN | {"cases": [{"dtype": "float32", "max_rel_err": 1e-7}]},
    PROVEN | {"reason": RAISED},
    PROVEN,
    PROVEN | {"compiled": False},
    PROVEN | {"kernel": "loop", "compiled": False, "code": {"source": "a/loop.cpp"}},
]
CPU = bench([bench_row("numpy", 512, 900.0), bench_row("F.softmax", 512, 100.0)], "cpu-a")
TWO_SHAPES = gpu_bench(80.0, stale=True, above_roof=True)
TWO_SHAPES["rows"] += [
    bench_row(name, 4096, us) for name, us in (("fused", 900.0), ("triton", 950.0), ("F.softmax", 99.0))
]
COMPILED = gpu_bench()
COMPILED["rows"].append(bench_row("compile", 512, 108.0))
TUNED = {"choices": [choice | {"rival_us": 8.0, "faster": "fused"} for choice in AUTOTUNE["choices"]]}
SWAPS = [
    SWAP | {"restored": STALE},
    SWAP | {"top1_changed": True, "after": {"top": SWAP["after"]["top"], "all_past_simple": False}},
]
OTHER_MODEL = SWAP | {"provenance": SWAP["provenance"] | {"inputs": {"a/minigpt.safetensors": "a" * 64}}}
SHEET = {"memory_gb_per_s": 4800.0, "fp32_tflop_per_s": 67.0, "tf32_tflop_per_s": 494.0, "bf16_tflop_per_s": 989.0}
RUNGS_RAN_INTO = {
    "uncounted": allocation(rungs=True),
    "counted": counted(allocation(rungs=True)),
    "forbidden": allocation(rungs=True, fresh_us=15000.0)
    | {"counters": dict.fromkeys(("cycles", "cache_misses"), "forbidden"), "threads": 1},
    "left out": allocation(rungs=True) | {"build": {"vector_bytes": 16, "left_out": ["long_vectors", "threads"]}},
    "no compiler": allocation(),
}
WITH_TEXTBOOK = gpu_bench()
WITH_TEXTBOOK["rows"] += [bench_row("warp", 512, 120.0), bench_row("triton_textbook", 512, 120.0)]
REPORTS = {
    "everything": {
        "benches": [TWO_SHAPES | {"restored": STALE, "left_out": [{"kernel": "mine", "reason": RAISED}]}, CPU],
        "ceilings": [ceilings(provenance={"device": "h200"}, datasheet=SHEET)],
        "allocations": [allocation()],
        "autotune": TUNED | {"restored": STALE},
        "swaps": [*SWAPS, OTHER_MODEL],
        "proofs": PROOFS,
        "contest": FULL,
        "heads": HEAD,
        "explained": EXPLAINED,
    },
    "all met": {
        "training": TRAINING | {"excess_percent": -0.5},
        "benches": [gpu_bench(80.0) | {"restored": STALE | {"stale": False}}],
        "allocations": [allocation(page_faults=0)],
        "contest": MET,
    },
    "no contest": {"benches": [gpu_bench(95.0)]},
    **{
        f"rungs: {name}": {"benches": [WITH_TEXTBOOK, cpu_bench()], "allocations": [cost]}
        for name, cost in RUNGS_RAN_INTO.items()
    },
    "compiled": {"benches": [COMPILED]},
    "no GPU": {"benches": [CPU], "autotune": None},
}

NOTHING = {"cases": [], "traffic": [], "timed": []}
WRONG = {
    operation: [
        {"case": case, "rows": 5, "cols": cols, "error": None, "reason": RAISED}
        for cols in (7, 600)
        for case in known_cases(operation)
    ]
    for operation in OPERATIONS
}
PREDICTED = {"reads": 1.0, "writes": 2.0, "megabytes": 19.66, "share_of_copy": 0.5}
MARKS = {
    "fast": ladder(),
    "long rows": ladder(traffic={"reads": 2.0}),
    "operations": ladder(traffic={"reads": 4.0, "writes": 4.0, "operations": {"aten::exp": 1, "aten::div": 2}}),
    "borrowed": ladder(traffic={"operations": {"aten::_softmax": 1}}),
    "uncounted": ladder(traffic=[], timed=[], untimed=RAISED),
    "interpreted": ladder(executed_by="triton-interpreter", timed=[]),
    "far": ladder(timed={"ratio_to_reference": 3.0, "fraction_of_copy": 0.3}),
    "middle": ladder(timed={"ratio_to_reference": 1.3, "fraction_of_copy": 0.7}),
    "near": ladder(timed={"ratio_to_reference": 1.04, "fraction_of_copy": 0.96}),
    "unfilled": ladder(executed_by="cpu", unfilled=True, **NOTHING),
    "ended": ladder(ended=RAISED, **NOTHING),
    "done": ladder(exercise="row", predicted=PREDICTED),
    "unpredicted": ladder(exercise="blocks"),
    "calls": ladder(exercise="blocks", predicted=PREDICTED, traffic={"operations": {"aten::exp": 5}}),
    "tile": ladder(exercise="online", predicted=PREDICTED, traffic={"tile": 8192}),
    "faster": ladder(exercise="machine", predicted=PREDICTED, timed={"ratio_to_reference": 0.4}),
    "within the noise": ladder(exercise="machine", predicted=PREDICTED),
    **{
        f"wrong: {operation}, {row['case']}": ladder(exercise=exercise, cases=[row], traffic=[], timed=[])
        for exercise, operation in (("mine", "softmax"), *((name, name) for name in ("layer_norm", "cross_entropy")))
        for row in WRONG[operation][len(known_cases(operation)) :]
    },
    "wrong": ladder(cases=WRONG["softmax"], traffic=[], timed=[]),
}


def parts(report: str) -> list[str]:
    """What each line that is not running text is: a heading, a row of so many cells, a picture, an item."""
    kinds = [re.match(r"#+ |- |!\[.*\](?P<picture>\(.*\))|\|(?P<row>.*)\|$", line) for line in report.splitlines()]
    return [
        f"{kind['row'].count(' |')} cells" if kind["row"] is not None else kind["picture"] or kind[0]
        for kind in kinds
        if kind
    ]


def english(text: str) -> list[str]:
    """The lines of a text that are English, what stands in `code` left out."""
    return [line for line in re.sub(r"`[^`\n]*`", "", text).splitlines() if ENGLISH.search(line)]


def assert_spanish(in_english: str, in_spanish: str) -> None:
    assert len(english(in_english)) > 5  # the words that English is known by are there
    assert english(in_spanish) == []
    assert parts(in_spanish) == parts(in_english)
    sentences = {line for line in in_english.splitlines() if len(re.findall(r"[A-Za-z]{3,}", line)) > 5}
    same = sentences & set(in_spanish.splitlines())
    assert [line for line in same if not line.startswith("- ") or "python 3" not in line] == []
    assert [row for row in in_spanish.splitlines() if row.startswith("|") and re.search(r"\d\.\d", row)] == []


@pytest.mark.parametrize("page", [report_24, contest_24])
@pytest.mark.parametrize("parts", REPORTS.values(), ids=REPORTS)
def test_the_pages_of_stage_24(parts: dict, page: Callable):
    assert_spanish(page(made(**parts)), page(made(**parts), "es"))


@pytest.mark.parametrize("marks", MARKS.values(), ids=MARKS)
def test_the_report_of_the_exercise(marks: dict):
    assert_spanish(report(marks, "cpu-x", "roofline.png"), report(marks, "cpu-x", "roofline.png", "es"))


def test_the_page_of_all_exercises():
    assert_spanish(exercise_ladder(list(MARKS.values())), exercise_ladder(list(MARKS.values()), "es"))


@pytest.mark.parametrize("group", ["hint", "why", "next", "title", "question"])
def test_what_the_exercises_say_is_told_in_spanish(group: str):
    told = {way: words(way).under(group) for way in ("en", "es")}
    assert told["en"].keys() == told["es"].keys()
    assert [key for key, sentence in told["es"].items() if english(re.sub(r"\{\w+\}", "", sentence))] == []


def test_every_layout_of_fused_says_what_is_new_in_it():
    sources = [files("minikernel.ops") / f"{name}.py" for name in ("softmax_fused", "softmax_cuda_backward")]
    layouts = {name for source in sources for name in re.findall(r'Layout\("(\w+)"', source.read_text())}
    said = Translations("minikernel.report", "report_24").under("layouts").keys()
    assert layouts == set(said)


def test_why_a_standard_is_missed_is_told_in_spanish():
    told = ["\n".join(entry["tried"] + entry["profiler"] for entry in explanations(way)) for way in ("en", "es")]
    assert english(told[0])
    assert english(told[1]) == []


def test_what_each_standard_asks_for_is_told_in_spanish():
    entries = [*standards(FULL | {"rows": [*ROWS, contest_row("triton", 600, 30.0)]}), *head_standards(HEAD)]
    asked = {entry["what"] for entry in entries}
    told = {way: Translations("minikernel.report", "report_24", way).under("standard") for way in ("en", "es")}
    assert len(asked) > 5
    assert asked <= told["en"].keys() == told["es"].keys()
    assert all(told["es"][what] != told["en"][what] for what in asked)
    assert len(set(told["es"].values())) == len(told["es"])


def draw_rooflines(folder: Path, language: str) -> None:
    here = panel(ceilings(datasheet=SHEET), TWO_SHAPES, [512, 600], HEAD)
    cpu = panel(ceilings(), cpu_bench(), [32768, 600])
    restored = panel(ceilings(restored=STALE), gpu_bench() | {"restored": STALE}, [512, 600])
    roofline_plot.draw([here, cpu, restored], folder / "roofline.png", folder / "roofline.svg", language)


def draw_bandwidths(folder: Path, language: str) -> None:
    bandwidth_plot.draw(bandwidth_plot.shares(FULL), folder / "bandwidth.png", folder / "bandwidth.svg", language)


def draw_exercises(folder: Path, language: str) -> None:
    hardware = {"cpu": "A Chip", "gpu": None}
    here = panel_of(bench_row("mine", 4096, 1500.0), ceilings(), "cpu-x", hardware, "2026-11-21")
    draw_exercise([here, here | {"restored": True}], "mine", 4.0, folder / "exercise.png", language)


def draw_ladders(folder: Path, language: str) -> None:
    shown = cpu_ladder(cpu_bench(), counted(allocation(rungs=True)), [32768, 600])
    ladder_plot.draw(shown, folder / "ladder.png", folder / "ladder.svg", language)


@pytest.mark.parametrize("draw", [draw_rooflines, draw_bandwidths, draw_exercises, draw_ladders])
def test_the_pictures(draw: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plt, "close", lambda figure: None)
    texts = {}
    for language in ("en", "es"):
        draw(tmp_path, language)
        texts[language] = {text.get_text() for text in plt.gcf().findobj(Text) if text.get_text()}
    monkeypatch.undo()
    plt.close("all")
    assert english("\n".join(texts["en"]))
    assert english("\n".join(texts["es"])) == []
    sentences = {text for text in texts["en"] & texts["es"] if " " in text}
    assert {text for text in sentences if not re.search(r"\d+ (%|µs|ms|TFLOP/s)$", text)} <= {"LM head"}
    assert [text for text in texts["es"] if re.search(r"\d\.\d", text)] == []
