"""The lab's front door: what Snakemake says, where results come from, what the page makes of it."""

import json
import re
from pathlib import Path

import pytest
from front_door import CHANGED, LINES, RULES, SUMMARY, make_files, make_page, reports_of, rule

from minilab import LabError
from minilab.pages.translations import Translations
from minilab.records.store import content_sha256
from minilab.site.account import Job, jobs_of, match, read_summary
from minilab.site.contents import WIDTH, packed_json, readdressed, report_html, thumbnail
from minilab.site.states import state_of
from minilab.site.views import memory

ROOT = Path(__file__).parents[3]
# Bytes that the page may take for what it shows; what was measured where this was written is in brackets.
SMALL_LAB = 56_000  # (52,334) ten rules, fifteen files, four reports, one picture; 23,000 are style and program
PICTURE = 34_000  # (32,519) of the largest picture that a record holds
REPORTS = 0.5  # (0.43) of the HTML of the concept pages
JOB, FILE = 160, 4  # beside the paths, and what is said of a job (119, 3.1)
NOT_OF_24 = [
    "results/25/tiny/h200/KERNEL_ANNOTATION.md",
    "results/25/tiny/cpu/KERNEL_ANNOTATION.md",
    "results/25/minigpt/cpu/explorer.html",
]


@pytest.fixture
def jobs(tmp_path, monkeypatch) -> dict[str, Job]:
    """The jobs by their first output, their files under the working directory."""
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return {job.outputs[0].path: job for job in jobs_of(read_summary(SUMMARY), RULES)}


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    return make_page(tmp_path_factory.mktemp("lab")).read_text()


def section(page: str, rule: str) -> str:
    return re.search(rf'<details class="rule" id="rule-{rule}">.*?</details>', page, re.S)[0]


def test_outputs_that_share_rule_and_wildcards_are_one_job_and_makers_come_first(jobs):
    assert [job.rule.name for job in jobs.values()] == [
        "annotate",
        "annotate",
        "explorer",
        "bench",
        "restore",
        "lost",
        "roofline",
        "report_24",
    ]
    assert [output.path for output in jobs["results/24/README.md"].outputs] == [LINES[0][0], LINES[1][0]]
    assert jobs["results/24/h200/bench.json"].wildcards == {"device": "h200", "artefact": "bench"}


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("results/{a}/x.json", "results/1/x.json", {"a": "1"}),
        ("results/{a}/x.json", "results/1/2/x.json", None),
        ("{a}/{a}.json", "1/1.json", {"a": "1"}),
        ("{a}/{a}.json", "1/2.json", None),
        ("a.json", "abjson", None),
        ("plain.json", "plain.json", {}),
    ],
)
def test_a_pattern_gives_its_wildcards_or_does_not_match(pattern, path, found):
    assert match(pattern, path) == found


def test_the_benchmark_is_that_of_the_jobs_own_wildcards():
    made = rule("prove", "results/{device}/{kernel}.json")
    made = type(made)(**{**vars(made), "benchmark": "logs/{device}/{kernel}.tsv"})
    assert Job(made, {"device": "cpu", "kernel": "mine"}, ()).benchmark == "logs/cpu/mine.tsv"


def test_each_result_says_where_it_comes_from(jobs):
    kinds = {path: state_of(job).kind for path, job in jobs.items()}
    assert kinds == {
        **dict.fromkeys(NOT_OF_24, "built"),
        "results/24/cpu/bench.json": "built",
        "results/24/h200/bench.json": "stale",
        "results/24/lost.json": "missing",
        "results/24/roofline.png": "outdated",
        "results/24/README.md": "built",
    }


def test_a_record_gives_its_device_its_date_and_why_it_is_stale(jobs, tmp_path):
    state = state_of(jobs["results/24/h200/bench.json"])
    assert (state.device, state.date, state.reasons) == ("h200", "2026-11-20", (CHANGED,))
    artefact = json.loads((tmp_path / "results/24/h200/bench.json").read_text())
    artefact["restored"] |= {"stale": False, "reasons": []}
    artefact["provenance"]["content_sha256"] = content_sha256(artefact)
    (tmp_path / "results/24/h200/bench.json").write_text(json.dumps(artefact))
    assert state_of(jobs["results/24/h200/bench.json"]).kind == "restored"


