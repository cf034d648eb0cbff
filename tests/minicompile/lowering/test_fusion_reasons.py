"""Why two nodes were not fused, by what the scheduler was given of them rather than by its words."""

import re
from functools import cache
from pathlib import Path

import pytest
from zoo_fusion_proofs import fusions
from zoo_models import Captured, captured_anew

from minicompile.explain.wording import Wording
from minicompile.lowering.fusion_reasons import Given, reason

CASES = Path(__file__).parents[1] / "cases"
NOT_SHARED, NOT_MATCHED = "no shared data", "memory deps did not match"


@cache
def case(name: str, target: str) -> Captured:
    return captured_anew(name, target, CASES)


def told(name: str, target: str, words: str) -> dict[str, set[str]]:
    """The sentences for refusals in these words of Inductor's, each with the pairs of nodes that it is said of."""
    [graph] = case(name, target).capture["graphs"]
    found: dict[str, set[str]] = {}
    for one in graph["decisions"]:
        if not one["taken"] and one["reasons"][-1:] == [words]:
            sentence = re.split(r"(?<=[.])\s", Wording("en").fusion(one["reason"]))[1]
            found.setdefault(sentence, set()).add(f"{'+'.join(one['first'])} {'+'.join(one['second'])}")
    return found


def test_what_has_to_wait_until_a_memory_is_read_changes_nothing_that_the_reader_has_written():
    before = told("averaged_weights", "cpu", NOT_SHARED)
    # the counter goes up in op22, once both averages have read it, into memory of their own
    assert before["One of the two changes `arg0_1` in place, which the other reads as it was before."] == {
        "op0 op22",
        "op1 op22",
    }
    assert not [sentence for sentence in before if "has written" in sentence]


def _graph(name: str, target: str = "cpu") -> dict:
    return case(name, target).capture["graphs"][0]


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_a_list_that_is_shifted_in_place_waits_for_its_reader_and_their_indices_are_told_of_the_memory(target):
    [(sentence, pairs)] = told("shifted_history", target, NOT_MATCHED).items()
    assert sentence == "The second changes `arg0_1` in place and has to wait until the first has read that."
    assert len(pairs) == 1


def test_a_memory_that_a_users_operator_changes_between_is_led_back_to():
    told_of = told("kept_before_written", "simulated", NOT_SHARED)
    assert told_of["One of the two changes `arg0_1` in place, which the other reads as it was before."] == {
        "op0 op6",
        "op0 op5+op6+op7",
    }
    assert told_of["No buffer is read or written by both."] == {"op4 op6", "op4 op5+op6+op7"}
    # what both touch is named as the memory too: the operator changed buf0, which the second reads after that
    [first, *_] = [one for one in _graph("kept_before_written", "simulated")["decisions"] if one["first"] == ["op0"]]
    assert first["shared_buffers"] == ["arg0_1", "buf0"]


@pytest.mark.parametrize("name", ["averaged_weights", "shifted_history", "kept_before_written"])
@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_the_proof_of_reasons_holds_on_changes_in_place_and_refuses_the_other_reasons(name, target):
    one = case(name, target)
    assert not fusions(one, None).false
    for graph in one.capture["graphs"]:
        for decision in graph["decisions"]:
            if decision["reason"]["code"] not in ("overwritten", "waits"):
                continue
            said = decision["reason"]
            for code in ("changed", "other_order", "nothing_shared", "handed"):
                decision["reason"] = {**said, "code": code}
                assert fusions(one, None).false
            decision["reason"] = said


def printed(name: str, *, outputs: dict[str, str | None], depends: str, body: str = "") -> str:
    """A node as Inductor prints it, with what a memory was called that an output of its changes."""
    lines = [f"{name}: SchedulerNode(ComputedBuffer)", f"{name}.unmet_dependencies = [{depends}]"]
    for output, memory in outputs.items():
        lines += [f"    {output}: ComputedBuffer", *([f"    {output}.mutations = ['{memory}']"] if memory else [])]
    return "\n".join([*lines, f"class {name}_loop_body:", body])


