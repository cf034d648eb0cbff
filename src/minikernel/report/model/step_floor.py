"""What a training step in one launch takes at least: argued from how the kernel divides it, and from costs that were
measured apart on the same GPU.

Each part needs what the one before has made: tokens on their way to the loss and back, AdamW, and blocks that wait for
one another. Weights' gradients count where all products together take longer than a block's, since blocks without
tokens can sum them meanwhile; what is no product never counts. So a step may well take longer than its floor.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path

import yaml

from minikernel.measure.training.names import ONE
from minikernel.model.train.layout import ROWS
from minimodel.model_config import MiniGPTConfig

COSTS = Path(__file__).parent / "data/kernel_costs.yaml"
FLOAT = 4  # bytes
# An update reads gradient, both moments and the parameter, and writes all but the gradient.
UPDATE_FLOATS = 7
TF32_PRODUCTS = 3  # for one of float32's accuracy
# On the way to the loss a product has one matrix product, on the way back one more for its input's gradient.
BOTH_WAYS = 2
# all tokens' parts are there for the last gradients; the norm is; the new weights are
GRID_BARRIERS = 3
LAYER_EXCHANGES = 2  # of a sequence's tiles: keys and values to the loss, queries and gradients back


@dataclass(frozen=True)
class Floor:
    """The parts of a step's floor, in microseconds.

    Attributes:
        launch: a step's share of the one launch.
        weights: a block reads all matrices from the L2 cache, on each way of its tokens.
        products: of the tokens of a block at its share of the tensor cores' rate, or of all tokens, weights' gradients
            included, at the whole rate; the longer of the two.
        update: what AdamW reads and writes, at the L2 cache's rate.
        barriers: the blocks' waiting for one another.
    """

    launch: float
    weights: float
    products: float
    update: float
    barriers: float

    @property
    def us(self) -> float:
        """All of it; a block can read weights while it multiplies, so that of these two the longer counts."""
        return self.launch + max(self.weights, self.products) + self.update + self.barriers


def floors(made: dict, ceilings: dict | None) -> dict[tuple[int, int], Floor]:
    """(batch, time) -> the floor of a step; none for a GPU whose costs were not measured apart.

    Args:
        made: `training.json`.
        ceilings: `ceilings.json` of the same GPU.
    """
    multiprocessors = max((len(line["blocks"]) for line in made["timelines"] if line["rung"] == ONE), default=0)
    if made["provenance"]["device"] != costs()["device"] or not multiprocessors:
        return {}
    return dict(_floors(made, ceilings, multiprocessors)) if ceilings and ceilings["tf32_tflop_per_s"] else {}


@cache
def costs() -> dict:
    """What launches, waits and reads cost on one GPU."""
    return yaml.safe_load(COSTS.read_text())


def _floors(made: dict, ceilings: dict, multiprocessors: int) -> Iterator[tuple[tuple[int, int], Floor]]:
    config, cost, clocks = MiniGPTConfig(**made["config"]), costs(), made["cycles_per_us"]
    shapes = config.shapes
    matrices = sum(prod(shape) for name, shape in shapes.items() if len(shape) == 2 and "embedding" not in name)
    flop_per_us = ceilings["tf32_tflop_per_s"] * 1e6 / TF32_PRODUCTS
    update = UPDATE_FLOATS * FLOAT * sum(map(prod, shapes.values())) / (ceilings["l2_gb_per_s"] * 1e3)
    for row in made["steps"]:
        if row["rung"] != ONE:
            continue
        batch, time = row["batch"], row["time"]
        tiles = time // ROWS  # of a sequence
        rounds = -(-batch // (multiprocessors // tiles))
        # queries by keys and probabilities by values, each with two more on the way back; a token sees half of the row
        attention = 6 * config.n_layer * config.n_embd * (time + 1) / 2
        of_block = 2 * (BOTH_WAYS * matrices + attention) * ROWS * rounds / (flop_per_us / multiprocessors)
        of_all = 2 * ((BOTH_WAYS + 1) * matrices + attention) * batch * time / flop_per_us
        exchange = min(clocks for blocks, clocks in cost["exchange_clocks"].items() if blocks >= tiles)
        waits = GRID_BARRIERS * cost["grid_barrier_clocks"] + (tiles > 1) * LAYER_EXCHANGES * config.n_layer * exchange
        yield (
            (batch, time),
            Floor(
                launch=cost["empty_launch_us"] / row["in_a_row"],
                weights=BOTH_WAYS * FLOAT * matrices * rounds / (cost["cache_bytes_per_clock"] * clocks),
                products=max(of_block, of_all),
                update=update,
                barriers=waits / clocks,
            ),
        )
