"""Training the NumPy MiniGPT, judged against the limit that the grammar itself sets.

A short-sequence warm-up (after Li et al. 2022, "The Stability-Efficiency Dilemma"): the first steps see many short
rows, in which grammar is learned cheaply; the last ones see rows of block_size, which train the late
positions and teach the model to look past the sentences before.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
from threadpoolctl import threadpool_limits

from minilab import LabError
from minilab.progress import progress
from minimodel.corpus import TokenStream
from minimodel.grammar import Grammar
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.optim import AdamW, clip_gradients, cosine_schedule
from minimodel.tokenizer import Tokenizer

logger = logging.getLogger("minilab")


class HeldOut:
    """Held-out rows of `block_size` tokens and what the grammar itself expects of each of them.

    Attributes:
        block_size: tokens in a row.
        entropy: mean over the targets of the exact entropy of the next word given its sentence so far: the
            cross-entropy that the best possible model has on average. In nats.
        surprisal: mean of -log p(word) under the grammar, over the same targets: what that model scores on
            the very words that came. In nats.
    """

    def __init__(self, stream: TokenStream, tokenizer: Tokenizer, grammar: Grammar, block_size: int):
        self.block_size, self._stream = block_size, stream
        places = stream.consecutive_places(block_size)
        self.inputs, self.targets = stream.rows(places)
        # (words, 2): log-probability and entropy under the grammar itself; exact, so that the bar is no estimate
        scores = np.array(list(grammar.score(tokenizer.tokens[index] for index in stream.ids)))
        self.entropy = float(scores[places, 1].mean())
        self.surprisal = float(-scores[places, 0].mean())

    def cross_entropy(self, model: NumpyMiniGPT, time: int | None = None, tokens: int = 1024) -> float:
        """Score the model on the held-out text: mean cross-entropy over all targets, in nats.

        Args:
            time: tokens in a row, at most block_size, which it is unless told. A model that has only seen shorter rows
                knows no later position, and is scored on rows as long as it was trained on.
            tokens: about as many are scored at once.
        """
        time = time or self.block_size
        whole = time == self.block_size
        inputs, targets = (
            (self.inputs, self.targets) if whole else self._stream.rows(self._stream.consecutive_places(time))
        )
        # small batches: probabilities of all the held-out text at once would be rows x T x V floats
        batch = max(1, tokens // targets.shape[1])
        starts = range(0, len(inputs), batch)
        losses = [model.loss(inputs[i : i + batch], targets[i : i + batch]) for i in starts]
        # Summed in float64 and divided once: the bar is a percent or two, and rounding must be no part of it.
        return float(sum(loss.sum(dtype=np.float64) for loss in losses) / targets.size)

    def excess_percent(self, cross_entropy: float) -> float:
        """How far `cross_entropy` lies above the limit."""
        return 100 * (cross_entropy / self.limit - 1)

    @property
    def limit(self) -> float:
        """The smaller of entropy and surprisal, which differ by the luck of the draw only."""
        return min(self.entropy, self.surprisal)


def steps_of(phases: list[dict]) -> Iterator[tuple[int, int]]:
    """(batch, time) of every training step, phase after phase."""
    for phase in phases:
        for _ in range(phase["steps"]):
            yield phase["batch"], phase["time"]


def train(config: MiniGPTConfig, stream: TokenStream, held_out: HeldOut, training: dict) -> tuple[NumpyMiniGPT, dict]:
    """Train a model from scratch; the same arguments on the same machine give the same arrays.

    Args:
        stream: the training text.
        training: the `training` section of the config.

    Returns:
        The model, and the record of the run: training losses by step; held-out losses from step 0 on, each scored on
        rows of the length that is trained there; seconds, tokens.

    Raises:
        LabError: the loss is no longer finite, or ends more than `max_excess_percent` above the limit.
    """
    model = NumpyMiniGPT.initialise(config, training["seed"])
    optimiser = AdamW(
        model.parameters,
        # matrices decay, biases and LayerNorm's vectors do not, as in GPT-2's training by nanoGPT
        [array for array in model.arrays.values() if array.ndim == 2],
        betas=(training["beta_1"], training["beta_2"]),
        weight_decay=training["weight_decay"],
    )
    generator = np.random.default_rng(training["seed"])
    shapes = list(steps_of(training["phases"]))
    if (longest := max(length for _, length in shapes)) > config.block_size:
        raise LabError(
            f"a phase of training has rows of {longest} tokens, block_size is {config.block_size}; shorten its time."
        )
    losses, held_out_losses, tokens = [], [], 0
    started = reported = time.perf_counter()
    # The number of threads decides how BLAS splits its sums, and so the last bits of the result.
    with threadpool_limits(training["threads"]):
        # before the first step: about log V, or something is wrong with the data
        held_out_losses.append(_scored(held_out, model, 0, shapes[0][1]))
        for step, (batch, length) in enumerate(shapes):
            rate = cosine_schedule(
                step, len(shapes), training["learning_rate"], training["final_learning_rate"], training["warmup"]
            )
            loss, _ = model.loss_and_gradients(*stream.rows(stream.random_places(generator, batch, length)))
            norm = clip_gradients(model.gradients, training["clip"])
            # Looked at before the step: the parameters are still those of the last good one.
            if not np.isfinite(loss + norm):
                raise LabError(f"the loss is no longer finite at step {step + 1}; lower training.learning_rate.")
            optimiser.step(model.gradients, rate)
            tokens += batch * length

            last = step + 1 == len(shapes)
            if last or (step + 1) % training["evaluate_every"] == 0:
                held_out_losses.append(_scored(held_out, model, step + 1, length))
            if last or step % training["record_every"] == 0:
                losses.append({"step": step + 1, "loss": loss, "gradient_norm": norm, "learning_rate": rate})
            if last or time.perf_counter() - reported > training["report_seconds"]:
                reported = time.perf_counter()
                left = (reported - started) * (len(shapes) - step - 1) / (step + 1)
                logger.info(
                    "step %d of %d: loss %.4f, held-out %.4f, grammar %.4f, %.0f tokens/s, %.0f s left",
                    step + 1, len(shapes), loss, held_out_losses[-1]["loss"], held_out.entropy,
                    tokens / (reported - started), left,
                    extra=progress(step + 1, len(shapes)),
                )  # fmt: skip
        # judged at full length, whatever the last phase trained
        cross_entropy = held_out_losses[-1]["loss"] if length == held_out.block_size else held_out.cross_entropy(model)
    seconds = time.perf_counter() - started
    excess = held_out.excess_percent(cross_entropy)
    if excess > training["max_excess_percent"]:
        raise LabError(
            f"held-out cross-entropy {cross_entropy:.4f} ended {excess:.2f} % above the grammar's entropy "
            f"{held_out.limit:.4f}, more than training.max_excess_percent = {training['max_excess_percent']}; "
            "train for more steps."
        )
    record = {
        "config": asdict(config),
        "training": training,
        "losses": losses,
        "held_out_losses": held_out_losses,
        "held_out_tokens": int(held_out.targets.size),
        "held_out_cross_entropy": cross_entropy,
        "conditional_entropy": held_out.entropy,
        "grammar_surprisal": held_out.surprisal,
        "excess_percent": excess,
        "seconds": seconds,
        "tokens": tokens,
        "tokens_per_second": tokens / seconds,
    }
    return model, record


def _scored(held_out: HeldOut, model: NumpyMiniGPT, step: int, length: int) -> dict:
    return {"step": step, "time": length, "loss": held_out.cross_entropy(model, length)}
