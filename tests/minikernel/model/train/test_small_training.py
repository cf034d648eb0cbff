"""Each way of training once, as small as it goes: what `tests/sanitize.sh` looks at on a GPU."""

import numpy as np
import pytest
import torch
from trained_in_one import flat, model_of, on_torch, text

from minikernel.model.train import graph, launch

DEVICE = "cuda"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("operands", ["float32", "bfloat16"])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_small_training_has_the_same_bits_in_one_launch_and_in_three_a_step(monkeypatch, operands, layers):
    # a sanitizer sees launches better than what a graph replays
    monkeypatch.setattr(graph, "_captured", lambda launches: launches)
    stream, held_out, ends = text(24), text(24, sentences=20, seed=8), []
    for launches in (launch.ONE, launch.GRAPH):
        model = on_torch(model_of(layers, 24, 32)).to(DEVICE)
        trained = launch.train(
            model, stream, [(2, 2, 16), (1, 2, 32)], held_out=held_out, evaluate_every=2, operands=operands,
            launches=launches,
        )  # fmt: skip
        ends.append((flat(model), np.array(trained.losses), trained.held_out))
    (one, losses, told), (other, found, said) = ends
    assert np.array_equal(one, other)
    assert np.array_equal(losses, found)
    assert told == said
    assert np.isfinite(losses).all()
