"""Ties of models that are compiled here, held against what a reader sees in their kernels' text."""

import dataclasses
import math
import re
from unittest import mock

import pytest
import torch
from captured import FAST
from torch import nn
from torch._inductor.async_compile import AsyncCompile

from minicompile.verifying import graphs
from minicompile.verifying.ties import Ties
from minicompile.verifying.verify import Kinds, Live, all_ties, ties_of
from minicompile.watching.model import watched_session
from minicompile.watching.output_code import triton_sources
from minicompile.watching.session import fresh_dynamo, watch


class Normed(nn.Module):
    """A softmax, and a layer norm of what a product makes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(24, 40), nn.LayerNorm(40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(torch.softmax(x.tanh(), -1)))


def lives(model, *inputs: torch.Tensor, target: str | None = "simulated") -> list[Live]:
    """The graphs of a model's compile, as the watch held them; for the CPU no kernel of Inductor's is built."""
    unbuilt = mock.patch.object(AsyncCompile, "cpp_pybinding", return_value=lambda *_arguments: None)
    with fresh_dynamo(), watch(target) as seen, unbuilt, torch.no_grad():
        torch.compile(model, options=FAST if target is None else None)(*inputs)
    return [one["live"] for one in seen.lowered]


@pytest.fixture(scope="module")
def normed() -> Live:
    torch.manual_seed(0)
    (live,) = lives(Normed(), torch.randn(6, 24))
    return live


@pytest.fixture(scope="module")
def ties(normed) -> Ties:
    return ties_of(normed)


@pytest.mark.parametrize("offset", [30.0, 3000.0])
def test_what_is_left_of_a_row_far_from_zero_is_known_as_well_as_its_roundings_let_it(offset):
    """The distances to a mean have few digits there, and in which order the mean is summed up decides those."""
    (live,) = lives(lambda x: nn.functional.layer_norm(x.tanh() + offset, (40,)), torch.randn(6, 40))
    (call,) = ties_of(live)["calls"]
    assert {"sub", "mul"} <= {*call["computes"]}


def test_what_is_left_of_a_difference_is_no_noise_where_it_was_computed_alike():
    (live,) = lives(lambda x: ((x * 1.000001 - x) * 0.3).sum(-1), torch.randn(6, 33))
    assert {"mul", "sub", "sum"} == {kind(one) for call in ties_of(live)["calls"] for one in call["computes"]}


def test_what_a_line_of_sums_has_is_what_it_stores():
    """As many terms as a line may sum up, so many roundings may what it stores be off by."""
    torch.manual_seed(0)
    (live,) = lives(lambda x, w: w[(x > 0).long()].mean(1, keepdim=True).std(0), torch.randn(33), torch.randn(2, 13))
    call = ties_of(live)["calls"][-1]
    assert call["lines"][-1]["nodes"] == call["stores"][-1]["nodes"] == ["sqrt"]


def texts(live: Live) -> dict[str, list[str]]:
    return {name: text.split("\n") for name, (_, text) in triton_sources(live.code.split("\n")).items()}


def kind(node: str) -> str:
    """`exp` of `exp_default_1`."""
    return node.partition("_")[0]


def test_every_node_is_found(ties):
    assert ties["refused"] is None
    assert ties["inputs"] == 3
    assert {one["where"] for one in ties["nodes"].values()} <= {"line", "library", "view"}
    assert [one["status"] for one in ties["calls"]] == ["verified"] * len(ties["calls"])


def test_a_line_is_the_one_that_computes(ties, normed):
    """What the text does there: an exponential where the graph has `exp`, a reciprocal root where it has `rsqrt`."""
    found: dict[str, str] = {}
    for call in ties["calls"]:
        lines = texts(normed).get(call["kernel"])
        found |= {kind(one["nodes"][0]): lines[one["line"] - 1] for one in call["lines"] if one["first"]}
    assert "exp(" in found["exp"]
    assert "rsqrt(" in found["rsqrt"]
    assert " / " in found["div"]


def test_memory(ties, normed):
    """Buffers of the wrapper: who writes, who reads, what lies in them at the end."""
    calls = ties["calls"]
    library = next(one for one in calls if one["kind"] == "library")
    assert "addmm" in library["computes"] or "mm" in library["computes"]
    softmax = calls[library["call"] - 1]
    assert set(softmax["writes"]) <= set(library["reads"])
    (returned,) = [one for one in ties["buffers"].values() if one["returned"]]
    assert returned["nodes"] == [calls[-1]["computes"][-1]]
    assert returned["written_by"][-1] == calls[-1]["call"]
    # the wrapper says where a buffer takes over another's memory
    reused = re.findall(r"(buf\d+) = (\w+); del \2  # reuse", normed.code)
    assert [tuple(one) for call in calls for one in call["in_place"]] == reused


def test_a_kernel_that_computes_something_else_is_not_the_nodes(normed, ties):
    """A tangent became a sine: no line after it has the nodes' values."""
    changed = dataclasses.replace(normed, code=normed.code.replace("libdevice.tanh(", "libdevice.sin("))
    assert changed.code != normed.code
    found = ties_of(changed)
    lost = {kind(name) for name, one in found["nodes"].items() if one["where"] == "nowhere"}
    assert {"tanh", "exp", "div", "addmm"} <= lost


