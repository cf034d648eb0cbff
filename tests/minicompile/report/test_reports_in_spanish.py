"""Stage 25's reports, pictures and explorer say in Spanish all that they say in English, and leave nothing of it."""

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import jinja2
import pytest
from annotation_models import CAPTURED, load
from distributed_artefact import artefact
from explored import profile_of, tiny_head, tiny_head_simulated, with_backward
from jinja2 import nodes
from matplotlib.figure import Figure
from matplotlib.text import Text
from profile_artefact import profile
from stage_25_artefacts import RESTORED, compared, health, training

from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.capture_diff import diff_compiles
from minicompile.explain.capture_diff_text import described
from minicompile.explain.explorer import render_explorer
from minicompile.explain.explorer.payload import payload
from minicompile.explain.wording import Wording, target_of
from minicompile.report import profile_roofline as roofline
from minicompile.report import survey_plot
from minicompile.report import training_plot as plot
from minicompile.report.phase_reports import checks_24, checks_25, phase_report
from minicompile.report.profile_report import report
from minicompile.report.safety_report import safety_entries, safety_section
from minicompile.report.stage_25 import manifest_25, report_25
from minicompile.report.survey import survey
from minilab.pages.templates import twin
from minilab.pages.translations import LANGUAGES, Translations
from minimodel.model_config import MiniGPTConfig

SOURCES = Path(survey_plot.__file__).parents[1]
TEMPLATES = {path.stem: path for path in sorted(SOURCES.rglob("templates/*.md")) if "." not in path.stem}
OTHERS = [language for language in LANGUAGES if language != "en"]
NOT_WORDS = re.compile(r"`[^`]*`|\]\([^)]*\)|\([^)]*\)|\S*[\d_./=:+*\[\]]\S*")
WORDS = re.compile(r"(?<!\S)[a-záéíóúñüA-Z][a-záéíóúñü]*[,;.:]?(?!\S)")
TRAININGS = [training(), training(speedup=1.0), training(speedup=0.5), training(compiled=False)]
FAILURES = [
    {"code": "raised", "exception": "RuntimeError", "message": ""},
    {"code": "never_compiled"},
    {"code": "nothing_compiled"},
    {"code": "other_rank", "rank": 1, "failure": {"code": "nothing_compiled"}},
    {"code": "time_limit", "seconds": 30.0},
    {"code": "one_side_only", "kind": "gradient", "tensor": "a.weight"},
    {"code": "other_shape", "tensor": "output", "compiled": "torch.float32 [2]", "eager": "torch.float32 [3]"},
    {"code": "unequal", "tensor": "output", "dtype": "torch.int64"},
    {"code": "not_finite", "tensor": "output"},
    {"code": "too_far", "tensor": "output", "relative": 0.01, "allowed": 1e-4},
]
COMPLAINTS = [
    {"code": "graph_break", "reason": "X"},
    {"code": "recompile", "guard": "X"},
    {"code": "cache_limit", "function": "f", "limit": "recompile_limit", "value": 8, "guard": "X"},
    *({"code": "not_compiled", "stage": "forward", "failure": failure} for failure in FAILURES),
]
HEALTH = [health("mlp", []), health("odd", COMPLAINTS)]


PORT = {
    "byte_equal": True,
    "arrays": [{"numpy_name": "a", "torch_name": "b", "shape": [2, 3], "byte_equal": True}],
}


def prose(text: str) -> set[str]:
    """The lines that say something to a reader: three words or more that are no names; a kernel's code aside."""
    text = re.sub(
        r"^```.*?^```$", lambda code: "\n".join(re.findall(r"^\s*(?:#|//) .*", code[0], re.M)), text, flags=re.M | re.S
    )
    return {line for line in text.splitlines() if len(WORDS.findall(NOT_WORDS.sub(" ", line))) >= 3}


def captured(target: str) -> dict:
    made = load("tiny_head", target)
    provenance = {"device": made["target"]["device"], "date": "2026-11-21T00:00:00+00:00", "versions": {}}
    return {**made, "provenance": provenance}


def stale_profile() -> dict:
    changed = profile()
    changed["restored"] = RESTORED
    changed["timings"][0]["recompiles"] = 1
    return changed


def phases(language: str) -> str:
    captures = [("tiny_head/cpu", captured("cpu"))]
    manifest = manifest_25(1, captures, [profile()], {}) | safety_entries(HEALTH, [])
    timed = {"frac_of_F_softmax": 1.2, "noise_floor": 0.03, "autotune_picked": {"BLOCK": 512}}
    first = {
        "torch_port": {
            "byte_equivalence_at_fp32_cpu": "passed",
            "max_abs_diff_to_numpy_reference": 1e-6,
            "kernel_swap_changes_top1_token": False,
        },
        "softmax_kernels": {"triton": timed},
        "gpu": {"model": "NVIDIA H200"},
        "device": "h200",
        "restored": {"stale": True},
    }
    untimed = {**first, "softmax_kernels": {}, "restored": None}
    level = {**first, "softmax_kernels": {"triton": {**timed, "frac_of_F_softmax": 1.01}}, "restored": None}
    nothing = {"compile_match": [], "captures": [], "compile_health": []}
    checks = [
        *checks_24(first, {"excess_percent": 1.5}, PORT, language),
        *checks_24(untimed, {"excess_percent": 1.5}, PORT, language),
        *checks_24(level, {"excess_percent": 1.5}, PORT, language),
        *checks_25(manifest, [artefact()], language),
        *checks_25(nothing, [], language),
    ]
    return phase_report(
        25, Translations("minicompile.report", "phases", language)("25.title"), checks, {}, {}, language
    )


