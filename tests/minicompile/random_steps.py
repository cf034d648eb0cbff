"""The steps that a random model is made of: templates, and how their blanks are drawn."""

import random

import torch
from torch import Tensor

METHODS = ("exp", "sigmoid", "tanh", "relu", "abs", "neg", "square", "sin", "cos", "erf", "floor", "sign")
FUNCTIONS = ("gelu", "silu", "softplus", "elu", "leaky_relu", "hardswish", "mish", "logsigmoid")
REDUCTIONS = ("sum", "mean", "amax", "amin", "prod", "var", "std", "logsumexp", "any", "argmax", "argmin")
DTYPES = ("bfloat16", "float16", "int32", "int64", "uint8", "bool", "float64")

# The second part of a pair is what `{new}` is: a part of the module where it is of `nn`, else an input.
Template = str | tuple[str, str]
STEPS: tuple[Template, ...] = (
    # unary
    *(f"{{x}}.{name}()" for name in METHODS),
    *(f"F.{name}({{x}})" for name in FUNCTIONS),
    "({x}.abs() + 1).log()", "({x}.abs() + 0.5).rsqrt()", "{x} * 0.3 + 1.7", "{x}.clamp(-0.7, 0.9)",
    "1 / ({x} * {x} + 1)", "F.gelu({x}, approximate='tanh')",
    # binary
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y}.abs() + 1)", "torch.maximum({x}, {y})",
    "torch.lerp({x}, {y}, 0.3)", "torch.addcmul({x}, {y}, {y}, value=0.5)", "torch.atan2({x}, {y})",
    ("{x} + {new}", "torch.randn({like})"), ("{x} * {new}", "torch.randn({like})"),
    ("{x} * {new}", "nn.Parameter(torch.randn({like}))"),
    ("torch.minimum({x}, {new})", "torch.randn({like}, dtype=torch.{dtype})"),
    # choice
    "{x} > {y}", "torch.where({x} > {y}, {x}, {y} * 0.5)", "{x}.masked_fill({x} < 0.2, 0.1)", "{x}.isnan()",
    "torch.where({x}.abs() < 1, {x}, 0.0)", ("torch.where({new}, {x}, {y})", "torch.randn({like}) > 0"),
    ("{x}.masked_fill({new}, -1.5)", "torch.randn({like}) > 0.5"), "{x}.tril()", "{x}.triu(1)",
    # reduction
    *(f"{{x}}.{name}({{axis}}, keepdim={{truth}})" for name in REDUCTIONS),
    "{x}.sum()", "{x}.mean()", "{x}.sum((0, -1), keepdim={truth})", "{x}.mean((-2, -1), keepdim={truth})",
    "torch.var_mean({x}, {axis}, correction=0, keepdim={truth})", "{x}.max({axis})",
    "torch.linalg.vector_norm({x}, {norm}, {axis}, keepdim={truth})", "{x} - {x}.mean({axis}, keepdim=True)",
    "{x} / ({x}.norm(dim={axis}, keepdim=True) + 1e-6)", "{x} - {x}.amax({axis}, keepdim=True)",
    # norm
    "{x}.softmax({axis})", "{x}.log_softmax({axis})", "F.softmin({x}, {axis})", "F.normalize({x}, dim={axis})",
    "{x}.softmax({axis}, dtype=torch.float32)", "F.layer_norm({x}, ({last},))", "F.rms_norm({x}, ({last},))",
    ("{new}({x})", "nn.LayerNorm({last})"), ("{new}({x})", "nn.RMSNorm({last}, eps=1e-6)"),
    ("{new}({x})", "nn.GroupNorm({groups}, {second})"), ("{new}({x})", "nn.BatchNorm1d({second})"),
    ("{new}({x})", "nn.BatchNorm2d({second})"), "F.layer_norm({x}, {x}.shape[1:])", "F.instance_norm({x})",
    # product
    ("{new}({x})", "nn.Linear({last}, {width})"), ("{new}({x})", "nn.Linear({last}, {width}, bias=False)"),
    ("{x} @ {new}", "torch.randn({last}, {width})"), "{x} @ {y}", "{x} @ {x}.mT", "torch.bmm({x}.mT, {x})",
    "torch.einsum('...ij,...ik->...jk', {x}, {x})", ("torch.outer({x}, {new})", "torch.randn({width})"),
    "F.scaled_dot_product_attention({x}, {x}, {x}, is_causal={truth})",
    ("F.scaled_dot_product_attention({x}, {new}, {new})", "torch.randn({shape})"),
    # window
    ("{new}({x})", "nn.Conv1d({second}, {width}, 3, padding={few})"),
    ("{new}({x})", "nn.Conv2d({second}, {width}, 3, padding=1, stride={some})"),
    ("{new}({x})", "nn.Conv2d({second}, {second}, 3, padding=1, groups={second})"),
    "F.max_pool1d({x}, 3, {some}, padding={few})", "F.avg_pool1d({x}, {some}, padding=1)",
    "F.max_pool2d({x}, 2, {some})", "F.avg_pool2d({x}, 3, {some}, padding={few})",
    "F.adaptive_avg_pool1d({x}, {some})", "F.adaptive_avg_pool2d({x}, {some})",
    "F.interpolate({x}, scale_factor=2)", "{x}.unfold({axis}, {some}, {some})",
    # joining
    "torch.cat([{x}, {y}], {axis})", "torch.cat([{x}, {x} * 2], {axis})", "torch.stack([{x}, {y}], {axis})",
    "{x}.chunk({some}, {axis})", "{x}.split({part}, {axis})", "{x}.unbind({axis})",
    "{x}.repeat_interleave(2, {axis})",
    # layout
    "F.pad({x}, ({few}, {some}))", "F.pad({x}, (0, {few}, {some}, 0), value=0.5)", "{x}.roll({part}, {axis})",
    "F.pad({x}, (1, 1), mode='reflect')", "{x}.flip({axis})", "{x}[{part}:]", "{x}[..., {few}:-1]",
    "{x}[..., ::{some}]", "{x}[::{some}]", "{x}.narrow({axis}, {few}, {part})", "{x}.select({axis}, {few})",
    "{x}.unsqueeze({axis}).expand({width}, *{shape})", "{x}.unsqueeze({axis})", "{x}.squeeze({any_axis})",
    "{x}.permute({order})", "{x}.permute({order}).contiguous()", "{x}.flatten()", "{x}.flatten(0, 1)",
    "{x}.flatten(-2)", "{x}.unflatten({axis}, (-1, {divisor}))", "{x}.transpose(0, -1)", "{x}.diagonal()",
    # places
    ("{x}.gather({axis}, {new})", "torch.randint(0, {length}, {shape})"),
    ("{x}.index_select({axis}, {new})", "torch.randint(0, {length}, ({width},))"),
    ("{x}[{new}]", "torch.randint(0, {first}, ({width},))"),
    ("F.embedding({new}, {x})", "torch.randint(0, {first}, ({some}, {width}))"),
    ("{new}(({x} > 0).long())", "nn.Embedding(2, {width})"),
    ("torch.zeros_like({x}).scatter_add({axis}, {new}, {x})", "torch.randint(0, {length}, {shape})"),
    ("{x}.index_add({axis}, {new}, {x}.neg())", "torch.randint(0, {length}, ({length},))"),
    ("{x}.scatter({axis}, {new}, 0.5)", "torch.randint(0, {length}, {shape})"),
    # order
    "{x}.cumsum({axis})", "{x}.sort({axis})", "{x}.argsort({axis})", "{x}.topk({part}, {axis})",
    "{x}.cumprod({axis})", "{x}.cummax({axis}).values", "{x}.median({axis}).values",
    # dtype
    *(f"{{x}}.to(torch.{name})" for name in DTYPES),
    "{x}.float()", "{x}.half()", "{x}.bfloat16()", "({x} * 10).round().int()",
    # loss
    ("F.cross_entropy({x}, {new})", "torch.randint(0, {second}, ({first},))"),
    ("F.cross_entropy({x}, {new}, label_smoothing=0.1)", "torch.randint(0, {second}, ({first},))"),
    ("F.nll_loss({x}.log_softmax(1), {new}, reduction='none')", "torch.randint(0, {second}, ({first},))"),
    ("F.mse_loss({x}, {new})", "torch.randn({shape})"), ("F.huber_loss({x}, {new})", "torch.randn({shape})"),
    ("F.binary_cross_entropy_with_logits({x}, {new})", "torch.rand({shape})"),
    ("F.kl_div({x}.log_softmax(-1), {new}.softmax(-1), reduction='batchmean')", "torch.randn({shape})"),
    ("F.cosine_similarity({x}, {new}, {axis})", "torch.randn({shape})"),
    # noise
    "F.dropout({x}, 0.25)", "F.dropout({x}, 0.1, self.training)", "{x} + torch.rand_like({x})",
)  # fmt: skip
SIZES = (2, 3, 5, 6, 7, 9, 11, 13, 17, 19, 23, 33, 37)  # hardly one is a multiple of a vector's width