def test_an_error_of_ours_is_a_refusal(normed):
    broken = ties_of(dataclasses.replace(normed, code=normed.code.replace("def call(", "def other(")))
    assert broken["refused"]["code"] == "error"
    assert broken["calls"] == []


def test_no_time_refuses_the_calls(normed):
    late = ties_of(normed, per_call=0.0)
    kernels = [one for one in late["calls"] if one["kind"] == "kernel"]
    assert kernels
    assert {one["code"] for one in kernels} == {"time"}


def test_a_session_that_was_taken_is_verified_later():
    torch.manual_seed(0)
    with fresh_dynamo(), watch("simulated") as seen, torch.no_grad():
        torch.compile(lambda x: torch.relu(x) + 1)(torch.randn(5, 7))
    subject = {"name": "m", "class": "m", "train": False, "inputs": []}
    plain = watched_session(seen, subject, "simulated", {}, machine_code=False)
    verified = watched_session(seen, subject, "simulated", {}, machine_code=False, verify=True)
    assert "ties" not in plain["lowered"][0]
    (call,) = verified["lowered"][0]["ties"]["calls"]
    assert call["computes"] == ["relu", "add"]


@pytest.fixture(scope="module")
def cpp() -> tuple[Live, Ties, Ties]:
    """A graph for the CPU, its ties, and those of code in which a factor was changed."""
    torch.manual_seed(0)
    (live,) = lives(lambda x, y: torch.softmax(x * y.sigmoid(), -1), torch.randn(5, 19), torch.randn(19), target=None)
    changed = dataclasses.replace(live, code=re.sub(r"\.exp\(\)|std::exp\(", lambda found: {
        ".exp()": ".expm1()", "std::exp(": "std::expm1("}[found[0]], live.code))  # fmt: skip
    assert changed.code != live.code
    return live, *all_ties([live, changed])


def test_cpp_lines(cpp):
    """Rows of 19 are two vectors and three numbers: the lines of either have the nodes' values."""
    live, ties, _ = cpp
    assert {one["where"] for one in ties["nodes"].values()} <= {"line", "view"}
    (call,) = ties["calls"]
    text = live.code[live.code.index("#include <torch") :].split("\n")
    lines = {kind(node): text[one["line"] - 1] for one in call["lines"] if one["first"] for node in one["nodes"]}
    assert "exp(" in lines["exp"]
    assert " / " in lines["div"]
    assert "tmp_acc" in lines["sum"]
    (store,) = [one for one in call["stores"] if ties["buffers"][one["buffer"]]["returned"]]
    assert kind(store["nodes"][0]) == "div"


