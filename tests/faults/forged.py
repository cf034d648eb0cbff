"""The kinds of things that come into the lab from outside: how one is forged, how it is read, and when that was right.

A reader returns whether what it accepted is right: it holds what the original holds, or all that its format promises
(finite weights of the claimed shapes, a fitting schema). It raises a LabError for what it refuses.
"""

import io
import json
import lzma
import math
import random
import struct
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import jsonschema
import numpy as np
import yaml
from lies import forged_model, stands
from mutations import (
    bytes_spoiled,
    json_bytes,
    npz_spoiled,
    safetensors_spoiled,
    value_spoiled,
    yaml_bytes,
    yaml_spoiled,
)
from PIL import Image

from minilab.config.check import check_config, read_schema
from minilab.config.options import as_the_schema_says
from minilab.files import read_object
from minilab.records.artefact import TABLE
from minilab.records.checksums import NAME, read_sums, write_sums
from minilab.records.inputs import look_at_inputs
from minilab.records.restore import restore
from minilab.records.store import content_sha256, read_artefact
from minilab.records.verify import verify
from minilab.site.contents import thumbnail
from minilab.user_code import load_function
from minilab.yaml_files import parse_yaml, read_yaml
from minimodel import MiniGPTConfig, NumpyMiniGPT, Tokenizer, load_checkpoint, load_port, save_checkpoint
from minimodel.checkpoint import _digest
from minimodel.port import port, save_port

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "results/recorded/h200"
LARGEST_RECORD = 300_000  # bytes of an artefact that is forged; checking a schema takes longer the larger it is
TOKENS = ["<pad>", "<bos>", "<unk>", "I", "."]
CONFIG = MiniGPTConfig(vocab_size=5, block_size=4, n_layer=1, n_head=2, n_embd=4)
KERNEL = b"import torch\n\n\ndef softmax(x):\n    return torch.softmax(x, -1)\n"
MODEL = b"from torch import nn, ones\n\n\ndef make():\n    return nn.Linear(2, 2), (ones(1, 2),)\n"


@dataclass(frozen=True)
class Kind:
    """One kind of input.

    Attributes:
        name: as the table names it.
        original: bytes that are right.
        forge: (random source, original) -> forged bytes.
        read: reads the forged file at a path; whether what was accepted is right.
        path: where the file lies, in the worker's folder.
    """

    name: str
    original: bytes
    forge: Callable[[random.Random, bytes], bytes]
    read: Callable[[Path], bool]
    path: str


def lab_folder(folder: Path) -> None:
    """Lay out what the readers look for in the working directory, and import what they import on first use."""
    for entry in TABLE:
        if entry.recompute is not None:
            resolve_name(entry.recompute)
    for name in ("src", "schemas", "scripts", "config.yaml"):
        (folder / name).symlink_to(ROOT / name)


