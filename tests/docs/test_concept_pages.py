"""The pages under docs/: every number is its source's, every snippet runs, every link leads somewhere."""

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from docs.build import concept_pages as pages
from docs.build.facts import float_facts as floats
from docs.build.facts.compiler_facts import compiler_facts
from docs.build.facts.softmax_facts import softmax_facts
from docs.build.figures import FIGURES, draw, drawn_from
from minikernel.exercise.traffic import count_traffic
from minikernel.proof.proof import adversarial_cases
from minilab.files import read_json

ROOT = Path(__file__).parents[2]
DOCS, RECORD = ROOT / "docs", Path("results/recorded/h200/24")
CAPTURE = ROOT / "tests/minicompile/data/tiny_head_capture_simulated.json"
CONFIG = pages.read_config(ROOT / "config.yaml")
HOW_TO = sorted((DOCS / "how_to").glob("*.md"))
WRITTEN = [*(DOCS / "concepts" / f"{name}.md" for name in pages.PAGES), *HOW_TO]
ALL = [*WRITTEN, DOCS / "README.md", ROOT / "exercises/README.md"]
RENEW = "run `python -m docs.build concepts`"


@pytest.fixture(scope="module")
def facts() -> dict:
    """The facts of the record and of a capture that is kept, under the paths that the pages give."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return pages.facts(RECORD, CONFIG, json.loads(CAPTURE.read_text()))


def is_of_another_torch(facts: dict) -> bool:
    """Whether the pages on the compiler were written with another torch than the capture that is kept."""
    return f"torch {facts['compiler']['release']}" not in (DOCS / "concepts/inductor.md").read_text()


@pytest.mark.parametrize("name", pages.PAGES)
def test_every_page_is_what_its_sources_say_today(name: str, facts: dict):
    if name in pages.ON_THE_COMPILER and is_of_another_torch(facts):
        pytest.skip("written with another torch")
    assert pages.page(name, facts) == (DOCS / "concepts" / f"{name}.md").read_text(), RENEW


def test_the_page_of_a_first_look_is_what_the_records_say_today():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        assert pages.first_look(CONFIG) == (DOCS / "first_look.md").read_text(), "run `python -m docs.build first_look`"


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_from_what_its_sources_say_today(name: str, facts: dict):
    if FIGURES[name][1] == "compiler" and is_of_another_torch(facts):
        pytest.skip("drawn with another torch")
    assert drawn_from(name, facts) in (DOCS / "images" / f"{name}.svg").read_text(), RENEW


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_drawn_small_and_with_their_origin(name: str, facts: dict, tmp_path: Path):
    draw(name, facts, tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert drawn_from(name, facts) in text
    assert len(text) < 60_000


def test_a_number_that_changes_in_the_record_changes_the_page_and_the_figure(facts: dict, tmp_path: Path):
    for file in (ROOT / RECORD).glob("*.json"):
        (tmp_path / file.name).write_text(file.read_text())
    ceilings = read_json(tmp_path / "ceilings.json")
    (tmp_path / "ceilings.json").write_text(json.dumps({**ceilings, "copy_gb_per_s": ceilings["copy_gb_per_s"] / 2}))
    other = {**facts, "softmax": softmax_facts(tmp_path, CONFIG["roofline"]["headline"]["cuda"])}
    assert other["softmax"]["memory_us"] == pytest.approx(2 * facts["softmax"]["memory_us"])
    assert pages.page("memory_bound", other) != pages.page("memory_bound", facts)
    assert drawn_from("memory_bound", other) != drawn_from("memory_bound", facts)


def test_the_softmax_s_facts_follow_from_the_record(facts: dict):
    said, bench = facts["softmax"], read_json(ROOT / RECORD / "bench.json")
    at = {
        row["kernel"]: row
        for row in bench["rows"]
        if [row["rows"], row["cols"], row["direction"]] == [said["rows"], said["cols"], "forward"]
    }
    assert said["fastest"]["median_us"] == min(row["median_us"] for row in at.values())
    ladder = [rung for rung in ("naive", "smem", "warp", "fused") if rung in at]
    assert {rung: (step["from"], step["factor"]) for rung, step in said["steps"].items()} == {
        after: (before, at[before]["median_us"] / at[after]["median_us"]) for before, after in pairwise(ladder)
    }
    assert said["flop_per_byte"] == said["flop_per_element"] / said["bytes_per_element"]
    assert said["roof_tflop_per_s"] == pytest.approx(said["n_flop"] / said["memory_us"] / 1e6)
    assert 2 ** said["tree_steps"] == said["smem_threads"]


def test_a_sum_in_turn_is_off_by_what_is_said_and_a_tree_by_less(facts: dict):
    in_turn = np.float32(0)
    for _ in range(floats.TERMS):
        in_turn += np.float32(0.1)
    exact = math.fsum([float(np.float32(0.1))] * floats.TERMS)
    assert facts["floats"]["in_turn_error"] == abs(float(in_turn) - exact) / exact
    assert facts["floats"]["in_pairs_error"] < facts["floats"]["in_turn_error"] / 100


def test_the_outlier_is_the_proof_s():
    case = next(case for case in adversarial_cases() if case.name == "outlier" and case.x.shape[-1] == 1)
    assert case.x.mean().item() == pytest.approx(floats.OUTLIER, abs=9)
    assert f"+= {floats.OUTLIER}\n" in (ROOT / "src/minikernel/proof/proof.py").read_text()


def test_the_bytes_apart_are_those_that_pytorch_s_operations_move(facts: dict):
    import torch

    compiler = facts["compiler"]
    x = torch.randn(compiler["rows"], compiler["cols"])

    def apart(x):
        powers = (x - x.amax(-1, keepdim=True)).exp()
        return powers / powers.sum(-1, keepdim=True)

    moved = count_traffic(apart, x)
    counted = (moved.reads + moved.writes) * x.numel() * x.element_size()
    assert sum(n_bytes for _, n_bytes in compiler["apart"]) == pytest.approx(counted)


def test_counts_of_the_compiler_are_those_of_its_capture(facts: dict):
    capture = json.loads(CAPTURE.read_text())
    capture["graphs"][0]["decisions"][0]["taken"] = False
    assert pages.page("inductor", {**facts, "compiler": compiler_facts(capture)}) != pages.page("inductor", facts)
    assert facts["compiler"]["loads"] == facts["compiler"]["kernel_code"].count("tl.load(") == 1


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize(
    "path", [path for path in WRITTEN if "```python" in path.read_text()], ids=lambda path: path.stem
)
def test_every_snippet_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if path.stem in ("inductor", "your_own_model"):
        pytest.importorskip("triton")
    for part in ("results/recorded", "src"):
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / part).symlink_to(ROOT / part)
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "__main__"}  # the snippets of a page, one after the other, are one file
    for snippet in snippets(path.read_text()):
        exec(compile(snippet, str(path), "exec"), namespace)


def snippets(text: str) -> list[str]:
    """A page's Python, but for what the compiler wrote: generated code and graphs are quoted, not run."""
    found = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    return [snippet for snippet in found if not snippet.startswith(("class GraphModule", "@triton.jit\ndef triton_"))]


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_link_leads_to_a_file_and_every_picture_has_words(path: Path):
    prose = re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.S | re.M)
    links = re.findall(r"(!?)\[([^\]]*)\]\(([^)#]+)[^)]*\)", prose)
    assert links
    for picture, words, target in links:
        assert (path.parent / unquote(target)).exists(), target
        assert words.strip() if picture else True, target