def test_cpp_that_computes_something_else(cpp):
    _, _, changed = cpp
    assert {"exp", "div"} <= {kind(name) for name, one in changed["nodes"].items() if one["where"] == "nowhere"}


def found_in(ties: Ties) -> dict[str, str]:
    return {name: one["where"] for name, one in ties["nodes"].items()}


def test_both_branches_of_a_condition():
    (live,) = lives(
        lambda x: torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,)), torch.randn(7, 11)
    )
    found = found_in(ties_of(live))
    assert {"true_graph_0.sin", "true_graph_0.add", "false_graph_0.cos", "false_graph_0.mul"} <= found.keys()
    assert {one for name, one in found.items() if "sin" in name or "cos" in name} == {"line"}


def test_random_numbers_are_those_of_the_kernel():
    """A dropout's mask is a line's though a GPU draws the numbers otherwise."""
    (live,) = lives(lambda x: nn.functional.dropout(x, 0.4) * 2, torch.randn(6, 30))
    ties = ties_of(live)
    assert set(found_in(ties).values()) <= {"line", "view", "library", "buffer"}
    assert any(kind(node) == "inductor" for call in ties["calls"] for node in call["computes"])


def test_what_is_changed_in_place():
    """An input that is changed: the call writes over the input's own bytes, and what it holds then is the sum."""

    def changed(x, y):
        x.add_(y.sin())
        return x * 2

    (live,) = lives(changed, torch.randn(5, 9), torch.randn(5, 9))
    ties = ties_of(live)
    (call,) = ties["calls"]
    assert ["arg0_1", "arg0_1"] in call["in_place"]
    stored = {one["buffer"]: one["nodes"] for one in call["stores"]}
    assert "add" in stored["arg0_1"]
    assert ties["buffers"]["arg0_1"]["input"] == "arg0_1"


def test_a_library_has_written_what_its_schema_says_with_the_same_values_or_others():
    """Nothing is added to flags that are not set: they are written all the same."""
    flags, places = torch.zeros(6, dtype=torch.bool), torch.randint(0, 6, (9,))
    (live,) = lives(lambda x, places: flags.clone().scatter_add(0, places, x.isnan()), torch.randn(9), places)
    ties = ties_of(live)
    (library,) = [one for one in ties["calls"] if one["kind"] == "library"]
    assert library["writes"]
    assert [library["writes"][0]] * 2 in library["in_place"]


def test_memory_that_products_left_is_no_input_that_is_zero_as_well():
    """A backward graph whose forward graph left zeros: what it computes of them is zero, too."""
    x, weight = torch.randn(5, 5), torch.randn(5, 5, requires_grad=True)
    with fresh_dynamo(), watch("simulated") as seen:
        torch.compile(lambda x, weight: ((x.triu(9) * weight).cos().triu(9) @ weight).sin().sum())(x, weight)
    _, ties = all_ties([one["live"] for one in seen.lowered])
    products = [store for one in ties["calls"] if one["kind"] == "library" for store in one["stores"]]
    given = {name for name, one in ties["buffers"].items() if one["input"]}
    assert any(store["nodes"] for store in products)
    assert not any(given.intersection(store["nodes"]) for store in products)


