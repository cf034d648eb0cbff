"""MiniGPT's forward pass with whole sequences in a block (`forward.cu`): how a batch is spread; the launch."""

from ctypes import c_int
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from minikernel.model import nvrtc
from minikernel.model.block.units import PIECE_WORDS, unit_bytes, units
from minikernel.model.driver import Launch
from minikernel.model.fragments import HEADS, WIDTH
from minikernel.model.weights import NAMES, Weights, check_ids, weights_of
from minikernel.ops import softmax_cuda
from minimodel.torch_minigpt import GrammarMiniGPT

SOURCE = Path(__file__).parent / "forward.cu"
PRECISION = {torch.float32: "Float32", torch.bfloat16: "Bfloat16"}
ROWS, MOST_TILES = 16, 8  # tokens of a tile; tiles of a block
SHARED_BYTES = {1: 232448, 2: 115712}  # of a block, where one or two are on a multiprocessor of compute capability 9.0
SLOT_BYTES, MOST_SLOTS = 16, 8  # a slot's barriers
MOST_THREADS = 256, 384, 512  # of a block: the fewer, the more registers a thread may have
EVENTS = 1024  # rows of a block's timeline


class Plan(NamedTuple):
    """How a batch is spread: warps that share 16 tokens, and sequences of a block.

    Attributes:
        team: 1, 2 or 4.
        sequences: of a block.
        tiles: of a block, 16 tokens each.
        blocks: of a multiprocessor, among which its registers and shared memory are divided.
    """

    team: int
    sequences: int
    tiles: int
    blocks: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.team * self.tiles

    def slots(self, dtype: str) -> int:
        """Units of the ring of each member of a team: as many as there is room for, up to 8."""
        # A unit is 16 pieces and their tail: 8.6 KB in float32; the rest of a block's memory is the ring's.
        unit = unit_bytes(dtype) + SLOT_BYTES
        left = SHARED_BYTES[self.blocks] - self._fixed_bytes(dtype)
        return min(MOST_SLOTS, left // (unit * self.team))

    def shared_bytes(self, dtype: str) -> int:
        """Dynamic shared memory of a block, as forward.cu lays it out."""
        return self._fixed_bytes(dtype) + self.team * self.slots(dtype) * (unit_bytes(dtype) + SLOT_BYTES)

    def _fixed_bytes(self, dtype: str) -> int:
        cache = self.tiles * HEADS * 16 * PIECE_WORDS[dtype]  # keys and values: two pieces each
        # only teams add up anything between warps
        sent = self.tiles * self.team * ROWS * WIDTH * 4 if self.team > 1 else 0
        return cache + sent + 16 * self.team + 2 * self.threads


def plan(sequences: int, length: int, multiprocessors: int) -> Plan:
    """How to spread `sequences` of `length` tokens, at most 128.

    Where every multiprocessor has at least eight tiles, a warp has one to itself, and two blocks are on each; where
    there are fewer, teams of two or four keep its warps as busy. On an H200 in float32, two against four warps a
    tile took 52.1 and 44.3 us where a block has two tiles, (128, 32), but 65.6 and 67.7 us where it has four, (64, 64).
    """
    each, together = tiles_of(length), sequences_of(length)
    # tiles of a multiprocessor, were they spread evenly
    share = -(-sequences // together) * each / multiprocessors
    # A block holds whole sequences, since later tokens need the keys of earlier ones.
    wanted = min(max(each, int(share)), MOST_TILES) // each  # sequences, or tiles of several, of a block
    team = 1 if share >= MOST_TILES else 2 if share > 4 or wanted * each >= 4 else 4
    return Plan(team, wanted * together, wanted * each, 2 if team == 1 else 1)


def tiles_of(length: int) -> int:
    """Tiles of a sequence."""
    return -(-length // ROWS)


def sequences_of(length: int) -> int:
    """Sequences of a tile."""
    return max(ROWS // length, 1)


def expression(dtype: torch.dtype, spread: Plan, timed: bool = False) -> str:
    """The C++ name of the kernel for a plan."""
    # The kernel is compiled for few bounds of threads, not for each number: a bound decides the registers.
    threads = next(most for most in MOST_THREADS if spread.threads <= most)
    slots = spread.slots(NAMES[dtype])
    return (
        f"forward_block<{PRECISION[dtype]}, {spread.team}, {slots}, {threads}, {spread.blocks}, {str(timed).lower()}>"
    )


def instances() -> list[str]:
    """All kernels that a plan can ask for, as the tests compile them for a GPU that is not here."""
    # teams of four only where a block has fewer than four tiles, as `plan` decides
    tiles = {1: range(1, MOST_TILES + 1), 2: range(1, MOST_TILES + 1), 4: range(1, 4)}
    plans = [Plan(team, 1, of, 2 if team == 1 else 1) for team in tiles for of in tiles[team]]
    return sorted({expression(dtype, each) for each in plans for dtype in PRECISION})


def launch(
    weights: Weights, sequences: int, length: int, probabilities: bool, spread: Plan, stamps: Tensor | None = None
) -> Launch:
    """The kernel's launch for ids (B, T) int64 to out (B, T, V), both contiguous, on one GPU."""
    config, dtype = weights.config, weights.dtype
    # Packed once for each size of team: a team's members take turns in the units.
    units_on_gpu, of_head, bounded = weights.once(("block", spread.team), lambda: _on_device(weights, spread.team))
    sizes = (EVENTS, sequences, length, config.n_layer, config.vocab_size, spread.sequences)
    numbers = (*sizes, of_head, int(probabilities), int(bounded))
    return Launch(
        nvrtc.compiled(SOURCE, expression(dtype, spread, stamps is not None), weights.gpu), weights.gpu,
        -(-sequences // spread.sequences), spread.threads, spread.shared_bytes(NAMES[dtype]),
        [table.data_ptr() for table in (units_on_gpu, weights.tokens, weights.places)],
        [0 if stamps is None else stamps.data_ptr(), *map(c_int, numbers)],
    )  # fmt: skip


def timeline(model: GrammarMiniGPT, ids: Tensor, probabilities: bool = True) -> np.ndarray:
    """What the first thread of each block waited for and did.

    Returns:
        (blocks, EVENTS, 2) int64: (multiprocessor, nanoseconds at the start), (0, clocks at the start), then (code,
        clocks) for each span where it ended: 1 memory, 2 arithmetic, 3 waiting for other warps, plus 256 times the
        phase: 0 start, 1 keys and values, 2 attention, 3 feed-forward, 4 sum of the words' exponentials, 5 writing.
        Rows that were not used are 0.

    Raises:
        LabError: why the kernel does not take the model or the ids.
    """
    weights = weights_of(model)
    check_ids(weights, ids)
    spread = plan(len(ids), ids.shape[1], softmax_cuda.multiprocessors(weights.gpu))
    blocks = -(-len(ids) // spread.sequences)
    stamps = torch.zeros((blocks, EVENTS, 2), dtype=torch.int64, device=ids.device)
    out = torch.empty((*ids.shape, weights.config.vocab_size), dtype=weights.dtype, device=ids.device)
    launch(weights, len(ids), ids.shape[1], probabilities, spread, stamps)(ids.contiguous(), out)
    return stamps.cpu().numpy()


def _on_device(weights: Weights, team: int) -> tuple[Tensor, int, bool]:
    """The model's units on its GPU, how many of a member's are the head's, and whether the logits are bounded."""
    made = units(weights.config, weights.arrays, NAMES[weights.dtype], team)
    return torch.from_numpy(made.words.view(np.int32)).to(weights.device), made.of_head, made.bounded
