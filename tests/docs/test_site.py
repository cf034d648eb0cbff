"""The static site: what it holds, where its links lead, and that nothing of it comes from a server."""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from links import dead_links

from docs.build import site, site_explorers
from minicompile.lowering.capture import as_capture
from minicompile.watching.watched import read_watched
from minilab import LabError
from minilab.pages.translations import LANGUAGES
from minilab.records.artefact import Artefact

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(once) -> Path:
    return once("site", lambda folder: site.build(ROOT, folder))


def test_every_page_that_the_readme_leads_to_is_there_and_no_link_is_dead(built):
    pages = [path for path in built.rglob("*.html") if path.name not in ("404.html", "explorer.html")]
    assert len(pages) > 40
    assert {"index.html", "explorers.html", "docs/concepts/memory_bound.html", "docs/what_if/fusion.html"} <= {
        str(path.relative_to(built)) for path in pages
    }
    dead = {str(page): dead_links(page) for page in pages}
    assert {page: links for page, links in dead.items() if links} == {}


def test_the_first_look_stands_where_the_docs_have_what_markdown_can_show_of_it(built):
    page = (built / "docs/first_look.html").read_text()
    assert re.search(r'<iframe src="first_look/explorer\.html#ask/\w+"', page)
    assert 'href="../index.html"' in page
    assert 'href="docs/first_look.html"' in (built / "index.html").read_text()
    assert 'href="first_look.html"' in (built / "docs/index.html").read_text()


def test_an_explorer_of_a_stale_record_says_so(shown, monkeypatch):
    explorer = next(one for one in shown[0] if one.page.parent.name == "tiny_head")
    folder = ROOT / explorer.page.parent
    assert explorer.capture["restored"] == site_explorers.recorded_capture(folder)["restored"]
    for digests, stale in (({}, True), (explorer.capture["provenance"]["sources"], False)):
        monkeypatch.setattr(Artefact, "digests", lambda *given, digests=digests: digests)
        found = site_explorers.recorded_capture(folder)["restored"]
        assert found["stale"] is bool(found["reasons"])
        assert stale is any(reason["code"].startswith("source") for reason in found["reasons"])


def test_what_is_published_is_made_by_the_script_that_ci_runs():
    steps = yaml.safe_load((ROOT / ".github/workflows/pages.yml").read_text())["jobs"]["site"]["steps"]
    (run,) = [shlex.split(step["run"]) for step in steps if "run" in step]
    assert run[0] in (ROOT / ".ci/run").read_text()
    assert os.access(ROOT / run[0], os.X_OK)
    assert [step["with"]["path"] for step in steps if "upload-pages" in step.get("uses", "")] == [run[1]]
    rules = "".join(path.read_text() for path in (ROOT / "rules").glob("*.smk"))
    reports = [target for target in run if target.startswith("results/")]
    assert len(reports) >= 5
    assert [target for target in reports if f'"{target}"' not in rules] == []  # each is what a rule makes
    assert [target for target in reports if not any(Path(target).match(one) for one in site.BUILT)] == []


def test_nothing_comes_from_a_server(built):
    asked = re.compile(r'<(?:script|img|iframe)[^>]*\bsrc="(https?://[^"]+)|<link[^>]*rel="(?:stylesheet|preconnect)"'
                       r'[^>]*href="(https?://[^"]+)')  # fmt: skip
    assert {page.name: found for page in built.rglob("*.html") if (found := asked.findall(page.read_text()))} == {}


def test_a_file_of_code_that_a_page_links_is_a_page(built):
    assert "naive.cu.html" in (built / "docs/concepts/reducing_a_row.html").read_text()
    assert "__global__" in (built / "src/minikernel/ops/cuda/naive.cu.html").read_text()


@pytest.mark.parametrize(
    ("href", "leads_to"),
    [
        ("README.md", "index.html"),
        ("../24/README.md", "../24/index.html"),
        ("CONTEST.md", "CONTEST.html"),
        ("a/README.html", "a/README.html"),
        ("https://a.example/README.md", "https://a.example/README.md"),
    ],
)
def test_a_page_of_the_labs_own_leads_to_pages(href, leads_to):
    assert site.leading_to_pages(f'<a href="{href}">there</a>') == f'<a href="{leads_to}">there</a>'


