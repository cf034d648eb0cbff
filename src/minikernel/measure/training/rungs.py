"""A step of PyTorch's training on every rung: forward, backward, clipping and AdamW, as functions without arguments."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from minikernel.measure.training.names import COMPILE, EAGER, GRAPH_OF_COMPILED
from minikernel.model.train.tables import AdamW
from minimodel.checkpoint import Checkpoint
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.port import port
from minimodel.torch_minigpt import GrammarMiniGPT
from minimodel.torch_optim import decay_groups

RATE = 1e-4  # small and the same throughout, so that many steps on one batch stay finite

Step = Callable[[], object]


def model_at_start(config: MiniGPTConfig, seed: int, device: torch.device) -> GrammarMiniGPT:
    """A model as NumPy's training begins with it for a seed, on a device."""
    start = Checkpoint(config, NumpyMiniGPT.initialise(config, seed).arrays, {})
    return port(start)[0].to(device).train()


def synchronize(device: torch.device) -> None:
    """Wait for a GPU; a CPU has no work left when a call returns."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def adamw(model: GrammarMiniGPT, settings: AdamW, rate: float | Tensor, *, capturable: bool) -> torch.optim.AdamW:
    """PyTorch's AdamW for a model, at a rate; `capturable`: its steps may be in a CUDA graph."""
    return torch.optim.AdamW(
        decay_groups(model, settings.weight_decay), lr=rate, betas=(settings.beta_1, settings.beta_2),
        eps=settings.epsilon, fused=True, capturable=capturable,
    )  # fmt: skip


def torch_step(model: GrammarMiniGPT, ids: Tensor, targets: Tensor, settings: AdamW, compiled: bool) -> Step:
    """A step of PyTorch's training of a model on one batch, at a constant learning rate."""
    optimizer = adamw(model, settings, RATE, capturable=ids.is_cuda)
    call = torch.compile(model) if compiled else model

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(call(ids).flatten(0, 1), targets.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()

    return step


def captured(step: Step) -> Step:
    """The step as the replay of one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):  # what compiles or allocates at first must be over before the capture
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(_held: Step = step) -> None:
        # The graph knows addresses: whoever holds it holds the model and the optimizer whose memory they are.
        graph.replay()

    return replay


def torch_steps(
    config: MiniGPTConfig, ids: Tensor, targets: Tensor, settings: AdamW, compiles: bool = True
) -> dict[str, Step]:
    """Rung -> a step of PyTorch's on one batch; without `compiles` the graph is eager's, and `compile` is not there."""

    def step(compiled: bool) -> Step:
        return torch_step(model_at_start(config, 0, ids.device), ids, targets, settings, compiled)

    steps = {EAGER: step(False), GRAPH_OF_COMPILED: captured(step(compiles))}
    return {EAGER: steps[EAGER], **({COMPILE: step(True)} if compiles else {}), **steps}
