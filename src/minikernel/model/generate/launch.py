"""`generate`: a whole text in one launch, where the model fits into a cluster of blocks; elsewhere, torch.

The kernel is `write_text.cu`, for GPUs with thread-block clusters (compute capability 9.0 and later). The weights are
packed once for each model, and again when one of them has changed.
"""

import weakref
from ctypes import c_float, c_int, c_uint64
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minikernel.model import nvrtc
from minikernel.model.driver import Launch
from minikernel.model.generate.packing import BLOCKS, THREADS, check_fits, embedding, packed, shared_bytes
from minikernel.model.parameters import Taken
from minikernel.ops import softmax_cuda
from minilab import LabError
from minimodel.model_config import MiniGPTConfig
from minimodel.port import torch_name
from minimodel.torch_minigpt import GrammarMiniGPT
from minimodel.writing import generate as writing
from minimodel.writing.sampling import Sampling

SOURCE = Path(__file__).parent / "write_text.cu"
GREEDY = Sampling()


class Packed(Taken):
    """A model's weights on its GPU, as the kernel reads them."""

    def __init__(self, model: GrammarMiniGPT) -> None:
        """Pack them.

        Raises:
            LabError: the kernel does not take the model or its device.
        """
        check_takes(model)
        # Versions are taken down before the arrays are read: a change meanwhile is then noticed.
        super().__init__(model)
        self.config, device = model.config, model.lm_head.weight.device
        parameters = dict(model.named_parameters())
        arrays = {name: parameters[torch_name(name)].detach().cpu().numpy() for name in model.config.shapes}
        made = packed(model.config, arrays), *(embedding(arrays[f"{name}_embedding"]) for name in ("token", "position"))
        # (BLOCKS, floats of a block); (V, d) and (block_size, d), each row without its mean; all float32
        self.tables = [torch.from_numpy(table).to(device) for table in made]
        self.gpu = self.tables[0].get_device()

    def launch_of(
        self, sequences: int, given: int, new_tokens: int, sampling: Sampling, last_logits: Tensor | None = None
    ) -> Launch:
        """The kernel's launch for so many prompts of `given` tokens; `last_logits` as `write` has it."""
        words = self.config.vocab_size
        return Launch(
            # a cluster of blocks for each sequence: they never wait for another sequence's
            nvrtc.compiled(SOURCE, expression(self.config), self.gpu), self.gpu, BLOCKS * sequences, THREADS,
            shared_bytes(self.config), [table.data_ptr() for table in self.tables],
            [
                0 if last_logits is None else last_logits.data_ptr(), c_int(given), c_int(new_tokens),
                c_float(sampling.temperature), c_int(min(sampling.top_k or words, words)), c_uint64(sampling.seed),
            ],
        )  # fmt: skip


_packed: "weakref.WeakKeyDictionary[GrammarMiniGPT, Packed]" = weakref.WeakKeyDictionary()


def generate(
    model: GrammarMiniGPT, ids: Any, new_tokens: int, sampling: Sampling = GREEDY, *, fall_back: bool = True
) -> Tensor:
    """Write on: the tokens that follow each sequence, in one launch where there can be one.

    Args:
        model: float32.
        ids: (B, T) integers, B prompts of T tokens each.
        new_tokens: how many to write after them; with the prompt at most block_size.
        sampling: how each is chosen; the likeliest by default.
        fall_back: write with torch, step by step, where the kernel does not take the model or its device.

    Returns:
        (B, new_tokens) int64 on the model's device.

    Raises:
        LabError: `ids` is no such array or leaves the vocabulary, or there is no room for as many tokens; without
            `fall_back`, also why the kernel does not take the model.
    """
    device = model.lm_head.weight.device
    prompt = writing.checked_prompt(model, ids, new_tokens)
    try:
        weights = _packed_once(model)
    except LabError:
        if not fall_back:
            raise
        return torch.as_tensor(writing.generate(model, prompt, new_tokens, sampling), device=device)
    # ids that lie on the GPU already are not sent back to it
    there = isinstance(ids, Tensor) and ids.device == device and ids.dtype == torch.int64
    return _write(weights, ids if there else torch.as_tensor(prompt, device=device), new_tokens, sampling)


def check_takes(model: GrammarMiniGPT) -> None:
    """Refuse what the kernel does not take.

    Raises:
        LabError: the model is not on a GPU with clusters, is not float32, or does not fit.
    """
    weight = model.lm_head.weight
    if not weight.is_cuda:
        raise LabError(f"the model in one kernel runs on a GPU, and this one is on {weight.device}; move it with .to.")
    if weight.dtype != torch.float32:
        raise LabError(f"the model in one kernel computes in float32, and this one is {weight.dtype}; convert it.")
    if softmax_cuda.limits_of(weight.get_device()).blocks < BLOCKS:
        raise LabError(
            "the model in one kernel needs thread-block clusters of 8, which came with compute capability 9.0; write "
            "with minimodel.writing.generate."
        )
    check_fits(model.config)


def write(
    model: GrammarMiniGPT, prompt: Tensor, new_tokens: int, sampling: Sampling, last_logits: Tensor | None = None
) -> Tensor:
    """Launch the kernel: prompts (B, T) int64 on the GPU to tokens (B, new_tokens) int64.

    `last_logits` (B, V) float32 receives the logits of the last token.
    """
    return _write(_packed_once(model), prompt, new_tokens, sampling, last_logits)


def _write(
    weights: Packed, prompt: Tensor, new_tokens: int, sampling: Sampling, last_logits: Tensor | None = None
) -> Tensor:
    asked = (len(prompt), prompt.shape[1], new_tokens, sampling)
    written = torch.empty((len(prompt), new_tokens), dtype=torch.int64, device=prompt.device)
    if not new_tokens:
        return written
    # With `last_logits`, which only tests and proofs ask for, the launch holds that address and is not kept.
    if last_logits is None:
        launch = weights.launch(asked, lambda: weights.launch_of(*asked))
    else:
        launch = weights.launch_of(*asked, last_logits)
    launch(prompt.contiguous(), written)
    weights.launched()
    return written


def expression(config: MiniGPTConfig) -> str:
    """The C++ name of the kernel for a model's sizes."""
    return f"write_text<{config.n_layer}, {config.vocab_size}, {config.block_size}>"


def instances() -> list[str]:
    """The kernel for the lab's own model, as the tests compile it for a GPU that is not here."""
    return ["write_text<4, 600, 128>"]


def _packed_once(model: GrammarMiniGPT) -> Packed:
    """The model's weights as the kernel reads them, packed anew where a parameter has changed."""
    return Packed.of(model, _packed)
