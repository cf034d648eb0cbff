"""explore writes what a block of code compiled, and changes nothing of it."""

import contextlib
import json
import re

import pytest
import torch
from captured import FAST
from declared_faults import check_says, fault, words_of
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.utils import run_and_get_code

import minicompile
from minicompile import exploring
from minicompile.lowering.inner_graphs import called
from minilab import LabError
from minilab.config.check import check_schema, read_schema

SCHEMA = read_schema("schemas/capture.schema.yaml")


class Halves(nn.Module):
    def forward(self, x):
        x = x.sin()
        torch._dynamo.graph_break()
        return x.cos() + 1


@pytest.fixture(scope="module")
def explored(tmp_path_factory):
    torch._dynamo.reset()
    folder = tmp_path_factory.mktemp("explored")
    x = torch.arange(6.0).reshape(2, 3)
    model, lstm = torch.compile(Halves(), options=FAST), torch.compile(nn.LSTM(3, 3))
    alive = []
    with contextlib.suppress(ZeroDivisionError), minicompile.explore(folder) as seen:
        assert torch.allclose(model(x), Halves()(x))
        alive += [capture["model"]["name"] for capture in seen.captures]
        lstm(x)
        alive.append(1 / 0)
    return folder, seen, alive


def test_captures_are_there_while_it_lasts_and_after_an_exception(explored):
    _, seen, alive = explored
    assert alive == ["Halves"]
    assert [capture["model"]["name"] for capture in seen.captures] == ["Halves", "LSTM"]
    for capture in seen.captures:
        check_schema(capture, SCHEMA, "the capture")
    assert [graph["id"] for graph in seen.captures[0]["graphs"]] == ["0.forward", "1.forward"]
    given = [{"kind": "tensor", "size": [2, 3], "dtype": "float32"}]
    assert [capture["model"]["inputs"] for capture in seen.captures] == [given, given]


def test_each_model_has_its_folder_and_the_index_links_to_them(explored):
    folder, seen, _ = explored
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    pages = {"Halves/explorer.html", "Halves/annotation.md"}
    made = {f"{model}/{file}" for model in ("Halves", "LSTM") for file in ("capture.json", "watched.json.xz")}
    assert files == {"index.html", *made, *pages}
    assert seen.pages == [folder / "Halves/explorer.html"]
    assert json.loads((folder / "LSTM/capture.json").read_text())["graphs"] == []
    index = seen.index.read_text()
    assert 'href="Halves/explorer.html"' in index
    assert "torch._dynamo.graph_break()</pre>" in index
    assert "It lies between graph 0 and graph 1." in index
    assert "Dynamo does not support RNN, GRU, or LSTM." in index
    assert "the rest of forward from line" in index


def told_of_runs(folder):
    """What pages say of the runs that verify them."""
    text = (folder / "annotation.md").read_text()
    return re.findall(r"^> (What is told of its .*|Nothing of this compile was run .*|.*could not be.*)$", text, re.M)


def test_what_was_explored_is_verified_at_the_end_or_not_as_asked(explored, tmp_path):
    assert told_of_runs(explored[0] / "Halves")[0].startswith("What is told of its 2 kernels' calls is verified by val")
    torch._dynamo.reset()
    with minicompile.explore(tmp_path, verify="none"):
        torch.compile(torch.sin, options=FAST)(torch.ones(3))
    assert told_of_runs(tmp_path)[0].startswith("Nothing of this compile was run to verify it")