@pytest.mark.parametrize("content", ["[]", '{"restored": 1}', '{"restored": {"stale": 1}, "provenance": null}'])
def test_a_restored_file_that_is_damaged_is_refused_in_a_sentence(jobs, tmp_path, content):
    (tmp_path / "results/24/h200/bench.json").write_text(content)
    with pytest.raises(LabError, match=r"results/24/h200/bench\.json.*build it again with"):
        state_of(jobs["results/24/h200/bench.json"])


@pytest.mark.parametrize("content", ["", "s\n", "s\tmax_rss\n1.5\n", "s\tmax_rss\nx\t2\n"])
def test_a_benchmark_that_is_cut_short_gives_no_figures(jobs, tmp_path, content):
    job = jobs["results/24/cpu/bench.json"]
    timed = type(job.rule)(**{**vars(job.rule), "benchmark": "logs/bench.tsv"})
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/bench.tsv").write_text(content)
    state = state_of(Job(timed, {}, job.outputs))
    assert state.megabytes is None


def test_snakemakes_own_reason_is_told(jobs):
    assert state_of(jobs["results/24/roofline.png"]).reasons == ("params changed",)


@pytest.mark.parametrize(("seconds", "megabytes"), [("0.4", None), ("62.7", 178.2)])
def test_memory_of_a_job_too_short_to_be_sampled_is_not_told(jobs, tmp_path, seconds, megabytes):
    job = jobs["results/24/cpu/bench.json"]
    timed = type(job.rule)(**{**vars(job.rule), "benchmark": "logs/bench.tsv"})
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/bench.tsv").write_text(f"s\th:m:s\tmax_rss\n{seconds}\t0:00:00\t178.2\n")
    state = state_of(Job(timed, {}, job.outputs))
    assert (state.seconds, state.megabytes) == (float(seconds), megabytes)


def test_sampled_memory_is_told_as_the_least_that_a_job_took():
    said = [memory(megabytes, Translations("minilab", "lab", "en")) for megabytes in (78.6, 1299.0, None)]
    assert said == ["at least 78 MB", "at least 1.2 GB", "–"]
    assert memory(1299.0, Translations("minilab", "lab", "es")) == "al menos 1,2 GB"


@pytest.mark.parametrize(
    ("address", "as_moved"),
    [
        ("roofline.png", "24/roofline.png"),
        ("../25/REPORT.md#speed", "25/REPORT.md#speed"),
        ("../../config.yaml", "../config.yaml"),
        ("https://pytorch.org/x", "https://pytorch.org/x"),
        ("#here", "#here"),
    ],
)
def test_a_reports_links_hold_from_the_page(address, as_moved):
    assert readdressed(address, "results/24/README.md", "results/lab.html") == as_moved


