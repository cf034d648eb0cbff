"""The floor of a training step, worked out from PyTorch's model and from what the kernel does on the emulator."""

import emulator
import pytest
import torch
from model_artefact import RECORD
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from trained_in_one import emulated, model_of, text
from training_artefact import training_artefact

from minikernel.model.train.layout import TOLD
from minikernel.report.model.step_floor import costs, floors
from minikernel.report.model.views import floor
from minilab.files import read_json
from minimodel import GrammarMiniGPT
from minimodel.model_config import MiniGPTConfig

CEILINGS = read_json(RECORD / "24/ceilings.json")
SHAPES = [(64, 16), (8, 128)]  # of the made-up artefact
NUMBER = 4  # bytes


def on(multiprocessors: int) -> dict:
    """The artefact of a GPU of so many."""
    made = training_artefact()
    for line in made["timelines"]:
        line["blocks"] = line["blocks"][:1] * multiprocessors
    return made


def counted(model: GrammarMiniGPT, length: int) -> tuple[int, int]:
    """FLOP of a sequence, to the loss and back: of the matrices, and of attention between all pairs of tokens."""
    ids = torch.zeros(1, length, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    found = counter.get_flop_counts()["Global"]
    return found[torch.ops.aten.mm] + found[torch.ops.aten.addmm], found[torch.ops.aten.bmm]


@pytest.mark.parametrize(("batch", "length"), SHAPES)
@pytest.mark.parametrize("multiprocessors", [132, 16])
def test_its_products_and_bytes_are_those_of_pytorchs_model(batch, length, multiprocessors):
    made = on(multiprocessors)
    model, least = GrammarMiniGPT(MiniGPTConfig(**made["config"])), floors(made, CEILINGS)[batch, length]
    rounds = {132: 1, 16: 4}[multiprocessors]  # of 64 tiles
    read = sum(one.weight.numel() for one in model.modules() if isinstance(one, torch.nn.Linear)) * NUMBER * 2
    assert least.weights == pytest.approx(rounds * read / 48 / made["cycles_per_us"])

    of_matrices, of_pairs = counted(model, length)
    attention = of_pairs * torch.ones(length, length).tril().mean().item()  # nothing is seen of what follows
    per_us = CEILINGS["tf32_tflop_per_s"] * 1e6 / 3
    if multiprocessors == 16:  # all are busy throughout, and the weights' gradients come on top
        products = batch * (of_matrices + attention) / per_us
    else:  # half of them have a tile, and of the three products a third is not theirs
        products = (of_matrices * 2 / 3 + attention) / (length // 16) * 132 / per_us
    assert least.products == pytest.approx(products)

    gradients, moments, parameters = (count * sum(one.numel() for one in model.parameters()) for count in (1, 4, 2))
    update = NUMBER * (gradients + moments + parameters) / CEILINGS["l2_gb_per_s"] / 1000
    assert least.update == pytest.approx(update)
    assert least.us == pytest.approx(3.55 / 200 + max(least.weights, least.products) + update + least.barriers)


@pytest.mark.skipif(emulator.COMPILER is None, reason="needs g++")
@pytest.mark.parametrize(("length", "clocks"), [(16, 0), (32, 297)])
def test_blocks_wait_for_each_other_as_often_as_the_kernel_does(length, clocks):
    (steps, layers, blocks), made = (2, 2, 3), on(132)
    out = emulated(model_of(layers, 24, 32), text(24), [(steps, 1, length)], blocks=blocks)
    # one more barrier comes before the first step; the last gradients wait for the tiles, which have their own counter
    meetings = (out.counters[0] // blocks - 1) / steps + (out.counters[2 + layers] == steps * length // 16)
    exchanges = out.counters[TOLD] / steps / layers
    made["config"]["n_layer"] = layers
    (row,) = [row for row in made["steps"] if (row["rung"], row["time"]) == ("one", 16)]
    row["time"] = length
    waits = meetings * costs()["grid_barrier_clocks"] + layers * exchanges * clocks
    assert floors(made, CEILINGS)[64, length].barriers == pytest.approx(waits / made["cycles_per_us"])


def test_of_a_gpu_whose_costs_nobody_measured_there_is_none():
    made = on(132)
    assert len(floors(made, CEILINGS)) == 2
    assert floor(made, 1, 16) == 12  # of a forward pass
    assert floors(made, None) == floors(made, CEILINGS | {"tf32_tflop_per_s": None}) == floors(on(0), CEILINGS) == {}
    made["provenance"]["device"] = "l4"
    assert (floors(made, CEILINGS), floor(made, 1, 16)) == ({}, None)
