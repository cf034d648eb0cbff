"""What the explorer's page is made of: data, highlighting, links, tour; the page itself is tried in tests/browser."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from explored import DATA, profile_of, tiny_head, tiny_head_simulated, with_backward
from forks import script
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from torch._inductor.runtime import triton_helpers
from triton.runtime import JITFunction
from zoo_models import captured

from minicompile import render_explorer
from minicompile.explain.annotation.patterns import said
from minicompile.explain.explorer.highlight import LETTERS, LEXERS, PLAIN, highlight
from minicompile.explain.explorer.intrinsics import table
from minicompile.explain.explorer.links import Links, body_links
from minicompile.explain.explorer.payload import payload
from minicompile.explain.explorer.tour import tour
from minilab import LabError
from minilab.pages.translations import Translations
from minilab.records.store import write_artefact

ROOT = Path(__file__).parents[3]
MEGABYTE = 1_000_000
RUN = re.compile(r"([a-z])(\d+)")
ALL_CAPTURES = sorted([*DATA.glob("*.json.gz"), *DATA.glob("tiny_head_capture*.json")])


class Page(HTMLParser):
    """The elements of a page: their attributes by tag, and the text of its data."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements, self.data, self._inside = [], "", False
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._inside = dict(attributes).get("id") == "data"

    def handle_endtag(self, tag):
        self._inside = False

    def handle_data(self, data):
        if self._inside:
            self.data += data


def read(path) -> dict:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def data_of(path) -> dict:
    text = Page(path.read_text()).data
    return json.loads(text if text.startswith("{") else gzip.decompress(base64.b64decode(text)))


def text_of(data, pane) -> list[str]:
    return [data["lines"][position] for position in pane["lines"]]


@pytest.mark.parametrize("capture", [tiny_head, tiny_head_simulated])
def test_the_captures_that_these_tests_show_are_captures(capture):
    schema = yaml.safe_load((ROOT / "schemas/capture.schema.yaml").read_text())
    Draft202012Validator(schema).validate(capture())


@pytest.mark.parametrize("compress", [True, False])
def test_the_page_holds_every_line_of_every_pane(tmp_path, compress):
    capture = tiny_head_simulated()
    render_explorer(capture, tmp_path / "explorer.html", compress=compress)
    data = data_of(tmp_path / "explorer.html")
    shown = {pane["id"]: text_of(data, pane) for pane in data["captures"][0]["panes"]}
    assert shown == {pane["id"]: pane["lines"] for pane in capture["panes"]}


def test_the_page_holds_every_link(tmp_path):
    capture = tiny_head()
    links = payload([capture], [None])["captures"][0]["links"]
    pairs = [sorted(zip(link["pairs"][::2], link["pairs"][1::2], strict=True)) for link in links]
    wanted = [*capture["links"], *body_links(capture)]
    assert pairs == [sorted(map(tuple, link["pairs"])) for link in wanted]


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize(
    "text", ["</script><script>alert(1)</script>", "<!--<script>", "{{ 7 * 7 }}", "&lt;b&gt; \u2028"]
)
def test_no_text_of_a_capture_ends_the_data_or_becomes_markup(tmp_path, text, compress):
    capture = tiny_head()
    capture["panes"][0]["lines"][0] = text
    capture["model"]["name"] = text
    render_explorer(capture, tmp_path / "explorer.html", compress=compress)
    plain = tiny_head()
    render_explorer(plain, tmp_path / "plain.html", compress=compress)
    tags = [
        [tag for tag, _ in Page((tmp_path / name).read_text()).elements] for name in ("explorer.html", "plain.html")
    ]
    assert tags[0] == tags[1]
    assert text_of(data := data_of(tmp_path / "explorer.html"), data["captures"][0]["panes"][0])[0] == text


