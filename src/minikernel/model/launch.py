"""`generate`: a whole text in one launch, where the model fits into a cluster of blocks; elsewhere, torch.

The kernel is `generate.cu`, for GPUs with thread-block clusters (compute capability 9.0 and later). The weights are
packed once for each model, and again when one of them has changed.
"""

import weakref
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from minikernel.model.packing import BLOCKS, THREADS, check_fits, embedding, packed, shared_bytes
from minikernel.ops import softmax_cuda
from minilab import LabError
from minimodel.port import torch_name
from minimodel.torch_minigpt import GrammarMiniGPT
from minimodel.writing import generate as writing
from minimodel.writing.sampling import Sampling

SOURCE = "../model/generate.cu"
GREEDY = Sampling()


class Packed(NamedTuple):
    """A model's weights on its GPU: as the kernel reads them, both embeddings, and what they were packed from."""

    weights: Tensor  # (BLOCKS, floats of a block) float32
    tokens: Tensor  # (V, d) float32, each row without its mean, as in `places`
    places: Tensor  # (block_size, d) float32
    versions: tuple


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
        check_takes(model)
    except LabError:
        if not fall_back:
            raise
        return torch.as_tensor(writing.generate(model, prompt, new_tokens, sampling), device=device)
    return write(model, torch.as_tensor(prompt, device=device), new_tokens, sampling)


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
    written = torch.empty((len(prompt), new_tokens), dtype=torch.int64, device=prompt.device)
    if not new_tokens:
        return written
    size, device = model.config, prompt.get_device()
    with torch.cuda.device(device), torch.no_grad():
        weights = _packed_once(model)
        kernel = softmax_cuda.compiled(SOURCE, expression(model), device)
        stream = softmax_cuda.stream_of(torch._C._cuda_getCurrentRawStream(device))
        prompt, logits = prompt.contiguous(), 0 if last_logits is None else last_logits.data_ptr()
        arguments = (
            weights.weights.data_ptr(), weights.tokens.data_ptr(), weights.places.data_ptr(),
            prompt.data_ptr(), written.data_ptr(), logits,
            np.int32(prompt.shape[1]), np.int32(new_tokens), np.float32(sampling.temperature),
            np.int32(min(sampling.top_k or size.vocab_size, size.vocab_size)), np.uint64(sampling.seed),
        )  # fmt: skip
        kernel((BLOCKS * len(prompt),), (THREADS,), arguments, shared_mem=shared_bytes(size), stream=stream)
    return written


def expression(model: GrammarMiniGPT) -> str:
    """The C++ name of the kernel for a model's sizes."""
    return f"write_text<{model.config.n_layer}, {model.config.vocab_size}, {model.config.block_size}>"


def instances() -> list[str]:
    """The kernel for the lab's own model, as the tests compile it for a GPU that is not here."""
    return ["write_text<4, 600, 128>"]


def _packed_once(model: GrammarMiniGPT) -> Packed:
    """The model's weights as the kernel reads them, packed anew where a parameter has changed."""
    parameters = dict(model.named_parameters())
    versions = tuple((parameter.data_ptr(), parameter._version) for parameter in parameters.values())
    found = _packed.get(model)
    if found is None or found.versions != versions:
        arrays = {name: parameters[torch_name(name)].detach().cpu().numpy() for name in model.config.shapes}
        tables = (
            packed(model.config, arrays),
            *(embedding(arrays[f"{kind}_embedding"]) for kind in ("token", "position")),
        )
        weights, tokens, places = (torch.from_numpy(table).to(model.lm_head.weight.device) for table in tables)
        found = _packed[model] = Packed(weights, tokens, places, versions)
    return found