def test_what_is_cast_as_it_is_read_follows_from_the_memory_that_it_is_read_from():
    """Of a half that was put beside another, memory has it alone and together: a cast is of the one that is read."""

    def loss(x, weight):
        half = (x * weight).half()
        return half.float().square().mean() + torch.cat([half.erf(), half]).float().square().mean()

    unbuilt = mock.patch.object(AsyncCompile, "cpp_pybinding", return_value=lambda *_arguments: None)
    with fresh_dynamo(), watch(None) as seen, unbuilt:
        torch.compile(loss, options=FAST)(torch.randn(9, 6), torch.randn(9, 6, requires_grad=True)).backward()
    backward = all_ties([one["live"] for one in seen.lowered])[1]
    (call,) = [one for one in backward["calls"] if one["kind"] == "kernel"]
    code = seen.lowered[1]["live"].code
    text = code[code.index("#include <torch") :].split("\n")
    given = re.search(rf"^ +{call['kernel']}\((.*)\)", code, re.M)[1].split(", ")
    pointer = re.findall(r"\* ?(\w*ptr\d+)", code[code.index("void  kernel(") :])[given.index("cat")]
    read = re.findall(rf"auto (tmp\d+) = .*\b{pointer} \+", code)
    casts = [one for one in call["lines"] if re.search(rf"= .*convert.*\(({'|'.join(read)})\)", text[one["line"] - 1])]
    assert casts
    assert not any("convert_element_type_1" in one["nodes"] for one in casts)


def test_a_loops_sums_are_parts_of_the_result():
    """A long row is summed in a loop: what it gathers is a part of the sum, and only the last line is the sum."""
    (live,) = lives(lambda x: (x.sin() * x).sum(-1), torch.randn(3, 5000))
    (call,) = ties_of(live)["calls"]
    gathered = [one for one in call["lines"] if one["part"] == "accumulated"]
    assert gathered
    assert {tuple(one["nodes"]) for one in gathered} == {("sum_1",)}
    assert [one["name"][0] for one in call["lines"] if one["nodes"] == ["sum_1"] and one["first"]] == ["t"]


def test_in_16_bits_a_kernel_rounds_at_the_end():
    """The code computes on in float32: a sum of squares is not the rounded squares' but told as such."""
    (live,) = lives(lambda x: (x.sin() * x.cos()).exp(), torch.randn(40, 33).bfloat16())
    ties = ties_of(live)
    (call,) = ties["calls"]
    parts = {node: one["part"] for one in call["lines"] for node in one["nodes"][:1]}
    assert "before_cast" in parts.values() or "unrounded" in parts.values()
    (store,) = call["stores"]
    assert store["part"] is None
    assert [kind(node) for node in store["nodes"]][-1] in ("exp", "convert")


@pytest.fixture(scope="module")
def bag() -> Live:
    """Rows that C++ looks up and adds, without a look at where they are."""
    torch.manual_seed(0)
    places, begins = torch.tensor([1, 3, 2, 8, 0, 5]), torch.tensor([0, 2])
    (live,) = lives(lambda x, y, z: nn.functional.embedding_bag(y, x, z).cos(), torch.randn(9, 4), places, begins)
    return live


def test_integers_are_the_models_own_on_every_run(bag):
    given = []
    run = graphs.Values.run
    with mock.patch.object(graphs.Values, "run", lambda self, *args: (given.append(args), run(self, *args))[1]):
        assert ties_of(bag)["inputs"] == 3
    whole = [[one.tolist() for one in args if not one.is_floating_point()] for args in given]
    assert whole == [[[1, 3, 2, 8, 0, 5], [0, 2]]] * len(given)
    floats = [one for args in given for one in args if one.is_floating_point()]
    assert len({float(one.sum()) for one in floats}) == 3


def test_integers_are_those_of_the_call_though_the_model_changed_them_since():
    """A counter in place: with what it is at the end of a run, the lookup would be outside of the table."""
    table, places = torch.randn(9, 4), torch.tensor([1, 8, 3])
    (live,) = lives(lambda x, y: x[y].sin(), table, places)
    places.fill_(1 << 40)
    ties = ties_of(live)
    assert (ties["own"], ties["inputs"], ties["refused"]) == (True, 3, None)
    assert [one.tolist() for one in live.given if not one.is_floating_point()] == [[1, 8, 3]]


