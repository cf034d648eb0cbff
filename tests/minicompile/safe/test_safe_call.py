"""What a call of a model is, element by element: what lies in one and nowhere else is refused by its name."""

import copy
import logging
import os
import random
import time
from collections import UserDict, defaultdict, namedtuple
from threading import Lock
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
import torch
from declared_faults import check_says, fault
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from minicompile import CompileConfig, capture, compile_report, maybe_compile
from minicompile.safe import installation
from minicompile.safe.call import ELEMENTS
from minicompile.state.batches import copied_batch, split_batch, storages_of

pytestmark = pytest.mark.usefixtures("fresh_compiler")
logger = logging.getLogger(__name__)
OUTSIDE = torch.zeros(4, requires_grad=True)
SEEN: list = []
calls = 0


def report_of(model, batch, backend="eager", **more):
    maybe_compile(model, CompileConfig(enabled=True, backend=backend), logger, batch, **more)
    return compile_report(model)


class Plain(nn.Module):
    """One layer, a buffer, and whatever a test adds."""

    def __init__(self, then=None):
        super().__init__()
        self.layer, self.then = nn.Linear(4, 4), then
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        return self.layer(x)


class Keeps(Plain):
    """Keeps numbers in places of many kinds."""

    kept = torch.zeros(3, 4)

    def __init__(self):
        super().__init__()
        self.last, self.part, self.table, self.box = None, nn.Identity(), {"rows": []}, SimpleNamespace(seen=None)
        self.count = 0

    def forward(self, x):
        y = self.layer(x)
        side = y.detach()
        self.last = side * 1.0
        self.part.seen = side * 2.0
        self.table["rows"] = [side * 3.0]
        self.box.seen = side * 4.0
        Keeps.kept.copy_(side * 5.0)
        OUTSIDE.data.copy_(side.sum(0))
        self.mean.copy_(side.mean(0))
        return y


def around(before=None, after=None):
    """A backend that does something wrong before a graph runs, or to what it gives."""

    def backend(graph_module, example_inputs):
        def run(*given):
            if before:
                given = before(given)
            outputs = graph_module(*given)
            return after(outputs, given) if after else outputs

        return run

    return backend


def is_input(tensor, shape=(3, 4)):
    return isinstance(tensor, torch.Tensor) and not isinstance(tensor, nn.Parameter) and tuple(tensor.shape) == shape


def each(change):
    return lambda given: tuple(change(one) if is_input(one) else one for one in given)


def spoil(change, shape):
    """Change, out of autograd's sight, what is given in a shape."""

    def after(outputs, given):
        for one in given:
            if isinstance(one, torch.Tensor) and tuple(one.shape) == shape:
                change(one.data)
        return outputs

    return around(after=after)


def second(function):
    """Change the second of what a graph gives."""
    return around(after=lambda outputs, _: tuple(function(y) if n == 1 else y for n, y in enumerate(outputs)))


class Writes(Plain):
    def forward(self, x, cache):
        cache["k"][0].copy_(self.layer(x).detach())
        return self.layer(x) + cache["k"][0]


class Nested(Plain):
    def forward(self, batch):
        return self.layer(batch["x"]["inner"]) + OUTSIDE * 3


class Views(Plain):
    def forward(self, x):
        return self.layer(x), x.detach()[:2]


class Frozen(Plain):
    def __init__(self):
        super().__init__()
        self.requires_grad_(False)

    def forward(self, x):
        return self.layer(x), x * 2


def rows():
    return torch.linspace(-1, 1, 12).reshape(3, 4)


def drawing(generator):
    def after(outputs, given):
        generator()
        return outputs

    return around(after=after)


def doubles(shape):
    """What doubles the gradient of whatever is given in a shape and asks for one."""
    return around(
        before=lambda given: tuple(2 * a - a.detach() if a.requires_grad and a.shape == shape else a for a in given)
    )


inner = lambda leaf: {"x": {"inner": rows().requires_grad_(leaf)}}  # noqa: E731
detached = around(after=lambda outputs, _: tuple(y.detach().requires_grad_() for y in outputs))


