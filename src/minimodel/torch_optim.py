"""What PyTorch's AdamW is given of a model, so that it is the NumPy training's."""

from torch import nn


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """A model's parameters in AdamW's groups: matrices and embeddings decay, biases and LayerNorms do not."""
    parameters = list(model.parameters())
    return [
        {"params": [each for each in parameters if each.ndim == 2], "weight_decay": weight_decay},
        {"params": [each for each in parameters if each.ndim != 2], "weight_decay": 0.0},
    ]
