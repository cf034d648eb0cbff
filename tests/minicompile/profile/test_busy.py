"""What else the machine did is measured from the system's own counters."""

from pathlib import Path

import pytest

from minicompile.profile import busy


def test_work_of_others_and_steal_are_shares_of_all_processors_time():
    # user, nice, system, idle, iowait, irq, softirq, steal
    spent = [300, 0, 100, 500, 50, 0, 0, 50]
    assert busy.shares(spent, own=150.0) == (0.25, 0.05)
    assert busy.shares(spent, own=900.0) == (0.0, 0.05)  # ticks are coarse: no share is below nothing


def test_the_counters_of_the_block_alone_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stat = tmp_path / "stat"
    stat.write_text("cpu 1000 0 0 1000 0 0 0 0 0 0\ncpu0 1 1 1 1\n")
    monkeypatch.setattr(busy, "STAT", stat)
    with busy.watched() as found:
        stat.write_text("cpu 1600 0 0 1300 0 0 0 100 0 0\ncpu0 1 1 1 1\n")
    assert found["others_share"] == pytest.approx(0.6, abs=0.05)  # this process had next to none of it
    assert found["steal_share"] == pytest.approx(0.1)
    assert found["involuntary_switches"] >= 0
    assert found["seconds"] > 0


def test_a_system_that_does_not_tell_is_not_guessed_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(busy, "STAT", tmp_path / "none")
    with busy.watched() as found:
        pass
    assert (found["others_share"], found["steal_share"]) == (None, None)