def adds(factor):
    """A backend that adds one to whatever is multiplied by a number, and is right everywhere else."""

    def backend(graph_module, example_inputs):
        for node in list(graph_module.graph.nodes):
            if node.op == "call_function" and node.args[1:] == (factor,):
                with graph_module.graph.inserting_after(node):
                    wrong = graph_module.graph.call_function(torch.add, (node, 1.0))
                node.replace_all_uses_with(wrong, delete_user_cb=lambda user, wrong=wrong: user is not wrong)
        graph_module.recompile()
        return graph_module

    return backend


class Means(Plain):
    def forward(self, x):
        y = self.layer(x)
        self.mean.copy_(y.detach().mean(0) * 6.0)
        return y


class Ones(Plain):
    def __init__(self):
        super().__init__()
        for parameter in self.parameters():
            nn.init.ones_(parameter)


WRONG = "; the compiled model is wrong."
DRAWN = f": state ... compiled, and state ... eager{WRONG}"
FAR = f" is off by ... of its size, and ... is allowed{WRONG}"
times = lambda factor: around(after=lambda outputs, _: tuple(y * factor for y in outputs))  # noqa: E731


def lie(name, says, *case):
    """A case of a test, which is wrong in one element of a call: the one with which its name begins."""
    element = next(one for one in ELEMENTS if name.startswith(one))
    LIED.add(element)
    what = (
        f"`{name}`: {ELEMENTS[name]}"
        if name == element
        else f"`{element}`{name.removeprefix(element).replace('_', ' ')}"
    )
    return pytest.param(*case, marks=fault(f"wrong in {what}", f"WrongNumbers: {says}", "It stays eager."))


class Lies:
    """By the element in which it lies: what the reason says, a model, a batch, a backend, and a loss, where it has."""

    output = (f"output{FAR}", Plain, rows, around(after=lambda outputs, _: tuple(y + 1 for y in outputs)))
    strides = (
        f"strides of output: (1, 3) compiled, and (4, 1) eager{WRONG}",
        Plain,
        rows,
        around(after=lambda outputs, _: tuple(y.t().contiguous().t() for y in outputs)),
    )
    requires_grad = (
        f"requires_grad of output[0]: True, of a leaf compiled, and False eager{WRONG}",
        Frozen,
        rows,
        detached,
    )
    sharing = (
        f"memory of output[1]: its own compiled, and shared with batch, 0 bytes on eager{WRONG}",
        Views,
        rows,
        second(torch.clone),
    )
    # of twelve ones it leaves a tenth, of which what each output may be off by is much
    loss = (f"loss{FAR}", Ones, rows, times(1 + 5e-5), lambda y, _: y.sum() - 11.9)
    gradient = (f"gradient of layer.weight{FAR}", Plain, rows, doubles((4, 4)))
    gradient_of_the_batch = (
        f"gradient of batch['x']['inner']{FAR}",
        Nested,
        lambda: inner(True),
        doubles((3, 4)),
    )
    gradient_of_a_global = (f"gradient of global ....OUTSIDE{FAR}", Nested, lambda: inner(False), doubles((4,)))
    batch = (
        f"batch: written to compiled, and not written to eager{WRONG}",
        Plain,
        rows,
        spoil(lambda one: one.mul_(2), (3, 4)),
    )
    batch_where_a_write_is_lost = (
        f"batch[1]['k'][0]{FAR}",
        Writes,
        lambda: (rows(), {"k": [rows() * 0]}),
        around(before=each(torch.clone)),
    )
    buffer = (f"buffer mean{FAR}", Means, rows, adds(6.0))
    parameter = (
        f"parameter layer.weight: written to compiled, and not written to eager{WRONG}",
        Plain,
        rows,
        spoil(lambda one: one.mul_(2), (4, 4)),
    )


LIED: set[str] = set()
LIES = {name: told for name, told in vars(Lies).items() if not name.startswith("_")}


