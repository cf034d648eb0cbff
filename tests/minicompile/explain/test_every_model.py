"""What is said of a model is true, whatever the model: every kind of sentence, proved by another way than it was made.

The models are the files of `zoo/`. Bytes: the C++ kernels run so that each access reports its address, and Triton's
interpreter runs the Triton ones. Fates: the graph runs operation by operation, and each result is looked for in the
memory that the kernels left. Names such as softmax: the result is computed by torch's own function. Fusions: Inductor's
printed reads and writes.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from generated_code import inputs_of, loaded
from torch.nn import functional as F
from touched_cpp import Library
from zoo_models import NAMES, Captured, captured, load

from minicompile.explain.annotation import facts
from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.annotation.choice import views_of
from minicompile.explain.annotation.headline import named_whole
from minicompile.explain.explorer.tour import tour
from minicompile.explain.wording import Wording
from minilab.config import check_schema, read_schema

TESTS = Path(__file__).parents[1]
ALL = [(name, target) for name in NAMES for target in load(name).targets]
HALF = {torch.float16: 1e-2, torch.bfloat16: 5e-2}
COMPARED = re.compile(r"^(\w+)\.(?P<way>writes|unmet_dependencies|met_dependencies) =\s*(?P<what>.*?\])$", re.M | re.S)


@pytest.fixture(scope="session")
def zoo() -> dict[tuple[str, str], Captured]:
    return {(name, target): captured(name, target) for name, target in ALL}


def runs_here(one: Captured) -> bool:
    """Whether its code can be run with inputs that are made up: sizes are numbers, and no branch depends on a value."""
    names = [node["name"] for graph in one.capture["graphs"] for node in graph["nodes"]]
    return not one.model.dynamic and not any("." in name for name in names)


def codes_of(zoo: dict[tuple[str, str], Captured], target: str) -> dict[tuple[str, str], str]:
    """By model and graph, the codes for a target that can be run here."""
    return {
        (name, graph["id"]): one.code(graph)
        for (name, its_target), one in zoo.items()
        if its_target == target and runs_here(one)
        for graph in one.capture["graphs"]
    }


@pytest.fixture(scope="session")
def ran_cpp(zoo, tmp_path_factory) -> dict[tuple[str, str], list]:
    """By model and graph of C++, its kernels' calls with the bytes that each touched and its tensors afterwards."""
    codes = codes_of(zoo, "cpu")
    sources = re.findall(r"async_compile\.cpp_pybinding\(\[.*?\], r'''(.*?)'''\)", "\n".join(codes.values()), re.S)
    library, found = Library(sources, tmp_path_factory.mktemp("touched")), {}
    for key, code in codes.items():
        found[key] = []
        loaded(code, library.compiler(found[key]))(inputs_of(code))
    return found


