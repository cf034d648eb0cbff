"""What a capture lacks is told in a sentence, on its page and in the summary."""

from importlib.resources import files

import pytest
import yaml
from explored import tiny_head

from minicompile.explain.explorer.payload import payload
from minicompile.explain.summary import summary_html
from minicompile.explain.wording import Wording
from minilab.config.check import read_schema

FRAME = {"function": "f", "file": "mine.py", "line": 3}
WARNINGS = [
    {"code": "not_recorded", "what": "joint", "reason": "KeyError: 7"},
    {"code": "not_built", "what": "0.forward", "reason": "KeyError: 7"},
    {"code": "no_graph", "direction": "forward"},
    {"code": "no_graph", "direction": "backward"},
    {"code": "untied", "graph": "0.forward", "what": "compute_nodes", "names": ["add_1", "mul_2"]},
    {"code": "untied", "graph": "0.forward", "what": "kernel_calls", "names": ["0.forward.3"]},
    {"code": "untied", "graph": "0.forward", "what": "loop_body_operations", "names": ["op3.add"]},
    {"code": "unseen", "graph": "0.forward", "what": "scheduler_nodes", "names": ["op1"]},
    {"code": "unseen", "graph": "0.forward", "what": "graphs", "names": ["true_graph_0"]},
    {"code": "unseen", "graph": "0.forward", "what": "stores", "names": ["triton_red_0:93"]},
    {"code": "unseen", "graph": "0.forward", "what": "kernels", "names": ["triton_red_0"]},
    {"code": "untried_torch", "minor": "2.99", "held": ["stores", "kernels"], "failed": ["scheduler_nodes"]},
    {"code": "untried_torch", "minor": "2.99", "held": [], "failed": []},
    {"code": "no_assembly", "what": "0.forward", "reason": "Triton cannot compile it."},
    {"code": "not_exported", "what": "exported.pt2", "reason": "a graph break"},
    {"code": "off_unreadable", "names": ["cpp_wrapper"]},
    {"code": "off_untimed", "names": ["benchmark_fusion", "benchmark_combo_kernel"]},
    {"code": "limit_reached", **FRAME, "limit": "recompile_limit", "value": 8, "reason": "0/7: n == 7"},
    {"code": "went_elsewhere", **FRAME},
]


def test_every_kind_of_warning_is_here():
    known = read_schema("schemas/capture.schema.yaml")["properties"]["warnings"]["items"]["properties"]["code"]["enum"]
    assert {one["code"] for one in WARNINGS} == {*known}


def test_every_target_that_has_words_may_be_in_a_comparison():
    allowed = read_schema("schemas/diff_compiles.schema.yaml")["$defs"]["target"]["properties"]["code"]["enum"]
    words = yaml.safe_load(files("minicompile.explain").joinpath("locale/en/capture.yaml").read_text())
    assert {*allowed} == {*words["target"]}


@pytest.mark.parametrize("language", ["en", "es"])
@pytest.mark.parametrize("warning", WARNINGS, ids=lambda one: f"{one['code']} {one.get('what', '')}")
def test_a_warning_is_a_sentence_with_all_that_it_knows(warning, language):
    told = Wording(language).warning(warning)
    named = [warning[key] for key in ("reason", "graph", "minor") if key in warning] + warning.get("names", [])
    assert all(name in told for name in named)
    assert "{" not in told
    assert told[0].isupper() or told.startswith(warning.get("what", " "))


def test_the_pages_tell_them():
    capture = {**tiny_head(), "warnings": WARNINGS}
    sentences = [Wording("en").warning(one) for one in WARNINGS]
    assert payload([capture], [None])["captures"][0]["warnings"] == sentences
    told = summary_html(capture).replace("&#39;", "'").unescape()
    assert all(sentence in told for sentence in sentences)
