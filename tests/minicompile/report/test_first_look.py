"""The first look: its sentences follow from the raw samples, it says what is stale, and it refuses in one sentence."""

import re
from pathlib import Path
from statistics import median

import pytest
import recorded_pages
import yaml
from links import dead_links

from minicompile.report.first_look.findings import findings
from minicompile.report.first_look.page import PROMPTS, Words, checkpoint_view, write_first_look
from minicompile.report.first_look.records import recorded
from minilab import LabError, first_look
from minilab.files import read_object
from minilab.pages.translations import LANGUAGES
from minimodel.writing import command

ROOT = Path(__file__).parents[3]
RECORD = ROOT / "results/recorded/h200"
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())


@pytest.fixture(scope="module")
def held():
    return recorded(CONFIG)


@pytest.fixture(scope="module")
def kernels_alone(held):
    """The records, without what takes longest to draw."""
    return held._replace(capture=None, model=None)


def of_the_samples() -> dict[str, dict]:
    """What the sentences say, worked out of the records' raw samples and of the compiler's own code."""
    bench, head = (read_object(RECORD / f"24/{name}.json") for name in ("bench", "head"))
    headline = CONFIG["roofline"]["headline"]["cuda"]
    rows = [row for row in bench["rows"] if row["direction"] == "forward"]
    copied = median(row["ceiling"]["amount"] / median(row["ceiling"]["samples_us"]) for row in rows)
    share = {
        row["kernel"]: 2 * 4 * row["rows"] * row["cols"] / median(row["samples_us"][row["kernel"]]) / copied
        for row in rows
        if [row["rows"], row["cols"]] == headline and not row["above_roof"]
    }
    fastest = max(share, key=share.get)
    most = max(row["rows"] for row in head["rows"])
    heads = {row["kernel"]: row for row in head["rows"] if row["rows"] == most}
    apart = {name: median(row["samples_us"][name]) for name, row in heads.items() if not row["fused"]}
    fused = median(heads["linear_softmax"]["samples_us"]["linear_softmax"])
    code = read_object(RECORD / "25/minigpt/watched.json.xz")["lowered"][0]["code"]
    model = read_object(RECORD / "26/model.json")
    batch, time = model["shapes"][0]
    forward = {
        row["rung"]: row
        for row in model["forward"]
        if (row["batch"], row["time"], row["dtype"]) == (batch, time, "float32")
    }
    us = {rung: median(row["samples_us"][rung]) for rung, row in forward.items()}
    best = min((rung for rung in us if rung.startswith("compile")), key=us.get)
    rates = {
        row["rung"]: 1e6 * row["new_tokens"] / median(row["samples_us"][row["rung"]])
        for row in model["generate"]
        if row["sequences"] == 1
    }
    other = max(rates.keys() - {"one"}, key=rates.get)
    return {
        "memory": {"share": share[fastest], "kernel": fastest, "plainest_share": share["naive"]},
        "head": {"rows": most, "times": min(apart.values()) / fused, "kernel": min(apart, key=apart.get)},
        "fusion": {"calls": len(re.findall(r"\.run\(|extern_kernels\.\w+\(", code))},
        "whole_model": {
            "batch": batch, "time": time, "us": us["one"], "times": us[best] / us["one"], "mode": best,
            "gaps": 1 - forward[best]["kernels_us"] / us[best],
        },
        "writing": {"rate": rates["one"], "other": other, "times": rates["one"] / rates[other]},
    }  # fmt: skip


def test_what_is_found_follows_from_the_raw_samples(held):
    found, again = {one.code: one.fields for one in findings(held)}, of_the_samples()
    assert list(found) == list(again)
    for code, fields in again.items():
        for name, value in fields.items():
            assert found[code][name] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-6)), code
    graph = held.capture["graphs"][0]
    spared = {node["name"]: node["bytes"] for node in graph["nodes"] if node["fate"] in ("inlined", "fused away")}
    assert found["fusion"]["mb"] == pytest.approx(sum(filter(None, spared.values())) / 1e6, rel=0.01)
    assert found["fusion"]["operations"] == sum(node["fate"] not in (None, "view") for node in graph["nodes"])