def kinds() -> list[Kind]:
    """Every kind, the originals made anew."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint, ported = Path(folder, "a.npz"), Path(folder, "a.safetensors")
        save_checkpoint(checkpoint, NumpyMiniGPT.initialise(CONFIG, seed=0).arrays, CONFIG, TOKENS)
        save_port(ported, port(load_checkpoint(checkpoint))[0])
        npz, safetensors = checkpoint.read_bytes(), ported.read_bytes()
    config = (ROOT / "config.yaml").read_bytes()
    return [
        Kind("checkpoint", npz, lambda draw, data: npz_spoiled(draw, data, _digest), _checkpoint, "checkpoint.npz"),
        Kind("port", safetensors, safetensors_spoiled, _port, "minigpt.safetensors"),
        Kind("configuration", config, yaml_spoiled, _config, "other.yaml"),
        Kind("--config on the command line", config, _on_the_command_line, _given, "given.txt"),
        *_artefacts(),
        Kind("list of digests", (RECORD / NAME).read_bytes(), bytes_spoiled, _sums, f"record/{NAME}"),
        Kind("vocabulary", json_bytes({"tokens": TOKENS}), _json_spoiled, _vocabulary, "vocab.json"),
        Kind("picture", _picture(), _picture_spoiled, _thumbnail, "loss.png"),
        Kind("kernel file", KERNEL, bytes_spoiled, _function("kernel", "softmax"), "kernel.py"),
        Kind("compiled model", b"", forged_model, stands, "compiled.json"),
        Kind("model file", MODEL, bytes_spoiled, _function("model", "make"), "model.py"),
    ]


def _artefacts() -> list[Kind]:
    """Artefacts of the table of which there is a record: as results, and as records; packed ones too."""
    found = []
    at = {"device": "h200", "model": "minigpt", "kernel": "triton", "knob": "x"}
    for entry in (entry for entry in TABLE if entry.recorded):
        source = ROOT / entry.record(**at)
        if not source.exists() or source.stat().st_size > LARGEST_RECORD:
            continue
        packed = source.suffix == ".xz"
        data = lzma.decompress(source.read_bytes()) if packed else source.read_bytes()
        if len(data) <= LARGEST_RECORD:
            result = entry.path(**at)
            found.append(Kind("result", data, _artefact_spoiled, lambda path, p=result, d=data: _result(p, d), result))
        record = f"results/recorded/h200/{source.relative_to(RECORD)}"
        forge = _packed if packed else _artefact_spoiled
        found.append(Kind("record", source.read_bytes(), forge, lambda path, e=entry: _record(path, e), record))
    return found


def _json_spoiled(draw: random.Random, data: bytes) -> bytes:
    if draw.random() < 0.4:
        return bytes_spoiled(draw, data)
    return json_bytes(value_spoiled(draw, json.loads(data)))


def _artefact_spoiled(draw: random.Random, data: bytes) -> bytes:
    """Often with the digest of its content renewed, as a forger would."""
    if draw.random() < 0.4:
        return bytes_spoiled(draw, data)
    spoiled = value_spoiled(draw, json.loads(data))
    made = spoiled.get("provenance") if isinstance(spoiled, dict) else None
    if isinstance(made, dict) and draw.random() < 0.7:
        with suppress(UnicodeEncodeError, TypeError):
            made["content_sha256"] = content_sha256(spoiled)
    return json_bytes(spoiled)


def _packed(draw: random.Random, data: bytes) -> bytes:
    kind = draw.randrange(3)
    if kind == 0:
        return bytes_spoiled(draw, data)
    if kind == 1:  # inflates to thousands of times its size
        return _bomb(draw.choice((10**6, 10**8)))
    return lzma.compress(
        draw.choice((b"{}", b"null", b"[]", b"[" * 10**5, b"1e999", b'"\\ud800"', lzma.decompress(data)[:-9]))
    )


@cache
def _bomb(size: int) -> bytes:
    return lzma.compress(b'["' + b" " * size + b'"]', preset=0)


def _on_the_command_line(draw: random.Random, data: bytes) -> bytes:
    """A section as somebody types it, with every value a text, as Snakemake hands it on."""
    config = yaml.safe_load(data)
    name = draw.choice([key for key, value in config.items() if isinstance(value, dict)])
    return yaml_bytes({name: value_spoiled(draw, config[name])})


def _picture() -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").save(buffer, "PNG")
    return buffer.getvalue()


def _picture_spoiled(draw: random.Random, data: bytes) -> bytes:
    if draw.random() < 0.8:
        return bytes_spoiled(draw, data)
    width, height = draw.choice(((10**5, 10**5), (0, 0), (2**31, 1), (30_000, 5000)))
    head = b"IHDR" + struct.pack(">II", width, height) + data[24:29]
    return data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]


def _checkpoint(path: Path) -> bool:
    found = load_checkpoint(path)
    fits = {name: array.shape for name, array in found.arrays.items()} == found.config.shapes
    words = found.tokens is None or len(Tokenizer([*TOKENS[:3], *found.tokens[3:]])) == found.config.vocab_size
    return fits and words and all(a.dtype == np.float32 and np.isfinite(a).all() for a in found.arrays.values())


def _port(path: Path) -> bool:
    model = load_port(path)
    state = model.state_dict()
    look_at_inputs([str(path)])
    return all(tensor.isfinite().all() for tensor in state.values()) and model.config.n_layer <= 1


def _config(path: Path) -> bool:
    given = read_yaml(path)
    if not isinstance(given, dict):
        return True  # Snakemake refuses it
    check_config(given, read_schema("schemas/config.schema.yaml"))
    return _plausible(given)


def _given(path: Path) -> bool:
    try:
        texts = yaml.load(path.read_bytes().decode("utf-8", "replace"), yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return True  # Snakemake hands on a plain text
    config = parse_yaml(Path("config.yaml").read_text(encoding="utf-8"), "config.yaml")
    schema = read_schema("schemas/config.schema.yaml")
    for name, value in as_the_schema_says(texts, schema, schema).items():
        config[name] = {**config[name], **value} if isinstance(value, dict) else value
    check_config(config, read_schema("schemas/config.schema.yaml"))
    return _plausible(config)


def _plausible(config: dict) -> bool:
    """Whether an accepted configuration asks for nothing that cannot be: checked without the lab's own schema."""
    sizes = config["model"]
    shapes = [*config["bench"]["cuda"]["shapes"], *config["bench"]["cpu"]["shapes"], *config["contest"]["shapes"]]
    limits = [config[section]["time_limit_seconds"] for section in ("proof", "bench", "contest", "head", "autotune")]
    files = [entry["source"] for section in ("kernels", "models") for entry in config[section].values()]
    return (
        12 * sizes["n_layer"] * sizes["n_embd"] ** 2 <= 1 << 31
        and all(1024 <= math.prod(shape) <= 1 << 31 for shape in shapes)
        and all(math.isfinite(limit) and 0 < limit <= 604800 for limit in limits)
        and all(Path(file).is_file() for file in files)
        and all(isinstance(name, str) for section in ("kernels", "models") for name in config[section])
        and 0 <= config["training"]["seed"] < 1 << 32
    )


def _result(path: str, original: bytes) -> bool:
    config = parse_yaml(Path("config.yaml").read_text(encoding="utf-8"), "config.yaml")
    look_at_inputs([path])
    held = read_artefact(path, config)
    entry = next(entry for entry in TABLE if entry.match(path) is not None)
    schema = read_schema(entry.schema)
    fits = jsonschema.Draft202012Validator(schema).is_valid(held)
    return held == json.loads(original) or (fits and held["provenance"]["content_sha256"] == content_sha256(held))


def _record(path: Path, entry: object) -> bool:
    folder = Path("results/recorded/h200")
    (folder / NAME).unlink(missing_ok=True)
    write_sums(folder, [path])
    config = parse_yaml(Path("config.yaml").read_text(encoding="utf-8"), "config.yaml")
    verdict = verify(path, folder, config)
    held = restore(path, entry, folder, {"": ({}, {})}, "mark")
    return verdict.state in ("fresh", "stale", "altered") and held["restored"]["from"] == str(path)


def _sums(path: Path) -> bool:
    return all(len(digest) == 64 and name.isprintable() for name, digest in read_sums(path.parent).items())


def _vocabulary(path: Path) -> bool:
    read_object(path)  # as every job's inputs are
    return all(isinstance(token, str) for token in Tokenizer.load(path).tokens)


def _thumbnail(path: Path) -> bool:
    return thumbnail(path)[1] <= 400


def _function(kind: str, name: str) -> Callable[[Path], bool]:
    return lambda path: callable(load_function(kind, "forged", path, name))
