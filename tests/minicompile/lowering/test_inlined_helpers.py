"""What is inlined from a @triton.jit helper belongs to its lines and its callers', to the same in every pane."""

import importlib
import re

import pytest

from minicompile.capturing import capture

PARTS = """
import triton, triton.language as tl

@triton.jit
def spread(x, axis: tl.constexpr):
    # as far as the largest
    return tl.exp(x - tl.max(x, axis))

def made():
    @triton.jit
    def weighed(x,
                axis: tl.constexpr):
        e = spread(x, axis)
        return e / tl.sum(e, axis)
    return weighed

weighed = made()
"""
ROWWISE = """
import torch, triton, triton.language as tl
from helpers_in_parts import weighed

@triton.jit
def doubled(x):
    return tl.sqrt(x * 2)

@triton.autotune([triton.Config({"B": 1024})], key=["cols"])
@triton.jit
def kernel(x, y, cols, B: tl.constexpr):
    at = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * cols + at, at < cols, -float("inf"))
    v = doubled(v)
    v = weighed(v, 0)
    tl.store(y + tl.program_id(0) * cols + at, v, at < cols)

def softmax(x):
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, y, x.shape[1])
    return y * 2
"""
# what an operation is called in each kind of pane
CALLED = {
    "exp": {
        "ttir": r"math\.exp",
        "ttgir": r"math\.exp",
        "llir": r"ex2\.approx",
        "ptx": r"ex2\.approx",
        "sass": "MUFU.EX2",
    },
    "divided": {"ttir": "divf", "ttgir": "divf", "llir": r"div\.full|fdiv", "ptx": r"div\.full"},
    "maximum": {"ttir": "maxnumf", "ttgir": "maxnumf", "llir": "maxnum", "ptx": r"max\.f32"},
    "shuffled": {"llir": r"shfl\.sync", "ptx": r"shfl\.sync", "sass": "SHFL"},
    "reduced": {"ttir": r'"tt\.reduce"', "ttgir": r'"tt\.reduce"'},
    "root": {"ttir": r"math\.sqrt", "ttgir": r"math\.sqrt", "llir": r"nvvm\.sqrt", "ptx": r"sqrt\."},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "helpers_in_parts.py").write_text(PARTS)
    (folder / "kernel_in_rowwise.py").write_text(ROWWISE)
    import torch

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        softmax = importlib.import_module("kernel_in_rowwise").softmax
        return capture(softmax, (torch.randn(4, 600),), target="simulated", assembly=True)


def lines_above(made: dict, pane: str) -> dict[int, set[tuple[str, str]]]:
    """By line of a pane, from 1, what is tied to it from above: pane and text."""
    texts = {one["id"]: one["lines"] for one in made["panes"]}
    found: dict[int, set[tuple[str, str]]] = {}
    for link in made["links"]:
        if link["to"] == pane:
            for above, line in link["pairs"]:
                kind = link["from"].partition(".")[0]
                found.setdefault(line, set()).add((kind, texts[link["from"]][above - 1].strip()))
    return found


@pytest.mark.parametrize(
    ("operation", "lines"),
    [
        ("exp", {"return tl.exp(x - tl.max(x, axis))", "e = spread(x, axis)", "v = weighed(v, 0)"}),
        ("maximum", {"return tl.exp(x - tl.max(x, axis))", "e = spread(x, axis)", "v = weighed(v, 0)"}),
        ("divided", {"return e / tl.sum(e, axis)", "v = weighed(v, 0)"}),
        ("root", {"return tl.sqrt(x * 2)", "v = doubled(v)"}),
        ("shuffled", None),
        ("reduced", None),
    ],
)
def test_what_is_inlined_belongs_to_the_whole_chain_of_its_lines_in_every_pane(made, operation, lines):
    panes = {pane["id"]: pane for pane in made["panes"] if pane["title"].get("kernel", "").startswith("kernel")}
    seen = {}
    for pane in panes.values():
        if pane["kind"] in CALLED[operation]:
            above = lines_above(made, pane["id"])
            called = re.compile(rf"^(?!declare).*(?:{CALLED[operation][pane['kind']]})")
            its = [number for number, text in enumerate(pane["lines"], 1) if called.search(text)]
            assert its, pane["id"]
            seen[pane["kind"]] = {frozenset(text for _, text in above[line]) for line in its}
    assert len(seen) >= 2
    assert len({frozenset(chains) for chains in seen.values()}) == 1, seen
    (chains, *_) = seen.values()
    if lines is None:  # of the maximum and of the sum
        assert chains == {
            frozenset({"return tl.exp(x - tl.max(x, axis))", "e = spread(x, axis)", "v = weighed(v, 0)"}),
            frozenset({"return e / tl.sum(e, axis)", "v = weighed(v, 0)"}),
        }
    else:
        assert chains == {frozenset(lines)}


def test_the_files_of_a_users_kernel_and_of_its_helpers_are_shown_and_tied_to_inductors_copy(made):
    sources = {pane["title"]["file"]: pane for pane in made["panes"] if pane["kind"] == "source"}
    assert sources.keys() == {"kernel_in_rowwise.py", "helpers_in_parts.py"}
    (graph,) = made["graphs"]
    code = next(pane["lines"] for pane in made["panes"] if pane["id"] == graph["panes"]["code"])
    copied = {
        (file, line): code[copy - 1]
        for file, pane in sources.items()
        for link in made["links"]
        if (link["from"], link["to"]) == (pane["id"], graph["panes"]["code"])
        for line, copy in link["pairs"]
    }
    assert all(sources[file]["lines"][line - 1].strip() == text.strip() for (file, line), text in copied.items())
    texts = {text.strip() for text in copied.values()}
    whole = {"v = doubled(v)", "return tl.sqrt(x * 2)", "e = spread(x, axis)", "# as far as the largest"}
    assert whole <= texts
    assert "return tl.exp(x - tl.max(x, axis))" in texts