def test_thumbnails_are_small_and_keep_their_shape(jobs):
    source, width, height = thumbnail("results/24/roofline.png")
    assert source.startswith("data:image/webp;base64,")
    assert (width, height) == (WIDTH, WIDTH // 2)


def test_every_rule_is_on_the_page_with_its_words(page):
    for each in RULES:
        assert f"What {each.name} does, in <code>code</code>." in section(page, each.name)


def test_a_restored_file_stands_with_the_rule_that_would_measure_it(page):
    bench = section(page, "bench")
    assert 'href="24/cpu/bench.json"' in bench
    assert 'href="24/h200/bench.json"' in bench
    assert "Restored from a record of 2026-11-20 on h200, and stale." in bench
    assert "naive.cu has changed" in bench


def test_what_no_device_here_can_measure_says_so(page):
    assert "needs a GPU" in section(page, "contest")
    assert "Needs a GPU, and no record holds it" in section(page, "contest")
    assert "snakemake --cores 4 results/24/{device}/contest.json" in section(page, "contest")


def test_what_is_not_part_of_the_run_says_how_to_ask_for_it(page):
    assert "snakemake --cores 4 record" in section(page, "record")
    assert "no file that Snakemake follows" in section(page, "record")


def test_the_rule_of_the_page_itself_counts_as_built(page):
    assert "This very page:" in section(page, "lab_page")
    assert "built here" in section(page, "lab_page")


def test_a_picture_is_shown_with_how_to_read_it(page):
    assert 'alt="24/roofline.png: Dots. How to read it: no dot lies above the line."' in page
    assert "no dot lies above <code>the line</code>." in page


def begin(page: str) -> str:
    return page[page.index('class="first"') : page.index('id="tally"')]


def test_the_page_begins_with_three_things_to_click_and_only_with_what_is_there(page):
    steps = re.findall(r'href="([^"]+)">([^<]*)</a> <span>[^<]+</span>', begin(page))
    assert steps == [
        ("24/README.md", "Look at kernels"),
        ("25/minigpt/cpu/explorer.html", "Look inside the compiler"),
        ("../exercises/README.md", "Write one yourself"),
    ]
    assert "DISTRIBUTED" not in begin(page)


def test_a_stage_that_has_nothing_to_look_at_is_behind_the_scenes(page):
    shown, behind = page.split('<details id="behind"')
    assert set(re.findall(r'id="stage-(\w+)"', shown)) == {"report", "explorer", "annotate"}
    assert set(re.findall(r'id="stage-(\w+)"', behind)) == {"kernels", "records", "front_door"}


def test_the_concept_pages_are_linked_in_the_order_in_which_they_are_read(page):
    concepts = re.findall(r'href="../docs/concepts/(\w+).md">([^<]*)<', begin(page))
    assert concepts == [("second_in_the_alphabet", "Why"), ("first_in_the_alphabet", "How")]
    assert "<h2>How</h2>" in reports_of(page)["docs/concepts/first_in_the_alphabet.md"]


def test_a_stage_says_of_how_many_files_where_they_come_from(page):
    header = re.search(r'id="stage-kernels".*?</header>', page, re.S)[0]
    assert re.findall(r">([^<]+)</span> <span class=\"note\">(\d+ files?)", header) == [
        ("built here", "1 file"), ("stale record", "1 file"),
    ]  # fmt: skip


def test_no_two_links_of_a_list_have_one_name(page):
    for names in re.findall(r'<ul class="readings">.*?</ul>', page, re.S):
        titles = re.findall(r'class="file"[^>]*>([^<]+)<', names)
        assert len(set(titles)) == len(titles)
    assert "One kernel explained · tiny · cpu" in page
    assert "One kernel explained · tiny · h200" in page


def test_html_in_a_report_stays_text(page):
    report = reports_of(page)["results/24/README.md"]
    assert "<script>alert" not in page + report
    assert "&lt;script&gt;alert" in report


def test_the_page_can_be_had_in_spanish_reasons_included(tmp_path):
    page = make_page(tmp_path, "es").read_text()
    assert '<html lang="es">' in page
    assert "naive.cu ha cambiado" in page or "ha cambiado naive.cu" in page
    assert "has changed" not in page


def test_the_page_of_a_small_lab_is_small(page):
    assert len(page.encode()) < SMALL_LAB


@pytest.mark.parametrize("picture", sorted((ROOT / "results/recorded").rglob("*.png")), ids=lambda path: path.name)
def test_a_picture_costs_its_thumbnail(picture: Path):
    assert len(thumbnail(picture)[0]) < PICTURE


def test_reports_cost_less_than_half_of_their_text(monkeypatch):
    monkeypatch.chdir(ROOT)
    reports = {path: report_html(path, "results/lab.html") for path in map(str, Path("docs/concepts").glob("*.md"))}
    assert len(reports) > 5
    assert len(packed_json(reports)) < REPORTS * len("".join(reports.values()).encode())


def test_a_file_is_named_once_and_a_job_is_told_in_few_bytes(page):
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    files = len(json.dumps(data["files"], separators=(",", ":")))
    assert files < sum(map(len, data["files"])) + FILE * len(data["files"])
    said = sum(len(job["says"]) + sum(map(len, job["reasons"])) for job in data["jobs"])
    assert len(json.dumps(data["jobs"], separators=(",", ":"))) < said + JOB * len(data["jobs"])
