"""The model: its corpus and tokenizer, the NumPy MiniGPT, the checkpoint format, the PyTorch port.

It knows how the model computes, learns and is kept, and proves the port. It knows no kernel and no compiler: the model
takes its softmax as an argument.
"""

import importlib

# Loaded on first use, so that the NumPy stage never imports torch.
_MODULES = {
    "Checkpoint": "minimodel.checkpoint",
    "GrammarMiniGPT": "minimodel.torch_minigpt",
    "MiniGPTConfig": "minimodel.model_config",
    "NumpyMiniGPT": "minimodel.numpy_minigpt",
    "Tokenizer": "minimodel.tokenizer",
    "load_checkpoint": "minimodel.opening",
    "load_port": "minimodel.opening",
    "save_checkpoint": "minimodel.checkpoint",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
