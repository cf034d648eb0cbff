"""What the training kernel reads: NumPy's rows and rates."""

import numpy as np
import pytest
from trained_in_one import text

from minikernel.model.train.layout import Phase
from minikernel.model.train.tables import AdamW, rates, tables
from minilab import LabError
from minimodel.optim import AdamW as Reference
from minimodel.optim import cosine_schedule

PHASES = [Phase(3, 4, 16), Phase(2, 2, 32)]


def test_a_steps_rows_begin_where_numpys_training_draws_them():
    stream, generator = text(40), np.random.default_rng(7)
    made = tables(stream, PHASES, AdamW(), 7, None)
    drawn = [stream.random_places(generator, phase.batch, phase.time) for phase in PHASES for _ in range(phase.steps)]
    assert made.firsts.tolist() == [row[0] for places in drawn for row in places]
    assert made.phases.tolist() == [[3, 4, 16, 0, 16], [2, 2, 32, 0, 16]]
    assert np.array_equal(made.text, stream.ids)


def test_held_out_rows_lie_behind_the_text_phase_by_phase():
    stream, held_out = text(40), text(40, sentences=31, seed=8)
    made = tables(stream, PHASES, AdamW(), 7, held_out)
    for number, length in enumerate((16, 32)):
        count, begin = made.phases[number, 3:]
        rows = made.text[made.firsts[begin : begin + count][:, None] + np.arange(length)]
        assert np.array_equal(rows, held_out.ids[held_out.consecutive_places(length)])
    assert sum(made.phases[:, 3]) + 16 == len(made.firsts)


def test_an_update_with_the_rates_is_numpys():
    settings = AdamW(learning_rate=0.1, final_learning_rate=0.01, warmup=2, epsilon=0.01, weight_decay=0.5)
    value = np.array([2.0])
    reference = Reference(value, [value], (settings.beta_1, settings.beta_2), settings.epsilon, settings.weight_decay)
    ours, mean, square = 2.0, 0.0, 0.0
    for step, (factor, added, shrink) in enumerate(rates(5, settings)):
        gradient = 0.3 - 0.2 * step
        mean = settings.beta_1 * mean + (1 - settings.beta_1) * gradient
        square = settings.beta_2 * square + (1 - settings.beta_2) * gradient**2
        ours = ours * shrink - factor * mean / (square**0.5 + added)
        rate = cosine_schedule(step, 5, 0.1, 0.01, 2)
        reference.step(np.array([gradient]), rate)
        assert ours == pytest.approx(value[0], rel=1e-6)


@pytest.mark.parametrize("held_out", [None, text(40, sentences=2)])
def test_a_text_shorter_than_a_row_is_refused(held_out):
    with pytest.raises(LabError, match="10 tokens do not fill a row of 32"):
        tables(text(40, sentences=2) if held_out is None else text(40), PHASES, AdamW(), 0, held_out)