def test_of_what_no_record_holds_nothing_is_said(held, kernels_alone, tmp_path):
    assert [one.code for one in findings(kernels_alone)] == ["memory", "head"]
    card = held.cards[0]._replace(panel={**held.cards[0].panel, "head": None})
    alone = kernels_alone._replace(cards=[card])
    assert [one.code for one in findings(alone)] == ["memory"]
    write_first_look(alone, CONFIG, tmp_path / "page.html")
    assert "<iframe" not in (tmp_path / "page.html").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_shows_all_of_it_and_no_link_is_dead(held, once, tmp_path, capsys, language):
    if language == "en":
        folder = once("first_look", recorded_pages.first_look)
    else:
        write_first_look(held, CONFIG, (folder := tmp_path) / "look.html", language)
    html = (folder / "look.html").read_text()
    assert html.count("data:image/svg+xml") == len(held.cards)
    assert re.search(r'<iframe src="look/explorer\.html#ask/\w+"', html)
    for page in (folder / "look.html", *folder.glob("look/*.html")):
        assert f'<html lang="{language}"' in page.read_text()
        assert dead_links(page) == []
    for prompt in PROMPTS:  # as the command writes it
        assert command.main([prompt, "--checkpoint", str(command.SHIPPED)]) == 0
        assert f"<b>{capsys.readouterr().out.strip().removeprefix(prompt)}</b>" in html


@pytest.mark.parametrize("stale", [True, False])
def test_what_is_stale_is_said_to_be(kernels_alone, tmp_path, stale):
    reasons = [{"code": "source_changed", "path": f"src/{name}.py"} for name in "abcde"] if stale else []

    def marked(held: dict[str, dict]) -> dict[str, dict]:
        mark = {"stale": stale, "reasons": reasons}
        return {name: {**made, "restored": {**made["restored"], **mark}} for name, made in held.items()}

    cards = [card._replace(of=marked(card.of)) for card in kernels_alone.cards]
    held = kernels_alone._replace(cards=cards, read=marked(kernels_alone.read))
    write_first_look(held, CONFIG, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text()
    found = len(list(findings(held))) + len(held.cards) + len(held.read)
    assert html.count('class="state stale"') == (found if stale else 0)
    assert html.count('class="state restored"') == (0 if stale else found)
    assert html.count("src/a.py has changed</li><li>src/b.py has changed") == (len(held.read) if stale else 0)
    assert html.count("and 2 more") == (len(held.read) if stale else 0)


def test_a_checkpoint_that_other_parameters_would_make_is_said_to_be_stale():
    other = {**CONFIG, "training": {**CONFIG["training"], "seed": 43}}
    changed = set(checkpoint_view(other, Words("en"))["origin"]["reasons"])
    assert changed - set(checkpoint_view(CONFIG, Words("en"))["origin"]["reasons"]) == {
        "parameter training has changed"
    }


def test_an_installed_package_shows_what_it_brings_and_judges_no_record(tmp_path, monkeypatch):
    brought, here = tmp_path / "lab", tmp_path / "here"
    device = RECORD.relative_to(ROOT)  # its kernels alone: what else there is takes longest to draw
    for name in ("config.yaml", "schemas", device / "24", device / "SHA256SUMS"):
        (brought / name).parent.mkdir(parents=True, exist_ok=True)
        (brought / name).symlink_to(ROOT / name)
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(first_look, "BROUGHT", brought)
    assert first_look.main(["--page", "look.html"]) == 0
    html = (here / "look.html").read_text()
    assert re.findall(r'class="state (\w+)"', html) == ["not_asked"] * html.count('is known in a clone of the lab.">')
    assert html.count('class="state not_asked"') >= 6


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, r"there is no config\.yaml in /.*; run it in the lab's folder"),
        ({"config.yaml": "kernels: [1"}, r"config\.yaml"),
        ({"config.yaml": (ROOT / "config.yaml").read_text()}, r"/results/recorded holds no record; run it in the lab"),
    ],
)
def test_elsewhere_than_in_the_lab_it_is_one_sentence(tmp_path, monkeypatch, capsys, files, said):
    for folder in ("schemas", "src"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert first_look.main([]) == 1
    shown = capsys.readouterr()
    assert not shown.out
    assert re.match(f"Error: .*{said}", shown.err)
    assert shown.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_records_that_are_stale_are_refused_where_the_configuration_says_so(monkeypatch):
    with pytest.raises(LabError, match=r"is stale .* and records\.stale is 'fail'"):
        recorded({**CONFIG, "bench": {**CONFIG["bench"], "seed": 1}, "records": {"stale": "fail"}})
