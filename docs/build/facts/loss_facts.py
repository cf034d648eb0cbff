"""The figures of the head's loss that its concept page quotes: worked out from a GPU's measured limits."""

from pathlib import Path

from minilab.device import short_name
from minilab.files import read_json

# a head of a usual size: tokens of a step, width, words
TOKENS, WIDTH, WORDS = 8192, 768, 50257
BYTES = 2  # of a logit in bfloat16
PASSES = 2  # over the logits by whoever writes them once and reads them once
PLAIN_PASSES = (
    6  # by plain PyTorch: logits written; read and written as log-probabilities; read, written and read as gradients
)
PICO = 1e12  # picoseconds in a second


def loss_facts(record: Path) -> dict:
    """Collect what the page quotes.

    Args:
        record: folder of a GPU's record of stage 24.

    Returns:
        Sizes of a head in MiB; per logit in picoseconds, a product of some widths and a pass over memory; and the width
        at which a product takes as long as writing the logit and reading it again.
    """
    made = read_json(record / "ceilings.json")
    copy, rate = made["copy_gb_per_s"] * 1e9, made["bf16_tflop_per_s"] * 1e12
    moved = BYTES / copy * PICO
    return {
        "name": short_name(made["provenance"]["hardware"]["gpu"]["name"]),
        "tokens": TOKENS,
        "width": WIDTH,
        "words": WORDS,
        "logits_mib": TOKENS * WORDS * BYTES / 2**20,
        "states_mib": TOKENS * WIDTH * BYTES / 2**20,
        "weight_mib": WORDS * WIDTH * BYTES / 2**20,
        "pass_ps": moved,
        "products": [{"width": width, "ps": 2 * width / rate * PICO} for width in (64, 256, 1024, 4096)],
        "crossing": PASSES * moved / PICO * rate / 2,
    }
