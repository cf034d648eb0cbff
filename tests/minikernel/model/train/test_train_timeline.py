"""What the training writes down of its last step: every block, its spans in order; no number changes by it."""

import pytest
from trained_in_one import BLOCKS, flat, model_of, on_torch, text

from minikernel.measure.model.stamps import blocks_of
from minikernel.model.train import launch

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