@pytest.fixture(scope="session")
def counted_triton(zoo, tmp_path_factory) -> dict[tuple[str, str], list]:
    """By model and graph of Triton, [kernel, bytes read, bytes written] of its kernels' calls."""
    codes = codes_of(zoo, "simulated")
    folder = tmp_path_factory.mktemp("interpreted")
    (folder / "codes.json").write_text(json.dumps(list(codes.values())))
    done = subprocess.run(
        [sys.executable, str(TESTS / "touched_triton.py"), "codes.json", "counts.json"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(codes, json.loads((folder / "counts.json").read_text()), strict=True))


def generated(graph: dict) -> list[dict]:
    """A graph's calls of generated kernels, in the order in which they run."""
    return sorted((call for call in graph["calls"] if not call["extern"]), key=lambda call: call["line"])


def differences(zoo: dict, counts: dict, target: str) -> tuple[list[str], Counter]:
    """The calls whose bytes are not those that were counted, and how many calls there are of each kind."""
    wrong, kinds = [], Counter()
    for (name, graph_id), calls in counts.items():
        graph = next(one for one in zoo[name, target].capture["graphs"] if one["id"] == graph_id)
        told = generated(graph)
        if isinstance(calls, str) or len(calls) != len(told):
            wrong.append(f"{name} {graph_id}: {calls if isinstance(calls, str) else (len(calls), len(told))}")
            continue
        for call, (read, written) in zip(told, calls, strict=True):
            said = call["read_bytes"], call["written_bytes"]
            exact = call["bytes_are"] == "touched" and said == (read, written)
            bound = call["bytes_are"] == "at_most" and said[0] >= read and said[1] >= written
            kinds[call["bytes_are"]] += 1
            if not (exact or bound):
                wrong.append(f"{name} {call['id']} {call['bytes_are']}: {said}, in truth {(read, written)}")
    return wrong, kinds


def test_the_bytes_of_cpp_kernels_are_those_that_they_touch(zoo, ran_cpp):
    counts = {key: [(read, written) for read, written, _ in calls] for key, calls in ran_cpp.items()}
    wrong, kinds = differences(zoo, counts, "cpu")
    assert not wrong
    assert kinds["touched"] > 5 * kinds["at_most"]


def test_the_bytes_of_triton_kernels_are_those_that_they_touch(zoo, counted_triton):
    counts = {
        key: calls if isinstance(calls, str) else [(read, written) for _, read, written in calls]
        for key, calls in counted_triton.items()
        if key[0] != "user_kernel"  # whose bytes Inductor counts
    }
    wrong, kinds = differences(zoo, counts, "simulated")
    assert not wrong
    assert kinds["touched"] > 5 * kinds["at_most"]


class Values(torch.fx.Interpreter):
    """Runs an ATen graph operation by operation and keeps every result."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)


def values_of(one: Captured, position: int, code: str) -> dict[str, torch.Tensor]:
    """The results of an ATen graph's operations on the inputs of its code; none where eager PyTorch cannot run it."""
    interpreter = Values(one.modules[position])
    try:
        with torch.no_grad():
            interpreter.run(*inputs_of(code))
    except (RuntimeError, NotImplementedError, TypeError, IndexError):
        return {}
    return {
        node.name: value.detach()
        for node, value in interpreter.env.items()
        if isinstance(value, torch.Tensor) and value.dtype.is_floating_point and value.numel() >= 8
    }


def same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors have the same values, in whatever order they lie in memory."""
    if first.numel() != second.numel() or first.dtype != second.dtype:
        return False
    tolerance = HALF.get(first.dtype, 1e-4)
    ordered = [one.flatten().double().sort().values for one in (first, second)]
    return torch.allclose(*ordered, rtol=tolerance, atol=tolerance, equal_nan=True)


def test_a_result_is_in_memory_where_it_is_said_to_be_and_nowhere_else(zoo, ran_cpp):
    wrong, looked_at = [], Counter()
    for (name, graph_id), calls in ran_cpp.items():
        one = zoo[name, "cpu"]
        position, graph = next((n, g) for n, g in enumerate(one.capture["graphs"]) if g["id"] == graph_id)
        code = one.code(graph)
        if any("random" in node["target"] for node in graph["nodes"]):  # the numbers are others here
            continue
        given = {value for call in graph["calls"] for _, value in call["arguments"]}
        loops = [node for node in graph["scheduler_nodes"] if node["operations"]]
        given -= {
            read["buffer"] for node in loops for read in node["reads"] if read["index"] == "*"
        }  # changed in place
        values = values_of(one, position, code)
        memory = [tensor for _, _, tensors in calls for tensor in tensors]
        fates = {node["name"]: node["fate"] for node in graph["nodes"]}
        buffers = {node["name"]: node["buffer"] for node in graph["nodes"]}
        for node, value in values.items():
            if fates[node] not in ("materialised", "inlined", "fused away"):
                continue
            if fates[node] == "materialised" and buffers[node] not in given:  # overwritten in place by the same kernel
                continue
            looked_at[fates[node]] += 1
            found = any(same(value, tensor) for tensor in memory)
            if fates[node] == "materialised":
                if not found:
                    wrong.append(f"{name} {graph_id}: {node} is nowhere in memory")
            elif found:
                others = [
                    each for each in values if each != node and fates[each] in (None, "materialised", "extern call")
                ]
                if not any(same(value, values[each]) for each in others):
                    wrong.append(f"{name} {graph_id}: {node}, {fates[node]}, is in memory")
    assert not wrong, wrong
    assert looked_at["materialised"] > 50
    assert looked_at["inlined"] > 100


REFERENCES = {
    "softmax": lambda x, axes: F.softmax(x, axes[0]),
    "log_softmax": lambda x, axes: F.log_softmax(x, axes[0]),
    "layer_norm": lambda x, axes: (x - x.mean(axes, keepdim=True)) / x.var(axes, keepdim=True, correction=0).sqrt(),
    "rms_norm": lambda x, axes: x * (x * x).mean(axes, keepdim=True).rsqrt(),
}


def test_what_a_kernel_is_called_is_what_it_computes(zoo):
    names = Counter()
    for (_, target), one in zoo.items():
        if not runs_here(one):
            continue
        for view in views_of(one.capture) if target == "cpu" else ():
            whole = named_whole(view)
            if whole is None:
                continue
            position = one.capture["graphs"].index(view.graph)
            inputs = inputs_of(one.code(view.graph))
            interpreter = Values(one.modules[position])
            interpreter.run(*inputs)
            values = {node.name: value for node, value in interpreter.env.items() if isinstance(value, torch.Tensor)}
            given, result = values[whole.fed_by].double(), values[whole.result]
            expected = REFERENCES[whole.name](given, whole.axes).to(result.dtype)
            torch.testing.assert_close(result, expected, rtol=1e-3, atol=1e-4)
            names[whole.name] += 1
    assert set(names) == set(REFERENCES)


def printed_accesses(one: Captured, graph: dict) -> dict[str, dict[str, set[str]]]:
    """By scheduler node the buffers that it reads and writes, off the text that Inductor prints of it before fusion."""
    pane = next(pane for pane in one.capture["panes"] if pane["id"] == graph["panes"]["ir_before"])
    found: dict[str, dict[str, set[str]]] = {}
    for node, way, what in COMPARED.findall("\n".join(pane["lines"])):
        side = found.setdefault(node, {"reads": set(), "writes": set(), "changes": set()})
        side["writes" if way == "writes" else "reads"] |= set(re.findall(r"MemoryDep\('(\w+)'", what))
        side["changes"] |= set(re.findall(r"(?:Star|Weak)Dep\(name='(\w+)'", what))
    return found


def test_why_two_nodes_were_not_fused_agrees_with_what_inductor_prints(zoo):
    wrong, codes = [], Counter()
    for (name, target), one in zoo.items():
        for graph in one.capture["graphs"]:
            accesses = printed_accesses(one, graph)
            for decision in graph["decisions"]:
                code = decision["reason"]["code"]
                if code not in ("handed", "changed", "read_by_both", "nothing_shared"):
                    continue
                first, second = (
                    {way: set().union(*(accesses.get(node, {}).get(way, set()) for node in decision[side]))
                     for way in ("reads", "writes", "changes")} for side in ("first", "second")
                )  # fmt: skip
                handed = first["writes"] & second["reads"] | second["writes"] & first["reads"]
                shared = (first["reads"] | first["writes"]) & (second["reads"] | second["writes"])
                changed = first["writes"] & second["changes"] | second["writes"] & first["changes"]
                truth = "handed" if handed else "changed" if changed else "read_by_both" if shared else "nothing_shared"
                codes[code] += 1
                if truth != code or set(decision["reason"].get("buffers", ())) - shared - changed:
                    wrong.append(
                        f"{name} {target}: {decision['first']} with {decision['second']} {code}, in truth {truth}"
                    )
    assert not wrong
    assert codes["handed"] * codes["changed"] * codes["read_by_both"], codes


def test_scans_and_sorts_are_no_reductions(zoo):
    scans = 0
    for (_, target), one in zoo.items():
        for view in views_of(one.capture):
            text = "\n".join(line for _, line in view.lines)
            ordered = facts.ordered(view)
            if target == "simulated":
                assert bool(ordered) == bool(re.search(r"associative_scan\(|sort_with_index\(|exclusive_scan", text))
            scans += len(ordered)
            for reduction in facts.reductions(view):
                assert not {one["node"] for one in ordered} & set(reduction["nodes"])
    assert scans


COMPUTING = re.compile(r"^\s*(?:auto |float |\w+_t )?tmp\d+ = |associative_scan|sort_with_index")


def test_no_line_that_computes_is_called_structure(zoo):
    wrong = []
    for (name, target), one in zoo.items():
        text = annotate(one.capture)
        for comment, line in re.findall(r"^\s*(?://|#) (\d+: structure.*)\n(.*)$", text, re.M):
            if COMPUTING.match(line):
                wrong.append(f"{name} {target} {comment}: {line.strip()}")
    assert not wrong


def test_every_model_is_captured_and_explained_in_both_languages(zoo):
    schema = read_schema("schemas/capture.schema.yaml")
    gaps = {}
    for (name, target), one in zoo.items():
        check_schema(json.loads(json.dumps(one.capture)), schema, f"{name}.{target}")
        assert one.capture["graphs"]
        for language in ("en", "es"):
            assert annotate(one.capture, language=language).startswith("# ")
            assert tour([one.capture], language)
            for graph in one.capture["graphs"]:
                assert all(Wording(language).fusion(decision["reason"]) for decision in graph["decisions"])
        if one.capture["warnings"]:
            gaps[name, target] = one.capture["warnings"]
    assert not gaps


def test_each_kernel_can_be_asked_for(zoo):
    one = zoo["variance", "cpu"]
    for graph in one.capture["graphs"]:
        for call in generated(graph):
            assert annotate(one.capture, kernel=call["kernel"]).startswith(f"# `{call['kernel']}`")


def test_the_tour_counts_the_operations_of_its_line(zoo):
    for (name, target), one in zoo.items():
        stops = tour([one.capture])
        source = next((stop for stop in stops if stop["pane"].startswith("source")), None)
        aten = next(
            (stop for stop in stops if "operations of ATen" in stop["text"] or "operation of ATen" in stop["text"]),
            None,
        )
        if source is None or aten is None:
            continue
        graph = next(graph for graph in one.capture["graphs"] if graph["panes"]["aten"] == aten["pane"])
        lines = {
            second for link in one.capture["links"] if link["from"] == source["pane"] and link["to"] == aten["pane"]
            for first, second in link["pairs"] if first == source["line"]
        }  # fmt: skip
        expected = sum(node["line"] in lines and node["op"] == "call_function" for node in graph["nodes"])
        assert int(re.search(r"became (\d+) operation", aten["text"])[1]) == expected, (name, target)
