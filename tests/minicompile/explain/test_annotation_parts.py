"""The annotation's parts: which kernel is chosen, pointer arithmetic, patterns, comments."""

import copy
import re

import pytest
from annotation_models import load
from hypothesis import given
from hypothesis import strategies as st

from minicompile.explain.annotation.choice import holds_softmax, most_interesting
from minicompile.explain.annotation.lines import commented
from minicompile.explain.annotation.patterns import SECTIONS, _patterns, meaning, not_as_named, said
from minicompile.explain.annotation.pointers import plain
from minilab.translations import Translations

UNTIED = Translations("minicompile.explain", "annotation")("lines.operation")


@pytest.mark.parametrize(
    ("name", "target"), [("tiny_head", "cpu"), ("tiny_head", "simulated"), ("cross_entropy", "cpu")]
)
def test_a_softmax_is_recognised_by_its_structure(name, target):
    assert holds_softmax(most_interesting(load(name, target)))


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm_silu", "chain"])
def test_other_reductions_are_no_softmax(name):
    assert not holds_softmax(most_interesting(load(name, "cpu")))


def test_a_sum_of_exponentials_without_the_maximum_is_no_softmax():
    capture = load("tiny_head", "cpu")
    sub = next(node for node in capture["graphs"][0]["nodes"] if node["name"] == "sub")
    sub["inputs"] = ["addmm", "addmm"]
    assert not holds_softmax(most_interesting(capture))


def with_twin(capture: dict, **changes) -> dict:
    """The capture with a second call of its generated kernel, changed."""
    calls = capture["graphs"][0]["calls"]
    call = next(call for call in calls if not call["extern"])
    calls.append({**copy.deepcopy(call), "id": "twin", **changes})
    return capture


def test_of_two_softmax_kernels_the_one_that_moves_more_is_chosen():
    capture = load("tiny_head", "cpu")
    assert most_interesting(with_twin(capture, bytes=10**6)).call["id"] == "twin"
    assert most_interesting(with_twin(load("tiny_head", "cpu"), bytes=1)).call["id"] != "twin"


def test_a_softmax_goes_before_a_kernel_that_does_more():
    capture = with_twin(load("tiny_head", "cpu"), bytes=10**9, scheduler_nodes=["op2"], aten_nodes=["sub", "exp"])
    assert most_interesting(capture).call["id"] != "twin"


def test_without_a_softmax_the_kernel_of_most_operations_is_chosen():
    capture = with_twin(load("chain", "cpu"), bytes=10**9, scheduler_nodes=[], aten_nodes=["sin"])
    assert most_interesting(capture).call["id"] != "twin"


def test_a_library_alone_leaves_nothing_to_choose():
    assert most_interesting(load("matmul", "cpu")) is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("static_cast<int64_t>(x1 + 600L*x0)", "x1 + 600*x0"),
        ("(r0_1 + 600*x0)", "r0_1 + 600*x0"),
        ("(x0)", "x0"),
        ("static_cast<int64_t>(0L)", "0"),
        ("static_cast<int64_t>(tmp13[x0_inner] + 600L*x0)", "tmp13[x0_inner] + 600*x0"),
        ("(x0 + 1)*(x1 + 2)", "(x0 + 1)*(x1 + 2)"),
    ],
)
def test_pointer_arithmetic_is_shown_plainly(written, meant):
    assert plain(written) == meant


terms = st.tuples(st.sampled_from(["x0", "x1", "r0_1"]), st.integers(1, 10**6)).map(lambda term: f"{term[1]}*{term[0]}")


@given(st.lists(terms, min_size=1, max_size=4).map(" + ".join))
def test_casts_and_suffixes_change_no_index(index):
    written = "static_cast<int64_t>(" + re.sub(r"(\d+)\*", r"\1L*", index) + ")"
    assert plain(written) == index


SAMPLES = [  # of what the fixtures' kernels do not hold, as torch/_inductor/codegen writes it
    ("cpp", "expressions", "tmp_acc0_vec = welford_combine(tmp_acc0_vec, tmp3, &wrecps0);", "Welford's update"),
    ("cpp", "expressions", "tmp_acc0 = welford_combine(tmp_acc0, welford_vec_reduce_all(tmp_acc0_vec));", "join"),
    ("cpp", "expressions", "tmp_acc0_vec = cascade_sum_combine(tmp0, &scascade_helper0);", "cascade sum"),
    ("cpp", "expressions", "atomic_add(&out_ptr0[static_cast<int64_t>(x0)], tmp1);", "atomic addition"),
    ("python", "expressions", "tmp3_mean_next = triton_helpers.welford_reduce(", "Welford's update"),
    ("python", "expressions", "tmp3, tmp4, tmp5 = triton_helpers.welford(", "Welford statistics"),
    ("python", "expressions", "tl.atomic_add(out_ptr0 + (tmp4), tmp6, xmask, sem='relaxed')", "atomic addition"),
]


@pytest.mark.parametrize(("language", "section", "line", "words"), SAMPLES)
def test_lines_are_recognised(language, section, line, words):
    assert words in said(line, section, language)


@pytest.mark.parametrize("language", ["cpp", "python"])
@pytest.mark.parametrize("section", SECTIONS)
def test_lines_of_no_kernel_are_not_recognised(section, language):
    for line in ("", "x", "softmax", "welford", "the sum of max", "int y = 3;"):
        assert said(line, section, language) is None


@pytest.mark.parametrize("language", ["cpp", "python"])
@pytest.mark.parametrize("section", SECTIONS)
def test_every_sentence_can_be_filled_in(section, language):
    sentences = Translations("minicompile.explain", "kernel_lines").under(section)
    for pattern, key in _patterns(section, language):
        names = set(re.findall(r"\{(\w+)\}", sentences[key.removeprefix(f"{section}.")]))
        assert names <= set(pattern.groupindex)


def test_a_name_that_the_text_keeps_is_not_contradicted():
    plain_sums = [(1, "tmp7 = tl.sum(tmp6, 1)[:, None]")]
    assert "Welford" in not_as_named("welford_reduce", plain_sums)
    assert not_as_named("welford_reduce", [*plain_sums, (2, "a, b, c = triton_helpers.welford(")]) is None
    assert not_as_named("welford_reduce", []) is None
    assert not_as_named("sum", plain_sums) is None
    assert meaning("max") == "the largest value"
    assert meaning("median") is None


@pytest.mark.parametrize("section", SECTIONS)
def test_every_sentence_has_its_pattern(section):
    keys = {
        key.removeprefix(f"{section}.") for language in ("cpp", "python") for _, key in _patterns(section, language)
    }
    assert keys == set(Translations("minicompile.explain", "kernel_lines").under(section))


def test_a_loops_end_is_named():
    text = "\n".join(commented(most_interesting(load("tiny_head", "cpu"))))
    assert re.search(r"\}  // \d+: ends the loop over x0", text)
    assert text.count("ends the loop over x1") == text.count("for(int64_t x1=")


def test_no_line_of_the_fixtures_kernels_is_left_unexplained():
    for name in ("tiny_head", "layer_norm", "chain", "cross_entropy"):
        for target in ("cpu", "simulated"):
            text = "\n".join(commented(most_interesting(load(name, target))))
            assert UNTIED not in text, (name, target)


def test_a_line_is_called_structure_where_nothing_is_known():
    capture = load("tiny_head", "cpu")
    capture["links"] = []
    pane = next(pane for pane in capture["panes"] if pane["kind"] == "code")
    view = most_interesting(capture)
    pane["lines"][view.kernel["first"] + 5] = "        something_new();"
    assert UNTIED in "\n".join(commented(view))
