"""AdamW, the schedule and clipping, held against independent formulations."""

import itertools
import math

import numpy as np
import pytest

from minimodel.optim import AdamW, clip_gradients, cosine_schedule


def test_adamw_follows_the_published_update_rule():
    generator = np.random.default_rng(0)
    parameters = generator.normal(size=12)
    matrix, expected = parameters[:8].reshape(2, 4), parameters.copy()
    optimiser = AdamW(parameters, [matrix], betas=(0.8, 0.95), epsilon=1e-3, weight_decay=0.3)
    decay = np.array([0.3] * 8 + [0.0] * 4)
    mean = square = np.zeros(12)
    for t, rate in enumerate((0.1, 0.05, 0.2), start=1):
        gradients = generator.normal(size=12)
        mean = 0.8 * mean + 0.2 * gradients
        square = 0.95 * square + 0.05 * gradients**2
        corrected = mean / (1 - 0.8**t), square / (1 - 0.95**t)
        expected = expected - rate * decay * expected - rate * corrected[0] / (np.sqrt(corrected[1]) + 1e-3)
        optimiser.step(gradients, rate)
        np.testing.assert_allclose(parameters, expected, rtol=1e-12)


def test_adamw_agrees_with_pytorch():
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(1)
    parameters = generator.normal(size=10)
    theirs = torch.nn.Parameter(torch.from_numpy(parameters.copy()))
    peer = torch.optim.AdamW([theirs], lr=0.01, betas=(0.9, 0.99), weight_decay=0.1)
    optimiser = AdamW(parameters, [parameters], betas=(0.9, 0.99), weight_decay=0.1)
    for _ in range(5):
        gradients = generator.normal(size=10)
        theirs.grad = torch.from_numpy(gradients)
        peer.step()
        optimiser.step(gradients, 0.01)
    np.testing.assert_allclose(parameters, theirs.detach().numpy(), rtol=1e-12)


def test_a_step_leaves_the_gradients_as_they_are():
    gradients = np.array([1.0, -2.0])
    AdamW(np.ones(2), []).step(gradients, 0.1)
    assert gradients.tolist() == [1.0, -2.0]


def test_the_schedule_warms_up_peaks_and_ends_where_it_should():
    rates = [cosine_schedule(step, 101, peak=1.0, final=0.1, warmup=10) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[10] == 1.0
    assert rates[55] == pytest.approx(0.55)
    assert rates[-1] == pytest.approx(0.1)
    assert all(a > b for a, b in itertools.pairwise(rates[10:]))


def test_a_schedule_without_warmup_starts_at_the_peak():
    assert cosine_schedule(0, 5, peak=1.0, final=0.0, warmup=0) == 1.0


def test_long_gradients_are_shortened_to_the_limit_and_short_ones_left():
    gradients = np.array([3.0, 4.0])
    assert clip_gradients(gradients, 1.0) == 5.0
    np.testing.assert_allclose(gradients, [0.6, 0.8], rtol=1e-15)
    assert math.isclose(clip_gradients(gradients, 2.0), 1.0)
    np.testing.assert_allclose(gradients, [0.6, 0.8], rtol=1e-15)