def test_one_of_several_results_is_no_view_and_a_part_of_a_tensor_is_one(tmp_path):
    render_explorer(captured("small_variance", "simulated").capture, tmp_path / "variance.html")
    [graph] = data_of(tmp_path / "variance.html")["captures"][0]["graphs"]
    of = {node["name"]: (node["part_of"], node["buffer"]) for node in graph["nodes"] if "part_of" in node}
    assert of["getitem_4"] == ("var_mean_2", None)
    assert of["getitem_5"][0] == "var_mean_2"
    assert of["getitem_5"][1] in {buffer["name"] for buffer in graph["buffers"]}
    render_explorer(captured("parts_of_one", "simulated").capture, tmp_path / "split.html")
    [graph] = data_of(tmp_path / "split.html")["captures"][0]["graphs"]
    parts = [node for node in graph["nodes"] if node["target"] == "operator.getitem"]
    assert parts
    assert not any("part_of" in node for node in parts)


def test_the_page_names_no_other_file_and_forbids_the_network(tmp_path):
    render_explorer(tiny_head(), tmp_path / "explorer.html")
    elements = Page((tmp_path / "explorer.html").read_text()).elements
    addresses = [value for _, attributes in elements for name, value in attributes.items() if name in ("src", "href")]
    assert all(address.startswith("data:") for address in addresses)
    policy = next(each["content"] for tag, each in elements if tag == "meta" and "http-equiv" in each)
    assert "default-src 'none'" in policy


