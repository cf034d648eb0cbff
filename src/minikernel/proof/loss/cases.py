"""The inputs on which losses are compared, each for a way in which one has been wrong in public.

A case is a code; pages word it. Those of usual width are tried at larger ones as well: who keeps logits on the chip at
one may write them to memory at another. None of them is known to crash anything: targets are in range, sizes are
positive.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

IGNORED = -100
CLASS = 3  # one that is ignored although it is a word's number
FACTOR = -4.0  # of a loss before it is differentiated: one by which nothing is rounded
BF16, F32, F16 = "bfloat16", "float32", "float16"
# what stands above or beside the logits of a case: small enough that float32 keeps a thousandth of a nat
OFFSET = 96.0
SURE = 14.0  # the logit of a target that is nearly certain
CAP, STEEP = 10.0, 8.0
USUAL, WIDER, WIDEST = 64, 256, 1536  # features


@dataclass(frozen=True)
class Case:
    """One input.

    Attributes:
        code: what it is about.
        m, d, v: tokens, width, words.
        dtypes: in which it is run.
        options: of the loss, as numbers and words; tensors are made with the inputs.
        how: what is done: `once`, `twice` (a graph kept and gone through again), `parts` (gradients of two halves are
            accumulated), `tied` (the tokens are rows of the weight), `transposed`, `strided`, `mixed` (a float32
            weight), `factor` (the loss is multiplied before it is differentiated), `states_alone` and `weight_alone`
            (the other gets no gradient), `forward` (nothing gets one).
        logits: `plain`, `offset`, `sure`, `least`, `flat` or `steep`.
        gpu_only: too large for a CPU.
    """

    code: str
    m: int = 96
    d: int = USUAL
    v: int = 600
    dtypes: tuple[str, ...] = (BF16, F32)
    options: dict[str, Any] = field(default_factory=dict)
    how: str = "once"
    logits: str = "plain"
    gpu_only: bool = False


CASES = (
    Case("plain"),
    Case("half", dtypes=(F16,)),
    Case("offset", logits="offset"),
    Case("sure", logits="sure"),
    Case("least", logits="least"),
    Case("flat", m=32, v=32768, logits="flat"),
    Case("odd_v", v=601),
    Case("wide_v", m=16, d=16, v=2**17 + 7),
    Case("many", m=16448, v=2**17 + 7, dtypes=(BF16,), gpu_only=True),
    Case("odd_m", m=1021),
    Case("width", d=96),
    Case("one_token", m=1),
    Case("all_ignored", options={"reduction": "sum", "ignore_index": IGNORED}),
    Case("some_ignored", m=1000, options={"ignore_index": IGNORED}),
    Case("ignored_class", options={"ignore_index": CLASS}),
    Case("ignored_smoothed", m=200, options={"ignore_index": IGNORED, "label_smoothing": 0.1}),
    Case("ignored_per_token", m=200, options={"ignore_index": IGNORED, "reduction": "none"}),
    Case("per_token", options={"reduction": "none"}),
    Case("twice", how="twice"),
    Case("parts", options={"reduction": "sum"}, how="parts"),
    Case("factor", how="factor"),
    Case("states_alone", how="states_alone"),
    Case("weight_alone", how="weight_alone"),
    Case("forward", how="forward"),
    Case("chunks", m=1024, v=2003),
    Case("bias", options={"bias": None}),
    Case("class_weight", options={"class_weight": None}),
    Case("smoothing", options={"label_smoothing": 0.1}),
    Case("z_loss", options={"z_loss": 1e-2}),
    Case("softcap", options={"softcap": CAP}, logits="steep"),
    Case("together", options={"bias": None, "label_smoothing": 0.1, "z_loss": 1e-2, "softcap": CAP}),
    Case("mixed", dtypes=(BF16,), how="mixed"),
    Case("strided", how="strided"),
    Case("transposed", how="transposed"),
    Case("tied", how="tied"),
)


def cases(device: str) -> Iterable[Case]:
    """Those that a device runs: all of them, then those of usual width with more features, and in 16 bits with most."""
    able = [case for case in CASES if not case.gpu_only or torch.device(device).type == "cuda"]
    usual = [case for case in able if case.d == USUAL and not case.gpu_only]
    widest = [replace(case, d=WIDEST, dtypes=(BF16,)) for case in usual if BF16 in case.dtypes]
    return (*able, *(replace(case, d=WIDER) for case in usual), *widest)


@dataclass
class Made:
    """A case's tensors. `h` is (M, D), `weight` (V, D), in the dtypes that the contender gets."""

    h: Tensor
    weight: Tensor
    target: Tensor
    options: dict[str, Any]
    upstream: Tensor | None = None


def made(case: Case, dtype: str, device: str, seed: int) -> Made:
    """Make a case's tensors, alike on each device."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    h, weight = normal(case.m, case.d), normal(case.v, case.d) / case.d**0.5  # logits of about 1
    target = torch.randint(0, case.v, (case.m,), generator=generator)
    if case.logits == "offset":
        h[:, 0], weight[:, 0] = OFFSET, 1.0
    elif case.logits == "sure":
        own = weight[target]
        h = SURE * own / own.square().sum(-1, keepdim=True)
    elif case.logits == "least":
        target = (h @ weight.T).argmin(-1)
    elif case.logits == "flat":
        weight = weight * 1e-3
    elif case.logits == "steep":
        h = h * STEEP
    if case.code == "all_ignored":
        target[:] = IGNORED
    elif case.code == "ignored_class":
        target[::3] = CLASS
    elif case.code in ("some_ignored", "ignored_smoothed", "ignored_per_token"):
        # nearly all of the first half, few of the second: a mean of the chunks' means is another number
        dropped = torch.rand(case.m, generator=generator) < torch.linspace(1.0, 0.0, case.m)
        target[dropped] = IGNORED
    kind = getattr(torch, dtype)
    options = dict(case.options)
    for name in ("bias", "class_weight"):
        if name in options:
            drawn = normal(case.v)
            options[name] = (drawn if name == "bias" else drawn.abs() + 0.5).to(device, kind)
    upstream = normal(case.m).to(device) if options.get("reduction") == "none" else None
    if case.how == "factor":
        upstream = torch.tensor(FACTOR, device=device)
    weight_kind = torch.float32 if case.how == "mixed" else kind
    tensors = Made(h.to(device, kind), weight.to(device, weight_kind), target.to(device), options, upstream)
    if case.how == "tied":
        # each token a row of its own: the weight's gradient is then the sum of two, one of them in some rows only
        ids = torch.randperm(case.v, generator=generator)[: case.m].to(device)
        return replace(tensors, h=tensors.weight[ids].clone(), options={**options, "ids": ids})
    return tensors