@pytest.mark.parametrize("name", [lie(name, says, name) for name, (says, *_) in LIES.items()])
@pytest.mark.parametrize("training", [True, False], ids=["training", "called"])
def test_a_lie_in_one_element_is_refused_by_its_name(name, training, says):
    _, model, batch, backend, *loss = LIES[name]
    if not training and name.startswith(("gradient", "loss")) and name != "gradient_of_the_batch":
        pytest.skip("only a step that trains has it")
    if training and name == "batch":
        pytest.skip("the backward pass would read what was spoiled, and its gradients be wrong too")
    more = {"loss_fn": loss[0]} if loss else {}
    with torch.enable_grad() if training or name == "gradient_of_the_batch" else torch.no_grad():
        report = report_of(model().train(training), batch(), backend, **more)
        assert not report.compiled
        check_says(report.reason, says)
        torch.compiler.reset()
        honest = report_of(model().train(training), batch(), **more)
        assert honest.compiled, honest.reason


def test_each_element_has_its_lie():
    assert set(ELEMENTS) == LIED


@pytest.mark.parametrize(
    "factor",
    [
        lie("attribute", f"attribute part.seen{FAR}", 2.0),
        lie("attribute in a container", f"attribute table['rows'][0]{FAR}", 3.0),
        lie("attribute of an object", f"attribute box.seen{FAR}", 4.0),
        lie("attribute of a class", f"class attribute Keeps.kept{FAR}", 5.0),
    ],
)
def test_what_a_model_keeps_is_compared_wherever_it_keeps_it(factor, says):
    """Each kept number is a multiple of one that no other is: a backend that adds one to it is wrong there alone."""
    report = report_of(Keeps(), rows(), adds(factor))
    assert not report.compiled
    check_says(report.reason, says)
    torch.compiler.reset()
    report = report_of(Keeps(), rows())
    assert report.compiled, report.reason
    assert {"attribute", "buffer", "gradient", "random"} <= set(report.compared) <= set(ELEMENTS)
    assert report.not_compared == []
    assert not Keeps.kept.any()


class Twice(Plain):
    def forward(self, x):
        return x * 2.0, self.layer(x)


def test_nan_with_which_the_first_step_has_trained_is_eager_s_no_more():
    """In the last step the parameters are NaN, and so is eager's own: only the first tells."""
    assert "NaN or infinity where eager has not" in report_of(Twice(), rows(), second(lambda y: y * torch.nan)).reason


class MakesOnce(Plain):
    scale = None

    def forward(self, x):
        if self.scale is None:
            self.scale = torch.ones(4) * 2.0
        return self.layer(x) * self.scale


class Masks(Plain):
    def forward(self, x):
        return (self.layer(x) * 2.0).masked_fill(torch.arange(4) == 3, torch.finfo(torch.float32).min)


class KeepsPairs(Plain):
    def __init__(self):
        super().__init__()
        self.pairs = {}

    def forward(self, x):
        y = self.layer(x)
        self.pairs[0, "k"], self.pairs[0, "v"] = y.detach() * 2.0, y.detach() * 3.0
        return y


class Slotted:
    __slots__ = ("y",)

    def __init__(self, y):
        self.y = y


class ReturnsSlots(Plain):
    def forward(self, x):
        y = self.layer(x)
        return y * 3.0, Slotted(y * 2.0)


class ReturnsDeep(Plain):
    def forward(self, x):
        found = y = self.layer(x) * 2.0
        for _ in range(12):
            found = [found]
        return y.detach() * 0 + 1, found


@pytest.mark.parametrize("kind", [MakesOnce, Masks, KeepsPairs, ReturnsSlots, ReturnsDeep])
def test_a_lie_is_found_where_it_is_hard_to_see(kind):
    with torch.no_grad():
        assert not report_of(kind().eval(), rows(), adds(2.0)).compiled
        torch.compiler.reset()
        report = report_of(kind().eval(), rows())
        assert report.compiled, report.reason


def test_elements_that_change_places_are_a_change():
    flips = spoil(lambda one: one.copy_(one.flip(0).clone()), (4, 4))
    with torch.no_grad():
        assert "layer.weight" in report_of(Plain().eval(), rows(), flips).reason


def test_what_eager_leaves_alone_is_left_alone_to_the_bit_in_any_arithmetic():
    nudges = spoil(lambda one: one.mul_(1.1), (3, 4))
    with torch.no_grad():
        report = report_of(Plain().eval().bfloat16(), rows().bfloat16(), nudges)
    assert report.reason.startswith("WrongNumbers: batch: written to compiled")


