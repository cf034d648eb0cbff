"""What of a graph comes from which line of the model."""

from pathlib import Path

import pytest
from zoo_models import captured, captured_anew

CASES = Path(__file__).parents[1] / "cases"


def lines_of_copies(capture: dict) -> dict[str, set[str]]:
    """The user's lines that each `copy_` into an input is tied to, as they stand, by the node's name."""
    texts = {pane["id"]: pane["lines"] for pane in capture["panes"]}
    found: dict[str, set[str]] = {}
    for graph in capture["graphs"]:
        copies = {n["line"]: n["name"] for n in graph["nodes"] if n["target"] == "aten.copy_.default"}
        for link in capture["links"]:
            if link["to"] == graph["panes"]["aten"] and link["kind"] == "source":
                for line, to in link["pairs"]:
                    if to in copies:
                        found.setdefault(copies[to], set()).add(texts[link["from"]][line - 1].strip())
    return found


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_in_training_a_buffer_that_is_changed_comes_from_the_line_that_changes_it(target):
    made = lines_of_copies(captured_anew("averages_train", target, CASES).capture)
    assert sorted(lines.pop() for lines in made.values()) == [
        "self.ratio.copy_(ratio)",
        "self.size.mul_(0.9).add_(h.abs().sum(0), alpha=0.1)",
        "self.total.mul_(0.9).add_(h.sum(0), alpha=0.1)",
    ]
    assert not any(made.values())  # one line each, and the loss's is none of them


def test_running_averages_come_from_the_normalisation_and_from_nothing_after_it():
    capture = captured("batch_norm_train", "cpu").capture
    lines = lines_of_copies(capture)
    assert len(lines) == 3
    assert len(set().union(*lines.values())) == 1
    [graph] = [graph for graph in capture["graphs"] if graph["direction"] == "forward"]
    copies = {node["line"] for node in graph["nodes"] if node["target"] == "aten.copy_.default"}
    dynamo = next(pane for pane in capture["panes"] if pane["id"] == "dynamo.0")["lines"]
    tied = {
        dynamo[line - 1]
        for link in capture["links"] if (link["from"], link["to"]) == ("dynamo.0", graph["panes"]["aten"])
        for line, to in link["pairs"] if to in copies
    }  # fmt: skip
    assert len(tied) == 2  # what counts the batches, and what normalises
    assert all("batch_norm" in text or "add_" in text for text in tied)


def test_parts_that_are_changed_in_place_come_from_the_statement_that_changes_them_alone():
    """Not from every statement, where all operations bear the same number of autograd's."""
    capture = captured("slices_in_place", "cpu").capture
    [graph] = capture["graphs"]
    panes = {pane["id"]: pane["lines"] for pane in capture["panes"]}
    tied: dict[str, list[str]] = {}
    for link in capture["links"]:
        if (link["from"], link["to"]) == ("dynamo.0", graph["panes"]["aten"]):
            for line, to in link["pairs"]:
                name = next((node["name"] for node in graph["nodes"] if node["line"] == to), "")
                tied.setdefault(name, []).append(panes["dynamo.0"][line - 1].split(";")[0].strip())
    assert tied["add"] == ["getitem += l_y_"]
    assert tied["copy_1"] == ["z[(slice(2, 5, None), 1)] = 7"]
    operations = {node["name"] for node in graph["nodes"] if node["op"] == "call_function"}
    assert len(operations & tied.keys()) > 10
    assert {name: lines for name, lines in tied.items() if name in operations and len(lines) != 1} == {}
