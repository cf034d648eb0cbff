"""What the training writes down of its last step: every block, its spans in order; no number changes by it."""

import pytest
import torch
from trained_in_one import BLOCKS, flat, model_of, on_torch, text

from minikernel.measure.model.stamps import blocks_of
from minikernel.model.train import launch

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
KINDS = {"memory": 1, "arithmetic": 2, "waiting": 3}


@pytest.mark.parametrize("launches", [launch.ONE, launch.GRAPH])
def test_every_block_writes_down_its_last_step(gpu, monkeypatch, launches):
    monkeypatch.setattr(launch, "WATCHED", 2)
    model, plain, stream = on_torch(model_of(1, 24, 32)), on_torch(model_of(1, 24, 32)), text(24)
    blocks = blocks_of(launch.timeline(model, stream, 1, 32, launches=launches))
    parts = [{code // 256 for code in block["codes"]} for block in blocks]
    tiles, others = (2, BLOCKS - 2) if launches == launch.ONE else (2, 2 * BLOCKS)
    assert len(blocks) == tiles + others
    assert sum({6, 7, 8} <= each for each in parts) == tiles  # to the loss and back
    assert all(9 in each or 10 in each or {6, 7, 8} == each for each in parts)
    assert {code % 256 for block in blocks for code in block["codes"]} <= set(KINDS.values())
    assert all(cycles > 0 for block in blocks for cycles in block["cycles"])
    # two tiles of a sequence wait for each other on the way back, if not on the way to the loss
    launch.train(plain, stream, [(2, 1, 32)], seed=0, launches=launches)
    assert (flat(model) == flat(plain)).all()


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("launches", [launch.ONE, launch.GRAPH])
def test_on_a_gpu_every_multiprocessor_writes_down_its_last_step(launches):
    models, stream = [on_torch(model_of(2, 300, 128, spread=0.05)).cuda() for _ in range(2)], text(300, sentences=400)
    blocks = blocks_of(launch.timeline(models[0], stream, 8, 64, launches=launches))
    launch.train(models[1], stream, [(launch.WATCHED, 8, 64)], seed=0, launches=launches)
    assert (flat(models[0]) == flat(models[1])).all()
    many = torch.cuda.get_device_properties(0).multi_processor_count
    # 32 have a tile, and of the graph each launch has its own blocks
    assert len(blocks) == (many if launches == launch.ONE else 32 + 2 * many)
    assert launches == launch.GRAPH or len({block["sm"] for block in blocks}) == many
    assert sum({6, 7, 8} <= {code // 256 for code in block["codes"]} for block in blocks) == 32
    assert all(cycles > 0 for block in blocks for cycles in block["cycles"])
