"""Every number on every page is an artefact's, in both languages: a leaf, or what follows from leaves.

The GPU's artefacts are the record's, a CPU's the same with other figures, so that no page can take one for the other.
What follows from leaves is worked out again beside each page, in `stage_24_pages` and `stage_25_pages`.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory

import front_door
import jinja2
import pytest
import stage_24_pages as stage_24
import stage_25_pages as stage_25
import stage_26_pages as stage_26
import stage_27_pages as stage_27
import yaml
from numbers_of_a_page import SPELLED, TAG, Figure, Source, strangers, unwritten, watched
from recorded_pages import CPU, GPU, Page, elsewhere, recorded
from training_artefact import training_artefact

from docs.build import concept_pages
from minicompile.report import profile_report, survey, training_report
from minikernel.report import findings
from minikernel.report import stage_24 as stage_24_report
from minikernel.report.model.training import training_view
from minilab.pages.translations import LANGUAGES, flattened, number

ROOT = Path(__file__).parents[1]


def lab_page() -> Page:
    """The front door of a small lab; the reports that it holds are pages of their own."""

    def write(language: str) -> str:
        with TemporaryDirectory() as folder:
            Path(folder, "bench.tsv").write_text("s\th:m:s\tmax_rss\n123.4\t0:02:03\t1234.5\n")
            html = front_door.make_page(Path(folder), language, benchmark="bench.tsv").read_text()
        html = re.sub(r"<(style|script|svg|template|title)\b.*?</\1>|<code>.*?</code>", "", html, flags=re.S)
        html = re.sub(r'<a class="file".*?</a>|<span class="note path">.*?</span>', "", html, flags=re.S)
        return unescape(re.sub(r"<[^>]*>", "", re.sub(r"</?(?:tr|td|li|p|h\d|span|dd|summary)\b[^>]*>", "\n\n", html)))

    made = [(rule, path, status) for path, rule, _, status, _ in front_door.LINES]
    stages = Counter(rule.stage for rule in front_door.RULES)
    jobs = Counter(rule for rule, *_ in made)
    derived = {
        "files made here, restored, out of date, missing": [len(made) - 3, 1, 1, 1],
        "files of a stage": Counter(
            {rule.name: rule.stage for rule in front_door.RULES}[rule] for rule, *_ in made
        ).values(),
        "rules of a stage": stages.values(),
        "jobs of a rule": jobs.values(),
        "files of code and words": [1],
        "a benchmark: minutes and seconds, or GB": [2, 3, 1.2345e9],
        "both benchmarks of a rule": [4, 7],
    }
    return Page(write, [Source([], derived=derived)], ("Stage 24", "Stage 25", "Etapa 24", "Etapa 25"))


def concept_page(name: str) -> Page:
    """A page of docs/concepts, in English; on the compiler it quotes the capture that tests keep."""
    config = concept_pages.read_config(ROOT / "config.yaml")
    capture = json.loads((ROOT / "tests/minicompile/data/tiny_head_capture_simulated.json").read_text())
    facts = concept_pages.facts(ROOT / "results/recorded/h200/24", config, capture)
    # made up as long as none has been recorded: the page has no figures then
    facts["training"] = facts["training"] or training_view(training_artefact())
    sources = [
        *(Source(recorded(f"24/{file}.json")) for file in ("bench", "ceilings", "autotune", "kernel_swap")),
        Source(
            [facts["floats"], facts["compiler"], facts["ladder"], config["equivalence"]],
            derived=stage_24.concepts_derived(facts),
        ),
        Source([], derived=stage_26.concept_derived(facts)),
        Source([], derived=stage_26.concept_of_a_step_derived(facts)),
        Source([], derived=stage_27.concept_derived(facts)),
    ]
    return Page(lambda language: concept_pages.page(name, facts), sources)


PAGES: dict[str, Callable[[], Page]] = {
    "24/README": stage_24.report_24_page,
    "24/CONTEST": stage_24.contest_24_page,
    "exercise": stage_24.exercise_page,
    "25/REPORT": stage_25.report_page,
    "25/DISTRIBUTED": stage_25.survey_page,
    "25/DISTRIBUTED/4": stage_25.survey_of_four,
    "25/GEMV": stage_25.gemv_page,
    "25/tiny_head/PROFILE": partial(stage_25.profile_of, "tiny_head"),
    "25/minigpt/PROFILE": partial(stage_25.profile_of, "minigpt"),
    "25/safety": stage_25.training_of,
    "26/README": stage_26.report_26_page,
    "27/README": stage_27.report_27_page,
    "PHASE_24_REPORT": stage_25.phase_24,
    "PHASE_25_REPORT": stage_25.phase_25,
    "lab.html": lab_page,
    **{f"docs/{name}": partial(concept_page, name) for name in concept_pages.PAGES},
}
DOC_WORDS = {
    "docs/cpu_ladder": ("under 60 lines", "--cores 4 ", "results/24/", "for 4, 8 or 16 elements", "= 2ⁿ", "x / ln 2"),
    "docs/reducing_a_row": ("32 bytes", "16 bytes"),
    "docs/floating_point": ("Between 1 and 2", "times 0.1"),
    "docs/inductor": ("--cores 4\n", "results/25/"),
    "docs/reading_kernels": ("0 for a sum", "above 0"),
    "docs/a_training_step": ("of 2 and 3", "[(300, 64, 16), (1000, 8, 128)]", "--cores 4 ", "results/26/"),
    "docs/one_kernel": ("other 16 bytes", "--cores 4 ", "results/26/", "hold 11 bits"),
}
EVERY = [
    pytest.param(name, language, id=f"{name}-{language}")
    for name in PAGES
    for language in LANGUAGES
    if language == "en" or not name.startswith("docs/")
]
OF_TWO_DEVICES = ("24/README", "24/CONTEST", "25/REPORT", "25/DISTRIBUTED", "25/safety")


@cache
def page(name: str) -> Page:
    return PAGES[name]()


@cache
def written(name: str, language: str = "en") -> tuple[str, list[Figure]]:
    with watched() as figures:
        text = page(name).write(language)
    return text, figures


def spelled(name: str) -> tuple[str, ...]:
    return (*SPELLED, *page(name).spelled, *DOC_WORDS.get(name, ()))


@pytest.mark.parametrize(("name", "language"), EVERY)
def test_every_number_of_a_page_comes_from_an_artefact(name, language):
    text, figures = written(name, language)
    assert figures
    assert strangers(text, figures, page(name).sources) == []
    assert unwritten(text, spelled(name), page(name).sources) == []


CODE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", re.S)
UNREADABLE = re.compile(r"\d[eE]\+\d+|(?<![\d\w])-0(?:[.,]0*)?(?![\d.,])")  # 1.46e+03, -0.00
TRACES = re.compile(
    r"\bNone\b|\bnan\b|\{[{%#]|[%#}]\}|(?<=\w) +[,;:.](?= |$)|[,;:]{2,}|(?<!\.)\.\.(?!\.)|\( | \)", re.M
)
ENGLISH = re.compile(r"\b(?:the|of|which|from|than|with|was|were|takes)\b")


def read(name: str, language: str) -> str:
    """A page as it is read: its numbers without marks, its code and addresses as `x`."""
    text, figures = written(name, language)
    return CODE.sub("x", TAG.sub(lambda tag: figures[int(tag[1])].text, text))


@pytest.mark.parametrize(("name", "language"), EVERY)
def test_no_number_has_an_exponent_where_it_is_large_or_a_sign_where_it_is_none(name, language):
    assert UNREADABLE.findall(read(name, language)) == []


@pytest.mark.parametrize(("name", "language"), EVERY)
def test_no_page_shows_a_trace_of_its_template(name, language):
    if not name.startswith("docs/") and name != "lab.html":  # this one has lost its marks of HTML
        assert TRACES.findall(read(name, language)) == []


@pytest.mark.parametrize("name", [name for name in PAGES if not name.startswith("docs/")])
def test_no_sentence_of_a_spanish_page_is_english(name):
    prose = [line for line in read(name, "es").splitlines() if not line.lstrip().startswith("|")]
    assert [line for line in prose if len(ENGLISH.findall(line)) > 1] == []


def test_the_checks_of_words_see_what_they_look_for():
    assert len(UNREADABLE.findall("| 1.46e+03 | -0.00% | -0,0 |")) == 3
    assert UNREADABLE.findall("1.2e-06 and -0.05, -1.0, 2-0") == []
    assert len(TRACES.findall("takes None s , it ( is ) .. {{ x")) == 6
    assert TRACES.findall("at 0.5 s, and so on... (3 x 4); 1:2") == []


@pytest.mark.parametrize("name", PAGES)
def test_a_figure_that_is_off_by_a_thousandth_is_found(name):
    off = 1.001003  # by a round thousandth, a number of few digits could become another leaf of few digits
    fractions, found = _found_of_fractions(name, lambda value: off * value)
    assert found >= 0.99 * fractions  # by chance it can be that of another leaf


@pytest.mark.parametrize("name", PAGES)
def test_a_figure_that_is_upside_down_is_found(name):
    fractions, found = _found_of_fractions(name, lambda value: 1 / value)
    assert found >= 0.85 * fractions  # the others are said both ways round on their page


def _found_of_fractions(name: str, wrong: Callable[[float], float]) -> tuple[int, int]:
    """How many fractions a page shows, and how many are found if all are wrong; of whole numbers none is changed."""
    text, figures = written(name)
    fractions = sum(figures[int(tag[1])].value % 1 > 0 for tag in TAG.finditer(text))
    changed = [one._replace(value=wrong(one.value)) if one.value % 1 else one for one in figures]
    return fractions, len(strangers(text, changed, page(name).sources))


@pytest.mark.parametrize("name", OF_TWO_DEVICES)
def test_a_figure_of_another_device_is_found(name):
    exchanged = {**dict.fromkeys(GPU, CPU), **dict.fromkeys(CPU, GPU)}
    sources = [
        replace(one, names={**one.names, "device": exchanged[one.names["device"][0]]}) if "device" in one.names else one
        for one in page(name).sources
    ]
    assert len(strangers(*written(name), sources)) >= 20


@pytest.mark.parametrize(
    ("value", "shown", "right"),
    [
        (5.0, "{} µs", True),
        (5.0, "{} ms", False),
        (0.005, "{} ms", True),
        (5.0, "| {} |", True),
        (0.005, "| {} |", False),
    ],
)
def test_a_unit_that_is_not_the_leafs_is_found(value, shown, right):
    with watched() as figures:
        text = shown.format(number("en", value))
    assert (strangers(text, figures, [Source({"median_us": 5.0})]) == []) == right


def with_template(monkeypatch, name: str, old: str, new: str) -> None:
    """Have a template say something else."""
    plain = jinja2.PackageLoader.get_source

    def get_source(self, environment, template):
        text, *rest = plain(self, environment, template)
        assert template != name or old in text
        return text.replace(old, new) if template == name else text, *rest

    monkeypatch.setattr(jinja2.PackageLoader, "get_source", get_source)


TYPED = [
    ("24/README", "report_24.md", "The model ends", "It is 42 % faster. The model ends"),
    ("25/DISTRIBUTED", "survey_25.md", "How to read it:", "DDP is 1.9 times as fast. How to read it:"),
    ("25/REPORT", "overview_sentences.md", "**Fusion.**", "**Fusion.** It saves 12 kB."),
]


@pytest.mark.parametrize(("name", "template", "old", "new"), TYPED)
def test_a_number_that_is_typed_into_a_template_is_found(name, template, old, new, monkeypatch):
    with_template(monkeypatch, template, old, new)
    text, _ = written.__wrapped__(name)
    assert unwritten(text, spelled(name), page(name).sources) == re.findall(r"[\d.]*\d", new)


def test_a_number_that_a_template_makes_up_is_found(monkeypatch):
    with_template(monkeypatch, "report_24.md", "{{ far }} %", '{{ number(1.0312, ".2f") }} %')
    assert [found[:4] for found in strangers(*written.__wrapped__("24/README"), page("24/README").sources)] == ["1.03"]


def upside_down(compute: Callable, field: str) -> Callable:
    """The function, with a field of its finding, or of each of its findings, the other way round."""

    def turned(*arguments):
        found = compute(*arguments)
        for one in found if isinstance(found, list) else [found]:
            if one.get(field):
                one[field] = 1 / one[field]
        return found

    return turned


@pytest.mark.parametrize(
    ("name", "module", "function", "field"),
    [
        ("24/README", stage_24_report, "steps", "factor"),
        ("24/README", findings, "_surprising", "ratio"),
        ("24/README", findings, "_found", "share"),
        ("25/minigpt/PROFILE", profile_report, "_speed", "factor"),
        ("25/tiny_head/PROFILE", profile_report, "_speed", "factor"),
        ("25/REPORT", profile_report, "_speed", "factor"),
        ("25/safety", training_report, "_speed", "factor"),
        ("25/DISTRIBUTED", survey, "pipeline", "longest"),
        ("25/DISTRIBUTED", survey, "pipeline", "bound"),
        ("25/DISTRIBUTED/4", survey, "factors", "product"),
        ("25/DISTRIBUTED/4", survey, "_side", "holds"),
    ],
)
def test_a_ratio_that_is_computed_upside_down_is_found(name, module, function, field, monkeypatch):
    monkeypatch.setattr(module, function, upside_down(getattr(module, function), field))
    assert strangers(*written.__wrapped__(name), page(name).sources)


def test_a_speed_against_another_devices_process_is_found(monkeypatch):
    other = survey.grouped(elsewhere(recorded("25/distributed.json")))[0].single

    def times(group, pattern):
        return group.runs[pattern]["tokens_per_s"] / other["tokens_per_s"]

    monkeypatch.setattr(survey.Group, "times", times)
    assert strangers(*written.__wrapped__("25/DISTRIBUTED"), page("25/DISTRIBUTED").sources)


JINJA = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.S)
REPORTS = [*(ROOT / "src").rglob("report/templates/*.md")]
LABELS = [*(path for path in (ROOT / "src").rglob("report/locale/*/*.yaml") if path.stem != "exercise")]
TERMS = ("1/N", "20 to 80 %", "20 a 80 %", "SHA-256")


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.name)
def test_no_branch_of_a_template_has_a_typed_number(path):
    assert unwritten(JINJA.sub("", path.read_text()), (*SPELLED, *TERMS)) == []


@pytest.mark.parametrize("path", LABELS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_label_of_a_report_has_a_typed_number(path):
    for key, said in flattened(yaml.safe_load(path.read_text())).items():
        for sentence in said.values() if isinstance(said, dict) else [str(said)]:
            assert unwritten(re.sub(r"\{[^{}]*\}", "", sentence), (*SPELLED, *TERMS)) == [], key
