"""The checkpoint format: one .npz with every array and a metadata entry, and a loader that trusts nothing.

The entry `metadata` is JSON as bytes: format version, the model's shape and activation, the vocabulary, each
array's shape and dtype, and a SHA-256 digest over all of that and the arrays' bytes. No pickles, no dates:
the same arrays make the same file, byte for byte.
"""

import hashlib
import json
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from minilab import LabError
from minilab.files import replacing
from minimodel.model_config import MiniGPTConfig, check_shapes
from minimodel.numpy_minigpt import NumpyMiniGPT

FORMAT_VERSION = 1
# little-endian whatever the machine, so that a file means the same everywhere
DTYPE = np.dtype("<f4")
METADATA_KEYS = {
    "format_version", "config", "activation", "layer_norm_epsilon", "tokens", "arrays", "digest",
}  # fmt: skip


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint: the model's shape, its float32 arrays by name, and the metadata as stored."""

    config: MiniGPTConfig
    arrays: dict[str, np.ndarray]
    metadata: dict

    @property
    def tokens(self) -> list[str] | None:
        """The vocabulary in id order, or None when the file was saved without one."""
        return self.metadata["tokens"]


def save_checkpoint(
    path: str | Path,
    arrays: dict[str, np.ndarray],
    config: MiniGPTConfig | None = None,
    tokens: list[str] | None = None,
) -> dict:
    """Write a checkpoint and return its metadata.

    Args:
        arrays: float32 arrays under the names of `MiniGPTConfig.shapes`.
        config: the model's shape; without it, it is read off the arrays, with the default number of heads.
        tokens: the vocabulary in id order.

    Raises:
        LabError: the arrays do not make a valid checkpoint; nothing is written then.
    """
    config = config or _config_of(arrays)
    check_shapes(arrays, config.shapes)
    ordered = {name: np.ascontiguousarray(arrays[name]) for name in config.shapes}
    metadata = {
        "format_version": FORMAT_VERSION,
        "config": asdict(config),
        "activation": NumpyMiniGPT.activation,
        "layer_norm_epsilon": NumpyMiniGPT.layer_norm_epsilon,
        "tokens": None if tokens is None else list(tokens),
        "arrays": {name: {"shape": list(a.shape), "dtype": a.dtype.name} for name, a in ordered.items()},
    }
    metadata["digest"] = _digest(metadata, ordered)
    # what would be refused when it is read is not written
    _check(metadata, ordered)
    encoded = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
    with replacing(path) as temporary:
        np.savez(temporary, metadata=encoded, **ordered)  # type: ignore[arg-type]
    return metadata


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read and verify a checkpoint.

    Raises:
        LabError: the file is missing, truncated, of another format version, holds pickled objects, misses an
            array or has one too many, one of another shape or dtype, NaN or infinite weights, or a digest
            that differs.
    """
    try:
        contents = _read(Path(path))
        metadata = _metadata(contents)
        _check(metadata, contents)
    except LabError as error:
        raise LabError(
            f"{path} is refused as a checkpoint: {str(error).rstrip('.')}; "
            "delete it and build it again with `snakemake --cores 4 results/17/checkpoint.npz`."
        ) from None
    return Checkpoint(MiniGPTConfig(**metadata["config"]), contents, metadata)


def _read(path: Path) -> dict[str, np.ndarray]:
    """Every entry of the file."""
    try:
        # A pickle can run code while it is loaded; an array of numbers cannot.
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise LabError("it is not an .npz archive")
        with file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise LabError("the file does not exist") from None
    except (ValueError, EOFError, OSError, KeyError, zipfile.BadZipFile) as error:
        if "pickle" in str(error).lower():
            raise LabError("it holds pickled objects, which could run code when loaded") from None
        raise LabError("the file is truncated or damaged") from None


def _metadata(contents: dict[str, np.ndarray]) -> dict:
    """Take the metadata entry out of `contents` and parse it."""
    try:
        metadata = json.loads(contents.pop("metadata").tobytes())
        version = metadata["format_version"]
    except (KeyError, TypeError, ValueError):
        raise LabError("it has no readable metadata") from None
    if version != FORMAT_VERSION:
        raise LabError(f"its format version is {version!r} where {FORMAT_VERSION} is needed")
    # an unknown key would be one that some other version acts on, and this one would pass over in silence
    if set(metadata) != METADATA_KEYS:
        odd = min(set(metadata) ^ METADATA_KEYS)
        raise LabError(f"its metadata {'misses' if odd in METADATA_KEYS else 'has the unknown entry'} {odd!r}")
    return metadata


def _check(metadata: dict, arrays: dict[str, np.ndarray]) -> None:
    """Hold the arrays against the metadata, in the order in which a fault is easiest to understand."""
    try:
        config = MiniGPTConfig(**metadata["config"])
    except TypeError:
        raise LabError(f"its config {metadata['config']!r} is not the model's") from None
    check_shapes(arrays, config.shapes)
    for name, array in arrays.items():
        if array.dtype != DTYPE:
            raise LabError(f"the array {name!r} has dtype {array.dtype} where float32 is needed")
        if not np.isfinite(array).all():
            raise LabError(f"the array {name!r} holds NaN or infinite values")
    tokens = metadata["tokens"]
    if tokens is not None and (not isinstance(tokens, list) or len(tokens) != config.vocab_size):
        raise LabError(f"its vocabulary does not have the {config.vocab_size} tokens that the model has")
    # after shapes, dtypes and words, which say more: a wrong digest only tells that something is wrong
    if metadata["digest"] != _digest(metadata, arrays):
        raise LabError("its digest differs from its contents")
    for name in ("activation", "layer_norm_epsilon"):
        if metadata[name] != getattr(NumpyMiniGPT, name):
            raise LabError(f"its {name} is {metadata[name]!r}, the model's is {getattr(NumpyMiniGPT, name)!r}")


def _digest(metadata: dict, arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 over the metadata (without the digest itself) and each array's name and bytes, sorted by name."""
    described = {key: value for key, value in metadata.items() if key != "digest"}
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name in sorted(arrays):
        # the zero byte keeps name and bytes apart: no other pair of them gives the same sequence
        digest.update(name.encode() + b"\0" + np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def _config_of(arrays: dict[str, np.ndarray]) -> MiniGPTConfig:
    try:
        (vocab_size, n_embd), (block_size, _) = (
            arrays[name].shape for name in ("token_embedding", "position_embedding")
        )
    except KeyError as error:
        raise LabError(f"the array {error} is missing.") from None
    n_layer = sum(name.endswith("attention.qkv.weight") for name in arrays)
    return MiniGPTConfig(vocab_size, block_size, n_layer=n_layer, n_embd=n_embd)