def node(reads: dict[str, str], writes: list[str], *, loop: bool = True) -> dict:
    return {
        "template": False,
        "user_triton": False,
        "operations": [{}] if loop else [],
        "reads": [{"buffer": buffer, "index": index, "sizes": [4]} for buffer, index in reads.items()],
        "writes": [{"buffer": buffer, "index": "c0", "sizes": [4]} for buffer in writes],
    }


def test_who_changes_a_memory_twice_is_led_back_step_by_step():
    nodes = {
        "makes": node({"x": "c0"}, ["buf0"]),
        "adds": node({"buf0": "*", "y": "c0"}, ["buf1"]),
        "reads": node({"buf1": "c0"}, ["buf2"]),
        "halves": node({"buf1": "*", "buf2": "*"}, ["buf3"]),
    }
    texts = {
        "makes": printed("makes", outputs={"buf0": None}, depends=""),
        "adds": printed("adds", outputs={"buf1": "buf0"}, depends="StarDep(name='buf0', mode=None)"),
        "reads": printed("reads", outputs={"buf2": None}, depends="MemoryDep('buf1', c0, {c0: 4})"),
        "halves": printed(
            "halves",
            outputs={"buf3": "buf0"},
            depends="StarDep(name='buf1', mode=None), WeakDep(name='buf2', mutating_buf='buf3', is_fake=True)",
        ),
    }
    given = Given(nodes, texts)
    assert given.earlier("buf3") == ["buf3", "buf1", "buf0"]

    def why(first: str, second: str, words: str) -> dict:
        return reason({"first": [first], "second": [second], "taken": False, "reasons": [words]}, nodes, set(), given)

    assert why("makes", "adds", NOT_SHARED) == {"code": "changed", "buffers": ["buf0"]}
    assert why("makes", "reads", NOT_SHARED) == {"code": "left_by_another", "buffers": ["buf0"]}
    assert why("reads", "halves", NOT_SHARED) == {"code": "overwritten", "buffers": ["buf0"]}
    assert why("reads", "halves", NOT_MATCHED) == {"code": "waits", "buffers": ["buf0"]}
    assert why("adds", "halves", NOT_MATCHED) == {"code": "changes_later", "buffers": ["buf0"]}
    assert why("makes", "reads", NOT_MATCHED) == {"code": "between"}


@pytest.mark.parametrize(("changed", "index", "expected"), [
    ("buf0", "c0", {"code": "renamed", "buffers": ["buf0"]}),
    ("x", "c0", {"code": "unmatched"}),
    ("buf0", "c0 + 1", {"code": "other_order"}),
])  # fmt: skip
def test_what_is_read_as_it_was_written_is_not_said_to_be_read_in_another_order(changed, index, expected):
    nodes = {
        "makes": node({"x": "c0"}, ["buf0"]),
        "reads": node({"buf0": index}, ["buf1"]),
        "adds": node({changed: "*", "buf1": "c0"}, ["buf2"]),
    }
    texts = {
        "makes": printed("makes", outputs={"buf0": None}, depends=""),
        "reads": printed("reads", outputs={"buf1": None}, depends=f"MemoryDep('buf0', {index}, {{c0: 4}})"),
        "adds": printed("adds", outputs={"buf2": changed}, depends=f"StarDep(name='{changed}', mode='atomic_add')"),
    }
    decision = {"first": ["makes"], "second": ["reads"], "taken": False, "reasons": [NOT_MATCHED]}
    assert reason(decision, nodes, set(), Given(nodes, texts)) == expected


def test_what_a_length_follows_from_is_not_read_and_a_table_that_a_loop_searches_is():
    nodes = {name: node({"found": "*", "table": "*"}, [f"buf_{name}"]) for name in ("a", "b")}
    text = (
        "    def body(self, ops):\n        bucketize = ops.bucketize(load, ('table', 5, 1, 5), 0, torch.int64, False)"
    )
    depends = "StarDep(name='found', mode=None), StarDep(name='table', mode=None)"
    texts = {name: printed(name, outputs={f"buf_{name}": None}, depends=depends, body=text) for name in nodes}
    assert Given(nodes, texts).read(["a"]) == {"table"}
    # a call is given both
    called = {name: node({"found": "*", "table": "*"}, [], loop=False) for name in nodes}
    assert Given(called, texts).read(["a"]) == {"found", "table"}
