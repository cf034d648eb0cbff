"""Whole texts written by three rungs: one launch, torch.compile with a static cache and CUDA graphs, and eager.

The compiled writer has the layout of gpt-fast (github.com/meta-pytorch/gpt-fast): a step that takes one token of each
sequence, compiled once, and nothing is read back before the end.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from minikernel.measure.model.clocks import wait, wall_us
from minikernel.measure.model.figures import writing_figures
from minikernel.measure.model.names import COMPILE, EAGER, ONE
from minikernel.measure.model.rows import GenerateRow, Samples
from minikernel.measure.model.rungs import with_code_of_its_own
from minikernel.measure.noise import DUPLICATE
from minikernel.measure.timing import turns
from minikernel.reasons import Reason, of_exception
from minimodel.torch_minigpt import GrammarMiniGPT
from minimodel.writing.generate import generate as plain
from minimodel.writing.torch_writer import TorchWriter

WARM = 3  # texts before those that count: the second records a CUDA graph
Write = Callable[[Tensor, int], Tensor]  # prompts (B, given) int64, new_tokens -> tokens (B, new_tokens) int64


def writers(model: GrammarMiniGPT, sequences: int, positions: int) -> dict[str, Write]:
    """Every rung's greedy writer of texts that have up to `positions` tokens with their prompts, by name."""
    from minikernel.model.generate.launch import generate

    return {
        EAGER: lambda ids, new_tokens: torch.as_tensor(plain(model, ids, new_tokens)),
        COMPILE: compiled_writer(model, sequences, positions),
        ONE: lambda ids, new_tokens: generate(model, ids, new_tokens, fall_back=False),
    }


def compiled_writer(model: GrammarMiniGPT, sequences: int, positions: int, **options: Any) -> Write:
    """Greedy text by a compiled step; `options` are torch.compile's, CUDA graphs by default.

    It takes a prompt's tokens one by one too, as the one launch does.
    """
    writer = TorchWriter(model, sequences)
    for tensor in (tensor for pair in writer.cache for tensor in pair):
        torch._dynamo.mark_static_address(tensor)  # or no CUDA graph is made of what writes to it

    step = torch.compile(
        with_code_of_its_own(lambda ids, place: writer.forward(ids, place).argmax(-1)),
        **{"mode": "reduce-overhead", "fullgraph": True, "dynamic": False, **options},
    )
    # made beforehand: a tensor from a Python number is a copy to the device, at each token
    places = [torch.tensor([place], device=writer.device) for place in range(positions)]

    @torch.no_grad()
    def write(prompt: Tensor, new_tokens: int) -> Tensor:
        made, given = [], prompt.shape[1]
        newest = prompt[:, 0].contiguous()
        for place in range(given + new_tokens - 1):
            torch.compiler.cudagraph_mark_step_begin()
            # the graph's output is overwritten by its next replay
            after = step(newest, places[place]).clone()
            # the prompt's own token while there is one, whatever the model would have said
            newest = prompt[:, place + 1].contiguous() if place + 1 < given else after
            if place + 1 >= given:
                made.append(newest)
        return torch.stack(made, 1)

    return write


def time_writers(
    writers: dict[str, Write], prompt: Tensor, new_tokens: int, texts: int
) -> tuple[list[GenerateRow], dict[str, Reason]]:
    """Time every writer after the same prompts, in turn, one of them a second time: a whole text, and one of a token.

    Args:
        writers: name -> writer.
        prompt: (B, given) int64.
        new_tokens: that each writes, at least 2.
        texts: that are timed of each.

    Returns:
        A row for each writer, and why others are left out.
    """
    first_seconds: dict[str, float] = {}
    made: dict[str, Tensor] = {}
    reasons: dict[str, Reason] = {}
    for name, write in writers.items():
        began = time.perf_counter()
        try:
            write(prompt, new_tokens)
            wait()
            first_seconds[name] = time.perf_counter() - began
            # both kinds of text that are timed are warmed up
            for _ in range(WARM):
                write(prompt, 1)
                text = write(prompt, new_tokens).cpu()
        except Exception as failure:  # a kernel may refuse, a compiler may fail
            reasons[name] = of_exception(failure)
        else:
            made[name] = text
    if not made:
        return [], reasons
    twice = ONE if ONE in made else next(iter(made))
    sides = {**{name: writers[name] for name in made}, DUPLICATE: writers[twice]}
    samples: Samples = {name: [] for name in sides}
    first: Samples = {name: [] for name in sides}
    for order in turns(sides, texts):
        for name in order:
            samples[name].append(wall_us(partial(sides[name], prompt, new_tokens)))
            # Beside the whole text, so that both of a pair see the machine in one state.
            first[name].append(wall_us(partial(sides[name], prompt, 1)))
    rows: list[GenerateRow] = []
    for name, text in made.items():
        kept = (name, *(() if rows else (DUPLICATE,)))
        rows.append(
            {
                **writing_figures(name, twice, len(prompt), new_tokens, samples, first),
                "rung": name,
                "sequences": len(prompt),
                "dtype": "float32",
                "given": prompt.shape[1],
                "new_tokens": new_tokens,
                "same_tokens": (text == made.get(EAGER, text)).double().mean().item(),
                "first_call_seconds": first_seconds[name],
                "duplicated": twice,
                "samples_us": {side: samples[side] for side in kept},
                "first_samples_us": {side: first[side] for side in kept},
            }
        )
    return rows, reasons
