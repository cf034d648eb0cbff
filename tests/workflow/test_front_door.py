"""The front door in the workflow: of all that there is, made last, and nothing else made again for it."""

import base64
import gzip
import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from lab import EVERY_RULE, ROOT, Lab

from minilab import LabError
from minilab.site.ask_snakemake import ask_snakemake

sys.path.insert(0, str(ROOT / "tests"))

from links import dead_links

PAGE = "lab_page results/lab.html"
PICTURE = 45_000  # bytes of a thumbnail in base64: 400 points wide; 32,759 is the largest today
CARD = 5_000  # bytes of the rest for each rule of the workflow: its card, its files, its place in the graph; 4,358 today


@pytest.fixture(scope="module")
def lab(whole: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The whole lab; whoever changes something puts it back."""
    return whole.copy(tmp_path_factory.mktemp("front_door") / "lab")


def rule_names(lab: Lab) -> set[str]:
    """The names that Snakemake itself lists."""
    listed = lab.snakemake("--list-rules").stdout
    return set(re.findall(r"^(\w+)(?: \(|$)", listed, re.M)) - {"all"}


def test_every_rule_that_snakemake_lists_is_on_the_page(lab: Lab):
    page = (lab.root / "results/lab.html").read_text()
    assert set(re.findall(r'id="rule-(\w+)"', page)) == rule_names(lab)


def test_what_is_up_to_date_is_shown_so(lab: Lab):
    page = (lab.root / "results/lab.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert {job["state"] for job in data["jobs"]} <= {"built", "restored", "stale"}


def test_the_page_of_the_whole_lab_is_no_larger_than_what_it_shows_asks_for(lab: Lab):
    page = (lab.root / "results/lab.html").read_text()
    pictures = re.findall(r'src="(data:[^"]*)"', page)
    packed = re.search(r'id="reports">(.*?)</script>', page, re.S)[1]
    reports = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert max(map(len, pictures)) < PICTURE
    assert len(packed) < sum((lab.root / report).stat().st_size for report in reports) / 2
    rest = len(page.encode()) - len("".join(pictures)) - len(packed)
    assert rest < CARD * len(rule_names(lab))


def test_no_link_of_the_page_is_dead(lab: Lab):
    assert dead_links(lab.root / "results/lab.html") == []


def arrows(flowchart: str) -> set[tuple[str, str]]:
    """The arrows of a graph in Mermaid, from rule to rule."""
    names = dict(re.findall(r"(\w+)\[(\w+)\]", flowchart))
    return {(names[source], names[target]) for source, target in re.findall(r"(\w+) --> (\w+)", flowchart)}


def test_the_graph_is_snakemakes_own(lab: Lab):
    svg = (lab.root / "results/dag.svg").read_text()
    restored = set(re.findall(r"<title>(\w+)</title>\s*<g[^>]*><a[^>]*>\s*<path[^>]*stroke-dasharray", svg))
    drawn = set(re.findall(r"rule-(\w+)", svg)) - restored  # dashed: what a GPU that is not here would run
    printed = arrows(lab.snakemake("--rulegraph", "mermaid-js", *EVERY_RULE).stdout)
    assert arrows((lab.root / "results/dag.mmd").read_text()) == printed
    assert drawn == {rule for arrow in printed for rule in arrow} - {"all"}
    assert ("corpus", "train") in printed


def test_a_question_that_snakemake_cannot_answer_is_refused_in_its_words(lab: Lab, monkeypatch):
    monkeypatch.chdir(lab.root)
    with pytest.raises(LabError, match=r"--summary.*no_such_key"):
        ask_snakemake({"no_such_key": 1}, "--summary")


def test_a_second_run_has_nothing_to_do(lab: Lab):
    assert lab.jobs(*EVERY_RULE) == set()


def test_an_edited_caption_renews_the_page_alone(lab: Lab):
    caption = lab.root / "report/en/loss.rst"
    before = caption.read_text()
    lab.edit("report/en/loss.rst")
    assert lab.jobs(*EVERY_RULE) == {PAGE}
    caption.write_text(before)


def test_every_picture_and_report_is_in_snakemakes_report():
    shown = {
        name for path in (ROOT / "rules").glob("*.smk") for name in re.findall(r'shown\("([^"]+)"', path.read_text())
    }
    outputs = {
        name
        for path in (ROOT / "rules").glob("*.smk")
        for block in re.findall(r"\n    output:\n((?:        .*\n)+)", path.read_text())
        for name in re.findall(r'"(results/[^"]+\.(?:png|md))"', block)
    }
    on_request = {"results/25/diff.md", "results/drift.md"}
    assert {name for name in outputs - shown if not name.startswith("results/exercise/")} == on_request


def test_snakemakes_report_holds_every_figure_with_its_caption(lab: Lab):
    lab.snakemake(*EVERY_RULE, "--report", "results/report.html")
    report = (lab.root / "results/report.html").read_text()
    titles = yaml.safe_load((ROOT / "src/minilab/locale/en/figures.yaml").read_text())
    assert [title for title in (titles["loss"], titles["roofline"], titles["distributed"]) if title not in report] == []
    caption = Path(ROOT, "report/en/loss.rst").read_text().split(".")[0].replace("\n", " ")
    assert caption in report.replace("\\n", " ").replace("\n", " ")
