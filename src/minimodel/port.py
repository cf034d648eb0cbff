"""From the NumPy checkpoint to `GrammarMiniGPT` and back from its safetensors file, byte for byte.

Both models keep a linear layer's weight as (out, in), so the port is a renaming: no array is transposed,
cast or split. The file format is safetensors (github.com/huggingface/safetensors), which holds plain
arrays and no code; the model's sizes travel in its metadata.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from minilab import LabError
from minilab.files import write_bytes
from minimodel.checkpoint import Checkpoint
from minimodel.numpy_minigpt import MiniGPTConfig
from minimodel.torch_minigpt import GrammarMiniGPT

# PyTorch holds an embedding's table in a module's `weight`; every other array has one name on both sides.
RENAMED = {
    "token_embedding": "token_embedding.weight",
    "position_embedding": "position_embedding.weight",
}


def torch_name(numpy_name: str) -> str:
    """The name in `GrammarMiniGPT.state_dict()` of the checkpoint's array `numpy_name`."""
    return RENAMED.get(numpy_name, numpy_name)


def port(checkpoint: Checkpoint) -> tuple[GrammarMiniGPT, list[dict]]:
    """Build the PyTorch model from a NumPy checkpoint, in `eval()` mode, on CPU, float32.

    Returns:
        The model, and its mapping table as `compare_arrays` makes it.

    Raises:
        LabError: an array is missing, is not one of the model's, has another shape or dtype than the
            model's, or is not the same bytes after loading.
    """
    model = GrammarMiniGPT(checkpoint.config)
    # no copy: PyTorch reads NumPy's memory, and load_state_dict copies it into the parameters
    tensors = {torch_name(name): torch.from_numpy(array) for name, array in checkpoint.arrays.items()}
    _load(model, tensors, source="the checkpoint")
    # Proven after the fact rather than trusted: load_state_dict casts without a word.
    table = compare_arrays(model, checkpoint.arrays)
    changed = [row["torch_name"] for row in table if not row["byte_equal"]]
    if changed:
        raise LabError(
            f"Loading changed the bytes of {', '.join(changed)}; look for a cast or transposition in port()."
        )
    return model, table


def compare_arrays(model: GrammarMiniGPT, arrays: Mapping[str, np.ndarray]) -> list[dict]:
    """The mapping table: a row for each of the checkpoint's arrays.

    A row has `numpy_name`, `torch_name`, `shape`, `dtype`, and `byte_equal`: the model's tensor has the
    array's shape, dtype and bytes. `model` must hold every array's namesake.
    """
    state = {name: tensor.cpu().numpy() for name, tensor in model.state_dict().items()}
    return [
        {
            "numpy_name": name,
            "torch_name": torch_name(name),
            "shape": list(array.shape),
            "dtype": str(array.dtype),
            "byte_equal": same_bytes(array, state[torch_name(name)]),
        }
        for name, array in arrays.items()
    ]


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays agree in shape, dtype and every bit (so that -0.0 is not 0.0)."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def save_port(path: str | Path, model: GrammarMiniGPT) -> None:
    """Write the model's weights and sizes to a safetensors file, the same bytes for the same model.

    The metadata has the single key `config` because safetensors writes several in a random order.
    """
    # safetensors' own save_file makes a file that its owner alone may read
    write_bytes(path, save(model.state_dict(), metadata={"config": json.dumps(asdict(model.config))}))


def load_port(path: str | Path) -> GrammarMiniGPT:
    """Read a model that `save_port` wrote: `eval()` mode, CPU, float32.

    Raises:
        LabError: the file is missing or is not safetensors, has no readable `config` in its metadata, or
            lacks, misshapes or adds an array.
    """
    if not Path(path).is_file():
        raise LabError(f"{path} does not exist; build it with `snakemake {path}`.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise LabError(f"{path} is not a whole safetensors file ({error}); delete it and port again.") from None
    try:
        config = MiniGPTConfig(**json.loads(metadata["config"]))
    except (KeyError, TypeError, ValueError):
        raise LabError(f"{path} has no model sizes under `config` in its metadata; port again.") from None
    model = GrammarMiniGPT(config)
    _load(model, tensors, source=str(path))
    return model


def _load(model: GrammarMiniGPT, tensors: Mapping[str, Tensor], source: str) -> None:
    """Copy `tensors` into the model after checking names, shapes and dtypes; then `eval()`."""
    state = model.state_dict()
    for problem, names in (("lacks", state.keys() - tensors.keys()), ("adds", tensors.keys() - state.keys())):
        if names:
            raise LabError(
                f"{source} {problem} {', '.join(sorted(names))} against GrammarMiniGPT's arrays; "
                f"export the checkpoint again with the sizes it was trained with."
            )
    for name, tensor in tensors.items():
        wanted = state[name]
        if tensor.shape != wanted.shape or tensor.dtype != wanted.dtype:
            raise LabError(
                f"{name} in {source} is {tensor.dtype} {tuple(tensor.shape)}, and GrammarMiniGPT needs "
                f"{wanted.dtype} {tuple(wanted.shape)}; export the checkpoint again."
            )
    model.load_state_dict(tensors)
    model.eval()