@pytest.mark.parametrize(
    "draw",
    [
        lie("random", f"random numbers of torch on the CPU{DRAWN}", lambda: torch.rand(1)),
        lie("random numbers of Python", f"random numbers of Python{DRAWN}", random.random),
        lie("random numbers of NumPy", f"random numbers of NumPy{DRAWN}", lambda: np.random.rand()),
    ],
    ids=["torch", "Python", "NumPy"],
)
def test_random_numbers_that_eager_does_not_draw(draw, says):
    report = report_of(Plain(), rows(), drawing(draw))
    assert report.failure["element"] == "random"
    check_says(report.reason, says)


@pytest.mark.parametrize(
    "wrong",
    [
        lie("structure", f"structure of output: tuple of 1 compiled, and Tensor eager{WRONG}", lambda y: (y,)),
        lie(
            "structure of an object",
            f"structure of output as an object: output compiled, and not there eager{WRONG}",
            lambda y: SimpleNamespace(y=y),
        ),
    ],
)
def test_another_structure_is_refused(wrong, says, monkeypatch):
    def compiled(function, *arguments, **more):
        return lambda *given, **named: wrong(function(*given, **named)) if not eager() else function(*given, **named)

    def eager():
        return torch._dynamo.eval_frame._stance.stance == "force_eager"

    monkeypatch.setattr(installation.dynamo_internals, "torch_compile", compiled)
    report = report_of(Plain().eval(), rows())
    assert not report.compiled
    check_says(report.reason, says)


@fault(
    "eager itself leaves something else each time: the hour, say",
    "attribute began",
    "It is named in `not_compared`, and the rest is compared.",
)
def test_what_eager_leaves_otherwise_each_time_is_named_and_not_compared(place, says):
    class Timed(Plain):
        def forward(self, x):
            self.began = self.hour()
            return self.layer(x)

        @torch.compiler.disable
        def hour(self):
            return time.perf_counter_ns()

    report = report_of(Timed(), rows())
    assert report.compiled, report.reason
    assert report.not_compared == [says]


def test_a_model_that_is_only_called_says_that_its_gradients_were_not_compared():
    assert report_of(Plain().eval(), rows()).not_compared == ["gradient"]
    with torch.no_grad():
        torch.compiler.reset()
        assert report_of(Plain().eval(), rows()).not_compared == []


def test_a_global_that_a_call_binds_is_as_it_was(place):
    class Counting(Plain):
        def forward(self, x):
            self.count()
            return self.layer(x)

        @torch.compiler.disable
        def count(self):
            global calls
            calls += 1
            SEEN.append(calls)
            os.environ.get("HOME")

    report = report_of(Counting(), rows())
    assert report.compiled, report.reason
    assert (calls, SEEN) == (0, [])


@fault("its first call makes a cache, so that the second compiles again", None, "It settles, and runs compiled.")
def test_a_cache_that_a_model_makes_at_its_first_call_settles_at_its_second():
    class Caching(Plain):
        def forward(self, x):
            if not hasattr(self, "scale"):
                self.scale = torch.ones(4) * 2
            return self.layer(x) * self.scale

    report = report_of(Caching(), rows())
    assert report.compiled, report.reason


def test_an_operation_that_compiles_its_branches_is_no_failure_of_eager(place):
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: self.first(x), lambda x: self.second(x), (x,))

    report = report_of(Branches(), rows() + 1)
    assert report.compiled, report.reason


@pytest.mark.parametrize(("factor", "right"), [(1 + 2e-3, True), (1.3, False)])
def test_what_float32_itself_does_not_know_is_no_fault_of_the_compile(factor, right):
    class Cancels(Plain):
        def forward(self, x):
            large = self.layer(x).double().mul(0).float() + 3e4  # of which the digits that count are rounded away
            return ((large + x) - large) * 1.0

    def scaled(graph_module, example_inputs):
        return around(after=lambda outputs, _: tuple(y * factor for y in outputs))(graph_module, example_inputs)

    with torch.no_grad():
        report = report_of(Cancels().eval(), rows(), scaled)
    assert report.compiled == right, report.reason