def test_the_same_capture_gives_the_same_file(tmp_path):
    for name in ("a.html", "b.html"):
        render_explorer(tiny_head(), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_capture_as_large_as_minigpt_stays_under_three_megabytes(tmp_path):
    capture = tiny_head_simulated()
    machine = [
        pane for pane in capture["panes"] if pane["kind"] in ("code", "ir_before", "ir_after", "ttir", "ptx", "sass")
    ]
    for copy in range(1, 16):  # as many kernels, with numbers of their own so that no line is stored for another
        for pane in machine:
            lines = [
                re.sub(r"\d+", lambda number, copy=copy: str(int(number[0]) + copy), line) for line in pane["lines"]
            ]
            capture["panes"].append({**pane, "id": f"{pane['id']}.{copy}", "lines": lines * 4})
    assert sum(len(line) for pane in capture["panes"] for line in pane["lines"]) > 1.5 * MEGABYTE
    render_explorer([capture, tiny_head()], tmp_path / "explorer.html")
    assert (tmp_path / "explorer.html").stat().st_size < 3 * MEGABYTE


def test_the_simulated_target_is_named_in_the_title(tmp_path):
    render_explorer(tiny_head_simulated(), tmp_path / "explorer.html")
    title = re.search(r"<title>(.*?)</title>", (tmp_path / "explorer.html").read_text())[1]
    assert "simulated" in title


def test_a_profile_reaches_the_page(tmp_path):
    capture = tiny_head()
    render_explorer([capture, tiny_head_simulated()], tmp_path / "explorer.html", profile=[profile_of(capture), None])
    first, second = data_of(tmp_path / "explorer.html")["captures"]
    assert first["profile"] == profile_of(capture)
    assert second["profile"] is None


@pytest.mark.parametrize(
    ("captures", "says"),
    [
        ([], "one or two"),
        ([tiny_head()] * 3, "one or two"),
        ({**tiny_head(), "format": 9}, "capture the model again"),
        ([tiny_head(), {**tiny_head(), "model": {"name": "other"}}], "of one model"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_sentence(tmp_path, captures, says):
    with pytest.raises(LabError, match=says):
        render_explorer(captures, tmp_path / "explorer.html")
    assert not list(tmp_path.iterdir())


def test_profiles_that_do_not_match_the_captures_are_refused(tmp_path):
    with pytest.raises(LabError, match="1 captures but 2 profiles"):
        render_explorer(tiny_head(), tmp_path / "explorer.html", profile=[None, None])


# -- highlighting ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LEXERS)
@given(lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=40), max_size=8))
def test_no_line_is_given_more_classes_than_it_has_characters(language, lines):
    classes = highlight(lines, language)
    assert len(classes) == len(lines)
    for line, coded in zip(lines, classes, strict=True):
        runs = RUN.findall(coded)
        assert "".join(letter + length for letter, length in runs) == coded
        assert sum(int(length) for _, length in runs) <= len(line)
        assert {letter for letter, _ in runs} <= {PLAIN, *(letter for _, letter in LETTERS)}


@pytest.mark.parametrize(
    ("language", "line", "word", "letter"),
    [
        ("python", "def softmax(x):", "def", "k"),
        ("python", "x = 1  # why", "# why", "c"),
        ("cpp", "#pragma omp parallel", "#pragma omp parallel", "p"),
        ("mlir", "%3 = tt.load %2 : tensor<1024x!tt.ptr<f32>>", "tt.load", "f"),
        ("mlir", "%3 = tt.load %2 : tensor<1024x!tt.ptr<f32>>", "%3", "v"),
        ("ptx", "// %bb.0:", "// %bb.0:", "c"),
        ("sass", "        /*0040*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;", "LDG.E.128", "f"),
        ("sass", "        /*0040*/                   FADD R5, R4, 0x1 ;", "R5", "v"),
    ],
)
def test_words_are_given_the_class_of_their_kind(language, line, word, letter):
    at, start = {}, 0
    for kind, length in RUN.findall(highlight([line], language)[0]):
        at.update(dict.fromkeys(range(start, start + int(length)), kind))
        start += int(length)
    place = line.index(word)
    assert {at.get(position) for position in range(place, place + len(word))} == {letter}


def test_a_string_over_several_lines_is_a_string_on_each():
    assert highlight(['"""one', "two", '"""'], "python") == ["s6", "s3", "s3"]


def test_a_kernel_is_highlighted_as_code_and_not_as_the_string_that_holds_it():
    data = payload([tiny_head()], [None])
    pane = next(pane for pane in data["captures"][0]["panes"] if pane["kind"] == "code")
    kernel = tiny_head()["graphs"][0]["kernels"][0]
    classes = [data["classes"][position] for position in pane["lines"]][kernel["first"] : kernel["last"]]
    assert any("k" in coded or "t" in coded for coded in classes)
    assert not all(coded.startswith("s") for coded in classes if coded)


# -- links ----------------------------------------------------------------------------------------------------------


def lines_with(capture, kind, text):
    return [
        (pane["id"], number)
        for pane in capture["panes"]
        if pane["kind"] == kind
        for number, line in enumerate(pane["lines"], 1)
        if text in line
    ]


def kinds(capture, lines):
    panes = {pane["id"]: pane["kind"] for pane in capture["panes"]}
    return {panes[pane] for pane, _ in lines}


def test_a_line_inside_a_kernel_leads_to_its_source_line_and_to_no_other_operation():
    capture = tiny_head()
    maximum = lines_with(capture, "code", "= at::vec::maximum(")[0]
    reached = Links(capture).counterparts(maximum)
    assert lines_with(capture, "aten", "aten.amax.default")[0] in reached
    assert lines_with(capture, "source", "return F.softmax(logits")[0] in reached
    assert not set(lines_with(capture, "aten", "aten.sum.dim_IntList")) & reached


def test_a_source_line_reaches_every_stage_down_to_the_machine():
    capture = tiny_head_simulated()
    line = lines_with(capture, "source", "return F.softmax(logits")[0]
    stages = {
        "dynamo",
        "joint",
        "aten",
        "ir_before",
        "ir_after",
        "groups",
        "code",
        "ttir",
        "ttgir",
        "llir",
        "ptx",
        "sass",
    }
    assert kinds(capture, Links(capture).counterparts(line)) == stages


def test_a_machine_instruction_leads_back_to_the_source():
    capture = tiny_head_simulated()
    made = [line for line in lines_with(capture, "sass", "MUFU.EX2") if Links(capture).up(line)]
    assert made
    assert kinds(capture, Links(capture).up(made[0])) >= {"source", "aten", "code"}


def test_an_operation_does_not_light_the_rest_of_the_kernel_that_it_was_fused_into():
    capture = tiny_head()
    links, exponential = Links(capture), lines_with(capture, "aten", "aten.exp.default")[0]
    assert lines_with(capture, "code", ".exp()")[0] in links.down(exponential)
    assert lines_with(capture, "code", "= at::vec::maximum(")[0] not in links.counterparts(exponential)


def test_a_group_leads_to_the_lines_of_its_kernel_and_they_do_not_lead_to_all_of_the_group():
    capture = tiny_head()
    links, fused = Links(capture), lines_with(capture, "groups", "group 1:")[0]
    exponential = lines_with(capture, "code", ".exp()")[0]
    assert exponential in links.down(fused)
    assert fused not in links.up(exponential)


# -- tour -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ALL_CAPTURES, ids=lambda path: path.name)
def test_every_capture_has_a_tour_over_lines_that_exist(path):
    capture = read(path)
    panes = {pane["id"]: pane for pane in capture["panes"]}
    stops = tour([capture])
    assert stops
    for stop in stops:
        assert panes[stop["pane"]]["lines"][stop["line"] - 1].strip()
        assert stop["title"]
        assert "None" not in stop["text"]
        assert stop["text"].count("`") % 2 == 0


def stage_of(stops, capture):
    panes = {pane["id"]: pane["kind"] for pane in capture["panes"]}
    return [panes[stop["shows"]] for stop in stops]


def test_the_tour_of_a_softmax_goes_from_the_users_line_to_the_machine():
    capture = tiny_head_simulated()
    stops = tour([capture])
    assert stage_of(stops, capture)[:3] == ["source", "dynamo", "aten"]
    assert {"groups", "code", "sass"} <= set(stage_of(stops, capture))
    assert "F.softmax" in stops[0]["text"]


def test_a_bare_matmul_is_shown_as_what_a_library_computes_and_no_kernel_is_spoken_of():
    stops = tour([read(DATA / "matmul_cpu.json.gz")])
    assert "mm" in stops[-1]["text"]
    assert not any("kernel," in stop["title"] or "fuses" in stop["title"] for stop in stops)


def test_the_tour_goes_on_to_the_backward_and_to_the_other_capture():
    both = tour([with_backward(tiny_head()), tiny_head_simulated()])
    assert [stop["pane"].split(".")[-1] for stop in both[-2:]] == ["backward", "forward"]
    assert [stop["capture"] for stop in both[-2:]] == [0, 1]


def test_without_fusion_decisions_the_tour_does_not_speak_of_fusion():
    capture = tiny_head()
    before = len(tour([capture]))
    capture["graphs"][0]["decisions"] = []
    after = tour([capture])
    assert len(after) == before - 2
    assert not any("scheduler" in stop["title"] or "refuses" in stop["title"] for stop in after)


# -- script ---------------------------------------------------------------------------------------------------------


def run_script(*arguments):
    return script("explorer", "params.language=en", *arguments)


def test_the_script_shows_two_captures_side_by_side(tmp_path):
    write_artefact(tmp_path / "cpu.json", {**tiny_head(), "provenance": {}})
    write_artefact(tmp_path / "simulated.json", {**tiny_head_simulated(), "provenance": {}})
    captures = f"[{tmp_path / 'cpu.json'}, {tmp_path / 'simulated.json'}]"
    result = run_script(f"input.captures={captures}", f"output.page={tmp_path / 'explorer.html'}")
    assert result.returncode == 0, result.stderr
    assert len(data_of(tmp_path / "explorer.html")["captures"]) == 2


def test_the_script_refuses_a_capture_that_is_not_there_in_one_sentence(tmp_path):
    result = run_script(f"input.captures={tmp_path / 'no.json'}", f"output.page={tmp_path / 'explorer.html'}")
    assert result.returncode == 1
    assert "does not exist" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_script_shows_the_profile_that_lies_beside_a_capture(tmp_path):
    for name, capture in [("cpu", tiny_head()), ("simulated", tiny_head_simulated())]:
        (tmp_path / name).mkdir()
        write_artefact(tmp_path / name / "capture.json", {**capture, "provenance": {}})
    write_artefact(tmp_path / "simulated/profile.json", {**profile_of(tiny_head_simulated()), "provenance": {}})
    captures = f"[{tmp_path / 'cpu/capture.json'}, {tmp_path / 'simulated/capture.json'}]"
    profiles = f"input.profiles={tmp_path / 'simulated/profile.json'}"
    result = run_script(f"input.captures={captures}", profiles, f"output.page={tmp_path / 'explorer.html'}")
    assert result.returncode == 0, result.stderr
    assert [bool(each["profile"]) for each in data_of(tmp_path / "explorer.html")["captures"]] == [False, True]


# -- intrinsics -----------------------------------------------------------------------------------------------------


def test_every_intrinsic_has_its_words_in_every_language_and_a_pattern_that_finds_its_name():
    for language in ("en", "es"):
        words = Translations("minicompile.explain", "intrinsics", language)
        assert all(words(entry["key"]) for entry in table())
    assert len({entry["key"] for entry in table()}) == len(table())


@pytest.mark.parametrize(
    ("line", "language", "key"),
    [
        ("tmp0 = tl.load(in_ptr0 + (x0), xmask)", "python", "tl_load"),
        ("tmp1 = triton_helpers.max2(tmp0, 1)", "python", "helpers_max2"),
        ("tmp1 = triton_helpers.max2_strict(tmp0, 1)", "python", "helpers_max2_strict"),
        ("tmp1 = triton_helpers.fmax2(tmp0, 1)", "python", "helpers_fmax2"),
        ("tmp1 = triton_helpers.fmaximum(tmp0, tmp2)", "python", "helpers_fmaximum"),
        ("a, b = triton_helpers.online_softmax_reduce_scalar_combine(a, b, c)", "python", "helpers_online_softmax"),
        ("tmp1 = triton_helpers.of_a_torch_to_come(a, b)", "python", "helpers_other"),
        ("tmp1 = tl.sum(tmp0, 1)", "python", "tl_sum"),
        ("tmp1 = tl.maximum(tmp0, tmp2)", "python", "tl_maximum"),
        ("auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0);", "cpp", "vec_loadu"),
        ("#pragma omp parallel num_threads(2)", "cpp", "omp_parallel"),
        ("auto t = decltype(a)::blendv(a, b, m);", "cpp", "vec_blendv"),
    ],
)
def test_an_intrinsic_is_found_by_the_first_pattern_that_has_it(line, language, key):
    matching = [each["key"] for each in table() if each["language"] == language and re.search(each["pattern"], line)]
    assert matching[0] == key


def test_every_function_of_the_installed_torch_for_triton_kernels_has_words_of_its_own():
    jitted = [one for one in vars(triton_helpers).items() if isinstance(one[1], JITFunction)]
    built_in = [one for one in vars(triton_helpers).items() if getattr(one[1], "__triton_builtin__", False)]
    names = [name for name, made in [*jitted, *built_in] if made.__module__ == triton_helpers.__name__]
    offered = [name for name in names if not name.startswith("_")]
    assert len(offered) > 40
    python = [entry for entry in table() if entry["language"] == "python"]
    found = {
        name: next(entry["key"] for entry in python if re.search(entry["pattern"], f"triton_helpers.{name}("))
        for name in offered
    }
    assert [name for name, key in found.items() if key == "helpers_other"] == []
    along = [name for name, made in jitted if name in offered and {"dim", "axis"} & {*made.arg_names}]
    reducing = [name for name in along if name != "select_one"]  # which takes one out, and is no reduction
    assert len(reducing) > 8
    line = "    tmp1 = triton_helpers.{}(tmp0, 1)"
    assert [one for one in reducing if said(line.format(one), "expressions", "python") is None] == []


def test_the_page_is_given_the_intrinsics_that_its_kernels_use_and_no_others():
    keys = {entry["key"] for entry in payload([tiny_head()], [None])["intrinsics"]}
    assert {"vec_loadu", "vec_reduce_all", "omp_for"} <= keys
    assert not {"tl_load", "blendv", "tl_dot"} & keys