def test_the_index_leads_to_every_page():
    index = (DOCS / "README.md").read_text()
    pages_there = {
        path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if "templates" not in path.parts
    } - {"README.md"}
    of_folders = {  # a folder of pages has an index of its own
        f"{folder.parent.name}/{name}"
        for folder in DOCS.glob("*/README.md")
        if f"]({folder.parent.name}/README.md)" in index
        for name in re.findall(r"\]\((\w+\.md)\)", folder.read_text())
    }
    assert {path for path in pages_there if f"]({path})" not in index} - of_folders == set()


@pytest.mark.parametrize("path", HOW_TO, ids=lambda path: path.stem)
def test_configuration_in_the_how_to_s_fits_the_schema(path: Path):
    import yaml

    from minilab.config.check import check_schema, read_schema

    schema = read_schema(ROOT / "schemas/config.schema.yaml")
    for snippet in re.findall(r"^```yaml\n(.*?)^```", path.read_text(), re.S | re.M):
        entries = yaml.safe_load(snippet)
        section = "kernels" if "under kernels" in snippet else None
        replaced = re.search("in place of the line (.*)", snippet)  # a key that stands twice is refused
        assert replaced is None or f"\n{replaced[1]}" in (ROOT / "config.yaml").read_text()
        assert section or replaced or not entries.keys() & CONFIG.keys()
        check_schema({**CONFIG, **({section: entries} if section else entries)}, schema, path.name)