class TestCopies:
    """The batch that is tried is the caller's in all but its memory."""

    def test_what_tensors_share_with_one_another_is_shared_by_their_copies(self):
        whole = torch.arange(24.0).reshape(4, 6)
        batch = (whole, whole[1:], whole, torch.ones(1).expand(5), torch.zeros(100, 8)[3:9, 2:6])
        made = copied_batch(batch)
        assert made[0] is made[2]
        assert made[0] is not whole
        assert [one.stride() for one in made] == [one.stride() for one in batch]
        made[0][1, 0] = -1
        assert (made[1][0, 0].item(), whole[1, 0].item()) == (-1.0, 6.0)
        assert made[4].untyped_storage().nbytes() < 1000
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(made[3:], batch[3:], strict=True))

    def test_memory_of_the_model_stays_the_model_s(self):
        model = Plain()
        made = copied_batch({"x": model.mean[1:], "y": rows()}, storages_of(model))
        assert made["x"].data_ptr() == model.mean.data_ptr() + 4

    @fault("the batch is of a class of its own", None, "So is what is tried, and `forward` gets it as from you.")
    @pytest.mark.parametrize(
        "batch",
        [
            UserDict(x=rows()),
            defaultdict(list, x=[rows()]),
            namedtuple("Pair", "a b")(rows(), 1),
            pack_sequence([torch.ones(3, 2), torch.ones(2, 2)]),
            SimpleNamespace(x=rows()),
            MappingProxyType({"x": rows()}),
            (rows().to_sparse(), rows().half().requires_grad_()),
            torch.nested.nested_tensor([torch.ones(2, 2), torch.ones(3, 2)], layout=torch.jagged),
        ],
        ids=lambda batch: type(batch).__name__,
    )
    def test_a_container_keeps_its_class(self, batch):
        assert type(copied_batch(batch)) is type(batch)

    def test_a_list_with_a_constructor_of_its_own(self):
        class Rows(list):
            def __init__(self, *rows):
                super().__init__(rows)

        made = copied_batch(Rows(rows(), rows()))
        assert (type(made), len(made)) == (Rows, 2)

    def test_a_tensor_of_a_graph_is_one_of_a_graph_of_its_own(self):
        given = (torch.randn(3, 8) * 1).requires_grad_() * 2
        made = copied_batch((given[:, :4], given))
        assert not made[0].is_leaf
        assert made[0].stride() == (8, 1)
        made[1].relu_().sum().backward()
        assert made[1].retains_grad
        assert given.grad_fn is not None

    def test_inference_and_conjugate_tensors_lie_as_they_did(self):
        with torch.inference_mode():
            whole = torch.arange(24.0).reshape(4, 6)
            first, second = copied_batch((whole, whole[1:]))
            assert second.data_ptr() == first.data_ptr() + 24
        assert first.is_inference()
        conjugate = torch.randn(3, 4, dtype=torch.complex64)[:, :2].conj()
        made = copied_batch(conjugate)
        assert (made.is_conj(), made.stride(), torch.equal(made, conjugate)) == (True, (4, 1), True)


Batch = namedtuple("Batch", "x mask")


class Takes(nn.Module):
    def forward(self, batch):
        return batch


class TakesBoth(nn.Module):
    def forward(self, x, mask):
        return x * mask


@pytest.mark.parametrize(
    ("model", "batch", "arguments", "names"),
    [
        (Takes(), Batch(1, 2), 1, set()),
        (TakesBoth(), Batch(1, 2), 2, set()),
        (nn.GRU(2, 2), pack_sequence([torch.ones(3, 2)]), 1, set()),
        (TakesBoth(), UserDict(x=1, mask=2, other=3), 0, {"x", "mask"}),
        (TakesBoth(), MappingProxyType({"x": 1, "mask": 2}), 0, {"x", "mask"}),
        (Takes(), UserDict(x=1), 1, set()),
        (TakesBoth(), [1, 2, 3], 2, set()),
        (torch.relu, (1,), 1, set()),
    ],
)
def test_a_batch_reaches_forward_as_the_caller_s_own_call_would_hand_it_over(model, batch, arguments, names):
    positional, by_name, _ = split_batch(model, batch)
    assert (len(positional), set(by_name)) == (arguments, names)


