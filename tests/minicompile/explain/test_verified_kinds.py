"""Kinds of sentence that were false of models nobody had seen, of such models compiled and run here."""

import re
from functools import cache

import pytest
import torch
import triton
import triton.language as tl
from torch.nn import functional as F

from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.annotation.choice import views_of
from minicompile.lowering.by_values import is_verified
from minicompile.lowering.capture import as_capture
from minicompile.lowering.captured import Capture
from minicompile.watching.model import watch_model


def biased(x, weight, bias):
    return F.relu(F.conv2d(x, weight, bias))


def scattered(x, places, y):
    sums = torch.zeros(10, 6, device=x.device).index_add(0, places, x.exp())
    largest = torch.full((10, 6), float("-inf"), device=x.device).scatter_reduce(0, places[:, None] + 0 * y, x, "amax")
    return sums, largest


def ranked(x):
    order = x.sort(-1).indices
    return x.gather(-1, order.flip(-1)), torch.mm(x, x.T).gather(-1, order) * 2


def in_place(total, x, table):
    total.copy_(total * 0.9 + x.tanh())
    table.mul_(2).fill_diagonal_(0.5)
    return total.max(), (table.clone() + 1).sum(-1)


def averaged(average, x, y):
    torch._foreach_lerp_([average, y], [x.tanh(), x.cos()], 0.25)
    return average.sum() + y.sum()


@triton.jit
def add_into(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, at < n) + tl.load(y_ptr + at, at < n), at < n)


def users_own(x, y):
    given, added = x.tanh() * 0.5, y.exp() + 1
    add_into[(triton.cdiv(given.numel(), 64),)](given, added, given.numel(), BLOCK=64)
    return torch.softmax(given, -1), added.cos()


def ordered(x):
    return torch.cumsum(x.flip(-1).pow(2) * 3, -1), torch.softmax(x, -1).clone().T.contiguous()


def unrolled(x):
    return (x.exp() * 2).sum(-1)


def pieces(x, y):
    return torch.cat([(x @ y).sin().cumsum(-1), x.cumsum(0) @ y], 1).cos()


def padded(x):
    both = torch.cat([x - x.amax(-2, keepdim=True), x], -2)
    return both.amin(1), F.pad(both, (0, 1, 3, 0), value=0.5).square().mean()


INPUTS = {
    padded: lambda: (torch.randn(13, 13),),
    unrolled: lambda: (torch.randn(15, 4),),
    pieces: lambda: (torch.randn(8, 40), torch.randn(40, 12)),
    biased: lambda: (torch.randn(2, 3, 9, 9), torch.randn(4, 3, 3, 3), torch.randn(4)),
    scattered: lambda: (torch.randn(17, 6), torch.randint(0, 10, (17,)), torch.zeros(17, 6, dtype=torch.int64)),
    ranked: lambda: (torch.randn(12, 12),),
    in_place: lambda: (torch.randn(9, 11), torch.randn(9, 11), torch.randn(7, 7)),
    averaged: lambda: (torch.randn(8, 12), torch.randn(8, 12), torch.randn(8, 12)),
    users_own: lambda: (torch.randn(12, 40), torch.randn(12, 40)),
    ordered: lambda: (torch.randn(9, 24),),
}


@cache
def verified(model, target: str = "simulated") -> Capture:
    torch.manual_seed(3)
    with torch.no_grad():
        return as_capture(watch_model(model, INPUTS[model](), target=target, machine_code=False, verify=True))


def told(model, kernel: str) -> tuple[str, dict[str, str]]:
    """What is said above section 1 of a verified kernel, and of each of its nodes what became of it."""
    capture = verified(model)
    [view] = [one for one in views_of(capture) if one.call["kernel"].startswith(kernel)]
    assert is_verified(view.call)
    text = annotate(capture, kernel=view.call["id"]).split("## The kernel, line by line")[0]
    table = text.partition("what became of the result |")[2].partition("\n\n")[0]
    rows = {row.split("|")[2].strip(" `"): row.split("|")[-2].strip() for row in table.strip().splitlines()[1:]}
    return next((line for line in text.splitlines() if line.startswith("This ")), ""), rows