def full_report(language: str) -> str:
    captures = [(f"tiny_head/{target}", captured(target)) for target in ("cpu", "simulated")]
    safety = safety_section(HEALTH, [("minigpt/cpu", made) for made in TRAININGS], language)
    return report_25(
        captures, [("tiny_head/cpu", stale_profile())], [artefact()], safety, [compared()], language, HEALTH
    )


def survey_of_all(language: str) -> str:
    restored, short = artefact("h200", (2, 4), ("float32", "bfloat16")), artefact()
    restored["restored"] = RESTORED
    short["left_out"] = [{"code": "too_few_gpus", "ranks": 4, "here": 2}]
    return survey([restored, short, artefact("h200")], MiniGPTConfig(vocab_size=600, block_size=128), language)


REPORTS: dict[str, Callable[[str], str]] = {
    "report": full_report,
    "nothing_ran": lambda language: report_25([], [], [], safety_section([], [], language), [], language),
    "profile": lambda language: report(stale_profile(), language),
    "survey": survey_of_all,
    "phases": phases,
    "diff": lambda language: described(
        diff_compiles(load("tiny_head", "cpu"), load("tiny_head", "simulated")), language
    ),
    "other_models": lambda language: described(
        diff_compiles(load("chain", "cpu"), load("layer_norm", "cpu")), language
    ),
    **{
        f"annotation_{name}_{target}": lambda language, name=name, target=target: annotate(load(name, target), language)
        for name, targets in CAPTURED.items()
        for target in targets
    },
}


@pytest.mark.parametrize("name", REPORTS)
def test_no_sentence_of_a_report_is_left_in_english(name: str):
    english, spanish = (prose(REPORTS[name](language)) for language in ("en", "es"))
    assert len(spanish) > 1
    assert english & spanish == set()


def drawn_texts(monkeypatch: pytest.MonkeyPatch, draw: Callable[[], None]) -> set[str]:
    """All texts of the picture that `draw` saves."""
    found: set[str] = set()
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *_, **__: found.update(text.get_text() for text in self.findobj(Text))
    )
    draw()
    return {text for text in found if re.search(r"[a-záéíóúñ]{3}", text) and "$" not in text}


NAMES = {"NumPy", "0  softmax", "1  clone"}
PICTURES: dict[str, Callable[[str], None]] = {
    "profile": lambda language: roofline.draw(stale_profile(), "none.png", language),
    "survey": lambda language: survey_plot.draw([artefact()], "none.png", language),
    "training": lambda language: plot.draw(training(), "none.png", language),
}


@pytest.mark.parametrize("name", PICTURES)
def test_no_words_of_a_picture_are_left_in_english(name: str, monkeypatch: pytest.MonkeyPatch):
    english, spanish = (
        drawn_texts(monkeypatch, lambda language=language: PICTURES[name](language)) for language in ("en", "es")
    )
    assert len(english) == len(spanish) > 3
    assert english & spanish <= NAMES


# -- templates ------------------------------------------------------------------------------------------------------


def structure(template: str) -> Counter:
    """What a template asks for: its conditions, loops and figures, however often each; its words are left out."""
    tree = jinja2.Environment().parse(template)
    for constant in tree.find_all(nodes.Const):
        constant.value = "words" if isinstance(constant.value, str) and " " in constant.value else constant.value
    return Counter(_asked(tree))


def _asked(tree: nodes.Node) -> Iterator[str]:
    for node in tree.find_all(
        (nodes.Getattr, nodes.Getitem, nodes.Filter, nodes.Call, nodes.Test, nodes.For, nodes.If)
    ):
        if isinstance(node, nodes.If):
            yield f"if {node.test!r}"
        elif isinstance(node, nodes.For):
            yield f"for {node.target!r} in {node.iter!r}"
        else:
            yield repr(node)


def skeleton(template: str) -> list[str]:
    """A template's headings, pictures, lists and columns of tables, in order, without their words."""
    found = re.findall(r"^(#+ |!\[|- |\|.*\|$)|^(```)", template, re.M)
    return [re.sub(r"[^|]", "", first) or first + second for first, second in found]


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("page", TEMPLATES)
def test_a_template_asks_for_the_same_in_every_language(page: str, language: str):
    english, other = (TEMPLATES[page].with_name(twin(each, page)).read_text() for each in ("en", language))
    assert structure(other) == structure(english)
    assert skeleton(other) == skeleton(english)