def test_integers_that_are_not_known_reach_no_operator_that_does_not_check_them(bag):
    with mock.patch.object(graphs.Values, "run", side_effect=AssertionError("it was run")):
        refused = ties_of(dataclasses.replace(bag, given=[]))["refused"]
    assert refused["code"] == "integers"
    assert "_embedding_bag" in refused["detail"]
    looked_up = lives(lambda x, y: x[y].sin(), torch.randn(9, 4), torch.tensor([1, 8, 3]))
    assert ties_of(dataclasses.replace(looked_up[0], given=[]))["refused"] is None


@pytest.fixture(scope="module")
def looked_up() -> tuple[Live, Live]:
    """A forward and a backward graph: the gradient of rows that were looked up is added where the rows are."""
    torch.manual_seed(0)
    table, rows = nn.Embedding(9, 4), torch.tensor([[1, 3], [8, 3]])
    with fresh_dynamo(), watch("simulated") as seen:
        torch.compile(lambda x: (table(x).sin() * 3).sum())(rows)
    forward, backward = (one["live"] for one in seen.lowered)
    return forward, backward


def test_a_backward_graph_takes_what_its_forward_graph_left(looked_up):
    """On the model's inputs: the rows and a gradient of one; on random ones what the forward graph left on those."""
    given = []
    run = graphs.Values.run
    with mock.patch.object(graphs.Values, "run", lambda self, *args: (given.append(args), run(self, *args))[1]):
        _, ties = all_ties(looked_up[::-1])[::-1]  # in whichever order they were lowered
    assert ties["refused"] is None
    assert (ties["own"], ties["inputs"]) == (True, 3)
    assert {one["status"] for one in ties["calls"]} == {"verified"}
    tables, backwards = [args[0] for args in given[:3]], given[-3:]
    for number, (table, args) in enumerate(zip(tables, backwards, strict=True)):
        rows, sine_of, gradient = args
        assert rows.tolist() == [[1, 3], [8, 3]]
        assert torch.equal(sine_of, table[rows])
        assert (float(gradient) == 1.0) == (number == 0)
    assert not any(live.left for live in looked_up)


def test_a_backward_graph_alone_is_not_run_on_made_up_places(looked_up):
    """The operator that adds the gradients does not look whether a place is there."""
    refused = ties_of(looked_up[1])["refused"]
    assert (refused["code"], refused["detail"]) == ("integers", "aten._unsafe_masked_index_put_accumulate.default")


def test_on_the_cpu_too_the_first_inputs_are_the_models_own(cpp):
    live, ties, _ = cpp
    torch.manual_seed(0)
    wanted = torch.randn(5, 19), torch.randn(19)
    assert all(any(torch.equal(one, each) for each in live.given) for one in wanted)
    assert ties["own"]


def test_inputs_of_another_dtype_or_size_are_not_taken_for_the_graphs():
    wanted = torch.empty(3, 4).t()
    made = graphs.laid(wanted, torch.arange(12.0).reshape(4, 3))
    assert (made.stride(), made.tolist()) == ((1, 4), torch.arange(12.0).reshape(4, 3).tolist())
    spread = torch.arange(3.0).expand(4, 3)
    assert torch.equal(graphs.laid(torch.empty(3).expand(4, 3), spread), spread)
    for other in (torch.ones(4, 3).double(), torch.ones(3, 4), 3, torch.ones(4, 3, device="meta").expand(2, 4, 3)):
        assert graphs.laid(wanted, other) is None


@pytest.mark.parametrize(
    ("runs", "few"),
    [
        ([[True] * 90] * 3, True),
        ([[True], [False], [True]], True),
        ([[True, False] * 40] * 3, False),
        ([[0.0] * 50] * 3, True),
        ([[0.3] * 50] * 3, True),
        ([[0.0] * 50, [1.0] * 50, [1.0] * 50], False),
        ([[0.1234], [0.4321], [-0.77]], False),
        ([[0], [1], [2]], False),
    ],
)
def test_values_of_few_kinds(runs, few):
    kinds = Kinds(isinstance(runs[0][0], float))
    for one in runs:
        kinds.add(torch.tensor(one))
    assert kinds.few() == few