@pytest.mark.parametrize(
    ("model", "kernel", "said"),
    [
        (biased, "triton_poi_fused_convolution_relu_", "computes, in this order: the rest of `convolution`, `relu`."),
        (biased, "triton_poi_fused_convolution_0", "computes nothing new; it moves `arg0_1`."),
        (scattered, "triton_poi_fused_zeros_", "computes, in this order: fill with one value."),
        (scattered, "triton_poi_fused_add_exp", "computes, in this order: exponential, add, `index_put_`."),
        (scattered, "triton_poi_fused_add_full", "computes, in this order: fill with one value."),
        (ranked, "triton_per_fused_gather_mul_sort_", "computes, in this order: sort, gather, multiply."),
        (ranked, "triton_poi_fused_flip_gather_sort_", "computes, in this order: gather."),
        (in_place, "triton_per_fused", "computes, in this order: multiply, `tanh`, add, copy into an input, maximum."),
        (in_place, "triton_poi_fused_fill_", "computes, in this order: copy into a part of another result."),
        (in_place, "triton_poi_fused_copy__", "computes, in this order: copy into an input."),
        (users_own, "triton_poi_fused_add_exp_mul_tanh", "computes, in this order: `tanh`, multiply."),
        (users_own, "triton_poi_fused_add_cos", "computes, in this order: exponential, add, `cos`."),
        (ordered, "triton_per_fused_cumsum", "computes, in this order: `rev`, power, multiply, running sum."),
    ],
)
def test_a_kernel_is_said_to_compute_what_its_lines_have(model, kernel, said):
    assert told(model, kernel)[0] == f"This kernel {said}"


@pytest.mark.parametrize(
    ("model", "kernel", "became"),
    [
        (scattered, "triton_poi_fused_zeros_", {"full_default_1": "written to memory"}),
        (ranked, "triton_per_fused_gather_mul_sort_", {"sort": "`getitem_1` written to memory"}),
        (in_place, "triton_per_fused", {"copy_": "written to memory", "add": "written to memory"}),
        (averaged, "triton_for_fused_", {"_foreach_addcmul": "`getitem_2` written to memory; `getitem_3` written"}),
        (ordered, "triton_per_fused__softmax", {"div": "written to memory"}),
        (users_own, "triton_poi_fused_add_cos", {"add": "written to memory", "exp": "part of its consumers' loops;"}),
    ],
)
def test_what_became_of_a_result_is_where_its_values_are(model, kernel, became):
    rows = told(model, kernel)[1]
    assert {name: rows[name][: len(said)] for name, said in became.items()} == became


def test_a_line_is_what_it_has():
    capture = verified(users_own)
    texts = [annotate(capture, kernel=view.call["id"]) for view in views_of(capture)]
    comments = dict(re.findall(r"^ *# \d+: (\S+ \(\w+\)).*\n( *tmp.*)$", "\n".join(texts), re.M)[::-1])
    lines = {text.strip(): said for said, text in comments.items()}
    assert lines["tmp1 = libdevice.tanh(tmp0)"] == "aten.tanh.default (tanh)"
    assert lines["tmp1 = libdevice.exp(tmp0)"] == "aten.exp.default (exp)"


def test_the_head_counts_what_was_verified():
    assert "What is told of its 2 kernels' calls is verified by values" in annotate(verified(ordered))


def pages(model) -> list[str]:
    capture = verified(model)
    return [annotate(capture, kernel=view.call["id"]) for view in views_of(capture) if not view.call["extern"]]


def test_a_kernel_that_computes_parts_of_others_computes_among_others():
    (page,) = pages(unrolled)
    assert "This kernel computes, among others and in this order: sum." in page
    assert "Lines of it compute some elements each of `aten.exp.default` (`exp`)." in page
    assert "operations are in this one kernel" not in page


def test_a_buffer_of_pieces_is_no_pieces_result():
    """`torch.cat` has two pieces of 8x12 floats in one buffer: the cosine reads that, and the result of neither."""
    page = next(one for one in pages(pieces) if "`cos`" in one.partition("## The kernel, line by line")[0])
    read = re.findall(r"^- `\w+`, (.*) \(768 bytes\)", page.partition("\n## 3")[0], re.M)
    assert read == ["the result of `aten.cat.default` (`cat`)"]


def test_what_a_mask_pads_is_not_in_the_buffer_that_is_read():
    for page in pages(padded):
        reads = page.partition("\n## 2")[2].partition("\n## 3")[0]
        assert "the result of `aten.constant_pad_nd.default`" not in reads