def test_what_there_is_no_time_left_for_is_said(tmp_path, monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(exploring, "SOME", 0.0)
    with minicompile.explore(tmp_path) as seen:
        torch.compile(torch.sin, options=FAST)(torch.ones(3))
    assert seen.captures[0]["graphs"][0]["verified"]["refused"] == "no_time"
    assert "there was no time left" in (tmp_path / "annotation.md").read_text()


def test_pages_are_there_before_anything_is_run_to_verify_them(tmp_path, monkeypatch, capsys):
    def dies(*_):
        assert {"index.html", "explorer.html"} <= {path.name for path in tmp_path.iterdir()}
        raise RuntimeError("the run ended")

    torch._dynamo.reset()
    monkeypatch.setattr(exploring, "add_ties", dies)
    with minicompile.explore(tmp_path):
        torch.compile(torch.sin, options=FAST)(torch.ones(3))
    assert "could not be verified: RuntimeError: the run ended" in capsys.readouterr().err
    assert told_of_runs(tmp_path)[0].startswith("Nothing of this compile was run to verify it")


def test_what_a_block_looks_at_itself_is_as_without_and_what_its_own_backend_hands_on_is_seen_once(tmp_path):
    def own_backend(graph, inputs):
        return compile_fx_inner(graph, inputs)

    def shown(x):
        return x.sin()

    x = torch.ones(8)
    uncached = {**FAST, "force_disable_caches": True}
    with torch._inductor.config.patch(uncached), minicompile.explore(tmp_path) as seen:
        _, codes = run_and_get_code(torch.compile(shown), x)
        torch.compile(lambda x: x.sin(), backend=aot_autograd(fw_compiler=own_backend))(x)
        own = minicompile.capture(torch.cos, x, target="simulated")
    assert len(codes) == 1
    assert [len(capture["graphs"]) for capture in seen.captures] == [1, 0, 0]
    assert seen.unseen == [{"code": "other_door", "count": 2}]
    assert called(own["graphs"][0]) == {"kernels": 1, "libraries": 0}


def test_machine_code_is_shown_where_it_is_asked_for(explored):
    def listings(seen):
        return [kernel.get("listing") for graph in seen.captures[0]["graphs"] for kernel in graph["kernels"]]

    with minicompile.explore(assembly=True) as asked:
        torch.compile(lambda x: x.sin(), options=FAST)(torch.ones(8))
    assert listings(explored[1]) == [None, None]
    assert listings(asked) == ["asm.0.forward.0"]


@fault("nothing was compiled", "Nothing was compiled by torch.compile's default backend.", "The page has this alone.")
def test_nothing_compiled_is_said(tmp_path, says):
    for language, sentence in {"en": says, "es": "El backend por defecto de torch.compile no compiló nada."}.items():
        with minicompile.explore(tmp_path, language=language) as seen:
            pass
        assert seen.captures == []
        check_says(words_of(seen.index), sentence)


class Named(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, x):
        return x.sin() * (2.0 if self.name.endswith("0") else 1.0)

    def encode(self, x):
        return self.forward(x)


@fault(
    "a function reaches the limit on recompiles",
    "Dynamo compiles Named.forward (...) no more: it reached recompile_limit = 2. ...",
    "What was compiled before is shown.",
)
def test_what_ran_eager_though_it_was_given_to_torch_compile_is_said(tmp_path, says):
    torch._dynamo.reset()
    blocks = [Named(f"block {n}") for n in range(4)]
    unreached = Named("around")
    with torch._dynamo.config.patch(recompile_limit=2), minicompile.explore(tmp_path) as seen:
        for block in blocks:
            block.compile(options=FAST)
        unreached.compile()
        for block in blocks:
            block(torch.ones(8))
        unreached.encode(torch.ones(8))
    for capture in seen.captures:
        check_schema(capture, SCHEMA, "the capture")
    (limit,) = [one for capture in seen.captures for one in capture["warnings"]]
    assert (limit["code"], limit["function"], limit["limit"], limit["value"]) == (
        "limit_reached",
        "Named.forward",
        "recompile_limit",
        2,
    )
    assert "self.name == 'block 1'" in limit["reason"]
    assert len(seen.captures) == 2
    text = words_of(seen.index)
    check_says(text, says)
    assert "2 of Named, compiled at tests/minicompile/test_exploring.py:" in text
    assert "calls in all: 2; each that the guards of no earlier compile let pass ran eager." in text
    assert "its compiled call was never reached." in text


@fault(
    "what was given to torch.compile is never called as compiled",
    "encode, compiled at ...:...: its compiled call was never reached....",
    "No graph is shown, and it is not said that nothing was compiled.",
)
def test_where_the_compiled_call_is_gone_round_that_is_said_and_not_that_nothing_was_compiled(tmp_path, says):
    with minicompile.explore(tmp_path) as seen:
        torch.compile(Named("alone"), backend="eager")
        asked = torch.compile(Named.encode)
    assert asked is not None
    assert seen.captures == []
    text = words_of(seen.index)
    check_says(text, says)
    assert "Nothing was compiled" not in text
    assert "Named, compiled" not in text


def test_a_graph_that_another_backend_has_is_said_and_no_code_of_this_machine_is_promised_for_it(tmp_path):
    def elsewhere(x):
        return x.sin() + 1

    with minicompile.explore(tmp_path) as seen:
        torch.compile(elsewhere, backend="aot_eager")(torch.ones(8))
    (capture,) = seen.captures
    assert [one["code"] for one in capture["warnings"]] == ["went_elsewhere", "no_graph"]
    check_schema(capture, SCHEMA, "the capture")
    text = seen.index.read_text()
    assert "Dynamo made a graph that did not come to torch.compile" in text
    assert "C++ for this machine" not in text


def test_a_capture_shows_itself_in_a_notebook_and_is_plain_data(tmp_path):
    made = minicompile.capture(Halves(), torch.ones(2, 3), target="simulated")
    shown = made._repr_html_()
    assert "It lies between graph 0 and graph 1." in shown
    assert '<iframe srcdoc="&lt;!doctype html&gt;' in shown
    assert json.loads(json.dumps(made)) == made
    alone = minicompile.capture(nn.LSTM(3, 3), torch.ones(2, 3), target="simulated")
    assert "<iframe" not in alone._repr_html_()
    page = minicompile.render_explorer(alone, tmp_path / "explorer.html")
    for text in (alone._repr_html_(), page.read_text()):
        assert "Dynamo does not support RNN, GRU, or LSTM." in text


def test_a_what_if_shows_its_page_in_a_notebook_and_is_plain_data():
    found = minicompile.what_if(torch.relu, (torch.ones(4),), "fusion", target="simulated")
    assert '<iframe srcdoc="&lt;!doctype html&gt;' in found._repr_html_()
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("misuse", "sentence"),
    [
        (lambda: minicompile.capture("model", torch.ones(2)), "the model to capture is of type str"),
        (lambda: minicompile.capture(None), "the model to capture is of type NoneType"),
        (lambda: minicompile.capture(Halves, torch.ones(2)), "the model to capture is the class Halves"),
        (lambda: minicompile.what_if(Halves(), (), "fusion", kwargs=["a"]), "kwargs of what_if is of type list"),
        (lambda: minicompile.capture(Halves(), (), [torch.ones(2)]), "kwargs of capture is of type list"),
        (lambda: minicompile.capture(Halves(), (), options=["a"]), "options of capture is of type list"),
        (lambda: minicompile.annotate(None), "what was given is no capture but of type NoneType"),
        (lambda: minicompile.annotate([]), "what was given is no capture but of type list"),
        (lambda: minicompile.annotate({}), "what was given is no capture: it has no"),
        (lambda: minicompile.render_explorer(None, "page.html"), "what was given is no capture but of type NoneType"),
        (lambda: minicompile.render_explorer([{}], "page.html"), "what was given is no capture: it has no"),
        (lambda: minicompile.explore(verify="most").__enter__(), "verify is 'most'; give one of all, some, none."),
        (lambda: minicompile.explore(3).__enter__(), "the folder to explore into is of type int"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused_in_one_sentence(misuse, sentence):
    with pytest.raises(LabError) as refused:
        misuse()
    assert str(refused.value).startswith(sentence)


def test_a_page_that_cannot_be_written_is_said_in_one_sentence(explored, tmp_path):
    made = explored[1].captures[0]
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="the page cannot be written to"):
        minicompile.render_explorer(made, tmp_path / "file" / "page.html")