def test_an_infinity_is_a_kind_of_value_like_others():
    """A mask of minus infinities in float64, seen in one run, ended a whole verification with an OverflowError."""
    kinds = Kinds(wide=True)
    kinds.add(torch.full((4,), -math.inf, dtype=torch.float64))
    assert kinds.few()


def test_a_flag_that_is_always_set_is_told_as_one():
    (live,) = lives(lambda x: ((x.abs() >= 0).all(), torch.where(x > 0, x, 2 * x)), torch.randn(12, 20))
    nodes = ties_of(live)["nodes"]
    assert {name for name, one in nodes.items() if one.get("few")} >= {"ge"}
    assert not {"gt", "where", "mul"} & {name for name, one in nodes.items() if one.get("few")}


@pytest.mark.parametrize("target", ["simulated", None])
def test_a_number_of_the_text_is_no_node(target):
    """The flag is 1 on every input, and so is what is added."""
    (live,) = lives(lambda x, i: ((x.abs() >= 0).all(), i + 1), torch.randn(9, 20), torch.tensor(5), target=target)
    (ties,) = all_ties([live])
    literal = re.compile(r"= (?:tl\.full\(\[[\d, ]*\], [\d.]+, tl\.\w+\)|static_cast<\w+>\([\d.]+\);)")
    found = 0
    for call in ties["calls"]:
        cpp_text = live.code[live.code.index("#include <torch") :].split("\n") if target is None else []
        text = cpp_text or texts(live)[call["kernel"]]
        told = [text[line["line"] - 1] for line in call["lines"] if line["nodes"]]
        found += any(map(literal.search, text))
        assert not [line for line in told if literal.search(line)]
    assert found


def test_what_is_repeated_is_not_the_whole_of_a_buffer():
    (live,) = lives(lambda x: x.sin()[:, None].expand(5, 3, 4).contiguous(), torch.randn(5, 4))
    stores = [(one["nodes"], one["part"]) for call in ties_of(live)["calls"] for one in call["stores"]]
    assert stores == [(["sin"], "repeated")]


def test_one_thread_runs_both_and_the_others_come_back(normed):
    """Beside other processes many threads took six times as long."""
    threads, run = [], graphs.Values.run
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with mock.patch.object(
            graphs.Values, "run", lambda self, *args: (threads.append(torch.get_num_threads()), run(self, *args))[1]
        ):
            ties_of(normed)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert {*threads} == {1}


def test_results_of_a_library_that_gives_several_have_a_node_each():
    torch.manual_seed(0)
    (live,) = lives(nn.LSTMCell(4, 6), torch.randn(3, 4))
    (call,) = [one for one in ties_of(live)["calls"] if "lstm" in one["kernel"]]
    returned = re.search(r"return \((.*)\)", live.code)[1].replace(" ", "").strip(",").split(",")
    outputs = [one.name for one in next(node for node in live.module.graph.nodes if node.op == "output").args[0]]
    stored = {one["buffer"]: one["nodes"] for one in call["stores"]}
    assert [stored[buffer] for buffer in returned] == [[node] for node in outputs]


def test_a_kernel_may_be_given_numbers_that_it_casts():
    """A length that the compiled code alone knows: a number, and no block."""
    x = torch.randn(9, 14)
    torch._dynamo.mark_dynamic(x, 0)
    (live,) = lives(lambda x: x.sin() / x.shape[0], x)
    ties = ties_of(live)
    assert re.search(r"\(ks0\)\.to\(tl\.|\bks0\.to\(tl\.", live.code)
    assert {one["status"] for one in ties["calls"]} == {"verified"}


def test_sizes_that_nobody_knows_are_those_that_the_model_came_with():
    x = torch.randn(9, 8)
    torch._dynamo.decorators.mark_unbacked(x, 0)
    (live,) = lives(lambda x: x.softmax(-1).sum(0), x)
    ties = ties_of(live)
    assert (ties["refused"], ties["own"], ties["inputs"]) == (None, True, 3)
    assert ties_of(dataclasses.replace(live, given=[]))["refused"]["code"] == "symbol"


