"""Checkpoints and ports from anywhere: looked at before they are loaded, so that no claim costs more than its file.

`minimodel.checkpoint` and `minimodel.port` say what the files mean and verify every array; records of measurements
depend on them. Here is what stands in front of both: sizes, dtypes and shapes are read from the files' headers alone
and held against the model's before an array or a layer is made. `load_checkpoint` and `load_port` are the public
ones; every job of the workflow has its inputs looked at too (`minilab.records.inputs`).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minilab import LabError
from minilab.archives import Claimed, npz_claims, safetensors_claims
from minilab.files import parse_json
from minimodel import checkpoint
from minimodel.checkpoint import Checkpoint
from minimodel.model_config import MiniGPTConfig, check_shapes

if TYPE_CHECKING:
    from minimodel.torch_minigpt import GrammarMiniGPT

FLOAT32 = np.dtype("<f4")
LONGEST_TOKEN = 200  # characters
EMBEDDINGS = ("token_embedding", "position_embedding")  # PyTorch keeps each in a module's `weight`


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Look at a checkpoint and load it, as `minimodel.checkpoint.load_checkpoint` does.

    Raises:
        LabError: as there; and the file claims what it does not hold, its members are compressed or encrypted, or its
            tokens are no words.
    """
    look_at_checkpoint(path)
    return checkpoint.load_checkpoint(path)


def load_port(path: str | Path) -> "GrammarMiniGPT":
    """Look at a port and load it, as `minimodel.port.load_port` does: `eval()` mode, CPU, float32.

    Raises:
        LabError: as there; and the file claims what it does not hold, or holds NaN or infinite weights.
    """
    from minimodel import port  # it imports torch

    look_at_port(path)
    return port.load_port(path)


def look_at_checkpoint(path: str | Path) -> None:
    """Hold what a checkpoint claims against its bytes and the model's shapes; nothing of a claimed size is made.

    Raises:
        LabError: one sentence with the path, the reason and what to do.
    """
    try:
        claims, metadata = npz_claims(path)
        if not isinstance(metadata, dict):
            raise LabError("it has no readable metadata")
        if metadata.get("format_version") != checkpoint.FORMAT_VERSION:
            return  # whoever loads it says so
        # Sizes before contents: a file that claims a million layers must not make a list of their names.
        _fits(_config(metadata.get("config"), claims), claims)
        tokens = metadata.get("tokens")
        words = tokens is None or (isinstance(tokens, list) and all(map(_is_word, tokens)))
        if not words or (tokens is not None and len(set(tokens)) != len(tokens)):
            raise LabError("its vocabulary is no list of words, each once")
    except LabError as error:
        raise LabError(
            f"{path} is refused as a checkpoint: {str(error).rstrip('.')}; "
            "delete it and build it again with `snakemake --cores 4 results/17/checkpoint.npz`."
        ) from None


def look_at_port(path: str | Path) -> None:
    """Hold what a port claims against its bytes and the model's shapes, and its weights against infinity.

    Raises:
        LabError: one sentence with the path, the reason and what to do.
    """
    try:
        claims, metadata, begins = safetensors_claims(path)
        # The port's names as NumPy has them, so that one table of shapes serves both files.
        named = {_numpy_name(name): claimed for name, claimed in claims.items()}
        try:
            sizes = parse_json(metadata["config"].encode())
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LabError("it has no model sizes under `config` in its metadata") from None
        _fits(_config(sizes, named), named)
        for name, begin in begins.items():
            count = int(np.prod(claims[name].shape))
            # array by array, each from its place in the file: never the whole file at once
            if not np.isfinite(np.fromfile(path, FLOAT32, count, offset=begin)).all():
                raise LabError(f"the array {name!r} holds NaN or infinite values")
    except LabError as error:
        raise LabError(
            f"{path} is refused as a port: {str(error).rstrip('.')}; delete it and port again with "
            "`snakemake --cores 4 results/24/minigpt.safetensors`."
        ) from None


def _numpy_name(name: str) -> str:
    table = name.removesuffix(".weight")
    return table if table in EMBEDDINGS else name


def _is_word(token: object) -> bool:
    return isinstance(token, str) and 0 < len(token) <= LONGEST_TOKEN


def _config(sizes: Any, claims: dict[str, Claimed]) -> MiniGPTConfig:
    """The model's sizes, once the layers that they claim are as many as there are arrays for."""
    try:
        config = MiniGPTConfig(**sizes)
    except TypeError:
        raise LabError(f"its config {sizes!r} is not the model's") from None
    # How many arrays a layer has follows from the shapes of models with
    # one and with two, so that no number of them is written down here.
    one, two = (len(MiniGPTConfig(1, 1, layers, 1, 1).shapes) for layers in (1, 2))
    needed = one + (two - one) * (config.n_layer - 1)
    if needed != len(claims):
        raise LabError(f"its {config.n_layer} layers need {needed} arrays, and it holds {len(claims)}")
    return config


def _fits(config: MiniGPTConfig, claims: dict[str, Claimed]) -> None:
    check_shapes(claims, config.shapes)  # type: ignore[arg-type]  # of an array it asks for the shape alone
    for name, claimed in claims.items():
        if claimed.dtype != FLOAT32:
            raise LabError(f"the array {name!r} has dtype {claimed.dtype} where float32 is needed")
