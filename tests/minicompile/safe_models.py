"""Small models, their batches, and backends that fail on purpose."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from minicompile.safe.compile_cases import FAST, FAULTS  # noqa: F401 - the first for the tests
from minimodel import GrammarMiniGPT, MiniGPTConfig


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Tied(nn.Module):
    """Output weights that are the embedding's."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 8)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.head(self.embedding(ids).tanh())
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Dropout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.dropout = nn.Linear(8, 16), nn.Linear(16, 4), nn.Dropout(0.4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.dropout(self.first(x).relu()))


class BatchNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 4), nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.linear(x)).relu()


class DictInputs(nn.Module):
    """Takes a dictionary's keys by name and returns a dictionary with its own loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(12, 8), nn.Linear(8, 12)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.head(self.embedding(input_ids) * attention_mask[..., None])
        if labels is None:
            return {"logits": logits}
        return {"logits": logits, "loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten())}


class DataDependentBranch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        if x.sum() > 0:
            return y.relu() + y
        return y.sigmoid()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * gradient


class CustomAutograd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return Cube.apply(self.linear(x))


class InPlaceBuffer(nn.Module):
    """Keeps a running mean that it writes in place, and one that it replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.register_buffer("seen", torch.zeros(4))
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        self.seen.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        self.last = y.detach().mean(0)
        return y - self.seen


def minigpt() -> GrammarMiniGPT:
    return GrammarMiniGPT(MiniGPTConfig(vocab_size=20, n_layer=1, n_head=2, n_embd=8, block_size=16))


def features() -> Tensor:
    return torch.linspace(-1, 1.5, 48).reshape(6, 8)  # of positive sum


def ids(rows: int = 2, length: int = 6, vocabulary: int = 12) -> Tensor:
    return torch.arange(rows * length).reshape(rows, length) % vocabulary


def dictionary() -> dict[str, Tensor]:
    mask = torch.ones(2, 6, dtype=torch.int64)
    return {"input_ids": ids(), "attention_mask": mask, "labels": ids().flip(1)}


# name -> (model, batch)
MODELS = {
    "mlp": (MLP, features),
    "minigpt": (minigpt, ids),
    "tied": (Tied, lambda: (ids(), ids().flip(1))),
    "dropout": (Dropout, features),
    "batch_norm": (BatchNorm, features),
    "dict_inputs": (DictInputs, dictionary),
    "data_dependent": (DataDependentBranch, features),
    "custom_autograd": (CustomAutograd, features),
    "in_place_buffer": (InPlaceBuffer, features),
}


def build(name: str) -> tuple[nn.Module, object]:
    torch.manual_seed(0)
    model, batch = MODELS[name]
    return model(), batch()


failing, failing_backward = FAULTS["refuses"].backend, FAULTS["refuses backward"].backend
lying, lying_backward = FAULTS["lies"].backend, FAULTS["halves gradients"].backend


def fingerprint(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> dict:
    """Everything that a fallback must leave as it was, in a form that `==` compares bit for bit."""

    def bits(value):
        if isinstance(value, Tensor):
            return (
                id(value),
                value.dtype,
                value.detach().contiguous().view(torch.uint8).tolist() if value.ndim else value.item(),
            )
        return value

    state = {
        "rng": torch.get_rng_state().tolist(),
        "flags": [(name, module.training) for name, module in model.named_modules()],
        "attributes": [(name, sorted(vars(module))) for name, module in model.named_modules()],
        "hooks": [
            (name, list(module._forward_hooks), list(module._backward_hooks)) for name, module in model.named_modules()
        ],
        "parameters": [(n, bits(p), bits(p.grad), p.requires_grad) for n, p in model.named_parameters()],
        "buffers": [(n, bits(b)) for n, b in model.named_buffers()],
    }
    if optimizer is not None:
        state["optimizer"] = [
            {key: bits(value) for key, value in optimizer.state.get(parameter, {}).items()}
            for parameter in model.parameters()
        ]
        state["groups"] = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    return state
