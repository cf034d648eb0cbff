"""The swap: a softmax kernel takes the place of `F.softmax` in the model, and the prediction must stay.

The demo prompt runs through the port with both, on the same device, and with `F.softmax` on CPU as the
path that everybody can check. A probability may move by rounding; the most probable word may not.
"""

import os
from collections.abc import Callable, Collection
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
import yaml
from torch import Tensor
from torch.nn import functional as F

from minilab import LabError
from minilab.device import is_cpu, torch_device
from minimodel.tokenizer import UNK, Tokenizer
from minimodel.torch_minigpt import GrammarMiniGPT

Softmax = Callable[[Tensor], Tensor]

# How far a probability may move, in absolute terms and relative to itself. The second is there because a
# kernel that returns zeros moves each of 600 near-equal probabilities by little more than a thousandth.
TOLERANCE = 1e-3
TINY = torch.finfo(torch.float32).tiny  # keeps a probability that underflowed from dividing by zero
TOP = 5


def past_simple_forms(lexicon: str | Path) -> set[str]:
    """The past-simple forms of all verbs in a lexicon (YAML, the format of data/lexicon.yaml).

    Raises:
        LabError: the file has no verbs with a `past` form.
    """
    try:
        frames = yaml.safe_load(Path(lexicon).read_text())["verbs"]
        return {verb["past"] for verbs in frames.values() for verb in verbs}
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        raise LabError(f"{lexicon} has no verbs with a past form; give the lexicon of the corpus.") from None


def kernel_for(device: str, name: str, entry: dict) -> tuple[Softmax, str]:
    """The kernel to swap in on a device, and what executes it there.

    On a CPU, a kernel written in Python is run in Triton's interpreter where Triton is installed; CUDA C
    cannot run there at all, and `F.softmax` stays. For the interpreter this sets `TRITON_INTERPRET`, which
    Triton reads as kernels are defined: call it before anything imports them.

    Args:
        device: hardware slug.
        name: the kernel's name in the configuration.
        entry: its entry there, `source` and `function`.

    Returns:
        The softmax over the last axis, and `cuda`, `triton-interpreter` or `F.softmax`.
    """
    if is_cpu(device):
        if not (entry["source"].endswith(".py") and find_spec("triton")):
            return partial(F.softmax, dim=-1), "F.softmax"
        os.environ["TRITON_INTERPRET"] = "1"
    from minikernel.ops.ladder.table import load_kernel  # only here: the fallback needs neither Triton nor CUDA

    return load_kernel(name, entry), "triton-interpreter" if is_cpu(device) else "cuda"


def swap_softmax(
    model: GrammarMiniGPT,
    tokenizer: Tokenizer,
    prompt: str,
    past_simple: Collection[str],
    kernel: Softmax,
    device: str,
) -> dict:
    """Predict the word after `prompt` with `F.softmax`, then with `kernel`, and compare.

    Args:
        model: the port; moved to the device and back, its `softmax` left as it was.
        tokenizer: of the vocabulary that the model was trained on.
        prompt: words of that vocabulary, the beginning of a sentence.
        past_simple: the past-simple verb forms, to tell whether the predicted words are such.
        kernel: the softmax to swap in, on (..., V) float32 tensors of the device.
        device: hardware slug.

    Returns:
        `cpu`, `before` and `after`, each with its `top` five words and `all_past_simple`; the differences
        `after_to_before` and `after_to_cpu`; `top1_changed`; the `probabilities` of all words; `contract`.

    Raises:
        LabError: the kernel moves a probability by more than `TOLERANCE`, or changes the first word; the
            vocabulary is not the model's; a word of the prompt is not in it.
    """
    # (1, T): the words of the prompt behind <bos>
    ids = torch.tensor([_encode(prompt, tokenizer, model.config.vocab_size)])
    reference = partial(F.softmax, dim=-1)
    target = "cpu" if is_cpu(device) else torch_device(device)
    # Three passes: the CPU's F.softmax, which anybody can check; the device's; and the device's with the kernel. So a
    # difference is either the device's or the kernel's.
    cpu = _next_word(model, ids, reference, "cpu")
    before = _next_word(model, ids, reference, target)
    after = _next_word(model, ids, kernel, target)
    report = {
        "cpu": _top_words(cpu, tokenizer, past_simple),
        "before": _top_words(before, tokenizer, past_simple),
        "after": _top_words(after, tokenizer, past_simple),
        **compared(cpu, before, after),
        "probabilities": {"cpu": cpu.tolist(), "before": before.tolist(), "after": after.tolist()},
        "contract": {"max_difference": TOLERANCE, "top1_unchanged": True},
    }
    # Written as "not within", so that NaN, which compares false with everything, is refused.
    references = {"after_to_before": "F.softmax's on the same device", "after_to_cpu": "the CPU path's"}
    for path, name in references.items():
        if not all(value <= TOLERANCE for value in report[path].values()):
            raise LabError(
                f"After the swap the probabilities for {prompt!r} differ from {name} by up to "
                f"{report[path]['max_abs_difference']:.3g} (relative: "
                f"{report[path]['max_relative_difference']:.3g}), beyond {TOLERANCE:g}; the kernel is wrong."
            )
    if report["top1_changed"]:
        first, swapped = (report[path]["top"][0]["word"] for path in ("before", "after"))
        raise LabError(
            f"The swap changes the word after {prompt!r} from {first!r} to {swapped!r}; the kernel is wrong."
        )
    return report


