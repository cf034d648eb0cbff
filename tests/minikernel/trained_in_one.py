"""What the tests of the training in one launch share: a small text, and the kernel's launch on the emulator."""

from types import SimpleNamespace

import emulator
import numpy as np

from minikernel.model.nvrtc import source
from minikernel.model.train import layout
from minikernel.model.train.launch import EXPRESSION, SOURCES
from minikernel.model.train.tables import AdamW, tables
from minimodel.checkpoint import Checkpoint
from minimodel.corpus import TokenStream
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.port import port, torch_name

BLOCKS = 3  # of the GPU that the emulator stands for


def text(words, sentences=60, seed=3):
    """A stream of random sentences of 5 words, some words more frequent than others."""
    made = TokenStream.__new__(TokenStream)
    random = np.random.default_rng(seed)
    made.ids = np.where(random.random(5 * sentences) < 0.3, 1, random.integers(1, words, 5 * sentences))
    made.starts, made.bos = np.arange(0, 5 * sentences, 5), 0
    return made


def model_of(layers, words, positions, spread=0.2):
    """A NumPy model whose biases and norms are not those of the start."""
    model = NumpyMiniGPT.initialise(MiniGPTConfig(vocab_size=words, block_size=positions, n_layer=layers), seed=1)
    random = np.random.default_rng(5)
    for array in model.arrays.values():
        array += spread * random.standard_normal(array.shape).astype(np.float32)
    return model


def by_name(model, flat):
    """Views of a flat buffer by the parameters' names."""
    ends = np.cumsum([array.size for array in model.arrays.values()])
    pieces = np.split(flat, ends[:-1])
    return {name: piece.reshape(array.shape) for (name, array), piece in zip(model.arrays.items(), pieces, strict=True)}


def emulated(
    model, stream, phases, *, optimizer=None, seed=0, held_out=None, blocks=3, every=2, order=0, stop=0,
    operands="float32",
):  # fmt: skip
    """The kernel's launch on a CPU: what it leaves of everything that it writes; `model` stays as it is."""
    optimizer = optimizer or AdamW()
    config, phases = model.config, [layout.Phase(*phase) for phase in phases]
    made = tables(stream, phases, optimizer, seed, held_out)
    steps, tokens = len(made.rates), layout.tokens_of(phases, blocks)
    parameters = model.parameters.astype(np.float32)
    out = SimpleNamespace(
        parameters=parameters, packed=np.zeros(layout.packed_floats(config), np.float32),
        gradients=np.full_like(parameters, np.nan), mean=np.zeros_like(parameters),
        square=np.zeros_like(parameters), kept=np.full(layout.floats_of(config, tokens, blocks), np.nan, np.float32),
        ids=np.zeros(tokens, np.int32), counters=np.zeros(layout.TOLD + len(phases) * blocks, np.uint32),
        record=np.full(2 * steps + steps // every + 2, np.nan, np.float32), host=np.array([0, stop], np.int32),
    )  # fmt: skip
    numbers = (config.n_layer, config.vocab_size, config.block_size, stream.bos, tokens, len(phases), steps, every)
    emulator.Kernel(source(SOURCES[operands]), EXPRESSION).launch(
        blocks, layout.THREADS,
        [
            out.parameters, out.packed, out.gradients, out.mean, out.square, made.text, made.firsts, made.phases,
            made.rates, out.kept, out.ids, out.counters, out.record, out.host, *map(np.int32, numbers),
            *map(np.float32, (optimizer.beta_1, optimizer.beta_2, optimizer.clip)),
        ],
        shared_bytes=layout.shared_bytes(config), cluster=blocks, seed=order,
    )  # fmt: skip
    out.losses, out.norms = out.record[: 2 * steps].reshape(steps, 2).T
    out.held_out = out.record[2 * steps :]
    return out


def on_torch(model):
    """The PyTorch model of a NumPy model."""
    return port(Checkpoint(model.config, model.arrays, {}))[0]


def flat(model):
    """A PyTorch model's parameters in the order of the NumPy model's."""
    return np.concatenate([parameter.detach().cpu().numpy().ravel() for parameter in ordered(model)])


def ordered(model):
    """A PyTorch model's parameters as the config orders them."""
    parameters = dict(model.named_parameters())
    return [parameters[torch_name(name)] for name in model.config.shapes]