def test_memory_that_is_reached_through_descriptors():
    """As Hopper copies blocks; rows of 48 in blocks of 64 reach beyond their memory."""
    options = {"triton.use_tensor_descriptor": True, "assume_aligned_inputs": True}
    with fresh_dynamo(), watch("simulated") as seen, torch.no_grad():
        torch.compile(lambda x: (x.sin() * 2).sum(0), options=options)(torch.randn(48, 64))
    live = seen.lowered[0]["live"]
    assert "make_tensor_descriptor" in live.code
    ties = ties_of(live)
    assert {one["status"] for one in ties["calls"]} == {"verified"}
    assert {one["where"] for one in ties["nodes"].values()} == {"line"}


def test_attention_with_a_function_of_the_users():
    """Its graph is within the graph, names a GPU, and is written into a template."""
    from torch.nn.attention.flex_attention import flex_attention

    given = [torch.randn(1, 2, 128, 16) for _ in range(3)]
    (live,) = lives(lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - (i - j).abs()), *given)
    ties = ties_of(live)
    assert ties["refused"] is None
    assert "flex_attention" in " ".join(one["kernel"] for one in ties["calls"] if one["status"] == "verified")


def turned(x: torch.Tensor, z: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    def goes_on(place, _):
        return place < 6

    def body(place, value):
        return place + 1, (value * 1.5).sin() + z.cos()

    return torch._higher_order_ops.while_loop(goes_on, body, (start, x))[1] * 2


@pytest.fixture(scope="module")
def loop() -> Live:
    torch.manual_seed(0)
    (live,) = lives(turned, torch.randn(5, 8), torch.randn(8), torch.tensor(0))
    return live


def test_a_loop_is_run_turn_by_turn(loop):
    """What its body computes is compared in each of its first turns: four, on each of three inputs."""
    ties = ties_of(loop)
    assert ties["refused"] is None
    lines = [one for call in ties["calls"] for one in call["lines"] if one["first"]]
    found = {node.partition(".")[2]: one["elements"] for one in lines for node in one["nodes"] if "body" in node}
    assert {kind(node) for node in found} == {"mul", "sin", "cos", "add"}
    assert {found[node] for node in found if kind(node) in ("mul", "sin")} == {3 * 4 * 5 * 8}
    assert any(kind(node.partition(".")[2]) == "lt" for one in lines for node in one["nodes"] if "cond" in node)


def test_a_loop_that_is_right_in_its_first_turn_alone_is_not_right(loop):
    """The wrapper gives the body its first values in every turn: the graph's second turn has others."""
    body = re.search(r"while_loop_body_graph_0_args = \[buf0\[0\], buf0\[1\]", loop.code)[0]
    stuck = dataclasses.replace(loop, code=loop.code.replace(body, body.replace("buf0[1]", "arg1_1")))
    assert stuck.code != loop.code
    found = {name for name, one in ties_of(stuck)["nodes"].items() if one["where"] == "line"}
    assert not {name for name in found if "body" in name and kind(name.partition(".")[2]) in ("mul", "sin")}


def test_a_loop_without_end_is_refused():
    (live,) = lives(turned, torch.randn(5, 8), torch.randn(8), torch.tensor(0))
    endless = dataclasses.replace(live, given=[*live.given])
    endless.given[0] = torch.tensor(-(1 << 40))
    assert ties_of(endless)["refused"]["code"] == "time"


def test_graphs_share_the_time(normed):
    assert [one["refused"] is None for one in all_ties([normed, normed], 60.0)] == [True, True]
    late = all_ties([normed, normed], 0.0)
    assert {call["code"] for one in late for call in one["calls"] if call["kind"] == "kernel"} <= {"time"}
    assert sum(one["seconds"] for one in late) < 10