def compared(cpu: Tensor, before: Tensor, after: Tensor) -> dict:
    """How far the swap moves the probabilities (V,): `after_to_before`, `after_to_cpu`, `top1_changed`."""
    return {
        "after_to_before": _difference(after, before),
        "after_to_cpu": _difference(after, cpu),
        "top1_changed": bool(after.argmax() != before.argmax() or after.argmax() != cpu.argmax()),
    }


def recompute(artefact: dict) -> dict:
    """Compute again what follows from all probabilities: those of the most probable words, and the differences."""
    vectors = {side: torch.tensor(p, dtype=torch.float64) for side, p in artefact["probabilities"].items()}
    top = {
        side: {"top": [{"probability": value} for value in p.topk(len(artefact[side]["top"])).values.tolist()]}
        for side, p in vectors.items()
    }
    return {**top, **compared(**vectors)}


def _encode(prompt: str, tokenizer: Tokenizer, vocab_size: int) -> list[int]:
    """The prompt's ids, <bos> in front; refuses a foreign vocabulary and unknown words."""
    if len(tokenizer) != vocab_size:
        raise LabError(
            f"The vocabulary has {len(tokenizer)} words and the model {vocab_size}; give the vocabulary that "
            f"the model was trained on."
        )
    ids = tokenizer.encode(prompt, bos=True)
    if tokenizer.tokens.index(UNK) in ids:
        raise LabError(f"The prompt {prompt!r} has a word that is not in the vocabulary; use the corpus' words.")
    return ids


@torch.no_grad()
def _next_word(model: GrammarMiniGPT, ids: Tensor, softmax: Softmax, target: str) -> Tensor:
    """Probabilities (V,), on CPU in float64, of the word after `ids` (1, T)."""
    original = model.softmax
    try:
        model.softmax = softmax
        return model.to(target).probabilities(ids.to(target))[0, -1].cpu().double()
    finally:
        model.softmax = original
        # the model is the caller's, and lies where it lay whatever the kernel does
        model.to("cpu")


def _top_words(probabilities: Tensor, tokenizer: Tokenizer, past_simple: Collection[str]) -> dict:
    """The most probable words, most probable first, and whether all of them are past-simple verbs."""
    values, indices = probabilities.topk(min(TOP, len(probabilities)))
    words = [tokenizer.decode([index]) for index in indices.tolist()]
    top = [
        {"word": word, "probability": value, "past_simple": word in past_simple}
        for word, value in zip(words, values.tolist(), strict=True)
    ]
    return {"top": top, "all_past_simple": all(row["past_simple"] for row in top)}


def _difference(a: Tensor, b: Tensor) -> dict[str, float]:
    """Largest |a - b|, absolute and relative to `b`; a NaN in either makes it NaN."""
    distance = (a - b).abs()
    return {
        "max_abs_difference": distance.max().item(),
        "max_relative_difference": (distance / b.clamp_min(TINY)).max().item(),
    }
