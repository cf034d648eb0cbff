"""Operations and bytes by the count, against what PyTorch counts and what the tensors hold."""

import torch
from model_artefact import SIZES
from torch.utils.flop_counter import FlopCounterMode

from minikernel.measure.model.cost import fewest_bytes, flop
from minimodel.torch_minigpt import GrammarMiniGPT


def test_the_products_are_pytorchs_but_for_those_of_the_future():
    model, ids = GrammarMiniGPT(SIZES), torch.zeros((3, 16), dtype=torch.int64)
    with FlopCounterMode(display=False) as counted, torch.no_grad():
        model.probabilities(ids)
    masked = 3 * 16 * 15 // 2 * 2 * SIZES.n_embd * 2 * SIZES.n_layer  # pairs with the future: scores, and their values
    assert flop(SIZES, 3, 16) == counted.get_total_flops() - masked


def test_bytes_are_parameters_ids_and_probabilities_once():
    model, ids = GrammarMiniGPT(SIZES), torch.zeros((2, 16), dtype=torch.int64)
    held = [*model.parameters(), ids, model.probabilities(ids)]
    assert fewest_bytes(SIZES, 2, 16, 4) == sum(one.numel() * one.element_size() for one in held)
