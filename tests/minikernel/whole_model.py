"""What the proofs of the forward pass in one kernel share: a model far from its start, its exact output, and errors."""

import copy

import numpy as np
import torch

from minimodel.numpy_minigpt import NumpyMiniGPT


def model_of(config, seed=1):
    """A NumPy model whose biases and norms are not those of the start, and which is far from uniform."""
    model = NumpyMiniGPT.initialise(config, seed=seed)
    model.parameters[:] = np.random.default_rng(seed).normal(0, 0.2, model.parameters.shape)
    return model


def exactly(model, ids, probabilities):
    """The model's logits or probabilities (B, T, V), float64."""
    logits = model.astype(np.float64).forward(ids)
    if not probabilities:
        return logits
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def widened(rounded):
    """bfloat16, held as uint16, as float32."""
    return (rounded.astype(np.uint32) << 16).view(np.float32)


def largest_error(output, model, ids, probabilities):
    """The largest error of a torch model's output against float64, in units of the port's contract."""
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(ids)
    exact = exact.softmax(-1) if probabilities else exact
    return ((output.double() - exact).abs() / (1e-5 + 1e-5 * exact.abs())).max().item()