def test_the_navigation_is_the_contents_of_the_docs():
    sections = {name: pages for entry in site.contents(ROOT, [], "en") for name, pages in entry.items()}
    assert list(sections) == [
        "The lab",
        "A first look",
        "Pages",
        "Concepts",
        "How to",
        "Reference",
        "Exercises",
        "Explorers",
    ]
    assert {"Why softmax is memory-bound": "docs/concepts/memory_bound.md"} in sections["Concepts"]
    reports = [Path("results/24/README.md")]
    assert site.contents(ROOT, reports, "en")[-1] == {"Reports": ["results/24/README.md"]}


@pytest.fixture(scope="module", params=LANGUAGES)
def shown(request) -> tuple[list, str]:
    """The explorers of the site, and a language."""
    return list(site.explorers(ROOT, request.param)), request.param


def test_each_stop_of_a_tour_is_a_link_into_its_explorer(shown):
    links = list(site.links(site.explorers_page(*shown)))
    assert len(links) >= 5
    assert all(re.search(r"explorer\.html#(\d+/[\w.]+:\d+|ask/\w+)$", href) for _, href in links)


def test_the_first_page_opens_each_explorer_at_its_questions(built, shown):
    links = list(site.links(site.start_page(shown[0], "# The lab\n", shown[1])))
    asked = [href for words, href in links if words.endswith("?")]
    assert len(asked) >= 2
    assert all(re.search(r"explorer\.html#ask/\w+$", href) for href in asked)
    page = (built / "index.html").read_text()
    assert re.search(r'href="results/recorded/\w+/25/minigpt/explorer.html#ask/kernels">Why \d+ kernels here', page)


def test_the_sites_own_words_are_in_every_language(tmp_path):
    files = [ROOT / f"docs/build/locale/{language}/site.yaml" for language in LANGUAGES]
    english, *others = [yaml.safe_load(file.read_text()) for file in files]
    for other in others:
        assert english.keys() == other.keys()
        assert all(re.findall(r"{\w+}", english[key]) == re.findall(r"{\w+}", other[key]) for key in english)
    site.gather(ROOT, tmp_path, "es")
    settings = yaml.safe_load((tmp_path / "mkdocs.yml").read_text())
    assert settings["theme"]["language"] == "es"
    assert {"Exploradores": "explorers.md"} in settings["nav"]
    assert "## Pregunta al compilador" in (tmp_path / "sources/README.md").read_text()
    for page in (tmp_path / "sources/results/recorded").rglob("explorer.html"):
        assert '<html lang="es">' in page.read_text()


def test_an_explorer_that_was_built_from_the_record_is_listed_once(tmp_path):
    recorded = next((ROOT / "results/recorded").glob("*/25/tiny_head/watched.json.xz"))
    for folder in ("results/recorded/h200/25/tiny_head", "results/25/tiny_head/h200"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copyfile(recorded, tmp_path / "results/recorded/h200/25/tiny_head/watched.json.xz")
    held = as_capture(read_watched(recorded))
    built = tmp_path / "results/25/tiny_head/h200/capture.json"
    for made, count in (({**held, "restored": {}}, 1), (held, 2)):
        built.write_text(json.dumps(made))
        found = list(site.explorers(tmp_path, "en"))
        assert len(found) == count
        assert found[0].page == Path("results/recorded/h200/25/tiny_head/explorer.html")


def test_a_link_that_leads_nowhere_is_refused(tmp_path):
    (tmp_path / "README.md").write_text("[there](docs/there.md#place), [not](docs/not.py), [theirs](https://a.example)")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/there.md").write_text("![shown](there.png) [code](../code.py)")
    (tmp_path / "docs/there.png").touch()
    (tmp_path / "code.py").touch()
    with pytest.raises(LabError, match=r"docs/not\.py is linked and is no file"):
        site.reachable(tmp_path, [Path("README.md")])
    (tmp_path / "docs/not.py").touch()
    found = site.reachable(tmp_path, [Path("README.md")])
    assert list(map(str, found)) == ["README.md", "docs/there.md", "docs/not.py", "docs/there.png", "code.py"]


def test_without_mkdocs_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(site, "find_spec", lambda name: None)
    assert site.main([str(tmp_path / "site")]) == 1
    assert "pip install -e '.[docs]'" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_a_folder_of_other_things_is_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("years of work")
    assert site.main([str(tmp_path)]) == 1
    assert "holds files that are no site" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
