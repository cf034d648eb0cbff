"""The playbook: every snippet runs, every generated part is what the code says today, every link leads somewhere."""

import re
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from docs.build import playbook
from minilab import LabError

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "torch_compile.md", *sorted((DOCS / "torch_compile").glob("*.md"))]
SLOW = {"logs"}  # made by compiling, in a process of its own


@pytest.fixture
def one_rank(tmp_path):
    dist.init_process_group("gloo", f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def fast_inductor():
    with torch._inductor.config.patch({"cpp.vec_isa_ok": True, "cpp.simdlen": 256}):
        yield


@pytest.mark.usefixtures("fresh_compiler", "one_rank", "fast_inductor")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_snippet_runs(page):
    snippets = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M)
    assert snippets
    namespace: dict = {"__name__": "snippet"}
    for snippet in snippets:
        exec(compile(snippet, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_generated_parts_are_the_code_s(page):
    cheap = {name: part for name, part in playbook.PARTS.items() if name not in SLOW}
    if f"torch {playbook.release()}" not in page.read_text():
        cheap.pop("modes")  # written on another torch
    assert playbook.refresh(page.read_text(), cheap) == page.read_text(), "run `python -m docs.build playbook`"


def test_every_part_is_used_once():
    used = [name for page in PAGES for name in playbook.parts_of(page.read_text())]
    assert sorted(used) == sorted(playbook.PARTS)


@pytest.mark.usefixtures("fresh_compiler")
def test_the_failures_are_those_of_this_torch():
    observed, known = playbook.observed_failures(), playbook.known_failures()
    # Another release may word them otherwise; which there are, and where they strike, is this package's own doing.
    reference = known.get(playbook.release()) or next(iter(known.values()))
    assert {name: found["stage"] for name, found in observed.items()} == {n: f["stage"] for n, f in reference.items()}
    if playbook.release() in known:
        assert observed == reference, "run `python -m docs.build playbook`"


def test_releases_that_say_the_same_share_a_row(monkeypatch):
    name = next(iter(playbook.FAILURES))
    said = {"stage": "compile", "exception": "E", "message": "no"}
    known = {"2.11.0": {name: said}, "2.12.0": {name: said}, "2.13.0": {name: {**said, "message": "never"}}}
    monkeypatch.setattr(playbook, "known_failures", lambda: known)
    rows = playbook.failures().splitlines()[2:]
    assert [row.split(" | ")[3:5] for row in rows] == [["no", "2.11.0, 2.12.0"], ["never", "2.13.0"]]


def test_every_log_has_a_sample_in_the_page():
    page = (DOCS / "torch_compile" / "debugging.md").read_text()
    for flag in playbook.LOGS:
        assert re.search(rf"^`{flag}`: \d+ different lines", page, re.M), flag


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#]+\.md)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_a_part_that_there_is_not_is_refused():
    with pytest.raises(LabError, match="generated part 'nothing'"):
        playbook.refresh("<!-- generated: nothing -->\n<!-- end -->")