def test_every_template_is_known():
    assert len(TEMPLATES) * len(LANGUAGES) == len(list(SOURCES.rglob("templates/*.md")))
    assert {"report_25", "survey_25", "profile_sentences", "kernel_annotation"} <= set(TEMPLATES)


# -- what artefacts say ---------------------------------------------------------------------------------------------


SECTIONS = ("target", "fusion", "why", "pane", "environment", "fate", "direction")


@pytest.mark.parametrize("section", SECTIONS)
def test_each_code_of_a_capture_has_a_sentence_of_its_own_in_every_language(section: str):
    english, spanish = (
        Translations("minicompile.explain", "capture", language).under(section) for language in ("en", "es")
    )
    assert english.keys() == spanish.keys()
    for sentences in (english, spanish):
        assert len(set(sentences.values())) == len(sentences)
    named = {"own_words", "restored", "stale", "cuda", "ttir", "ptx", "sass"}  # mostly fields, and technical words
    assert {key for key in english if english[key] == spanish[key]} <= named


def test_a_restored_capture_says_of_what_day_it_is():
    target = {"kind": "cuda", "device": "h200", "gpu": "NVIDIA H200", "simulated": False}
    capture = {"target": target, "provenance": {"date": "2026-11-21T00:00:00+00:00"}}
    for stale, end in ((False, ""), (True, ", caduco")):
        restored = {**capture, "restored": {"stale": stale}}
        assert Wording("es").label(restored) == f"Triton para NVIDIA H200, capturado el 2026-11-21{end}"
    assert Wording("es").label(capture) == "Triton para NVIDIA H200"
    assert target_of(capture) == {"code": "cuda", "gpu": "NVIDIA H200"}
    beside = {**capture, "graphs": [{"kernels": [{"language": one} for one in ("triton", "cpp")]}]}
    assert Wording("es").label(beside) == "Triton para NVIDIA H200, y C++ para la CPU que la acompaña"


def test_what_a_sentence_names_is_kept():
    quoted = {"code": "own_words", "reason": "(a|b)"}
    assert Wording("es").fusion(quoted) != Wording("en").fusion(quoted)
    assert "(a|b)" in Wording("es").fusion(quoted)
    differs = {"code": "both_operations", "simulated": {"aten.a": 1, "aten.b": 2}, "real": {"aten.c": 3}}
    assert "1 x aten.a, 2 x aten.b" in Wording("es").difference(differs)


# -- the explorer ---------------------------------------------------------------------------------------------------


def test_the_explorer_speaks_spanish(tmp_path: Path):
    captures = [tiny_head(), tiny_head_simulated()]
    for language in LANGUAGES:
        render_explorer(captures, tmp_path / language, profile=[profile_of(captures[0]), None], language=language)
    english, spanish = ((tmp_path / language).read_text().split('id="data"')[0] for language in ("en", "es"))
    assert '<html lang="es">' in spanish
    shown = [
        set(re.findall(r">([^<>]{4,})<|(?:label|placeholder)=\"([^\"]+)\"", page.split("</style>")[1]))
        for page in (english, spanish)
    ]
    assert [pair for pair in shown[0] & shown[1] if WORDS.search("".join(pair))] == [("Enter", "")]


def test_the_tour_and_the_panes_are_told_in_spanish():
    captures = [with_backward(tiny_head()), tiny_head_simulated()]
    english, spanish = (payload(copy.deepcopy(captures), [None, None], language) for language in ("en", "es"))
    for first, second in zip(english["tour"], spanish["tour"], strict=True):
        assert (first["pane"], first["line"]) == (second["pane"], second["line"])
        assert first["title"] != second["title"]
        assert first["text"] != second["text"]
    for first, second in zip(english["captures"], spanish["captures"], strict=True):
        assert first["target"]["label"] != second["target"]["label"]
        same = {pane["title"] for pane in first["panes"]} & {pane["title"] for pane in second["panes"]}
        assert all(title.endswith(".py") for title in same)


def test_the_pages_program_asks_for_words_that_are_there():
    words = Translations("minicompile.explain", "explorer").under("program")
    program = "".join(path.read_text() for path in SOURCES.rglob("explorer/page/*.js"))
    keys = re.findall(r"\bsay\((?:[^()\"`]* \? )?\"([^\"]+)\"(?: : \"([^\"]+)\")?", program)
    asked = {key for pair in keys for key in pair if key} | {
        f"count.{what}" for what in re.findall(r"count(?:ed)?\([^\n]*?, \"(\w+)\"\)", program)
    }
    families = set(re.findall(r"say\(`([\w.]+)\.\$", program))
    assert asked <= set(words)
    assert {key for key in words if not key.startswith(tuple(f"{family}." for family in families))} <= asked | {
        "dark",
        "stops.next",
        "hide",
    }