class Blanks(dict):
    """What the blanks of a template are filled with, each drawn when it is first met."""

    def __init__(self, draw: random.Random, values: dict[str, Tensor]) -> None:
        self.draw, self.values = draw, values
        recent = [*values]
        super().__init__(x=draw.choices(recent, range(1, len(recent) + 1))[0])
        self.size = values[self["x"]].shape
        self.sizes = [size for size in SIZES if size < 20]

    def __missing__(self, blank: str) -> object:
        self[blank] = getattr(self, blank)()
        return self[blank]

    def y(self) -> str:
        """A value whose shape broadcasts with that of `x`."""
        return self.draw.choice([name for name, value in self.values.items() if _broadcast(self.size, value.shape)])

    def axis(self) -> int:
        """An axis of more than one element, counted from the end or from the beginning."""
        axis = self.draw.choice([axis for axis, length in enumerate(self.size) if length > 1])
        return self.draw.choice((axis, axis - len(self.size)))

    def any_axis(self) -> int:
        return self.draw.randrange(len(self.size))

    def length(self) -> int:
        return self.size[self["axis"]]

    def first(self) -> int:
        return max(self.size[0], 2)

    def second(self) -> int:
        return max(self.size[1], 2)

    def last(self) -> int:
        return self.size[-1]

    def part(self) -> int:
        return self.draw.randint(1, self["length"] - 1)

    def divisor(self) -> int:
        return self.draw.choice([part for part in range(2, self["length"] + 1) if self["length"] % part == 0])

    def groups(self) -> int:
        return self.draw.choice([part for part in range(1, self["second"] + 1) if self["second"] % part == 0])

    def shape(self) -> tuple[int, ...]:
        return tuple(self.size)

    def like(self) -> tuple[int, ...]:
        """A shape that broadcasts with that of `x`."""
        size = [length if self.draw.random() < 0.7 else 1 for length in self.size]
        return tuple(size[self.draw.choice((0, 0, min(1, len(size) - 1))) :])

    def order(self) -> str:
        return ", ".join(map(str, self.draw.sample(range(len(self.size)), len(self.size))))

    def width(self) -> int:
        return self.draw.choice(self.sizes)

    def few(self) -> int:
        return self.draw.choice((0, 1))

    def some(self) -> int:
        return self.draw.choice((2, 3))

    def norm(self) -> str:
        return self.draw.choice(("1", "2", "3", "float('inf')"))

    def truth(self) -> bool:
        return self.draw.random() < 0.5

    def dtype(self) -> str:
        return self.draw.choice(("bfloat16", "float16", "float64"))


def _broadcast(*shapes: torch.Size) -> bool:
    try:
        return bool(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        return False