def test_capture_and_maybe_compile_hand_over_the_same():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, batch):
            return self.layer(batch.x) * batch.mask

    batch = Batch(rows(), torch.ones(3, 1))
    report = report_of(Masked(), batch)
    assert report.compiled, report.reason
    assert report.tried_on == {"batch[0]": "float32 [3, 4]", "batch[1]": "float32 [3, 1]"}
    (told,) = capture(Masked().eval(), batch, machine_code=False)["model"]["inputs"]
    assert told["holds"].keys() == {"[0]", "[1]"}
    assert report_of(Plain().eval(), (rows(), torch.ones(3)), backend="aot_eager").tried_on == {
        "batch[0]": "float32 [3, 4]"
    }


class GoesOn(Plain):
    def forward(self, x, numbers):
        return self.half(x) + self.next(numbers)

    def half(self, x):  # a frame of its own: from torch 2.14 on Dynamo leaves one that holds a generator
        return self.layer(x)

    @torch.compiler.disable
    def next(self, numbers):
        return next(numbers)


class WritesLocked(Plain):
    def forward(self, x, lock, kept):
        kept.copy_(self.layer(x).detach())
        return self.layer(x) * 1.0


@fault(
    "its call uses up what can be neither copied nor put back, a generator, and the process cannot be copied",
    "NothingCompared: eager itself gives other numbers in two steps from one state, ...",
    "It stays eager; what was tried has used some of it up. In a copy of the process it is compared, and the generator "
    "stands where it did.",
)
def test_a_call_that_cannot_be_taken_back_stays_eager_unless_the_process_is_copied(place, says):
    numbers = (float(number) for number in range(99))
    report = report_of(GoesOn(), (rows(), numbers))
    if place == "in place":
        check_says(report.reason, says)
    else:
        assert report.compiled, report.reason
        assert next(numbers) == 0


@fault(
    "the batch holds what cannot be copied: a lock",
    None,
    "It is handed over itself. What a call writes to it is taken back, and compared.",
)
def test_what_cannot_be_copied_is_compared_all_the_same():
    loses = around(before=lambda given: tuple(a.clone() if is_input(a) and not a.any() else a for a in given))
    for backend, right in ((loses, False), ("eager", True)):
        torch.compiler.reset()
        kept = torch.zeros(3, 4)
        with torch.no_grad():
            report = report_of(WritesLocked().eval(), (rows(), Lock(), kept), backend)
        assert report.compiled == right, report.reason
        assert not kept.any()


@fault(
    "tensors of the batch lie over one another, or in the model's memory",
    None,
    "Those that are tried do as well, so that nothing is compiled for others.",
)
def test_a_batch_whose_tensors_overlap_is_proven_as_it_is():
    class Moves(nn.Module):
        def forward(self, whole, rest):
            whole.add_(100.0)
            return rest * 2

    def overlapping():
        whole = torch.arange(24.0).reshape(4, 6)
        return whole, whole[1:]

    with torch.no_grad():
        model = Moves().eval()
        report = report_of(model, overlapping(), backend="aot_eager")
        assert report.compiled, report.reason
        assert torch.equal(model(*overlapping()), Moves()(*overlapping()))


def test_strides_are_tried_as_the_caller_s_are():
    def wrong_where_apart(graph_module, example_inputs):
        apart = any(is_input(one) and not one.is_contiguous() for one in example_inputs)
        twice = around(after=lambda outputs, _: tuple(y * 2 for y in outputs))(graph_module, example_inputs)
        return twice if apart else graph_module

    assert not report_of(Plain(), torch.randn(3, 8)[:, :4], wrong_where_apart).compiled
    torch.compiler.reset()
    assert report_of(Plain(), torch.randn(3, 4), wrong_where_apart).compiled


def test_a_copy_of_the_process_goes_on_with_python_s_random_numbers():
    class Noisy(Plain):
        def forward(self, x):
            return self.layer(x) + self.noise()

        @torch.compiler.disable
        def noise(self):
            return random.random()

    state = random.getstate()
    model = Noisy()
    assert report_of(copy.deepcopy(model), rows()).compiled
    assert random.getstate() == state
